package nodetest

import (
	"os"
	"path/filepath"
	"testing"
)

// CheckDocs compares files below docs, by their names, with the texts that a command of this module gives for them. With update it
// writes them.
func CheckDocs(t *testing.T, update bool, texts map[string]string) {
	t.Helper()
	for file, want := range texts {
		path := filepath.Join("..", "..", "docs", file)
		if update {
			if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		have, err := os.ReadFile(path)
		if err != nil || string(have) != want {
			t.Errorf("docs/%s is not what the help texts say (%v): run make docs", file, err)
		}
	}
}

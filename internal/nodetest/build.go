package nodetest

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"runtime/debug"
)

// Build builds the program kstorage in a folder, with the tags of this one and with the race detector if this one
// has it, and returns its file.
func Build(folder string) (string, error) {
	args := []string{"build", "-o", folder}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "-tags" || s.Key == "-race" {
				args = append(args, s.Key+"="+s.Value)
			}
		}
	}
	out, err := exec.Command("go", append(args, "kstorage/cmd/kstorage")...).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("go %v: %w\n%s", args, err, out)
	}
	return filepath.Join(folder, program), err
}

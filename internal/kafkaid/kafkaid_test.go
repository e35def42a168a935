package kafkaid

import (
	"bytes"
	"crypto/rand"
	"math"
	mathrand "math/rand/v2"
	"regexp"
	"testing"

	"github.com/google/uuid"
)

func TestParse(t *testing.T) {
	metadataTopic := uuid.UUID{15: 1}
	tests := []struct {
		name, text string
		want       uuid.UUID
		ok         bool
	}{
		{"metadata topic id", "AAAAAAAAAAAAAAAAAAAAAQ", metadataTopic, true},
		{"padded", "AAAAAAAAAAAAAAAAAAAAAQ==", metadataTopic, true},
		{"last character with bits that mean nothing", "AAAAAAAAAAAAAAAAAAAAAR", metadataTopic, true},
		{"zero", "AAAAAAAAAAAAAAAAAAAAAA", uuid.Nil, true},
		{"empty", "", uuid.Nil, false},
		{"15 bytes", "AAAAAAAAAAAAAAAAAAAA", uuid.Nil, false},
		{"one pad character", "AAAAAAAAAAAAAAAAAAAAAQ=", uuid.Nil, false},
		{"18 bytes", "AAAAAAAAAAAAAAAAAAAAAAAA", uuid.Nil, false},
		{"longer than Kafka decodes", "AAAAAAAAAAAAAAAAAAAAAAAAA", uuid.Nil, false},
		{"standard alphabet", "AAAAAAAAAAAAAAAAAAAA+/", uuid.Nil, false},
		{"line break", "AAAAAAAAAAA\nAAAAAAAAAAQ", uuid.Nil, false},
		{"hex form", "00000000-0000-0000-0000-000000000001", uuid.Nil, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Parse(tt.text)
			if got != tt.want || (err == nil) != tt.ok {
				t.Errorf("Parse(%q) = %v, %v; want %v, ok %v", tt.text, got, err, tt.want, tt.ok)
			}
		})
	}
}

func TestCanonical(t *testing.T) {
	for text, want := range map[string]bool{
		"AAAAAAAAAAAAAAAAAAAAAQ":   true,
		"AAAAAAAAAAAAAAAAAAAAAR":   false,
		"AAAAAAAAAAAAAAAAAAAAAQ==": false,
		"my-cluster":               false,
	} {
		if got := Canonical(text); got != want {
			t.Errorf("Canonical(%q) = %v, want %v", text, got, want)
		}
	}
}

func TestReserved(t *testing.T) {
	low := func(n int64) (id uuid.UUID) {
		for i := range 8 {
			id[15-i] = byte(uint64(n) >> (8 * i))
		}
		return id
	}
	for n, want := range map[int64]bool{0: true, 1: true, 99: true, 100: false, -1: true, math.MinInt64: true} {
		if got := Reserved(low(n)); got != want {
			t.Errorf("Reserved(low half %d) = %v, want %v", n, got, want)
		}
	}
	if Reserved(uuid.UUID{0: 1}) {
		t.Error("an id with a high half is not reserved")
	}
}

// Case 1 of the field reports: one id in 64 began with a dash and broke the command line.
func TestNewMakesUsableIDs(t *testing.T) {
	form := regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_-]{21}$`)
	random := mathrand.NewChaCha8([32]byte{1})
	for range 100_000 {
		id, err := New(random)
		if err != nil {
			t.Fatal(err)
		}
		if s := String(id); !form.MatchString(s) || Reserved(id) {
			t.Fatalf("New gave %q", s)
		}
	}
}

func TestNewSkipsDash(t *testing.T) {
	dash := bytes.Repeat([]byte{0xf8}, 16) // its text form begins with '-'
	fine := bytes.Repeat([]byte{0x11}, 16)
	id, err := New(bytes.NewReader(append(dash, fine...)))
	if err != nil || id[0] != 0x11 {
		t.Errorf("New = %s, %v; want the second draw", String(id), err)
	}
	if _, err := New(bytes.NewReader(dash)); err == nil {
		t.Error("New hides that its source of randomness ended")
	}
}

func FuzzParse(f *testing.F) {
	f.Add("AAAAAAAAAAAAAAAAAAAAAQ")
	f.Add("AAAAAAAAAAAAAAAAAAAAAQ==")
	f.Fuzz(func(t *testing.T, s string) {
		id, err := Parse(s)
		if err != nil {
			return
		}
		if again, err := Parse(String(id)); err != nil || again != id {
			t.Errorf("Parse(String(%v)) = %v, %v", id, again, err)
		}
	})
}

func BenchmarkNew(b *testing.B) {
	for b.Loop() {
		if _, err := New(rand.Reader); err != nil {
			b.Fatal(err)
		}
	}
}

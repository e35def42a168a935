package crashdisk

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"pgregory.net/rapid"

	"kstorage/internal/disk"
)

const seeds = 200 // of Restart; among them the two extremes

// content returns what a file holds, with 0 for zero bytes, or "none" if there is no such file.
func content(d *Disk, name string) string {
	b, err := d.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return "none"
	}
	if err != nil {
		return err.Error()
	}
	return strings.ReplaceAll(string(b), "\x00", "0")
}

// outcomes restarts the disk with many seeds and counts what see finds.
func outcomes(d *Disk, see func(*Disk) string) map[string]int {
	found := map[string]int{}
	for seed := range uint64(seeds) {
		found[see(d.Restart(seed))]++
	}
	return found
}

// script runs steps on a new disk: "mkdir d", "create d/a", "append d/a", "write d/a text", "extend d/a 00", "cut d/a x" (by and to one
// byte for each of the text), "sync d/a", "syncdata d/a", "close d/a", "rename d/a d/b", "remove d/a", "syncdir d". It ends at the
// first error.
func script(d *Disk, text string) error {
	files := map[string]disk.File{}
	for line := range strings.SplitSeq(text, "; ") {
		f := append(strings.Fields(line), "")
		var err error
		switch f[0] {
		case "mkdir":
			err = d.MkdirAll(f[1], 0o755)
		case "create":
			files[f[1]], err = d.Create(f[1], 0o644)
		case "append":
			files[f[1]], err = d.OpenAppend(f[1])
		case "cut":
			err = files[f[1]].Truncate(int64(len(f[2])))
		case "extend":
			err = files[f[1]].Extend(len(f[2]))
		case "syncdata":
			err = files[f[1]].SyncData()
		case "write":
			_, err = files[f[1]].Write([]byte(f[2]))
		case "sync":
			err = files[f[1]].Sync()
		case "close":
			err = files[f[1]].Close()
		case "rename":
			err = d.Rename(f[1], f[2])
		case "remove":
			err = d.Remove(f[1])
		case "syncdir":
			err = d.SyncDir(f[1])
		default:
			err = errors.New("no such step: " + line)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func TestRestart(t *testing.T) {
	tests := []struct {
		name, script string
		file         string   // whose content is looked at
		want         []string // all that may be found
		lost, kept   string   // what is found at the extremes
	}{
		{"neither synced", "create a; write a xy", "a", []string{"none", "", "x", "xy", "0", "00", "x0"}, "none", "xy"},
		{"only the name synced", "create a; write a xy; syncdir .", "a", []string{"", "x", "xy", "0", "00", "x0"}, "", "xy"},
		{"only the content synced", "create a; write a xy; sync a", "a", []string{"none", "xy"}, "none", "xy"},
		{"both synced", "create a; write a xy; sync a; syncdir .", "a", []string{"xy"}, "xy", "xy"},
		{"written to after the sync", "create a; write a x; sync a; syncdir .; write a yz", "a", []string{"x", "xy", "xyz", "x0", "x00", "xy0"}, "x", "xyz"},
		{"two writes are torn in order", "create a; syncdir .; write a xy; write a z", "a", []string{"", "x", "xy", "xyz", "0", "00", "000", "x0", "x00", "xy0"}, "", "xyz"},
		{"emptied", "create a; write a xy; sync a; syncdir .; create a", "a", []string{"xy", ""}, "xy", ""},
		{"emptied and written anew", "create a; write a xy; sync a; syncdir .; create a; write a 1", "a", []string{"xy", "", "1", "0"}, "xy", "1"},
		{"emptied, written anew, synced", "create a; write a xy; sync a; syncdir .; create a; write a 1; sync a", "a", []string{"1"}, "1", "1"},
		{"cut", "create a; write a xyz; sync a; syncdir .; cut a x", "a", []string{"xyz", "x"}, "xyz", "x"},
		{"cut, synced", "create a; write a xyz; sync a; syncdir .; cut a x; syncdata a", "a", []string{"x"}, "x", "x"},
		{"cut and written to", "create a; write a xyz; sync a; syncdir .; cut a x; write a 12", "a", []string{"xyz", "x", "x1", "x12", "x0", "x00", "x10"}, "xyz", "x12"},
		{"written to, cut, written to", "create a; write a x; sync a; syncdir .; write a yz; cut a xy; write a 1", "a",
			[]string{"x", "xy", "xyz", "xy1", "x0", "x00", "xy0"}, "x", "xy1"},
		{"cut twice", "create a; write a xyz; sync a; syncdir .; cut a xy; cut a x", "a", []string{"xyz", "xy", "x"}, "xyz", "x"},
		{"reopened, written to after the sync", "create a; write a x; close a; append a; syncdata a; syncdir .; write a y", "a", []string{"x", "xy", "x0"}, "x", "xy"},
		{"extended", "create a; sync a; syncdir .; extend a 00", "a", []string{"", "0", "00"}, "", "00"},
		{"extended and written to", "create a; sync a; syncdir .; extend a 000; write a x", "a", []string{"", "0", "00", "000", "x", "x0", "x00"}, "", "x00"},
		{"extended, synced, written to", "create a; extend a 00; write a x; sync a; syncdir .; write a yz", "a",
			[]string{"x", "x0", "x00", "xy", "xy0", "xyz"}, "x", "xyz"},
		{"extended, cut", "create a; write a x; extend a 00; sync a; syncdir .; cut a x", "a", []string{"x", "x0", "x00"}, "x", "x"},
		{"extended, cut, synced", "create a; write a x; extend a 00; syncdir .; cut a x; sync a", "a", []string{"x"}, "x", "x"},
		{"removed", "create a; sync a; syncdir .; remove a", "a", []string{"", "none"}, "", "none"},
		{"removed, synced", "create a; sync a; syncdir .; remove a; syncdir .", "a", []string{"none"}, "none", "none"},
		{"the folder is not synced in its parent", "mkdir d; create d/a; write d/a x; sync d/a; syncdir d", "d/a", []string{"none", "x"}, "none", "x"},
		{"nor is its parent", "mkdir d/e; create d/e/a; write d/e/a x; sync d/e/a; syncdir d/e; syncdir d", "d/e/a", []string{"none", "x"}, "none", "x"},
		{"all folders are synced", "mkdir d/e; create d/e/a; write d/e/a x; sync d/e/a; syncdir d/e; syncdir d; syncdir .", "d/e/a", []string{"x"}, "x", "x"},
		{"a folder's sync makes no content durable", "mkdir d; create d/a; write d/a x; syncdir d; syncdir .", "d/a", []string{"", "x", "0"}, "", "x"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := New()
			if err := script(d, tt.script); err != nil {
				t.Fatal(err)
			}
			see := func(d *Disk) string { return content(d, tt.file) }
			found := outcomes(d, see)
			for _, want := range tt.want {
				if found[want] == 0 {
					t.Errorf("%q was never found in %v", want, found)
				}
				delete(found, want)
			}
			if len(found) > 0 {
				t.Errorf("found %v, which cannot be", found)
			}
			if got := see(d.Restart(Lost)); got != tt.lost {
				t.Errorf("Lost: %q, want %q", got, tt.lost)
			}
			if got := see(d.Restart(Kept)); got != tt.kept {
				t.Errorf("Kept: %q, want %q", got, tt.kept)
			}
			if got := see(d.Kill()); got != tt.kept {
				t.Errorf("Kill: %q, want %q", got, tt.kept)
			}
		})
	}
}

func names(d *Disk) string {
	entries, err := d.ReadDir(".")
	if err != nil {
		return err.Error()
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return strings.Join(names, " ")
}

func TestRestartKeepsAPrefixOfADirectorysChanges(t *testing.T) {
	tests := []struct {
		name, script string
		want         []string
	}{
		{"created in order", "create a; create b; create c", []string{"", "a", "a b", "a b c"}},
		{"a rename is atomic", "create a; syncdir .; rename a b", []string{"a", "b"}},
		{"renamed twice", "create a; syncdir .; rename a b; rename b c", []string{"a", "b", "c"}},
		{"renamed over another", "create a; create b; syncdir .; rename a b", []string{"a b", "b"}},
		{"created, renamed, removed", "create a; rename a b; remove b", []string{"", "a", "b"}},
		{"renamed to itself", "create a; syncdir .; rename a a", []string{"a"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := New()
			if err := script(d, tt.script); err != nil {
				t.Fatal(err)
			}
			found := outcomes(d, names)
			for _, want := range tt.want {
				if found[want] == 0 {
					t.Errorf("%q was never found in %v", want, found)
				}
				delete(found, want)
			}
			if len(found) > 0 {
				t.Errorf("found %v, which cannot be", found)
			}
		})
	}
}

// What is found after a loss of power stays there after the next.
func TestRestartIsDurable(t *testing.T) {
	d := New()
	if err := script(d, "mkdir d; create d/a; write d/a xyz; create d/b"); err != nil {
		t.Fatal(err)
	}
	see := func(d *Disk) string { return content(d, "d/a") + content(d, "d/b") }
	for seed := range uint64(seeds) {
		again := d.Restart(seed)
		if first, second := see(again), see(again.Restart(Lost)); first != second {
			t.Errorf("seed %d: %q, after another restart %q", seed, first, second)
		}
		if see(d.Restart(seed)) != see(again) {
			t.Errorf("seed %d gives another disk the second time", seed)
		}
	}
}

// After the death of the process all is there, but no more durable than before.
func TestKill(t *testing.T) {
	d := New()
	if err := script(d, "create a; write a xy; sync a; syncdir .; write a z; create b; rename b c"); err != nil {
		t.Fatal(err)
	}
	killed := d.Kill()
	if got := content(killed, "a") + names(killed); got != "xyza c" {
		t.Errorf("found %q", got)
	}
	if lost := killed.Restart(Lost); content(lost, "a") != "xy" || names(lost) != "a" {
		t.Errorf("after a loss of power: %q, %q", content(lost, "a"), names(lost))
	}
	// The two disks are apart.
	if err := errors.Join(script(d, "create a; write a 1"), script(killed, "create a; write a 2; remove c")); err != nil {
		t.Fatal(err)
	}
	if content(d, "a") != "1" || names(d) != "a c" || content(killed, "a") != "2" || names(killed) != "a" {
		t.Errorf("%q %q, %q %q", content(d, "a"), names(d), content(killed, "a"), names(killed))
	}
}

// The way in which this project writes files: whenever and however it ends, the final name has the old file or the
// whole new one, and the directory has no other than the temporary file besides. Written without a
// sync it may be torn, so the model tells the two apart.
func TestTempReplaceNeverShowsATornFile(t *testing.T) {
	const text = "the new text"
	write := func(w io.Writer) error {
		if _, err := io.WriteString(w, text[:5]); err != nil {
			return err
		}
		_, err := io.WriteString(w, text[5:])
		return err
	}
	durably := func(d disk.FS) error {
		if err := disk.Temp(d, "a.tmp", 0o400, write); err != nil {
			return err
		}
		return disk.Replace(d, "a.tmp", "a")
	}
	carelessly := func(d disk.FS) error {
		f, err := d.Create("a.tmp", 0o600)
		if err != nil {
			return err
		}
		return errors.Join(write(f), f.Close(), disk.Replace(d, "a.tmp", "a"))
	}
	torn := func(run func(disk.FS) error) (torn int) {
		prepare := func() *Disk {
			d := New()
			if err := script(d, "create a; write a old; create a.tmp; write a.tmp left-over"); err != nil {
				t.Fatal(err)
			}
			return d.Restart(Kept)
		}
		whole := prepare()
		if err := run(whole); err != nil {
			t.Fatal(err)
		}
		for step := 1; step <= whole.Steps()+1; step++ {
			d := prepare()
			d.CrashAt(step)
			err := run(d)
			if done := step > whole.Steps(); done != (err == nil) || !done && !errors.Is(err, ErrCrashed) {
				t.Fatalf("step %d (%s): %v", step, d.LastStep(), err)
			}
			for seed := range uint64(seeds) {
				found := d.Restart(seed)
				if c := content(found, "a"); c != text && c != "old" || err == nil && c != text {
					torn++
				}
				if n := names(found); n != "a" && n != "a a.tmp" {
					t.Errorf("step %d, seed %d: %q", step, seed, n)
				}
			}
		}
		return torn
	}
	if n := torn(durably); n > 0 {
		t.Errorf("%d torn files", n)
	}
	if n := torn(carelessly); n == 0 {
		t.Error("writing without a sync was never punished")
	}
}

func TestFailAt(t *testing.T) {
	const steps = "mkdir d; create d/a; write d/a text; sync d/a; close d/a; rename d/a d/b; syncdir d; remove d/b"
	tests := []struct {
		step int
		want string
	}{
		{1, "mkdir /d: no space left on device"},
		{2, "open d/a: no space left on device"},
		{3, "write d/a: no space left on device"},
		{4, "sync d/a: no space left on device"},
		{5, "close d/a: no space left on device"},
		{6, "rename d/a d/b: no space left on device"},
		{7, "sync d: no space left on device"},
		{8, "remove d/b: no space left on device"},
		{9, ""},
	}
	for _, tt := range tests {
		d := New()
		d.FailAt(tt.step, syscall.ENOSPC)
		err := script(d, steps)
		if got := fmt.Sprint(err); got != tt.want && (err != nil || tt.want != "") {
			t.Errorf("step %d: error %q, want %q", tt.step, got, tt.want)
		}
		if err != nil && (!errors.Is(err, syscall.ENOSPC) || d.Steps() != tt.step) {
			t.Errorf("step %d: error %T, %d steps", tt.step, err, d.Steps())
		}
		// The disk works again.
		d.FailAt(0, nil)
		if err := script(d, "mkdir d; create d/a; write d/a again"); err != nil || content(d, "d/a") != "again" {
			t.Errorf("step %d, afterwards: %v, %q", tt.step, err, content(d, "d/a"))
		}
	}
}

func TestFailedWriteIsShort(t *testing.T) {
	for _, fault := range []error{syscall.ENOSPC, ErrCrashed} {
		d := New()
		f, err := d.Create("a", 0o644)
		if err != nil {
			t.Fatal(err)
		}
		d.FailAt(2, fault)
		if n, err := f.Write([]byte("abcdef")); n != 3 || !errors.Is(err, fault) {
			t.Errorf("Write = %d, %v", n, err)
		}
		if got := content(d.Kill(), "a"); got != "abc" {
			t.Errorf("%v: content %q", fault, got)
		}
	}
}

func TestNothingWorksAfterACrash(t *testing.T) {
	d := New()
	f, err := d.Create("a", 0o644)
	if err != nil {
		t.Fatal(err)
	}
	d.CrashAt(2)
	calls := map[string]func() error{
		"MkdirAll":   func() error { return d.MkdirAll("b", 0o755) },
		"exists":     func() error { return d.MkdirAll(".", 0o755) },
		"Create":     func() error { _, err := d.Create("b", 0o644); return err },
		"Rename":     func() error { return d.Rename("a", "b") },
		"Remove":     func() error { return d.Remove("a") },
		"SyncDir":    func() error { return d.SyncDir(".") },
		"OpenAppend": func() error { _, err := d.OpenAppend("a"); return err },
		"ReadAt":     func() error { _, err := f.ReadAt(make([]byte, 1), 0); return err },
		"Truncate":   func() error { return f.Truncate(0) },
		"SyncData":   f.SyncData,
		"Write":      func() error { _, err := f.Write([]byte("x")); return err },
		"Chmod":      func() error { return f.Chmod(0o400) },
		"Sync":       f.Sync,
		"Close":      f.Close,
		"ReadFile":   func() error { _, err := d.ReadFile("a"); return err },
		"Open":       func() error { _, err := d.Open("a"); return err },
		"Stat":       func() error { _, err := d.Stat("a"); return err },
		"ReadDir":    func() error { _, err := d.ReadDir("."); return err },
		"Access":     func() error { return d.Access(".") },
		"Lock":       func() error { _, err := d.Lock("a"); return err },
	}
	if err := d.MkdirAll("c", 0o755); !errors.Is(err, ErrCrashed) || d.LastStep() != "mkdir /c" {
		t.Fatalf("the crash: %v at %s", err, d.LastStep())
	}
	for name, call := range calls {
		if err := call(); !errors.Is(err, ErrCrashed) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if d.Steps() != 2 || names(d.Kill()) != "a" || content(d.Kill(), "a") != "" {
		t.Errorf("%d steps, %q", d.Steps(), names(d.Kill()))
	}
}

func TestReadOnlyFile(t *testing.T) {
	d := New()
	f, err := d.Create("a", 0o644)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Chmod(0o400), f.Close()); err != nil {
		t.Fatal(err)
	}
	if info, err := d.Restart(Kept).Stat("a"); err != nil || info.Mode() != 0o400 || info.Name() != "a" {
		t.Errorf("%v, %v", info, err)
	}
	if _, err := d.Create("a", 0o644); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("Create over a read-only file: %v", err)
	}
	if _, err := d.OpenAppend("a"); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("OpenAppend of a read-only file: %v", err)
	}
	if _, err := f.ReadAt(make([]byte, 1), 0); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("ReadAt of a closed file: %v", err)
	}
	if err := f.Close(); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("second Close: %v", err)
	}
}

// Without faults it does what the operating system does, errors included.
func TestLikeTheOperatingSystem(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		root, err := os.MkdirTemp("", "crashdisk")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(root)
		ours := New()
		path := rapid.SampledFrom([]string{"a", "b", "d", "d/a", "d/b", "d/e", "d/e/a", "a/x", "./d", "."})
		steps := []func(d disk.FS, p, q string) (any, error){
			func(d disk.FS, p, q string) (any, error) { return nil, d.MkdirAll(p, 0o755) },
			func(d disk.FS, p, q string) (any, error) { return nil, d.Remove(p) },
			func(d disk.FS, p, q string) (any, error) { return nil, d.Access(p) },
			func(d disk.FS, p, q string) (any, error) { return nil, d.SyncDir(p) },
			func(d disk.FS, p, q string) (any, error) { return nil, d.Rename(p, q) },
			func(d disk.FS, p, q string) (any, error) { b, err := d.ReadFile(p); return string(b), err },
			func(d disk.FS, p, q string) (any, error) { // the root has another name there
				q = strings.ReplaceAll(filepath.Base(q), filepath.Base(root), ".")
				f, err := d.Create(p, 0o644)
				if err != nil {
					return nil, err
				}
				n, err := f.Write([]byte(q))
				return n, errors.Join(err, f.Sync(), f.Close())
			},
			func(d disk.FS, p, q string) (any, error) {
				r, err := d.Open(p)
				if err != nil {
					return nil, err
				}
				defer r.Close()
				b, err := io.ReadAll(r)
				at := make([]byte, 2)
				n, atErr := r.ReadAt(at, 1)
				return fmt.Sprint(string(b), at[:n], atErr == io.EOF), err
			},
			func(d disk.FS, p, q string) (any, error) { // cut by a byte, written to, read
				f, err := d.OpenAppend(p)
				if err != nil {
					return nil, err
				}
				info, err := d.Stat(p)
				if err != nil {
					return nil, err
				}
				size := max(0, info.Size()-1)
				_, writeErr := f.Write([]byte("xy"))
				err = errors.Join(f.Truncate(size), writeErr)
				_, writeErr = f.Write([]byte("z"))
				at := make([]byte, 9)
				n, atErr := f.ReadAt(at, size/2)
				return fmt.Sprint(at[:n], atErr == io.EOF), errors.Join(err, writeErr, f.SyncData(), f.Close())
			},
			func(d disk.FS, p, q string) (any, error) { // made longer, written to in all ways, read, cut
				f, err := d.OpenAppend(p)
				if err != nil {
					return nil, err
				}
				info, err := d.Stat(p)
				if err != nil {
					return nil, err
				}
				_, writeErr := f.Write([]byte("x"))
				err = errors.Join(f.Extend(3), writeErr)
				_, writeErr = f.Write([]byte("y"))
				_, stringErr := io.WriteString(f, "z")
				_, copyErr := io.Copy(f, io.LimitReader(strings.NewReader("zzz"), 2))
				err = errors.Join(err, writeErr, stringErr, copyErr, f.Extend(2))
				at := make([]byte, 9)
				n, atErr := f.ReadAt(at, info.Size())
				all, readErr := d.ReadFile(p)
				return fmt.Sprint(at[:n], atErr == io.EOF, all), errors.Join(err, readErr, f.Truncate(info.Size()+3), f.Close())
			},
			func(d disk.FS, p, q string) (any, error) {
				info, err := d.Stat(p)
				if err != nil || info.IsDir() {
					return nil, err
				}
				return fmt.Sprint(info.Name(), info.Mode(), info.Size()), nil
			},
			func(d disk.FS, p, q string) (any, error) {
				entries, err := d.ReadDir(p)
				var names []string
				for _, e := range entries {
					names = append(names, fmt.Sprint(e.Name(), e.IsDir()))
				}
				return strings.Join(names, " "), err
			},
		}
		for range rapid.IntRange(1, 30).Draw(t, "length") {
			i := rapid.IntRange(0, len(steps)-1).Draw(t, "step")
			p, q := path.Draw(t, "p"), path.Draw(t, "q")
			from, to := filepath.Clean(p), filepath.Clean(q)
			switch {
			case (i == 1 || i == 4) && from == ".": // the root is another directory there
				continue
			case i == 4 && (from == to || filepath.Dir(from) != filepath.Dir(to)): // not in the model
				continue
			}
			want, wantErr := steps[i](disk.OS, root+"/"+p, root+"/"+q)
			got, err := steps[i](ours, p, q)
			if wantErr == nil && want != got || errno(wantErr) != errno(err) || (wantErr == nil) != (err == nil) {
				t.Fatalf("step kind %d %s %s: %v, %v; the system: %v, %v", i, p, q, got, err, want, wantErr)
			}
		}
	})
}

func errno(err error) syscall.Errno {
	var errno syscall.Errno
	errors.As(err, &errno)
	return errno
}

func BenchmarkAppendSync(b *testing.B) {
	d := New()
	f, err := d.Create("a", 0o644)
	if err != nil {
		b.Fatal(err)
	}
	text := make([]byte, 100)
	for b.Loop() {
		if _, err := f.Write(text); err != nil {
			b.Fatal(err)
		}
		if err := f.Sync(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkRestart(b *testing.B) {
	d := New()
	for i := range 10 {
		if err := script(d, fmt.Sprintf("mkdir d%[1]d/e; create d%[1]d/e/a; write d%[1]d/e/a xyz; create d%[1]d/e/b", i)); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		d.Restart(7)
	}
}

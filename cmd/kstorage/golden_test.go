package main

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"kstorage/checkpoint"
	"kstorage/internal/nodetest"
)

const (
	goldenDir       = "../../testdata/golden/storage"
	differencesFile = "../../testdata/golden/DIFFERENCES.md"
)

// TestGolden runs what was recorded with kafka-storage of Apache Kafka 4.4.0 and compares. What differs on
// purpose is in DIFFERENCES.md; a case that is there must differ in just the parts that are named.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(goldenDir, "*.txtar"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no recordings: %v", err)
	}
	differences := readDifferences(t)
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".txtar")
		on := differences[name]
		delete(differences, name)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := readCase(t, file)
			got := c.run(t)
			differ := got.differences(c)
			parts := make([]string, 0, len(differ))
			for part := range differ {
				parts = append(parts, part)
			}
			slices.Sort(parts)
			if slices.Equal(parts, on) {
				return
			}
			t.Errorf("differs in %v, DIFFERENCES.md says %v", parts, on)
			for _, part := range parts {
				t.Errorf("%s:\n%s", part, differ[part])
			}
			t.Logf("exit %d\nstdout:\n%s\nstderr:\n%s", got.exit, got.stdout, got.stderr)
		})
	}
	for name := range differences {
		t.Errorf("DIFFERENCES.md has %s, but there is no such recording", name)
	}
}

// readDifferences reads the rows of the table: a case, the parts that differ, the reason. Rows with a folder in front of the
// case are about another tool.
func readDifferences(t *testing.T) map[string][]string {
	b, err := os.ReadFile(differencesFile)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]string{}
	row := regexp.MustCompile("(?m)^\\| `([^`/]+)` \\| ([a-z, ]+) \\| (.+) \\|$")
	for _, m := range row.FindAllStringSubmatch(string(b), -1) {
		parts := strings.Split(m[2], ", ")
		slices.Sort(parts)
		out[m[1]] = parts
	}
	return out
}

// goldenCase is a recording: what goes in, and what came out.
type goldenCase struct {
	comment string
	files   map[string][]byte
}

// outcome is what a run left behind; the scratch folder is $WORK in it.
type outcome struct {
	exit           int
	stdout, stderr string
	work           string
	tree           []string
	files          map[string][]byte // its files, the unchanged input files aside
}

func readCase(t *testing.T, file string) goldenCase {
	a, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	c := goldenCase{comment: string(a.Comment), files: map[string][]byte{}}
	for _, f := range a.Files {
		c.files[f.Name] = f.Data
	}
	return c
}

func (c goldenCase) lines(section string) []string {
	text := string(c.files[section])
	if text == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(text, "\n"), "\n")
}

// outputs are the sections that are no files of the scratch folder.
var outputs = []string{"cmd", "env", "modes", "exit", "stdout", "stderr", "log", "noeol", "tree"}

func (c goldenCase) run(t *testing.T) outcome {
	work := nodetest.Scratch(t)
	put := map[string][]byte{}
	for name, data := range c.files {
		path, isPre := strings.CutPrefix(name, "pre/")
		switch {
		case slices.Contains(outputs, name) || strings.HasPrefix(name, "post/"):
			continue
		case strings.HasSuffix(path, "/"):
			must(t, os.MkdirAll(filepath.Join(work, path), 0o755))
			continue
		case strings.HasSuffix(path, ".hex"):
			path = strings.TrimSuffix(path, ".hex")
			data = unhex(t, data)
		default:
			data = bytes.ReplaceAll(data, []byte("$WORK"), []byte(work))
		}
		must(t, os.MkdirAll(filepath.Dir(filepath.Join(work, path)), 0o755))
		must(t, os.WriteFile(filepath.Join(work, path), data, 0o644))
		if !isPre {
			put[path] = data // left out of the recorded tree as long as it is unchanged
		}
	}
	for _, line := range c.lines("modes") {
		mode, path, _ := strings.Cut(line, " ")
		bits, err := strconv.ParseUint(mode, 8, 32)
		must(t, err)
		must(t, os.Chmod(filepath.Join(work, path), os.FileMode(bits)))
	}
	// Longest paths last, so that a folder can be read again before what is in it is removed.
	t.Cleanup(func() {
		filepath.WalkDir(work, func(path string, d fs.DirEntry, _ error) error {
			if d != nil && d.IsDir() {
				os.Chmod(path, 0o755)
			}
			return nil
		})
	})

	var args []string
	for _, arg := range c.lines("cmd") {
		args = append(args, strings.ReplaceAll(arg, "$WORK", work))
	}
	self, err := os.Executable()
	must(t, err)
	var stdout, stderr bytes.Buffer
	cmd := &exec.Cmd{Path: self, Args: append([]string{"kstorage"}, args...), Dir: work, Stdout: &stdout, Stderr: &stderr}
	cmd.Env = append(os.Environ(), "TZ=UTC", "LC_ALL=C.UTF-8", "KSTORAGE_RELEASE_VERSION=4.4-IV2")
	for _, line := range c.lines("env") {
		cmd.Env = append(cmd.Env, strings.ReplaceAll(line, "$WORK", work))
	}
	if err := cmd.Run(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		t.Fatal(err)
	}
	o := outcome{
		work:   work,
		exit:   cmd.ProcessState.ExitCode(),
		stdout: strings.ReplaceAll(stdout.String(), work, "$WORK"),
		stderr: strings.ReplaceAll(stderr.String(), work, "$WORK"),
		files:  map[string][]byte{},
	}
	o.walk(t, work, put)
	return o
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func unhex(t *testing.T, text []byte) []byte {
	b, err := hex.DecodeString(strings.ReplaceAll(string(text), "\n", ""))
	must(t, err)
	return b
}

// walk records what is in the scratch folder. Unreadable folders are made readable for it, behind the run.
func (o *outcome) walk(t *testing.T, work string, put map[string][]byte) {
	var entries func(dir, rel string)
	entries = func(dir, rel string) {
		info, err := os.Stat(dir)
		must(t, err)
		if info.Mode().Perm()&0o500 != 0o500 {
			must(t, os.Chmod(dir, 0o700))
			defer os.Chmod(dir, info.Mode().Perm())
		}
		list, err := os.ReadDir(dir)
		must(t, err)
		for _, e := range list {
			path, name := filepath.Join(dir, e.Name()), rel+e.Name()
			info, err := e.Info()
			must(t, err)
			mode := fmt.Sprintf("%04o", info.Mode().Perm())
			if e.IsDir() {
				o.tree = append(o.tree, fmt.Sprintf("d%s - %s/", mode, name))
				entries(path, name+"/")
				continue
			}
			before, was := put[name]
			if info.Mode().Perm()&0o400 == 0 {
				must(t, os.Chmod(path, 0o600))
				defer os.Chmod(path, info.Mode().Perm())
			}
			data, err := os.ReadFile(path)
			must(t, err)
			if was && bytes.Equal(before, data) {
				continue
			}
			o.tree = append(o.tree, fmt.Sprintf("-%s %d %s", mode, info.Size(), name))
			o.files[name] = data
		}
	}
	entries(work, "")
}

var (
	randomRange = regexp.MustCompile(`(?m)^Random: in (.+?) bytes (.*)\.$`)
	byteRange   = regexp.MustCompile(`(\d+)-(\d+) \(([^)]*)\)`)
	randomSalts = regexp.MustCompile(`\((salt|storedKey)`)
)

// differences compares the parts of an outcome with the recording.
func (o outcome) differences(c goldenCase) map[string]string {
	out := map[string]string{}
	differ := func(part, want, got string) {
		if want != got {
			out[part] = fmt.Sprintf("want %s\ngot  %s", want, got)
		}
	}
	differ("exit", strings.TrimSpace(string(c.files["exit"])), strconv.Itoa(o.exit))
	if isHelp := strings.HasPrefix(string(c.files["stdout"]), "usage: "); isHelp {
		differ("stdout", "a help text", map[bool]string{true: "a help text", false: o.stdout}[strings.Contains(o.stdout, "Usage:")])
	} else {
		differ("stdout", comparableStdout(c, string(c.files["stdout"])), comparableStdout(c, o.stdout))
	}
	if complaint := o.badStderr(c); complaint != "" {
		out["stderr"] = complaint
	}
	salts := randomSalts.MatchString(c.comment)
	differ("tree", comparableTree(c.lines("tree"), salts), comparableTree(o.tree, salts))
	if _, ok := out["tree"]; ok {
		return out // the files follow from it
	}
	for name, got := range o.files {
		want, ok := c.files["post/"+name]
		want = bytes.ReplaceAll(want, []byte("$WORK"), []byte(o.work))
		switch {
		case filepath.Base(name) == "meta.properties" && ok:
			differ("files", maskProperties(c, string(want)), maskProperties(c, string(got)))
		case strings.HasSuffix(name, checkpoint.Suffix) && !ok:
			want, err := hex.DecodeString(strings.ReplaceAll(string(c.files["post/"+name+".hex"]), "\n", ""))
			if err != nil {
				out["files"] = err.Error()
				continue
			}
			if salts {
				differ("files", shapeOf(want), shapeOf(got))
				continue
			}
			differ("files", hex.Dump(c.mask(name, sortVoters(want))), hex.Dump(c.mask(name, got)))
		default:
			differ("files", string(want), string(got))
		}
	}
	return out
}

var (
	formattingLine = regexp.MustCompile(`(?m)^Formatting .*\n`)
	bootstrapLine  = regexp.MustCompile(`(?m)^Bootstrap metadata: .*\n`)
	stackTrace     = regexp.MustCompile(`(?m)^([\w.]+(Exception|Error): .*\n|\tat \.\.\.\n|Caused by: .*\n)`)
	uuidLine       = regexp.MustCompile(`^[A-Za-z0-9_-]{22}\n$`)
)

// comparableStdout leaves out what need not be the same: the Bootstrap line, stack traces, the
// order of the Formatting lines. Where directories are relative that order is Kafka's hash table's, ours that of the list.
func comparableStdout(c goldenCase, s string) string {
	if uuidLine.MatchString(s) {
		return "a random UUID"
	}
	s = stackTrace.ReplaceAllString(bootstrapLine.ReplaceAllString(s, ""), "")
	formatting := formattingLine.FindAllString(s, -1)
	slices.Sort(formatting)
	return formattingLine.ReplaceAllString(s, "") + strings.Join(formatting, "")
}

const formattedLine = "is already formatted. Use --ignore-formatted to ignore this directory and format the others."

// badStderr says what is wrong with stderr, whose words are ours but for the lines that scripts look for.
func (o outcome) badStderr(c goldenCase) string {
	want := string(c.files["stderr"])
	if want != "" && strings.TrimSpace(o.stderr) == "" {
		return "the failure is not explained"
	}
	if strings.Contains(o.stderr, "\tat ") || strings.Contains(o.stderr, "panic") || strings.Contains(o.stderr, "goroutine") {
		return "a stack trace"
	}
	for line := range strings.Lines(o.stderr) {
		if strings.Contains(strings.ToLower(line), "already formatted") && !strings.Contains(want, line) {
			return "a line that scripts would take for another: " + line
		}
	}
	for line := range strings.Lines(want) {
		if strings.Contains(line, formattedLine) && !strings.Contains(o.stderr, line) {
			return "missing: " + line
		}
	}
	return ""
}

// comparableTree drops the sizes of checkpoints with random salts, whose lengths differ.
func comparableTree(lines []string, salts bool) string {
	lines = slices.Clone(lines)
	if salts {
		size := regexp.MustCompile(` \d+ (.*\.checkpoint)$`)
		for i := range lines {
			lines[i] = size.ReplaceAllString(lines[i], " N $1")
		}
	}
	slices.SortFunc(lines, func(a, b string) int {
		return strings.Compare(a[strings.LastIndexByte(a, ' '):], b[strings.LastIndexByte(b, ' '):])
	})
	return strings.Join(lines, "\n")
}

var (
	dateLine        = regexp.MustCompile(`(?m)^#[A-Z][a-z]{2} [A-Z][a-z]{2} \d\d \d\d:\d\d:\d\d UTC \d{4}$`)
	directoryIDLine = regexp.MustCompile(`(?m)^directory\.id=([A-Za-z0-9_-]{22})$`)
)

// maskProperties masks the date and a directory id that was not given.
func maskProperties(c goldenCase, s string) string {
	s = dateLine.ReplaceAllString(s, "#DATE")
	return directoryIDLine.ReplaceAllStringFunc(s, func(line string) string {
		if strings.Contains(string(c.files["cmd"]), strings.TrimPrefix(line, "directory.id=")) {
			return line
		}
		return "directory.id=ID"
	})
}

// mask zeroes the byte ranges of a file that the recording calls random.
func (c goldenCase) mask(name string, data []byte) []byte {
	data = slices.Clone(data)
	for _, m := range randomRange.FindAllStringSubmatch(c.comment, -1) {
		if m[1] != name {
			continue
		}
		for _, r := range byteRange.FindAllStringSubmatch(m[2], -1) {
			from, _ := strconv.Atoi(r[1])
			to, _ := strconv.Atoi(r[2])
			for i := from; i <= to && i < len(data); i++ {
				data[i] = 0
			}
		}
	}
	return data
}

// sortVoters brings the voters of a recorded checkpoint, which has them in the order of a Java hash table, into
// the order of their ids. The other bytes are left as they are, CRC and times aside.
func sortVoters(data []byte) []byte {
	in, err := checkpoint.NewReader(bytes.NewReader(data), "recording")
	byID := func(a, b checkpoint.Voter) int { return int(a.NodeID) - int(b.NodeID) }
	if err != nil || slices.IsSortedFunc(in.Header.Voters, byID) {
		return data
	}
	slices.SortFunc(in.Header.Voters, byID)
	var b bytes.Buffer
	if _, err := checkpoint.NewWriter(&b, in.Header); err != nil {
		return data
	}
	return append(b.Bytes(), data[b.Len():]...)
}

// shapeOf is what a checkpoint with random salts has in common with another: the voters and the types of its records.
func shapeOf(data []byte) string {
	in, err := checkpoint.NewReader(bytes.NewReader(data), "checkpoint")
	if err != nil {
		return err.Error()
	}
	text := fmt.Sprint(in.Header.KRaftVersion, len(in.Header.Voters))
	for r, err := range in.Records() {
		if err != nil {
			return err.Error()
		}
		text += fmt.Sprintln(r.Offset, r.Type, r.Version)
	}
	return text
}

// Package docs tests the pages of this folder: what they say to type is typed, and what they say is printed is printed.
//
// A fenced block of a page is what its first word says:
//
//	sh          commands, run by bash in the order of the page. exit=1 behind it: the last command has to fail.
//	            on=kafka1,kafka2 behind it: the machines on which they are run, one after the other
//	            in=FILE behind it: they are in this file of examples/ as well
//	text        what the sh block in front of it prints, on both streams. A line ... stands for any lines. Times, offsets
//	            and which voter leads may differ, ids if they differ everywhere in the same way
//	any other   an extract from a file of examples/
//
// A page with "<!-- continues PAGE -->" goes on where that page ends.
//
//	go test ./docs -update    writes what is printed into the pages
package docs

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"

	"kstorage/internal/nodetest"
)

var update = flag.Bool("update", false, "write what is printed into the pages")

func TestMain(m *testing.M) {
	switch filepath.Base(os.Args[0]) {
	case "systemctl":
		os.Exit(systemctl(os.Args[1:]))
	case "journalctl":
		os.Exit(journalctl(os.Args[1:]))
	}
	flag.Parse()
	os.Exit(m.Run())
}

// block is a fenced block of a page.
type block struct {
	line  int // of its first line in the page, from 1
	info  []string
	text  string
	start int // where text begins in the page
}

// attribute is VALUE of the word KEY=VALUE behind the language.
func (b *block) attribute(key string) string {
	for _, word := range b.info[1:] {
		if value, ok := strings.CutPrefix(word, key+"="); ok {
			return value
		}
	}
	return ""
}

var fence = regexp.MustCompile("(?m)^```(\\w[^\n]*)\n((?s).*?)^```$")

func blocks(page string) []block {
	var out []block
	for _, m := range fence.FindAllStringSubmatchIndex(page, -1) {
		out = append(out, block{
			line: strings.Count(page[:m[4]], "\n") + 1, info: strings.Fields(page[m[2]:m[3]]), text: page[m[4]:m[5]], start: m[4],
		})
	}
	return out
}

var continues = regexp.MustCompile(`(?m)^<!-- continues (\S+) -->$`)

// story is what a page says to type, behind what the pages that it continues say.
func story(t *testing.T, name string) (before, own []block) {
	page := read(t, name)
	if m := continues.FindStringSubmatch(page); m != nil {
		first, second := story(t, m[1])
		before = append(first, second...)
	}
	return before, blocks(page)
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestPages(t *testing.T) {
	for _, program := range []string{"bash", "curl"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Fatalf("the pages need %s: %v", program, err)
		}
	}
	programs := build(t)
	self, err := os.Executable()
	check(t, err)
	for _, name := range []string{"systemctl", "journalctl"} {
		check(t, os.Symlink(self, filepath.Join(programs, name)))
	}
	pages, err := filepath.Glob("*.md")
	if err != nil || len(pages) == 0 {
		t.Fatal("no pages", err)
	}
	var all sync.WaitGroup // and not Parallel, which is for as many as there are cores: the pages mostly wait
	for _, name := range pages {
		before, own := story(t, name)
		if !slices.ContainsFunc(own, func(b block) bool { return b.info[0] == "sh" }) {
			continue
		}
		all.Go(func() {
			t.Run(name, func(t *testing.T) { checkPage(t, programs, name, before, own) })
		})
	}
	all.Wait()
}

// build makes the programs as this one was made, so that most of the work is done already.
func build(t *testing.T) string {
	dir := t.TempDir()
	args := []string{"build", "-o", dir + "/"}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "-tags" || s.Key == "-race" {
				args = append(args, s.Key+"="+s.Value)
			}
		}
	}
	if out, err := exec.Command("go", append(args, "kstorage/cmd/...")...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return dir
}

// Extracts of files are in the files, further to the right or not.
func TestExtracts(t *testing.T) {
	files, err := filepath.Glob("../examples/*")
	check(t, err)
	all := ""
	for _, file := range files {
		all += flush(read(t, file))
	}
	pages, _ := filepath.Glob("*.md")
	for _, name := range pages {
		for _, b := range blocks(read(t, name)) {
			in, where := b.attribute("in"), all
			switch {
			case in != "":
				where = flush(read(t, "../examples/"+in))
			case b.info[0] == "sh" || b.info[0] == "text":
				continue
			}
			if !strings.Contains(where, flush(b.text)) {
				t.Errorf("%s:%d is not in examples/%s", name, b.line, in)
			}
		}
	}
}

var indent = regexp.MustCompile(`(?m)^ +`)

func flush(text string) string { return indent.ReplaceAllString(text, "") }

// checkPage types what the page says, and compares.
func checkPage(t *testing.T, programs, name string, before, own []block) {
	examples, err := filepath.Abs("../examples")
	check(t, err)
	r := &runner{programs: programs, examples: examples, dir: nodetest.Scratch(t), outputs: t.TempDir()}
	var commands []block
	for _, b := range append(before, own...) {
		if b.info[0] == "sh" {
			commands = append(commands, b)
		}
	}
	first := len(commands)
	for _, b := range own {
		if b.info[0] == "sh" {
			first--
		}
	}
	ended := r.run(t, commands)
	page := read(t, name)
	said, printed := ids{}, ids{}
	var renewed strings.Builder // the page with what is printed this time
	i, written, same := first-1, 0, true
	for j, b := range own {
		switch {
		case b.info[0] == "sh":
			i++
		case b.info[0] == "text" && j > 0 && own[j-1].info[0] == "sh" && i < ended:
			output := r.output(i)
			if why := differs(canonical(b.text, said), canonical(output, printed)); why != "" {
				same = false
				if !*update {
					t.Errorf("%s:%d: %s. Printed is:\n%s", name, b.line, why, output)
				}
			}
			renewed.WriteString(page[written:b.start] + renew(b.text, output))
			written = b.start + len(b.text)
		}
	}
	renewed.WriteString(page[written:])
	if ended < len(commands) {
		where := fmt.Sprintf("%s:%d", name, commands[ended].line)
		if ended < first {
			where = "a page before " + name
		}
		t.Errorf("%s: a command has failed, or one that should has not:\n%s\nPrinted is:\n%s", where, commands[ended].text, r.output(ended))
		r.showLogs(t)
	}
	if *update && !same {
		check(t, os.WriteFile(name, []byte(renewed.String()), 0o644))
	}
}

var (
	link    = regexp.MustCompile(`\]\(([^)#]*)(#[^)]*)?\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	dropped = regexp.MustCompile(`[^a-z0-9 _-]`)
)

// Links within the repository lead somewhere.
func TestLinks(t *testing.T) {
	pages, _ := filepath.Glob("*.md")
	for _, name := range append(pages, "../README.md", "../CONTRIBUTING.md", "../COMPAT.md") {
		for _, m := range link.FindAllStringSubmatch(read(t, name), -1) {
			file, anchor := filepath.Join(filepath.Dir(name), m[1]), m[2]
			if m[1] == "" {
				file = name
			}
			if strings.Contains(m[1], "://") {
				continue
			}
			if _, err := os.Stat(file); err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			found := anchor == ""
			if !found {
				for _, h := range heading.FindAllStringSubmatch(read(t, file), -1) {
					found = found || anchor == "#"+strings.ReplaceAll(dropped.ReplaceAllString(strings.ToLower(h[1]), ""), " ", "-")
				}
			}
			if !found {
				t.Errorf("%s: %s has no heading for %s", name, file, anchor)
			}
		}
	}
}

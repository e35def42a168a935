package docs

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"kstorage/internal/nodetest"
)

// pageLimit is how long the commands of a page may take. The longest needs half a minute.
const pageLimit = 5 * time.Minute

// runner types the commands of a page into one bash, in a folder of its own and at an address of its own.
type runner struct {
	programs string
	dir      string // where the commands run; a machine has the folder of its name below it
	outputs  string
	examples string
	address  string
}

// run returns how many of the blocks did what they should.
func (r *runner) run(t *testing.T, commands []block) int {
	// What the page starts is of the group of bash, which ends when the pipe does: with the test, or with its process.
	cmd := exec.Command("bash", "-c", `( { cat <&3; kill -9 0; } & ) >/dev/null 2>&1; exec 3<&-; script=$(cat); exec </dev/null; eval "$script"`)
	alive, end, err := os.Pipe()
	check(t, err)
	defer end.Close()
	trouble, err := os.OpenFile(r.trouble(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	check(t, err)
	defer trouble.Close()
	cmd.Dir, cmd.Stderr, cmd.ExtraFiles = r.dir, trouble, []*os.File{alive}
	cmd.Env = []string{"PATH=" + r.programs + ":" + os.Getenv("PATH"), "HOME=" + r.dir, "TMPDIR=" + os.TempDir(), "LC_ALL=C", "GORACE=atexit_sleep_ms=0"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	stdin, err := cmd.StdinPipe()
	check(t, err)
	check(t, cmd.Start())
	alive.Close()
	group := cmd.Process.Pid
	defer syscall.Kill(-group, syscall.SIGKILL) //nolint:errcheck // the watcher at least is there
	late := time.AfterFunc(pageLimit, func() { syscall.Kill(-group, syscall.SIGKILL) })
	defer late.Stop()

	r.address = nodetest.LoopbackOf(group)
	_, err = stdin.Write([]byte(r.script(commands)))
	check(t, err)
	check(t, stdin.Close())
	cmd.Wait() //nolint:errcheck // the blocks tell
	for i := range commands {
		if _, err := os.Stat(r.file(i) + ".done"); err != nil {
			return i
		}
	}
	if text := read(t, r.trouble()); text != "" {
		t.Errorf("behind the page: %s", text)
	}
	return len(commands)
}

func (r *runner) file(i int) string { return filepath.Join(r.outputs, strconv.Itoa(i)) }

// trouble is the file for what is wrong with the page as a whole.
func (r *runner) trouble() string { return filepath.Join(r.outputs, "trouble") }

// script has the blocks one behind the other, each with its output in a file.
func (r *runner) script(commands []block) string {
	var b strings.Builder
	fmt.Fprintf(&b, "set -e\nexport PAGE_ADDRESS=%s\n%s\n", r.address, sudo)
	for i, c := range commands {
		fmt.Fprintf(&b, "exec >%s 2>&1\n", r.file(i))
		for _, name := range strings.Split(c.attribute("on"), ",") {
			m := machine{name: name, address: r.address}
			if name != "" {
				m.root = filepath.Join(r.dir, name)
				fmt.Fprintf(&b, newMachine, m.root, name, r.programs, r.examples)
			}
			text := m.here(c.text)
			if exit := c.attribute("exit"); exit != "" {
				text = fmt.Sprintf("set +e\n%s\n[ $? = %s ] || exit 1\nset -e\n", text, exit)
			}
			b.WriteString(text)
		}
		fmt.Fprintf(&b, "\n: >%s.done\n", r.file(i))
	}
	fmt.Fprintf(&b, "[ -z \"$(jobs -rp)\" ] || echo the page leaves processes running >>%s\n", r.trouble())
	return b.String()
}

const (
	// sudo -u USER COMMAND... as the user that we are, and without a change of owners
	sudo = `sudo() {
		[ "$1" = -u ] && shift 2
		[ "$1" = install ] && { mkdir -p "${!#}"; return; }
		"$@"
	}`

	// newMachine has the folder, the name, the folder of the programs and that of the examples.
	newMachine = `mkdir -p %[1]s/etc/systemd/system %[1]s/var/lib %[1]s/usr/local/bin; cd %[1]s; export HOSTNAME=%[2]s
ln -sf %[3]s/kstorage %[3]s/kfeatures usr/local/bin/; ln -sfn %[4]s examples
`
)

// output is what the block printed, in the words of the page.
func (r *runner) output(i int) string {
	text, err := os.ReadFile(r.file(i))
	if err != nil {
		return err.Error()
	}
	return there(string(text), r.dir, r.address)
}

// showLogs prints the end of each log of the page.
func (r *runner) showLogs(t *testing.T) {
	filepath.WalkDir(r.dir, func(path string, d os.DirEntry, err error) error { //nolint:errcheck // what is not there is not shown
		if err == nil && !d.IsDir() && strings.HasSuffix(path, ".log") && !strings.Contains(path, "__cluster_metadata") {
			lines := strings.Split(strings.TrimSpace(read(t, path)), "\n")
			t.Logf("%s:\n%s", path, strings.Join(lines[max(0, len(lines)-15):], "\n"))
		}
		return nil
	})
}

// machine is what a page takes for one: a folder in place of /, and ports of the address of the page. Without a name it
// is the one on which the page is run.
type machine struct{ name, root, address string }

var (
	hostPort = regexp.MustCompile(`(?:\b(\w+-?\d)(?:\.\w+)?|\$HOSTNAME(?:\.\w+)?|\blocalhost|\b127\.0\.0\.1):9(\d{3})\b`)
	rootPath = regexp.MustCompile(`(^|[^\w/.}-])(/etc/|/var/lib/|/usr/local/)`)
)

// machinePorts is where the ports of a machine begin, which has a digit at its end; those of no machine are as in the page.
func machinePorts(name string) int {
	ports := 10000 + 1000*int(name[len(name)-1]-'0')
	if strings.HasPrefix(name, "broker") {
		ports += 5000
	}
	return ports
}

// here puts the ports and the folders of the machine into text.
func (m machine) here(text string) string {
	text = hostPort.ReplaceAllStringFunc(text, func(found string) string {
		parts := hostPort.FindStringSubmatch(found)
		name := cmp.Or(parts[1], m.name)
		if name == "" {
			return m.address + ":9" + parts[2]
		}
		offset, _ := strconv.Atoi(parts[2])
		return m.address + ":" + strconv.Itoa(machinePorts(name)+offset)
	})
	text = strings.ReplaceAll(text, "localhost", m.address)
	if m.root == "" {
		return text
	}
	return rootPath.ReplaceAllString(text, "${1}"+m.root+"${2}")
}

// there is the way back: text as a person would see it.
func there(text, dir, address string) string {
	text = regexp.MustCompile(regexp.QuoteMeta(address)+`:1(\d)(\d{3})\b`).ReplaceAllString(text, "kafka$1:9$2")
	text = strings.ReplaceAll(text, address, "localhost")
	text = regexp.MustCompile(regexp.QuoteMeta(dir)+`/(?:kafka|broker)-?\d(/|\b)`).ReplaceAllString(text, "$1")
	return strings.ReplaceAll(text, dir+"/", "")
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

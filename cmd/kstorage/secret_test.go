package main

import (
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"kstorage/internal/nodetest"
)

const marker = "geheimmarker"

// Whatever is wrong with the arguments or the environment of a call, a password that is somewhere in a SCRAM argument is not printed.
func TestPasswords(t *testing.T) {
	chdirToNode(t)
	random := rand.NewChaCha8([32]byte{1})
	for range 4000 {
		choices := make([]byte, 24)
		random.Read(choices)
		checkPassword(t, choices)
	}
}

func FuzzPasswords(f *testing.F) {
	chdirToNode(f)
	f.Add([]byte("twenty-four free choices"))
	f.Fuzz(checkPassword)
}

func chdirToNode(t testing.TB) {
	t.Chdir(nodetest.Scratch(t))
	if err := os.WriteFile("F", []byte(combined), 0o600); err != nil {
		t.Fatal(err)
	}
}

// checkPassword calls the program in the way that the choices build.
func checkPassword(t *testing.T, choices []byte) {
	c := passwordCall{choices: choices}
	c.build()
	if c.file != "" {
		must(t, os.WriteFile("args", []byte(c.file), 0o600))
	}
	out, rc := runInProcess(c.argv, c.env)
	if strings.Contains(strings.ToLower(out), marker) || rc != 0 && out == "" {
		t.Errorf("kstorage %q with %q and the file %q exits %d and prints\n%s", c.argv, c.env, c.file, rc, out)
	}
}

// A credential behind an option for something else is not shown, and not used.
func TestPasswordBehindAnotherOption(t *testing.T) {
	chdirToNode(t)
	credential := "SCRAM-SHA-256=[name=alice,password=" + marker + "]"
	tests := []struct {
		argv, variable string // X is the credential
	}{
		{"format -c F -s -f X", ""},
		{"format -c F -s --feature=X", ""},
		{"format -c F -s -f group.version=1 -f X", ""},
		{"format -c F -s -r X", ""},
		{"format -c F -s -t X", ""},
		{"format -c F -I X", ""},
		{"format -c X -s", ""},
		{"format -c F -s", "FEATURE"},
		{"format -c F -s", "RELEASE_VERSION"},
		{"format -c F -s", "CLUSTER_ID"},
		{"format -c F", "INITIAL_CONTROLLERS"},
		{"format -s", "CONFIG"},
		{"info -c X", ""},
		{"version-mapping -r X", ""},
		{"feature-dependencies -f X", ""},
		{"completion X", ""},
	}
	for _, tt := range tests {
		for _, json := range []string{"", " --json"} {
			env := map[string]string{}
			if tt.variable != "" {
				env["KSTORAGE_"+tt.variable] = credential
			}
			out, rc := runInProcess(strings.Fields(strings.ReplaceAll(tt.argv+json, "X", credential)), env)
			if rc != 1 || strings.Contains(out, marker) || strings.HasPrefix(out, "{") != (json != "") {
				t.Errorf("kstorage %s%s %s exits %d and prints\n%s", tt.argv, json, tt.variable, rc, out)
			}
		}
	}
	if _, err := os.Stat("d1"); err == nil {
		t.Error("something was formatted")
	}
}

// passwordCall is a call of the program.
type passwordCall struct {
	choices []byte // one for each choice, 0 when they are used up
	argv    []string
	env     map[string]string
	file    string // the file args
}

func (c *passwordCall) choose(from ...string) string {
	if len(c.choices) == 0 {
		return from[0]
	}
	i := int(c.choices[0]) % len(from)
	c.choices = c.choices[1:]
	return from[i]
}

func (c *passwordCall) build() {
	words := c.words()
	var before, after []string // the command
	command := c.choose("format", "format", "format", "format", "form", "info", "dump", "version-mapping", "feature-dependencies", "random-uuid", "version", "formt", "")
	if config := c.choose("-c", "-c", "--config=", "none"); config == "-c" {
		after = append(after, "-c", "F")
	} else if config != "none" {
		after = append(after, config+"F")
	}
	switch c.choose("-s", "-s", "-N", "none") {
	case "-s":
		after = append(after, "-s")
	case "-N":
		after = append(after, "--no-initial-controllers")
	}
	if c.choose("text", "json") == "json" {
		after = append(after, "--json")
	}
	after = append(after, "--dry-run")
	switch c.choose("after", "after", "after", "first", "before", "variable", "file", "no file") {
	case "after":
		after = append(after, words...)
	case "first":
		after = append(words, after...)
	case "before":
		before = words
	case "variable":
		c.env = map[string]string{"KSTORAGE_" + c.choose("STANDALONE", "ADD_SCRAM", "JSON", "IGNORE_FORMATTED", "DRY_RUN", "NO_INITIAL_CONTROLLERS"): strings.Join(words, c.choose(" ", "\n"))}
	case "file":
		c.file = strings.Join(words, "\n") + c.choose("\n", "")
		after = append(after, "@args")
	case "no file":
		for _, w := range words {
			after = append(after, "@"+w)
		}
	}
	c.argv = append(c.argv, before...)
	if command != "" {
		c.argv = append(c.argv, command)
	}
	if command == "dump" {
		after = slices.DeleteFunc(after, func(w string) bool { return w == "--" }) // behind it stand names of files
	}
	c.argv = append(c.argv, after...)
}

// words are a SCRAM argument behind an option, as the shell hands them over.
func (c *passwordCall) words() []string {
	password := c.choose("", "", "a", " ", "@", " @", "-", " -", " --", "=", ",", " ,", "[", "x y ", "--config=", "é", "\x00", "\n", " -S") +
		marker + c.choose("", "", "b", " b", ",b", "=b", "]", " ]", "\"", "\xff", "\n", "=", " @b", " --json", " -s")
	quote := c.choose("", `"`, `'`)
	argument := c.choose("SCRAM-SHA-256=", "SCRAM-SHA-256=", "SCRAM-SHA-512=", "scram-sha-256=", "SCRAM-MD5=", "SCRAM-SHA-256", "SCRAM-SHA-256 = ", " SCRAM-SHA-256=") +
		c.choose("[", "[", "", "(") +
		c.choose("name=alice,", "name=alice,", "name=alice, ", "", "user=alice,", "name=alice,iterations=1,") +
		c.choose("password=", "password=", "password =", "Password=", "passwort=", "saltedpassword=", "salt=", "iterations=", "salt=c2FsdA==,saltedpassword=") +
		quote + password + quote + c.choose("", ",iterations=8192", ",salt=!") + c.choose("]", "]", "", ")")
	words := []string{argument}
	switch c.choose("one", "one", "split", "split", "each character that shells know") {
	case "split":
		words = strings.Fields(argument)
	case "each character that shells know":
		words = strings.FieldsFunc(argument, func(r rune) bool { return strings.ContainsRune(" \n;&|<>()", r) })
	}
	if c.choose("together", "alone") == "alone" {
		words = append(words, "rest")
	}
	// No option that takes a value of its own: what follows -c is the name of a file.
	option := c.choose("-S", "-S", "--add-scram", "--add", "-s", "-g", "-x", "--scram", "--add-scrum", "--standalone", "--json", "--dry", "-gS", "-sg", "--", "-N", "-h", "")
	switch c.choose("word", "word", "joined", "equals") {
	case "joined":
		words[0] = option + words[0]
	case "equals":
		words[0] = option + "=" + words[0]
	default:
		if option != "" {
			words = append([]string{option}, words...)
		}
	}
	return words
}

package cli

import (
	"errors"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"
)

// helpGrammar has a command with an option of each kind.
func helpGrammar() *Grammar {
	return &Grammar{
		EnvPrefix: "TOOL_",
		App: &cli.App{Name: "tool", Usage: "tool does things.", UsageText: "tool COMMAND", Description: "The end.", Commands: []*cli.Command{
			{Name: "make", Usage: "Make it.", UsageText: "tool make --config FILE", Description: "Example:\n  tool make", Flags: []cli.Flag{
				&cli.StringFlag{Name: "config", Aliases: []string{"c"}, Required: true, Usage: "The `FILE` to read."},
				&cli.StringSliceFlag{Name: "feature", Usage: "A `NAME=LEVEL` that is so long to explain that the line must be broken somewhere, and then once more, because it ends nowhere near."},
				&cli.BoolFlag{Name: "dry-run", Category: "Ours", Usage: "Only look."},
				&cli.BoolFlag{Name: "force", Aliases: []string{"f"}, Usage: "Go on."},
			}},
			{Name: "show", Usage: "Show what's there.", UsageText: "tool show FILE...", Args: true},
		}},
	}
}

func TestHelp(t *testing.T) {
	wantApp := `tool does things.

Usage:
  tool COMMAND

Commands:
  make                   Make it.
  show                   Show what's there.

The end.
`
	if got := helpGrammar().Help(""); got != wantApp {
		t.Errorf("got\n%s\nwant\n%s", got, wantApp)
	}
	wantMake := `Make it.

Usage:
  tool make --config FILE

Options:
  -c, --config FILE
      The FILE to read. (required; TOOL_CONFIG)
  --feature NAME=LEVEL
      A NAME=LEVEL that is so long to explain that the line must be broken
      somewhere, and then once more, because it ends nowhere near. (may be given
      several times; TOOL_FEATURE)
  -f, --force
      Go on. (TOOL_FORCE)

Ours:
  --dry-run
      Only look. (TOOL_DRY_RUN)

  -h, --help
      Show this text.

Example:
  tool make
`
	if got := helpGrammar().Help("make"); got != wantMake {
		t.Errorf("got\n%s\nwant\n%s", got, wantMake)
	}
	if got := helpGrammar().Help("show"); got != "Show what's there.\n\nUsage:\n  tool show FILE...\n\n  -h, --help\n      Show this text.\n" {
		t.Errorf("got\n%s", got)
	}
}

func TestCompletion(t *testing.T) {
	fish := `complete -c tool -f -n __fish_use_subcommand -a make -d 'Make it.'
complete -c tool -n '__fish_seen_subcommand_from make' -l config -s c -r
complete -c tool -n '__fish_seen_subcommand_from make' -l feature -r
complete -c tool -n '__fish_seen_subcommand_from make' -l dry-run
complete -c tool -n '__fish_seen_subcommand_from make' -l force -s f
complete -c tool -n '__fish_seen_subcommand_from make' -l help -s h
complete -c tool -f -n __fish_use_subcommand -a show -d 'Show what'\''s there.'
complete -c tool -n '__fish_seen_subcommand_from show' -l help -s h
`
	if got, err := helpGrammar().Completion("fish"); err != nil || got != fish {
		t.Errorf("%v, got\n%s\nwant\n%s", err, got, fish)
	}
	for _, shell := range Shells {
		if got, err := helpGrammar().Completion(shell); err != nil || !strings.Contains(got, "tool") {
			t.Errorf("%s: %v, %s", shell, err, got)
		}
	}
	_, err := helpGrammar().Completion("tcsh")
	if usage := (*UsageError)(nil); !errors.As(err, &usage) || usage.Command != "completion" || !strings.Contains(usage.Reason, `"tcsh"`) || !strings.Contains(usage.Reason, "bash, zsh, fish") {
		t.Errorf("got %v", err)
	}
}

// The script for bash is asked as bash asks it.
func TestBashCompletes(t *testing.T) {
	script, err := helpGrammar().Completion("bash")
	if err != nil {
		t.Fatal(err)
	}
	features, err := featuresGrammar().Completion("bash")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	if err := exec.Command("touch", "a file", "b").Run(); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name  string
		words string // the last one is that to complete
		want  string // in the order of bash

		features bool // it is the tool with options in front of the command
	}{
		{"commands", `tool ""`, "--help|make|show", false},
		{"a command", `tool ma`, "make", false},
		{"options", `tool make ""`, "--config|--dry-run|--feature|--force|--help", false},
		{"an option", `tool make --f`, "--feature|--force", false},
		{"a value", `tool make --config ""`, "a file|b", false},
		{"a value of a short option", `tool make -c ""`, "a file|b", false},
		{"no value", `tool make --force --c`, "--config", false},
		{"an argument", `tool show ""`, "a file|b", false},
		{"an option of a command with arguments", `tool show --h`, "--help", false},
		{"options in front", `tool -`, "--controller|--help|--server", true},
		{"a command behind options", `tool --server localhost : 9092 ""`, "--controller|--help|--server|change|show", true},
		{"options behind the command", `tool --server localhost : 9092 change --`, "--dry-run|--feature|--help", true},
		{"the value of an option in front", `tool --server ""`, "a file|b", true},
	}
	for _, tt := range tests {
		script := script
		if tt.features {
			script = features
		}
		cmd := exec.Command("bash", "-c", script+`COMP_WORDS=(`+tt.words+`); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _tool; printf '%s\n' "${COMPREPLY[@]}"`)
		out, err := cmd.CombinedOutput()
		words := strings.Split(strings.TrimSpace(string(out)), "\n")
		slices.Sort(words) // as bash does
		if got := strings.Join(words, "|"); err != nil || got != tt.want {
			t.Errorf("%s: %v, got %q, want %q", tt.name, err, got, tt.want)
		}
	}
}

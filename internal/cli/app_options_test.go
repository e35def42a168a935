package cli

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"
)

// featuresGrammar has options in front of the command, as kafka-features has them.
func featuresGrammar() *Grammar {
	return &Grammar{
		EnvPrefix:     "TOOL_",
		Exclusive:     [][]string{{"server", "controller"}},
		ArgumentsOnly: map[string][]string{"change": {"feature"}},
		App: &cli.App{Name: "tool", Usage: "tool does things.", UsageText: "tool COMMAND", Description: "The end.",
			Flags: []cli.Flag{
				&cli.StringFlag{Name: "server", Usage: "Where `IT` is."},
				&cli.StringFlag{Name: "controller", Usage: "Where `IT` is instead."},
			},
			Commands: []*cli.Command{
				{Name: "change", Usage: "Change it.", UsageText: "tool change", Flags: []cli.Flag{
					&cli.StringSliceFlag{Name: "feature", Required: true, Usage: "A `NAME`."},
					&cli.BoolFlag{Name: "dry-run", Usage: "Only look."},
				}},
				{Name: "show", Usage: "Show it.", UsageText: "tool show", Flags: []cli.Flag{&cli.StringSliceFlag{Name: "feature", Usage: "A `NAME`."}}},
			}},
	}
}

func TestOptionsOfTheApplication(t *testing.T) {
	variables := map[string]string{}
	env := func(name string) (string, bool) { v, ok := variables[name]; return v, ok }
	tests := []struct {
		name, variable, argv, want string
	}{
		{"in front of the command", "", "--server a --serv=b show", "--server=b show --"},
		{"not behind it", "", "show --server a", `error: unrecognized arguments: "--server"`},
		{"a variable", "TOOL_SERVER=a", "show", "--server=a show --"},
		{"a variable of the other one of two", "TOOL_SERVER=a", "--controller b show", "--controller=b show --"},
		{"two that exclude each other", "", "--controller b --server a show", "error: the option --server is not allowed with --controller"},
		{"a variable of an option", "TOOL_FEATURE=x", "show", "show --feature=x --"},
		{"an option without a variable", "TOOL_FEATURE=x", "change", "error: the option --feature is required"},
		{"no files of arguments", "", "show --feature @x", "show --feature=@x --"},
		{"a file of arguments for a command", "", "@x", `error: there is no command "@x"; the commands are change, show`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			clear(variables)
			if name, value, ok := strings.Cut(tt.variable, "="); ok {
				variables[name] = value
			}
			a, err := featuresGrammar().Canonical(strings.Fields(tt.argv), env)
			if want, ok := strings.CutPrefix(tt.want, "error: "); ok {
				if err == nil || err.Error() != want {
					t.Errorf("got %v, %v", a.Argv, err)
				}
				return
			}
			if err != nil || !slices.Equal(a.Argv, strings.Fields(tt.want)) {
				t.Errorf("got %q, %v; want %q", a.Argv, err, tt.want)
			}
		})
	}
}

func TestUnrecognizedOption(t *testing.T) {
	_, err := featuresGrammar().Canonical([]string{"show", "--server=a"}, noEnv)
	if usage := (*UsageError)(nil); !errors.As(err, &usage) || usage.Unrecognized != "--server" || usage.Command != "show" {
		t.Errorf("got %+v", err)
	}
}

func TestHelpOfOptionsOfTheApplication(t *testing.T) {
	want := `tool does things.

Usage:
  tool COMMAND

Commands:
  change                 Change it.
  show                   Show it.

Options, in front of the command:
  --server IT
      Where IT is. (TOOL_SERVER)
  --controller IT
      Where IT is instead. (TOOL_CONTROLLER)

The end.
`
	if got := featuresGrammar().Help(""); got != want {
		t.Errorf("got\n%s", got)
	}
	want = `Change it.

Usage:
  tool change

Options:
  --feature NAME
      A NAME. (required; may be given several times)
  --dry-run
      Only look. (TOOL_DRY_RUN)

  -h, --help
      Show this text.
`
	if got := featuresGrammar().Help("change"); got != want {
		t.Errorf("got\n%s", got)
	}
}

func TestFishCompletesOptionsOfTheApplication(t *testing.T) {
	got, err := featuresGrammar().Completion("fish")
	if err != nil || !strings.HasSuffix(got, "complete -c tool -n __fish_use_subcommand -l server -r\ncomplete -c tool -n __fish_use_subcommand -l controller -r\n") {
		t.Errorf("%v, got\n%s", err, got)
	}
}

package cli

import (
	"fmt"
	"strings"
)

// Shells are those that Completion knows.
var Shells = []string{"bash", "zsh", "fish"}

// Completion is a script for shell that completes the commands and options of the application
// and, where an option takes a value or a command takes arguments, file names.
func (g *Grammar) Completion(shell string) (string, error) {
	switch shell {
	case "bash":
		return g.bash(), nil
	case "zsh":
		return "autoload -U +X bashcompinit && bashcompinit\n" + g.bash(), nil
	case "fish":
		return g.fish(), nil
	}
	return "", &UsageError{Command: "completion", Reason: fmt.Sprintf("there is no completion for the shell %s; there is one for %s", new(parser).shown(shell), strings.Join(Shells, ", "))}
}

func (g *Grammar) bash() string {
	var cases strings.Builder
	for _, c := range g.App.Commands {
		var words, values []string
		for _, o := range append(options(c.Flags), help) {
			words = append(words, "--"+o.long)
			if !o.switchOnly {
				values = append(values, "--"+o.long, "-"+o.short)
			}
		}
		if c.Args {
			values = append(values, c.Name) // its first argument
		}
		fmt.Fprintf(&cases, "    %s) words=%q values=%q ;;\n", c.Name, strings.Join(words, " "), strings.Join(values, " "))
	}
	return fmt.Sprintf(`_%[1]s() {
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} words values
  case ${COMP_WORDS[1]} in
%[2]s  esac
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W %[3]q -- "$word"))
  elif [ "$before" = completion ]; then
    COMPREPLY=($(compgen -W %[4]q -- "$word"))
  elif [[ $word == [^-]* || -z $word && " $values " == *" $before "* ]]; then
    local IFS=$'\n' # names of files may have blanks
    COMPREPLY=($(compgen -f -- "$word"))
  else
    COMPREPLY=($(compgen -W "$words" -- "$word"))
  fi
}
complete -o filenames -F _%[1]s %[1]s
`, g.App.Name, cases.String(), strings.ReplaceAll(g.commandNames(), ",", "")+" --help", strings.Join(Shells, " "))
}

func (g *Grammar) fish() string {
	var b strings.Builder
	for _, c := range g.App.Commands {
		fmt.Fprintf(&b, "complete -c %s -f -n __fish_use_subcommand -a %s -d %s\n", g.App.Name, c.Name, shellQuote(c.Usage))
		for _, o := range append(options(c.Flags), help) {
			fmt.Fprintf(&b, "complete -c %s -n '__fish_seen_subcommand_from %s' -l %s", g.App.Name, c.Name, o.long)
			if o.short != "" {
				fmt.Fprintf(&b, " -s %s", o.short)
			}
			if !o.switchOnly {
				b.WriteString(" -r")
			}
			b.WriteByte('\n')
		}
	}
	return b.String()
}

func shellQuote(s string) string {
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

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
	var names []string
	for _, c := range g.App.Commands {
		words, values := completed(g.options(c.Name, c.Flags))
		if c.Args {
			values = append(values, c.Name) // its first argument
		}
		names = append(names, c.Name)
		fmt.Fprintf(&cases, "    %s) words=%q values=%q ;;\n", c.Name, strings.Join(words, " "), strings.Join(values, " "))
	}
	words, values := completed(g.options("", g.App.Flags))
	fmt.Fprintf(&cases, "    '') words=%q values=%q ;;\n", strings.Join(append(names, words...), " "), strings.Join(values, " "))
	return fmt.Sprintf(`_%[1]s() {
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} command words values i
  for ((i = 1; i < COMP_CWORD; i++)); do
    case ${COMP_WORDS[i]} in
      %[3]s) command=${COMP_WORDS[i]}; break ;;
    esac
  done
  case $command in
%[2]s  esac
  if [ "$before" = completion ]; then
    COMPREPLY=($(compgen -W %[4]q -- "$word"))
  elif [[ -z $command && " $values " != *" $before "* ]]; then
    COMPREPLY=($(compgen -W "$words" -- "$word"))
  elif [[ $word == [^-]* || -z $word && " $values " == *" $before "* ]]; then
    local IFS=$'\n' # names of files may have blanks
    COMPREPLY=($(compgen -f -- "$word"))
  else
    COMPREPLY=($(compgen -W "$words" -- "$word"))
  fi
}
complete -o filenames -F _%[1]s %[1]s
`, g.App.Name, cases.String(), strings.Join(names, "|"), strings.Join(Shells, " "))
}

// completed has the options as they are written, and those of them behind which a value follows.
func completed(table []option) (words, values []string) {
	for _, o := range append(table, help) {
		words = append(words, "--"+o.long)
		if o.switchOnly {
			continue
		}
		values = append(values, "--"+o.long)
		if o.short != "" {
			values = append(values, "-"+o.short)
		}
	}
	return words, values
}

func (g *Grammar) fish() string {
	var b strings.Builder
	for _, c := range g.App.Commands {
		fmt.Fprintf(&b, "complete -c %s -f -n __fish_use_subcommand -a %s -d %s\n", g.App.Name, c.Name, shellQuote(c.Usage))
		g.fishOptions(&b, "'__fish_seen_subcommand_from "+c.Name+"'", append(g.options(c.Name, c.Flags), help))
	}
	g.fishOptions(&b, "__fish_use_subcommand", g.options("", g.App.Flags))
	return b.String()
}

func (g *Grammar) fishOptions(b *strings.Builder, when string, table []option) {
	for _, o := range table {
		fmt.Fprintf(b, "complete -c %s -n %s -l %s", g.App.Name, when, o.long)
		if o.short != "" {
			fmt.Fprintf(b, " -s %s", o.short)
		}
		if !o.switchOnly {
			b.WriteString(" -r")
		}
		b.WriteByte('\n')
	}
}

func shellQuote(s string) string {
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

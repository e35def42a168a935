package cli

import (
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"
)

const (
	helpWidth  = 80
	helpIndent = 6
)

// Help is the help text of a command, or of the application if command is empty: one sentence,
// the usual call, the options, and the command's description, which ends with an example.
func (g *Grammar) Help(command string) string {
	var b strings.Builder
	if command == "" {
		fmt.Fprintf(&b, "%s\n\nUsage:\n  %s\n\nCommands:\n", g.App.Usage, g.App.UsageText)
		for _, c := range g.App.Commands {
			fmt.Fprintf(&b, "  %-22s %s\n", c.Name, c.Usage)
		}
		b.WriteString(g.optionsHelp("", g.App.Flags))
		fmt.Fprintf(&b, "\n%s\n", g.App.Description)
		return b.String()
	}
	c := g.App.Command(command)
	fmt.Fprintf(&b, "%s\n\nUsage:\n  %s\n", c.Usage, c.UsageText)
	b.WriteString(g.optionsHelp(command, c.Flags))
	b.WriteString("\n  -h, --help\n      Show this text.\n")
	if c.Description != "" {
		fmt.Fprintf(&b, "\n%s\n", c.Description)
	}
	return b.String()
}

// optionsHelp has the options by category.
// Markdown is a page with the help texts of the application and of its commands.
func (g *Grammar) Markdown() string {
	name, _, _ := strings.Cut(g.App.Usage, " ")
	var b strings.Builder
	b.WriteString("# " + name + ": commands and options\n\nMade from the help texts by `make docs`.\n\n```\n" + g.Help("") + "```\n")
	for _, c := range g.App.Commands {
		b.WriteString("\n## " + name + " " + c.Name + "\n\n```\n" + g.Help(c.Name) + "```\n")
	}
	return b.String()
}

func (g *Grammar) optionsHelp(command string, flags []cli.Flag) string {
	var b strings.Builder
	for _, category := range categories(flags) {
		title := category
		switch {
		case title == "" && command == "":
			title = "Options, in front of the command"
		case title == "":
			title = "Options"
		}
		fmt.Fprintf(&b, "\n%s:\n", title)
		for _, f := range flags {
			if categoryOf(f) == category {
				b.WriteString(g.optionHelp(command, f))
			}
		}
	}
	return b.String()
}

// categories lists the categories of the flags, those of Kafka's (none) first.
func categories(flags []cli.Flag) []string {
	out := []string{}
	for _, own := range []bool{false, true} {
		for _, f := range flags {
			c := categoryOf(f)
			if (c != "") == own && (len(out) == 0 || out[len(out)-1] != c) {
				out = append(out, c)
			}
		}
	}
	return out
}

func categoryOf(f cli.Flag) string {
	if c, ok := f.(cli.CategorizableFlag); ok {
		return c.GetCategory()
	}
	return ""
}

// optionHelp has an option as it is written, its usage, and the variable that holds its default.
func (g *Grammar) optionHelp(command string, f cli.Flag) string {
	head, usage := g.optionText(command, f)
	return fmt.Sprintf("  %s\n%s", head, wrap(usage))
}

// optionText has an option as it is written, with the name of its value from the backquotes of its usage, and the usage
// with notes.
func (g *Grammar) optionText(command string, f cli.Flag) (head, usage string) {
	o := g.options(command, []cli.Flag{f})[0]
	usage = f.(cli.DocGenerationFlag).GetUsage()
	head = "--" + o.long
	if o.short != "" {
		head = "-" + o.short + ", " + head
	}
	if !o.switchOnly {
		before, rest, _ := strings.Cut(usage, "`")
		value, after, _ := strings.Cut(rest, "`")
		head += " " + value
		usage = before + value + after
	}
	var notes []string
	if o.required {
		notes = append(notes, "required")
	}
	if o.list {
		notes = append(notes, "may be given several times")
	}
	if o.variable != "" {
		notes = append(notes, o.variable)
	}
	if len(notes) > 0 {
		usage += " (" + strings.Join(notes, "; ") + ")"
	}
	return head, usage
}

// wrap breaks text into indented lines.
func wrap(text string) string {
	var b strings.Builder
	column := 0
	for _, word := range strings.Fields(text) {
		if column > 0 && column+1+len(word) > helpWidth {
			b.WriteByte('\n')
			column = 0
		}
		if column == 0 {
			b.WriteString(strings.Repeat(" ", helpIndent))
			column = helpIndent
		} else {
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += len(word)
	}
	b.WriteByte('\n')
	return b.String()
}

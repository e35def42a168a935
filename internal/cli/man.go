package cli

import (
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"
)

// Man is the manual page of the application in section 1, from the texts of which Help is made. Its language is that of the
// man macros, see man(7). also has the names of pages to see, such as kfeatures(1).
func (g *Grammar) Man(also ...string) string {
	var b strings.Builder
	// Words are not hyphenated: they are copied.
	name, about, _ := strings.Cut(strings.TrimSuffix(g.App.Usage, "."), " ")
	fmt.Fprintf(&b, ".TH %s 1 \"\" %s \"User Commands\"\n.nh\n.ad l\n", strings.ToUpper(name), name)
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", name, roff(about))
	fmt.Fprintf(&b, ".SH SYNOPSIS\n.nf\n%s\n.fi\n", roff(g.App.UsageText))
	b.WriteString(".SH DESCRIPTION\n" + paragraphs(g.App.Description))
	g.manOptions(&b, "", g.App.Flags)
	b.WriteString(".SH COMMANDS\n")
	for _, c := range g.App.Commands {
		fmt.Fprintf(&b, ".SS %s %s\n%s\n.PP\n.nf\n%s\n.fi\n", name, c.Name, roff(c.Usage), roff(c.UsageText))
		g.manOptions(&b, c.Name, c.Flags)
		b.WriteString(paragraphs(c.Description))
	}
	b.WriteString(".SH EXIT STATUS\n0 if all went well, else 1.\n")
	b.WriteString(".SH ENVIRONMENT\nThe variable that stands in for an option is named beside it. A variable that is set but empty counts as unset, if nothing else is said.\n")
	for i, page := range also {
		if i == 0 {
			b.WriteString(".SH SEE ALSO\n")
		} else {
			b.WriteString(",\n")
		}
		title, section, _ := strings.Cut(page, "(")
		fmt.Fprintf(&b, ".BR %s (%s", title, section)
	}
	return b.String() + "\n"
}

// manOptions has the options by category.
func (g *Grammar) manOptions(b *strings.Builder, command string, flags []cli.Flag) {
	for _, category := range categories(flags) {
		switch {
		case category != "":
			fmt.Fprintf(b, ".PP\n%s:\n", roff(category))
		case command == "":
			b.WriteString(".SH OPTIONS\nIn front of the command:\n")
		}
		for _, f := range flags {
			if categoryOf(f) != category {
				continue
			}
			head, usage := g.optionText(command, f)
			fmt.Fprintf(b, ".TP\n.B %s\n%s\n", roff(head), roff(usage))
		}
	}
}

// paragraphs is a description: what is indented stays as it is, the rest is filled.
func paragraphs(text string) string {
	var b strings.Builder
	example := false
	b.WriteString(".PP\n")
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if indented := strings.HasPrefix(line, "  "); indented != example {
			example = indented
			if example {
				b.WriteString(".RS 4\n.nf\n")
			} else {
				b.WriteString(".fi\n.RE\n")
			}
		}
		if line == "" {
			b.WriteString(".PP\n")
			continue
		}
		b.WriteString(roff(strings.TrimPrefix(line, "  ")) + "\n")
	}
	if example {
		b.WriteString(".fi\n.RE\n")
	}
	return b.String()
}

// roff is text that stands for itself: hyphens are those of options, and no line is a request.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "`", "\\(ga", "^", `\(ha`, "~", `\(ti`).Replace(text)
	if strings.HasPrefix(text, ".") {
		text = `\&` + text
	}
	return text
}

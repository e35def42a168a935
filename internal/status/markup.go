package status

import (
	"fmt"
	"html"
	"strings"
)

// markup is HTML. Only constants become markup by themselves: a text of any other origin is a string, which goes through
// text, and is escaped there.
type markup string

// document is HTML that is being written.
type document struct{ b strings.Builder }

func (d *document) html(m markup) { d.b.WriteString(string(m)) }

// text writes a text, also as the value of an attribute in double quotes.
func (d *document) text(s string) {
	d.b.WriteString(html.EscapeString(strings.ToValidUTF8(s, "\uFFFD")))
}

func (d *document) textf(format string, args ...any) { d.text(fmt.Sprintf(format, args...)) }

// fact writes a name with its value, and what is to be known about that in small.
func (d *document) fact(name markup, value, note string) {
	d.html("<div><dt>")
	d.html(name)
	d.html("</dt><dd>")
	d.text(value)
	if note != "" {
		d.html(" <small>")
		d.text(note)
		d.html("</small>")
	}
	d.html("</dd></div>\n")
}

// column of a table.
type column struct {
	name   markup
	isNum  bool // aligned to the right
	isCode bool // an id
}

// table writes a table, whose first column names the row. In a narrow window a row becomes a block where each cell stands
// beside the name of its column; the roles keep it a table for those who hear it.
func (d *document) table(caption markup, columns []column, rows [][]string) {
	d.html("<table role=\"table\"")
	if len(columns) == 2 {
		d.html(" class=\"short\"")
	}
	d.html("><caption>")
	d.html(caption)
	d.html("</caption><thead role=\"rowgroup\"><tr role=\"row\">")
	for _, c := range columns {
		d.html("<th scope=\"col\" role=\"columnheader\"")
		d.class(c)
		d.html(">")
		d.html(c.name)
		d.html("</th>")
	}
	d.html("</tr></thead><tbody role=\"rowgroup\">\n")
	for _, row := range rows {
		d.html("<tr role=\"row\">")
		for i, cell := range row {
			begin, end := markup("<td role=\"cell\""), markup("</span></td>")
			if i == 0 {
				begin, end = "<th role=\"rowheader\" scope=\"row\"", "</span></th>"
			}
			d.html(begin)
			d.html(" data-name=\"")
			d.html(columns[i].name)
			d.html("\"")
			if cell == "" {
				d.html(" class=\"empty\"")
			} else {
				d.class(columns[i])
			}
			d.html("><span>")
			d.text(cell)
			d.html(end)
		}
		d.html("</tr>\n")
	}
	d.html("</tbody></table>\n")
}

func (d *document) class(c column) {
	switch {
	case c.isNum:
		d.html(" class=\"num\"")
	case c.isCode:
		d.html(" class=\"code\"")
	}
}

package status

import (
	"math"
	"strconv"
	"strings"
)

// exposition is a text in Prometheus' format. All lines of a metric stand together, behind its family.
type exposition struct {
	b    []byte
	name string // of the family
}

const (
	gauge   = "gauge"
	counter = "counter"
)

// family begins a metric. Its name and help are our own words.
func (e *exposition) family(name, kind, help string) {
	e.name = name
	e.b = append(e.b, "# HELP "+name+" "...)
	e.b = append(e.b, help...)
	e.b = append(e.b, "\n# TYPE "+name+" "...)
	e.b = append(e.b, kind...)
	e.b = append(e.b, '\n')
}

// value adds a line to the family; labels are names, each with its value behind it.
func (e *exposition) value(v float64, labels ...string) {
	e.b = append(e.b, e.name...)
	for i := 0; i < len(labels); i += 2 {
		if i == 0 {
			e.b = append(e.b, '{')
		} else {
			e.b = append(e.b, ',')
		}
		e.b = append(e.b, labels[i]...)
		e.b = append(e.b, '=', '"')
		e.b = append(e.b, labelEscapes.Replace(strings.ToValidUTF8(labels[i+1], "\uFFFD"))...)
		e.b = append(e.b, '"')
	}
	if len(labels) > 0 {
		e.b = append(e.b, '}')
	}
	e.b = append(e.b, ' ')
	format := byte('g')
	if v == math.Trunc(v) && math.Abs(v) < 1<<53 {
		format = 'f'
	}
	e.b = append(strconv.AppendFloat(e.b, v, format, -1, 64), '\n')
}

var labelEscapes = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

// one is a metric of one value.
func (e *exposition) one(name, kind, help string, v float64) {
	e.family(name, kind, help)
	e.value(v)
}

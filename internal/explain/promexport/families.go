package promexport

import (
	"bufio"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// The kinds of families that are served. What a process tells has summaries, too (process.txt).
const (
	counter = "counter"
	gauge   = "gauge"
)

// A metric is what a family is of: its name, its help text and its kind.
type metric struct{ name, help, kind string }

// families are what one scrape answers with, by name.
type families map[string]*family

// A family is a metric, whose name is its key in families, and its values.
type family struct {
	help, kind string
	samples    []sample
}

// A sample is a value of a family.
type sample struct {
	suffix string   // of the family's name: _sum and _count of a summary, otherwise ""
	labels []string // names and values in turns
	value  float64
}

// add adds a value of a metric, in its unit; labels are names and values in turns.
func (f families) add(m metric, value float64, labels ...string) {
	if f[m.name] == nil {
		f[m.name] = &family{help: m.help, kind: m.kind}
	}
	f[m.name].samples = append(f[m.name].samples, sample{labels: labels, value: value})
}

// contentType is that of Prometheus' text format, version 0.0.4
// (https://prometheus.io/docs/instrumenting/exposition_formats), which write writes.
const contentType = "text/plain; version=0.0.4; charset=utf-8"

var (
	escapeHelp  = strings.NewReplacer(`\`, `\\`, "\n", `\n`)
	escapeLabel = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)
)

// write writes the families in the order of their names. A family's samples keep their order.
func (f families) write(to io.Writer) error {
	out := bufio.NewWriter(to)
	for _, name := range slices.Sorted(maps.Keys(f)) {
		out.WriteString("# HELP " + name + " " + escapeHelp.Replace(f[name].help) + "\n")
		out.WriteString("# TYPE " + name + " " + f[name].kind + "\n")
		for _, s := range f[name].samples {
			out.WriteString(name + s.suffix)
			before := "{"
			for label := range slices.Chunk(s.labels, 2) {
				out.WriteString(before + label[0] + `="` + escapeLabel.Replace(label[1]) + `"`)
				before = ","
			}

			if len(s.labels) > 0 {
				out.WriteString("}")
			}

			out.WriteString(" " + strconv.FormatFloat(s.value, 'g', -1, 64) + "\n")
		}
	}

	return out.Flush() // the first error of the writes above
}

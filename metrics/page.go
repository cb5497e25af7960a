package metrics

import (
	"bytes"
	"math"
	"strconv"
	"strings"
)

// prefix begins the name of every metric.
const prefix = "penstock_"

const (
	counter   = "counter"
	gauge     = "gauge"
	histogram = "histogram"
)

// page is metrics in the text format of Prometheus 0.0.4, see
// https://prometheus.io/docs/instrumenting/exposition_formats/
type page struct{ b bytes.Buffer }

// family begins the metric of a name. All its samples must follow.
func (p *page) family(name, kind, help string) {
	p.b.WriteString("# HELP " + prefix + name + " " + helpEscapes.Replace(help) + "\n")
	p.b.WriteString("# TYPE " + prefix + name + " " + kind + "\n")
}

// sample writes one value, with names and values of labels in turn.
func (p *page) sample(name string, v float64, labels ...string) {
	p.b.WriteString(prefix + name)
	for i := 0; i+1 < len(labels); i += 2 {
		mark := ","
		if i == 0 {
			mark = "{"
		}
		p.b.WriteString(mark + labels[i] + `="` + escapes.Replace(strings.ToValidUTF8(labels[i+1], "\uFFFD")) + `"`)
	}
	if len(labels) > 0 {
		p.b.WriteByte('}')
	}
	p.b.WriteString(" " + number(v) + "\n")
}

var (
	escapes     = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)
	helpEscapes = strings.NewReplacer(`\`, `\\`, "\n", `\n`)
)

func number(v float64) string {
	switch {
	case math.IsInf(v, 1):
		return "+Inf"
	case math.IsInf(v, -1):
		return "-Inf"
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}

func (p *page) add(other *page) { p.b.Write(other.b.Bytes()) }

func (p *page) bytes() []byte { return p.b.Bytes() }

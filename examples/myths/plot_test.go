package myths

import (
	"fmt"
	"html"
	"math"
	"strings"
)

// A panel is one chart of a plot.
type panel struct {
	title  string
	labels []string // bars, one group for each; nil: lines over x
	x0, dx float64  // of the lines
	xName  string
	limit  float64 // drawn as a line across; 0: none
	series []series
}

// A series is named by its side of the story.
type series struct {
	name   string
	colour string
	y      []float64
}

const (
	red   = "#c0392b" // the usual way
	blue  = "#1f6fb2" // Penstock
	grey  = "#8a8a8a"
	amber = "#d98e04"
)

const (
	plotWidth   = 680.0
	panelHeight = 250.0
	left, right = 56.0, 16.0
	top, bottom = 54.0, 40.0
)

// draw returns the panels one below the other, as SVG.
func draw(panels []panel) string {
	var b strings.Builder
	height := panelHeight * float64(len(panels))
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" font-family="sans-serif" font-size="12">`+"\n", plotWidth, height)
	fmt.Fprintf(&b, `<rect width="%.0f" height="%.0f" fill="#ffffff"/>`+"\n", plotWidth, height)
	for i, p := range panels {
		fmt.Fprintf(&b, `<g transform="translate(0 %.0f)">`+"\n", panelHeight*float64(i))
		p.draw(&b)
		b.WriteString("</g>\n")
	}
	b.WriteString("</svg>\n")
	return b.String()
}

func (p panel) draw(b *strings.Builder) {
	text(b, left, 18, "start", "#222222", p.title, ` font-weight="bold"`)
	at := left
	for _, s := range p.series {
		fmt.Fprintf(b, `<rect x="%.1f" y="28" width="10" height="10" fill="%s"/>`+"\n", at, s.colour)
		text(b, at+14, 37, "start", "#222222", s.name, "")
		at += 34 + 6.4*float64(len(s.name))
	}
	most := p.limit
	for _, s := range p.series {
		for _, y := range s.y {
			most = max(most, y)
		}
	}
	step := niceStep(most)
	most = step * math.Ceil(most/step)
	yOf := func(y float64) float64 { return panelHeight - bottom - y/most*(panelHeight-top-bottom) }
	for y := 0.0; y <= most; y += step {
		fmt.Fprintf(b, `<path d="M%.1f %.1fH%.1f" stroke="#dddddd"/>`+"\n", left, yOf(y), plotWidth-right)
		text(b, left-6, yOf(y)+4, "end", "#555555", short(y), "")
	}
	if p.labels != nil {
		p.bars(b, yOf)
	} else {
		p.lines(b, yOf)
	}
	if p.limit > 0 {
		fmt.Fprintf(b, `<path d="M%.1f %.1fH%.1f" stroke="#222222" stroke-dasharray="5 4"/>`+"\n", left, yOf(p.limit), plotWidth-right)
		text(b, plotWidth-right, yOf(p.limit)-5, "end", "#222222", "the API's limit", "")
	}
	text(b, (left+plotWidth-right)/2, panelHeight-6, "middle", "#555555", p.xName, "")
}

// bars draws a group of bars with their figures for each label.
func (p panel) bars(b *strings.Builder, yOf func(float64) float64) {
	group := (plotWidth - left - right) / float64(len(p.labels))
	width := group * 0.8 / float64(len(p.series))
	for i, label := range p.labels {
		begin := left + group*float64(i) + group*0.1
		for j, s := range p.series {
			x := begin + width*float64(j)
			fmt.Fprintf(b, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s"/>`+"\n", x, yOf(s.y[i]), width-2, yOf(0)-yOf(s.y[i]), s.colour)
			text(b, x+width/2-1, yOf(s.y[i])-4, "middle", "#222222", short(s.y[i]), "")
		}
		text(b, begin+group*0.4, yOf(0)+15, "middle", "#555555", label, "")
	}
}

// lines draws each series as steps.
func (p panel) lines(b *strings.Builder, yOf func(float64) float64) {
	n := 0
	for _, s := range p.series {
		n = max(n, len(s.y))
	}
	xOf := func(i int) float64 { return left + (plotWidth-left-right)*float64(i)/float64(n) }
	for _, s := range p.series {
		var path strings.Builder
		for i, y := range s.y {
			if i == 0 {
				fmt.Fprintf(&path, "M%.1f %.1f", xOf(0), yOf(y))
			} else if y != s.y[i-1] {
				fmt.Fprintf(&path, "V%.1f", yOf(y))
			}
			if i == len(s.y)-1 || s.y[i+1] != y {
				fmt.Fprintf(&path, "H%.1f", xOf(i+1))
			}
		}
		fmt.Fprintf(b, `<path d="%s" fill="none" stroke="%s" stroke-width="1.8"/>`+"\n", path.String(), s.colour)
	}
	length := p.dx * float64(n)
	for x := 0.0; x <= length; x += niceStep(length) {
		text(b, left+(plotWidth-left-right)*x/length, yOf(0)+15, "middle", "#555555", short(p.x0+x), "")
	}
}

func text(b *strings.Builder, x, y float64, anchor, colour, s, more string) {
	fmt.Fprintf(b, `<text x="%.1f" y="%.1f" text-anchor="%s" fill="%s"%s>%s</text>`+"\n", x, y, anchor, colour, more, html.EscapeString(s))
}

// niceStep is 1, 2 or 5 times a power of ten, so that about five steps reach most.
func niceStep(most float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(max(most, 1)/5)))
	for _, n := range []float64{1, 2, 5} {
		if n*power*5 >= most {
			return n * power
		}
	}
	return 10 * power
}

// short writes a figure with at most one place after the point.
func short(y float64) string { return strings.TrimSuffix(fmt.Sprintf("%.1f", y), ".0") }

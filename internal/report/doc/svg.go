package doc

import (
	"encoding/xml"
	"math"
	"strconv"
	"strings"
)

// drawing collects the elements of a picture of a width, in the colours that ink gives.
type drawing struct {
	strings.Builder
	ink   func(Color) string
	width float64
	depth int
}

// start begins an element with attributes: name, value, name, value.
func (d *drawing) start(name string, attributes []string) {
	d.WriteString(strings.Repeat(" ", d.depth) + "<" + name)
	for i := 0; i+1 < len(attributes); i += 2 {
		d.WriteString(" " + attributes[i] + `="` + escape(attributes[i+1]) + `"`)
	}
}

// open begins an element that has others in it.
func (d *drawing) open(name string, attributes ...string) {
	d.start(name, attributes)
	d.WriteString(">\n")
	d.depth++
}

func (d *drawing) close(name string) {
	d.depth--
	d.WriteString(strings.Repeat(" ", d.depth) + "</" + name + ">\n")
}

// element is one without others in it.
func (d *drawing) element(name string, attributes ...string) {
	d.start(name, attributes)
	d.WriteString("/>\n")
}

// node is an element of text.
func (d *drawing) node(name, text string, attributes ...string) {
	d.start(name, attributes)
	d.WriteString(">" + escape(text) + "</" + name + ">\n")
}

// escape is text as XML; what XML cannot have becomes U+FFFD.
func escape(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text)) // a Builder takes everything
	return b.String()
}

// text writes a line of which at is the start, the middle or the end of the base line.
func (d *drawing) text(at point, anchor, text string, attributes ...string) {
	place := []string{"x", coordinate(at.x), "y", coordinate(at.y)}
	if anchor != "start" {
		place = append(place, "text-anchor", anchor)
	}
	d.node("text", text, append(place, attributes...)...)
}

// turnedText writes upwards, and ends at a point.
func (d *drawing) turnedText(end point, text string) {
	d.node("text", text, "text-anchor", "end",
		"transform", "translate("+coordinates(end.x, end.y)+") rotate(-90)")
}

// openWindow begins what is seen inside a box with some room around it, and nowhere else. An
// element svg does this without a name, which would have to differ from all others on a page.
func (d *drawing) openWindow(b box, room float64) {
	from, to := b.min.minus(point{room, room}), b.max.plus(point{room, room})
	width, height := to.x-from.x, to.y-from.y
	d.open("svg", "x", coordinate(from.x), "y", coordinate(from.y),
		"width", coordinate(width), "height", coordinate(height),
		"viewBox", coordinates(from.x, from.y, width, height))
}

func (d *drawing) closeWindow() { d.close("svg") }

// fill fills a path, stroke draws along it; neither draws anything of an empty one.
func (d *drawing) fill(p path, c Color, more ...string) {
	if p != "" {
		d.element("path", append([]string{"d", string(p), "fill", d.ink(c)}, more...)...)
	}
}

func (d *drawing) stroke(p path, c Color, width float64, more ...string) {
	if p != "" {
		attributes := []string{"d", string(p), "fill", "none", "stroke", d.ink(c)}
		d.element("path", append(append(attributes, "stroke-width", coordinate(width)), more...)...)
	}
}

// points draws shapes, filled or hollow.
func (d *drawing) points(p path, s Style) {
	fill := s.Color
	if other := outlines[s.Shape].Fill; other != (Color{}) {
		fill = other
	}
	d.fill(p, fill, "stroke", d.ink(s.Color), "stroke-width", "1.4")
}

// dashes is the attribute of a pattern; none of a solid line.
func dashes(lengths []float64) []string {
	if len(lengths) == 0 {
		return nil
	}
	return []string{"stroke-dasharray", coordinates(lengths...)}
}

// point is a place on paper, from its upper left corner.
type point struct{ x, y float64 }

func (p point) plus(q point) point { return point{p.x + q.x, p.y + q.y} }

func (p point) minus(q point) point { return point{p.x - q.x, p.y - q.y} }

// box has sides along the axes.
type box struct{ min, max point }

func (b box) contains(p point) bool {
	return p.x >= b.min.x && p.x <= b.max.x && p.y >= b.min.y && p.y <= b.max.y
}

func (b box) overlaps(o box) bool {
	return b.min.x < o.max.x && o.min.x < b.max.x && b.min.y < o.max.y && o.min.y < b.max.y
}

// path is the value of the attribute d of a path.
type path string

func (p *path) command(letter string, at point) { *p += path(letter + coordinates(at.x, at.y)) }

func (p *path) line(from, to point) {
	p.command("M", from)
	p.command("L", to)
}

func (p *path) through(points []point) {
	letter := "M"
	for _, at := range points {
		p.command(letter, at)
		letter = "L"
	}
}

// between surrounds what is between two lines of as many points.
func (p *path) between(tops, feet []point) {
	if len(tops) == 0 {
		return
	}
	p.through(tops)
	for i := len(feet) - 1; i >= 0; i-- {
		p.command("L", feet[i])
	}
	*p += "Z"
}

func (p *path) box(b box) {
	p.through([]point{b.min, {b.max.x, b.min.y}, b.max, {b.min.x, b.max.y}})
	*p += "Z"
}

// shape adds that of a point; nothing where it has none.
func (p *path) shape(s Shape, at point) {
	if s != "" {
		p.command("M", at)
		*p += path(outlines[s].Path)
	}
}

// farOff is how far from the corner of the paper anything is drawn: no renderer need take
// numbers that its own cannot hold.
const farOff = 1 << 14

// coordinate prints one with the tenth that can be seen.
func coordinate(v float64) string {
	v = math.Round(10*max(-farOff, min(farOff, v))) / 10
	return strconv.FormatFloat(v+0, 'f', -1, 64) // + 0: not -0
}

func coordinates(all ...float64) string { return strings.Join(Each(all, coordinate), " ") }

// textWidth is about that of the widest line, in Helvetica and its likes: a bit more rather than
// less.
func textWidth(text string) (widest float64) {
	for line := range strings.SplitSeq(text, "\n") {
		width := 0.0
		for _, r := range line {
			width += runeWidth(r)
		}
		widest = max(widest, width)
	}
	return widest * typeSize
}

// runeWidth is about that of a rune, in units of the size of its type.
func runeWidth(r rune) float64 {
	switch {
	case strings.ContainsRune("iljtfI.,:;'|!()[]/ ", r):
		return 0.31
	case strings.ContainsRune("mwMW%@—", r):
		return 0.88
	case r >= 'A' && r <= 'Z':
		return 0.7
	case r < 0x2e80:
		return 0.57
	}

	return 1 // of East Asian scripts and pictures
}

// clipToWidth shortens a text to a width.
func clipToWidth(text string, width float64) string {
	for n := len([]rune(text)) - 1; n > 0 && textWidth(text) > width; n-- {
		text = Clip(text, n)
	}
	return text
}

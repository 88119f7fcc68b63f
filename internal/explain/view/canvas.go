package view

import (
	"image"
	"image/color"
	"image/draw"
	"math"
	"strings"
	"sync"

	"golang.org/x/image/font"
	"golang.org/x/image/font/gofont/goregular"
	"golang.org/x/image/font/opentype"
	"golang.org/x/image/math/fixed"
	"golang.org/x/image/vector"
)

// scale is how many pixels a point is wide.
const scale = PictureDPI / 72

var white = Color{light: 0xffffff}

// point is a place on paper, in points from its upper left corner.
type point struct{ x, y float64 }

func (p point) plus(q point) point { return point{p.x + q.x, p.y + q.y} }

func (p point) minus(q point) point { return point{p.x - q.x, p.y - q.y} }

// box has sides along the axes.
type box struct{ min, max point }

func (b box) corners() []point { return []point{b.min, {b.max.x, b.min.y}, b.max, {b.min.x, b.max.y}} }

func (b box) contains(p point) bool {
	return p.x >= b.min.x && p.x <= b.max.x && p.y >= b.min.y && p.y <= b.max.y
}

func (b box) overlaps(o box) bool {
	return b.min.x < o.max.x && o.min.x < b.max.x && b.min.y < o.max.y && o.min.y < b.max.y
}

// farOff is how far from the corner of the paper anything is drawn, in points: where it is between there and the paper is not exact,
// and takes time.
const farOff = 1 << 16

func (p point) near() point {
	return point{math.Max(-farOff, math.Min(farOff, p.x)), math.Max(-farOff, math.Min(farOff, p.y))}
}

// clip is what of a line is inside the box, if anything is.
func (b box) clip(from, to point) (begin, end point, is bool) {
	from, to = from.near(), to.near()
	first, last, way := 0.0, 1.0, to.minus(from)
	for _, side := range [...]struct{ along, room float64 }{{-way.x, from.x - b.min.x}, {way.x, b.max.x - from.x}, {-way.y, from.y - b.min.y},
		{way.y, b.max.y - from.y}} {
		switch crossed := side.room / side.along; {
		case side.along < 0:
			first = max(first, crossed)
		case side.along > 0:
			last = min(last, crossed)
		case side.room < 0:
			return from, to, false
		}
	}
	begin, end = point{from.x + way.x*first, from.y + way.y*first}, to
	if last < 1 {
		end = point{from.x + way.x*last, from.y + way.y*last}
	}
	return begin, end, first <= last
}

// canvas draws on an image.
type canvas struct {
	image *image.RGBA
	all   box // nothing outside it is drawn
}

// newCanvas is white paper of a size in points.
func newCanvas(width, height int) *canvas {
	c := &canvas{image: image.NewRGBA(image.Rect(0, 0, width*scale, height*scale)), all: box{max: point{float64(width), float64(height)}}}
	c.fill(white.ink(0xff), c.all.corners())
	return c
}

// within draws on a part of the same paper.
func (c *canvas) within(part box) *canvas { return &canvas{c.image, part} }

// fill covers what is inside outlines that turn the same way.
func (c *canvas) fill(ink color.Color, outlines ...[]point) {
	pixels := box{point{math.Inf(1), math.Inf(1)}, point{math.Inf(-1), math.Inf(-1)}}
	for _, outline := range outlines {
		for _, p := range outline {
			pixels.min = point{math.Min(pixels.min.x, p.x*scale), math.Min(pixels.min.y, p.y*scale)}
			pixels.max = point{math.Max(pixels.max.x, p.x*scale), math.Max(pixels.max.y, p.y*scale)}
		}
	}
	// Kept within the paper before they become whole numbers: an outline can reach anywhere.
	room := box{point{math.Max(pixels.min.x, c.all.min.x*scale), math.Max(pixels.min.y, c.all.min.y*scale)},
		point{math.Min(pixels.max.x, c.all.max.x*scale), math.Min(pixels.max.y, c.all.max.y*scale)}}
	if !(room.min.x < room.max.x && room.min.y < room.max.y) {
		return
	}
	in := image.Rect(int(room.min.x), int(room.min.y), int(math.Ceil(room.max.x)), int(math.Ceil(room.max.y)))
	r := vector.NewRasterizer(in.Dx(), in.Dy())
	for _, outline := range outlines {
		for i, p := range outline {
			move := r.LineTo
			if i == 0 {
				move = r.MoveTo
			}
			p = p.near()
			move(float32(p.x*scale-float64(in.Min.X)), float32(p.y*scale-float64(in.Min.Y)))
		}
		r.ClosePath()
	}
	r.Draw(c.image, in, image.NewUniform(ink), image.Point{})
}

// line joins points, with round corners and the dashes of its style, which begin where the paper does.
func (c *canvas) line(s Style, through ...point) {
	var outlines [][]point
	half := s.Width / 2
	seen := box{c.all.min.minus(point{half, half}), c.all.max.plus(point{half, half})}
	on, left, nth := true, math.Inf(1), 0
	if len(s.Dash) > 0 {
		left = s.Dash[0]
	}
	for i := range len(through) - 1 {
		from, to, is := seen.clip(through[i], through[i+1])
		if !is {
			continue
		}
		length := math.Hypot(to.x-from.x, to.y-from.y)
		if length == 0 || math.IsInf(length, 0) || math.IsNaN(length) {
			continue
		}
		along := point{(to.x - from.x) / length, (to.y - from.y) / length}
		for done := 0.0; done < length; {
			part := math.Min(left, length-done)
			if on {
				a := point{from.x + along.x*done, from.y + along.y*done}
				b := a.plus(point{along.x * part, along.y * part})
				side := point{-along.y * half, along.x * half}
				outlines = append(outlines, []point{a.plus(side), b.plus(side), b.minus(side), a.minus(side)})
			}
			done += part
			if left -= part; left <= 0 {
				on, nth = !on, nth+1
				left = s.Dash[nth%len(s.Dash)]
			}
		}
		if on && i+2 < len(through) && to == through[i+1] {
			outlines = append(outlines, regular(to, half, 12, 0))
		}
	}
	c.fill(s.Color.ink(0xff), outlines...)
}

// regular has corners on a circle, the first of them turned from the top.
func regular(middle point, radius float64, corners int, turn float64) (outline []point) {
	for i := range corners {
		angle := -2*math.Pi*float64(i)/float64(corners) + turn
		outline = append(outline, point{middle.x + radius*math.Sin(angle), middle.y - radius*math.Cos(angle)})
	}
	return outline
}

// glyph draws the shape of a point.
func (c *canvas) glyph(s Style, at point, radius float64) {
	line := Style{Color: s.Color, Width: 1}
	switch s.Shape {
	case Circle, Ring, Box, Square, Pyramid, Triangle:
		outline := regular(at, radius, 24, 0)
		switch s.Shape {
		case Box, Square:
			outline = regular(at, radius*1.2, 4, math.Pi/4)
		case Pyramid, Triangle:
			outline = regular(at, radius*1.2, 3, 0)
		}
		if s.Shape == Circle || s.Shape == Box || s.Shape == Pyramid {
			c.fill(s.Color.ink(0xff), outline)
		} else {
			c.line(line, append(outline, outline[:2]...)...)
		}
	case Cross:
		c.line(line, at.minus(point{radius, radius}), at.plus(point{radius, radius}))
		c.line(line, at.plus(point{radius, -radius}), at.plus(point{-radius, radius}))
	case Plus:
		c.line(line, at.minus(point{x: radius}), at.plus(point{x: radius}))
		c.line(line, at.minus(point{y: radius}), at.plus(point{y: radius}))
	}
}

// typeface is the only one: Go's own, which is part of the program.
var typeface = sync.OnceValue(func() *opentype.Font {
	parsed, err := opentype.Parse(goregular.TTF)
	if err != nil {
		panic(err) // the program's own bytes
	}
	return parsed
})

// face is the typeface in a size; it serves one goroutine.
func face(size float64) font.Face {
	face, err := opentype.NewFace(typeface(), &opentype.FaceOptions{Size: size, DPI: PictureDPI})
	if err != nil {
		panic(err)
	}
	return face
}

// textWidth is that of the widest line.
func textWidth(size float64, text string) (width float64) {
	for line := range strings.SplitSeq(text, "\n") {
		width = math.Max(width, float64(font.MeasureString(face(size), line))/64/scale)
	}
	return width
}

// write puts a line of text on paper, with its base line from a point to the right.
func (c *canvas) write(ink Color, size float64, at point, text string) {
	(&font.Drawer{Dst: c.image, Src: image.NewUniform(ink.ink(0xff)), Face: face(size),
		Dot: fixed.Point26_6{X: fixed.Int26_6(at.x * scale * 64), Y: fixed.Int26_6(at.y * scale * 64)}}).DrawString(text)
}

// writeUp writes upwards along the left edge of the paper left of a point, which the text has its middle beside.
func (c *canvas) writeUp(ink Color, size float64, middle point, text string) {
	flat := &canvas{image: image.NewRGBA(image.Rect(0, 0, int(textWidth(size, text)*scale)+2, int(size*scale*1.5)))}
	flat.write(ink, size, point{0, size}, text)
	turned := image.NewRGBA(image.Rect(0, 0, flat.image.Bounds().Dy(), flat.image.Bounds().Dx()))
	for x := range turned.Bounds().Dx() {
		for y := range turned.Bounds().Dy() {
			turned.SetRGBA(x, y, flat.image.RGBAAt(flat.image.Bounds().Dx()-1-y, x))
		}
	}
	corner := image.Pt(int(middle.x*scale), int(middle.y*scale)-turned.Bounds().Dy()/2)
	draw.Draw(c.image, turned.Bounds().Add(corner), turned, image.Point{}, draw.Over)
}

package report

import (
	"image/color"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/statelab/statelab/engine"
)

// typeColor is a block type's colour, the same in every picture. Eight colours
// that readers with any kind of colour vision can tell apart (Okabe and Ito,
// "Color Universal Design", 2008), with a darker yellow.
func typeColor(kind engine.BlockType) color.RGBA {
	switch kind {
	case engine.Filter:
		return color.RGBA{0x00, 0x72, 0xb2, 0xff} // blue
	case engine.TopIndex:
		return color.RGBA{0x56, 0xb4, 0xe9, 0xff} // sky
	case engine.Index:
		return color.RGBA{0xe6, 0x9f, 0x00, 0xff} // orange
	case engine.Data:
		return color.RGBA{0x00, 0x9e, 0x73, 0xff} // green
	case engine.Value:
		return color.RGBA{0xcc, 0x79, 0xa7, 0xff} // purple
	case engine.Meta:
		return color.RGBA{0x99, 0x99, 0x99, 0xff}
	case engine.SingleIndex:
		return color.RGBA{0xc9, 0xb8, 0x00, 0xff} // yellow
	}
	return color.RGBA{0xd5, 0x5e, 0x00, 0xff} // vermilion: page
}

// typeShape tells types apart in black and white.
func typeShape(kind engine.BlockType) draw.GlyphDrawer {
	shapes := []draw.GlyphDrawer{draw.CircleGlyph{}, draw.RingGlyph{}, draw.BoxGlyph{}, draw.PyramidGlyph{}, draw.PlusGlyph{}, draw.CrossGlyph{}, draw.TriangleGlyph{}, draw.SquareGlyph{}}
	return shapes[int(kind)%len(shapes)]
}

// typeLabel is a block type in a legend or a header.
func typeLabel(kind engine.BlockType) string {
	switch kind {
	case engine.TopIndex:
		return "top index"
	case engine.SingleIndex:
		return "single index"
	case engine.Meta:
		return "table open"
	}
	return kind.String()
}

// maxLines is how many lines a picture holds before it stops being read.
const maxLines = 9

// curveStyle is the look of the i-th of several curves.
func curveStyle(i int) style {
	colors := [maxLines]color.RGBA{
		{0x00, 0x72, 0xb2, 0xff}, {0xd5, 0x5e, 0x00, 0xff}, {0x00, 0x9e, 0x73, 0xff}, {0xcc, 0x79, 0xa7, 0xff},
		{0xe6, 0x9f, 0x00, 0xff}, {0x56, 0xb4, 0xe9, 0xff}, {0x22, 0x22, 0x22, 0xff}, {0xc9, 0xb8, 0x00, 0xff},
		{0x8c, 0x5a, 0x32, 0xff},
	}
	shapes := [maxLines]draw.GlyphDrawer{
		draw.CircleGlyph{}, draw.BoxGlyph{}, draw.PyramidGlyph{}, draw.RingGlyph{},
		draw.SquareGlyph{}, draw.TriangleGlyph{}, draw.CrossGlyph{}, draw.PlusGlyph{},
		draw.BoxGlyph{},
	}
	return style{color: colors[i%maxLines], shape: shapes[i%maxLines]}
}

// rampStyle is the look of the i-th of n points in ascending order: dark to
// light, so that the order is seen.
func rampStyle(i, n int) style {
	ramp := [...]color.RGBA{
		{0x44, 0x01, 0x54, 0xff}, {0x46, 0x32, 0x7e, 0xff}, {0x36, 0x5c, 0x8d, 0xff}, {0x27, 0x7f, 0x8e, 0xff},
		{0x1f, 0xa1, 0x87, 0xff}, {0x4a, 0xc1, 0x6d, 0xff}, {0x8f, 0xc7, 0x2e, 0xff}, {0xd0, 0xb4, 0x00, 0xff},
	}
	if n <= 1 {
		return style{color: ramp[2]}
	}
	return style{color: ramp[i*(len(ramp)-1)/(n-1)]}
}

// dashed is the pattern of what was not measured by us: the device's account,
// a prediction, an ideal.
func dashed() []vg.Length { return []vg.Length{vg.Points(5), vg.Points(3)} }

// dotted is the pattern of what the disk leaves.
func dotted() []vg.Length { return []vg.Length{vg.Points(1.5), vg.Points(2.5)} }

// faded is c at opacity alpha, premultiplied as image/color wants it.
func faded(c color.RGBA, alpha uint8) color.Color {
	return color.NRGBA{c.R, c.G, c.B, alpha}
}

package view

import (
	"image/color"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// MaxLines is how many lines a picture holds before it stops being read.
const MaxLines = 9

// CurveStyle is the look of the i-th of several curves.
func CurveStyle(i int) Style {
	colors := [MaxLines]color.RGBA{
		{0x00, 0x72, 0xb2, 0xff}, {0xd5, 0x5e, 0x00, 0xff}, {0x00, 0x9e, 0x73, 0xff}, {0xcc, 0x79, 0xa7, 0xff},
		{0xe6, 0x9f, 0x00, 0xff}, {0x56, 0xb4, 0xe9, 0xff}, {0x22, 0x22, 0x22, 0xff}, {0xc9, 0xb8, 0x00, 0xff}, {0x8c, 0x5a, 0x32, 0xff},
	}
	shapes := [MaxLines]draw.GlyphDrawer{
		draw.CircleGlyph{}, draw.BoxGlyph{}, draw.PyramidGlyph{}, draw.RingGlyph{},
		draw.SquareGlyph{}, draw.TriangleGlyph{}, draw.CrossGlyph{}, draw.PlusGlyph{}, draw.BoxGlyph{},
	}
	return Style{Color: colors[i%MaxLines], Shape: shapes[i%MaxLines]}
}

// RampStyle is the look of the i-th of n points in ascending order: dark to
// light, so that the order is seen.
func RampStyle(i, n int) Style {
	ramp := [...]color.RGBA{
		{0x44, 0x01, 0x54, 0xff}, {0x46, 0x32, 0x7e, 0xff}, {0x36, 0x5c, 0x8d, 0xff}, {0x27, 0x7f, 0x8e, 0xff},
		{0x1f, 0xa1, 0x87, 0xff}, {0x4a, 0xc1, 0x6d, 0xff}, {0x8f, 0xc7, 0x2e, 0xff}, {0xd0, 0xb4, 0x00, 0xff},
	}
	if n <= 1 {
		return Style{Color: ramp[2]}
	}
	return Style{Color: ramp[i*(len(ramp)-1)/(n-1)]}
}

// Dashed is the pattern of what was not measured by us: the device's account,
// a prediction, a limit of scaling.
func Dashed() []vg.Length { return []vg.Length{vg.Points(5), vg.Points(3)} }

// Dotted is the pattern of what the disk leaves.
func Dotted() []vg.Length { return []vg.Length{vg.Points(1.5), vg.Points(2.5)} }

// Faded is c at opacity alpha, premultiplied as image/color wants it.
func Faded(c color.RGBA, alpha uint8) color.Color { return color.NRGBA{c.R, c.G, c.B, alpha} }

package engines

import (
	"image/color"

	"github.com/statelab/statelab/engine"
	"gonum.org/v1/plot/vg/draw"
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
	shapes := []draw.GlyphDrawer{draw.CircleGlyph{}, draw.RingGlyph{}, draw.BoxGlyph{}, draw.PyramidGlyph{}, draw.PlusGlyph{}, draw.CrossGlyph{},
		draw.TriangleGlyph{}, draw.SquareGlyph{}}
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

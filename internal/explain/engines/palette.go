package engines

import (
	"cmp"
	"image/color"

	"github.com/statelab/statelab/engine"
	"gonum.org/v1/plot/vg/draw"
)

// typeColor is a block type's colour, the same in every picture. Eight colours
// that readers with any kind of colour vision can tell apart (Okabe and Ito,
// "Color Universal Design", 2008), with a darker yellow.
func typeColor(kind engine.BlockType) color.RGBA {
	colors := map[engine.BlockType]color.RGBA{
		engine.Filter:      {0x00, 0x72, 0xb2, 0xff}, // blue
		engine.TopIndex:    {0x56, 0xb4, 0xe9, 0xff}, // sky
		engine.Index:       {0xe6, 0x9f, 0x00, 0xff}, // orange
		engine.Data:        {0x00, 0x9e, 0x73, 0xff}, // green
		engine.Value:       {0xcc, 0x79, 0xa7, 0xff}, // purple
		engine.Meta:        {0x99, 0x99, 0x99, 0xff}, // grey
		engine.SingleIndex: {0xc9, 0xb8, 0x00, 0xff}, // yellow
	}
	return cmp.Or(colors[kind], color.RGBA{0xd5, 0x5e, 0x00, 0xff}) // vermilion: page
}

// typeShape tells types apart in black and white.
func typeShape(kind engine.BlockType) draw.GlyphDrawer {
	shapes := []draw.GlyphDrawer{draw.CircleGlyph{}, draw.RingGlyph{}, draw.BoxGlyph{}, draw.PyramidGlyph{}, draw.PlusGlyph{}, draw.CrossGlyph{},
		draw.TriangleGlyph{}, draw.SquareGlyph{}}
	return shapes[int(kind)%len(shapes)]
}

// typeLabel is a block type in a legend or a header.
func typeLabel(kind engine.BlockType) string {
	labels := map[engine.BlockType]string{engine.TopIndex: "top index", engine.SingleIndex: "single index", engine.Meta: "table open"}
	return cmp.Or(labels[kind], kind.String())
}

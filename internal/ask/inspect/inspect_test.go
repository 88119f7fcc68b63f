package inspect

import (
	"bytes"
	"strings"
	"testing"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/model/lsm"
	"github.com/statelab/statelab/internal/report/doc"
	"github.com/statelab/statelab/internal/report/render"
)

// TestLevels: what IP1 and IP2 hold adds up, and the cache for it has room for memtables.
func TestLevels(t *testing.T) {
	levels := []engine.Level{
		{
			Level:                 0,
			Files:                 1,
			Bytes:                 8 << 20,
			Keys:                  50_000,
			DataBlocks:            1852,
			IndexBytes:            52 << 10,
			SingleIndexBytes:      52 << 10,
			IndexCacheBytes:       60 << 10,
			SingleIndexCacheBytes: 60 << 10,
			InCacheKnown:          true,
		},
		{
			Level:              6,
			Files:              4,
			Bytes:              92 << 20,
			Keys:               600_000,
			DataBlocks:         23_000,
			IndexBytes:         300 << 10,
			IndexCacheBytes:    500 << 10,
			TopIndexBytes:      2 << 10,
			TopIndexCacheBytes: 2 << 10,
			FilterBytes:        700 << 10,
			FilterCacheBytes:   700 << 10,
			InCacheKnown:       true,
		},
	}

	inflection := lsm.Inflect(levels, nil, 100<<20)
	const table = `Levels
level  files      size     keys  data blocks     index  top index    filters
   L0      1  8.00 MiB   50,000        1,852  52.0 KiB        0 B        0 B
   L6      4  92.0 MiB  600,000       23,000   300 KiB   2.00 KiB  700 KiB *

Inflection points
`

	const notes = `* filters of the last level are never consulted by a Get
Single indexes: 52.0 KiB of the indexes, in tables too small for a top index;
Gets consult them as they do top indexes.
Index blocks are compressed on disk, and not in a cache.
`

	for reserved, want := range map[int64]string{
		0: table + `                                       on disk  in cache  % of DB
IP1: filters, top and single indexes  54.0 KiB  62.0 KiB   0.0605
IP2: IP1 and all other indexes         354 KiB   562 KiB    0.549
` + notes,
		256 << 10: table +
			`                                       on disk  in cache  cache needed  % of DB
IP1: filters, top and single indexes  54.0 KiB  62.0 KiB       318 KiB    0.311
IP2: IP1 and all other indexes         354 KiB   562 KiB       818 KiB    0.799
` + notes + `Cache needed: with the 256 KiB that memtables take while nothing is written.
`,
	} {
		d := new(doc.Document)
		d.Add("Levels", levelBlocks(levels, &inflection, 100<<20, reserved)...)
		var out bytes.Buffer
		if err := render.Terminal(&out, d); err != nil || out.String() != want {
			t.Errorf("printed\n%s\nwant\n%s\n%v", out.String(), want, err)
		}
	}
}

// TestUnknownPrice: reads that cannot be priced are not said to be none.
func TestUnknownPrice(t *testing.T) {
	f := family{levels: []engine.Level{{Level: 6, Files: 1}}}
	if extra, err := f.extra(t.Context(), nil, nil); extra != 0 || err != nil || !f.unpriced {
		t.Errorf("%g, %v, unpriced: %v", extra, err, f.unpriced)
	}
	facts := (&Inspection{}).findingBlock(Finding{Text: "nothing", ReadsUnknown: true}).Facts
	if !strings.HasPrefix(facts[1][1], "an unknown number of block reads") {
		t.Error(facts)
	}
}

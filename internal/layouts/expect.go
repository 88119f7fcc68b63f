package layouts

import (
	"math"

	"github.com/statelab/statelab/internal/mpt"
	"github.com/statelab/statelab/result"
)

// pinnedDepth is the nibble depth to which the chunk trie keeps nodes in memory.
const pinnedDepth = 5

// expectedChunkReads is what a lookup of a present account reads of a chunk trie: one
// read for every node below the pinned ones, the leaf included.
//
//	1 + SUM over d > pinnedDepth of 1 - (1 - 16^-d)^(n-1)
func expectedChunkReads(n float64) float64 {
	reads := 1.0
	for d := pinnedDepth + 1; d < 64; d++ {
		reads += -math.Expm1((n - 1) * math.Log1p(-math.Pow(16, -float64(d))))
	}
	return reads
}

// simulatedPages are the pages of 4 KiB on the way to an account in a page trie that
// splits as described in docs/methods/layouts.md, from a simulation of its inserts.
func simulatedPages() [][2]float64 {
	return [][2]float64{{1e5, 3.95}, {1e6, 4.89}, {1e7, 5.7}, {2.5e8, 6.9}, {1e9, 7.4}}
}

// expectedPages lies between the simulated sizes, on a logarithmic axis; beyond the
// first and the last it goes on with their slope.
func expectedPages(n float64) float64 {
	points := simulatedPages()
	at := 1
	for at < len(points)-1 && n > points[at][0] {
		at++
	}
	a, b := points[at-1], points[at]
	slope := (b[1] - a[1]) / math.Log(b[0]/a[0])
	return max(1, a[1]+slope*math.Log(n/a[0]))
}

// expected is what formulas say of a lookup of a present account: the nodes of
// Ethereum's trie for a layout that walks it, and the reads of those that have a
// formula.
func expected(layout string, walks bool, accounts uint64) (nodes, reads *float64, basis string) {
	if !walks {
		return nil, nil, ""
	}
	n := float64(accounts)
	folded, chunks, pages := mpt.ExpectedFoldedNodes(n), expectedChunkReads(n), expectedPages(n)
	switch layout {
	case "chunktrie":
		return &folded, &chunks, "nodes below the pinned depth, one read each"
	case "chunktrie:unpinned":
		return &folded, &folded, "one read for every node"
	case "pagetrie":
		return &folded, &pages, "simulated pages"
	}
	extended := mpt.ExpectedNodes(n)
	return &extended, nil, ""
}

// outlookAccounts are the sizes of the question that no test machine builds.
func outlookAccounts() []uint64 { return []uint64{1e9, 1e10} }

// outlook carries a layout's figures on to sizes that were not built: formulas as
// they are, measured reads along the line through them over log16 of the accounts.
// A state that fits into the memory says nothing of one that does not.
func outlook(layout string, rows []result.LayoutRow, memoryBytes int64) (out []result.LayoutOutlook) {
	walks := false
	measured := map[string][][2]float64{}
	for _, row := range rows {
		if row.Layout != layout || row.Status != result.OK {
			continue
		}
		walks = walks || row.Nodes != nil
		if row.DiskBytes <= memoryBytes {
			continue
		}
		for figure, value := range map[string]*float64{"block_reads_per_lookup": row.BlockReads, "device_reads_per_lookup": row.DeviceReads} {
			if value != nil {
				measured[figure] = append(measured[figure], [2]float64{log16(float64(row.Accounts)), *value})
			}
		}
	}
	for _, accounts := range outlookAccounts() {
		add := func(figure string, value *float64, basis string) {
			if value != nil {
				out = append(out, result.LayoutOutlook{Layout: layout, Figure: figure, Accounts: accounts, Value: *value, Basis: basis})
			}
		}
		nodes, reads, basis := expected(layout, walks, accounts)
		add("nodes_per_lookup", nodes, "formula")
		add("reads_per_lookup", reads, "formula: "+basis)
		for _, figure := range []string{"block_reads_per_lookup", "device_reads_per_lookup"} {
			if points := measured[figure]; len(points) > 1 {
				value := max(0, fitted(points, log16(float64(accounts))))
				add(figure, &value, "extrapolated along log16 of the accounts, memory as it was")
			}
		}
	}
	return out
}

func log16(n float64) float64 { return math.Log2(n) / 4 }

// fitted is the value at x of the line of least squares through points.
func fitted(points [][2]float64, x float64) float64 {
	var n, sumX, sumY, sumXX, sumXY float64
	for _, p := range points {
		n, sumX, sumY, sumXX, sumXY = n+1, sumX+p[0], sumY+p[1], sumXX+p[0]*p[0], sumXY+p[0]*p[1]
	}
	slope := (n*sumXY - sumX*sumY) / (n*sumXX - sumX*sumX)
	return (sumY + slope*(n*x-sumX)) / n
}

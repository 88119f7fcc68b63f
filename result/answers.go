package result

import (
	"cmp"
	"fmt"
	"slices"
)

// Answers tells, for each limit, the smallest measured cache with fewer block
// reads per Get. Only measured points count: nothing is interpolated. All
// points must share their other axes; failed ones are passed over.
func Answers(points []Point, limits ...float64) []Answer {
	var measured []Point
	for _, p := range points {
		if p.Status == OK && p.Figures.BlockReadsPerGet != nil && p.CacheBytes > 0 {
			measured = append(measured, p)
		}
	}
	slices.SortStableFunc(measured, func(a, b Point) int { return cmp.Compare(a.CacheBytes, b.CacheBytes) })
	answers := make([]Answer, 0, len(limits))
	for _, limit := range limits {
		a := Answer{Question: fmt.Sprintf("block_reads_per_get < %g", limit), Limit: limit}
		for _, p := range measured {
			if *p.Figures.BlockReadsPerGet < limit {
				a.CacheBytes, a.CachePercent, a.BlockReadsPerGet = p.CacheBytes, p.CachePercent, *p.Figures.BlockReadsPerGet
				break
			}
			a.NotAtCacheBytes = p.CacheBytes
		}
		answers = append(answers, a)
	}
	return answers
}

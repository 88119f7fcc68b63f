package cachesim

// InferLRUEntries is how many entries an LRU cache has room for in which these lookups, in their
// order, were hits or not: the number that contradicts the fewest of them, of several the least. It
// is 0 if no id was looked up again without being a hit, so that no limit shows.
//
// A lookup hits if fewer other ids were looked up since its id was than there are entries (Mattson
// et al., 1970). The first lookup of an id tells nothing.
func InferLRUEntries(ids []uint64, hits []bool) int {
	// among[i] counts ids whose last lookup was at a place, as a Fenwick tree over the places.
	among, last := make([]int32, len(ids)+1), map[uint64]int{}
	add := func(place int, n int32) {
		for i := place + 1; i < len(among); i += i & -i {
			among[i] += n
		}
	}
	before := func(place int) (n int32) {
		for i := place; i > 0; i -= i & -i {
			n += among[i]
		}
		return n
	}

	var hitsAt, missesAt []int // by how many other ids were looked up since
	hitsInAll, missesInAll := 0, 0
	for i, id := range ids {
		if at, known := last[id]; known {
			others := int(before(i) - before(at+1))
			for len(hitsAt) <= others {
				hitsAt, missesAt = append(hitsAt, 0), append(missesAt, 0)
			}

			if hits[i] {
				hitsAt[others]++
				hitsInAll++
			} else {
				missesAt[others]++
				missesInAll++
			}

			add(at, -1)
		}

		add(i, 1)
		last[id] = i
	}

	if missesInAll == 0 {
		return 0
	}

	wrong := hitsInAll // with no entry at all
	best, fewest := 0, wrong
	for others := range hitsAt {
		wrong += missesAt[others] - hitsAt[others]
		if wrong < fewest {
			best, fewest = others+1, wrong
		}
	}

	return max(best, 1)
}

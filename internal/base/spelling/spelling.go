// Package spelling finds the name that a mistyped one was meant to be, of flags and of options.
package spelling

// Nearest is the name that was meant by one that is not known: at most two letters differ, and no
// more than half of them. "": none is so near.
func Nearest(names []string, name string) (best string) {
	minimum := 3
	for _, n := range names {
		if d := editDistance(n, name); d < minimum && 2*d <= min(len(n), len(name)) {
			best, minimum = n, d
		}
	}
	return best
}

// editDistance is Levenshtein's.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}

	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(row[j]+1, row[j+1]+1, diagonal+cost)
		}
	}

	return row[len(b)]
}

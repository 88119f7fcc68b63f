package scaling

import (
	"gonum.org/v1/gonum/mat"
)

// NonNegative is the x >= 0 with the least sum of squares of rows x - wanted. It tries
// every set of columns that may be above 0, so it is for few columns: the best of those
// sets whose solution is not negative is the optimum (Lawson and Hanson, Solving Least
// Squares Problems, 1974, chapter 23).
func NonNegative(rows [][]float64, wanted []float64) []float64 {
	columns := len(rows[0])
	best, least := make([]float64, columns), squares(rows, make([]float64, columns), wanted)
	for set := 1; set < 1<<columns; set++ {
		var chosen []int
		for c := range columns {
			if set>>c&1 == 1 {
				chosen = append(chosen, c)
			}
		}
		if len(chosen) > len(rows) {
			continue
		}
		part := mat.NewDense(len(rows), len(chosen), nil)
		for i, row := range rows {
			for j, c := range chosen {
				part.Set(i, j, row[c])
			}
		}
		var solved mat.VecDense
		if err := solved.SolveVec(part, mat.NewVecDense(len(wanted), wanted)); err != nil {
			continue // columns that say the same
		}
		x := make([]float64, columns)
		negative := false
		for j, c := range chosen {
			x[c] = solved.AtVec(j)
			negative = negative || !(x[c] >= 0)
		}
		if s := squares(rows, x, wanted); !negative && s < least {
			best, least = x, s
		}
	}
	return best
}

func squares(rows [][]float64, x, wanted []float64) (sum float64) {
	for i, row := range rows {
		off := -wanted[i]
		for c, v := range row {
			off += v * x[c]
		}
		sum += off * off
	}
	return sum
}

package workload

import "math"

// zipf draws ranks 0..n-1 with P(k) proportional to (k+1)^-theta by
// rejection-inversion (Hörmann and Derflinger 1996): constant time and memory
// for any n, any theta > 0.
type zipf struct {
	n, theta        float64
	fromH, toH, cut float64
}

func newZipf(n uint64, theta float64) *zipf {
	z := &zipf{n: float64(n), theta: theta}
	z.fromH = z.h(1.5) - 1
	z.toH = z.h(z.n + 0.5)
	z.cut = 2 - z.inverse(z.h(2.5)-math.Pow(2, -theta))
	return z
}

func (z *zipf) next(r *rng) uint64 {
	for {
		u := z.toH + r.unit()*(z.fromH-z.toH)
		x := z.inverse(u)
		k := math.Min(math.Max(math.Round(x), 1), z.n)
		if k-x <= z.cut || u >= z.h(k+0.5)-math.Pow(k, -z.theta) {
			return uint64(k) - 1
		}
	}
}

// h is an antiderivative of x^-theta.
func (z *zipf) h(x float64) float64 {
	if z.theta == 1 {
		return math.Log(x)
	}
	return (math.Pow(x, 1-z.theta) - 1) / (1 - z.theta)
}

func (z *zipf) inverse(y float64) float64 {
	if z.theta == 1 {
		return math.Exp(y)
	}
	return math.Pow(1+y*(1-z.theta), 1/(1-z.theta))
}

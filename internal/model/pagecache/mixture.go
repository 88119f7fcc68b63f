package pagecache

import "math"

// mixture is how many pages are asked for how often.
type mixture struct {
	rates []float64 // accesses for each eviction
	pages []float64 // that are asked for at this rate
}

const (
	rateSteps = 64  // of a mixture
	rounds    = 300 // of expectation-maximisation
	// slowest and fastest rates: times the reciprocal of the window, and of the time that a page
	// stays.
	slowest = 0.01
	fastest = 100
)

// fit finds the mixture that makes what was seen most likely, in a window of so many evictions.
// idle pages were never asked for; pinned pages never left, though others left after stay
// evictions.
func fit(seen []class, window, idle, pinned, stay float64) mixture {
	m := mixture{make([]float64, rateSteps), make([]float64, rateSteps)}
	low, high := math.Log(slowest/window), math.Log(fastest/stay)
	for k := range m.rates {
		m.rates[k] = math.Exp(low + (high-low)*float64(k)/(rateSteps-1))
	}

	all := append([]class{{out: window, pages: idle}}, seen...)
	likely := make([][]float64, 0, len(all)+1) // by class and rate; each class's largest is 1
	for _, c := range all {
		likely = append(likely, likelihoods(m.rates, func(rate float64) float64 {
			return c.refaults*math.Log(rate) - rate*c.out
		}))
	}

	// A page that is asked for at a rate is evicted rate*exp(-rate*stay) times an eviction.
	all = append(all, class{pages: pinned})
	likely = append(likely, likelihoods(m.rates, func(rate float64) float64 {
		return -window * rate * math.Exp(-rate*stay)
	}))

	total := 0.0
	for _, c := range all {
		total += c.pages
	}

	for k := range m.pages {
		m.pages[k] = total / rateSteps
	}

	next := make([]float64, rateSteps)
	for range rounds {
		clear(next)
		for i, c := range all {
			if c.pages == 0 {
				continue
			}

			sum := 0.0
			for k, pages := range m.pages {
				sum += pages * likely[i][k]
			}

			for k, pages := range m.pages {
				next[k] += c.pages * pages * likely[i][k] / sum
			}
		}

		m.pages, next = next, m.pages
	}

	return m
}

// likelihoods are exp(log) at each rate, as shares of the largest.
func likelihoods(rates []float64, log func(rate float64) float64) []float64 {
	values := make([]float64, len(rates))
	largest := math.Inf(-1)
	for k, rate := range rates {
		values[k] = log(rate)
		largest = max(largest, values[k])
	}

	for k := range values {
		values[k] = math.Exp(values[k] - largest)
	}

	return values
}

// policy is how memory chooses the page that leaves.
type policy func(accesses float64) (inMemory float64) // accesses: expected in the time a page stays

func fifo(accesses float64) float64 { return accesses / (1 + accesses) }
func lru(accesses float64) float64  { return -math.Expm1(-accesses) }

// inMemory is how many pages are in memory when each stays so long.
func (m mixture) inMemory(stay float64, of policy) (pages float64) {
	for k, rate := range m.rates {
		pages += m.pages[k] * of(rate*stay)
	}
	return pages
}

// reads is how many pages are read for each eviction that there is now.
func (m mixture) reads(stay float64, of policy) (reads float64) {
	for k, rate := range m.rates {
		reads += m.pages[k] * rate * (1 - of(rate*stay))
	}
	return reads
}

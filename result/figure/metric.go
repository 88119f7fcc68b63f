package figure

import "strings"

// MetricName is the figure's name in Prometheus, without the prefix of whoever serves it.
// Prometheus wants base units, and the unit at the end of a name: a time in ns is one in seconds
// there. A counter's name has "_total" behind it.
func (f Figure) MetricName() string {
	if f.Metric != "" {
		return f.Metric
	}

	if key, ok := strings.CutSuffix(f.Key, "_ns"); ok {
		return key + "_seconds"
	}

	return f.Key
}

// MetricValue is a number of the figure, which is in Unit, in the unit of MetricName.
func (f Figure) MetricValue(number float64) float64 {
	if f.Unit == Nanoseconds {
		return number / 1e9
	}

	return number
}

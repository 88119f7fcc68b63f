package doc

import (
	"strings"

	"github.com/statelab/statelab/result/figure"
)

// ColumnOf is the column of a figure: its head, its unit and its format are those that the figure
// is declared with. A value that is not there is shown as absent; 0 is shown as 0.
func ColumnOf[R any](f figure.Figure, of func(R) figure.Value) Column[R] {
	value := func(r R) *float64 { return of(r).Pointer() }
	c := Optional(f.Name, f.Per, FormatOf(f), value)
	if scale := ScaleOf(f); scale.Size > 0 {
		c.Per = scale.Size
		if c.Unit == "" {
			c.Unit = scale.Name
		}
	}

	return c
}

// Formatted is the column with another format.
func (c Column[R]) Formatted(format func(float64) string) Column[R] {
	c.Format = format

	return c
}

// FormatOf prints a figure in the unit that it is shown in: counts per operation with nothing finer
// than a decision needs; nil is Number.
func FormatOf(f figure.Figure) func(float64) string {
	if f.Kind == figure.Count && strings.Contains(f.Key, "_per_") {
		return PerGet
	}

	return nil
}

// percents are shares as they are shown.
var percents = Scale{"%", 0.01}

// ScaleOf is the unit that a figure is shown in; that of Size 0 says: as it is stored.
func ScaleOf(f figure.Figure) Scale {
	for _, scale := range []Scale{Micros, Millis, MiB, percents} {
		if scale.Name == f.Shown {
			return scale
		}
	}

	return Scale{}
}

package engines

import (
	"bytes"
	"strings"
	"testing"

	"github.com/statelab/statelab/internal/report/render"
	"github.com/statelab/statelab/result"
)

func TestDiskBesideFio(t *testing.T) {
	point := func(low, high float64) result.DiskPoint {
		return result.DiskPoint{
			InFlight:       1,
			ReadsPerSecond: (low + high) / 2,
			Spread:         result.Range{Low: low, High: high},
		}
	}

	for _, c := range []struct {
		ours, theirs result.DiskPoint
		repeats      int
		want         string
	}{
		{point(10,
			12), point(11, 14), 3, "agrees with ours within the noise of both at all points"},
		{point(10, 12), point(13, 14), 3, "the ranges of both are apart at 1 of 1 points"},
		{point(15, 16), point(13, 14), 3, "the ranges of both are apart at 1 of 1 points"},
		{point(10, 10), point(14, 14), 1, "one reading each cannot tell"},
	} {
		d := Disk{Disk: &result.Disk{
			Dir:        "/data",
			Repeats:    c.repeats,
			Points:     []result.DiskPoint{c.ours},
			Fio:        []result.DiskPoint{c.theirs},
			FioVersion: "fio-3",
		}}

		var text bytes.Buffer
		if err := render.Terminal(&text, d.Document()); err != nil ||
			!strings.Contains(strings.ReplaceAll(text.String(), "\n", " "), c.want) {
			t.Errorf("%v against %v: %v, %s, want %s", c.ours.Spread, c.theirs.Spread, err, &text,
				c.want)
		}
	}
}

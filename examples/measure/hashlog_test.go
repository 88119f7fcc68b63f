package hashlog

import (
	"path/filepath"
	"testing"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/engine/enginetest"
	"github.com/statelab/statelab/engines/pebble2"
	"github.com/statelab/statelab/measure"
	"github.com/statelab/statelab/result/figure"
)

// TestConforms: an engine that loses keys or miscounts has no figures worth measuring.
func TestConforms(t *testing.T) { enginetest.Run(t, Engine) }

// BenchmarkGet measures both engines on the same keys. The time is that of a Get alone.
func BenchmarkGet(b *testing.B) {
	for _, e := range []engine.Engine{Engine, pebble2.Engine{}} {
		b.Run("engine="+e.Info().Name, func(b *testing.B) {
			w := measure.Workload{
				Dir:          filepath.Join(b.TempDir(), "db"), // loaded by the first Run
				Keys:         100_000,
				CacheBytes:   1 << 20,
				Gets:         50_000,
				MissingShare: 0.1,
			}

			for b.Loop() {
				run, err := measure.Run(b.Context(), e, w)
				if err != nil {
					b.Fatal(err)
				}

				reads, known := run.Figures.Number(figure.BlockReadsPerGet)
				if !known {
					b.Fatal(run.Figures.Reason(figure.BlockReadsPerGet))
				}

				b.ReportMetric(reads, "block-reads/op")
				b.ReportMetric(run.Figures.ServiceNanos.Mean, "ns/op")
			}
		})
	}
}

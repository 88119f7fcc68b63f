package changeset

import (
	"os"
	"syscall"
	"testing"
)

// The same set in three forms: reading ours must not be slower than theirs.
func BenchmarkDecode(b *testing.B) {
	set := func() Source {
		s, err := Generate(
			Generation{Profiles: []string{"bank"}, Versions: 60, Scale: .05, Seed: 1},
		)
		if err != nil {
			b.Fatal(err)
		}

		return s
	}

	text := contained(b, set())
	b.Run("container", func(b *testing.B) { decode(b, func() Source { return open(b, text) }) })
	for _, format := range ExportFormats() {
		b.Run(string(format), func(b *testing.B) {
			dir := b.TempDir()
			if err := Export(tempFolder(dir), set(), format, nil); err != nil {
				b.Fatal(err)
			}

			decode(b, func() Source {
				s, err := Open(os.DirFS(dir), ".", format)
				if err != nil {
					b.Fatal(err)
				}
				return s
			})
		})
	}
}

// decode reads the set again and again: an operation is one change.
func decode(b *testing.B, open func() Source) {
	batch := &Batch{}
	bytes, changes := int64(0), 0
	b.ReportAllocs()
	before := cpuNanos(b)
	for b.ResetTimer(); changes < b.N; {
		s := open()
		err := Each(s, batch, func(batch *Batch) error {
			changes += len(batch.Changes)
			bytes += int64(len(batch.arena))
			return nil
		})
		if err == nil {
			err = s.Close()
		}

		if err != nil {
			b.Fatal(err)
		}
	}

	b.SetBytes(bytes / int64(changes))
	b.ReportMetric(float64(changes)/b.Elapsed().Seconds()/1e6, "Mchanges/s")
	b.ReportMetric(float64(changes)/float64(cpuNanos(b)-before)*1e3, "Mchanges/core-s")
}

// cpuNanos is the processor time of this process: what counts on a busy machine.
func cpuNanos(b *testing.B) int64 {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return used.Utime.Nano() + used.Stime.Nano()
}

package engines

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/report/doc"
	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/result/figure"
)

type column = doc.Column[Point]

// columnOf is the column of a figure of a point's run.
func columnOf(f figure.Figure) column {
	return doc.ColumnOf(f, func(p Point) figure.Value { return p.Figures.Value(f) })
}

// figureColumn is a column of what is made from the figures of a point's run.
func figureColumn(name, unit string, format func(float64) string,
	value func(result.Figures) *float64) column {
	return doc.Optional(name, unit, format, func(p Point) *float64 { return value(p.Figures) })
}

func perGet(name string, value func(result.Figures) *float64) column {
	return figureColumn(name, "/Get", doc.PerGet, value)
}

// Columns of a point that several tables and charts share.
var (
	blockReads  = columnOf(figure.BlockReadsPerGet)
	deviceReads = columnOf(figure.DeviceReadsPerGet)
	deviceBytes = columnOf(figure.DeviceReadBytesPerGet)
	agreement   = columnOf(figure.Agreement)
	gets        = columnOf(figure.GetsPerSecond)
	kiloGets    = gets.In(doc.Scale{Name: "k/s", Size: 1e3}).Named("Gets", "k/s")
	cpuPercent  = columnOf(figure.CPUPercent)
	cpuTime     = columnOf(figure.CPUTimePerGet)
	peakMemory  = columnOf(figure.PeakMemory)
	cacheBytes  = column{Name: "cache", Key: true,
		Value: func(p Point) *float64 { return given(float64(p.CacheBytes)) }}
	cacheShare = column{Name: "cache", Unit: "% of DB", Key: true, Spare: 1,
		Value: func(p Point) *float64 { return given(p.CachePercent) }}
	blockBytes = column{Name: "for blocks", Key: true,
		Value: func(p Point) *float64 { return given(float64(p.BlockBytes)) }}
	phase = column{Name: "regime", Key: true, Format: doc.Digits,
		Value: func(p Point) *float64 { return given(float64(p.Regime)) }}
)

// given is what a point was given. 0 says that it was given none: an engine without a cache has no
// cache size, no part of it for blocks, and no regime.
func given(v float64) *float64 { return doc.When(v > 0, v) }

// Latencies that a column can take a quantile of.
func service(f result.Figures) *result.Latency  { return f.ServiceNanos }
func response(f result.Figures) *result.Latency { return f.ResponseNanos }

func p50Of(l *result.Latency) float64  { return float64(l.P50) }
func p99Of(l *result.Latency) float64  { return float64(l.P99) }
func meanOf(l *result.Latency) float64 { return l.Mean }

func latency(
	name string, of func(result.Figures) *result.Latency, quantile func(*result.Latency) float64,
) column {
	return figureColumn(name, "", nil, func(f result.Figures) *float64 {
		return doc.Via(of(f),
			quantile)
	}).In(doc.Micros)
}

// readsOf are the block reads of some types. Where any type was counted, a type that is
// not there was counted 0 times; pages have no types.
func readsOf(name string, kinds ...engine.BlockType) column {
	return perGet(name, func(f result.Figures) *float64 {
		if _, pages := f.BlockReadsPerGetByType[engine.Page.String()]; pages ||
			len(f.BlockReadsPerGetByType) == 0 {
			return nil
		}

		sum := 0.0
		for _, kind := range kinds {
			sum += f.BlockReadsPerGetByType[kind.String()]
		}

		return &sum
	})
}

func readsAtLevel(level string) column {
	return perGet(level, func(f result.Figures) *float64 {
		return doc.When(len(f.BlockReadsPerGetByLevel) > 0, f.BlockReadsPerGetByLevel[level])
	})
}

// hitRate is that of a type of blocks, in percent: nothing finer than 0.01.
func hitRate(label, name string) column {
	return figureColumn(label, "%", func(p float64) string {
		switch {
		case p > 0 && p < 0.005:
			return "<0.01"
		case p < 10:
			return fmt.Sprintf("%.2f", p)
		}

		return doc.Number(p)
	}, func(f result.Figures) *float64 { return doc.Times(doc.At(f.HitRate, name), 100) })
}

// predicted is what the prediction of the sweep says of a point's cache.
func (s *Sweep) predicted() column {
	return column{
		Name:   "predicted",
		Unit:   "/Get",
		Format: doc.PerGet,
		Value: func(p Point) *float64 {
			for _, g := range s.Predicted {
				if g.CacheBytes == p.CacheBytes {
					return &g.BlockReadsPerGet
				}
			}

			return nil
		},
	}
}

// repeats is the range of a figure over the repeats of a point.
func repeats(
	name, unit, spread, between string, scale float64, format func(float64) string,
) column {
	return column{Name: name, Unit: unit, Spare: 1, Words: func(p Point) string {
		r, ok := p.Spread[spread]
		if !ok || len(p.Runs) < 2 {
			return doc.None
		}
		return format(r.Low/scale) + between + format(r.High/scale)
	}}
}

// axis is the value of a point on an axis, in words.
func axis(name string) column {
	return column{Name: name, Key: true, Words: func(p Point) string { return p.Axes[name] }}
}

// keys say which point of a curve a row is.
func (c curve) keys() (keys []column) {
	if c.comparesEngines() && !competes(c.x) {
		keys = append(keys, doc.Words("engine", c.sweep.entrant))
	}

	switch c.x {
	case "cache":
		if keys = append(keys, cacheBytes.Suited(c.pts)); reservedOf(c.pts) > 0 {
			keys = append(keys, blockBytes.In(doc.ByteScale(cacheBytes.Values(c.pts))))
		}
		return append(keys, cacheShare, phase)
	case "":
		return keys
	}

	return append(keys, axis(c.x))
}

// reservedOf is the most that memtables take of the cache of a point, in bytes; 0 where
// they take none, or the engine does not tell.
func reservedOf(pts []Point) (most int64) {
	for _, p := range pts {
		most = max(most, reserved(p.CacheBytes, p.BlockBytes))
	}
	return most
}

func reserved(cacheBytes, blockBytes int64) int64 {
	if blockBytes <= 0 {
		return 0
	}
	return cacheBytes - blockBytes
}

// table has a row for every point, the failed ones with their reason. What a cache has for
// blocks, and its regime, come last: on a phone the first columns alone are seen.
func (c curve) table(columns ...column) doc.Table {
	comesLast := func(k column) bool { return k.Name == blockBytes.Name || k.Name == phase.Name }
	last := doc.Where(c.keys(), comesLast)
	for i := range last {
		last[i].Key = false
	}
	return doc.TableOf(c.pts, failure,
		slices.Concat(slices.DeleteFunc(c.keys(), comesLast), columns, last)...)
}

// failure is why a point has no figures; "" if it has.
func failure(p Point) string {
	if p.Status == result.OK {
		return ""
	}
	return cmp.Or(p.WithRemedy(p.Error), p.Problem, p.Status, "not run")
}

// levelRow is a level, or all of them.
type levelRow struct {
	name, consulted string
	of              []engine.Level
}

// levels has a row per level with files, and their sum.
func levels(list []engine.Level) doc.Table {
	rows := doc.Each(
		doc.Where(list, func(l engine.Level) bool { return l.Files > 0 }),
		func(l engine.Level) levelRow {
			return levelRow{fmt.Sprintf("L%d", l.Level),
				map[bool]string{true: "yes", false: "no"}[l.FilterConsulted], []engine.Level{l}}
		},
	)

	if len(rows) == 0 {
		return doc.Table{}
	}

	rows = append(rows, levelRow{name: "all", of: list})
	type column = doc.Column[levelRow]
	sum := func(name string, format func(float64) string, of func(engine.Level) int64) column {
		return column{Name: name, Format: format, Value: func(r levelRow) *float64 {
			total := int64(0)
			for _, l := range r.of {
				total += of(l)
			}
			return doc.When(total > 0, float64(total)) // a level without any is left empty
		}}
	}

	count := func(name string, of func(engine.Level) int64) column {
		return sum(name, doc.Digits, of)
	}
	size := func(name string, of func(engine.Level) int64) column {
		return sum(name, nil, of).Suited(rows[:len(rows)-1])
	}
	return doc.TableOf(
		rows,
		nil,
		doc.Words("level", func(r levelRow) string { return r.name }),
		count("files", func(l engine.Level) int64 { return int64(l.Files) }),
		count("keys", func(l engine.Level) int64 { return int64(l.Keys) }),
		count("data blocks", func(l engine.Level) int64 { return int64(l.DataBlocks) }),
		count("index blocks", func(l engine.Level) int64 { return int64(l.IndexBlocks) }),
		count("single indexes", func(l engine.Level) int64 { return int64(l.SingleIndexes) }),
		size("size", func(l engine.Level) int64 { return l.Bytes }),
		size("data", func(l engine.Level) int64 { return l.DataBytes }),
		size("values apart", func(l engine.Level) int64 { return l.ValueBytes }),
		size("index", func(l engine.Level) int64 { return l.IndexBytes }),
		size("index in cache", func(l engine.Level) int64 { return l.IndexCacheBytes }),
		size("top index", func(l engine.Level) int64 { return l.TopIndexBytes }),
		size("filter", func(l engine.Level) int64 { return l.FilterBytes }),
		size("filter in cache", func(l engine.Level) int64 { return l.FilterCacheBytes }),
		column{
			Name:  "filter",
			Unit:  "consulted",
			Left:  true,
			Words: func(r levelRow) string { return r.consulted },
		},
	)
}

// phased is a phase of a point's run.
type phased struct {
	of Point
	result.Phase
}

// accessesNote explains a phase that not every point has.
func (s *Sweep) accessesNote() string {
	has, all := 0, s.runs()
	for _, run := range all {
		if slices.ContainsFunc(run.Phases, func(of result.Phase) bool {
			return of.Name == "accesses"
		}) {
			has++
		}
	}

	if has == 0 || has == len(all) {
		return ""
	}

	return "The blocks that a Get needs do not depend on the cache: the phase \"accesses\" " +
		"counts them once for each database, and the other points use that count."
}

// phases has a row per phase of every point.
func (s *Sweep) phases() doc.Table {
	rows := doc.Flat(s.Points, func(p Point) []phased {
		if p.Run == nil {
			return nil
		}
		return doc.Each(p.Run.Phases, func(phase result.Phase) phased { return phased{p, phase} })
	})

	process := func(
		name string, format func(float64) string, of func(*result.ProcessIO) float64,
	) doc.Column[phased] {
		return doc.Optional(name, "", format, func(p phased) *float64 {
			return doc.Via(p.Process, of)
		})
	}

	return doc.TableOf(
		rows,
		nil,
		doc.Words("point", func(p phased) string { return pointLabel(p.of) }),
		doc.Words("phase", func(p phased) string { return p.Name }),
		doc.Optional("seconds", "", nil, func(p phased) *float64 {
			return doc.When(p.Seconds > 0, p.Seconds) // imported logs have none of the warm-up
		}),
		doc.Figure("operations", "", doc.Digits, func(p phased) float64 { return float64(p.Ops) }),
		doc.Optional("CPU", "s", nil, func(p phased) *float64 {
			return doc.When(p.CPUNanos > 0, float64(p.CPUNanos)/1e9) // imported logs have none
		}),
		doc.Figure("block reads", "", doc.Digits, func(p phased) (sum float64) {
			for _, tally := range p.Reads {
				sum += float64(tally.Count)
			}
			return sum
		}),
		process("read calls", doc.Digits, func(io *result.ProcessIO) float64 {
			return float64(io.ReadCalls)
		}),
		process("read from device", nil, func(io *result.ProcessIO) float64 {
			return float64(io.ReadBytes)
		}).In(doc.MiB),
		doc.Optional("device reads", "", doc.Digits, func(p phased) *float64 {
			return doc.Via(p.Device, func(d *result.DeviceIO) float64 { return float64(d.Reads) })
		}),
		process("major faults", doc.Digits, func(io *result.ProcessIO) float64 {
			return float64(io.MajorFaults)
		}),
	)
}

// ledger is what the points that wrote wrote, by cause, beside what they read meanwhile;
// without rows where none did.
func (s *Sweep) ledger() doc.Table {
	wrote := doc.Where(s.Points, func(p Point) bool { return len(p.Figures.WriteBytesPerPut) > 0 })
	bytes := func(cause string) column {
		return figureColumn(cause, "B/put", nil,
			func(f result.Figures) *float64 { return doc.At(f.WriteBytesPerPut, cause) })
	}

	commits := func(f result.Figures) *result.Latency { return f.PutNanos }
	return doc.TableOf(wrote, failure, doc.Words("point", s.differing),
		columnOf(figure.PutsPerSecond).Formatted(doc.ShortCount),
		bytes(result.WrittenUser).Named("user", "B/put"), bytes(result.WrittenWAL),
		bytes(result.WrittenFlush),
		bytes(result.WrittenCompaction).Named("compact", "B/put"),
		bytes(result.WrittenSynced), bytes(result.WrittenDevice),
		columnOf(figure.Syncs).Formatted(doc.ShortCount).Spared(2),
		latency("commit p50", commits, p50Of), latency("commit p99", commits, p99Of),
		columnOf(figure.WriteStalls).Formatted(doc.Digits).Spared(2),
		columnOf(figure.WriteStallSeconds).Spared(2),
		gets.Spared(1), latency("Get p99", service, p99Of).Spared(1))
}

// differing names a point by what varies in its sweep.
func (s *Sweep) differing(p Point) string {
	return cmp.Or(doc.List(s.varied, func(axis string) string {
		return axisValue(axis, p.Axes[axis])
	}), "all")
}

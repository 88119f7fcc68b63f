package promexport

import (
	_ "embed"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"runtime/pprof"
	"strconv"
	"strings"
	"time"
)

// processHelp has the help text and the kind of every metric that Prometheus' own client serves of
// a process and of Go's runtime: dashboards know them.
//
//go:embed process.txt
var processHelp string

// process adds what Prometheus' own client tells of a process: of the one that asks the runners to
// measure. It stops that process for some microseconds, and no runner.
func (f families) process() {
	values := map[string][]sample{}
	set := func(name string, value float64) { values[name] = []sample{{value: value}} }
	memory(set)
	collections(set, values)
	system(set)
	set("go_goroutines", float64(runtime.NumGoroutine()))
	set("go_threads", float64(pprof.Lookup("threadcreate").Count()))
	set("go_sched_gomaxprocs_threads", float64(runtime.GOMAXPROCS(0)))
	values["go_info"] = []sample{{labels: []string{"version", runtime.Version()}, value: 1}}

	for line := range strings.Lines(processHelp) {
		// "#", HELP or TYPE, a name, a text
		words := strings.SplitN(strings.TrimSuffix(line, "\n"), " ", 4)
		keyword, name, text := words[1], words[2], words[3]
		if values[name] == nil { // the system does not tell it
			continue
		}

		if f[name] == nil {
			f[name] = &family{samples: values[name]}
		}

		if keyword == "HELP" {
			f[name].help = text
		} else {
			f[name].kind = text
		}
	}
}

// memory tells what Go's allocator has.
func memory(set func(name string, value float64)) {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	for name, value := range map[string]uint64{
		"alloc_bytes":         m.HeapAlloc,
		"alloc_bytes_total":   m.TotalAlloc,
		"sys_bytes":           m.Sys,
		"mallocs_total":       m.Mallocs,
		"frees_total":         m.Frees,
		"heap_alloc_bytes":    m.HeapAlloc,
		"heap_sys_bytes":      m.HeapSys,
		"heap_idle_bytes":     m.HeapIdle,
		"heap_inuse_bytes":    m.HeapInuse,
		"heap_released_bytes": m.HeapReleased,
		"heap_objects":        m.HeapObjects,
		"stack_inuse_bytes":   m.StackInuse,
		"stack_sys_bytes":     m.StackSys,
		"mspan_inuse_bytes":   m.MSpanInuse,
		"mspan_sys_bytes":     m.MSpanSys,
		"mcache_inuse_bytes":  m.MCacheInuse,
		"mcache_sys_bytes":    m.MCacheSys,
		"buck_hash_sys_bytes": m.BuckHashSys,
		"gc_sys_bytes":        m.GCSys,
		"other_sys_bytes":     m.OtherSys,
		"next_gc_bytes":       m.NextGC,
	} {
		set("go_memstats_"+name, float64(value))
	}
}

// collections tells what Go's garbage collector did, and what it was told.
func collections(set func(name string, value float64), values map[string][]sample) {
	stats := debug.GCStats{PauseQuantiles: make([]time.Duration, 5)}
	debug.ReadGCStats(&stats)
	var pauses []sample
	for i, pause := range stats.PauseQuantiles {
		quantile := strconv.FormatFloat(float64(i)/4, 'g', -1, 64)
		pauses = append(pauses, sample{
			labels: []string{"quantile", quantile},
			value:  pause.Seconds(),
		})
	}

	values["go_gc_duration_seconds"] = append(pauses,
		sample{suffix: "_sum", value: stats.PauseTotal.Seconds()},
		sample{suffix: "_count", value: float64(stats.NumGC)})
	last := 0.0 // none so far
	if stats.NumGC > 0 {
		last = float64(stats.LastGC.UnixNano()) / 1e9
	}

	set("go_memstats_last_gc_time_seconds", last)

	told := []metrics.Sample{{Name: "/gc/gogc:percent"}, {Name: "/gc/gomemlimit:bytes"}}
	metrics.Read(told)
	set("go_gc_gogc_percent", float64(told[0].Value.Uint64()))
	set("go_gc_gomemlimit_bytes", float64(told[1].Value.Uint64()))
}

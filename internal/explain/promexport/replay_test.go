package promexport

import (
	"flag"
	"fmt"
	"maps"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"

	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/result/figure"
)

var update = flag.Bool("update", false, "rewrite the metrics in testdata")

// scraped is what is served now, as Prometheus' own parser reads it.
func scraped(t *testing.T, live *Live) map[string]*dto.MetricFamily {
	t.Helper()
	answer := httptest.NewRecorder()
	live.Handler().ServeHTTP(answer, httptest.NewRequest("GET", "/metrics", nil))

	return parsed(t, answer.Body.String())
}

// Names of metrics are public: dashboards have them. testdata/metrics.txt lists what a run and a
// replay serve when everything is counted, with kinds, labels, help texts and values.
func TestMetricsKeepTheirNames(t *testing.T) {
	n := func(v int64) *int64 { return &v }
	height, reads := 3, 0.25
	tick := result.Tick{
		Ops: 100, OpsPerSecond: 50, P50: 1e6, P99: 5e6, DeviceReadBytes: 4096,
		BlockReadsPerOp: &reads,
		Tree: &result.TreeTick{Version: 10, RSSBytes: figure.Known(1 << 20),
			WriteBytes: figure.Known(8192), UserBytes: figure.Known(700),
			Nodes: n(300), TreeSize: n(50), TreeHeight: &height, CacheHits: n(8),
			CacheMisses: n(2), DBGets: n(7), DiskBytes: n(1 << 16)},
	}
	event := result.Event{Phase: "measure", Done: 10, Total: 20, Tick: &tick}
	live := NewLive("replay")
	live.Run(1, 2)
	live.Observe(event)
	live.Replay.Observe("iavl1", event)
	live.Watched.Observe(result.WatchCounts{
		PID:             42,
		Process:         "geth",
		Engine:          "pebble1",
		Database:        "/data/chain",
		ObservedSeconds: 2.5,
		Gets: map[string]result.WatchKeyCounts{
			"slots": {Gets: 7, Absent: 2, Seconds: 0.25},
		},
		Reads:       map[string]uint64{"gets": 3, "compaction": 4},
		Seeks:       5,
		MajorFaults: 9,
		CacheBytes:  1 << 20,
		Memory:      result.WatchedMemory{LimitBytes: 1 << 30, UsedBytes: 1 << 29},
		Predicted: &result.WatchPredicted{
			Gets: 6,
			Caches: []result.WatchSimulated{
				{CacheBytes: 2 << 20, BlockReadsPerGet: 0.25, Low: 0.125, High: 0.5},
			},
		},
		OtherMemory: &result.WatchedOtherMemory{
			Sizes: []result.WatchedMemoryReads{
				{Bytes: 2 << 30, PagesPerSecond: 20, Low: 10, High: 40},
			},
		},
	})

	var text strings.Builder
	families := scraped(t, live)
	for _, name := range slices.Sorted(maps.Keys(families)) {
		if !strings.HasPrefix(name, "statelab_") {
			continue // of the process: another test compares them with Prometheus' client
		}

		fmt.Fprintf(&text, "%s (%s): %s\n", name,
			strings.ToLower(families[name].GetType().String()), families[name].GetHelp())
		for _, m := range families[name].Metric {
			text.WriteString("   ")
			for _, label := range m.Label {
				fmt.Fprintf(&text, " %s=%s", label.GetName(), label.GetValue())
			}
			fmt.Fprintf(&text, " %v\n", m.GetGauge().GetValue()+m.GetCounter().GetValue())
		}
	}

	path := filepath.Join("testdata", "metrics.txt")
	if *update {
		if err := os.WriteFile(path, []byte(text.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}

	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}

	if text.String() != string(want) {
		t.Errorf("served:\n%s\nwant:\n%s", text.String(), want)
	}
}

// TestMetricsArePrometheus: parsed by Prometheus' own parser, with the values of
// two ticks.
func TestMetricsArePrometheus(t *testing.T) {
	live := NewLive("replay")
	r := live.Replay
	n := func(v int64) *int64 { return &v }
	for i := range int64(2) {
		r.Observe("iavl1", result.Event{
			Done: uint64(10 * (i + 1)),
			Tick: &result.Tick{Ops: 100, P50: 1e6, P99: 5e6,
				Tree: &result.TreeTick{
					Version:  10 * (i + 1),
					Nodes:    n(300),
					TreeSize: n(50),
					RSSBytes: figure.Known(1 << 20),
					DBGets:   n(7),
				}},
		})
	}

	r.Observe("null", result.Event{Phase: "prepare"})
	families := scraped(t, live)

	for name, want := range map[string]float64{
		"leaves_total":   200,
		"nodes_total":    600,
		"db_gets_total":  14,
		"versions_total": 20,
	} {
		family := families["statelab_replay_"+name]
		if family == nil || len(family.Metric) != 1 || family.Metric[0].Counter.GetValue() != want {
			t.Errorf("%s is %v, want %v", name, family, want)
		}
	}

	for name, want := range map[string]float64{
		"tree_size_leaves":      50,
		"version_number":        20,
		"resident_memory_bytes": 1 << 20,
	} {
		if family := families["statelab_replay_"+name]; family == nil ||
			family.Metric[0].Gauge.GetValue() != want {
			t.Errorf("%s is %v, want %v", name, family, want)
		}
	}

	if family := families["statelab_replay_commit_seconds"]; family == nil ||
		len(family.Metric) != 2 {
		t.Errorf("commit_seconds is %v", family)
	}

	if families["statelab_replay_cache_hits_total"] != nil ||
		families["statelab_replay_disk_bytes"] != nil {
		t.Error("what the tree does not tell is served")
	}
}

package promexport

import (
	"io"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/statelab/statelab/result"
)

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
					RSSBytes: 1 << 20,
					DBGets:   n(7),
				}},
		})
	}

	r.Observe("null", result.Event{Phase: "prepare"})
	answer := httptest.NewRecorder()
	live.Handler().ServeHTTP(answer, httptest.NewRequest("GET", "/metrics", nil))
	text, err := io.ReadAll(answer.Result().Body)
	if err != nil {
		t.Fatal(err)
	}

	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(string(text)))
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}

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

package promexport

import (
	"bytes"
	"maps"
	"math"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// parsed are the families of a text, as Prometheus' own parser reads them.
func parsed(t *testing.T, text string) map[string]*dto.MetricFamily {
	t.Helper()
	parser := expfmt.NewTextParser(model.LegacyValidation)
	found, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return found
}

// TestProcessIsAsPrometheusClientTellsIt compares names, kinds, help texts and labels of what is
// told of the process with Prometheus' client, and the values that cannot change in between.
func TestProcessIsAsPrometheusClientTellsIt(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	theirs, ours := httptest.NewRecorder(), httptest.NewRecorder()
	scrape := httptest.NewRequest("GET", "/metrics", nil)
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(theirs, scrape)
	NewLive("sweep").Handler().ServeHTTP(ours, scrape)
	want, got := parsed(t, theirs.Body.String()), parsed(t, ours.Body.String())

	for name, family := range want {
		mine := got[name]
		if mine == nil {
			t.Errorf("%s is not served", name)
			continue
		}

		if mine.GetHelp() != family.GetHelp() || mine.GetType() != family.GetType() {
			t.Errorf("%s is a %v with help %q, want %v, %q", name, mine.GetType(), mine.GetHelp(),
				family.GetType(), family.GetHelp())
		}

		if len(mine.Metric) != 1 || len(mine.Metric[0].Label) != len(family.Metric[0].Label) {
			t.Errorf("%s is %v, want %v", name, mine.Metric, family.Metric)
		}

		if name == "go_gc_duration_seconds" {
			if s := mine.Metric[0].Summary; len(s.GetQuantile()) != 5 || s.GetSampleSum() < 0 {
				t.Errorf("%s is %v", name, s)
			}
		}
	}

	for _, name := range []string{"go_gc_gogc_percent", "go_gc_gomemlimit_bytes", "go_info",
		"go_sched_gomaxprocs_threads", "process_max_fds", "process_virtual_memory_max_bytes"} {
		value := func(families map[string]*dto.MetricFamily) float64 {
			return families[name].Metric[0].GetGauge().GetValue()
		}
		if value(got) != value(want) {
			t.Errorf("%s is %v, want %v", name, value(got), value(want))
		}
	}

	for name := range maps.Keys(got) {
		if want[name] == nil && !strings.HasPrefix(name, "statelab_") {
			t.Errorf("%s is served, and Prometheus' client has no such metric", name)
		}
	}
}

// TestAnyTextCanBeServed: labels and help texts with all that the format escapes, and values that
// are no numbers.
func TestAnyTextCanBeServed(t *testing.T) {
	const odd = "a \\ b \"c\" \n d é"
	f := families{}
	f.add(metric{"b_total", odd, counter}, math.Inf(1), "x", odd, "y", "")
	seconds := metric{"a_seconds", "none", gauge}
	f.add(seconds, math.NaN())
	f.add(seconds, 1e-9, "x", "2")
	var text bytes.Buffer
	if err := f.write(&text); err != nil {
		t.Fatal(err)
	}

	found := parsed(t, text.String())
	b := found["b_total"]
	if b.GetHelp() != odd || b.Metric[0].Label[0].GetValue() != odd ||
		!math.IsInf(b.Metric[0].Counter.GetValue(), 1) {
		t.Errorf("b_total is %v\n%s", b, text.String())
	}

	if len(b.Metric[0].Label) != 2 || b.Metric[0].Label[1].GetName() != "y" {
		t.Errorf("labels are %v", b.Metric[0].Label)
	}

	values := found["a_seconds"].Metric
	if len(values) != 2 || !math.IsNaN(values[0].Gauge.GetValue()) ||
		values[1].Gauge.GetValue() != 1e-9 {
		t.Errorf("a_seconds is %v", values)
	}

	if names := slices.Sorted(maps.Keys(found)); !slices.Equal(names, []string{"a_seconds",
		"b_total"}) {
		t.Errorf("families %v", names)
	}
}

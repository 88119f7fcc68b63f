package serve

import (
	"fmt"
	"html/template"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/result/figure"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func writeRun(t testing.TB, dir, engine string) {
	t.Helper()
	must(t, os.MkdirAll(dir, 0o755))
	must(t,
		result.WriteRun(dir, &result.Run{
			Status:   result.OK,
			Verb:     "read",
			Started:  time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
			Engine:   result.Engine{Name: engine},
			Workload: result.Workload{Name: "readrandom", Threads: 1},
			Host:     result.Host{CPU: "Example", Cores: 2},
			Figures: result.Figures{
				Set:     figure.SetOf(map[figure.Figure]float64{figure.GetsPerSecond: 10}),
				Gets:    10,
				Found:   10,
				Seconds: 1,
			},
		}))
}

func get(
	t testing.TB, handler http.Handler, path, host string,
) (code int, body string, header http.Header) {
	t.Helper()
	r := httptest.NewRequest("GET", path, nil)
	if host != "" {
		r.Host = host
	}
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	return w.Code, w.Body.String(), w.Result().Header
}

func TestListAndReports(t *testing.T) {
	root := t.TempDir()
	const evil = `<img src=x onerror=alert(1)>"'&`
	writeRun(t, filepath.Join(root, "deep", "er", "one"), "pebble1")
	writeRun(t, filepath.Join(root, evil), evil)
	for name, text := range map[string]string{
		"cut":     `{"schema": "statelab.run/1", "status": "ok"`,
		"garbage": "garbage}\n",
		"other":   "{}\n",
		"types":   `{"schema": "statelab.run/1", "status": 7}` + "\n",
	} {
		must(t, os.MkdirAll(filepath.Join(root, name), 0o755))
		must(t, os.WriteFile(filepath.Join(root, name, result.RunFile), []byte(text), 0o644))
	}

	outside := t.TempDir()
	writeRun(t, outside, "pebble1")
	must(t, os.Symlink(outside, filepath.Join(root, "link")))
	handler, err := Handler(root, "127.0.0.1:8111")
	must(t, err)
	code, list, header := get(t, handler, "/", "localhost:8111")
	if code != http.StatusOK || strings.Count(list, `<tr class="damaged"`) != 4 ||
		strings.Count(list, `<tr class="ok"`) != 2 {
		t.Errorf("%d: %s", code, list)
	}

	if strings.Contains(list, "<img") ||
		!strings.Contains(header.Get("Content-Security-Policy"), "default-src 'none'") {
		t.Error("a name is not text, or pages may load from elsewhere")
	}

	escaped := url.QueryEscape(evil)
	for path, want := range map[string]int{
		"/report?dir=deep%2Fer%2Fone":                http.StatusOK,
		"/report?dir=" + escaped:                     http.StatusOK,
		"/report?dir=deep%2Fer%2Fone&dir=" + escaped: http.StatusOK,
		"/report?dir=cut":                            http.StatusUnprocessableEntity,
		"/report?dir=..%2F..%2Fetc":                  http.StatusBadRequest,
		"/report?dir=link":                           http.StatusBadRequest,
		"/report":                                    http.StatusBadRequest,
		"/report?dir=a" + strings.Repeat("&dir=a", maxOverlaid): http.StatusBadRequest,
		"/live?dir=deep%2Fer%2Fone":                             http.StatusUnprocessableEntity,
		"/live":                                                 http.StatusBadRequest,
		"/etc/passwd":                                           http.StatusNotFound,
	} {
		if code, body, _ := get(t, handler, path, "127.0.0.1:8111"); code != want {
			t.Errorf("%s: %d, want %d: %.200s", path, code, want, body)
		}
	}

	if code, _, _ := get(t, handler, "/", "attacker.example"); code != http.StatusForbidden {
		t.Errorf("a foreign host name gets %d", code)
	}
}

// A folder of prices also holds the disk that they were computed with.
func TestKinds(t *testing.T) {
	root := t.TempDir()
	must(t, result.WritePrice(root, &result.Price{}))
	must(t, os.WriteFile(filepath.Join(root, result.DiskFile), []byte("{}"), 0o644))
	all, err := (&index{root: root, row: template.Must(template.New("").Parse("{{.Kind}}"))}).list()
	if err != nil || len(all) != 1 || all[0].Kind != "prices" {
		t.Errorf("%+v, %v", all, err)
	}
}

// A sweep with a damaged run is listed as damaged, with the file, and still has a report.
func TestDamagedRunsOfASweep(t *testing.T) {
	for name, c := range map[string]struct{ file, text, says string }{
		"run": {result.RunFile, "{\n", "points/000: run.json is cut short"},
		"latencies": {result.LatencyFile, "\x01\x02\n",
			"points/000: latency.hlog is no histogram log"},
	} {
		root := t.TempDir()
		dir := filepath.Join(root, "S")
		for _, point := range []string{"000", "001"} {
			writeRun(t, filepath.Join(dir, result.PointsDir, point), "pebble1")
		}

		must(t, result.WriteSweep(dir, &result.Sweep{Status: result.OK, Points: []result.Point{
			{Status: result.OK, Run: "points/000", Runs: []string{"points/000"}},
			{Status: result.OK, Run: "points/001", Runs: []string{"points/001"}}}}))
		must(t,
			os.WriteFile(filepath.Join(dir, result.PointsDir, "000", c.file), []byte(c.text),
				0o644))
		handler, err := Handler(root, "127.0.0.1:8111")
		must(t, err)
		_, list, _ := get(t, handler, "/", "localhost:8111")
		if !strings.Contains(list, `<tr class="damaged"`) || !strings.Contains(list, c.says) {
			t.Errorf("%s: %s", name, list)
		}

		if code, body, _ := get(t, handler, "/report?dir=S",
			"localhost:8111"); code != http.StatusOK ||
			!strings.Contains(list, `href="/report?dir=S"`) {
			t.Errorf("%s: %d %.200s", name, code, body)
		}
	}
}

// TestRepeats: of the experiment, not of a section or a text that has such a line too.
func TestRepeats(t *testing.T) {
	for text, want := range map[string]int{
		"schema: statelab.experiment/1\nrepeats: 2\n":   2,
		"{schema: statelab.experiment/1, repeats: 3}\n": 3,
		"repeats: \"4\"\n": 4,
		"name: |\n  seven\n  repeats: 7\nrepeats: 5\n": 5,
		"axes:\n  repeats: 7\n":                        1,
		"schema: statelab.experiment/1\n":              1,
		"repeats: several\n":                           1,
		"repeats: 6\nname: [not ended\n":               1,
	} {
		dir := t.TempDir()
		must(t, os.WriteFile(filepath.Join(dir, "experiment.yaml"), []byte(text), 0o644))
		if n := repeatsOf(dir); n != want {
			t.Errorf("%q: %d repeats, not %d", text, n, want)
		}
	}
}

func TestLive(t *testing.T) {
	root := t.TempDir()
	dir, began := filepath.Join(root, "S"), time.Now().Add(-time.Minute)
	reads := 1.5
	must(t, os.MkdirAll(filepath.Join(dir, "points", "001"), 0o755))
	must(t,
		result.WriteSweep(dir,
			&result.Sweep{
				Status:  result.Interrupted,
				Started: began,
				Axes:    []result.Axis{{Name: "cache", Values: []string{"1%", "2%"}}},
				Points: []result.Point{{
					Axes:   map[string]string{"cache": "1%"},
					Status: result.OK,
					Run:    "points/000-0",
					Runs:   []string{"points/000-0"},
				}},
			}))

	must(t, os.MkdirAll(filepath.Join(dir, "points", "000-0"), 0o755))
	must(t, result.WriteRun(filepath.Join(dir, "points", "000-0"), &result.Run{Status: result.OK,
		Figures: result.Figures{Set: figure.SetOf(map[figure.Figure]float64{
			figure.BlockReadsPerGet: reads,
			figure.GetsPerSecond:    100,
		})}}))

	must(t,
		os.WriteFile(filepath.Join(dir, "experiment.yaml"),
			[]byte("schema: statelab.experiment/1\nrepeats: 2\n"), 0o644))
	must(t, os.WriteFile(filepath.Join(dir, "points", "001", result.SeriesFile),
		[]byte("{\"phase\":\"warm\",\"t\":1,\"ops_per_second\":5}\n"+
			"{\"phase\":\"measure\",\"t\":1,\"ops_per_second\":7}\n"+
			"{\"phase\":\"mea"), 0o644))

	known := new(points)
	now, err := known.live(dir, time.Now())
	must(t, err)
	if now.Status != running || now.Done != 1 || now.Total != 4 || now.Left == "" ||
		now.Phase != "measure" || now.Run != "001" ||
		len(now.Ticks) != 2 || now.Ticks[1].Seconds != 2 || len(now.Points) != 1 ||
		now.Points[0].Reads.OrZero() != 1.5 {
		t.Errorf("%+v", now)
	}

	if later, err := known.live(dir, time.Now().Add(time.Hour)); err != nil ||
		later.Status != result.Interrupted || later.Points[0].Reads.OrZero() != 1.5 {
		t.Errorf("%+v, %v", later, err)
	}
}

// The page of 5,000 runs of full size, for the first time and again:
// go test -run '^$' -bench Page ./internal/explain/serve
func BenchmarkPageOf5000Runs(b *testing.B) {
	root := b.TempDir()
	run, err := result.ReadRun(filepath.FromSlash("../report/testdata/0.1.0/sweep/points/000-0"))
	must(b, err)
	for i := range 5000 {
		dir := filepath.Join(root, fmt.Sprint(i%50), fmt.Sprint(i))
		must(b, os.MkdirAll(dir, 0o755))
		run.Started = run.Started.Add(time.Second)
		must(b, result.WriteRun(dir, run))
	}

	show := func(b *testing.B, handler http.Handler) {
		if code, page, _ := get(b, handler, "/", "localhost:1"); code != http.StatusOK ||
			strings.Count(page, `<tr class="ok"`) != 5000 {
			b.Fatal(code, len(page))
		}
	}

	handler, err := Handler(root, "localhost:1")
	must(b, err)
	b.Run("first", func(b *testing.B) {
		for b.Loop() {
			handler, err = Handler(root, "localhost:1")
			must(b, err)
			show(b, handler)
		}
	})

	b.Run("again", func(b *testing.B) {
		for b.Loop() {
			show(b, handler)
		}
	})
}

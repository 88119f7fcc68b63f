package engines

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/report/doc"
	"github.com/statelab/statelab/internal/report/render"
	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/result/figure"
	"github.com/statelab/statelab/web"
)

const maxPageBytes = 5 << 18

func page1(t testing.TB, in Input) string {
	t.Helper()
	var out bytes.Buffer
	must(t, render.Page(&out, in.Document()))
	return out.String()
}

// Every kind of folder makes a page that a strict parser accepts, that loads
// nothing and that shows no broken number.
func TestPageIsSound(t *testing.T) {
	demo := fixture(t, "demo", someCaches, "", nil, 3)
	for name, dirs := range map[string][]string{
		"one sweep":      {demo},
		"study and ours": append([]string{demo}, study(t)...),
		"threads": {fixture(
			t,
			"threads",
			[]float64{2, 9.6},
			"threads",
			[]string{"1", "2", "4", "8", "16"},
			4,
		)},
		"engines": {fixture(
			t,
			"engines",
			[]float64{9.6},
			"engine",
			[]string{"pebble1", "pebble2", "mdbx"},
			1,
		)},
		"engines, threads": {withDisk(t, enginesSweep(t, fourEngines(6)...))},
		"one run":          {filepath.Join(demo, "points", "003")},
		"a failed run":     {filepath.Join(demo, "points", "004")},
		"load":             {imported(t)},
		"all failed":       {fixture(t, "broken", []float64{4}, "", nil, 0)},
		"no points":        {emptySweep(t)},
		"no block reads":   {withoutTypes(t)},
		"absurd numbers":   {absurd(t)},
		"the same twice":   {demo, demo},
		"one cache, twice": {fixture(t, "same", []float64{4, 4}, "", nil, -1)},
	} {
		t.Run(name, func(t *testing.T) {
			text := page1(t, read(t, dirs...))
			wellFormed(t, text)
			text = strings.NewReplacer(ownScript, "", library, "", data, "", methods, "").
				Replace(text)
			for _, bad := range []string{"http://", "https://", "<script", "<link", "@import",
				"url(", "NaN", "Inf<", "+Inf", "-Inf", "%!", "ZgotmplZ", "<nil>"} {
				if at := strings.Index(text, bad); at >= 0 {
					t.Errorf("the page holds %q: ...%s...", bad,
						text[max(0, at-80):min(len(text), at+80)])
				}
			}

			if len(text) > maxPageBytes {
				t.Errorf("the page has %d bytes", len(text))
			}
		})
	}
}

// methods is where a page links to; ownScript is the script that every page has, library the
// one of pages with charts, data what begins the figures of a chart.
const methods = "https://github.com/statelab/statelab/blob/main/docs/"

const data = `<script type="application/json" class="chart-data">`

var (
	ownScript = "<script>" + web.ReportScript + "</script>"
	library   = "<script>" + web.ChartLibrary + "\n" + web.ChartScript + "</script>"
)

// wellFormed parses the page and refuses what could run or load something.
func wellFormed(t *testing.T, text string) {
	t.Helper()
	if !strings.Contains(text, ownScript) {
		t.Error("the page lacks its own script")
	}

	if strings.Contains(text, data) != strings.Contains(text, library) {
		t.Error("charts without what draws them, or the other way round")
	}

	text = strings.NewReplacer(ownScript, "", library, "").Replace(text)
	parser := xml.NewDecoder(strings.NewReader(text))
	for {
		token, err := parser.Token()
		if errors.Is(err, io.EOF) {
			return
		}

		if err != nil {
			t.Fatalf("the page is not well-formed: %v", err)
		}

		element, ok := token.(xml.StartElement)
		if !ok {
			continue
		}

		figures := element.Name.Local == "script" && element.Attr[0].Value == "application/json"
		if name := element.Name.Local; !figures &&
			slices.Contains([]string{"script", "img", "link", "iframe", "object", "image", "use"},
				name) {
			t.Errorf("the page holds a <%s>", name)
		}

		for _, attr := range element.Attr {
			name := attr.Name.Local
			if strings.HasPrefix(name, "on") || name == "src" ||
				name == "href" && !strings.HasPrefix(attr.Value, methods) &&
					!strings.HasPrefix(attr.Value, "#s") {
				t.Errorf("the page holds %s=%q", name, attr.Value)
			}
		}
	}
}

// Of very many folders, the page and the text tell the first; a table has all figures.
func TestManyFolders(t *testing.T) {
	in := read(t,
		slices.Repeat([]string{filepath.Join(fixture(t, "demo", someCaches, "", nil, 3), "points",
			"001")}, 3*maxSampled)...)
	page := page1(t, in)
	var text bytes.Buffer
	must(t, render.Terminal(&text, in.Document()))
	for what, n := range map[string][2]int{
		"cards":        {strings.Count(page, `<section class="card">`), maxSampled + 1},
		"answers":      {strings.Count(page, `<p class="answer">`), maxSampled + 2},
		"level tables": {strings.Count(page, "<h3>Levels: "), maxSampled},
		"texts":        {strings.Count(text.String(), "readrandom,"), maxSampled},
		"further rows": {strings.Count(page[strings.Index(page, "<h2>Further curves</h2>"):],
			"points/001</td>"), 3*maxSampled - maxDetailed},
		"what is told":  {strings.Count(page, "<h2>80 more folders</h2>"), 1},
		"in the text":   {strings.Count(text.String(), "80 more folders are not shown here"), 1},
		"their answers": {strings.Count(page, "80 more are left out"), 1},
	} {
		if n[0] != n[1] {
			t.Errorf("%d %s, want %d", n[0], what, n[1])
		}
	}
}

// Warnings that differ in figures only are counted where there are very many.
func TestManyWarnings(t *testing.T) {
	var all doc.Warnings
	for i := range 1000 {
		all.Add("busy", fmt.Sprintf("other processes used %d.%d%%", i/10, i%10), "",
			fmt.Sprint("run ", i))
	}

	list := all.List()
	if last := list[len(list)-1].Text; len(list) != 10 ||
		last != "other processes used 0.9% (and 990 more with other figures)" {
		t.Errorf("%d warnings, the last is %q", len(list), last)
	}
}

// The figures of the folder stand in the tables, and every chart is there.
func TestPageShowsWhatTheFolderHolds(t *testing.T) {
	text := page1(t, read(t, fixture(t, "demo", someCaches, "", nil, 3)))
	for _, want := range []string{
		`<p class="answer">1.05 block reads per Get (1.08 device reads, computed, ` +
			`not counted) at a 9.6 MiB cache ` +
			`(1.20% of the database); fewer than 2 block reads per Get with a cache of 4 MiB or ` +
			`more, fewer than 1.1 with 9.6 MiB or more. 1 of 9 points failed.</p>`,
		"Remedy: run as root",
		"failed: killed by signal 9 in phase load at op 81,204",
		"<h3>Block reads per Get, by type</h3>", "<h3>Hit rate, by type</h3>",
		"<h3>Overall hit rate</h3>", "<h3>Block reads and device reads</h3>",
		"<h3>Service time</h3>", "<h3>Second by second</h3>", "<h3>Speed by cache</h3>",
		"<h3>Self-checks</h3>", "<h3>Inflection points</h3>", "<h3>Levels</h3>",
		"statelab sweep --cache 0.1%,1% --db &#39;my db&#39;",
		"<td>3.09</td><td>1.02</td><td>1.00</td><td>0.107</td><td>0.641</td><td>0.320</td>" +
			"<td>3.03 to 3.18</td><td>3.15</td>",
		`"name":"IP1: cache needed"`, `"name":"IP1 on disk"`, `"name":"IP2: cache needed"`,
		`"name":"predicted"`, `"name":"device reads"`,
		"<dt>date</dt>", "<dt>harness overhead</dt>", "<dt>Gets</dt><dd>", " after a warm-up of ",
		`<thead><tr><th class="text">passed</th><th class="text">check</th>`,
		"Drawn: 3 of 9 points.", "x first row",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q", want)
		}
	}

	if got := strings.Count(text, data); got != 7 {
		t.Errorf("%d charts, want 7", got)
	}
}

// The stack of types ends where the measured line is.
func TestStackEndsAtTheTotal(t *testing.T) {
	c := read(t, study(t)[0]).curves()[0]
	for _, p := range c.withReads() {
		sum := 0.0
		for _, kind := range stackOrder() {
			sum += p.Figures.BlockReadsPerGetByType[kind.String()]
		}

		if diff := sum - p.Figures.OrZero(figure.BlockReadsPerGet); diff > 1e-6 || diff < -1e-6 {
			t.Errorf("%d MiB: the stack ends at %v, the line is at %v", p.CacheBytes/mib, sum,
				p.Figures.OrZero(figure.BlockReadsPerGet))
		}
	}
}

// Texts of a folder may hold anything: none of it becomes markup.
func TestHostileTexts(t *testing.T) {
	evil := `"><script>alert(1)</script><img src=x onerror=alert(1)>&'$1`
	dir := fixture(t, evil, []float64{1, 4, 9.6}, evil, []string{evil, evil + "2"}, 1)
	sweep, err := result.ReadSweep(dir)
	must(t, err)
	sweep.Command = []string{"statelab", evil}
	sweep.Source = evil
	sweep.Warnings = []engine.Warning{{Code: evil, Text: evil, Remedy: evil}}
	sweep.Points[1].Error = evil
	must(t, result.WriteSweep(dir, sweep))
	folder := filepath.Join(dir, sweep.Points[0].Run)
	run, err := result.ReadRun(folder)
	must(t, err)
	run.Engine.Name, run.Engine.Version, run.Engine.Options = evil, evil,
		map[string]string{evil: evil}
	run.Host.CPU, run.Workload.Name, run.Figures.DeviceSource = evil, evil, evil
	run.Checks = []result.Check{{Name: evil, Note: evil}}
	run.Absent = map[string]string{evil: evil}
	must(t, result.WriteRun(folder, run))

	text := page1(t, read(t, dir))
	wellFormed(t, text)
	if !strings.Contains(text, "&lt;script&gt;alert(1)") {
		t.Error("the hostile text is not shown at all")
	}
}

// A run folder named not inside the sweep is not read.
func TestRunOutsideTheSweep(t *testing.T) {
	dir := fixture(t, "demo", []float64{1, 4}, "", nil, -1)
	sweep, err := result.ReadSweep(dir)
	must(t, err)
	sweep.Points[0].Run = "../../etc"
	must(t, result.WriteSweep(dir, sweep))
	in := read(t, dir)
	if p := in.Sweeps[0].Points[0]; p.Run != nil ||
		!strings.Contains(p.Problem, "not inside the folder of results") {
		t.Errorf("run %v, problem %q", p.Run, p.Problem)
	}
}

// Damaged samples cost their chart, not the report.
func TestDamagedSamples(t *testing.T) {
	dir := fixture(t, "demo", []float64{1, 4, 9.6}, "", nil, -1)
	must(t,
		os.WriteFile(filepath.Join(dir, "points", "001", result.LatencyFile),
			[]byte("1.0,2.0,3.0,HISTnonsense\n"), 0o644))
	must(t,
		os.WriteFile(filepath.Join(dir, "points", "003", result.LatencyFile),
			[]byte("\x01\x02\xff\n"), 0o644))
	must(t,
		os.WriteFile(filepath.Join(dir, "points", "002", result.SeriesFile), []byte("{]\n{}\n"),
			0o644))
	must(t, os.Remove(filepath.Join(dir, "points", "002", result.RunFile)))
	text := page1(t, read(t, dir))
	wellFormed(t, text)
	if !strings.Contains(text, "latency.hlog is damaged: it holds no service times") {
		t.Error("the page does not say that there are no latencies")
	}

	if !strings.Contains(text, "is damaged") ||
		!strings.Contains(text, "part of the folder of cache 1MiB could not be read") {
		t.Error("the page does not say what is damaged")
	}

	if !strings.Contains(text, "<h3>Block reads per Get, by type</h3>") {
		t.Error("the main chart is gone")
	}
}

func TestNoResultFolder(t *testing.T) {
	for _, dirs := range [][]string{{}, {t.TempDir()}, {"no-such-folder"}} {
		if _, err := Read(dirs...); err == nil {
			t.Errorf("FromFolders(%q) found something", dirs)
		}
	}
}

func TestPicture(t *testing.T) {
	for name, c := range map[string]struct{ dirs, texts []string }{
		"stacked": {study(t)[:1], []string{"block reads per Get", "IP1", "IP2", "3.13", "1.04",
			"filter", "top index", "index", "data", "measured"}},
		"overlaid": {study(t),
			[]string{"cache size as a share of the database", "study Small", "study Medium"}},
		"one cache": {
			[]string{fixture(t, "threads", []float64{9.6}, "threads", []string{"1", "2"}, -1)},
			[]string{"IP2: cache needed", "1.05", "device reads", "measured"},
		},
	} {
		var out bytes.Buffer
		must(t, read(t, c.dirs...).Chart().SVG(&out, ""))

		for decoder := xml.NewDecoder(bytes.NewReader(out.Bytes())); ; {
			if _, err := decoder.Token(); err == io.EOF {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}

		for _, want := range c.texts {
			if !strings.Contains(out.String(), ">"+want+"</text>") {
				t.Errorf("%s: no text %q", name, want)
			}
		}
	}

	if read(t, emptySweep(t)).Chart() != nil {
		t.Error("a chart of nothing")
	}
}

// absurd is a sweep whose numbers no machine would measure.
func absurd(t testing.TB) string {
	t.Helper()
	dir := fixture(t, "absurd", []float64{1, 2, 3, 4}, "threads", []string{"0", "x"}, -1)
	sweep, err := result.ReadSweep(dir)
	must(t, err)
	for i := range sweep.Points {
		p := &sweep.Points[i]
		v := []float64{0, 1e300, -5, 1e-300}[i%4]
		for _, f := range []figure.Figure{figure.BlockReadsPerGet, figure.DeviceReadsPerGet,
			figure.Agreement} {
			p.Figures.Record(f, v)
		}

		p.Figures.Record(figure.GetsPerSecond, v)
		p.Figures.HitRate = map[string]float64{"filter": v, "all": -v}
		p.Figures.BlockReadsPerGetByType = map[string]float64{
			"data":         v,
			"index":        -v,
			"no such type": 1,
		}

		p.Figures.ServiceNanos = &result.Latency{P50: -1, P99: 1 << 62}
		p.CacheBytes = []int64{-1, 0, 1, 1 << 62}[i%4]
		p.CachePercent = v
		p.Spread = map[string]result.Range{"block_reads_per_get": {Low: 5, High: -5}}
	}

	sweep.Predicted = []result.PredictedPoint{
		{CacheBytes: -1, BlockReadsPerGet: -1},
		{CacheBytes: 1 << 40, BlockReadsPerGet: 1e300, High: 1e300, Low: -1e300},
	}

	sweep.Inflection = &result.Inflection{
		IP1: result.Size{DiskBytes: -4, CacheBytes: 1 << 62},
		IP2: result.Size{DiskBytes: 7},
	}

	sweep.Database.Levels = []engine.Level{{Level: -3, Files: 1, Bytes: -1, Keys: -1}}
	must(t, result.WriteSweep(dir, sweep))
	return dir
}

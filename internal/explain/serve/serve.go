package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/explain/kinds"
	"github.com/statelab/statelab/internal/report/doc"
	"github.com/statelab/statelab/internal/report/render"
	"github.com/statelab/statelab/result"
	"github.com/statelab/statelab/result/figure"
	"github.com/statelab/statelab/web"
)

// maxOverlaid is how many folders one report lays over each other.
const maxOverlaid = 12

// Serve shows the results below root at an address until the context ends; shown hears the address
// as a browser takes it.
func Serve(ctx context.Context, root, address string, shown func(string)) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("--listen %s: %w", address, err)
	}

	bound := listener.Addr().String()
	handler, err := Handler(root, bound)
	if err != nil {
		return errors.Join(err, listener.Close())
	}

	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	if host, port, err := net.SplitHostPort(bound); err == nil &&
		net.ParseIP(host).IsUnspecified() {
		bound = "localhost:" + port // and every other address of this machine
	}

	shown(bound)
	stopped := context.AfterFunc(ctx, func() { _ = server.Close() }) // Serve returns why
	defer stopped()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}

	return nil
}

// Handler serves the results below root to browsers that name a host of this machine, or
// one that the listener is bound to: pages of others, whose name was pointed at this
// machine, are refused.
func Handler(root, bound string) (http.Handler, error) {
	root, err := filepath.EvalSymlinks(root)
	if err != nil {
		return nil, err
	}

	list, err := template.New("list").Funcs(template.FuncMap{
		"join":  strings.Join,
		"query": url.QueryEscape,
	}).Parse(web.Serve)
	if err != nil {
		return nil, fmt.Errorf("read the list's template: %w", err)
	}

	x := &index{root: root, row: list.Lookup("row")}
	mux, measured := http.NewServeMux(), new(points)
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		began := time.Now()
		entries, err := x.list()
		if err != nil {
			fail(w, http.StatusInternalServerError, err)
			return
		}

		page(w, func(out *bytes.Buffer) error {
			return list.Execute(out, map[string]any{
				"Root":   root,
				"Rows":   entries,
				"Took":   time.Since(began).Round(time.Millisecond),
				"Style":  template.CSS(web.ReportStyle + web.ServeStyle),
				"Script": template.JS(web.ServeScript),
			})
		})
	})

	mux.HandleFunc("GET /favicon.ico", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNoContent)
	})
	mux.HandleFunc("GET /report", func(w http.ResponseWriter, r *http.Request) {
		folders, err := x.folders(r.URL.Query()["dir"])
		if err != nil {
			fail(w, http.StatusBadRequest, err)
			return
		}

		found, err := kinds.Open(folders...)
		if err != nil {
			fail(w, http.StatusUnprocessableEntity, err)
			return
		}

		page(w, func(out *bytes.Buffer) error { return render.Page(out, found.Document()) })
	})

	mux.HandleFunc("GET /live", func(w http.ResponseWriter, r *http.Request) {
		folders, err := x.folders(r.URL.Query()["dir"])
		if err != nil || len(folders) != 1 {
			fail(w, http.StatusBadRequest, fmt.Errorf("name one folder: %w", err))
			return
		}

		now, err := measured.live(folders[0], time.Now())
		if err != nil {
			fail(w, http.StatusUnprocessableEntity, err)
			return
		}

		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(now) // a browser that has gone needs no answer
	})

	return guarded(mux, bound), nil
}

// folders are those that a query names, all of them below the root.
func (x *index) folders(names []string) (dirs []string, err error) {
	if len(names) == 0 || len(names) > maxOverlaid {
		return nil, fmt.Errorf("name 1 to %d folders", maxOverlaid)
	}

	for _, name := range names {
		local := filepath.FromSlash(name)
		if !filepath.IsLocal(local) {
			return nil, fmt.Errorf("%q is not below the folder that is served", name)
		}

		dir, err := filepath.EvalSymlinks(filepath.Join(x.root, local))
		if err != nil {
			return nil, err
		}

		if rel, err := filepath.Rel(x.root, dir); err != nil || !filepath.IsLocal(rel) {
			return nil, fmt.Errorf("%q leads out of the folder that is served", name)
		}

		dirs = append(dirs, dir)
	}

	return dirs, nil
}

// guarded refuses foreign host names and lets pages load nothing from elsewhere.
func guarded(next http.Handler, bound string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := r.Host
		if host, _, err := net.SplitHostPort(r.Host); err == nil {
			name = host
		}

		own, _, _ := net.SplitHostPort(bound)
		if name != "localhost" && name != own && net.ParseIP(strings.Trim(name, "[]")) == nil {
			fail(w, http.StatusForbidden,
				fmt.Errorf("the host name %q is not this machine's: use its address", name))
			return
		}

		w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src "+
			"'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; "+
			"img-src data: blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}

// page writes nothing of a page that fails halfway.
func page(w http.ResponseWriter, make func(*bytes.Buffer) error) {
	var out bytes.Buffer
	if err := make(&out); err != nil {
		fail(w, http.StatusInternalServerError, err)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = out.WriteTo(w) // a browser that has gone needs no answer
}

func fail(w http.ResponseWriter, status int, err error) { http.Error(w, err.Error(), status) }

// stillRunning is how long ago a runner may have written its last line: it writes one a
// second while it measures, none while an engine settles.
const stillRunning = 15 * time.Second

type newest struct {
	folder string
	at     time.Time
}

// newestSeries is the run of a plan that wrote last.
func newestSeries(dir string) (n newest) {
	paths, err := filepath.Glob(filepath.Join(dir, result.PointsDir, "*", result.SeriesFile))
	if err != nil {
		return n
	}

	for _, path := range paths {
		if info, err := os.Stat(path); err == nil && info.ModTime().After(n.at) {
			n = newest{filepath.Dir(path), info.ModTime()}
		}
	}

	return n
}

// Live is what a plan is at, as the page asks for every second.
type Live struct {
	Status string      `json:"status"`
	Done   int         `json:"runs_done"`
	Total  int         `json:"runs_total"` // 0: not known
	Left   string      `json:"left"`       // estimate from the runs that are done; "" of none
	Phase  string      `json:"phase"`
	Run    string      `json:"run"`
	Ticks  []liveTick  `json:"ticks"`
	Points []livePoint `json:"points"`
}

type liveTick struct {
	Seconds float64      `json:"t"`
	Rate    float64      `json:"ops_per_second"`
	Reads   figure.Value `json:"-"` // of blocks, per operation
}

// MarshalJSON writes the figures by their keys.
func (t liveTick) MarshalJSON() ([]byte, error) {
	type plain liveTick

	return figure.Members{figure.BlockReadsPerOp: &t.Reads}.Marshal(plain(t))
}

// livePoint is a point that is measured: where it stands on the curve so far.
type livePoint struct {
	Label string       `json:"label"`
	Reads figure.Value `json:"-"` // of blocks, per Get
	Rate  figure.Value `json:"-"` // Gets per second
}

// MarshalJSON writes the figures by their keys.
func (p livePoint) MarshalJSON() ([]byte, error) {
	type plain livePoint

	return figure.Members{figure.BlockReadsPerGet: &p.Reads,
		figure.GetsPerSecond: &p.Rate}.Marshal(plain(p))
}

// maxTicks are drawn; the page is no archive.
const maxTicks = 300

// points remembers the points that were read, by the folder of their run: a page asks every
// second, on a machine that measures.
type points struct{ known sync.Map }

func (m *points) read(dir string, sweep *result.Sweep) {
	for i := range sweep.Points {
		p := &sweep.Points[i]
		key := [2]string{filepath.Join(dir, p.Run), sweep.Started.String()}
		if known, ok := m.known.Load(key); ok && len(known.(result.Point).Runs) == len(p.Runs) {
			*p = known.(result.Point)
			continue
		}

		if p.Read(dir); p.Problem == nil {
			p.Of = nil // would fill the memory
			m.known.Store(key, *p)
		}
	}
}

// live reads how far the plan in a folder is.
func (m *points) live(dir string, now time.Time) (*Live, error) {
	sweep, err := result.ReadIndex(dir)
	if err != nil {
		return nil, err
	}

	m.read(dir, sweep)
	out := &Live{
		Status: sweep.Status,
		Total:  runsOf(sweep, dir),
		Ticks:  []liveTick{},
		Points: []livePoint{},
	}

	for _, p := range sweep.Points {
		out.Done += len(p.Runs)
		label := p.Axes["cache"]
		if p.CacheBytes > 0 {
			label = doc.ShortBytes(p.CacheBytes)
		}

		for _, axis := range []string{"engine", "threads", "rate"} {
			if v := p.Axes[axis]; v != "" {
				label = axis + " " + v + " " + label
			}
		}

		if p.Status == result.OK {
			out.Points = append(out.Points, livePoint{label,
				p.Figures.Value(figure.BlockReadsPerGet), p.Figures.Value(figure.GetsPerSecond)})
		}
	}

	series := newestSeries(dir)
	if out.Status == result.Interrupted && now.Sub(series.at) < stillRunning {
		out.Status = running
		if out.Done > 0 && out.Total > out.Done {
			left := now.Sub(sweep.Started) / time.Duration(out.Done) * time.Duration(out.Total-
				out.Done)
			out.Left = unit.Nanos(float64(left))
		}
	}

	if series.folder == "" {
		return out, nil
	}

	ticks, err := result.ReadSeries(series.folder)
	if err != nil {
		return nil, err
	}

	out.Run = filepath.Base(series.folder)
	clock, last, phase := 0.0, 0.0, ""
	for _, t := range ticks {
		if t.Phase != phase {
			last, phase = 0, t.Phase
		}

		clock, last = clock+max(0, t.Seconds-last), t.Seconds
		rate := t.OpsPerSecond
		if rate == 0 {
			rate = t.PutsPerSecond.OrZero()
		}

		if doc.Sane(rate) {
			out.Ticks = append(out.Ticks, liveTick{clock, rate, figure.If(t.BlockReadsPerOp)})
		}
	}

	out.Phase, out.Ticks = phase, out.Ticks[max(0, len(out.Ticks)-maxTicks):]
	return out, nil
}

// runsOf is how many runs a sweep in a folder has when it is complete.
func runsOf(sweep *result.Sweep, dir string) int {
	total := 1
	for _, axis := range sweep.Axes {
		total *= max(1, len(axis.Values))
	}
	return total * repeatsOf(dir)
}

// maxRepeats bounds what a file may claim.
const maxRepeats = 1_000_000

// repeatsOf is how often the experiment of a folder measures each point; 1 if its file does not say
// so. Who measures has read the file by its schema: here it only tells how much is still to come.
func repeatsOf(dir string) int {
	text, err := os.ReadFile(filepath.Join(dir, "experiment.yaml"))
	if err != nil {
		return 1
	}

	var experiment struct {
		Repeats string `yaml:"repeats"`
		Loads   string `yaml:"loads"`
	}
	if yaml.Unmarshal(text, &experiment) != nil {
		return 1
	}

	total := uint64(1)
	for _, count := range []string{experiment.Repeats, experiment.Loads} {
		if n, err := unit.ParseCount(count); err == nil {
			total *= max(1, min(n, maxRepeats))
		}
	}

	return int(min(total, maxRepeats))
}

package serve

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html/template"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"github.com/statelab/statelab/internal/explain/report"
	"github.com/statelab/statelab/web"
)

// mostOverlaid is how many folders one report lays over each other.
const mostOverlaid = 12

// Handler serves the results below root to browsers that name a host of this machine, or
// one that the listener is bound to: pages of others, whose name was pointed at this
// machine, are refused.
func Handler(root, bound string) (http.Handler, error) {
	root, err := filepath.EvalSymlinks(root)
	if err != nil {
		return nil, err
	}
	list, err := template.New("list").Funcs(template.FuncMap{"join": strings.Join, "query": url.QueryEscape}).Parse(web.Serve)
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
			return list.Execute(out, map[string]any{"Root": root, "Rows": entries, "Took": time.Since(began).Round(time.Millisecond),
				"Style": template.CSS(web.ReportStyle + web.ServeStyle), "Script": template.JS(web.ServeScript)})
		})
	})
	mux.HandleFunc("GET /favicon.ico", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	mux.HandleFunc("GET /report", func(w http.ResponseWriter, r *http.Request) {
		folders, err := x.folders(r.URL.Query()["dir"])
		if err != nil {
			fail(w, http.StatusBadRequest, err)
			return
		}
		found, err := report.Open(folders...)
		if err != nil {
			fail(w, http.StatusUnprocessableEntity, err)
			return
		}
		page(w, func(out *bytes.Buffer) error { return found.Page().Write(out) })
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
	if len(names) == 0 || len(names) > mostOverlaid {
		return nil, fmt.Errorf("name 1 to %d folders", mostOverlaid)
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
			fail(w, http.StatusForbidden, fmt.Errorf("the host name %q is not this machine's: use its address", name))
			return
		}
		w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; "+
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

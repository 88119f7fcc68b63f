package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/statelab/statelab/internal/base/testring"
)

// Debian's Prometheus scrapes a sweep and a replay while they run, and every query of the
// Grafana dashboard gives a series of one of them; promtool makes each alert fire.
func TestPrometheusScrapesWhatRuns(t *testing.T) {
	testring.Outer(t, "it runs Prometheus beside a sweep and a replay")
	testring.Program(t, "prometheus")
	examples, err := filepath.Abs("../../examples/grafana")
	if err != nil {
		t.Fatal(err)
	}

	// Each alert fires with the series of its test.
	for _, args := range [][]string{
		{"check", "rules", filepath.Join(examples, "alerts.yml")},
		{"test", "rules", filepath.Join(examples, "alerts_test.yml")},
	} {
		if out, err := exec.Command("promtool", args...).CombinedOutput(); err != nil {
			t.Fatalf("promtool %s: %v\n%s", args, err, out)
		}
	}

	sweepAt, replayAt, promAt := freeAddress(t), freeAddress(t), freeAddress(t)
	runPrometheus(t, promAt, examples, sweepAt, replayAt)
	swept := start(t, "sweep", "--db", database(t, "pebble1"), "--cache", "1%", "--rate", "2k",
		"--gets", "60k", "--warmup", "0", "--disk", "none",
		"--access-gets", "0", "--threads", "1", "--out", filepath.Join(t.TempDir(), "S"),
		"--metrics", sweepAt)

	replayed := start(t, "replay", "--tree", "replaytest", "--changes", changes(t, 1500), "--out",
		filepath.Join(t.TempDir(), "R"),
		"--set", "CommitMillis=20", "--metrics", replayAt)
	waiting := queries(t, filepath.Join(examples, "dashboard.json"))
	if len(waiting) < 10 {
		t.Fatalf("only %d queries in the dashboard", len(waiting))
	}

	seriesFor(t, promAt, waiting, swept, replayed)
	for _, s := range []*session{swept, replayed} {
		if !processGone(s) {
			s.signal(syscall.SIGINT)
		}
		s.wait()
	}
}

// runPrometheus runs Debian's Prometheus, with our alerts, at an address until the test ends. It
// scrapes others.
func runPrometheus(t *testing.T, at, examples string, targets ...string) {
	t.Helper()
	dir := t.TempDir()
	config := fmt.Sprintf("global: {scrape_interval: 200ms}\nrule_files: [%q]\nscrape_configs: "+
		"[{job_name: s, static_configs: [{targets: [%s]}]}]\n",
		filepath.Join(examples, "alerts.yml"), strings.Join(targets, ", "))
	if err := os.WriteFile(filepath.Join(dir, "p.yml"), []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}

	prometheus := exec.Command("prometheus", "--config.file", filepath.Join(dir, "p.yml"),
		"--storage.tsdb.path", filepath.Join(dir, "data"),
		"--web.listen-address", at, "--log.level", "error")
	if err := prometheus.Start(); err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() {
		if err := prometheus.Process.Kill(); err != nil {
			t.Error(err)
		}
		_ = prometheus.Wait() // killed: its status says so
	})
}

// seriesFor waits until Prometheus has a series for every query, or all that it scrapes has ended.
func seriesFor(t *testing.T, at string, waiting map[string]bool, scraped ...*session) {
	t.Helper()
	scraped[0].until("every query of the dashboard gives a series", func() bool {
		for query := range waiting {
			if series(at, query) > 0 {
				delete(waiting, query)
			}
		}

		return len(waiting) == 0 || !slices.ContainsFunc(scraped, func(s *session) bool {
			return !processGone(s)
		})
	})

	for query := range waiting {
		t.Errorf("no series for %s", query)
	}
}

// freeAddress is a port of this machine that nobody listens at now.
func freeAddress(t *testing.T) string {
	t.Helper()
	return fmt.Sprint("127.0.0.1:", freePorts(t, 1)[0])
}

// seenPorts is how many freePorts has looked at.
var seenPorts atomic.Int64

// freePorts are ports of this machine that nobody listens at now, and which the kernel gives to
// nobody who asks for any, so that they stay free.
func freePorts(t testing.TB, n int) (ports []int) {
	t.Helper()
	for len(ports) < n {
		// each process begins at another
		port := 20_000 + (37*os.Getpid()+int(seenPorts.Add(1)))%10_000
		l, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", port))
		if errors.Is(err, syscall.EADDRINUSE) {
			continue
		}

		if err != nil {
			t.Fatal(err)
		}

		if err := l.Close(); err != nil {
			t.Fatal(err)
		}

		ports = append(ports, port)
	}

	return ports
}

// queries are those of a dashboard's panels.
func queries(t *testing.T, path string) map[string]bool {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}

	var dashboard struct {
		Panels []struct{ Targets []struct{ Expr string } }
	}
	if err := json.Unmarshal(text, &dashboard); err != nil {
		t.Fatal(err)
	}

	all := map[string]bool{}
	for _, p := range dashboard.Panels {
		for _, target := range p.Targets {
			all[strings.ReplaceAll(target.Expr, "[1m]", "[5s]")] = true
		}
	}

	return all
}

// series is how many a query gives.
func series(at, query string) int {
	answer, err := http.Get("http://" + at + "/api/v1/query?query=" + url.QueryEscape(query))
	if err != nil {
		return 0
	}

	defer answer.Body.Close()
	var found struct {
		Data struct{ Result []json.RawMessage }
	}
	if json.NewDecoder(answer.Body).Decode(&found) != nil {
		return 0
	}

	return len(found.Data.Result)
}

package evidence

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/advice"
	"github.com/statelab/statelab/internal/chain/clients"
	"github.com/statelab/statelab/internal/explain/advise"
	"github.com/statelab/statelab/internal/explain/nodemetrics"
	"github.com/statelab/statelab/result"
)

// TestMetricsOfAnotherNode: a database of another size by far is another's; one that has grown, or
// has its log and old tables besides, is not.
func TestMetricsOfAnotherNode(t *testing.T) {
	const gib = 1 << 30
	for _, c := range []struct {
		metrics, database int64
		other             bool
	}{
		{0, 10 * gib, false}, // not told
		{10 * gib, 10 * gib, false},
		{30 * gib, 10 * gib, false}, // the copy is old
		{200 << 20, 1 << 20, false}, // the log and the memtables of a new database
		{500 * gib, 10 * gib, true},
		{gib, 300 * gib, true},
	} {
		a := Request{Dir: "chaindata"}
		e := advise.Evidence{Database: result.Database{Bytes: c.database}}
		err := a.contradicted(e, &nodemetrics.Node{DatabaseBytes: c.metrics})
		if (err != nil) != c.other || c.other && (engine.CodeOf(err) != engine.CodeUsage ||
			!strings.Contains(err.Error(), "chaindata has")) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// TestSettingsThatContradictOptions: the running geth has written the OPTIONS file, and its
// settings make another cache than that file names.
func TestSettingsThatContradictOptions(t *testing.T) {
	const mib = 1 << 20
	dir := t.TempDir()
	file := filepath.Join(dir, "OPTIONS-000003")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}

	for _, c := range []struct {
		name    string
		args    string
		running string
		started time.Duration // before now
		given   bool
		want    string
	}{
		{"others", "geth --cache 64", "geth", time.Hour, false, "contradict each other: its " +
			"settings (--cache 64) give the database 32.0 MiB, and it runs with 16.0 MiB"},
		{"the same", "geth --cache 32", "geth", time.Hour, false, ""},
		{"the cache is given", "geth --cache 64", "geth", time.Hour, true, ""},
		{"it opened the database to read", "geth --cache 64", "geth", -time.Hour, false, ""},
		{"another program", "bor --cache 64", "bor", time.Hour, false, ""},
	} {
		a := Request{Dir: dir}
		a.Gets.Spec.Foreign = true
		e := advise.Evidence{
			Client:   clients.Geth,
			Settings: advice.Settings{CacheBytes: 16 * mib, Given: c.given},
			Running: &advice.RunningNode{
				Name: c.running, PID: 7, Started: time.Now().Add(-c.started),
				Config: advice.FlagsAlone(clients.Geth, strings.Fields(c.args)),
			},
		}

		err := a.contradicted(e, nil)
		if c.want == "" && err != nil || c.want != "" && (err == nil ||
			!strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), file)) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

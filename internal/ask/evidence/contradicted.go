package evidence

import (
	"os"
	"path/filepath"

	"github.com/statelab/statelab/engine"
	"github.com/statelab/statelab/internal/advice"
	"github.com/statelab/statelab/internal/base/optionsfile"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/chain/clients"
	"github.com/statelab/statelab/internal/explain/advise"
	"github.com/statelab/statelab/internal/explain/nodemetrics"
)

// contradicted refuses evidence of which one part cannot be of the same node as another.
func (a *Request) contradicted(e advise.Evidence, node *nodemetrics.Node) error {
	if err := a.otherSettings(e); err != nil {
		return err
	}
	return a.otherNode(e, node)
}

// otherSettings refuses an OPTIONS file that the running geth wrote with another cache than its
// settings make.
func (a *Request) otherSettings(e advise.Evidence) error {
	r := e.Running
	if r == nil || e.Client != clients.Geth || r.Name != "geth" || e.Settings.Given ||
		a.Table || !a.Gets.Spec.Foreign {
		return nil
	}

	// Who opens a database without writing to it writes no OPTIONS file.
	name, err := optionsfile.Newest(a.Dir)
	if err != nil || name == "" {
		return nil // SettingsOf has read it, or there was none
	}

	path := filepath.Join(a.Dir, filepath.Base(name))
	if info, err := os.Stat(path); err != nil || r.Started.IsZero() ||
		info.ModTime().Before(r.Started) {
		return nil
	}

	wrong := advice.CheckGeth(r.Config, e.Settings.CacheBytes, r.Memory)
	if wrong == nil {
		return nil
	}

	return engine.Fail(engine.CodeUsage, "the running %s (pid %d) and %s contradict each other: "+
		"%v", r.Name, r.PID, path, wrong).WithRemedy("restart geth if its configuration was " +
		"changed, or give the cache that it runs with: --cache SIZE")
}

// Sizes of a database's files that two moments of one node do not explain: it grows, its old tables
// wait to be removed, and its log and compactions take space besides.
const (
	otherSizeFactor = 4
	otherSizeBytes  = 256 << 20
)

// otherNode refuses metrics of a node whose database has another size by far.
func (a *Request) otherNode(e advise.Evidence, node *nodemetrics.Node) error {
	if node == nil || node.DatabaseBytes <= 0 || a.Table {
		return nil
	}

	small := min(node.DatabaseBytes, e.Database.Bytes)
	large := max(node.DatabaseBytes, e.Database.Bytes)
	if large <= otherSizeFactor*small+otherSizeBytes {
		return nil
	}

	return engine.Fail(engine.CodeUsage, "--node-metrics: they are of another node: its database "+
		"has %s (eth_db_chaindata_disk_size), and %s has %s", unit.Bytes(node.DatabaseBytes),
		a.Dir, unit.Bytes(e.Database.Bytes)).WithRemedy("give the metrics of the node that has " +
		"this database, or how many Gets it makes: --gets-per-second")
}

package slurm

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/statelab/statelab/internal/base/setting"
	"github.com/statelab/statelab/internal/base/unit"
	"github.com/statelab/statelab/internal/plan"
	"github.com/statelab/statelab/internal/plan/experiment"
	"github.com/statelab/statelab/result"
)

// JobsDir holds what belongs to jobs, in the folder of the results.
const JobsDir = "slurm"

// Runs carries the steps of an experiment out on a cluster's nodes: every one is
// statelab run FILE --point N there.
type Runs struct {
	Cluster
	Experiment *experiment.Experiment
	Out        string
	On         []string // nodes that have the database; none: any
	Say        func(format string, args ...any)
}

// Execute implements plan.RemoteExecutor.
func (c *Runs) Execute(
	ctx context.Context, steps []plan.Remote, tell func(plan.Remote, int, result.Event),
	ended func(plan.Remote),
) error {
	resolved, err := c.Experiment.Resolved()
	if err != nil {
		return err
	}

	var file strings.Builder
	if err := resolved.Write(&file); err != nil {
		return err
	}

	b := Batch{
		Cluster: c.Cluster,
		Folder:  filepath.Join(c.Out, JobsDir),
		Files:   map[string]string{experiment.File: file.String()},
	}

	for _, s := range steps {
		t, err := c.task(s)
		if err != nil {
			return err
		}
		b.Numbers, b.Tasks = append(b.Numbers, s.Number), append(b.Tasks, t)
	}

	ok, began := 0, time.Now()
	err = b.Do(ctx, func(u Update) {
		if u.Note != "" {
			c.Say("%s", u.Note)
		}

		if u.Task < 0 {
			return
		}

		s := steps[u.Task]
		if u.Finished {
			ended(s)
			if _, well := EndedWell(s.Folder); well {
				ok++
			}
			return
		}

		s.Label = strings.TrimPrefix(s.Label+", on "+u.Node, ", ")
		tell(s, u.Running, u.Event)
	})
	if err == nil {
		c.Say("%v", EffortOf(b.Tasks, time.Since(began)))
	}

	if err == nil && ok == len(steps) && !c.Experiment.DB.IsSet() &&
		c.Experiment.Measure == experiment.Sweep {
		if err := c.Clean(b.Folder,
			nodesOf(filepath.Join(c.Out, result.PointsDir, "*"))); err != nil {
			c.Say("%v", err)
		}
	}

	return err
}

// task is the measurement of s on one node.
func (c *Runs) task(s plan.Remote) (t Task, err error) {
	relative, err := filepath.Rel(c.Out, s.Folder)
	if err != nil {
		return t, err
	}

	t = Task{
		Args: []string{"run", filepath.Join(Work, experiment.File), "--point",
			strconv.Itoa(s.Number), "--out", filepath.Join(Work, "out"),
			"--databases", filepath.Join(Scratch, "databases")},
		From:  filepath.Join("out", relative),
		To:    s.Folder,
		Class: s.Point.Class,
		Nodes: c.On,
		Label: "run " + strconv.Itoa(s.Number),
	}

	if s.Label != "" {
		t.Label += " (" + s.Label + ")"
	}

	// Repeats of a point share a machine. A database whose nodes are not known has
	// one user at a time, so that all of its points do.
	t.Together, t.Node = s.Point.Name,
		machineOf(strings.TrimSuffix(s.Folder, "-"+strconv.Itoa(s.Repeat))+"-*")
	if c.Experiment.DB.IsSet() && len(c.On) == 0 {
		t.Together, t.Node = "database of "+s.Point.Class, ""
		if !c.Experiment.Constraint.Several() {
			t.Node = machineOf(filepath.Join(filepath.Dir(s.Folder), "*"))
		}
	}

	return t, nil
}

// machineOf is a node that one of the folders was measured on; "" if none was.
func machineOf(folders string) string {
	if nodes := nodesOf(folders); len(nodes) > 0 {
		return nodes[0]
	}
	return ""
}

// nodesOf are the nodes that folders were measured on.
func nodesOf(folders string) (nodes []string) {
	all, err := filepath.Glob(folders)
	if err != nil {
		return nil
	}

	for _, folder := range all {
		if node := NodeOf(folder); node != "" && !slices.Contains(nodes, node) {
			nodes = append(nodes, node)
		}
	}

	return nodes
}

// Effort is what work on nodes took.
type Effort struct {
	Parts, Nodes  int
	Seconds, Busy float64 // from start to end; of all parts, on their nodes
}

// EffortOf is what tasks took that have ended.
func EffortOf(tasks []Task, took time.Duration) Effort {
	e, nodes := Effort{Parts: len(tasks), Seconds: took.Seconds()}, map[string]bool{}
	for _, t := range tasks {
		seconds, _ := EndedWell(t.To)
		e.Busy += seconds
		nodes[NodeOf(t.To)] = true
	}
	e.Nodes = len(nodes)
	return e
}

// String is a sentence: what was done on how many nodes, how long it took, and the speed-up.
func (e Effort) String() string {
	return fmt.Sprintf("%s on %s took %.1f s, and %.1f s in all on the nodes (speed-up %.2f, "+
		"efficiency %.0f%%)",
		unit.Plural(e.Parts, "job"), unit.Plural(e.Nodes, "node"),
		e.Seconds, e.Busy, e.Busy/e.Seconds, 100*e.Busy/e.Seconds/float64(e.Nodes))
}

// Against is a row of the table of --nodes; speed-up is against the first row.
func (e Effort) Against(first Effort) string {
	faster := first.Seconds / e.Seconds
	return fmt.Sprintf("%7d %9.1f s %12.1f s %9.2f %10.0f%%", e.Nodes, e.Seconds, e.Busy, faster,
		100*faster*float64(first.Nodes)/float64(e.Nodes))
}

// EffortHead is the head of that table.
const EffortHead = "  nodes        took  on the nodes  speed-up  efficiency"

// For are the runs of an experiment on a cluster, whose nodes must be there and alike.
func For(
	e *experiment.Experiment, out string, programs []string, say func(format string, args ...any),
) (*Runs, error) {
	partition := e.Where.Value().Partition
	c := &Runs{
		Experiment: e,
		Out:        out,
		Say:        say,
		Cluster: Cluster{
			Partition: partition,
			Submit:    e.Submit.All(),
			Scratch:   e.Scratch.Value(),
			Programs:  programs,
		},
	}

	nodes, err := Nodes(partition)
	if err != nil {
		return nil, err
	}

	classes := e.Constraint.All()
	if len(classes) == 0 {
		classes = []string{""}
	}

	for _, class := range classes {
		if err := Alike(nodes, class); err != nil {
			return nil, setting.Usage("--constraint: %v", err)
		}

		if len(Ready(nodes, class)) == 0 {
			say("no node can run a job now (sinfo -R says why): runs wait until one can")
		}
	}

	for _, entry := range e.DBAt.All() {
		name, _, _ := strings.Cut(entry, "=")
		if !slices.ContainsFunc(nodes, func(n Node) bool { return n.Name == name }) {
			return nil, setting.Usage("--db-at %s: the partition has no node %q", entry, name)
		}
		c.On = append(c.On, name)
	}

	return c, nil
}

// DatabaseHere gives an experiment the path that --db-at names for this node.
func DatabaseHere(e *experiment.Experiment) {
	for _, entry := range e.DBAt.All() {
		if node, dir, other := strings.Cut(entry, "="); other &&
			node == os.Getenv("SLURMD_NODENAME") {
			e.DB.SetValues(dir)
		}
	}
}

// CheckWhere checks what an experiment says of where to run. A single run is for this machine,
// wherever the others are; listed: runs are listed for somebody else to start.
func CheckWhere(e *experiment.Experiment, single, listed bool, m *setting.Mistakes) {
	where := e.Where.String()
	switch {
	case !e.Where.Value().Cluster:
	case e.Measure == experiment.Price:
		m.At("on", where, "prices are computed on this machine: measure on nodes first (statelab "+
			"layouts --contract-slots 10k --on %s --out L), then statelab price --from L", where)
	case e.Measure == experiment.Load:
		m.At("on", where, "a load makes one database on one machine: load it there (srun "+
			"--nodelist=NODE statelab load ...), or give sweep --keys, "+
			"which loads on every node that needs it")
	case !single && e.DB.IsSet() &&
		(e.Measure == experiment.Replay || e.Measure == experiment.Layouts):
		m.At("db", e.DB.Value(),
			"with %s the files that %s makes are on the scratch disk of each node: %s",
			m.Name("on", "slurm"), e.Measure, m.Name("scratch", "DIR"))
	}

	if single {
		e.Where.SetValues(setting.Target{})
		DatabaseHere(e)
	}

	if single || listed || e.Where.Value().Cluster {
		return
	}

	for flag, value := range map[string]*experiment.Text{
		"constraint": &e.Constraint,
		"db-at":      &e.DBAt,
		"sbatch":     &e.Submit,
	} {
		// A file may say what matters on a cluster alone; classes are points.
		if value.IsSet() && (m.In == nil || flag == "constraint" && value.Several()) {
			m.At(flag, value.String(), "needs a cluster: add %s", m.Name("on", "slurm"))
		}
	}
}

package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/statelab/statelab/internal/base/setting"
	"github.com/statelab/statelab/internal/plan"
	"github.com/statelab/statelab/internal/plan/experiment"
	"github.com/statelab/statelab/internal/plan/runners"
	"github.com/statelab/statelab/internal/plan/slurm"
)

// elsewhere reports whether the runs are for the nodes of a cluster.
func (f *flags) elsewhere() bool {
	return f.Where.V().Cluster && f.point == ""
}

// checkWhere checks the flags that say where to run.
func (f *flags) checkWhere(m *mistakes) {
	switch where := f.Where.String(); {
	case !f.Where.V().Cluster:
	case f.Measure == experiment.Price:
		m.At("on", where, "prices are computed on this machine: measure on nodes first (statelab layouts --contract-slots 10k --on %s --out L), then "+
			"statelab price --from L", where)
	case f.Measure == experiment.Load:
		m.At("on", where, "a load makes one database on one machine: load it there (srun --nodelist=NODE statelab load ...), or give sweep --keys, "+
			"which loads on every node that needs it")
	}
	if f.point != "" {
		f.Where.Let(setting.Place{})
	}
	if !f.elsewhere() && f.point == "" && !f.matrix {
		for flag, value := range map[string]*experiment.Text{"constraint": &f.Constraint, "db-at": &f.DBAt, "sbatch": &f.Submit} {
			// A file may say what matters on a cluster alone; classes are points.
			if value.Given() && (m.In == nil || flag == "constraint" && value.Several()) {
				m.At(flag, value.String(), "needs a cluster: add %s", m.Name("on", "slurm"))
			}
		}
	}
	if f.databases != "" && f.point == "" {
		m.add("--databases: only with --point; databases of a sweep are in its --out")
	}
	if f.versionParts != "" {
		m.add("--parts %s: a replay cannot be divided by versions, since a tree applies a version to the state that all versions before it have left, and no "+
			"tree here can begin with that state: several trees, profiles and --repeats are runs that nodes share", f.versionParts)
	}
	if f.point != "" && f.matrix {
		m.add("--point and --print-matrix: give one of them")
	}
	if f.elsewhere() && f.DB.Given() && (f.Measure == experiment.Replay || f.Measure == experiment.Layouts) {
		m.At("db", f.DB.V(), "with %s the files that %s makes are on the scratch disk of each node: %s", m.Name("on", "slurm"), f.Measure, m.Name("scratch", "DIR"))
	}
	if f.point != "" {
		slurm.DatabaseHere(f.Experiment)
	}
}

// only is the step that --point names.
func (f *flags) only(how plan.Plan, points []plan.Point) (*int, error) {
	if f.point == "" {
		return nil, nil
	}
	n, err := strconv.Atoi(f.point)
	if most := len(points)*how.Repeats - 1; err != nil || n < 0 || n > most {
		return nil, usage("--point %q: must be from 0 to %d, a number that --print-matrix lists", f.point, most)
	}
	return &n, nil
}

// printMatrix prints the steps as the strategy.matrix of GitHub Actions takes them.
func (a *app) printMatrix(f *flags, how plan.Plan, points []plan.Point) error {
	if !f.matrix {
		return nil
	}
	return a.printJSON(map[string]any{"include": how.Matrix(points)})
}

// programs are this binary and the runners that were found for what is measured.
func (a *app) programs() []string {
	all := append([]string{runners.Self()}, a.tables.engines.Paths()...)
	return runners.Unique(append(append(all, a.tables.trees.Paths()...), a.tables.layouts.Paths()...))
}

// divide has the nodes of a cluster carry out commands, and hands their results over.
func (a *app) divide(on *slurm.Fan, verb string, commands func(parts int) [][]string, use func(folders []string) error) error {
	return on.Divide(a.ctx, slurm.Division{Verb: verb, Out: outFolder("", verb), Programs: a.programs(), Commands: commands, Use: use}, a.progress())
}

func (a *app) clusterVerb() *cobra.Command {
	return a.group(&cobra.Command{
		Use:   "cluster",
		Short: "Check a Slurm cluster before running an experiment on it",
		Long: `Experiments run on a Slurm cluster with --on slurm[:PARTITION]: every run is an
element of a job array, alone on its node.

  statelab cluster check                           (what is missing on which node)
  statelab sweep --keys 2M --cache 1%,3% --on slurm:fast --out S`,
	}, a.clusterCheckVerb())
}

func (a *app) clusterCheckVerb() *cobra.Command {
	var scratch, at string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "check [PARTITION]",
		Short: "Report what each node lacks, if anything",
		Long: `Check asks Slurm about its settings and nodes, and starts a short job on each node
that is free: scratch space, a shared folder, statelab itself, memory control groups.

  statelab cluster check
  statelab cluster check fast --scratch /local --shared results`,
	}
	cmd.Flags().StringVar(&scratch, "scratch", "/tmp", "folder on the nodes' own disks")
	cmd.Flags().StringVar(&at, "shared", ".", "folder that results would be in")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return a.checked(cmd, func(m *mistakes, args []string) error {
		if len(args) > 1 {
			m.add("name one partition (example: statelab cluster check fast)")
		}
		if err := m.err(); err != nil {
			return err
		}
		partition := strings.Join(args, "")
		checked, err := slurm.Check(a.ctx, slurm.Cluster{Partition: partition, Scratch: scratch, Programs: []string{runners.Self()}}, absolute(at))
		if err != nil {
			return err
		}
		if asJSON {
			if err := a.printJSON(checked); err != nil {
				return err
			}
		} else {
			for _, c := range checked {
				fmt.Fprintf(a.stdout, "%s: %s\n", c.Where, c.Text)
				if c.Remedy != "" {
					fmt.Fprintf(a.stdout, "    remedy: %s\n", c.Remedy)
				}
			}
		}
		if slices.ContainsFunc(checked, func(c slurm.Finding) bool { return c.Remedy != "" && !c.OK }) {
			return errors.New("the cluster is not ready: see the remedies")
		}
		return nil
	})
}

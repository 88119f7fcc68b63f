package main

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/statelab/statelab/internal/plan"
	"github.com/statelab/statelab/internal/plan/runners"
	"github.com/statelab/statelab/internal/plan/slurm"
)

// elsewhere reports whether the runs are for the nodes of a cluster.
func (f *flags) elsewhere() bool {
	return f.Where.Value().Cluster && f.point == ""
}

// checkWhere checks the flags that say where to run.
func (f *flags) checkWhere(m *mistakes) {
	slurm.CheckWhere(f.Experiment, f.point != "", f.matrix, &m.Mistakes)
	if f.databases != "" && f.point == "" {
		m.Add("--databases: only with --point; databases of a sweep are in its --out")
	}

	if f.versionParts != "" {
		m.Add("--parts %s: a replay cannot be divided by versions, since a tree applies a "+
			"version to the state that all versions before it have left, and no "+
			"tree here can begin with that state: several trees, profiles and --repeats are runs "+
			"that nodes share", f.versionParts)
	}

	if f.point != "" && f.matrix {
		m.Add("--point and --print-matrix: give one of them")
	}
}

// listed prints the steps as the strategy.matrix of GitHub Actions takes them, if that is all that
// is asked for; else how gets the only step that --point names.
func (a *app) listed(f *flags, how *plan.Plan, points []plan.Point) (bool, error) {
	if f.matrix {
		return true, a.printJSON(map[string]any{"include": how.Matrix(points)})
	}

	if f.point == "" {
		return false, nil
	}

	n, maximum := how.Numbered(f.point, points)
	if n < 0 {
		return false, usage("--point %q: must be from 0 to %d, a number that --print-matrix lists",
			f.point, maximum)
	}

	how.Only = &n
	return false, nil
}

// divide has the nodes of a cluster carry out commands, and hands their results over.
func (a *app) divide(
	on *slurm.Fan, verb string, commands func(parts int) [][]string,
	use func(folders []string) error,
) error {
	return on.Divide(a.ctx,
		slurm.Division{
			Verb:     verb,
			Out:      outFolder("", verb),
			Programs: a.tables.Programs(),
			Commands: commands,
			Use:      use,
		}, a.progress())
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
			m.Add("name one partition (example: statelab cluster check fast)")
		}

		if err := m.Err(); err != nil {
			return err
		}

		partition := strings.Join(args, "")
		checked, err := slurm.Check(a.ctx,
			slurm.Cluster{
				Partition: partition,
				Scratch:   scratch,
				Programs:  []string{runners.Self()},
			}, absolute(at))
		if err != nil {
			return err
		}

		if asJSON {
			err = a.printJSON(checked)
		} else {
			err = a.show(slurm.Document(checked))
		}

		if err != nil {
			return err
		}

		if !slurm.NoProblem(checked) {
			return errors.New("the cluster is not ready: see the remedies")
		}

		return nil
	})
}

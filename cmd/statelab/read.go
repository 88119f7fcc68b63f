package main

import (
	"github.com/spf13/cobra"

	"github.com/statelab/statelab/internal/plan/experiment"
)

func (a *app) readVerb() *cobra.Command {
	return a.measuringVerb(experiment.Read, &cobra.Command{
		Use:   "read --db DIR",
		Short: "Measure one point: what a Get costs with these settings",
		Long: `Read opens a database, warms its cache, measures Gets and says what each cost in
block accesses, block reads and device reads. It is a sweep of one point.

  statelab read --db D --cache 64MiB --gets 500k --threads 8
  statelab read --db D --workload readmissing --repeats 3
  statelab read --db D --rate 20k --threads 64     (open loop: response times)
  statelab read --db CHAINDATA --use-existing --cache 2GiB --page-cache direct`,
	})
}

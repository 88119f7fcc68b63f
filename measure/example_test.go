package measure_test

import (
	"context"
	"fmt"
	"os"

	"github.com/statelab/statelab/engines/pebble2"
	"github.com/statelab/statelab/measure"
	"github.com/statelab/statelab/result/figure"
)

// An engine of your own takes the place of pebble2.Engine{}.
func ExampleRun() {
	run, err := measure.Run(context.Background(), pebble2.Engine{}, measure.Workload{
		Keys:         20_000,
		CacheBytes:   16 << 20,
		Gets:         10_000,
		MissingShare: 0.1,
	})
	if err != nil {
		panic(err)
	}

	reads, known := run.Figures.Number(figure.BlockReadsPerGet)
	fmt.Println("block reads per Get, with a cache for everything:", reads, known)

	// Times are known, too; what the kernel counts of the whole process is not.
	fmt.Println("mean of a Get is known:", run.Figures.ServiceNanos.Mean > 0)
	fmt.Println("CPU time is known:", run.Figures.Has(figure.CPUTimePerGet))
	// Output:
	// block reads per Get, with a cache for everything: 0 true
	// mean of a Get is known: true
	// CPU time is known: false
}

func ExampleSweep() {
	dir, err := os.MkdirTemp("", "measure")
	if err != nil {
		panic(err)
	}

	defer os.RemoveAll(dir)
	sweep, err := measure.Sweep(context.Background(), pebble2.Engine{}, measure.Workload{
		Keys: 20_000,
		Gets: 10_000,
		Out:  dir, // for statelab report
	}, 1<<20, 16<<20)
	if err != nil {
		panic(err)
	}

	for _, point := range sweep.Points {
		reads, _ := point.Figures.Number(figure.BlockReadsPerGet)
		fmt.Println(point.CacheBytes>>20, "MiB:", reads > 0.1)
	}
	// Output:
	// 1 MiB: true
	// 16 MiB: false
}

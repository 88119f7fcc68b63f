package result

import (
	"fmt"
	"strings"
	"testing"

	"github.com/statelab/statelab/internal/base/mutilate"
)

// Fio's output with jobs that are not all, or not as fio wrote them, is refused, or what it cannot
// show is told.
func TestMutilatedFio(t *testing.T) {
	job := func(name string, group, depth, processes int) string {
		return fmt.Sprintf(`{"jobname":%q,"groupid":%d,"error":0,"job options":{"rw":"randread",`+
			`"bs":"4k","iodepth":"%d","numjobs":"%d"},"read":{"iops":%d,"total_ios":1000,`+
			`"lat_ns":{"mean":110000}}}`, name, group, depth, processes, 9000*depth)
	}

	imports := func(jobs []string) mutilate.Outcome {
		h, err := ParseHardware([]byte(`{"fio version":"fio-3.33","jobs":[` +
			strings.Join(jobs, ",") + `]}`))
		if err != nil {
			return mutilate.Outcome{Err: err}
		}

		var told []string
		for _, w := range h.Warnings() {
			told = append(told, w.Text)
		}

		return mutilate.Outcome{Told: strings.Join(told, "; ")}
	}

	// A job for each depth.
	var depths []string
	for i := range 12 {
		depths = append(depths, job(fmt.Sprint("depth", i), i, i+1, 1))
	}

	merged := func(a, b string) string { return strings.TrimSuffix(a, "}") + "," + b[1:] }
	mutilate.Demand(t, depths, 5, merged, imports, map[string]string{
		mutilate.Dropped:   `refused: fio job "depth6" is of group 6, where group 5 belongs`,
		mutilate.Doubled:   `refused: fio job "depth5" has 2 entries, and numjobs=1`,
		mutilate.Merged:    `refused: fio job "depth6" is of group 6, where group 5 belongs`,
		mutilate.Reordered: `refused: fio job "depth6" is of group 6, where group 5 belongs`,
		mutilate.Sampled:   `refused: fio job "depth10" is of group 10, where group 1 belongs`,
	})

	if got := imports(depths[:11]); !strings.Contains(got.Told, "jobs that are missing at its "+
		"end") {
		t.Errorf("without the last: %v", got)
	}

	// The processes of one job, behind one with one read in flight.
	processes := []string{job("one", 0, 1, 1)}
	for range 11 {
		processes = append(processes, job("many", 1, 2, 11))
	}

	mutilate.Demand(t, processes, 5, merged, imports, map[string]string{
		mutilate.Dropped: `refused: fio job "many" has 10 entries, and numjobs=11`,
		mutilate.Doubled: `refused: fio job "many" has 12 entries, and numjobs=11`,
		mutilate.Merged:  `refused: fio job "many" has 10 entries, and numjobs=11`,
		// processes are alike: their order says nothing
		mutilate.Reordered: "jobs that are missing at its end cannot be seen",
		mutilate.Sampled:   `job "many" has one entry for numjobs=11`,
	})
}

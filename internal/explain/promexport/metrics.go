package promexport

import "github.com/statelab/statelab/result/figure"

// Prefixes of what is served of a plan's runs, and of a replay's trees.
const (
	ofRun    = "statelab_run_"
	ofReplay = "statelab_replay_"
)

// Windows of gauges, behind the definition of a figure: a tick of a runner is of about one second.
const (
	lastSecond = " Of the last second."
	quantiles  = " Of the last second, by quantile."
)

// gaugeOf serves a figure as it is at the moment, or over a window.
func gaugeOf(prefix string, f figure.Figure, window string) metric {
	return metric{prefix + f.MetricName(), f.Defined + window, gauge}
}

// counterOf serves what a figure counts, from the beginning on.
func counterOf(prefix string, f figure.Figure) metric {
	return metric{prefix + f.MetricName() + "_total", f.Defined, counter}
}

// What is served of the runs of a plan, with the label "verb".
var (
	runOperations = metric{ofRun + "operations_total",
		"Operations of all phases so far.", counter}
	runDeviceBytes = metric{ofRun + "device_read_bytes_total",
		"Bytes that the runners read from devices.", counter}

	runNumber = metric{ofRun + "number",
		"The current run of the plan, counted from 1.", gauge}
	runExpected = metric{ofRun + "expected", "How many runs the plan has.", gauge}
	runPhase    = metric{ofRun + "phase", "1 for the current phase, which is a label.", gauge}
	phaseDone   = metric{ofRun + "phase_done",
		"What is done of the phase, in its own unit.", gauge}
	phaseExpected = metric{ofRun + "phase_expected",
		"What the phase will do, in its own unit; 0: not known.", gauge}

	runRate = metric{ofRun + "operations_per_second",
		"Operations of the last second.", gauge}
	runService    = gaugeOf(ofRun, figure.ServiceTime, quantiles)
	runBlockReads = gaugeOf(ofRun, figure.BlockReadsPerOp, "")
)

// What is served of the trees of a replay, with the label "tree". Counters are sums of ticks.
var (
	treeLeaves = metric{ofReplay + "leaves_total",
		"Changes (Set and Remove) applied to the tree.", counter}
	treeVersions = metric{ofReplay + "versions_total",
		"Versions that the replay has committed.", counter}
	treeUserBytes = metric{ofReplay + "user_bytes_total",
		"Bytes of the keys and values of the changes.", counter}
	treeReadBytes = metric{ofReplay + "device_read_bytes_total",
		"Bytes that the runner read from devices.", counter}
	treeWrittenBytes = metric{ofReplay + "device_written_bytes_total",
		"Bytes that the runner wrote to devices.", counter}

	treeNodes       = counterOf(ofReplay, figure.NodesWritten)
	treeCacheHits   = counterOf(ofReplay, figure.CacheHits)
	treeCacheMisses = counterOf(ofReplay, figure.CacheMisses)
	treeDBGets      = counterOf(ofReplay, figure.DBGets)

	treeVersion = metric{ofReplay + "version_number",
		"The last version that is committed.", gauge}
	treeMemory = metric{ofReplay + "resident_memory_bytes",
		"Resident memory of the runner.", gauge}

	treeSize   = gaugeOf(ofReplay, figure.TreeSize, "")
	treeHeight = gaugeOf(ofReplay, figure.TreeHeight, "")
	treeDisk   = gaugeOf(ofReplay, figure.DiskBytes, "")
	treeCommit = gaugeOf(ofReplay, figure.CommitTime, quantiles)
)

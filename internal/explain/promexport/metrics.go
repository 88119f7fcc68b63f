package promexport

import "github.com/statelab/statelab/result/figure"

// Prefixes of what is served of a plan's runs, of a replay's trees, and of a watched process.
const (
	ofRun    = "statelab_run_"
	ofReplay = "statelab_replay_"
	ofWatch  = "statelab_watch_"

	ofPredicted = ofWatch + "predicted_"
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

// What is served of a watched process, with the labels "process" and "database". Counters begin
// with the watch. While only a part of the time is watched, they count in that part: divide by
// the rate of the observed seconds.
var (
	watchInfo = metric{ofWatch + "info",
		"1 for the process that is watched; its number and engine are labels.", gauge}
	watchSeconds = metric{ofWatch + "observed_seconds_total",
		"Time in which every Get of the process was seen.", counter}
	watchGets = metric{ofWatch + "gets_total",
		"Gets of the process in the observed seconds, by kind of key.", counter}
	watchAbsent = metric{ofWatch + "gets_absent_total",
		"Negative lookups in the observed seconds: Gets of the process that found nothing, by " +
			"kind of key.", counter}
	watchGetSeconds = metric{ofWatch + "get_seconds_total",
		"Time that threads spent in Gets in the observed seconds, by kind of key.", counter}
	watchSeeks = metric{ofWatch + "seeks_total",
		"Seeks of iterators by the process in the observed seconds.", counter}
	watchReads = metric{ofWatch + "table_reads_total",
		"Reads of tables by the process, by purpose: those for Gets are block reads.", counter}
	watchFaults = metric{ofWatch + "major_page_faults_total",
		"Major page faults on the database that the process maps.", counter}
	watchCache = metric{ofWatch + "cache_bytes",
		"Size of the process's block cache.", gauge}
	watchPredicted = metric{ofPredicted + figure.BlockReadsPerGet.Key,
		"Block reads per Get with a cache of so many bytes, simulated of the Gets of the last " +
			"period; the present size is among them.", gauge}
	watchPredictedLow = metric{ofPredicted + figure.BlockReadsPerGet.Low().Key,
		"Lower end of the range of the prediction.", gauge}
	watchPredictedHigh = metric{ofPredicted + figure.BlockReadsPerGet.High().Key,
		"Upper end of the range of the prediction.", gauge}
	watchPredictedOf = metric{ofPredicted + "of_gets",
		"Gets of the period that the prediction was made of.", gauge}
	watchPages = metric{ofPredicted + "page_reads_per_second",
		"Pages of the mapped database that would be read with so many bytes of memory.", gauge}
	watchPagesLow = metric{ofPredicted + "page_reads_per_second_low",
		"Lower end of the range of the prediction.", gauge}
	watchPagesHigh = metric{ofPredicted + "page_reads_per_second_high",
		"Upper end of the range of the prediction.", gauge}
	watchMemory = metric{ofWatch + "memory_bytes",
		"Memory that the control group of the process uses, page cache included.", gauge}
	watchMemoryLimit = metric{ofWatch + "memory_limit_bytes",
		"Limit of memory of the control group of the process.", gauge}
)

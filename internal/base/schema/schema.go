// Package schema names the version of every file and answer that statelab writes, each once. A
// file carries its name in the member "schema"; a reader refuses a name that it does not know.
//
// A version is raised when a member changes its meaning or goes. Members may be added.
package schema

// Of results and answers, of what they are made from, and of what statelab tells its runners.
const (
	Run             = "statelab.run/1"            // run.json: one measured process
	Sweep           = "statelab.sweep/1"          // sweep.json: an index of runs
	Replay          = "statelab.replay/1"         // replay.json: one change set in several trees
	Layouts         = "statelab.layouts/1"        // layouts.json: layouts of one state
	Disk            = "statelab.disk/1"           // disk.json: what a disk gives
	Hardware        = "statelab.hardware/1"       // a profile of a disk
	Price           = "statelab.price/1"          // price.json: what accesses cost in gas
	Watch           = "statelab.watch/1"          // watch.json: what a running process read
	Prediction      = "statelab.predict/1"        // prediction.json: what caches would read
	Simulation      = "statelab.simulate/1"       // simulation.json: what simulated caches read
	Advice          = "statelab.advise/1"         // advice.json: which cache a node needs
	RocksAdvice     = "statelab.advise.rocksdb/1" // which block cache a node on RocksDB needs
	Tuning          = "statelab.tune/1"           // tuning.json: which options would read less
	TunePredictions = "statelab.tune.predicted/1" // what a search has predicted so far
	Comparison      = "statelab.compare/1"        // verdicts on two folders
	Inspection      = "statelab.inspect/1"        // what is in a database
	Fidelity        = "statelab.fidelity/1"       // how a database differs from a node's
	Conformity      = "statelab.conformity/1"     // how options differ from a program's
	Experiment      = "statelab.experiment/1"     // experiment.yaml: what to measure
	Manifest        = "statelab.manifest/1"       // what a database was loaded with
	Trace           = "statelab.trace/1"          // a trace: the blocks that Gets ask for
	TraceFacts      = "statelab.traceinfo/1"      // what is in a trace
	ChangeSet       = "statelab.changeset/1"      // a change set: what each block wrote
	ChangeSetFacts  = "statelab.changeset_info/1" // what is in a change set
	Accesses        = "statelab.accesses/1"       // an access list: what each block read and wrote
	AccessFacts     = "statelab.accessinfo/1"     // what is in an access list
	Traffic         = "statelab.traffic/1"        // a log of calls of a key-value store
	TrafficFacts    = "statelab.trafficinfo/1"    // what is in such a log
	Runner          = "statelab.runner/1"         // what a runner says of itself
	EngineSpec      = "statelab.spec/1"           // what a runner of engines is asked
	TreeSpec        = "statelab.replayspec/1"     // what a runner of trees is asked
	LayoutSpec      = "statelab.layoutspec/1"     // what a runner of layouts is asked
)

package experiment

import (
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// field is a setting of an experiment: its place in the file, its flag, the verbs
// that take it and what it means there.
type field struct {
	key    string // in the file: section.name
	flag   string // of the verbs; "" where a verb takes it as an argument
	of     string // verbs, separated by spaces
	value  string // default; a verb's own default follows its name: "1 load=4"
	about  string // (list) follows for verbs in lists
	lists  string // verbs in which several values are an axis; the others take one
	target any    // pointer to its value in the experiment
}

const (
	onEngine = "load read sweep"
	onReads  = "read sweep"
	measured = "load read sweep replay layouts price"
	onStates = "layouts price"
	// onCluster can run on other machines.
	onCluster = "read sweep replay layouts"
)

// fields of e in the order of files and help.
func fields(e *Experiment) []field {
	return []field{
		{"name", "name", Sweep, "", "label in charts (default: the name of the output folder)", "", &e.Name},
		{"where", "on", measured, Here, "where to run: local is this machine; slurm or slurm:PARTITION, a node of a cluster for each run", "", &e.Where},
		{"cluster.constraint", "constraint", onCluster, "", "hardware class: a feature of the cluster's nodes, or several joined by &", Sweep, &e.Constraint},
		{"cluster.databases", "db-at", onReads, "", "nodes that hold the database: NODE, or NODE=DIR where it has another path there", "read sweep", &e.DBAt},
		{"cluster.scratch", "scratch", onCluster, "/tmp", "folder on the nodes' own disks, for the databases that points load", "", &e.Scratch},
		{"cluster.submit", "sbatch", onCluster, "", "further arguments of sbatch, such as --sbatch=--account=research (separated by commas)", onCluster, &e.Submit},

		{"subject.engine", "engine", onEngine, "", "engine: statelab engines (default: the database's own, pebble1 for a new one)", Sweep, &e.Engine},
		{"subject.tree", "tree", Replay, "", "trees, TREE or TREE:PROFILE", Replay, &e.Tree},
		{"subject.layout", "layout", onStates, "all", "layouts, LAYOUT or LAYOUT:PROFILE; all: every one that is installed", onStates, &e.Layout},
		{"subject.profile", "profile", onEngine, "", "set of engine options: statelab engines (default: the database's own, else the engine's first)", Sweep,
			&e.Profile},
		{"subject.cache", "cache", onEngine, "", "block cache: 64MiB, or 0.1% of the database (default: the profile's)", Sweep, &e.Cache},
		{"subject.memory", "memory", "read sweep replay layouts price", " replay=0 layouts=64MiB price=64MiB",
			"memory budget of one process, page cache included, such as 512MiB (default or 0: the profile's, without a limit)", Sweep, &e.Memory},
		{"subject.handles", "handles", onEngine, "", "open files the engine may keep (default: the profile's)", Sweep, &e.Handles},
		{"subject.cache_nodes", "cache-nodes", Replay, "0", "nodes a tree may cache; 0: the profile's", "", &e.CacheNodes},
		{"subject.options", "set", measured, "", "set an option of the engine, tree or layout: --set Name=Value (repeatable; Name=A,B is an axis)", "",
			&e.Options},

		{"database.dir", "db", measured, "", "directory of the database; of replay and layouts: folder for the files they make (default: in --out)", "", &e.DB},
		{"database.use_existing", "use-existing", onReads, "", "read a database that statelab did not load (a node's chaindata); it is never written", "",
			&e.Existing},
		{"database.ignore_lock", "ignore-lock", onReads, "", "read although another process holds the database", "", &e.IgnoreLock},
		{"database.table", "table", onReads, "",
			"table of a database that has several by name (rocksdb, mdbx, lmdb; statelab inspect lists them), or a mix: a=70,b=30", "", &e.Table},
		{"database.read_only", "read-only", onReads, "", "open read-only; by default a database is opened as a node opens it, with its write buffers", "",
			&e.ReadOnly},
		{"database.keep", "keep", onStates, "", "leave the states' files", "", &e.Keep},
		{"database.discard", "discard", Replay, "", "remove a tree's files when its run has succeeded", "", &e.Discard},

		{"load.keys", "keys", "load sweep", "1M sweep=", "number of keys; in sweep: of a database made for the sweep, needed without --db", Sweep, &e.Keys},
		{"load.key_bytes", "key-bytes", "load sweep", "32", "bytes of a key", "", &e.KeyBytes},
		{"load.key_hash", "key-hash", "load sweep", "mix", "how keys are hashed: mix, or keccak256 as bench_kvdb does", "", &e.KeyHash},
		{"load.value_bytes", "value-bytes", "load sweep", "110", "bytes of a value", "", &e.ValueBytes},
		{"load.value_model", "value-model", "load sweep", "random", "what values look like: random, table32, trie-node", "", &e.ValueModel},

		{"load.age", "age", "load sweep", "none",
			"then overwrite: none, steady (until level sizes and write amplification stop changing), or a number of rounds of a quarter of the keys", Sweep,
			&e.Age},

		{"workload.name", "workload", onEngine, "readrandom load=fillrandom", "what to do: statelab workloads", "", &e.Workload},
		{"workload.gets", "gets", "read sweep replay", "500k replay=0", "measured Gets; of replay: after the last version, half of them of absent keys", "",
			&e.Gets},
		{"workload.warmup", "warmup", onReads, "auto", "Gets before: auto (until the reads per Get stop changing), a count, or 0.05% of the keys", "",
			&e.Warmup},
		{"workload.missing", "missing", onReads, "0%", "share of Gets that ask for absent keys", "", &e.Missing},
		{"workload.zipf", "zipf", onReads, "0", "exponent of key popularity; 0 is uniform, 0.99 as YCSB", "", &e.Zipf},
		{"workload.rate", "rate", onReads, "0", "Gets per second to issue, whether answered or not (open loop); 0: as fast as they are answered", Sweep,
			&e.Rate},
		{"workload.threads", "threads", onEngine, "1 load=4", "Gets or loading threads at the same time", Sweep, &e.Threads},
		{"workload.batch_gets", "batch-gets", onReads, "16", "keys of a batch of multireadrandom", Sweep, &e.BatchGets},
		{"workload.batch_order", "batch-order", onReads, "random", "keys of a batch of multireadrandom: random, or sorted in ascending order", Sweep,
			&e.BatchOrder},
		{"workload.in_flight", "in-flight", onReads, "0",
			"Gets of a batch at the same time, in as many goroutines; 0: the engine's own call for many keys if it has one, else one", Sweep, &e.InFlight},
		{"workload.procs", "procs", onReads, "0", "processors of Go's scheduler (GOMAXPROCS) while measuring; 0: as many as Gets at the same time", Sweep,
			&e.Procs},
		{"workload.writers", "writers", onReads, "1", "writing threads of readwhilewriting", "", &e.Writers},
		{"workload.write_rate", "write-rate", onReads, "10k", "keys per second that readwhilewriting writes; 0: as fast as possible", "", &e.WriteRate},
		{"workload.puts", "puts", onReads, "1M", "updates of overwrite", "", &e.Puts},
		{"workload.batch", "batch", onEngine, "1000", "keys of a write batch", "", &e.Batch},
		{"workload.page_cache", "page-cache", onReads, "asis", "page cache: asis, direct (O_DIRECT), cold (dropped and checked), warm", Sweep, &e.PageCache},
		{"workload.access_gets", "access-gets", onReads, "20k",
			"measured Gets replayed without a cache to learn accesses and hit rates by type; 0: none", "", &e.AccessGets},
		{"workload.accesses", "accesses", onReads, "", "access list to play on a client's database (--use-existing), instead of random keys", "", &e.Accesses},
		{"workload.key_scheme", "scheme", onReads, "flat", "keys of the client that --accesses asks for: flat (geth's snapshot), path or hash (its tries)", "",
			&e.KeyScheme},
		{"workload.sample_keys", "sample-keys", onReads, "200k", "keys to sample from a database that statelab did not load", "", &e.SampleKeys},

		{"changes.path", "changes", Replay, "", "the change set: a file or a directory", "", &e.Changes},
		{"changes.versions", "versions", Replay, "0", "versions to apply, from the set's first; 0: all", "", &e.Versions},
		{"changes.stores", "stores", Replay, "", "stores to replay, separated by commas (default: all)", "", &e.Stores},
		{"changes.commit_limit", "commit-limit", Replay, "60s", "a call of a tree that takes longer is a failure; 0: never", "", &e.CommitLimit},
		{"changes.roots_every", "roots-every", Replay, "0", "versions between stored roots; 0: at most 10,000 are stored", "", &e.RootsEvery},

		{"state.accounts", "accounts", onStates, "10k,100k", "sizes", onStates, &e.Accounts},
		{"state.contracts", "contracts", onStates, "10% price=0%", "share of the accounts that have storage", "", &e.Contracts},
		{"state.slots", "slots", onStates, "16 price=0", "storage slots of each of those", "", &e.Slots},
		{"state.contract_slots", "contract-slots", onStates, "0 price=10k",
			"slots of one contract beside the accounts; slots are then looked up and changed in it alone", Price, &e.ContractSlots},
		{"state.block", "block", onStates, "5k", "accounts that a block of the build makes", "", &e.Block},
		{"state.updates", "updates", onStates, "500", "accounts that a measured block changes", "", &e.Updates},
		{"state.update_blocks", "update-blocks", onStates, "20", "measured blocks; 0: none", "", &e.UpdateBlocks},
		{"state.accesses", "accesses", Layouts, "", "access list to play as well: a file of statelab accesses; --accounts 0 builds its state alone", "",
			&e.Accesses},
		{"state.reads", "reads", onStates, "20k", "lookups of each kind", "", &e.Lookup},
		{"state.first", "first", onStates, "0", "lookups of each kind that are each the first of a state just opened; 0: a hundredth of --reads, 5 to 50", "",
			&e.First},

		{"state.at", "at", Layouts, "", "which layout is best with so many accounts: predicted, not built, such as 10M,1B", Layouts, &e.Ahead},
		{"state.at_memory", "at-memory", Layouts, "", "with --at: memory of that machine for the state, such as 4GiB", Layouts, &e.AheadMemory},

		{"disk.dir", "", Disk, ".", "", "", &e.Dir},
		{"disk.in_flight", "in-flight", Disk, "1,2,4,8,16,32,64", "reads in flight", Disk, &e.InFlight},
		{"disk.seconds", "seconds", Disk, "1", "duration of one reading, in seconds", "", &e.Seconds},
		{"disk.with", "with", Disk, "", "fio: fail where fio is not installed; none: do not run it", "", &e.With},
		{"disk.ceiling", "disk", Sweep, "auto",
			"the disk's own limit, drawn in the report: a folder of statelab disk --out, none, or auto: a short probe with --page-cache direct or cold", "",
			&e.Ceiling},

		{"price.from", "from", Price, "", "folders of layouts --contract-slots to price, instead of building states", Price, &e.From},
		{"price.at", "at", Price, "1M,300M", "accounts of states that are predicted where they were not built", Price, &e.At},
		{"price.contract_at", "contract-at", Price, "10k,100M", "slots of their one contract; 100M are about 10 GB", Price, &e.ContractAt},
		{"price.hardware", "hardware", Price, "here",
			"disks: here (a probe of this one), a folder of statelab disk --out, a profile (docs/methods/prices.md), or fio's JSON output", Price, &e.Hardware},
		{"price.gas_per_second", "gas-per-second", Price, "100M", "gas that a second buys", "", &e.GasPerSecond},

		{"repeats", "repeats", "read sweep replay layouts disk price", "1 disk=3",
			"runs of each point, interleaved; of price: builds of each state, with other accounts", "", &e.Repeats},
		{"seed", "seed", measured, "1", "seed of all random choices", "", &e.Seed},
	}
}

// taken are the fields of e's verb.
func (e *Experiment) taken() []field {
	return slices.DeleteFunc(fields(e), func(f field) bool { return !f.takes(e.Measure) })
}

func (f field) takes(verb string) bool { return slices.Contains(strings.Fields(f.of), verb) }

func (f field) isList(verb string) bool { return slices.Contains(strings.Fields(f.lists), verb) }

// fallback is the default for a verb.
func (f field) fallback(verb string) string {
	common, own, _ := strings.Cut(f.value, " ")
	for _, word := range strings.Fields(own) {
		if name, value, _ := strings.Cut(word, "="); name == verb {
			return value
		}
	}
	return common
}

// New is an experiment with a verb's defaults.
func New(verb string) *Experiment {
	e := &Experiment{Measure: verb}
	for _, f := range e.taken() {
		switch to := f.target.(type) {
		case *string:
			*to = f.fallback(verb)
		case *List:
			*to = List(f.fallback(verb))
		}
	}
	return e
}

// Flags are the flags that set e's fields.
func (e *Experiment) Flags(into *pflag.FlagSet) {
	for _, f := range e.taken() {
		if f.flag == "" {
			continue
		}
		about := f.about
		if f.isList(e.Measure) {
			about += " (list)"
		}
		switch to := f.target.(type) {
		case *string:
			into.StringVar(to, f.flag, *to, about)
		case *List:
			into.StringVar((*string)(to), f.flag, string(*to), about)
		case *bool:
			into.BoolVar(to, f.flag, false, about)
		case *[]string:
			into.StringArrayVar(to, f.flag, nil, about)
		}
	}
}

// IsFlag reports whether a flag sets a field of e.
func (e *Experiment) IsFlag(name string) bool {
	return slices.ContainsFunc(e.taken(), func(f field) bool { return f.flag == name })
}

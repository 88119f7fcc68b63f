package experiment

import (
	"cmp"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/statelab/statelab/internal/subject"
)

// field is a setting of an experiment: its place in the file, its flag, the verbs
// that take it and what it means there.
type field struct {
	key    string // in the file: section.name
	flag   string // of the verbs; "" where a verb takes it as an argument
	of     string // verbs, separated by spaces
	value  string // default; a verb's own default follows its name: "1 load=4"
	about  string // (comma-separated) follows for verbs in lists
	lists  string // verbs in which several values are an axis; the others take one
	target any    // pointer to its value in the experiment
}

const (
	onEngine = "load sweep"
	onReads  = Sweep
	measured = "load sweep replay layouts price"
	onStates = "layouts price"
	// onCluster can run on other machines.
	onCluster = "sweep replay layouts"
)

// fields of e in the order of files and help.
func fields(e *Experiment) []field {
	return []field{
		{"name", "name", Sweep, "", "label in charts (default: the name of the output folder)", "", &e.Name},
		{"where", "on", measured, Here, "where to run: local is this machine; slurm or slurm:PARTITION, a node of a cluster for each run", "", &e.Where},
		{"cluster.constraint", "constraint", onCluster, "", "hardware class: a feature of the cluster's nodes, or several joined by &", Sweep, &e.Constraint},
		{"cluster.databases", "db-at", onReads, "", "nodes that hold the database: NODE, or NODE=DIR where it has another path there", Sweep, &e.DBAt},
		{"cluster.scratch", "scratch", onCluster, "/tmp", "folder on the nodes' own disks for databases that are loaded there", "", &e.Scratch},
		{"cluster.submit", "sbatch", onCluster, "", "further arguments of sbatch, such as --sbatch=--account=research", onCluster, &e.Submit},

		{"subject.engine", "engine", onEngine, "",
			"engine; statelab engines lists them (default: the database's own, " + subject.Engines()[0].Name + " for a new one)", Sweep,
			&e.Engine},
		{"subject.tree", "tree", Replay, "", "trees, TREE or TREE:PROFILE", Replay, &e.Tree},
		{"subject.layout", "layout", onStates, "all", "layouts, LAYOUT or LAYOUT:PROFILE; all: every one that is installed", onStates, &e.Layout},
		{"subject.profile", "profile", onEngine, "",
			"named set of engine options; statelab engines lists them (default: the database's own, else the engine's first)", Sweep,
			&e.Profile},
		{"subject.cache", "cache", onEngine, "", "size of the block cache: 64MiB, or 0.1% of the database (default: the profile's)", Sweep, &e.Cache},
		{"subject.memory", "memory", "sweep replay layouts price", " replay=0 layouts=64MiB price=64MiB",
			"memory budget of one process, page cache included, such as 512MiB (default or 0: the profile's, without a limit)", Sweep, &e.Memory},
		{"subject.handles", "handles", onEngine, "", "files that the engine may keep open (default: the profile's)", Sweep, &e.Handles},
		{"subject.cache_nodes", "cache-nodes", Replay, "0", "nodes that a tree may keep in its cache; 0: the profile's", "", &e.CacheNodes},
		{"subject.options", "set", measured, "", "set an option of the engine, tree or layout: --set Name=Value (repeatable; Name=A,B is an axis)", "",
			&e.Options},

		{"database.dir", "db", measured, "", "directory of the database", "", &e.DB},
		{"database.use_existing", "use-existing", onReads, "", "read a database that statelab did not load (a node's chaindata); it is never written", "",
			&e.Existing},
		{"database.ignore_lock", "ignore-lock", onReads, "", "read even if another process has the database open", "", &e.IgnoreLock},
		{"database.table", "table", onReads, "",
			"table of a database that has several by name (" + strings.Join(subject.WithTables(), ", ") + "), or kind of keys of a client's database " +
				"on Pebble or LevelDB; statelab inspect lists them; or a mix: a=70,b=30",
			"", &e.Table},
		{"database.read_only", "read-only", onReads, "", "open read-only; by default a database is opened as a node opens it, with its write buffers", "",
			&e.ReadOnly},
		{"database.keep", "keep", onStates, "", "keep the files of the states, which are deleted otherwise", "", &e.Keep},
		{"database.discard", "discard", Replay, "", "delete a tree's files when its run has succeeded", "", &e.Discard},

		{"load.keys", "keys", "load sweep", "1M sweep=", "number of keys", Sweep, &e.Keys},
		{"load.key_bytes", "key-bytes", "load sweep", "32", "size of a key in bytes", "", &e.KeyBytes},
		{"load.key_hash", "key-hash", "load sweep", "mix", "how keys are hashed: mix, or keccak256 as bench_kvdb does", "", &e.KeyHash},
		{"load.value_bytes", "value-bytes", "load sweep", "110", "size of a value in bytes", "", &e.ValueBytes},
		{"load.value_model", "value-model", "load sweep", "random", "what values look like: random, table32, trie-node", "", &e.ValueModel},

		{"load.age", "age", "load sweep", "none",
			"after the load, overwrite keys: none, steady (until level sizes and write amplification stop changing), or a number of rounds, each a quarter of the keys",
			Sweep,
			&e.Age},

		{"workload.name", "workload", onEngine, "readrandom load=fillrandom", "what to do; statelab engines --workloads lists them", "", &e.Workload},
		{"workload.gets", "gets", "sweep replay", "500k replay=0", "number of measured Gets", "",
			&e.Gets},
		{"workload.warmup", "warmup", onReads, "auto",
			"Gets before the measured ones: auto (until the reads per Get stop changing), a count, or a share of the keys such as 0.05%", "",
			&e.Warmup},
		{"workload.missing", "missing", onReads, "0%", "share of Gets that ask for absent keys", "", &e.Missing},
		{"workload.zipf", "zipf", onReads, "0", "Zipf exponent of key popularity: 0 is uniform, 0.99 is YCSB's", "", &e.Zipf},
		{"workload.rate", "rate", onReads, "0", "Gets per second to issue, whether answered or not (open loop); 0: as fast as they are answered", Sweep,
			&e.Rate},
		{"workload.threads", "threads", onEngine, "1 load=4", "threads that make Gets", Sweep, &e.Threads},
		{"workload.batch_gets", "batch-gets", onReads, "16", "workload multireadrandom: keys per batch", Sweep, &e.BatchGets},
		{"workload.batch_order", "batch-order", onReads, "random", "workload multireadrandom: order of the keys of a batch: random, or sorted (ascending)", Sweep,
			&e.BatchOrder},
		{"workload.in_flight", "in-flight", onReads, "0",
			"workload multireadrandom: Gets of a batch that run at the same time, each in a goroutine; 0: the engine's own multi-key call if it has one, else 1",
			Sweep, &e.InFlight},
		{"workload.procs", "procs", onReads, "0", "processors that Go may use (GOMAXPROCS) while measuring; 0: as many as Gets run at the same time", Sweep,
			&e.Procs},
		{"workload.writers", "writers", onReads, "1", "workload readwhilewriting: writing threads", "", &e.Writers},
		{"workload.write_rate", "write-rate", onReads, "10k", "workload readwhilewriting: keys written per second; 0: as fast as possible", "", &e.WriteRate},
		{"workload.puts", "puts", onReads, "1M", "workload overwrite: number of updates", "", &e.Puts},
		{"workload.batch", "batch", onEngine, "1000", "keys per write batch", "", &e.Batch},
		{"workload.page_cache", "page-cache", onReads, "asis",
			"operating system's page cache: asis (left as it is), direct (bypassed with O_DIRECT), cold (dropped first, and checked), warm (filled first)",
			Sweep, &e.PageCache},
		{"workload.access_gets", "access-gets", onReads, "20k",
			"measured Gets that are replayed without a cache to learn block accesses and hit rates by type; 0: none", "", &e.AccessGets},
		{"workload.accesses", "accesses", onReads, "", "access list to play on a client's database (--use-existing), instead of random keys", "", &e.Accesses},
		{"workload.key_scheme", "scheme", onReads, "flat", "with --accesses: keys that the client uses: flat (geth's snapshot), path or hash (its tries)", "",
			&e.KeyScheme},
		{"workload.sample_keys", "sample-keys", onReads, "200k", "keys to sample from a database that statelab did not load", "", &e.SampleKeys},

		{"changes.path", "changes", Replay, "", "the change set: a file or a directory", "", &e.Changes},
		{"changes.versions", "versions", Replay, "0", "number of versions to apply, from the first of the change set; 0: all", "", &e.Versions},
		{"changes.stores", "stores", Replay, "", "stores to replay (default: all)", "", &e.Stores},
		{"changes.commit_limit", "commit-limit", Replay, "60s", "longest time for one call of a tree, beyond which its run fails; 0: no limit", "", &e.CommitLimit},
		{"changes.roots_every", "roots-every", Replay, "0", "store a root every so many versions; 0: at most 10,000 roots", "", &e.RootsEvery},

		{"state.accounts", "accounts", onStates, "10k,100k", "numbers of accounts to build", onStates, &e.Accounts},
		{"state.contracts", "contracts", onStates, "10% price=0%", "share of the accounts that have storage", "", &e.Contracts},
		{"state.slots", "slots", onStates, "16 price=0", "storage slots of each account that has storage", "", &e.Slots},
		{"state.contract_slots", "contract-slots", onStates, "0 price=10k",
			"storage slots of one large contract; if there is one, slots are looked up and changed in it alone", Price, &e.ContractSlots},
		{"state.block", "block", onStates, "5k", "accounts per block while the state is built", "", &e.Block},
		{"state.updates", "updates", onStates, "500", "accounts that each measured block changes", "", &e.Updates},
		{"state.update_blocks", "update-blocks", onStates, "20", "number of measured blocks; 0: none", "", &e.UpdateBlocks},
		{"state.accesses", "accesses", Layouts, "", "access list to play as well: a file of statelab accesses; --accounts 0 builds its state alone", "",
			&e.Accesses},
		{"state.reads", "reads", onStates, "20k", "number of lookups of each kind", "", &e.Lookup},
		{"state.first", "first", onStates, "0", "cold lookups of each kind, each right after the state was opened; 0: 1% of --reads, from 5 to 50", "",
			&e.First},

		{"state.at", "at", Layouts, "", "numbers of accounts, such as 10M,1B, for which to predict which layout is best, without building them", Layouts, &e.Ahead},
		{"state.at_memory", "at-memory", Layouts, "", "with --at: memory for the state on that machine, such as 4GiB", Layouts, &e.AheadMemory},

		{"disk.dir", "", Disk, ".", "", "", &e.Dir},
		{"disk.in_flight", "in-flight", Disk, "1,2,4,8,16,32,64", "reads in flight", Disk, &e.InFlight},
		{"disk.seconds", "seconds", Disk, "1", "duration of one reading, in seconds", "", &e.Seconds},
		{"disk.with", "with", Disk, "", "fio: fail where fio is not installed; none: do not run it", "", &e.With},
		{"disk.ceiling", "disk", Sweep, "auto",
			"the disk's limit that the report draws: auto (a short probe if --page-cache is direct or cold), none, or a folder of statelab disk --out", "",
			&e.Ceiling},

		{"price.from", "from", Price, "", "price the results of these folders of statelab layouts --contract-slots, instead of building states", Price, &e.From},
		{"price.at", "at", Price, "1M,300M", "numbers of accounts to price; sizes that were not built are predicted", Price, &e.At},
		{"price.contract_at", "contract-at", Price, "10k,100M",
			"with --at: slots of the large contract at each of those sizes; 100M slots are about 10 GB", Price, &e.ContractAt},
		{"price.hardware", "hardware", Price, "here",
			"disks: here (a probe of this one), a folder of statelab disk --out, a profile (docs/prices.md), or fio's JSON output", Price, &e.Hardware},
		{"price.gas_per_second", "gas-per-second", Price, "100M", "gas that one second of execution is worth", "", &e.GasPerSecond},

		{"repeats", "repeats", "sweep replay layouts disk price", "1 disk=3",
			"runs of each point, which take turns", "", &e.Repeats},
		{"seed", "seed", measured, "1", "seed of all random choices", "", &e.Seed},
	}
}

// in is what a flag means to a verb to which it means something of its own.
func (f field) in(verb string) string {
	own := map[string]string{
		"db replay": "folder for the files of the trees (default: in --out)", "db layouts": "folder for the files of the states (default: in --out)",
		"db price": "folder for the files of the states (default: in --out)", "gets replay": "Gets after the last version, half of them of absent keys",
		"keys sweep": "number of keys of the databases to load, where no --db is given", "threads load": "threads that write",
		"in-flight disk": "numbers of reads in flight", "repeats price": "builds of each state, with other accounts",
		"batch sweep": "workloads overwrite and readwhilewriting: keys per write batch",
	}
	return cmp.Or(own[f.flag+" "+verb], f.about)
}

// taken are the fields of e's verb.
func (e *Experiment) taken() []field {
	return slices.DeleteFunc(fields(e), func(f field) bool { return !f.takes(e.Measure) })
}

func (f field) takes(verb string) bool { return slices.Contains(strings.Fields(f.of), verb) }

func (f field) isList(verb string) bool { return slices.Contains(strings.Fields(f.lists), verb) }

// Lists are the flags that have several values although e's verb takes one.
func (e *Experiment) Lists() (flags []string) {
	for _, f := range e.taken() {
		if list, is := f.target.(*List); is && list.Several() && !f.isList(e.Measure) {
			flags = append(flags, f.flag)
		}
	}
	return flags
}

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

// Section annotates a flag with the section of its field in a file; Run are those of none.
const (
	Section = "section"
	Run     = "run"
)

// Flags are the flags that set e's fields, each with its Section.
func (e *Experiment) Flags(into *pflag.FlagSet) {
	for _, f := range e.taken() {
		if f.flag == "" {
			continue
		}
		about := f.in(e.Measure)
		if f.isList(e.Measure) {
			about += " (comma-separated)"
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
		section, _, found := strings.Cut(f.key, ".")
		if !found {
			section = Run
		}
		into.Lookup(f.flag).Annotations = map[string][]string{Section: {section}}
	}
}

// IsFlag reports whether a flag sets a field of e.
func (e *Experiment) IsFlag(name string) bool {
	return slices.ContainsFunc(e.taken(), func(f field) bool { return f.flag == name })
}

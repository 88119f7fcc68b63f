package experiment

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/statelab/statelab/internal/base/keyspace"
	"github.com/statelab/statelab/internal/base/schema"
	"github.com/statelab/statelab/internal/base/setting"
	"github.com/statelab/statelab/internal/base/workload"
	"github.com/statelab/statelab/internal/chain/accesses"
	"github.com/statelab/statelab/internal/run/bench"
	"github.com/statelab/statelab/internal/subject"
)

// Field is a setting of an experiment: its place in the file, its flag, its default and what it
// means. A verb without a flag for it takes it as an argument.
type Field struct {
	Key, Flag string
	Dest      setting.Setting
	Value     string
	About     string
}

// Orders of the keys in a batch of Gets.
const (
	RandomOrder = "random"
	SortedOrder = "sorted"
)

// Kinds of settings that a subject alone has.
var (
	named = setting.Kind[Named]{Name: "engine", Parse: parseNamed}
	age   = setting.Kind[string]{Parse: func(text string) (string, error) {
		_, _, err := bench.AgeRounds(text)
		return text, err
	}}
	atOnce    = setting.Int(0, 4096, "8") // far beyond what any device answers at once
	repeats   = setting.Count(1, "3")
	anyCount  = setting.Count(0, "")
	valueSize = setting.Whole(0, 64<<20, "110")
)

// earlierFlags are the spellings that flags had in version 0.2.0, which stay valid.
var earlierFlags = map[string]string{
	"max-open-files":     "handles",
	"gomaxprocs":         "procs",
	"accounts-per-block": "block",
	"cold-lookups":       "first",
	"predict-accounts":   "at",
	"predict-memory":     "at-memory",
	"fio":                "with",
}

// Fields are the settings of e in the order of files and help.
func (e *Experiment) Fields() []Field { return e.Subject.fields(e) }

func (e *Experiment) where() Field {
	return Field{"where", "on", setting.One(&e.Where, setting.TargetKind), Here,
		"where to run: local is this machine; slurm or slurm:PARTITION, a node of a cluster for " +
			"each run"}
}

// cluster are the settings of a verb whose runs nodes can carry out.
func (e *Experiment) cluster(constraint *Text, with ...Field) []Field {
	fields := append([]Field{e.where(), {"cluster.constraint", "constraint", constraint, "",
		"hardware class: a feature of the cluster's nodes, or several joined by &"}}, with...)
	return append(fields,
		Field{"cluster.scratch", "scratch", setting.One(&e.Scratch, setting.Text), "/tmp",
			"folder on the nodes' own disks for databases that are loaded there"},
		Field{"cluster.submit", "sbatch", setting.Axis(&e.Submit, setting.Text), "",
			"further arguments of sbatch, such as --sbatch=--account=research"})
}

func (e *Experiment) options() Field {
	return Field{"subject.options", "set", &e.Options, "",
		"set an option of the engine, tree or layout: --set Name=Value (repeatable; Name=A,B is " +
			"an axis)"}
}

func (e *Experiment) dir(about string) Field {
	return Field{"database.dir", "db", setting.One(&e.DB, setting.Text), "", about}
}

func (e *Experiment) repeats(value, about string) Field {
	return Field{"repeats", "repeats", setting.One(&e.Repeats, repeats), value, about}
}

const turns = "runs per point, interleaved across points"

func (e *Experiment) seed() Field {
	return Field{"seed", "seed", setting.One(&e.Seed, setting.Seed), "1",
		"seed of all random choices"}
}

// declare is setting.Axis or setting.One.
func declare[T any](axis bool, v *setting.Value[T], kind setting.Kind[T]) setting.Setting {
	if axis {
		return setting.Axis(v, kind)
	}
	return setting.One(v, kind)
}

func (o *EngineOptions) fields(axes bool, memory ...Field) []Field {
	return slices.Concat([]Field{
		{"subject.engine", "engine", declare(axes, &o.Engine, named), "",
			"engine; statelab engines lists them (default: the database's own, " +
				subject.DefaultEngine() + " for a new one)"},
		{"subject.profile", "profile", declare(axes, &o.Profile, setting.Text), "",
			"named set of engine options; statelab engines lists them (default: the database's " +
				"own, else the engine's first)"},
		{"subject.cache", "cache", declare(axes, &o.Cache, setting.Cache), "",
			"size of the block cache: 64MiB, or 0.1% of the database (default: the profile's)"},
	}, memory, []Field{
		{"subject.handles", "max-open-files",
			declare(axes, &o.Handles, setting.Count(1, "1000")), "",
			"open-file limit of the engine (default: the profile's)"},
	})
}

func (m *DatasetOptions) fields(axes bool, keys, about string) []Field {
	return []Field{
		{"load.keys", "keys", declare(axes, &m.Keys, setting.Count(1, "5M")), keys, about},
		{"load.key_bytes", "key-bytes", setting.One(&m.KeyBytes, setting.Whole(8, 1024, "32")),
			strconv.Itoa(keyspace.DefaultKeyBytes), "size of a key in bytes"},
		{"load.key_hash", "key-hash",
			setting.One(&m.KeyHash, setting.Choice(keyspace.Mix, keyspace.Keccak256)), "mix",
			"how keys are hashed: mix, or keccak256 as bench_kvdb does"},
		{"load.value_bytes", "value-bytes", setting.One(&m.ValueBytes, valueSize),
			strconv.Itoa(keyspace.DefaultValueBytes), "size of a value in bytes"},
		{"load.value_model", "value-model",
			setting.One(&m.ValueModel,
				setting.Choice(keyspace.Random, keyspace.Table32, keyspace.TrieNode)), "random",
			"content of values, which decides how they compress: random, table32, trie-node"},
		{"load.age", "age", declare(axes, &m.Age, age), "none",
			"precondition by overwriting random keys after the load: none, steady (until level " +
				"sizes and write amplification stop changing), or a number of rounds, each a " +
				"quarter of the keys"},
	}
}

func (m *DatasetOptions) workload(verb, value string) Field {
	return Field{"workload.name", "workload",
		setting.One(&m.Workload, setting.Choice(workload.Names(verb)...)), value,
		"what to do; statelab engines --workloads lists them"}
}

func (m *DatasetOptions) batch(about string) Field {
	return Field{"workload.batch", "batch", setting.One(&m.Batch, setting.Count(1, "1000")),
		"1000", about}
}

func (s *LoadConfig) fields(e *Experiment) []Field {
	return slices.Concat([]Field{e.where()}, s.EngineOptions.fields(false), []Field{
		e.options(),
		e.dir("directory of the database"),
	}, s.DatasetOptions.fields(false, "1M", "number of keys"), []Field{
		s.workload("load", workload.FillRandom),
		{"workload.threads", "threads", setting.One(&s.Threads, setting.Threads), "4",
			"threads that write"},
		s.batch("keys per write batch"),
		e.seed(),
	})
}

func (s *SweepConfig) fields(e *Experiment) []Field {
	return slices.Concat(
		[]Field{
			{"name", "name", setting.One(&e.Name, setting.Text), "",
				"label in charts (default: the name of the output folder)"},
		},
		e.cluster(setting.Axis(&e.Constraint, setting.Text), Field{"cluster.databases", "db-at",
			declare(!e.OnePoint, &e.DBAt, setting.Text), "",
			"nodes that hold the database: NODE, or NODE=DIR where it has another path there"}),
		s.EngineOptions.fields(!e.OnePoint,
			Field{"subject.simulate", "simulate",
				declare(!e.OnePoint, &s.Simulated, setting.Cache), "",
				"further sizes of the block cache, whose block reads are simulated from one " +
					"trace of the same Gets: a list of any length costs little more than one size"},
			Field{"subject.memory", "memory", declare(!e.OnePoint, &s.Memory, setting.Memory), "",
				"equal memory for all engines, caches and page cache together, instead of " +
					"--cache (default: no limit)"}),
		[]Field{
			e.options(),
			e.dir("directory of the database"),
			{"database.use_existing", "use-existing", setting.One(&s.Existing, setting.Bool), "",
				"read a database that statelab did not load (a node's chaindata); it is never " +
					"written"},
			{"database.ignore_lock", "ignore-lock", setting.One(&s.IgnoreLock, setting.Bool), "",
				"read even if another process has the database open"},
			{"database.table", "table", setting.One(&s.Table, setting.Text), "",
				"table of a database that has several by name (" +
					strings.Join(subject.WithTables(), ", ") +
					"), or kind of keys of a client's database " +
					"on Pebble or LevelDB; statelab inspect lists them; or a mix: a=70,b=30"},
			{"database.read_only", "read-only", setting.One(&s.ReadOnly, setting.Bool), "",
				"open read-only a database that statelab loaded; by default it is opened as a " +
					"node opens it, with its write buffers"},
		},
		s.DatasetOptions.fields(!e.OnePoint, "", "number of keys of the databases to load, where "+
			"no --db is given"),
		[]Field{
			{"load.workload", "load-workload",
				setting.One(&s.LoadWorkload, setting.Choice(workload.Names("load")...)),
				workload.FillRandom, "how the databases are loaded: fillsorted leaves the same " +
					"levels in a tenth of the time (Pebble)"},
			s.workload("sweep", workload.ReadRandom),
			{"workload.gets", "gets", setting.One(&s.Gets, setting.Count(1, "500k")), "500k",
				"number of measured Gets"},
			{"workload.warmup", "warmup", setting.One(&s.Warmup, setting.WarmupKind), "auto",
				"Gets before the measured ones: auto (until the reads per Get stop changing), a " +
					"count, or a share of the keys such as 0.05%"},
			{"workload.missing", "missing", declare(!e.OnePoint, &s.Missing, setting.Share), "0%",
				"share of negative lookups: Gets of missing keys"},
			{"workload.zipf", "zipf", declare(!e.OnePoint, &s.Zipf, setting.Number), "0",
				"Zipf exponent of key popularity: 0 is uniform, 0.99 is YCSB's"},
			{"workload.rate", "rate", declare(!e.OnePoint, &s.Rate, setting.Rate), "0",
				"constant arrival rate in Gets per second (open loop): response times count from " +
					"the intended start, and at most --threads Gets are outstanding; 0: each Get " +
					"follows the one before (closed loop)"},
			{"workload.threads", "threads", declare(!e.OnePoint, &s.Threads, setting.Threads), "1",
				"threads that make Gets"},
			{"workload.batch_gets", "batch-gets",
				declare(!e.OnePoint, &s.BatchGets, setting.Count(1, "16")), "16",
				"workload multireadrandom: keys per batch"},
			{"workload.batch_order", "batch-order",
				declare(!e.OnePoint, &s.BatchOrder, setting.Choice(RandomOrder, SortedOrder)),
				RandomOrder,
				"workload multireadrandom: order of the keys of a batch: random, or sorted " +
					"(ascending)"},
			{"workload.in_flight", "in-flight", declare(!e.OnePoint, &s.InFlight, atOnce), "0",
				"workload multireadrandom: Gets of a batch that run at the same time, each in a " +
					"goroutine; 0: the engine's own multi-key call if it has one, else 1"},
			{"workload.procs", "gomaxprocs", declare(!e.OnePoint, &s.Procs, atOnce), "0",
				"GOMAXPROCS during measurement; 0: as many as Gets run at the same time"},
			{"workload.writers", "writers", setting.One(&s.Writers, setting.Count(1, "1")), "1",
				"workload readwhilewriting: writing threads"},
			{"workload.write_rate", "write-rate", setting.One(&s.WriteRate, setting.Rate), "10k",
				"workload readwhilewriting: keys written per second; 0: as fast as possible"},
			{"workload.puts", "puts", setting.One(&s.Puts, setting.Count(1, "1M")), "1M",
				"workload overwrite: number of updates"},
			s.batch("workloads overwrite and readwhilewriting: keys per write batch"),
			{"workload.page_cache", "page-cache",
				declare(!e.OnePoint, &s.PageCache, setting.Choice(bench.PageCacheModes()...)),
				bench.AsIs,
				"operating system's page cache: asis (left as it is), direct (bypassed with " +
					"O_DIRECT), cold (dropped first, and checked), warm (filled first)"},
			{"workload.access_gets", "access-gets", setting.One(&s.AccessGets, anyCount), "20k",
				"measured Gets to replay without a cache, for block accesses and hit rates by " +
					"type; 0: none"},
			{"workload.accesses", "accesses", setting.One(&s.Accesses, setting.Text), "",
				"access list to play on a client's database (--use-existing), instead of random " +
					"keys"},
			{"workload.key_scheme", "scheme",
				setting.One(&s.KeyScheme, setting.Choice(accesses.KeySchemes()...)), "flat",
				"with --accesses: keys that the client uses: flat (geth's snapshot), path or " +
					"hash (its tries)"},
			{"workload.sample_keys", "sample-keys",
				setting.One(&s.SampleKeys, setting.Count(1, "200k")), "200k",
				"keys to sample from a database that statelab did not load"},
			{"loads", "loads", setting.One(&s.Loads, setting.Count(1, "5")), "",
				"databases to load for each point, from different seeds: one load is one " +
					"observation of an engine; --repeats counts runs on each (default: 1)"},
			{"disk.ceiling", "disk", setting.One(&s.Ceiling, setting.Text), "auto",
				"the disk's limit that the report draws: auto (a short probe if --page-cache is " +
					"direct or cold), none, or a folder of statelab disk --out"},
			e.repeats("1", turns),
			e.seed(),
		},
	)
}

func (s *ReplayConfig) fields(e *Experiment) []Field {
	return append(e.cluster(setting.One(&e.Constraint, setting.Text)),
		Field{"subject.tree", "tree", setting.Axis(&s.Tree, setting.Text), "",
			"trees to compare, TREE or TREE:PROFILE; statelab engines lists them"},
		Field{"subject.memory", "memory",
			setting.One(&s.Memory, setting.Size("size", 0, "64MiB, 1.5GiB")), "0",
			"memory budget of one process, page cache included, such as 512MiB (0: no limit, and " +
				"the profile's caches)"},
		Field{"subject.cache_nodes", "cache-nodes", setting.One(&s.CacheNodes, anyCount), "0",
			"nodes that a tree may keep in its cache; 0: the profile's"},
		e.options(),
		e.dir("folder for the files of the trees (default: in --out)"),
		Field{"database.discard", "discard", setting.One(&s.Discard, setting.Bool), "",
			"delete a tree's files when its run has succeeded"},
		Field{"workload.gets", "gets", setting.One(&s.Gets, anyCount), "0",
			"Gets after the last version, half of them negative lookups"},
		Field{"changes.path", "changes", setting.One(&s.Changes, setting.Text), "",
			"the change set: a file or a directory"},
		Field{"changes.versions", "versions", setting.One(&s.Versions, anyCount), "0",
			"number of versions to apply, from the first of the change set; 0: all"},
		Field{"changes.stores", "stores", setting.Axis(&s.Stores, setting.Text), "",
			"stores to replay (default: all)"},
		Field{"changes.commit_limit", "commit-limit",
			setting.One(&s.CommitLimit, setting.Duration("60s")), "60s",
			"longest time for one call of a tree, beyond which its run fails; 0: no limit"},
		Field{"changes.roots_every", "roots-every", setting.One(&s.RootsEvery, anyCount), "0",
			"store a root every so many versions; 0: at most 10,000 roots"},
		e.repeats("1", turns), e.seed())
}

// states are the settings that layouts and price share; the defaults of price are others.
func (s *LayoutConfig) states(e *Experiment, contracts, slots string, contractSlots Field) []Field {
	return []Field{
		{"subject.layout", "layout", setting.Axis(&s.Layout, setting.Text), "all",
			"layouts, LAYOUT or LAYOUT:PROFILE; all: every one that is installed"},
		{"subject.memory", "memory",
			setting.One(&s.Memory, setting.Size("size", 0, "64MiB, 1.5GiB")), "64MiB",
			"memory budget of one process, page cache included, such as 512MiB (0: no limit, and " +
				"the profile's caches)"},
		e.options(),
		e.dir("folder for the files of the states (default: in --out)"),
		{"database.keep", "keep", setting.One(&s.Keep, setting.Bool), "",
			"keep the files of the states, which are deleted otherwise"},
		{"state.accounts", "accounts", setting.Axis(&s.Accounts, anyCount), "10k,100k",
			"numbers of accounts to build"},
		{"state.contracts", "contracts", setting.One(&s.Contracts, setting.Share), contracts,
			"share of the accounts that have storage"},
		{"state.slots", "slots", setting.One(&s.Slots, anyCount), slots,
			"storage slots of each account that has storage"},
		contractSlots,
		{"state.code", "code", setting.One(&s.Code, anyCount), "0",
			"bytes of the code of each account that has storage; layouts that keep code in their " +
				"trie look its chunks up"},
		{"state.block", "accounts-per-block", setting.One(&s.Block, setting.Count(1, "5k")), "5k",
			"accounts per block while the state is built"},
		{"state.updates", "updates", setting.One(&s.Updates, anyCount), "500",
			"accounts that each measured block changes"},
		{"state.update_blocks", "update-blocks", setting.One(&s.UpdateBlocks, anyCount), "20",
			"number of measured blocks; 0: none"},
		{"state.reads", "reads", setting.One(&s.Lookup, setting.Count(1, "100k")), "20k",
			"number of lookups of each kind"},
		{"state.first", "cold-lookups", setting.One(&s.First, anyCount), "0",
			"cold lookups of each kind, each right after the state was opened; 0: 1% of --reads, " +
				"from 5 to 50"},
		{"state.accesses", "accesses", setting.One(&s.Accesses, setting.Text), "",
			"access list to play as well: a file of statelab accesses; --accounts 0 builds its " +
				"state alone"},
	}
}

const contractAbout = "storage slots of one large contract; if there is one, slots are looked up " +
	"and changed in it alone"

func (s *LayoutConfig) fields(e *Experiment) []Field {
	contract := Field{"state.contract_slots", "contract-slots",
		setting.One(&s.ContractSlots, anyCount), "0", contractAbout}
	return slices.Concat(e.cluster(setting.One(&e.Constraint, setting.Text)),
		s.states(e, "10%", "16", contract), []Field{
			{"state.at", "predict-accounts", setting.Axis(&s.Ahead, setting.Count(1, "50M")), "",
				"numbers of accounts, such as 10M,1B, for which to predict which layout is best, " +
					"without building them"},
			{"state.at_memory", "predict-memory",
				setting.Axis(&s.AheadMemory, setting.Size("memory", 0, "4GiB, 500MB")), "",
				"with --predict-accounts: memory for the state on that machine, such as 4GiB"},
			e.repeats("1", turns), e.seed(),
		})
}

func (s *DiskConfig) fields(e *Experiment) []Field {
	return []Field{
		{"disk.dir", "", setting.One(&s.Dir, setting.Text), ".", ""},
		{"disk.in_flight", "in-flight",
			setting.Axis(&s.InFlight, setting.Int(1, 1024, "--in-flight 1,4,16")),
			"1,2,4,8,16,32,64",
			"numbers of reads in flight"},
		{"disk.seconds", "seconds",
			setting.One(&s.Seconds, setting.Seconds(0.05, 3600, "--seconds 1")), "1",
			"duration of one reading, in seconds"},
		{"disk.with", "fio", setting.One(&s.With, setting.Text), "",
			"run fio beside statelab's own reads: required (fail where it is not installed) or " +
				"none (default: if it is installed)"},
		e.repeats("3", turns),
	}
}

func (s *PriceConfig) fields(e *Experiment) []Field {
	contract := Field{"state.contract_slots", "contract-slots",
		setting.Axis(&s.ContractSlots, setting.Count(1, "10k")), "10k", contractAbout}
	return slices.Concat([]Field{e.where()}, s.states(e, "0%", "0", contract), []Field{
		{"price.from", "from", setting.Axis(&s.From, setting.Text), "",
			"price the results of these folders of statelab layouts --contract-slots, all or " +
				"those of --layout, instead of building states"},
		{"price.at", "at", setting.Axis(&s.At, setting.Count(1, "300M")), "1M,300M",
			"numbers of accounts to price; sizes that were not built are predicted"},
		{"price.contract_at", "contract-at", setting.Axis(&s.ContractAt, setting.Count(1, "100M")),
			"",
			"with --at: slots of the large contract at each of those sizes; 100M slots are about " +
				"10 GB (default: 10k,100M without --slots-at)"},
		{"price.slots_at", "slots-at", setting.Axis(&s.SlotsAt, setting.Count(1, "3G")), "",
			"with --at: slots of all contracts together, whose sizes are divided as on the main " +
				"network"},
		{"price.at_memory", "at-memory",
			setting.Axis(&s.AtMemory, setting.Size("memory", 1, "16GiB, 500MB")), "",
			"with --at: memory for the state, such as 16GiB; warm lookups are predicted as well, " +
				"those of slots for " + strings.Join(subject.SlotsInMemory(), ", ") + " only"},
		{"price.hardware", "hardware", setting.Axis(&s.Hardware, setting.Text), "here",
			"disks: here (a probe of this one), the time of one read (100us), a folder of " +
				"statelab disk --out, a profile (docs/prices.md), or fio's JSON output"},
		{"price.gas_per_second", "gas-per-second",
			setting.One(&s.GasPerSecond, setting.Count(1, "100M")), "100M",
			"gas that one second of execution is worth"},
		e.repeats("1", "builds of each state, with other accounts"), e.seed(),
	})
}

// Section annotates a flag with the section of its field in a file; Run are those of none.
const (
	Section = "section"
	Run     = "run"
)

// Flags are the flags that set e's fields, each with its Section.
func (e *Experiment) Flags(into *pflag.FlagSet) {
	for _, f := range e.Fields() {
		if f.Flag == "" {
			continue
		}

		section, _, found := strings.Cut(f.Key, ".")
		if !found {
			section = Run
		}

		flag := f.Declare(into)
		if flag.Annotations == nil {
			flag.Annotations = map[string][]string{}
		}
		flag.Annotations[Section] = []string{section}
	}
}

// DeclareFlags are the flags of some fields, in the order of their names, for a verb that takes no
// more.
func (e *Experiment) DeclareFlags(into *pflag.FlagSet, names ...string) {
	for _, name := range names {
		f, _ := e.ByFlag(name)
		f.Declare(into)
	}
}

// Declare is the flag that sets f.
func (f Field) Declare(into *pflag.FlagSet) *pflag.Flag {
	about := f.About
	if f.Dest.Form() == setting.List {
		about += " (comma-separated)"
	}

	flag := into.VarPF(f.Dest, f.Flag, "", about)
	if earlier := earlierFlags[f.Flag]; earlier != "" {
		setting.Alias(into, earlier, f.Flag)
	}

	if f.Dest.Form() == setting.Switch {
		flag.NoOptDefVal = "true"
	}

	return flag
}

// ByFlag is the field that a flag sets, in its present or its earlier spelling.
func (e *Experiment) ByFlag(flag string) (found Field, is bool) {
	for _, f := range e.Fields() {
		if flag != "" && (f.Flag == flag || earlierFlags[f.Flag] == flag) {
			return f, true
		}
	}

	return found, false
}

// known are the fields of all verbs in the order of files, each as the verb declares it that takes
// most values, and the verbs that take each.
func known() (fields []Field, verbs map[string][]string) {
	verbs = map[string][]string{}
	for _, verb := range Measures() {
		for _, f := range New(verb).Fields() {
			at := slices.IndexFunc(fields, func(known Field) bool { return known.Key == f.Key })
			switch {
			case at < 0:
				fields = append(fields, f)
			case f.Dest.Form() == setting.List:
				fields[at] = f
			}

			verbs[f.Key] = append(verbs[f.Key], verb)
		}
	}

	return fields, verbs
}

// JSONSchema describes experiment files to editors, from the fields of all verbs.
func JSONSchema() map[string]any {
	object := func() map[string]any {
		return map[string]any{
			"type":                 "object",
			"properties":           map[string]any{},
			"additionalProperties": false,
		}
	}

	root := object()
	properties := root["properties"].(map[string]any)
	properties["schema"] = map[string]any{"const": schema.Experiment}
	properties["measure"] = map[string]any{
		"enum":        append(Measures(), oneRead),
		"description": "what to measure: the verb",
	}

	fields, verbs := known()
	for _, f := range fields {
		section, name, nested := strings.Cut(f.Key, ".")
		into := properties
		if nested {
			if properties[section] == nil {
				properties[section] = object()
			}
			into = properties[section].(map[string]any)["properties"].(map[string]any)
		} else {
			name = section
		}

		into[name] = f.schema(verbs[f.Key])
	}

	root["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	root["title"] = "Statelab experiment"
	root["required"] = []string{"measure"}
	return root
}

func (f Field) schema(verbs []string) map[string]any {
	about := f.About
	if len(verbs) < len(Measures()) {
		about = strings.TrimSpace(about + " (" + strings.Join(verbs, ", ") + ")")
	}

	value := map[string]any{"type": []string{"string", "number"}}
	several := map[string]any{
		"anyOf": []any{value, map[string]any{"type": "array", "items": value}},
	}
	s := value
	switch f.Dest.Form() {
	case setting.Switch:
		s = map[string]any{"type": "boolean"}
	case setting.Mapping:
		s = map[string]any{"type": "object", "additionalProperties": several}
	case setting.List:
		s = several
	}

	s["description"] = about
	if f.Value != "" && len(verbs) == 1 {
		s["default"] = f.Value
	}

	return s
}

// WithSettings is e with other settings, such as engine=pebble1 cache=1%: flags without dashes.
func (e *Experiment) WithSettings(settings string) (*Experiment, error) {
	e = e.Clone()
	var m setting.Mistakes
	for _, word := range strings.Fields(settings) {
		name, value, ok := strings.Cut(strings.TrimPrefix(word, "--"), "=")
		field, known := e.ByFlag(strings.ReplaceAll(name, "_", "-"))
		switch {
		case !ok:
			return nil, fmt.Errorf("%q is not NAME=VALUE (example: cache=1%%)", word)
		case !known:
			return nil, fmt.Errorf("statelab %s has no flag --%s", e.Measure, name)
		}

		if err := field.Dest.Set(value); err != nil {
			return nil, fmt.Errorf("--%s: %w", name, err)
		}

		m.CheckSetting(field.Flag, field.Dest)
	}

	return e, m.Err()
}

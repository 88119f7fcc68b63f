package figure

import "slices"

// Places in docs/.
const (
	toDevice   = "reads.md#from-the-get-to-the-device"
	timeDoc    = "figures.md#time"
	writesDoc  = "figures.md#writes"
	deviceDoc  = "disks.md#what-is-a-device-read"
	treesDoc   = "trees.md#what-is-timed"
	layoutsDoc = "layouts.md#figures"
	updatesDoc = "layouts.md#figures"
	watchDoc   = "watching-a-node.md#what-it-sees"
	tuneDoc    = "tuning.md#bytes-time-and-writes"
	cacheDoc   = "choosing-a-cache.md#is-the-disk-the-problem"
)

// exact is how far apart two computations of one figure may be, as a share.
const exact = 1e-9

// minReads is a difference in reads per Get that no decision depends on; tables and charts show
// nothing finer either.
const minReads = 0.001

// Gets and what they read.
var (
	BlockReadsPerGet = Figure{Key: "block_reads_per_get", Noun: "block reads per Get",
		Name: "block reads", Per: "/Get", Bench: "block-reads/op", Repeats: true,
		Least: minReads, OfGets: true, Tolerance: exact, Doc: toDevice,
		Defined: "Blocks that Gets read because the engine's cache did not have them, for " +
			"each Get.",
		Question: "How many blocks does a Get read?",
	}
	BlockAccessesPerGet = Figure{Key: "block_accesses_per_get", Noun: "block accesses per Get",
		Name: "block accesses", Per: "/Get", OfGets: true, Doc: toDevice,
		Defined: "Blocks that Gets need, cached or not, for each Get.",
	}
	HitRate = Figure{Key: "hit_rate", Noun: "hit rate", Name: "hit rate", Per: "%", Shown: "%",
		Kind: Ratio, Better: Higher, OfGets: true, Doc: toDevice,
		Defined: "Share of the block accesses that the cache served, by type of block.",
	}
	BlockReadBytesPerGet = Figure{Key: "block_read_bytes_per_get",
		Noun: "bytes of block reads per Get", Name: "block bytes", Per: "/Get", Unit: Bytes,
		Kind: Amount, OfGets: true, Tolerance: exact, Doc: toDevice,
		Defined: "Bytes of the block reads, as they are in the files, for each Get.",
	}
	TableOpensPerGet = Figure{Key: "table_opens_per_get", Noun: "tables opened per Get",
		Name: "table opens", Per: "/Get", OfGets: true, Doc: toDevice,
		Defined: "Tables that the engine opened because their handles were not cached, for " +
			"each Get.",
	}
	TableOpenReadsPerGet = Figure{Key: "table_open_reads_per_get",
		Noun: "block reads per Get that open tables", Name: "reads to open", Per: "/Get",
		OfGets: true, Doc: watchDoc,
		Defined: "Block reads of opening those tables, for each Get: of footers, properties, and " +
			"what is kept with an open table instead of in the block cache.",
	}
	TablesPerGet = Figure{Key: "tables_per_get", Noun: "tables consulted per Get",
		Name: "tables", Per: "/Get", OfGets: true, Doc: watchDoc,
		Defined: "Tables that a Get looks into.",
	}
	DeviceReadsPerGet = Figure{Key: "device_reads_per_get", Noun: "device reads per Get",
		Name: "device reads", Per: "/Get", Bench: "device-reads/op", Least: minReads,
		OfGets: true, Tolerance: exact, Doc: deviceDoc,
		Defined:  "Read requests that reached the block device, for each Get.",
		Question: "How many reads of the device does a Get cost?",
	}
	DeviceReadBytesPerGet = Figure{Key: "device_read_bytes_per_get",
		Noun: "bytes read from the device per Get", Name: "device bytes", Per: "/Get",
		Unit: Bytes, Kind: Amount, OfGets: true, Tolerance: exact, Doc: deviceDoc,
		Defined: "Bytes that the block device delivered, for each Get.",
	}
	Agreement = Figure{Key: "agreement", Noun: "agreement", Name: "agreement",
		Per: "device / block", Kind: Ratio, Better: Neither, OfGets: true, Tolerance: exact,
		Doc:     toDevice,
		Defined: "Device reads divided by block reads.",
	}
)

// The time of Gets, and what else they cost the machine.
var (
	GetsPerSecond = Figure{Key: "gets_per_second", Noun: "Gets per second", Name: "Gets",
		Per: "/s", Bench: "gets/s", Unit: PerSecond, Kind: Rate, Better: Higher, Positive: true,
		OfGets: true, Tolerance: exact, Doc: timeDoc,
		Defined:  "Gets that were answered, divided by the time that they took.",
		Question: "How many Gets are answered in a second?",
	}
	ServiceTime = Figure{Key: "service_ns", Noun: "service time", Name: "service", Per: "us",
		Bench: "ns", Shown: "us", Unit: Nanoseconds, Kind: Duration, OfGets: true, Doc: timeDoc,
		Defined:  "Time from the call of a Get to its return.",
		Question: "How long do the slowest 1 % of Gets take?",
	}
	ResponseTime = Figure{Key: "response_ns", Noun: "response time", Name: "response",
		Per: "us", Bench: "response-ns", Shown: "us", Unit: Nanoseconds, Kind: Duration,
		OfGets: true, Doc: timeDoc,
		Defined:  "Time from the moment at which the schedule wanted a Get to its return.",
		Question: "How long do the slowest 1 % of Gets take at a given rate, waiting included?",
	}
	CPUTimePerGet = Figure{Key: "cpu_ns_per_get", Noun: "CPU time per Get", Name: "CPU",
		Per: "us/Get", Bench: "cpu-ns/op", Shown: "us", Unit: Nanoseconds, Kind: Duration,
		Positive: true, OfGets: true, Tolerance: exact, Doc: timeDoc,
		Defined: "Processor time of the runner, the harness included, for each Get.",
	}
	CPUPercent = Figure{Key: "cpu_percent", Noun: "CPU use", Name: "CPU", Per: "% of all",
		Unit: Percent, Kind: Ratio, Better: Neither, Positive: true, OfGets: true, Doc: timeDoc,
		Defined: "Processor time of the runner as a share of the time of all cores.",
	}
	SwitchesPerGet = Figure{Key: "context_switches_per_get", Noun: "context switches per Get",
		Name: "context switches", Per: "/Get", OfGets: true, Doc: timeDoc,
		Defined: "Context switches of the runner, voluntary or not, for each Get.",
	}
	SwitchShare = Figure{Key: "context_switch_share", Noun: "time in context switches",
		Name: "context switches", Per: "% of time", Shown: "%", Kind: Ratio, OfGets: true,
		Doc:     timeDoc,
		Defined: "Share of a Get's service time that context switches are estimated to take.",
	}
	MajorFaultsPerGet = Figure{Key: "major_faults_per_get", Noun: "major page faults per Get",
		Name: "major faults", Per: "/Get", OfGets: true, Tolerance: exact, Doc: deviceDoc,
		Defined: "Page faults for which the kernel had to read, for each Get.",
	}
	ReadCallsPerGet = Figure{Key: "read_calls_per_get", Noun: "read calls per Get",
		Name: "read calls", Per: "/Get", OfGets: true, Tolerance: exact, Doc: deviceDoc,
		Defined: "System calls of the runner that read, for each Get.",
	}
	InFlight = Figure{Key: "in_flight", Noun: "Gets in flight", Name: "in flight", Kind: Ratio,
		Better: Neither, Positive: true, OfGets: true, Doc: timeDoc,
		Defined: "Sum of the service times divided by the elapsed time (Little's law).",
	}
	HarnessTimePerGet = Figure{Key: "harness_ns_per_get", Noun: "time of the harness per Get",
		Name: "harness", Per: "ns/Get", Unit: Nanoseconds, Kind: Duration, Doc: timeDoc,
		Defined: "Time of choosing a key, two clock reads and recording, with an engine " +
			"that does nothing.",
	}
	PeakMemory = Figure{Key: "peak_rss_bytes", Noun: "peak memory", Name: "memory",
		Shown: "MiB", Unit: Bytes, Kind: Amount, Positive: true, Tolerance: exact, Doc: timeDoc,
		Defined: "Most resident memory that the runner had.",
	}
	BlockReadsPerOp = Figure{Key: "block_reads_per_op", Noun: "block reads per operation",
		Name: "block reads", Per: "/op", Metric: "block_reads_per_operation", Doc: toDevice,
		Defined: "Block reads of about one second, for each of its operations.",
	}
	BlockReadsPerSecond = Figure{Key: "block_reads_per_second", Noun: "block reads per second",
		Name: "block reads", Per: "/s", Unit: PerSecond, Kind: Rate, Better: Lower,
		Doc:     cacheDoc,
		Defined: "Block reads per Get times the Gets per second of a node.",
	}
	ReadingShare = Figure{Key: "reading_gets_time_share", Noun: "time in Gets that read",
		Name: "in Gets that read", Per: "% of Gets' time", Shown: "%", Kind: Ratio, OfGets: true,
		Doc: watchDoc,
		Defined: "Share of the time in Gets that is spent in those which read at least one " +
			"block.",
	}
	DeviceBusy = Figure{Key: "device_busy_share", Noun: "time in which the disk is busy",
		Name: "disk busy", Per: "% of time", Shown: "%", Kind: Ratio, Doc: watchDoc,
		Defined: "Share of the time in which the block device has at least one request, of " +
			"whatever process.",
	}
	ProcessorWait = Figure{Key: "processor_wait_share", Noun: "time waiting for a processor",
		Name: "waiting for a processor", Per: "% of runnable time", Shown: "%", Kind: Ratio,
		Doc:     watchDoc,
		Defined: "Share of the threads' runnable time that they waited for a processor.",
	}
	WorkingSet = Figure{Key: "working_set_bytes", Noun: "working set", Name: "working set",
		Shown: "MiB", Unit: Bytes, Kind: Amount, Better: Neither, Doc: watchDoc,
		Defined: "Size of all blocks that the Gets accessed, decompressed.",
	}
)

// Puts.
var (
	PutsPerSecond = Figure{Key: "puts_per_second", Noun: "Puts per second", Name: "puts",
		Per: "/s", Bench: "puts/s", Unit: PerSecond, Kind: Rate, Better: Higher, Positive: true,
		Doc:     writesDoc,
		Defined: "Keys that were put, divided by the time that it took.",
	}
	PutServiceTime = Figure{Key: "put_service_ns", Noun: "time of a batch commit",
		Name: "commit", Per: "us", Shown: "us", Unit: Nanoseconds, Kind: Duration,
		Doc:     writesDoc,
		Defined: "Time of committing a batch of keys.",
	}
	WriteAmplification = Figure{Key: "write_amplification", Noun: "write amplification",
		Name: "written", Per: "times", Bench: "write-amplification", Kind: Ratio,
		Doc: writesDoc,
		Defined: "Bytes that the engine says it wrote, divided by the bytes of the keys " +
			"and values.",
		Question: "How many bytes does the engine write for each byte stored?",
	}
	DeviceWriteAmplification = Figure{Key: "device_write_amplification",
		Noun: "device write amplification", Name: "bytes written", Per: "per byte given",
		Kind: Ratio, Doc: writesDoc,
		Defined: "Bytes written to the device, divided by the bytes of the keys and values.",
	}
	WriteBytesPerPut = Figure{Key: "write_bytes_per_put", Noun: "bytes written per Put",
		Name: "written", Per: "B/put", Unit: Bytes, Kind: Amount, Doc: writesDoc,
		Defined: "Bytes written for each key that was put, by what wrote them.",
	}
	Syncs = Figure{Key: "syncs", Noun: "syncs", Name: "syncs", Doc: writesDoc,
		Defined: "Calls that made a file durable.",
	}
	WriteStalls = Figure{Key: "write_stalls", Noun: "write stalls", Name: "stalls",
		Doc:     writesDoc,
		Defined: "Times that the engine held writes back.",
	}
	WriteStallSeconds = Figure{Key: "write_stall_seconds", Noun: "time in write stalls",
		Name: "stalled", Per: "s", Unit: Seconds, Kind: Duration, Doc: writesDoc,
		Defined: "Time for which the engine held writes back.",
	}
	CacheReserved = Figure{Key: "cache_reserved_bytes", Noun: "cache taken by memtables",
		Name: "memtables", Shown: "MiB", Unit: Bytes, Kind: Amount, Better: Neither,
		Doc:     "reads.md#inflection-points",
		Defined: "Most bytes of the block cache that memtables took.",
	}
)

// What statelab tune predicts beside block reads.
var (
	BytesReadPerGet = Figure{Key: "bytes_read_per_get", Noun: "bytes read per Get",
		Name: "bytes", Per: "/Get", Unit: Bytes, Kind: Amount, Doc: tuneDoc,
		Defined: "Bytes of the predicted block reads, as they are on disk, for each Get.",
	}
	CPUMicrosPerGet = Figure{Key: "cpu_us_per_get", Noun: "predicted CPU time per Get",
		Name: "CPU", Per: "us/Get", Kind: Duration, Doc: tuneDoc,
		Defined: "Predicted processor time of a Get, in microseconds.",
	}
	TimeMicrosPerGet = Figure{Key: "time_us_per_get", Noun: "predicted time per Get",
		Name: "time", Per: "us/Get", Kind: Duration, Doc: tuneDoc,
		Defined: "Predicted time of the processor and of reads of the device, in microseconds.",
	}
)

// State trees.
var (
	LeavesPerSecond = Figure{Key: "leaves_per_second", Noun: "leaves per second",
		Name: "leaves", Per: "per s", Bench: "leaves/s", Unit: PerSecond, Kind: Rate,
		Better: Higher, Positive: true, Tolerance: 1e-6, Doc: treesDoc,
		Defined:  "Changes (Set and Remove) applied, divided by the time in the tree.",
		Question: "How fast does a state tree take a chain's changes?",
	}
	NodesPerSecond = Figure{Key: "nodes_per_second", Noun: "nodes per second", Name: "nodes",
		Per: "per s", Unit: PerSecond, Kind: Rate, Better: Neither, Doc: treesDoc,
		Defined: "Nodes that the tree wrote, divided by the time in the tree.",
	}
	DBGetsPerSecond = Figure{Key: "db_gets_per_second", Noun: "database Gets per second",
		Name: "db gets", Per: "per s", Unit: PerSecond, Kind: Rate, Better: Neither,
		Doc:     treesDoc,
		Defined: "Lookups in the store below the tree, divided by the time in the tree.",
	}
	LogHitsPerSecond = Figure{Key: "log_cache_hits_per_second",
		Noun: "hits of the log's cache per second", Name: "log cache", Per: "hits per s",
		Unit: PerSecond, Kind: Rate, Better: Neither, Doc: treesDoc,
		Defined: "Hits of a write-ahead log's cache, divided by the time in the tree.",
	}
	CommitTime = Figure{Key: "commit_ns", Noun: "commit time", Name: "commit", Per: "ms",
		Bench: "commit-ns", Shown: "ms", Unit: Nanoseconds, Kind: Duration, Doc: treesDoc,
		Defined: "Time of committing a version.",
	}
	ApplyTimePerLeaf = Figure{Key: "apply_ns_per_leaf", Noun: "time of a change", Name: "apply",
		Per: "ns", Unit: Nanoseconds, Kind: Duration, Doc: treesDoc,
		Defined: "Time in Set and Remove, for each of them.",
	}
	HarnessTimePerLeaf = Figure{Key: "harness_ns_per_leaf",
		Noun: "time of the harness per leaf", Name: "harness", Per: "ns", Unit: Nanoseconds,
		Kind: Duration, Doc: treesDoc,
		Defined: "Time of the same loop on no tree, for each leaf.",
	}
	HarnessPercent = Figure{Key: "harness_percent", Noun: "time of the harness",
		Name: "harness", Per: "%", Unit: Percent, Kind: Ratio, Doc: treesDoc,
		Defined: "Time of the harness as a share of the time of a leaf.",
	}
	NodesWritten = Figure{Key: "nodes", Noun: "nodes written", Name: "nodes", Bench: "nodes",
		Repeats: true, Doc: treesDoc,
		Defined: "Nodes that the tree wrote.",
	}
	DiskBytes = Figure{Key: "disk_bytes", Noun: "disk space", Name: "disk", Bench: "disk-B",
		Shown: "MiB", Unit: Bytes, Kind: Amount, Tolerance: exact, Doc: treesDoc,
		Defined:  "Bytes allocated below the folder of the tree, or of the state.",
		Question: "How much disk space does a state tree take?",
	}
	DiskBytesPerLeaf = Figure{Key: "disk_bytes_per_leaf", Noun: "disk space per leaf",
		Name: "disk", Per: "B/leaf", Unit: Bytes, Kind: Amount, Doc: treesDoc,
		Defined: "Bytes that a leaf added to the tree's files in the last window.",
	}
	TreeSize = Figure{Key: "tree_size", Noun: "leaves of the tree", Name: "tree size",
		Per: "leaves", Metric: "tree_size_leaves", Better: Neither, Doc: treesDoc,
		Defined: "Leaves of all stores at the last version.",
	}
	TreeHeight = Figure{Key: "tree_height", Noun: "height of the tree", Name: "height",
		Metric: "tree_height_levels", Better: Neither, Doc: treesDoc,
		Defined: "Height of the highest store at the last version.",
	}
	CacheHits = Figure{Key: "cache_hits", Noun: "cache hits", Name: "cache hits",
		Better: Higher, Doc: treesDoc,
		Defined: "Nodes that the tree's cache had.",
	}
	CacheMisses = Figure{Key: "cache_misses", Noun: "cache misses", Name: "misses",
		Doc:     treesDoc,
		Defined: "Nodes that the tree's cache did not have.",
	}
	DBGets = Figure{Key: "db_gets", Noun: "database Gets", Name: "db gets", Doc: treesDoc,
		Defined: "Lookups in the store below the tree.",
	}
	DBSets = Figure{Key: "db_sets", Noun: "database Puts", Name: "db sets", Doc: treesDoc,
		Defined: "Keys that the tree put into the store below it.",
	}
	DBBytes = Figure{Key: "db_bytes", Noun: "bytes given to the database", Name: "db bytes",
		Unit: Bytes, Kind: Amount, Doc: treesDoc,
		Defined: "Bytes of the keys and values that the tree put into the store below it.",
	}
	LogHits = Figure{Key: "log_cache_hits", Noun: "hits of the log's cache", Name: "log cache",
		Better: Higher, Doc: treesDoc,
		Defined: "Cache hits that a write-ahead log's cache served.",
	}
)

// Layouts of state: lookups.
var (
	NodesPerLookup = Figure{Key: "nodes_per_lookup", Noun: "nodes per lookup", Name: "nodes",
		Bench: "nodes/op", Repeats: true, Doc: layoutsDoc,
		Defined: "Trie nodes on the way to what is looked up, the leaf included.",
	}
	PagesPerLookup = Figure{Key: "pages_per_lookup", Noun: "pages per lookup", Name: "pages",
		Doc:     layoutsDoc,
		Defined: "Pages of the layout that a lookup touches.",
	}
	NodeBytesPerLookup = Figure{Key: "node_bytes_per_lookup", Noun: "bytes of nodes per lookup",
		Name: "nodes", Per: "bytes", Unit: Bytes, Kind: Amount, Doc: layoutsDoc,
		Defined: "Bytes of all nodes of a lookup.",
	}
	ReadsPerLookup = Figure{Key: "reads_per_lookup", Noun: "reads per lookup", Name: "reads",
		Doc:     layoutsDoc,
		Defined: "Reads of a lookup by the best count there is.",
	}
	BlockReadsPerLookup = Figure{Key: "block_reads_per_lookup", Noun: "block reads per lookup",
		Name: "block", Per: "reads", Doc: layoutsDoc,
		Defined: "Reads that the layout counts itself, for each lookup.",
	}
	BlockReadBytesPerLookup = Figure{Key: "block_read_bytes_per_lookup",
		Noun: "bytes of block reads per lookup", Name: "blocks", Per: "bytes", Unit: Bytes,
		Kind: Amount, Doc: layoutsDoc,
		Defined: "Bytes of the reads that the layout counts itself, for each lookup.",
	}
	ReadCallsPerLookup = Figure{Key: "read_calls_per_lookup", Noun: "read calls per lookup",
		Name: "read calls", Doc: layoutsDoc,
		Defined: "System calls that read, for each lookup; files that are mapped have none.",
	}
	MajorFaultsPerLookup = Figure{Key: "major_faults_per_lookup",
		Noun: "major page faults per lookup", Name: "faults", Doc: layoutsDoc,
		Defined: "Page faults for which the kernel had to read, for each lookup.",
	}
	CPUTimePerLookup = Figure{Key: "cpu_ns_per_lookup", Noun: "CPU time per lookup",
		Name: "CPU", Shown: "us", Unit: Nanoseconds, Kind: Duration, Positive: true,
		Doc:     layoutsDoc,
		Defined: "Processor time of the runner, the harness included, for each lookup.",
	}
	DeviceReadsPerLookup = Figure{Key: "device_reads_per_lookup",
		Noun: "device reads per lookup", Name: "device", Per: "reads", Doc: layoutsDoc,
		Defined: "Read requests that reached the block device, for each lookup.",
	}
	DeviceBytesPerLookup = Figure{Key: "device_bytes_per_lookup",
		Noun: "device bytes per lookup", Name: "device", Per: "bytes", Bench: "device-B/op",
		Unit: Bytes, Kind: Amount, Doc: layoutsDoc,
		Defined: "Bytes that the block device delivered, for each lookup.",
	}
	LookupsPerSecond = Figure{Key: "lookups_per_second", Noun: "lookups per second",
		Name: "lookups", Per: "per s", Unit: PerSecond, Kind: Rate, Better: Higher,
		Positive: true, Doc: layoutsDoc,
		Defined: "Lookups that were answered, divided by the time that they took.",
	}
	LookupTime = Figure{Key: "lookup_ns", Noun: "time of a lookup", Name: "lookup", Shown: "us",
		Unit: Nanoseconds, Kind: Duration, Doc: layoutsDoc,
		Defined: "Time of a lookup, caches warm and memory held, one lookup in flight.",
	}
	OpenTime = Figure{Key: "open_ns", Noun: "time to open", Name: "open", Shown: "ms",
		Unit: Nanoseconds, Kind: Duration, Doc: layoutsDoc,
		Defined: "Time of opening a state that no page of is in memory.",
	}
)

// Layouts of state: updates and size.
var (
	DiskBytesPerAccount = Figure{Key: "disk_bytes_per_account", Noun: "disk space per account",
		Name: "disk", Per: "B/account", Unit: Bytes, Kind: Amount, Doc: layoutsDoc,
		Defined: "Bytes allocated below the state's folder, divided by its accounts.",
	}
	UpdateTime = Figure{Key: "update_ns", Noun: "time of an update", Name: "update",
		Shown: "us", Unit: Nanoseconds, Kind: Duration, Doc: updatesDoc,
		Defined: "Time of Change and Commit, for each update.",
	}
	ReadCallsPerUpdate = Figure{Key: "read_calls_per_update", Noun: "read calls per update",
		Name: "read calls", Per: "/update", Doc: updatesDoc,
		Defined: "System calls that read, for each update.",
	}
	NodesPerUpdate = Figure{Key: "nodes_per_update", Noun: "nodes written per update",
		Name: "new nodes", Per: "/update", Doc: updatesDoc,
		Defined: "Nodes that the layout wrote, for each update.",
	}
	CPUTimePerUpdate = Figure{Key: "cpu_ns_per_update", Noun: "CPU time per update",
		Name: "CPU", Shown: "us", Unit: Nanoseconds, Kind: Duration, Positive: true,
		Doc:     updatesDoc,
		Defined: "Processor time of the runner, for each update.",
	}
	HashTimePerUpdate = Figure{Key: "hash_cpu_ns_per_update",
		Noun: "CPU time of roots per update", Name: "root", Shown: "us", Unit: Nanoseconds,
		Kind: Duration, Doc: updatesDoc,
		Defined: "Processor time of making roots, for each update.",
	}
	DeviceReadsPerUpdate = Figure{Key: "device_reads_per_update",
		Noun: "device reads per update", Name: "device", Per: "reads", Doc: updatesDoc,
		Defined: "Read requests that reached the block device, for each update.",
	}
	DeviceReadBytesPerUpdate = Figure{Key: "device_read_bytes_per_update",
		Noun: "bytes read from the device per update", Name: "device", Per: "bytes",
		Unit: Bytes, Kind: Amount, Doc: updatesDoc,
		Defined: "Bytes that the block device delivered, for each update.",
	}
	WriteBytesPerUpdate = Figure{Key: "write_bytes_per_update",
		Noun: "bytes written per update", Name: "written", Per: "B/update", Unit: Bytes,
		Kind: Amount, Doc: updatesDoc,
		Defined: "Bytes written, those of settling included, for each update.",
	}
	WriteTime = Figure{Key: "write_ns", Noun: "time of a write", Name: "a write", Shown: "us",
		Unit: Nanoseconds, Kind: Duration, Doc: updatesDoc,
		Defined: "Time of Change and Commit, for each account or slot written.",
	}
	CPUTimePerWrite = Figure{Key: "cpu_ns_per_write", Noun: "CPU time per write", Name: "CPU",
		Shown: "us", Unit: Nanoseconds, Kind: Duration, Doc: updatesDoc,
		Defined: "Processor time of the runner, for each write.",
	}
	ReadsPerWrite = Figure{Key: "reads_per_write", Noun: "reads per write", Name: "reads",
		Per: "/write", Doc: updatesDoc,
		Defined: "Read calls, or page faults where there are more of those, for each write.",
	}
	WriteBytesPerWrite = Figure{Key: "write_bytes_per_write", Noun: "bytes written per write",
		Name: "written", Per: "B/write", Unit: Bytes, Kind: Amount, Doc: updatesDoc,
		Defined: "Bytes written, for each write.",
	}
)

// all is every figure, in display order.
var all = []Figure{
	BlockReadsPerGet, BlockAccessesPerGet, HitRate, BlockReadBytesPerGet, TableOpensPerGet,
	TableOpenReadsPerGet, TablesPerGet, DeviceReadsPerGet, DeviceReadBytesPerGet, Agreement,

	GetsPerSecond, ServiceTime, ResponseTime, CPUTimePerGet, CPUPercent, SwitchesPerGet,
	SwitchShare, MajorFaultsPerGet, ReadCallsPerGet, InFlight, HarnessTimePerGet, PeakMemory,
	BlockReadsPerOp, BlockReadsPerSecond, ReadingShare, DeviceBusy, ProcessorWait,
	WorkingSet,

	PutsPerSecond, PutServiceTime, WriteAmplification, DeviceWriteAmplification, WriteBytesPerPut,
	Syncs, WriteStalls, WriteStallSeconds, CacheReserved,

	BytesReadPerGet, CPUMicrosPerGet, TimeMicrosPerGet,

	LeavesPerSecond, NodesPerSecond, DBGetsPerSecond, LogHitsPerSecond, CommitTime,
	ApplyTimePerLeaf, HarnessTimePerLeaf, HarnessPercent, NodesWritten, DiskBytes, DiskBytesPerLeaf,
	TreeSize, TreeHeight, CacheHits, CacheMisses, DBGets, DBSets, DBBytes, LogHits,

	NodesPerLookup, PagesPerLookup, NodeBytesPerLookup, ReadsPerLookup, BlockReadsPerLookup,
	BlockReadBytesPerLookup, ReadCallsPerLookup, MajorFaultsPerLookup, CPUTimePerLookup,
	DeviceReadsPerLookup, DeviceBytesPerLookup, LookupsPerSecond, LookupTime, OpenTime,

	DiskBytesPerAccount, UpdateTime, ReadCallsPerUpdate, NodesPerUpdate, CPUTimePerUpdate,
	HashTimePerUpdate, DeviceReadsPerUpdate, DeviceReadBytesPerUpdate, WriteBytesPerUpdate,
	WriteTime, CPUTimePerWrite, ReadsPerWrite, WriteBytesPerWrite,
}

// All are the figures that are not derived from another one, in display order.
func All() []Figure { return slices.Clone(all) }

// Compared are the figures by which runs are compared, and which --fail-if takes, in display order.
func Compared() []Figure {
	account := "How many bytes does the lookup of an account read from the device?"

	return []Figure{
		BlockReadsPerGet, DeviceReadsPerGet, GetsPerSecond,
		ServiceTime.P50().Asks(""), ServiceTime.P99(),
		ResponseTime.P50().Asks(""), ResponseTime.P99(),
		CPUTimePerGet, PutsPerSecond, WriteAmplification,

		LeavesPerSecond, CommitTime.P99(), NodesWritten, DiskBytes,

		NodesPerLookup.OfAccount().Asks("How many nodes does the lookup of an account visit?"),
		DeviceBytesPerLookup.OfAccount().Asks(account),
		ServiceTime.P50().OfAccount().Asks("How long does the lookup of an account take?"),

		NodesPerLookup.OfSlot(), DeviceBytesPerLookup.OfSlot(), ServiceTime.P50().OfSlot(),
	}
}

// stored are the figures that a run may have in a file, by key.
var stored = storedFigures()

func storedFigures() map[string]Figure {
	known := map[string]Figure{}
	for _, f := range all {
		derived := []Figure{f, f.Error(), f.ByType(), f.ByLevel(), f.OfValues(), f.Settled()}
		for _, one := range derived {
			known[one.Key] = one
		}
	}

	return known
}

// Stored is the figure, declared or derived, that a run stores under a key; ok is false of a key
// that is not a figure's.
func Stored(key string) (f Figure, ok bool) {
	f, ok = stored[key]

	return f, ok
}

func registered(key string) bool {
	_, ok := stored[key]

	return ok
}

// ByKey is the one of All that has a key; ok is false of any other key. Derived figures follow from
// it by the methods of Figure, such as P99.
func ByKey(key string) (f Figure, ok bool) {
	i := slices.IndexFunc(all, func(f Figure) bool { return f.Key == key })
	if i < 0 {
		return Figure{}, false
	}

	return all[i], true
}

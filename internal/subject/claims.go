package subject

import "cmp"

// Published is a figure as its author gives it: one number, or a range.
type Published struct {
	Low, High float64
	Unit      string
	Source    string // its address
}

// Claim is what somebody published about the cost of state.
type Claim struct {
	By    string
	Says  string
	Given string // under what, as its author says
	Published
	Layouts []string // that it is about
	Rule    Rule     // by which a run is judged
	UpTo    uint64   // accounts that it is of; 0: any number
	Why     string   // our machine cannot tell
	Own     string   // layout that is the author's own
	StandIn string   // what was measured in its place
}

// Rule is how the figures of a run confirm or refute a claim (explain/claims).
type Rule int

// Rules.
const (
	Growth      Rule = iota // reads grow with nodes * log N
	ManyReads               // a lookup costs as much as claimed
	NodeReads               // the nodes of a main network, one read each
	FewReads                // a lookup costs no more than claimed
	RingReads               // as FewReads, of a layout whose reads only a device counts
	ReadPerNode             // its own reads are the nodes of the same lookups
	PerGet                  // one Get of a key-value store, with memory held
	PerNode                 // as PerGet, of Gets that we do not see
	IndexMemory             // memory divided by entries
	Writes                  // pages written for a changed account
	Speed                   // hardware decides it
)

// Billion accounts is the size of the question that no test machine builds.
const Billion = 1_000_000_000

// mainNetwork are the accounts from which a state is as large as a main network's.
const mainNetwork = 100_000_000

// IsMainNetwork reports whether a state is as large as a main network's.
func IsMainNetwork(accounts uint64) bool { return accounts >= mainNetwork }

// Addresses of claims.
const (
	trieDBReadme = "https://github.com/base/triedb/blob/main/README.md"
	monadDocs    = "https://docs.monad.xyz/monad-arch/execution/monaddb"
	qmdbPaper    = "https://arxiv.org/abs/2501.05262"
	nomtSlides   = "https://hackmd.io/@Xo-wxO7bQkKidH1LrqACsw/rkG0lmjWyg"
	pebbleStudy  = "https://github.com/QuarkChain/bench_kvdb"
	pebbleReply  = "https://ethresear.ch/t/23711" // its answer of 2026-01-27
)

// Claims are the sides of the argument, in the order in which it went.
func Claims() []Claim {
	of := func(low, high float64, unit, source string) Published {
		return Published{low, high, unit, source}
	}
	inKV := []string{"geth-hash", "geth-path"}
	return []Claim{
		{
			By:    "TrieDB",
			Says:  "a trie in a key-value store costs O(log N * log N)",
			Given: "every node is searched for in the whole store",
			Published: of(0, 0, "reads ~ nodes * log N",
				trieDBReadme),
			Layouts: inKV,
			Rule:    Growth,
		},
		{By: "TrieDB", Says: "~50 disk operations a lookup, with a trie in a key-value store",
			Given:     "a chain like Ethereum or Base; upper nodes can be shared in a block",
			Published: of(50, 50, "reads a lookup", trieDBReadme), Layouts: inKV, Rule: ManyReads},
		{
			By:        "TrieDB",
			Says:      "~8 disk operations a lookup, with a layout made for the trie",
			Given:     "the same chain, a node at a time",
			Published: of(8, 8, "reads a lookup", trieDBReadme),
			Layouts:   []string{"chunktrie:unpinned"},
			StandIn:   "chunktrie, built after the description of Monad DB",
			Rule:      NodeReads,
		},
		{
			By:        "TrieDB",
			Says:      "~4 disk operations a lookup, with several levels of the trie in a page",
			Given:     "the same chain",
			Published: of(4, 4, "reads a lookup", trieDBReadme),
			Layouts:   []string{"triedb", "pagetrie"},
			UpTo:      mainNetwork,
			Own:       "triedb",
			StandIn:   "pagetrie, built after its description",
			Rule:      FewReads,
		},
		{
			By:        "Monad DB",
			Says:      "one read for every node: the trie itself lies on the disk",
			Given:     "no store below the trie",
			Published: of(1, 1, "reads a node", monadDocs),
			Layouts:   []string{"monad", "chunktrie:unpinned"},
			Own:       "monad",
			StandIn: "chunktrie, built after its description: one read a node is so by " +
				"construction",
			Rule: ReadPerNode,
		},
		{
			By:        "Pebble study",
			Says:      "a Get costs about 2 reads above IP1, 1.0-1.3 above IP2, whatever the size",
			Given:     "a cache of 0.2%, or of 0.9%, of the database",
			Published: of(1, 2, "reads a Get", pebbleStudy),
			Layouts:   []string{"flat-pebble"},
			Rule:      PerGet,
		},
		{
			By:   "Pebble study, forum",
			Says: "1-2 reads a db.Get, hash scheme",
			Given: "geth's default cache of 2 GB: the study's model with random Gets, not an " +
				"observation",
			Published: of(1, 2, "reads a Get", pebbleReply),
			Layouts:   []string{"geth-hash"},
			Rule:      PerNode,
		},
		{
			By:        "Pebble study, forum",
			Says:      "0.3-0.9 reads a db.Get, path scheme",
			Given:     "observed on a geth node with its default cache of 2 GB",
			Published: of(0.3, 0.9, "reads a Get", pebbleReply),
			Layouts:   []string{"geth-path"},
			Rule:      PerNode,
		},
		{
			By:        "QMDB",
			Says:      "one SSD read a Get",
			Given:     "the index in memory",
			Published: of(1, 1, "reads a Get", qmdbPaper),
			Layouts:   []string{"qmdb"},
			Rule:      FewReads,
		},
		{
			By:        "QMDB",
			Says:      "2.3 bytes of memory an entry",
			Given:     "the index on the SSD too (hybrid)",
			Published: of(2.3, 2.3, "bytes an entry", qmdbPaper),
			Layouts:   []string{"qmdb"},
			Rule:      IndexMemory,
		},
		{
			By:        "QMDB",
			Says:      "2.28 M updates a second",
			Given:     "a server of its authors' choice",
			Published: of(2.28e6, 2.28e6, "updates/s", qmdbPaper),
			Layouts:   []string{"qmdb"},
			Why:       "the server of its authors decides it",
			Rule:      Speed,
		},
		{
			By:        "NOMT",
			Says:      "3 reads a key: 1 of the value, 2 of the trie",
			Given:     "1B accounts at random, upper pages in memory",
			Published: of(3, 3, "reads a key", nomtSlides),
			Layouts:   []string{"nomt:prove"},
			UpTo:      Billion,
			Rule:      RingReads,
		},
		{
			By:        "NOMT",
			Says:      "5 writes a key: 2 of the value, 3 of the trie",
			Given:     "1B accounts at random",
			Published: of(5, 5, "writes a key", nomtSlides),
			Layouts:   []string{"nomt"},
			Rule:      Writes,
		},
		{
			By:        "NOMT",
			Says:      "25 K transfers a second",
			Given:     "a goal of its authors, at 1B accounts",
			Published: of(25e3, 25e3, "transfers/s", nomtSlides),
			Layouts:   []string{"nomt"},
			Why:       "a goal for 1B accounts and its authors' disk",
			Rule:      Speed,
		},
	}
}

// Study is a published comparison of two engines by threads: its figures on its
// authors' machine, whose shape ours can be compared with.
type Study struct {
	Of      [2]string // families of engines
	What    string    // their set-up
	ByCache bool      // points differ in the page cache too
	Points  []StudyPoint
}

// Family is what studies call an engine: one name for all versions of Pebble.
func Family(engine string) string {
	return cmp.Or(Descriptor(engine).Family, engine)
}

// StudyPoint is what a study measured of an engine. A figure without a unit was not
// published.
type StudyPoint struct {
	Engine    string
	Threads   int
	PageCache string
	Kops, CPU Published
	Mean      Published
}

// Sources of the studies.
const (
	threadStudy = "the thread study: db_bench of its authors"
	ioarena     = "ioarena"
)

// Studies are the figures of the thread study and of ioarena, to three digits.
func Studies() []Study {
	kops := func(low, high float64, source string) Published {
		return Published{low, high, "Kops/s", source}
	}
	cpu := func(low, high float64, source string) Published {
		return Published{low, high, "%", source}
	}
	thread := func(
		engine string, threads int, cache string, low, high, cpuLow, cpuHigh float64,
	) StudyPoint {
		return StudyPoint{
			Engine:    engine,
			Threads:   threads,
			PageCache: cache,
			Kops:      kops(low, high, threadStudy),
			CPU:       cpu(cpuLow, cpuHigh, threadStudy),
		}
	}

	point := func(engine string, threads int, k, mean, percent float64) StudyPoint {
		return StudyPoint{
			Engine:  engine,
			Threads: threads,
			Kops:    kops(k, k, ioarena),
			CPU:     cpu(percent, percent, ioarena),
			Mean:    Published{mean, mean, "us", ioarena},
		}
	}

	return []Study{
		{Of: [2]string{"pebble", "rocksdb"}, ByCache: true,
			What: "2 B keys, 10 M random reads, 100,000 handles; Pebble 236 GB in Go, RocksDB " +
				"235 GB in Zig",
			Points: []StudyPoint{
				thread("pebble", 32, "cold", 286, 286, 40, 40),
				thread("rocksdb", 32, "cold", 264, 264, 40, 40),
				thread("pebble", 64, "cold", 297, 297, 40, 40),
				thread("rocksdb", 64, "cold", 293, 384, 97, 97),
				thread("pebble", 32, "warm", 350, 350, 50, 50),
				thread("rocksdb", 32, "warm", 323, 323, 60, 70),
				thread("pebble", 64, "warm", 364, 364, 50, 50),
				thread("rocksdb", 64, "warm", 353, 421, 98, 98),
			}},
		{Of: [2]string{"rocksdb", "mdbx"},
			What: "ioarena, 1.6 B entries, 16-byte keys, 32-byte values; RocksDB ~84 GB, MDBX " +
				"~128 GB; its authors call RocksDB at 64 threads imprecise",
			Points: []StudyPoint{
				point("rocksdb", 2, 12, 160, 1.1), point("mdbx", 2, 21, 85, 0.8),
				point("rocksdb", 4, 30, 130, 2.2), point("mdbx", 4, 48, 84, 1.3),
				point("rocksdb", 8, 85, 92, 4.5), point("mdbx", 8, 97, 83, 2.5),
				point("rocksdb", 16, 180, 90, 8), point("mdbx", 16, 180, 86, 6),
				point("rocksdb", 32, 300, 110, 24), point("mdbx", 32, 360, 90, 13),
				point("rocksdb", 64, 350, 100, 45), point("mdbx", 64, 800, 80, 33),
			}},
	}
}

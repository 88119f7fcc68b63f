package subject

// Watched tells how the Gets of an engine are seen in a process of somebody else's that runs it,
// as internal/observe/probe needs it. Registers are counted over the integer registers of Go's
// calling convention, from 0.
type Watched struct {
	Engine   string
	Module   string   // the Go module that holds the engine
	Versions []string // beginnings of the versions whose function is as described here

	Get string // the function that runs once for each Get
	// DatabaseAt is the register of the address of the database's handle.
	DatabaseAt int
	KeyAt      int  // register of the key's address; the next one holds its length
	FoundAt    int  // register of the result that is not zero for a key that was found
	ErrorAt    int  // register of the error's value; all absent keys have the same one
	Inverted   bool // FoundAt is zero for a key that was found

	TableSuffixes []string // of the names of files with keys and values
	Purposes      []Purpose
}

// Purpose names why a table is read outside a Get, by a function on the stack of the reader. The first that is
// there counts.
type Purpose struct{ Function, Name string }

// Purposes of reads.
const (
	ForGets       = "gets"
	ForCompaction = "compaction"
	ForFlush      = "flush"
	ForIterators  = "iterators"
	ForOther      = "other"
)

// watchedPebble is of both versions, whose functions differ in their module's path alone: func (d *DB)
// getInternal(key []byte, b *Batch, s *Snapshot) ([]byte, io.Closer, error). DB.Get is inlined into its callers.
func watchedPebble(engine, module string, versions ...string) Watched {
	return Watched{
		Engine: engine, Module: module, Versions: versions,
		Get: module + ".(*DB).getInternal", KeyAt: 1, FoundAt: 3, ErrorAt: 6,
		TableSuffixes: []string{".sst"},
		Purposes: []Purpose{
			{module + ".(*DB).getInternal", ForGets},
			{module + ".(*DB).flush1", ForFlush},
			{module + ".(*DB).compact1", ForCompaction},
			{module + ".(*DB).compact", ForCompaction},
			{module + ".(*DB).runCompaction", ForCompaction},
			{module + ".(*Iterator).", ForIterators},
		},
	}
}

// AllWatched are the engines that can be watched.
func AllWatched() []Watched {
	return []Watched{
		watchedPebble("pebble1", "github.com/cockroachdb/pebble", "v0.0.0-", "v1.0.", "v1.1."),
		watchedPebble("pebble2", "github.com/cockroachdb/pebble/v2", "v2.0.", "v2.1."),
	}
}

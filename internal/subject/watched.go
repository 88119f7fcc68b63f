package subject

import "slices"

// Watched tells how the Gets of an engine are seen in a process of somebody else's that runs it,
// as internal/observe/probe needs it.
type Watched struct {
	Engine string
	// Module is the Go module that holds the engine. "": it is a library in C++, by itself or in
	// the program, whose Gets are found by their symbols. A symbol names the types of all
	// parameters, so a version that has others is not taken for this one.
	Module   string
	Versions []string // of the module: beginnings of those whose functions are as described here

	Gets     []Function // of which a Get runs one, once; those that the binary has are watched
	Batches  []Batch    // of which a lookup of many keys runs one, once
	Together []Together // which make the Gets of such a lookup, or of a part of its keys
	Seeks    []string   // functions or symbols: a Seek of an iterator runs one, or several
	// CalledSeeks are functions in Go that Gets run, too. They are watched where others call them,
	// so that a Get costs no more for it.
	CalledSeeks   []string
	TableSuffixes []string // of the names of files with keys and values
	// SharedStrings is a symbol that a library in C++ has if its strings are those of the
	// compiler's library before GCC 5.
	SharedStrings string
	Purposes      []Purpose
	// NameAt is where, in what a family's address leads to, its name lies as an address and a
	// length, in an engine whose families are tables of a file that is mapped into memory.
	NameAt int
}

// Function is one that makes Gets. Registers are counted over the integer registers of Go's calling
// convention, from 0; in C++ that of the address of the result is 0, and that of the object 1.
type Function struct {
	Name string // or symbol
	// DatabaseAt is the register of the address of the database's handle.
	DatabaseAt int
	// KeyAt is the register of the key's address, and the next one holds its length. In C++ it
	// holds the address of both.
	KeyAt int
	// FoundAt is the register of the result that is not zero for a key that was found, and ErrorAt
	// that of the error's value, of which all absent keys have the same one. In C++ the first byte
	// of the result is both: zero for a key that was found.
	FoundAt, ErrorAt int
	Inverted         bool // FoundAt is zero for a key that was found
	Bool             bool // FoundAt is a bool: the rest of the register means nothing
	// FamilyAt is the register of the address of the column family's handle; 0, and no FamilyVia:
	// there is none. In Go, FamilyIndexAt is the register of its place among records of FamilyBytes
	// each, which begin at that address; 0: there is but one.
	FamilyAt      int
	FamilyIndexAt int
	FamilyBytes   int
	// The address of the database, that of the family and, in Go, that of the error may have to be
	// followed: to the word that lies so many bytes behind it, and from there on. What an error
	// leads to is a number of 4 bytes.
	DatabaseVia, FamilyVia, ErrorVia []int
	// OperationAt is the register of what the function is to do; 0: it makes Gets alone. In what it
	// does else, nothing is seen of it.
	OperationAt int
	Operations  map[int]string // ForGets, or ForIterators, as a Seek of which it counts
	// SecondAt is, in Go, the register of the address of a second part of the key, for which a
	// table is asked that keeps several values of a key in order: what is found at or behind it. It
	// is absent if the value, with its address in the register ValueAt, begins otherwise. 0: there
	// is none.
	SecondAt, ValueAt int
}

// Batch is a function that looks many keys up at once, whose keys are counted.
type Batch struct {
	Name string // its symbol
	// KeysAt is the register of the number of keys, counted as those of a Function though nothing
	// is a result, or, with InVector, of the address of the vector of their slices.
	KeysAt   int
	InVector bool
}

// Together is a function that looks keys of a batch up, and returns in the thread that called it.
// Registers are counted as those of a Function.
//
// A batch that is made together has a context of each key, whose addresses are in a vector with
// room of its own for the first 32: how many of them are there, the room, its address, and a vector
// of the others. A context begins with the address of the key's slice; its family and the address
// of its outcome are the ninth and the tenth word. Nothing says so in the binary, so it is believed
// where the vector holds its own address, and the family is one of the database's.
//
// Keys that are looked up one by one are in a vector of slices, with one of their families beside
// it, and one of outcomes as the result.
type Together struct {
	Name       string // its symbol
	DatabaseAt int
	KeysAt     int // the address of the vector of contexts, or of slices
	// FromAt and CountAt are the number of the first context and of how many.
	FromAt, CountAt int
	// FamiliesAt is the address of the vector of families of keys that are looked up one by one; 0:
	// the keys have contexts.
	FamiliesAt int
}

// OneByOne reports whether each key is looked up as a Get looks it up.
func (t Together) OneByOne() bool { return t.FamiliesAt > 0 }

// Purpose names why a table is read outside a Get: by a function on the stack of the reader, or, in
// C++, where stacks do not tell, by the name of its thread. The first that is there counts.
type Purpose struct{ By, Name string }

// Purposes of reads.
const (
	ForGets       = "gets"
	ForBatches    = "multi_gets"
	ForCompaction = "compaction"
	ForFlush      = "flush"
	ForIterators  = "iterators"
	ForOther      = "other"
)

// watchedPebble is of both versions, whose functions differ in their module's path alone: func (d
// *DB) getInternal(key []byte, b *Batch, s *Snapshot) ([]byte, io.Closer, error). DB.Get is inlined
// into its callers.
func watchedPebble(engine, module string, versions ...string) Watched {
	return Watched{
		Engine: engine, Module: module, Versions: versions,
		Gets: []Function{{
			Name:    module + ".(*DB).getInternal",
			KeyAt:   1,
			FoundAt: 3,
			ErrorAt: 6,
		}},
		Seeks: methods(module+".(*Iterator).", "SeekGEWithLimit", "SeekPrefixGE",
			"SeekLTWithLimit"),
		CalledSeeks:   methods(module+".(*Iterator).", "First", "Last"),
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

// methods are the names of methods of one type.
func methods(of string, names ...string) (all []string) {
	for _, name := range names {
		all = append(all, of+name)
	}
	return all
}

// watchedLevel is of func (db *DB) get(auxm *memdb.DB, auxt tFiles, key []byte, seq uint64, ro
// *opt.ReadOptions) (value []byte, err error), which serves snapshots and transactions, too, and of
// has, which differs in its result (ret bool, err error).
func watchedLevel(engine, module string, versions ...string) Watched {
	return Watched{
		Engine: engine, Module: module, Versions: versions,
		Gets: []Function{
			{Name: module + "/leveldb.(*DB).get", KeyAt: 5, FoundAt: 3, ErrorAt: 4, Inverted: true},
			{Name: module + "/leveldb.(*DB).has", KeyAt: 5, FoundAt: 0, ErrorAt: 2, Bool: true},
		},
		Seeks:         methods(module+"/leveldb.(*dbIter).", "Seek", "First", "Last"),
		TableSuffixes: []string{".ldb", ".sst"},
		Purposes: []Purpose{
			{module + "/leveldb.(*DB).get", ForGets},
			{module + "/leveldb.(*DB).has", ForGets},
			{module + "/leveldb.(*DB).memCompaction", ForFlush},
			{module + "/leveldb.(*DB).tableCompaction", ForCompaction},
			{module + "/leveldb.(*dbIter).", ForIterators},
		},
	}
}

// std::string in symbols of C++: since GCC 5, and before it.
const (
	stringSymbol       = "NSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"
	sharedStringSymbol = "Ss"
)

// watchedBlockTables is of the functions that all single Gets of RocksDB pass, those of
// transactions and of its C and Java interfaces included.
func watchedBlockTables(engine string) Watched {
	const (
		options = "ERKNS_11ReadOptionsE"
		slice   = "RKNS_5SliceE"
		// Get(ReadOptions const&, ColumnFamilyHandle*, Slice const&, PinnableSlice*, std::string*
		// timestamp)
		get = options + "PNS_18ColumnFamilyHandleE" + slice + "PNS_13PinnableSliceEP"
	)

	// GetImpl(ReadOptions const&, Slice const& key, GetImplOptions&), whose options begin with the
	// family.
	behind := func(symbol string) Function {
		return Function{Name: symbol, DatabaseAt: 1, KeyAt: 3, FamilyAt: 4, FamilyVia: []int{0}}
	}
	direct := func(symbol string) Function {
		return Function{Name: symbol, DatabaseAt: 1, KeyAt: 4, FamilyAt: 3}
	}

	w := Watched{
		Engine: engine,
		Gets: []Function{
			behind("_ZN7rocksdb6DBImpl7GetImpl" + options + slice + "RNS0_14GetImplOptionsE"),
			behind("_ZN7rocksdb14DBImplReadOnly7GetImpl" + options + slice +
				"RNS_6DBImpl14GetImplOptionsE"),
			behind("_ZN7rocksdb15DBImplSecondary7GetImpl" + options + slice +
				"RNS_6DBImpl14GetImplOptionsE"),
		},
		Batches:  blockTableBatches(),
		Together: blockTablesTogether(),
		Seeks: []string{
			"_ZN7rocksdb6DBIter4SeekERKNS_5SliceE",
			"_ZN7rocksdb6DBIter11SeekForPrevERKNS_5SliceE",
			"_ZN7rocksdb6DBIter11SeekToFirstEv",
			"_ZN7rocksdb6DBIter10SeekToLastEv",
		},
		// string const& ColumnFamilyHandleImpl::GetName() const; with newer strings, the symbol
		// says so
		SharedStrings: "_ZNK7rocksdb22ColumnFamilyHandleImpl7GetNameEv",
		TableSuffixes: []string{".sst"},
		Purposes: []Purpose{
			{"rocksdb:low", ForCompaction},
			{"rocksdb:bottom", ForCompaction},
			{"rocksdb:high", ForFlush},
		},
	}

	for _, stringType := range []string{stringSymbol, sharedStringSymbol} {
		w.Gets = append(w.Gets,
			// Before version 8:
			direct("_ZN7rocksdb14DBImplReadOnly3Get"+get+stringType),
			direct("_ZN7rocksdb15DBImplSecondary7GetImpl"+get+stringType),
			// Of a database whose tables are all on one level, opened for reading only:
			direct("_ZN7rocksdb15CompactedDBImpl3Get"+get+stringType))
	}

	return w
}

// blockTableBatches are the functions of which a MultiGet of RocksDB runs one, those of
// transactions and of its C and Java interfaces included.
func blockTableBatches() (all []Batch) {
	// PrepareMultiGetKeys(size_t keys, bool sorted, autovector<KeyContext*, 32>*)
	all = append(all, Batch{
		Name: "_ZN7rocksdb6DBImpl19PrepareMultiGetKeysEmbPNS_10autovectorIPNS_10KeyContextELm32E" +
			"EE",
		KeysAt: 2,
	})

	// MultiGet(ReadOptions const&, size_t keys, ColumnFamilyHandle**, ...) of a database whose
	// tables are all on one level, opened for reading only.
	for _, stringType := range []string{stringSymbol, sharedStringSymbol} {
		all = append(all, Batch{
			Name: "_ZN7rocksdb15CompactedDBImpl8MultiGetERKNS_11ReadOptionsEmPPNS_18ColumnFamily" +
				"HandleEPKNS_5SliceEPNS_13PinnableSliceEP" + stringType + "PNS_6StatusEb",
			KeysAt: 3,
		})
	}

	for _, symbol := range vectorBatches() {
		all = append(all, Batch{Name: symbol, KeysAt: 4, InVector: true})
	}

	return all
}

// vectorBatches are, before version 9, MultiGet(ReadOptions const&, vector<ColumnFamilyHandle*>
// const&, vector<Slice> const&, vector<string>*, vector<string>* timestamps), which the one without
// timestamps calls.
func vectorBatches() (symbols []string) {
	const vectors = "8MultiGetERKNS_11ReadOptionsERKSt6vectorIPNS_18ColumnFamilyHandleESaIS6_" +
		"EERKS4_INS_5SliceESaISB_EEPS4_"
	const strings, oldStrings = "I" + stringSymbol + "SaISL_EE",
		"I" + sharedStringSymbol + "SaISsEE"
	for _, of := range []string{"6DBImpl", "15CompactedDBImpl"} {
		symbols = append(symbols, "_ZN7rocksdb"+of+vectors+strings+"SO_",
			"_ZN7rocksdb"+of+vectors+oldStrings+"SI_")
	}
	return symbols
}

// blockTablesTogether are the functions that look the keys of a MultiGet up, but for those of a
// database whose tables are all on one level, opened for reading only by version 9 or later.
func blockTablesTogether() (all []Together) {
	// MultiGetImpl(ReadOptions const&, size_t from, size_t keys, autovector<KeyContext*, 32>*,
	// SuperVersion*, SequenceNumber, ReadCallback*), of the keys of one family.
	all = append(all, Together{
		Name: "_ZN7rocksdb6DBImpl12MultiGetImplERKNS_11ReadOptionsEmmPNS_10autovectorIPNS_" +
			"10KeyContextELm32EEEPNS_12SuperVersionEmPNS_12ReadCallbackE",
		DatabaseAt: 1,
		FromAt:     3,
		CountAt:    4,
		KeysAt:     5,
	})
	for _, symbol := range vectorBatches() {
		all = append(all, Together{Name: symbol, DatabaseAt: 1, FamiliesAt: 3, KeysAt: 4})
	}
	return all
}

// AllWatched are the engines that can be watched.
func AllWatched() []Watched {
	return []Watched{
		watchedPebble("pebble1", "github.com/cockroachdb/pebble", "v0.0.0-", "v1.0.", "v1.1."),
		watchedPebble("pebble2", "github.com/cockroachdb/pebble/v2", "v2.0.", "v2.1."),
		watchedLevel("goleveldb", "github.com/syndtr/goleveldb", "v1.0."),
		watchedBlockTables("rocksdb"),
	}
}

// watchedMapped is of a wrapper in Go of a library in C: func (txn *Txn) Get(dbi DBI, key []byte)
// ([]byte, error), and func (c *Cursor) Get(setkey, setval []byte, op uint) (key, val []byte, err
// error). Txn begins with the address of Env, whose first word is that of the library's
// environment, and that of the library's transaction; Cursor with the address of Txn and that of
// the library's cursor.
//
// The library's structures differ between its versions: records leads from a transaction to the
// records of all tables, record from a cursor to that of its table, and name lies in each. failed
// leads from an error to its number; nil: errors of absent keys are one value.
func watchedMapped(
	engine, module, version string, records []int, record, name int, failed []int,
) Watched {
	const recordBytes = 64
	const getBoth, getBothRange, set, setKey = 2, 3, 15, 16
	const first, last, setRange, lowerBound, upperBound = 0, 6, 17, 19, 20
	operations := map[int]string{}
	for _, get := range []int{getBoth, getBothRange, set, setKey} {
		operations[get] = ForGets
	}

	for _, seek := range []int{first, last, setRange, lowerBound, upperBound} {
		operations[seek] = ForIterators
	}

	return Watched{
		Engine: engine, Module: module, Versions: []string{version}, NameAt: name,
		Gets: []Function{
			{
				Name:          module + "/mdbx.(*Txn).Get",
				DatabaseVia:   []int{0, 0},
				KeyAt:         2,
				FamilyVia:     append([]int{8}, records...),
				FamilyIndexAt: 1,
				FamilyBytes:   recordBytes,
				FoundAt:       3,
				ErrorAt:       4,
				ErrorVia:      failed,
				Inverted:      true,
			},
			{
				Name:        module + "/mdbx.(*Cursor).Get",
				DatabaseVia: []int{0, 0, 0},
				KeyAt:       1,
				FamilyVia:   []int{8, record},
				FoundAt:     6,
				ErrorAt:     7,
				ErrorVia:    failed,
				Inverted:    true,
				SecondAt:    4,
				ValueAt:     3,
				OperationAt: 7,
				Operations:  operations,
			},
		},
	}
}

// AllWatchedMapped are the engines that map their database, of which Gets can be seen beside page
// faults: those of libmdbx 0.12 and 0.13, as Erigon calls them.
func AllWatchedMapped() []Watched {
	const module = "github.com/erigontech/mdbx-go"
	return []Watched{
		watchedMapped("mdbx", module, "v0.27.", []int{72}, 48, 0, []int{8, 0}),
		watchedMapped("mdbx", module, "v0.38.", []int{72}, 48, 0, nil),
		watchedMapped("mdbx", module, "v0.39.", []int{80, 200}, 32, 48, nil),
	}
}

// PageFile tells how a database lies in the one file that its engine maps into memory: pages that
// are numbered from 0, each with a header, which form trees. All numbers are little-endian. Places
// are bytes from the beginning of the page, of a tree's record, or of a node. What the known
// engines have in common is in internal/observe/pagefile.
type PageFile struct {
	Engine string
	Names  []string // of the file, as the engine's users call it

	NumberAt     int // of a page, in its header
	NumberBytes  int
	PointersAt   int // where the pointers to a page's nodes begin
	PointersFrom int // what the header's end of the pointers counts from
	NodesFrom    int // what the pointers count from
	ChildBytes   int // of a page's number in a node of a branch

	MetaPages     int // at the beginning of the file, each with a state of the database
	TransactionAt int // in a meta page: the newest one holds the present state
	TreesAt       int // in a meta page: the records of the free list's tree and of the main one

	// In a tree's record.
	PageBytesAt int // of the free list's: the size of a page
	FlagsAt     int
	DepthAt     int
	RootAt      int
}

// TreeRecordBytes is the size of a tree's record in all known layouts.
const TreeRecordBytes = 48

// IsMapped reports whether an engine maps its database into memory, and has no block cache.
func IsMapped(engine string) bool {
	return slices.ContainsFunc(PageFiles(), func(f PageFile) bool { return f.Engine == engine })
}

// PageFiles are the layouts of the engines that map their file, after their own definitions: struct
// MDB_page, MDB_node, MDB_db and MDB_meta of LMDB 0.9, and page_t, node_t, tree_t and meta_t of
// libmdbx 0.10 to 0.13.
func PageFiles() []PageFile {
	names := []string{"mdbx.dat", "data.mdb"}
	return []PageFile{
		{
			Engine:        "mdbx",
			Names:         names,
			NumberAt:      16,
			NumberBytes:   4,
			PointersAt:    20,
			NodesFrom:     20,
			ChildBytes:    4,
			MetaPages:     3,
			TransactionAt: 28,
			TreesAt:       60,
			PageBytesAt:   4,
			FlagsAt:       0,
			DepthAt:       2,
			RootAt:        8,
		},
		{
			Engine:        "lmdb",
			Names:         names,
			NumberAt:      0,
			NumberBytes:   8,
			PointersAt:    16,
			PointersFrom:  16,
			ChildBytes:    6,
			MetaPages:     2,
			TransactionAt: 144,
			TreesAt:       40,
			PageBytesAt:   0,
			FlagsAt:       4,
			DepthAt:       6,
			RootAt:        40,
		},
	}
}

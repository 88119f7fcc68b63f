package subject

// PageFile tells how a database lies in the one file that its engine maps into memory: pages that are numbered from 0, each
// with a header, which form trees. All numbers are little-endian. Places are bytes from the beginning of the page, of a tree's record,
// or of a node. What the known engines have in common is in internal/observe/pagefile.
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

// PageFiles are the layouts of the engines that map their file, after their own definitions: struct MDB_page, MDB_node, MDB_db and
// MDB_meta of LMDB 0.9, and page_t, node_t, tree_t and meta_t of libmdbx 0.10 to 0.13.
func PageFiles() []PageFile {
	names := []string{"mdbx.dat", "data.mdb"}
	return []PageFile{
		{Engine: "mdbx", Names: names, NumberAt: 16, NumberBytes: 4, PointersAt: 20, NodesFrom: 20, ChildBytes: 4,
			MetaPages: 3, TransactionAt: 28, TreesAt: 60, PageBytesAt: 4, FlagsAt: 0, DepthAt: 2, RootAt: 8},
		{Engine: "lmdb", Names: names, NumberAt: 0, NumberBytes: 8, PointersAt: 16, PointersFrom: 16, ChildBytes: 6,
			MetaPages: 2, TransactionAt: 144, TreesAt: 40, PageBytesAt: 0, FlagsAt: 4, DepthAt: 6, RootAt: 40},
	}
}

package changeset

// Format is a form that change sets are kept in.
type Format string

const (
	FormatContainer Format = "slcs"       // our own: container.go
	FormatIAVLBench Format = "iavl-bench" // directory of delimited protobuf, a file a version
	FormatCronos    Format = "cronos"     // directory of a directory per store, as memiavl's tools write
	FormatNodes     Format = "nodes"      // NNNNNNNN-MMMMMMMM.pb.gz files
	FormatDiffs     Format = "diffs"      // Ethereum's prestateTracer in diffMode, JSON
	FormatGenerated Format = "generated"  // by a profile and a seed
)

package lsmtail

// maxOpenFiles is not limited on Windows.
func maxOpenFiles() (uint64, bool) { return 0, false }

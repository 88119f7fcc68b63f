package blockio

import "sync/atomic"

// Syncs counts what an engine made durable: its calls that return when a file is on the
// device, and the bytes that it had written to the file since the last of them.
type Syncs struct{ calls, bytes atomic.Int64 }

// Total are the calls and bytes so far.
func (s *Syncs) Total() (calls, bytes int64) { return s.calls.Load(), s.bytes.Load() }

// WrittenFile is what a file system needs of a file that an engine writes.
type WrittenFile interface {
	Write(p []byte) (int, error)
	Sync() error
	SyncData() error
	SyncTo(length int64) (full bool, err error)
}

// SyncedFile counts the syncs of a file.
type SyncedFile struct {
	file    WrittenFile
	syncs   *Syncs
	pending atomic.Int64
}

// Synced is file with its syncs counted.
func (s *Syncs) Synced(file WrittenFile) *SyncedFile { return &SyncedFile{file: file, syncs: s} }

func (f *SyncedFile) Write(p []byte) (int, error) {
	n, err := f.file.Write(p)
	f.pending.Add(int64(n))
	return n, err
}

func (f *SyncedFile) Sync() error { return f.count(true, f.file.Sync()) }

func (f *SyncedFile) SyncData() error { return f.count(true, f.file.SyncData()) }

// SyncTo may only ask the kernel to begin.
func (f *SyncedFile) SyncTo(length int64) (bool, error) {
	full, err := f.file.SyncTo(length)
	return full, f.count(full, err)
}

func (f *SyncedFile) count(durable bool, err error) error {
	if durable && err == nil {
		f.syncs.calls.Add(1)
		f.syncs.bytes.Add(f.pending.Swap(0))
	}
	return err
}

// Package mmapdb holds what the adapters of LMDB and libmdbx share, which map one file
// into memory and have one interface, but for the types: whether another process holds
// the file, counters, readers and writers, the choice of a table, and keys sampled with a cursor.
//
// Non-goals: opening environments; other options (internal/adapt/adapter).
package mmapdb

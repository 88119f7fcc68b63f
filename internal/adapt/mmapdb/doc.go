// Package mmapdb holds what adapters of engines that map one file into memory
// share: whether another process holds the file, and keys sampled with a cursor.
//
// Non-goals: opening anything; options (internal/adapt/adapter).
package mmapdb

// Package advise turns what is known of a database and its node into a
// recommendation: how large the cache must be, what that brings, which flags do
// it, and whether the disk is the limit at all.
//
// Everything comes in as values: a level table, the settings the node runs with
// (settings.go), a disk's probe (disk.go), the operator's limits. Draw predicts
// the curve (curve.go), Judge reads it (judge.go, memory.go, clients.go,
// reasons.go), Text prints the judgement.
//
// Non-goals: opening a database, measuring, probing a disk: the verb does that.
package advise

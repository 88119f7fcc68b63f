// Package host knows the machine under a measurement: what the kernel counts
// for this process and its block devices, what the page cache holds, which facts
// can move a number, and what would spoil one.
//
// Goals: every figure names its source; what cannot be measured here is an error
// with words, never a zero.
// Non-goals: the engine's own counters (package blockio and the adapters), and
// kernels other than Linux.
package host

// Version of statelab; CHANGELOG.md tells what moved a number in it.
const Version = "0.1.0"

// What is set when a program is loaded. The verifier takes it for constants: what is not reached
// with these values is removed.
#pragma once

#include "kernel.h"

// The process that is watched: its namespace of process numbers, and its number there.
const volatile struct process {
	u64 device;
	u64 inode;
	u32 id;
	bool native; // in C++, not in Go
} process = {};

// Words that hold what the compiler of Go or the kernel's ABI puts there.
const volatile struct machine {
	u32 goroutine;
	u32 fault_address;
} machine = {};

// The function that a program is loaded for: words of its arguments and results.
const volatile struct function {
	u32 number; // of the engine's
	u32 database;
	u32 key; // its address; in C++ that of a slice
	u32 key_bytes;
	u32 found;
	u32 error;
	u32 family;
	bool family_in; // it holds the address of the address

	// Of those that look many keys up.
	u32 keys;
	bool keys_in; // a vector of slices, not their number
	u32 from;
	u32 count;
	u32 families;
	u32 outcomes; // their address, also that of a Get's in C++
	bool one_by_one;
} function = {};

// is_process tells whether this thread is one of the process.
static __always_inline bool is_process(void)
{
	struct bpf_pidns_info ids = {};
	return !bpf_get_ns_current_pid_tgid(process.device, process.inode, &ids, sizeof(ids)) &&
	       ids.tgid == process.id;
}

static __always_inline void add(u64 *to, u64 some)
{
	__sync_fetch_and_add(to, some);
}

// read_user reads memory of the process; what is not there is 0.
#define read_user(to, bytes, address) bpf_probe_read_user(to, bytes, (const void *)(address))

// APART keeps what many processors write, and what all read, in cache lines of their own.
#define APART __attribute__((aligned(64)))

#define MAX_ACTIVE (1 << 14)  // calls, reads or faults at one time
#define RING_BYTES (16 << 20) // of events that wait for the reader

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, RING_BYTES);
} events SEC(".maps");

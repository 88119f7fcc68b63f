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

#define MAX_STEPS 4

// A word, or what it leads to: the word that lies so many bytes behind it, and so on.
struct place {
	u32 word;
	u32 steps;
	u32 via[MAX_STEPS];
};

// The function that a program is loaded for: words of its arguments and results.
const volatile struct function {
	u32 number; // of the engine's
	struct place database;
	u32 key; // its address; in C++ that of a slice
	u32 key_bytes;
	u32 found;
	struct place error;
	struct place family;
	u32 family_index; // with family_bytes: among records of so many bytes
	u32 family_bytes;
	// What it is to do, and the bits of what makes it a Get or a Seek; 0: it always makes a Get.
	u32 operation;
	u64 get_operations;
	u64 seek_operations;
	// With has_second: a second part of the key, with which the value of a key that is found
	// begins.
	u32 second;
	u32 second_bytes;
	u32 value;
	bool has_second;

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

// CACHE_ALIGNED avoids false sharing of what many processors write with what all of them read.
#define CACHE_ALIGNED __attribute__((aligned(64)))

#define MAX_ACTIVE (1 << 14)  // calls, reads or faults at one time
#define RING_BYTES (16 << 20) // of events that wait for the reader

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, RING_BYTES);
} events SEC(".maps");

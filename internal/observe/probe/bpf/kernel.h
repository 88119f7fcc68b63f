// What is read of the kernel's structures: only these members, wherever a kernel has them.
#pragma once

#include <linux/bpf.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;
typedef __s32 s32;
typedef __s64 s64;
typedef _Bool bool;

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct super_block {
	u32 s_dev;
};

struct inode {
	u16 i_mode;
	unsigned long i_ino;
	u32 i_generation;
	struct super_block *i_sb;
};

struct file {
	struct inode *f_inode;
	s64 f_pos;
};

struct fdtable {
	struct file **fd;
};

struct files_struct {
	struct fdtable *fdt;
};

struct task_struct {
	struct files_struct *files;
	struct reclaim_state *reclaim_state;
};

// A request of io_uring: one that reads begins with a kiocb.
struct io_kiocb {
	u8 opcode;
};

struct kiocb {
	struct file *ki_filp;
	s64 ki_pos;
};

struct address_space {
	struct inode *host;
};

struct folio {
	unsigned long flags;
	struct address_space *mapping;
	unsigned long index;
	unsigned long memcg_data;
	unsigned long _flags_1; // its lowest byte is the order
};

// Since Linux 6.18. What follows ___ does not count as a part of the name.
struct folio___typed {
	struct {
		unsigned long f;
	} flags;
};

enum pageflags {
	PG_head,
};

// The records of tracepoints.
struct trace_event_raw_sys_enter {
	unsigned long args[6];
};

struct trace_event_raw_sys_exit {
	long ret;
};

struct trace_event_raw_io_uring_complete {
	void *req;
	int res;
};

struct trace_event_raw_block_bio {
	u32 dev;
	u32 nr_sector;
	char rwbs[8];
};

#pragma clang attribute pop

// The registers of a process where a probe hit, or of a thread that faulted, and what follows them.
struct words {
	u64 word[36];
} __attribute__((preserve_static_offset));

// word is one of them. The verifier accepts constant offsets alone; it knows which case is taken,
// because at is a constant for it, and removes the others.
static __always_inline u64 word(const struct words *context, u32 at)
{
	switch (at) {
#define WORD(n) case n: return context->word[n];
	WORD(0) WORD(1) WORD(2) WORD(3) WORD(4) WORD(5) WORD(6) WORD(7)
	WORD(8) WORD(9) WORD(10) WORD(11) WORD(12) WORD(13) WORD(14) WORD(15)
	WORD(22) WORD(28) WORD(35)
#undef WORD
	}
	return 0;
}

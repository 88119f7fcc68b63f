/* SPDX-License-Identifier: Apache-2.0
 *
 * statelab_state.h: the interface of a layout of blockchain state (accounts with
 * storage, changed block by block) that statelab loads as a shared library.
 *
 * The rules of statelab_engine.h about MEMORY, THREADS, ERRORS and UNITS hold here,
 * too. The library exports one symbol,
 * statelab_state_v1, which returns a table of functions. Every function pointer
 * must be set.
 *
 * Non-goals: code, receipts, proofs that leave the library, old blocks.
 */
#ifndef STATELAB_STATE_H
#define STATELAB_STATE_H

#include "statelab_engine.h"

#ifdef __cplusplus
extern "C" {
#endif

#define STATELAB_STATE_ABI 1

typedef struct statelab_state statelab_state;
typedef struct statelab_state_reader statelab_state_reader;

/* A Keccak-256 hash. Accounts are named by the hash of their address, slots by the hash
 * of their key. The library hashes neither again to make its own key, unless its keys
 * are not a pair of 32 bytes. */
typedef struct {
	uint8_t bytes[32];
} statelab_hash;

typedef struct {
	uint64_t nonce;
	uint8_t balance[32]; /* big endian */
	statelab_hash code;  /* of an account without code: the hash of empty code */
} statelab_account;

/* A storage slot after a block: 1 to 32 bytes without leading zeros; 0 bytes delete it. */
typedef struct {
	statelab_hash key;
	uint8_t value[32];
	int32_t value_bytes;
} statelab_slot;

/* The options of open. 0 means the layout's default. */
typedef struct {
	const char *directory;  /* of the state; "" in check if it is not known yet */
	const char *profile;    /* one of the table's */
	int32_t create;         /* 1: create a state in the directory, which statelab has created and which is
	                           empty except for a folder "lost+found". 0: open the existing state */
	int32_t read_only;      /* 1: statelab will not change or commit anything. Recovery may write. */
	int64_t memory_bytes;   /* everything that the layout keeps in memory: caches, indexes, write buffers */
	uint64_t accounts_hint; /* expected final number of accounts, for structures whose size is fixed
	                           at creation; 0: unknown */
	uint64_t slots_hint;    /* storage slots of all accounts, likewise */
	size_t settings_count;  /* the user's own options (--set NAME=VALUE), by the layout's names */
	const statelab_setting *settings;
} statelab_state_options;

/* A way to run the layout, such as "value" or "prove". The first is the default. */
typedef struct {
	const char *name;
	const char *about;
} statelab_profile;

/* What a reader's lookups have accessed so far, cached or not; -1 if the layout does not
 * count it. */
typedef struct {
	int64_t nodes; /* of the layout's tree, the leaf included */
	int64_t pages; /* of the layout's own pages */
} statelab_touched;

typedef struct {
	uint32_t abi;          /* STATELAB_STATE_ABI */
	uint32_t struct_bytes; /* sizeof(statelab_layout) */

	const char *name;       /* of the layout: "nomt" */
	const char *version;    /* of the code behind it, not of this library */
	const char *licence;    /* SPDX */
	const char *root;       /* "own": commit returns a commitment of the layout's own; "none": zeros;
	                           "ethereum-mpt": the root of Ethereum's Merkle-Patricia trie */
	const char *durability; /* what survives a kill, and what a power cut, after commit */
	const char *history;    /* which old states stay readable */
	const statelab_profile *profiles; /* ends with a name that is NULL; at least one */

	/* Reports all mistakes in the options without accessing a file: unknown settings,
	 * invalid values, each with a valid example, one per line. */
	int32_t (*check)(const statelab_state_options *, statelab_error *);

	/* Opens the state at its newest committed block. */
	int32_t (*open)(const statelab_state_options *, statelab_state **, statelab_error *);
	/* The handle is invalid afterwards, also on failure. */
	int32_t (*close)(statelab_state *, statelab_error *);

	/* The newest committed block and its root; for a new state 0 and the root of the empty
	 * state. It is called after every commit and must answer from memory. */
	void (*head)(statelab_state *, uint64_t *block, statelab_hash *root);

	/* Adds one account's changes to the block being built; account NULL deletes it with
	 * all its storage (a layout that cannot do this fails with a message). An account comes
	 * at most once per block. Changes are invisible to readers before commit. */
	int32_t (*change)(statelab_state *, const statelab_hash *name, const statelab_account *account, const statelab_slot *slots,
	                  size_t slots_count, statelab_error *);
	/* Ends the block. Returns when the block would survive a kill of the process. After a
	 * failure the state may refuse all calls except close. */
	int32_t (*commit)(statelab_state *, statelab_hash *root, statelab_error *);

	/* A reader sees the newest committed block as a whole; a lookup sees a concurrent commit
	 * completely or not at all. */
	int32_t (*reader_open)(statelab_state *, statelab_state_reader **, statelab_error *);
	void (*reader_close)(statelab_state_reader *);
	/* The calls that are measured. They return OK or MISSING. slot need not fill the slot's key. */
	int32_t (*account)(statelab_state_reader *, const statelab_hash *name, statelab_account *, statelab_error *);
	int32_t (*slot)(statelab_state_reader *, const statelab_hash *name, const statelab_hash *key, statelab_slot *, statelab_error *);
	void (*touched)(statelab_state_reader *, statelab_touched *);

	/* Returns when no background work is left, but not much later than wait_ms: it then
	 * returns WORKING and the remaining work. */
	int32_t (*settle)(statelab_state *, int64_t wait_ms, statelab_settling *, statelab_error *);

	/* These fill at most capacity entries and return the number of entries, as in
	 * statelab_engine.h. Stats, all optional: reads, read_bytes (below the layout's
	 * cache: blocks, pages, entries), writes, write_bytes, nodes_new (tree nodes written). */
	size_t (*stats)(statelab_state *, statelab_stat *, size_t capacity);
	size_t (*memory)(statelab_state *, statelab_memory *, size_t capacity);
	size_t (*effective)(statelab_state *, statelab_setting *, size_t capacity);
} statelab_layout;

/* What the library exports. */
#if defined(__GNUC__)
__attribute__((visibility("default")))
#endif
const statelab_layout *statelab_state_v1(void);

#ifdef __cplusplus
}
#endif

#endif

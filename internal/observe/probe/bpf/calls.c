// Gets, Seeks and lookups of many keys, each noted under its goroutine, or in C++ its thread,
// until it ends.

#define MAX_KEY_BYTES 256

enum event_kind {
	GET = 1,
	READ,
	KEY, // of a lookup of many keys, reported as a Get
	TOGETHER,
	SEEK,
};

struct call {
	u16 kind;
	u16 function; // its number
	u32 key_bytes;
	u64 start;
	u64 end;
	u64 goroutine;
	u64 error;
	u64 found; // the register
	u64 reads;
	u64 database;
	u64 family;
	u32 second_bytes; // of the key's second part, behind key_bytes
	u32 passed;       // what was found begins with another second part
};

struct get {
	struct call call;
	u8 key[MAX_KEY_BYTES];
};

// A slice in C++, and what Go passes of one.
struct slice {
	u64 data;
	u64 bytes;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_ACTIVE);
	__type(key, u64);
	__type(value, struct get);
} calls SEC(".maps");

// Not 0 while a window is open.
CACHE_ALIGNED u64 window;

CACHE_ALIGNED struct lost {
	u64 gets;
	u64 reads;
} lost;

// The lookups of many keys so far, and their keys.
CACHE_ALIGNED struct batches {
	u64 calls;
	u64 keys;
} batches;

// caller is who makes the call: the goroutine, or in C++ the thread.
static __always_inline u64 caller(const struct words *context)
{
	return process.native ? bpf_get_current_pid_tgid() : word(context, machine.goroutine);
}

// load_place reads the word that a place leads to.
static __always_inline u64 load_place(const struct words *context,
				      const volatile struct place *place)
{
	u64 at = word(context, place->word);
#pragma unroll
	for (u32 i = 0; i < MAX_STEPS; i++)
		if (i < place->steps)
			read_user(&at, sizeof(at), at + place->via[i]);
	return at;
}

static __always_inline void begin(struct get *get, const struct words *context, u16 kind)
{
	get->call.kind = kind;
	get->call.function = function.number;
	get->call.goroutine = caller(context);
	get->call.start = bpf_ktime_get_ns();
	get->call.database = load_place(context, &function.database);
}

// activate notes a call. One that did not end (it panicked) is overwritten by the next one.
static __always_inline void activate(const struct get *get)
{
	u64 who = get->call.goroutine;
	if (bpf_map_update_elem(&calls, &who, get, BPF_ANY))
		add(&lost.gets, 1);
}

// read_key reads a key, or the beginning of a long one.
static __always_inline void read_key(struct get *get, const struct slice *key)
{
	u64 bytes = key->bytes;
	get->call.key_bytes = bytes;
	if (bytes > MAX_KEY_BYTES)
		bytes = MAX_KEY_BYTES;
	barrier_var(bytes);
	read_user(get->key, bytes, key->data);
}

// report reports what is known of a call behind its head, too.
static __always_inline void report(const void *call, u64 bytes)
{
	if (bpf_ringbuf_output(&events, (void *)call, sizeof(struct call) + bytes, 0))
		add(&lost.gets, 1);
}

#define MAX_FIRST 127 // bytes of a key that has a second part
#define MAX_SECOND 128
#define MAX_COMPARED 32

// read_second reads the second part of a key behind the first one.
static __always_inline void read_second(struct get *get, const struct words *context)
{
	u64 first = get->call.key_bytes, bytes = word(context, function.second_bytes);
	if (first > MAX_FIRST || !bytes)
		return;

	if (bytes > MAX_SECOND)
		bytes = MAX_SECOND;
	get->call.second_bytes = bytes;
	barrier_var(bytes);
	barrier_var(first);
	if (first <= MAX_FIRST && bytes <= MAX_SECOND)
		read_user(get->key + first, bytes, word(context, function.second));
}

// passed tells whether the value that was found begins with another second part.
static __always_inline bool passed(const struct get *get, const struct words *context)
{
	struct part {
		u64 words[MAX_COMPARED / 8];
	} asked = {}, found = {};
	u64 first = get->call.key_bytes, bytes = get->call.second_bytes;
	if (bytes > MAX_COMPARED)
		bytes = MAX_COMPARED;
	barrier_var(bytes);
	barrier_var(first);
	if (first > MAX_FIRST || bytes > MAX_COMPARED)
		return 0;

	bpf_probe_read_kernel(&asked, bytes, get->key + first);
	read_user(&found, bytes, word(context, function.value));
	u64 differs = 0;
#pragma unroll
	for (int i = 0; i < MAX_COMPARED / 8; i++)
		differs |= asked.words[i] ^ found.words[i];
	return differs;
}

static __always_inline void report_key(const struct get *get)
{
	u64 bytes = get->call.key_bytes + get->call.second_bytes;
	if (bytes > MAX_KEY_BYTES)
		bytes = MAX_KEY_BYTES;
	barrier_var(bytes);
	report(get, bytes);
}

SEC("uprobe")
int get_begins(const struct words *context)
{
	struct get get = {};
	struct slice key = {};
	u16 kind = GET;
	if (function.get_operations) {
		u64 bit = 1ULL << (word(context, function.operation) & 63);
		if (bit & function.seek_operations)
			kind = SEEK;
		else if (!(bit & function.get_operations))
			return 0;
	}

	begin(&get, context, kind);
	get.call.family = load_place(context, &function.family);

	// The key is read now: it may lie on a stack that moves.
	if (process.native) {
		get.call.error = word(context, function.outcomes); // no register has to hold it at the end
		read_user(&key, sizeof(key), word(context, function.key));
	} else {
		u64 index = (u32)word(context, function.family_index);
		get.call.family += index * function.family_bytes;
		key.data = word(context, function.key);
		key.bytes = word(context, function.key_bytes);
	}

	read_key(&get, &key);
	if (function.has_second)
		read_second(&get, context);
	activate(&get);
	return 0;
}

SEC("uprobe")
int get_ends(const struct words *context)
{
	u64 who = caller(context);
	struct get *get = bpf_map_lookup_elem(&calls, &who);
	if (!get)
		return 0;

	get->call.end = bpf_ktime_get_ns();
	if (process.native) {
		u8 status = 0;
		read_user(&status, sizeof(status), get->call.error);
		get->call.found = get->call.error = status;
	} else {
		get->call.found = word(context, function.found);
		get->call.error = load_place(context, &function.error);
		if (function.has_second && get->call.second_bytes)
			get->call.passed = passed(get, context);
	}

	report_key(get);
	bpf_map_delete_elem(&calls, &who);
	return 0;
}

SEC("uprobe")
int seek_begins(const struct words *context)
{
	struct get seek = {};
	begin(&seek, context, SEEK);
	activate(&seek);
	return 0;
}

SEC("uprobe")
int seek_ends(const struct words *context)
{
	u64 who = caller(context);
	struct get *seek = bpf_map_lookup_elem(&calls, &who);
	// It ended in another one, or a Get began in it.
	if (!seek || seek->call.kind != SEEK)
		return 0;

	seek->call.end = bpf_ktime_get_ns();
	report(seek, 0);
	bpf_map_delete_elem(&calls, &who);
	return 0;
}

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
APART u64 window;

APART struct lost {
	u64 gets;
	u64 reads;
} lost;

// The lookups of many keys so far, and their keys.
APART struct batches {
	u64 calls;
	u64 keys;
} batches;

// caller is who makes the call: the goroutine, or in C++ the thread.
static __always_inline u64 caller(const struct words *context)
{
	return process.native ? bpf_get_current_pid_tgid() : word(context, machine.goroutine);
}

static __always_inline void begin(struct get *get, const struct words *context, u16 kind)
{
	get->call.kind = kind;
	get->call.function = function.number;
	get->call.goroutine = caller(context);
	get->call.start = bpf_ktime_get_ns();
	get->call.database = word(context, function.database);
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

static __always_inline void report_key(const struct get *get)
{
	u64 bytes = get->call.key_bytes;
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
	begin(&get, context, GET);

	// The key is read now: it may lie on a stack that moves.
	if (process.native) {
		u64 family = word(context, function.family);
		get.call.error = word(context, function.outcomes); // no register has to hold it at the end
		read_user(&key, sizeof(key), word(context, function.key));
		if (function.family_in)
			read_user(&get.call.family, sizeof(get.call.family), family);
		else
			get.call.family = family;
	} else {
		key.data = word(context, function.key);
		key.bytes = word(context, function.key_bytes);
	}

	read_key(&get, &key);
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
		get->call.error = word(context, function.error);
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

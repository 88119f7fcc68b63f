// Calls that look many keys up, which C++ alone has. They are noted as Gets are, with their
// arguments in place of a key.

#define MAX_TOGETHER 512 // keys of one call that are read; more are counted

// The vector of contexts has room for so many of its own.
#define ROOM 32

struct together {
	struct call call;
	u64 keys;     // of the vector of contexts, or of the first slice
	u64 families; // of the vector
	u64 from;
	u64 count;
	u64 outcomes; // of the vector, or of the first one
	u64 stride;   // bytes from one outcome to the next
};

// A std::vector.
struct vector {
	u64 begin;
	u64 end;
};

// The vector of contexts: how many are in its own room, that room, its address, and the others.
struct contexts {
	u64 in_room;
	u64 room[ROOM];
	u64 address;
	struct vector others;
};

// A key's context, as far as it is known.
struct context {
	u64 slice;
	u64 unread[7];
	u64 family;
	u64 outcome;
};

#define OFFSET(type, member) __builtin_offsetof(struct type, member)

SEC("uprobe")
int batch_begins(const struct words *context)
{
	if (!window)
		return 0;

	u64 keys = word(context, function.keys);
	if (function.keys_in) {
		struct vector slices = {};
		read_user(&slices, sizeof(slices), keys);
		keys = (slices.end - slices.begin) / sizeof(struct slice);
	}

	add(&batches.calls, 1);
	add(&batches.keys, keys);
	return 0;
}

// keys_begin notes a call under its thread, whose reads are its own from now on.
SEC("uprobe")
int keys_begin(const struct words *context)
{
	struct get get = {};
	struct together *together = (void *)&get;
	begin(&get, context, TOGETHER);
	together->keys = word(context, function.keys);
	if (function.one_by_one) {
		together->families = word(context, function.families);
		together->outcomes = word(context, function.outcomes);
	} else {
		together->from = word(context, function.from);
		together->count = word(context, function.count);
	}

	activate(&get);
	return 0;
}

// contexts_of looks at the vector of the keys' contexts: how many keys there are, and the contexts
// behind its own room. Without its own address in it, or with fewer contexts than the call was said
// to have, it is another one than is known here.
static __always_inline u64 contexts_of(const struct together *together, u64 *others)
{
	struct {
		u64 address;
		struct vector others;
	} behind = {};
	u64 in_room = 0;
	read_user(&behind, sizeof(behind), together->keys + OFFSET(contexts, address));
	read_user(&in_room, sizeof(in_room), together->keys + OFFSET(contexts, in_room));

	u64 all = in_room + (behind.others.end - behind.others.begin) / sizeof(u64);
	if (behind.address != together->keys + OFFSET(contexts, room) || in_room > ROOM ||
	    together->from + together->count > all)
		return 0;

	*others = behind.others.begin;
	return together->count;
}

// context_key finds a key by its context.
static __always_inline void context_key(
	const struct together *together, u64 number, u64 others, struct get *get, struct slice *key)
{
	u64 at = together->from + number;
	at = at < ROOM ? together->keys + OFFSET(contexts, room) + at * sizeof(u64)
		       : others + (at - ROOM) * sizeof(u64);

	struct context *context = (void *)get->key; // until the key is there
	read_user(&at, sizeof(at), at);
	read_user(context, sizeof(*context), at);
	get->call.family = context->family;

	u8 status = 0;
	read_user(&status, sizeof(status), context->outcome);
	get->call.found = get->call.error = status;
	read_user(key, sizeof(*key), context->slice);
}

// slices_of looks at the vectors of the keys, of their families and of their outcomes.
static __always_inline u64 slices_of(struct together *together, u64 *families)
{
	struct vector vector = {};
	read_user(families, sizeof(*families), together->families);

	read_user(&vector, sizeof(vector), together->keys);
	together->keys = vector.begin;
	together->count = (vector.end - vector.begin) / sizeof(struct slice);

	read_user(&vector, sizeof(vector), together->outcomes);
	together->outcomes = vector.begin;
	together->stride = together->count ? (vector.end - vector.begin) / together->count : 0;
	return together->count;
}

// slice_key finds a key, its family and its outcome by their vectors.
static __always_inline void slice_key(
	const struct together *together, u64 number, u64 families, struct get *get, struct slice *key)
{
	read_user(&get->call.family, sizeof(u64), families + number * sizeof(u64));

	u8 status = 0;
	read_user(&status, sizeof(status), together->outcomes + number * together->stride);
	get->call.found = get->call.error = status;
	read_user(key, sizeof(*key), together->keys + number * sizeof(*key));
}

// keys_end reports the keys of the thread's call, each as a Get, and then the call. They are read
// at its end, when their outcomes are known and all of its caller's memory is still there.
SEC("uprobe")
int keys_end(const struct words *unused)
{
	u64 thread = bpf_get_current_pid_tgid();
	struct together *together = bpf_map_lookup_elem(&calls, &thread);
	// A Get that the call made did not end.
	if (!together || together->call.kind != TOGETHER)
		return 0;

	together->call.end = bpf_ktime_get_ns();
	struct get get = {.call = {
		.kind = KEY,
		.function = function.number,
		.start = together->call.start,
		.end = together->call.end,
		.goroutine = together->call.goroutine,
		.database = together->call.database,
	}};

	// The families, or the contexts that have no room in the vector.
	u64 others = 0;
	u64 count = function.one_by_one ? slices_of(together, &others)
					: contexts_of(together, &others);
	for (u32 i = 0; i < MAX_TOGETHER && i < count; i++) {
		struct slice key = {};
		if (function.one_by_one)
			slice_key(together, i, others, &get, &key);
		else
			context_key(together, i, others, &get, &key);
		read_key(&get, &key);
		report_key(&get);
	}

	report(together, sizeof(*together) - sizeof(together->call));
	bpf_map_delete_elem(&calls, &thread);
	return 0;
}

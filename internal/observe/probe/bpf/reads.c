// Reads of files, each noted under its thread until it ends. A read belongs to the call that its
// goroutine, or in C++ its thread, is in.

#define STACK_FRAMES 40
#define THREAD_NAME 16

struct read {
	u16 kind;
	u16 in; // the kind of the call, or 0
	s32 descriptor;
	u64 start;
	u64 end;
	u64 goroutine;
	u64 call_start; // 0: of no call
	s64 offset;
	s64 result;
	u64 inode;
	u32 device;
	u32 generation;
	u64 device_reads; // what it asked the block device for
	u64 device_bytes;
};

// A read of no call. Behind it lies who made it: the stack, or in C++ the name of the thread.
struct other_read {
	struct read read;
	s64 stack_bytes; // or an error
};

struct stacked_read {
	struct other_read other;
	u64 stack[STACK_FRAMES];
};

struct named_read {
	struct other_read other;
	char thread[THREAD_NAME];
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_ACTIVE);
	__type(key, u64);
	__type(value, struct read);
} reads SEC(".maps");

// file_of notes the file of a read. Other files than regular ones, such as sockets, are left out.
static __always_inline bool file_of(struct read *read, struct file *file)
{
	const u16 kinds = 0xf000, regular = 0x8000; // S_IFMT, S_IFREG
	struct inode *inode = BPF_CORE_READ(file, f_inode);
	if ((BPF_CORE_READ(inode, i_mode) & kinds) != regular)
		return 0;

	read->inode = BPF_CORE_READ(inode, i_ino);
	read->generation = BPF_CORE_READ(inode, i_generation);
	read->device = BPF_CORE_READ(inode, i_sb, s_dev);
	return 1;
}

// call_of notes the call that the reader is in, if any, and counts the read for it.
static __always_inline void call_of(struct read *read)
{
	u64 who = 0;
	if (process.native) {
		who = bpf_get_current_pid_tgid();
	} else {
		// The goroutine's register is untouched at a system call.
		const u64 *registers = (void *)bpf_task_pt_regs(bpf_get_current_task_btf());
		bpf_probe_read_kernel(&who, sizeof(who), registers + machine.goroutine);
	}

	read->goroutine = who;
	struct get *get = bpf_map_lookup_elem(&calls, &who);
	if (get) {
		read->call_start = get->call.start;
		read->in = get->call.kind;
		get->call.reads++;
	}

	read->start = bpf_ktime_get_ns();
}

// read_begins notes a read of the process. next: from where the last one ended.
static __always_inline int read_begins(const struct trace_event_raw_sys_enter *call, bool next)
{
	if (!window || !is_process())
		return 0;

	u64 thread = bpf_get_current_pid_tgid();
	u64 descriptor = call->args[0];
	struct read read = {.kind = READ, .descriptor = descriptor};

	struct file *file = 0;
	struct task_struct *task = (void *)bpf_get_current_task();
	bpf_probe_read_kernel(&file, sizeof(file), BPF_CORE_READ(task, files, fdt, fd) + descriptor);
	read.offset = next ? BPF_CORE_READ(file, f_pos) : call->args[3];
	if (!file_of(&read, file))
		return 0;

	call_of(&read);
	if (bpf_map_update_elem(&reads, &thread, &read, BPF_ANY))
		add(&lost.reads, 1);
	return 0;
}

SEC("tracepoint")
int read_at_begins(const struct trace_event_raw_sys_enter *call)
{
	return read_begins(call, 0);
}

SEC("tracepoint")
int read_next_begins(const struct trace_event_raw_sys_enter *call)
{
	return read_begins(call, 1);
}

static __always_inline int report_named(const struct read *read)
{
	struct named_read *named = bpf_ringbuf_reserve(&events, sizeof(*named), 0);
	if (!named)
		return 1;

	named->other.read = *read;
	named->other.stack_bytes = 0;
	bpf_get_current_comm(named->thread, sizeof(named->thread));
	bpf_ringbuf_submit(named, 0);
	return 0;
}

static __always_inline int report_stacked(void *context, const struct read *read)
{
	struct stacked_read *stacked = bpf_ringbuf_reserve(&events, sizeof(*stacked), 0);
	if (!stacked)
		return 1;

	stacked->other.read = *read;
	stacked->other.stack_bytes =
		bpf_get_stack(context, stacked->stack, sizeof(stacked->stack), BPF_F_USER_STACK);
	bpf_ringbuf_submit(stacked, 0);
	return 0;
}

static __always_inline int report_read(void *context, const struct read *read)
{
	if (read->call_start)
		return bpf_ringbuf_output(&events, (void *)read, sizeof(*read), 0);

	return process.native ? report_named(read) : report_stacked(context, read);
}

SEC("tracepoint")
int read_ends(struct trace_event_raw_sys_exit *call)
{
	u64 thread = bpf_get_current_pid_tgid();
	struct read *read = bpf_map_lookup_elem(&reads, &thread);
	if (!read)
		return 0;

	read->end = bpf_ktime_get_ns();
	read->result = call->ret;
	if (report_read(call, read))
		add(&lost.reads, 1);
	bpf_map_delete_elem(&reads, &thread);
	return 0;
}

// uring_ends reports a read that io_uring has completed, in a thread of the process. When it began
// is not known, nor what it asked the device for. The kernel has read up to ki_pos.
SEC("tracepoint")
int uring_ends(const struct trace_event_raw_io_uring_complete *call)
{
	enum { READV = 1, READ_FIXED = 4, READ_AGAIN = 22 }; // IORING_OP_READV, READ_FIXED, READ

	// A kernel without io_uring has no such types, and none before 5.19 tells the request.
	if (!bpf_core_field_exists(call->req) || !bpf_core_type_exists(struct io_kiocb))
		return 0;
	if (!window || !is_process())
		return 0;

	struct io_kiocb *request = call->req;
	u8 operation = BPF_CORE_READ(request, opcode);
	if (operation != READV && operation != READ_FIXED && operation != READ_AGAIN)
		return 0;

	s64 result = call->res;
	if (result <= 0) // failed, or to be tried again
		return 0;

	struct read read = {.kind = READ, .descriptor = -1, .result = result};
	struct kiocb *asked = (void *)request;
	read.offset = BPF_CORE_READ(asked, ki_pos) - result;
	if (!file_of(&read, BPF_CORE_READ(asked, ki_filp)))
		return 0;

	call_of(&read);
	read.end = read.start;
	if (report_named(&read))
		add(&lost.reads, 1);
	return 0;
}

// Page faults. The kernel counts a fault when it has ended, in the process's figures and as a
// software event; a program on that event sees exactly what is counted.

struct fault {
	u64 thread;
	u64 start; // 0: not known
	u64 device_reads;
	u64 device_bytes;
	u64 end;
	u64 address;
	u64 major;
};

// A fault that has not ended.
struct faulting {
	u64 start;
	u64 device_reads;
	u64 device_bytes;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, MAX_ACTIVE);
	__type(key, u64); // the thread
	__type(value, struct faulting);
} faulting SEC(".maps");

// The addresses whose minor faults are reported.
CACHE_ALIGNED struct range {
	u64 low;
	u64 high;
} reported;

CACHE_ALIGNED struct unreported {
	u64 minor; // outside the range
	u64 lost;
} unreported;

SEC("tracepoint")
int fault_begins(void *unused)
{
	if (!is_process())
		return 0;

	u64 thread = bpf_get_current_pid_tgid();
	struct faulting fault = {.start = bpf_ktime_get_ns()};
	bpf_map_update_elem(&faulting, &thread, &fault, BPF_ANY);
	return 0;
}

// fault_asks counts a read of the device for the fault that the thread is in.
SEC("tracepoint")
int fault_asks(const struct trace_event_raw_block_bio *bio)
{
	u64 bytes = device_read(bio);
	if (!bytes)
		return 0;

	u64 thread = bpf_get_current_pid_tgid();
	struct faulting *fault = bpf_map_lookup_elem(&faulting, &thread);
	if (fault) {
		add(&fault->device_reads, 1);
		add(&fault->device_bytes, bytes);
	}

	return 0;
}

// fault_ends reports a fault that the kernel has just counted.
static __always_inline int fault_ends(const struct words *context, bool major)
{
	if (!is_process())
		return 0;

	u64 address = word(context, machine.fault_address);
	if (!major && (address < reported.low || address >= reported.high)) {
		add(&unreported.minor, 1);
		return 0;
	}

	u64 thread = bpf_get_current_pid_tgid();
	struct fault fault = {
		.thread = thread,
		.address = address,
		.major = major,
		.end = bpf_ktime_get_ns(),
	};

	struct faulting *begun = bpf_map_lookup_elem(&faulting, &thread);
	if (begun) {
		fault.start = begun->start;
		fault.device_reads = begun->device_reads;
		fault.device_bytes = begun->device_bytes;
		bpf_map_delete_elem(&faulting, &thread);
	}

	// Waking the reader takes longer than all else.
	if (bpf_ringbuf_output(&events, &fault, sizeof(fault), BPF_RB_NO_WAKEUP))
		add(&unreported.lost, 1);
	return 0;
}

SEC("perf_event")
int major_fault(const struct words *context)
{
	return fault_ends(context, 1);
}

SEC("perf_event")
int minor_fault(const struct words *context)
{
	return fault_ends(context, 0);
}

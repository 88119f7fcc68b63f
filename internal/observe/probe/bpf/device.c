// What is read from the block device of the database, by the process and by all others. The kernel
// tells of a read when a filesystem asks the device for it, in the thread that needs it or reads
// ahead.

// The device, as the kernel writes its number; 0: all devices.
CACHE_ALIGNED u64 device_number;

CACHE_ALIGNED struct device {
	u64 own_reads;
	u64 own_bytes;
	u64 other_reads;
	u64 other_bytes;
} device;

// device_read counts a read, and returns its bytes, or 0 if it is not to be counted for the thread.
static __always_inline u64 device_read(const struct trace_event_raw_block_bio *bio)
{
	if (bio->rwbs[0] != 'R')
		return 0;

	u64 bytes = (u64)bio->nr_sector << 9;
	if (!device_number)
		return bytes;

	if (bio->dev != device_number)
		return 0;

	if (!is_process()) {
		add(&device.other_reads, 1);
		add(&device.other_bytes, bytes);
		return 0;
	}

	add(&device.own_reads, 1);
	add(&device.own_bytes, bytes);
	return bytes;
}

// read_asks counts it for the read that the thread is in.
SEC("tracepoint")
int read_asks(const struct trace_event_raw_block_bio *bio)
{
	u64 bytes = window ? device_read(bio) : 0;
	if (!bytes)
		return 0;

	u64 thread = bpf_get_current_pid_tgid();
	struct read *read = bpf_map_lookup_elem(&reads, &thread);
	if (read) {
		add(&read->device_reads, 1);
		add(&read->device_bytes, bytes);
	}

	return 0;
}

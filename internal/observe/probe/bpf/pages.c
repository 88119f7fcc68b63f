// Pages that enter and leave the page cache: of the control group that the pages of a process's
// database are charged to, or of the whole machine.

enum page_event_kind {
	ADDED,   // it was read, or written for the first time
	EVICTED, // it left to make room
	REMOVED, // its file was cut, or it was dropped on demand
};

struct page_event {
	u32 kind;
	u32 device; // as the kernel writes it
	u64 inode;
	u64 index; // of the first page
	u64 clock; // how many pages had been evicted, these included
	u64 order; // 1<<order pages
};

// What is watched.
const volatile struct pages {
	u64 inode; // of the database
	u64 threshold; // pages whose hash is below it are reported
	u32 device; // of the database, as the kernel writes it
	bool whole; // the whole machine
} pages = {};

CACHE_ALIGNED struct page_counts {
	u64 group; // 0: not known yet
	u64 evicted;
	u64 own_added;
	u64 lost;
} page_counts;

// The hash that chooses pages; PageChosen in Go is the same one.
static __always_inline u64 page_hash(u64 inode, u64 index)
{
	const u64 of_inode = 0xC2B2AE3D27D4EB4F, of_page = 0x9E3779B97F4A7C15;
	return (inode * of_inode + index) * of_page >> 32;
}

static __always_inline bool is_own(const struct page_event *page)
{
	return page->inode == pages.inode && page->device == pages.device;
}

static __always_inline u64 flags_of(struct folio *folio)
{
	struct folio___typed *typed = (void *)folio;
	return bpf_core_field_exists(typed->flags.f) ? BPF_CORE_READ(typed, flags.f)
						     : BPF_CORE_READ(folio, flags);
}

static __always_inline int page_event(struct folio *folio, bool added)
{
	const u64 flags = 7; // the lowest bits of the pointer to the group
	u64 group = pages.whole ? 0 : BPF_CORE_READ(folio, memcg_data) & ~flags;
	u64 known = page_counts.group;
	if (!pages.whole && (!group || (known && group != known)))
		return 0;

	struct page_event page = {.kind = ADDED};
	struct inode *inode = BPF_CORE_READ(folio, mapping, host);
	page.inode = BPF_CORE_READ(inode, i_ino);
	page.device = BPF_CORE_READ(inode, i_sb, s_dev);
	page.index = BPF_CORE_READ(folio, index);
	if (flags_of(folio) >> bpf_core_enum_value(enum pageflags, PG_head) & 1)
		page.order = BPF_CORE_READ(folio, _flags_1) & 0xff;

	// The group of the first page of the database that the process reads is the one.
	if (!pages.whole && !known) {
		if (!added || !is_own(&page) || !is_process())
			return 0;
		page_counts.group = group;
	}

	u64 count = 1ULL << page.order;
	if (!added) {
		struct task_struct *task = (void *)bpf_get_current_task();
		page.kind = BPF_CORE_READ(task, reclaim_state) ? EVICTED : REMOVED;
		if (page.kind == EVICTED)
			add(&page_counts.evicted, count);
	} else if (is_own(&page)) {
		add(&page_counts.own_added, count);
	}

	page.clock = page_counts.evicted;
	// The pages of a large folio are chosen one by one.
	if (!page.order && page_hash(page.inode, page.index) >= pages.threshold)
		return 0;

	// Waking the reader takes longer than all else.
	if (bpf_ringbuf_output(&events, &page, sizeof(page), BPF_RB_NO_WAKEUP))
		add(&page_counts.lost, 1);
	return 0;
}

SEC("raw_tracepoint")
int page_added(struct bpf_raw_tracepoint_args *context)
{
	return page_event((struct folio *)context->args[0], 1);
}

SEC("raw_tracepoint")
int page_deleted(struct bpf_raw_tracepoint_args *context)
{
	return page_event((struct folio *)context->args[0], 0);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * layout.cpp: Monad DB as a layout of state, behind native/statelab_state.h. This is our own
 * code and has none of Monad's. The library that is built from it contains Monad's
 * (GPL-3.0-or-later), and the runner that loads it is a process of its own: README.md.
 *
 * A block is a version of the pool. A lookup reads every node on its way with one call, by
 * Monad's own find, and forgets them afterwards; with the profile "pinned" it begins below the
 * nodes that opening has read into memory.
 *
 * Non-goals: Monad's other tables, proposals, its lookups through io_uring.
 *
 * Read in this order: values.hpp, pool.hpp, layout.cpp.
 */
#include "pool.hpp"

#include <atomic>
#include <cstdio>
#include <deque>
#include <mutex>
#include <optional>
#include <vector>

using namespace statelab;

namespace
{
	constexpr auto PRIMARY = timeline_id::primary;
	constexpr char const *PINNED = "pinned";
	constexpr statelab_profile PROFILES[] = {
		{"default", "reads every node of a lookup, the three above the accounts included; memory is the page cache's"},
		{PINNED, "opening reads nodes that begin at nibble 5 or above into memory, as many as fit, for lookups of its block"},
		{nullptr, nullptr},
	};

	/* A pool's file is sparse: more than 300 blocks will ever take. */
	int64_t pool_bytes(statelab_state_options const &o)
	{
		uint64_t const entries = o.accounts_hint + o.slots_hint;
		return static_cast<int64_t>(8 + (entries ? entries / (1 << 17) : 256)) * (1LL << 30) + 24576;
	}

	int64_t bytes_of(chunk_offset_t at) { return int64_t{node_disk_pages_spare_15{at}.to_pages()} << monad::async::DISK_PAGE_BITS; }

	struct Changed
	{
		statelab_hash name;
		std::optional<byte_string> account; // none: deleted
		std::vector<std::pair<statelab_hash, std::optional<byte_string>>> slots;
	};

	/* The key of an account or a slot: the nibbles 1 (finalized) and 0 (state), then hashes. */
	struct Key
	{
		unsigned char bytes[1 + 32 + 32]{0x10};
		unsigned count{1};

		Key(std::initializer_list<statelab_hash const *> hashes)
		{
			for (auto const *hash : hashes) memcpy(bytes + count, hash->bytes, 32), count += 32;
		}
		NibblesView nibbles() const { return byte_string_view{bytes, count}; }
	};
}

struct statelab_state
{
	Place place;
	std::unique_ptr<Db> writer; // none: open for reading
	std::unique_ptr<ReadSide> reader;
	Node::SharedPtr newest; // the writer's
	/* Of the block that the state was opened with; what hangs below does not change any more. */
	Node::SharedPtr pinned;
	uint64_t pinned_block{0};
	int64_t pinned_nodes{0}, pinned_bytes{0};
	std::deque<Changed> changes;
	std::atomic<uint64_t> block{0};
	std::atomic<int64_t> reads{0}, bytes{0}; // of lookups
	std::mutex lock;                         // of root
	statelab_hash root{EMPTY_ROOT};

	explicit statelab_state(statelab_state_options const &o) : place(o.directory, o.create, pool_bytes(o)) {}

	Node::SharedPtr read(chunk_offset_t at, uint64_t version) const
	{
		auto node = at == INVALID_OFFSET ? nullptr : read_node_blocking(reader->aux(), at, version, PRIMARY);
		if (!node) throw Failure("read block " + std::to_string(version) + ": it is no longer there");
		return node;
	}

	chunk_offset_t root_at(uint64_t version) const { return reader->aux().metadata_ctx().get_root_offset_at_version(version, PRIMARY); }

	auto look(Key const &key, uint64_t version) const
	{
		return find_blocking(reader->aux(), NodeCursor{read(root_at(version), version)}, key.nibbles(), version, PRIMARY);
	}

	/* Monad DB aborts where something is deleted that is not there. */
	bool holds(Key const &key) const { return block > 0 && look(key, block).second == find_result::success; }

	/* Shows readers a block. Its root is in the node of the state. */
	void advance(uint64_t version)
	{
		auto const found = look(Key{}, version);
		if (found.second != find_result::success) throw Failure("open: the pool has no state of accounts", STATELAB_NOT_A_DATABASE);
		std::lock_guard const held(lock);
		root = EMPTY_ROOT;
		if (found.first.node->number_of_children()) found.first.node->data().copy(root.bytes, 32);
		block = version;
	}

	/* Reads nodes into memory, level by level, until they take most bytes; 0: no limit. */
	void pin(int64_t most)
	{
		std::deque<std::pair<Node *, unsigned>> found; // and the nibble at which each begins
		pinned_block = block;
		for (pinned = read(root_at(block), block), found.emplace_back(pinned.get(), 0); !found.empty(); found.pop_front()) {
			auto const [node, begins] = found.front();
			pinned_nodes++;
			pinned_bytes += node->get_mem_size();
			unsigned const below = begins + node->path_nibbles_len() + 1;
			for (unsigned i = 0; below <= PREFIX + KEPT && i < node->number_of_children() && (most == 0 || pinned_bytes < most); i++) {
				node->set_next(i, read(node->fnext(i), block));
				found.emplace_back(node->next(i).get(), below);
			}
		}
	}
};

struct statelab_state_reader
{
	statelab_state &state;
	statelab_touched touched{0, 0};

	/* Looks a key up; use is called with its value. */
	template <class Use>
	int32_t find(Key const &of, Use const &use)
	{
		uint64_t const version = state.block;
		if (version == 0) return STATELAB_MISSING;
		auto const key = of.nibbles();
		unsigned done = 0;
		auto at = INVALID_OFFSET;
		/* Nodes in memory are everybody's: nothing may be hung below them. */
		for (Node const *node = version == state.pinned_block ? state.pinned.get() : nullptr; node != nullptr;) {
			touched.nodes++;
			auto const path = node->path_nibble_view();
			for (unsigned i = 0; i < path.nibble_size(); i++, done++)
				if (done == key.nibble_size() || key.get(done) != path.get(i)) return STATELAB_MISSING;
			if (done == key.nibble_size()) return use(node->value()), STATELAB_OK;
			unsigned const branch = key.get(done++);
			if (!(node->mask & 1u << branch)) return STATELAB_MISSING;
			at = node->fnext(node->to_child_index(branch));
			node = node->next(node->to_child_index(branch)).get();
			if (node == nullptr) return read_on(at, key.substr(done), version, use);
		}
		return read_on(state.root_at(version), key, version, use);
	}

	/* Looks key up below a node that is read for this lookup alone. */
	template <class Use>
	int32_t read_on(chunk_offset_t at, NibblesView key, uint64_t version, Use const &use)
	{
		auto const from = state.read(at, version);
		auto const found = find_blocking(state.reader->aux(), NodeCursor{from}, key, version, PRIMARY);
		count(at);
		for (Node const *node = from.get(), *below = nullptr; node != nullptr; node = below, below = nullptr)
			for (unsigned i = 0; i < node->number_of_children() && below == nullptr; i++)
				if ((below = node->next(i).get())) count(node->fnext(i)); // find hangs what it reads below
		if (found.second == find_result::version_no_longer_exist) throw Failure("look up: block " + std::to_string(version) + " is no longer there");
		if (found.second != find_result::success) return STATELAB_MISSING;
		return use(found.first.node->value()), STATELAB_OK;
	}

	void count(chunk_offset_t at)
	{
		touched.nodes++;
		state.reads++;
		state.bytes += bytes_of(at);
	}
};

namespace
{
	/* Turns what f throws into a sentence and its code. */
	template <class F>
	int32_t answered(statelab_error *error, F const &f)
	{
		Failure failure("");
		try {
			return f();
		}
		catch (Failure const &why) {
			failure = why;
		}
		catch (std::exception const &why) {
			failure = Failure(why.what());
		}
		snprintf(error->text, sizeof error->text, "%s", failure.what());
		return failure.code;
	}

	int32_t check(statelab_state_options const *o, statelab_error *error)
	{
		return answered(error, [&] {
			std::string unknown;
			for (size_t i = 0; i < o->settings_count; i++) unknown += std::string(i ? "\n" : "") + "unknown option " + o->settings[i].name + ": it has none";
			if (!unknown.empty()) throw Failure(unknown);
			return STATELAB_OK;
		});
	}

	int32_t open(statelab_state_options const *o, statelab_state **opened, statelab_error *error)
	{
		return answered(error, [&] {
			require_machine(o->read_only);
			auto s = std::make_unique<statelab_state>(*o);
			if (!o->read_only) {
				OnDiskDbConfig config;
				config.append = !o->create;
				config.compaction = true;
				config.sq_thread_cpu = std::nullopt; // a thread of the kernel's that spins
				config.dbname_paths = {s->place.file};
				config.fixed_history_length = MIN_HISTORY_LENGTH;
				config.root_offsets_chunk_count = 1; // 256 MiB for the places of old roots, the least; none are many
				s->writer = std::make_unique<Db>(std::make_unique<Machine>(), config);
			}
			s->reader = std::make_unique<ReadSide>(s->place.file);
			if (uint64_t const newest = s->reader->aux().metadata_ctx().db_history_max_version(); newest != INVALID_BLOCK_NUM) {
				s->advance(newest);
				if (s->writer) s->newest = s->writer->load_root_for_version(newest);
				if (strcmp(o->profile, PINNED) == 0) s->pin(o->memory_bytes);
			}
			*opened = s.release();
			return STATELAB_OK;
		});
	}

	int32_t close(statelab_state *s, statelab_error *error)
	{
		return answered(error, [&] {
			s->newest.reset();
			s->reader.reset();
			delete s;
			return STATELAB_OK;
		});
	}

	void head(statelab_state *s, uint64_t *block, statelab_hash *root)
	{
		std::lock_guard const held(s->lock);
		*block = s->block;
		*root = s->root;
	}

	int32_t change(statelab_state *s, statelab_hash const *name, statelab_account const *account, statelab_slot const *slots, size_t slots_count,
	               statelab_error *error)
	{
		return answered(error, [&] {
			Changed changed{*name, std::nullopt, {}};
			if (account == nullptr && !s->holds({name})) return STATELAB_OK;
			if (account != nullptr) changed.account = encode(*name, *account);
			for (auto const *slot = slots; account != nullptr && slot != slots + slots_count; slot++)
				if (slot->value_bytes)
					changed.slots.emplace_back(slot->key, encode(*slot));
				else if (s->holds({name, &slot->key}))
					changed.slots.emplace_back(slot->key, std::nullopt);
			s->changes.push_back(std::move(changed));
			return STATELAB_OK;
		});
	}

	int32_t commit(statelab_state *s, statelab_hash *root, statelab_error *error)
	{
		return answered(error, [&] {
			uint64_t const version = s->block + 1;
			unsigned char const finalized = 0x10, state = 0x00;
			std::deque<Update> updates; // lists link them where they are
			UpdateList accounts, states, tables;
			auto const add = [&](UpdateList &to, NibblesView key, std::optional<byte_string_view> value, UpdateList &&below) {
				auto &update = updates.emplace_back();
				update.key = key;
				update.value = value;
				update.next = std::move(below);
				update.version = static_cast<int64_t>(version);
				to.push_front(update);
			};
			for (auto const &changed : s->changes) {
				UpdateList slots;
				for (auto const &[key, value] : changed.slots) add(slots, view(key), value, {});
				add(accounts, view(changed.name), changed.account, std::move(slots));
			}
			add(states, NibblesView(false, 1, &state), byte_string_view{}, std::move(accounts));
			add(tables, NibblesView(false, 1, &finalized), byte_string_view{}, std::move(states));
			s->newest = s->writer->upsert(std::move(s->newest), std::move(tables), version);
			s->changes.clear();
			s->advance(version);
			*root = s->root;
			return STATELAB_OK;
		});
	}

	int32_t reader_open(statelab_state *s, statelab_state_reader **opened, statelab_error *)
	{
		*opened = new statelab_state_reader{*s};
		return STATELAB_OK;
	}

	void reader_close(statelab_state_reader *r) { delete r; }

	int32_t account(statelab_state_reader *r, statelab_hash const *name, statelab_account *into, statelab_error *error)
	{
		return answered(error, [&] { return r->find({name}, [&](byte_string_view value) { decode(value, *into); }); });
	}

	int32_t slot(statelab_state_reader *r, statelab_hash const *name, statelab_hash const *key, statelab_slot *into, statelab_error *error)
	{
		return answered(error, [&] { return r->find({name, key}, [&](byte_string_view value) { decode(value, *into); }); });
	}

	/* A sector is what a read is a multiple of. */
	void touched(statelab_state_reader *r, statelab_touched *into) { *into = {r->touched.nodes, -1}; }

	/* A commit returns when all is written. */
	int32_t settle(statelab_state *, int64_t, statelab_settling *, statelab_error *) { return STATELAB_OK; }

	template <class T, size_t N>
	size_t fill(T const (&all)[N], T *into, size_t capacity)
	{
		std::copy_n(all, std::min(capacity, N), into);
		return N;
	}

	size_t stats(statelab_state *s, statelab_stat *into, size_t capacity)
	{
		return fill({statelab_stat{"reads", s->reads}, {"read_bytes", s->bytes}}, into, capacity);
	}

	size_t memory(statelab_state *s, statelab_memory *into, size_t capacity)
	{
		return fill({statelab_memory{"index and the rest of the heap", "measured", s->pinned_bytes}}, into, capacity);
	}

	size_t effective(statelab_state *s, statelab_setting *into, size_t capacity)
	{
		static thread_local std::string pinned; // until this thread's next call
		pinned = std::to_string(s->pinned_nodes);
		return fill({statelab_setting{"pinned_nodes", pinned.c_str()}}, into, capacity);
	}
}

extern "C" statelab_layout const *statelab_state_v1(void)
{
	static statelab_layout const table{
		.abi = STATELAB_STATE_ABI,
		.struct_bytes = sizeof(statelab_layout),
		.name = "monad",
		.version = MONAD_VERSION,
		.licence = "GPL-3.0-or-later",
		.root = "ethereum-mpt",
		.durability = "a kill: every committed block; a power cut: what was closed (nothing is synced before)",
		.history = "300 blocks",
		.profiles = PROFILES,
		.check = check,
		.open = open,
		.close = close,
		.head = head,
		.change = change,
		.commit = commit,
		.reader_open = reader_open,
		.reader_close = reader_close,
		.account = account,
		.slot = slot,
		.touched = touched,
		.settle = settle,
		.stats = stats,
		.memory = memory,
		.effective = effective,
	};
	return &table;
}

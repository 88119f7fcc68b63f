/* SPDX-License-Identifier: Apache-2.0
 *
 * pool.hpp: a pool of Monad DB in a file: what the machine must have, who holds the file, what
 * each node's hash is made of, and the side that reads.
 *
 * Monad DB aborts the process where something is missing, so whatever can be known is asked
 * first. What only Monad DB finds, such as damage within a node, still ends the runner.
 */
#pragma once

#include "values.hpp"

#include <category/core/log.hpp>
#include <category/mpt/compute.hpp>
#include <category/mpt/db.hpp>
#include <category/mpt/ondisk_db_config.hpp>
#include <category/mpt/state_machine.hpp>

#include <liburing.h>
#include <quill/Frontend.h>
#include <quill/sinks/NullSink.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <future>
#include <stdexcept>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace statelab
{
	using namespace monad::mpt;

	/* Nibbles above the accounts' trie (finalized, state), and of a hash. */
	inline constexpr unsigned PREFIX = 2, HASH = 64;
	/* Nodes of accounts that begin at this nibble or above stay in memory: the rule of Monad's client. */
	inline constexpr unsigned KEPT = 5;
	inline constexpr size_t HUGE_PAGE = 2 << 20;

	/* A sentence, and the code of the answer. */
	struct Failure : std::runtime_error
	{
		int32_t code;

		explicit Failure(std::string const &text, int32_t code_ = STATELAB_FAILED) : std::runtime_error(text), code(code_) {}
	};

	/* Throws if io_uring, huge pages or the right to lock them are missing. */
	inline void require_machine(bool read_only)
	{
		io_uring ring;
		if (int const code = io_uring_queue_init(8, &ring, 0); code != 0)
			throw Failure(std::string("Monad DB needs io_uring, which this system refuses (kernel.io_uring_disabled, seccomp): ") + strerror(-code));
		io_uring_queue_exit(&ring);
		OnDiskDbConfig const writer;
		size_t const of_writer = writer.rd_buffers * monad::async::AsyncIO::READ_BUFFER_SIZE + writer.wr_buffers * monad::async::AsyncIO::WRITE_BUFFER_SIZE;
		size_t const pages = 1 + (read_only ? 0 : of_writer / HUGE_PAGE);
		void *const taken = mmap(nullptr, pages * HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
		if (taken == MAP_FAILED) throw Failure("Monad DB needs " + std::to_string(pages) + " free huge pages of 2 MiB: sysctl vm.nr_hugepages=64");
		bool const locked = mlock(taken, pages * HUGE_PAGE) == 0;
		munmap(taken, pages * HUGE_PAGE);
		if (!locked) throw Failure("Monad DB locks " + std::to_string(pages) + " huge pages in memory: raise ulimit -l, or grant CAP_IPC_LOCK");
		if (monad_root_logger == nullptr) { /* its log must be there, though nobody reads it */
			monad_root_logger = quill::Frontend::create_or_get_logger("root", quill::Frontend::create_or_get_sink<quill::NullSink>("none"));
			monad_root_logger->set_log_level(quill::LogLevel::None);
		}
	}

	/* A pool's file, locked as long as this lives. */
	class Place
	{
		int fd_;

	public:
		std::filesystem::path const folder, file = folder / "pool", inode = folder / "inode";

		/* Makes the file with so many bytes, or finds one that Monad DB can open. */
		Place(std::filesystem::path folder_, bool create, int64_t bytes) : folder(std::move(folder_))
		{
			fd_ = ::open(file.c_str(), O_RDWR | O_CLOEXEC | (create ? O_CREAT | O_EXCL : 0), 0644);
			if (fd_ < 0) fail(strerror(errno), errno == ENOENT ? STATELAB_NOT_A_DATABASE : STATELAB_FAILED);
			try {
				struct stat stat;
				if (flock(fd_, LOCK_EX | LOCK_NB) != 0) fail("another process holds it", STATELAB_LOCKED);
				if ((create && ftruncate(fd_, bytes) != 0) || fstat(fd_, &stat) != 0) fail(strerror(errno));
				if (!create)
					examine(stat);
				else if (!(std::ofstream(inode) << stat.st_ino << '\n').flush())
					fail("cannot note its inode: " + std::string(strerror(errno)));
			}
			catch (...) {
				::close(fd_);
				throw;
			}
		}
		~Place() { ::close(fd_); }
		Place(Place const &) = delete;

	private:
		[[noreturn]] void fail(std::string const &why, int32_t code = STATELAB_FAILED) const { throw Failure("open " + file.string() + ": " + why, code); }

		void examine(struct stat const &stat) const
		{
			char end[4] = {}, magic[detail::db_metadata::MAGIC_STRING_LEN] = {};
			if (pread(fd_, end, 4, std::max<off_t>(stat.st_size - 4, 0)) != 4 || memcmp(end, "MND0", 4) != 0)
				fail("not a pool of Monad DB", STATELAB_NOT_A_DATABASE);
			if (pread(fd_, magic, sizeof magic, 0) != sizeof magic || memcmp(magic, detail::db_metadata::MAGIC, sizeof magic) != 0)
				fail("it is damaged or of another version of Monad DB than " + std::string(detail::db_metadata::MAGIC), STATELAB_NOT_A_DATABASE);
			ino_t was = 0;
			std::ifstream(inode) >> was;
			if (was != stat.st_ino) fail("it was copied, and Monad DB opens a pool only in the file in which it was made: build it again");
		}
	};

	/* The account trie's root is in the node of the state itself: nothing above hashes it. */
	struct StateCompute : MerkleComputeBase<AccountLeaf>
	{
		unsigned compute(unsigned char *, Node const &) override { return 0; }
	};

	/* An account's node: slots are below it, and it is a leaf of accounts. */
	struct AccountCompute : MerkleComputeBase<SlotLeaf>
	{
		unsigned compute(unsigned char *buffer, Node const &node) override
		{
			return encode_two_pieces_reference(buffer, node.path_nibble_view(), AccountLeaf::process(node), true);
		}
	};

	/* Says which hash a node at a place of the trie has, and which nodes a writer keeps. */
	struct Machine final : StateMachine
	{
		unsigned depth = 0;

		std::unique_ptr<StateMachine> clone() const override { return std::make_unique<Machine>(*this); }
		void down(unsigned char) override { depth++; }
		void up(size_t n) override { depth -= static_cast<unsigned>(n); }
		bool cache() const override { return depth <= PREFIX + KEPT; }
		bool compact() const override { return depth >= PREFIX; }
		bool is_variable_length() const override { return false; }
		Compute &get_compute() const override
		{
			/* They hold what they computed last, and each writer has a thread of its own. */
			static thread_local EmptyCompute above;
			static thread_local StateCompute state;
			static thread_local MerkleComputeBase<AccountLeaf> accounts;
			static thread_local AccountCompute account;
			static thread_local MerkleComputeBase<SlotLeaf> slots;
			if (depth < PREFIX) return above;
			if (depth == PREFIX) return state;
			if (depth < PREFIX + HASH) return accounts;
			if (depth == PREFIX + HASH) return account;
			return slots;
		}
	};

	/* Reads by blocking calls, one a node, on the thread that asks. Monad's input and output
	 * belongs to the thread that made it, which waits here until the end. */
	class ReadSide
	{
		std::promise<void> end_;
		std::thread keeper_;
		UpdateAux const *aux_;

	public:
		explicit ReadSide(std::filesystem::path const &file)
		{
			std::promise<UpdateAux const *> made;
			keeper_ = std::thread([&made, file, until = end_.get_future()] {
				ReadOnlyOnDiskDbConfig config;
				config.rd_buffers = config.uring_entries = 16; // not used
				config.dbname_paths = {file};
				AsyncIOContext io(config);
				UpdateAux aux(io.io);
				made.set_value(&aux);
				until.wait();
			});
			aux_ = made.get_future().get();
		}
		~ReadSide()
		{
			end_.set_value();
			keeper_.join();
		}
		ReadSide(ReadSide const &) = delete;

		UpdateAux const &aux() const { return *aux_; }
	};
}

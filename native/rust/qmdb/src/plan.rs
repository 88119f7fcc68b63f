//! What the options come to.

use std::num::{NonZeroU64, NonZeroUsize};
use std::thread;

use statelab_abi::state::{Options, Settings};

pub const VALUE: &str = "value";
pub const PROVE: &str = "prove";

const HASH_THREADS: &str = "hash_threads";
pub const OPERATIONS_PER_FILE: &str = "operations_per_file";

const MIB: u64 = 1 << 20;

/// Of the log and of the tree, each: what is written gathers here first.
pub const WRITE_BUFFER_BYTES: NonZeroUsize = NonZeroUsize::new(1 << 20).unwrap();

/// A file of 453 MB. Each is open twice, so at 1e9 operations a process needs 500 files.
const DEFAULT_OPERATIONS_PER_FILE: NonZeroU64 = NonZeroU64::new(1 << 22).unwrap();

/// What commonware's bench of cold reads runs with.
const DEFAULT_PAGE_CACHE_BYTES: u64 = 256 * MIB;

const LEAST_PAGE_CACHE_BYTES: u64 = MIB;

/// A page in the cache: its 4,084 bytes, and what finds and evicts it, by the heap's account: 162
/// bytes a page of 13,459, 182 of 512.
const CACHED_PAGE_BYTES: u64 = 4084 + 182;

/// An entry of the index's hash table: eight bytes of key, eight of place, one of the table's.
const INDEX_ENTRY_BYTES: u64 = 17;

/// What a state runs with.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub prove: bool,
    pub hash_threads: NonZeroUsize,
    pub page_cache_pages: NonZeroUsize,
    expected_index_bytes: u64,
    budget: Budget,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Budget {
    None,
    Held,
    /// By the index, which has no limit.
    Exceeded,
}

impl Plan {
    /// All mistakes. A budget that the index alone will pass is none: what the index takes in
    /// truth is told in the state's memory.
    pub fn check(options: &Options) -> Vec<String> {
        let mut mistakes = options.settings.unknown(&[HASH_THREADS, OPERATIONS_PER_FILE]);
        let numbers = [(HASH_THREADS, 1..=256), (OPERATIONS_PER_FILE, 1..=1 << 32)];
        mistakes.extend(numbers.into_iter().filter_map(|(name, legal)| options.settings.number(name, legal).err()));
        let least = buffers() + LEAST_PAGE_CACHE_BYTES;
        if let Some(budget) = options.memory_bytes.filter(|&budget| budget < least) {
            let least = least.div_ceil(MIB);
            mistakes
                .push(format!("a memory of {budget} bytes is too small for the write buffers and the least page cache, as in --memory {least}MiB"));
        }
        mistakes
    }

    /// The plan for a state whose log has so many operations. Of a budget the page cache gets what
    /// the index, as it will come to be, and the write buffers leave.
    pub fn of(options: &Options, operations: u64) -> Plan {
        let keys = match (options.accounts_hint, options.slots_hint) {
            (None, None) => operations,
            (accounts, slots) => accounts.unwrap_or(0) + slots.unwrap_or(0),
        };
        let expected_index_bytes = index_bytes(keys);
        let (page_cache_bytes, budget) = match options.memory_bytes {
            None => (DEFAULT_PAGE_CACHE_BYTES, Budget::None),
            Some(budget) => match budget.saturating_sub(expected_index_bytes + buffers()) {
                left if left >= LEAST_PAGE_CACHE_BYTES => (left, Budget::Held),
                _ => (LEAST_PAGE_CACHE_BYTES, Budget::Exceeded),
            },
        };
        let pages = usize::try_from(page_cache_bytes / CACHED_PAGE_BYTES).unwrap_or(usize::MAX);
        Plan {
            prove: options.profile == PROVE,
            hash_threads: hash_threads(&options.settings),
            page_cache_pages: NonZeroUsize::new(pages).unwrap_or(NonZeroUsize::MIN),
            expected_index_bytes,
            budget,
        }
    }

    /// The settings, resolved, and what became of the budget.
    pub fn effective(&self, operations_per_file: NonZeroU64) -> Vec<(&'static str, String)> {
        let budget = match self.budget {
            Budget::None => "none",
            Budget::Held => "held",
            Budget::Exceeded => "exceeded by the index, which has no limit",
        };
        vec![
            (HASH_THREADS, self.hash_threads.to_string()),
            (OPERATIONS_PER_FILE, operations_per_file.to_string()),
            ("page_cache_pages", self.page_cache_pages.to_string()),
            ("expected_index_bytes", self.expected_index_bytes.to_string()),
            ("budget", budget.into()),
        ]
    }
}

/// How a new state's log is cut.
pub fn operations_per_file(options: &Options) -> NonZeroU64 {
    number(&options.settings, OPERATIONS_PER_FILE).and_then(NonZeroU64::new).unwrap_or(DEFAULT_OPERATIONS_PER_FILE)
}

/// QMDB hashes in parallel.
fn hash_threads(settings: &Settings) -> NonZeroUsize {
    let asked = number(settings, HASH_THREADS).and_then(|count| NonZeroUsize::new(count as usize));
    asked.or_else(|| thread::available_parallelism().ok()).unwrap_or(NonZeroUsize::MIN)
}

/// A setting that has been checked.
fn number(settings: &Settings, name: &str) -> Option<u64> {
    settings.number(name, 0..=u64::MAX).unwrap_or_default()
}

fn buffers() -> u64 {
    2 * WRITE_BUFFER_BYTES.get() as u64
}

/// A hash table has a power of two of entries, and is never more than seven eighths full.
fn index_bytes(keys: u64) -> u64 {
    let entries = (keys + keys / 7 + 1).checked_next_power_of_two().unwrap_or(u64::MAX);
    entries.saturating_mul(INDEX_ENTRY_BYTES)
}

#[cfg(test)]
#[path = "tests/plan.rs"]
mod tests;

//! Why lookups commit now and then.
//!
//! NOMT's caches take in every page that is read, and evict at the end of a commit alone
//! (`LeafCache::evict` in its update, `PageCache::evict` in its sync): in a session that only
//! reads they grow without a limit. A budget would be none. So when as many pages have been read
//! since the last commit as the plan allows in excess, the lookup that notices commits an empty
//! block of NOMT's. That changes no value and no root, writes a page of its log and its
//! meta page, and makes the lookups of that moment wait for a few milliseconds.
//!
//! What has been read is the kernel's account of the process (`input.rs`).

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use statelab_abi::state::Result;

use crate::input::read_bytes;
use crate::plan::PAGE_BYTES;

/// Lookups between two looks at the kernel's count.
const EVERY: u64 = 16;

pub struct Eviction {
    excess_bytes: u64,
    lookups: AtomicU64,
    /// What the process had read when the caches were last cut to their limits.
    read_bytes: AtomicU64,
}

impl Eviction {
    pub fn new(excess_bytes: u64) -> Result<Self> {
        Ok(Eviction { excess_bytes, lookups: AtomicU64::new(0), read_bytes: AtomicU64::new(read_bytes()?) })
    }

    /// Counts a lookup. Whether the caches may have outgrown their limits.
    pub fn is_due(&self) -> Result<bool> {
        if !(self.lookups.fetch_add(1, Relaxed) + 1).is_multiple_of(EVERY) {
            return Ok(false);
        }
        let most_per_check = EVERY * PAGE_BYTES;
        Ok(read_bytes()?.saturating_sub(self.read_bytes.load(Relaxed)) + most_per_check > self.excess_bytes)
    }

    /// Notes that the caches have been cut to their limits.
    pub fn done(&self) -> Result<()> {
        self.read_bytes.store(read_bytes()?, Relaxed);
        Ok(())
    }
}

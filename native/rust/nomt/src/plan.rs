//! What the options come to.

use std::path::Path;

use statelab_abi::state::{Basis, Error, Memory, Options, Result};

use crate::place::Sizes;

pub const VALUE: &str = "value";
pub const PROVE: &str = "prove";

const COMMIT_CONCURRENCY: &str = "commit_concurrency";
const IO_WORKERS: &str = "io_workers";
const HASHTABLE_BUCKETS: &str = "hashtable_buckets";

const MIB: u64 = 1 << 20;
pub const PAGE_BYTES: u64 = 4096;

const POOL_REGION_BYTES: u64 = 256 * MIB;

/// Values below a page of the trie, from which on NOMT stores the page.
const STORED_FROM: u64 = 20;

/// Children of a page of six levels.
const FANOUT: f64 = 64.0;

/// NOMT warns from 90% on: lookups get slower, commits may fail.
const OCCUPANCY: f64 = 0.75;

const LEAST_BUCKETS: u64 = 1024;

/// What a state runs with.
#[derive(Clone, Debug)]
pub struct Plan {
    pub prove: bool,
    commit_concurrency: u64,
    io_workers: u64,
    /// Of a table that is made.
    buckets: u64,
    upper_levels: usize,
    page_cache_bytes: u64,
    leaf_cache_bytes: u64,
    /// Pages that lookups may have read beyond the caches' limits until they are evicted.
    pub excess_bytes: u64,
    bookkeeping_bytes: u64,
    /// The B-tree's branches, all of which are in memory.
    branch_bytes: u64,
}

impl Plan {
    /// All mistakes, as far as they can be told without the state.
    pub fn check(options: &Options) -> Vec<String> {
        let mut mistakes = options.settings.unknown(&[COMMIT_CONCURRENCY, IO_WORKERS, HASHTABLE_BUCKETS]);
        let numbers = [(COMMIT_CONCURRENCY, 1..=64), (IO_WORKERS, 1..=64), (HASHTABLE_BUCKETS, LEAST_BUCKETS..=u32::MAX.into())];
        mistakes.extend(numbers.into_iter().filter_map(|(name, legal)| options.settings.number(name, legal).err()));
        if mistakes.is_empty() {
            let table_bytes = if options.create { buckets(options) } else { 0 };
            mistakes.extend(Shares::of(options, &Sizes { buckets: table_bytes, branch_bytes: 0 }).err());
        }
        mistakes
    }

    /// The plan for a state whose files have these sizes.
    pub fn of(options: &Options, sizes: &Sizes) -> Result<Plan> {
        let buckets = if options.create { buckets(options) } else { sizes.buckets };
        let sizes = Sizes { buckets, ..*sizes };
        let shares = Shares::of(options, &sizes).map_err(Error::Failed)?;
        Ok(Plan {
            prove: options.profile == PROVE,
            commit_concurrency: setting(options, COMMIT_CONCURRENCY).unwrap_or(1),
            io_workers: setting(options, IO_WORKERS).unwrap_or(3),
            buckets,
            upper_levels: shares.upper_levels,
            page_cache_bytes: shares.page_cache_bytes,
            leaf_cache_bytes: shares.leaf_cache_bytes,
            excess_bytes: shares.excess_bytes,
            bookkeeping_bytes: shares.bookkeeping_bytes,
            branch_bytes: sizes.branch_bytes,
        })
    }

    /// NOMT's own.
    pub fn options(&self, folder: &Path) -> nomt::Options {
        let mut options = nomt::Options::new();
        options.path(folder);
        options.commit_concurrency(self.commit_concurrency as usize);
        options.io_workers(self.io_workers as usize);
        options.hashtable_buckets(self.buckets as u32);
        // Where a page goes depends on the seed: the same state, the same reads.
        options.bitbox_seed(*b"statelabstatelab");
        options.preallocate_ht(true);
        options.page_cache_size((self.page_cache_bytes / MIB) as usize);
        options.leaf_cache_size((self.leaf_cache_bytes / MIB) as usize);
        options.page_cache_upper_levels(self.upper_levels);
        options
    }

    /// What the state keeps in memory when it has no block in hand. All pages come from a pool that
    /// NOMT takes from the system in regions, never returns, and hands out again only when it
    /// has handed out the last: sooner or later whole regions are resident, whatever the caches
    /// hold of them. A budget cannot help that; it is said here.
    pub fn memory(&self, buckets: u64) -> Vec<Memory> {
        let pooled = self.leaf_cache_bytes + self.page_cache_bytes + upper_level_bytes(self.upper_levels) + self.excess_bytes + self.branch_bytes;
        let part = |usage, basis, bytes| Memory { usage, basis, bytes };
        vec![
            part("leaf cache", Basis::Limit, self.leaf_cache_bytes),
            part("page cache of the trie", Basis::Limit, self.page_cache_bytes),
            part("upper levels of the trie", Basis::Limit, upper_level_bytes(self.upper_levels)),
            part("pages until they are evicted", Basis::Limit, self.excess_bytes),
            part("the caches' bookkeeping", Basis::Estimate, self.bookkeeping_bytes),
            part("tags of the hash table", Basis::Measured, buckets),
            part("branches of the B-tree", Basis::Estimate, self.branch_bytes),
            part("free pages of the pool", Basis::Estimate, pooled.next_multiple_of(POOL_REGION_BYTES) - pooled),
        ]
    }

    /// The settings, resolved.
    pub fn effective(&self, buckets: u64) -> Vec<(&'static str, String)> {
        vec![
            (COMMIT_CONCURRENCY, self.commit_concurrency.to_string()),
            (IO_WORKERS, self.io_workers.to_string()),
            (HASHTABLE_BUCKETS, buckets.to_string()),
            ("page_cache_size_mib", (self.page_cache_bytes / MIB).to_string()),
            ("leaf_cache_size_mib", (self.leaf_cache_bytes / MIB).to_string()),
            ("page_cache_upper_levels", self.upper_levels.to_string()),
        ]
    }
}

/// The budget, divided.
struct Shares {
    upper_levels: usize,
    page_cache_bytes: u64,
    leaf_cache_bytes: u64,
    excess_bytes: u64,
    bookkeeping_bytes: u64,
}

impl Shares {
    /// A budget goes to what cannot be helped: the hash table's tags, the branches, the trie's
    /// upper levels; an eighth to pages until they are evicted, a sixteenth to the caches' lists; the
    /// rest to the caches. A lookup of a value needs leaves alone, and then commits need some
    /// pages; a proof needs both. Without a budget, as NOMT does by default.
    fn of(options: &Options, sizes: &Sizes) -> Result<Shares, String> {
        let Some(budget) = options.memory_bytes else {
            return Ok(Shares {
                upper_levels: 2,
                page_cache_bytes: 256 * MIB,
                leaf_cache_bytes: 256 * MIB,
                excess_bytes: 64 * MIB,
                bookkeeping_bytes: 32 * MIB,
            });
        };
        let values_only = options.read_only && options.profile == VALUE;
        let upper_levels = match budget >= 64 * MIB {
            _ if values_only => 0,
            true => 2,
            false => 1,
        };
        let (excess_bytes, bookkeeping_bytes) = (budget / 8, budget / 16);
        let fixed = sizes.buckets + sizes.branch_bytes + upper_level_bytes(upper_levels);
        let caches = budget.saturating_sub(fixed + excess_bytes + bookkeeping_bytes) / MIB;
        if caches < 2 {
            // What is fixed and two caches of 1 MiB are thirteen sixteenths.
            let least = ((fixed + 2 * MIB) * 16).div_ceil(13).div_ceil(MIB);
            return Err(format!(
                "a memory of {budget} bytes is too small for {} buckets of the hash table, {} bytes of branches and caches of whole MiB, \
                 as in --memory {least}MiB",
                sizes.buckets, sizes.branch_bytes
            ));
        }
        let pages = match () {
            () if values_only => 1,
            () if options.profile == VALUE => (caches / 4).max(1),
            () => caches / 2,
        };
        Ok(Shares { upper_levels, page_cache_bytes: pages * MIB, leaf_cache_bytes: (caches - pages) * MIB, excess_bytes, bookkeeping_bytes })
    }
}

/// Pages of the levels below the root's page that stay in memory.
fn upper_level_bytes(levels: usize) -> u64 {
    (1..=levels as u32).map(|level| 64u64.pow(level) * PAGE_BYTES).sum()
}

fn buckets(options: &Options) -> u64 {
    setting(options, HASHTABLE_BUCKETS).unwrap_or_else(|| match (options.accounts_hint, options.slots_hint) {
        (None, None) => 64_000, // NOMT's default: 262 MB, about four million values
        (accounts, slots) => hash_table_buckets(accounts.unwrap_or(0) + slots.unwrap_or(0)),
    })
}

/// A setting that has been checked.
fn setting(options: &Options, name: &str) -> Option<u64> {
    options.settings.number(name, 0..=u64::MAX).unwrap_or_default()
}

/// Buckets for a state that will hold `values`: its pages at three quarters of the table, and a
/// quarter of values more than expected, since the pages of a level come all at once.
pub fn hash_table_buckets(values: u64) -> u64 {
    let pages = stored_pages(values as f64 * 1.25);
    ((pages / OCCUPANCY).ceil() as u64).clamp(LEAST_BUCKETS, u32::MAX.into())
}

/// The pages of the trie that NOMT stores for uniform keys: the root's, and of the 64^k pages
/// at page depth k those that have at least 20 values below them,
///
/// 1 + SUM over k >= 1 of 64^k * P[X >= 20], X Poisson distributed with mean values / 64^k.
pub fn stored_pages(values: f64) -> f64 {
    let levels = (1..=42).map(|k| FANOUT.powi(k));
    let populated = levels.take_while(|pages| values / pages > 0.01);
    1.0 + populated.map(|pages| pages * at_least(STORED_FROM, values / pages)).sum::<f64>()
}

/// The chance of `count` or more events where `mean` are expected.
fn at_least(count: u64, mean: f64) -> f64 {
    let mut term = (-mean).exp();
    let mut fewer = 0.0;
    for i in 0..count {
        fewer += term;
        term *= mean / (i + 1) as f64;
    }
    (1.0 - fewer).max(0.0)
}

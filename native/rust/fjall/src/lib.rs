//! fjall, an LSM tree, as an engine. Block reads are fjall's own count of what its cache did not have.
//!
//! fjall reads its tables by pread, below a cache of blocks. Filters and indexes of the two upper levels
//! are kept beside that cache; those of lower levels are read through it. A Get of fjall's sees a
//! commit's keys one by one, as programs that use it see them without a snapshot.
//!
//! # Opening
//!
//! fjall has no read-only mode: an open that is to change nothing still locks the folder and syncs the
//! journal. No key changes.
//!
//! # Settling
//!
//! fjall compacts after a flush, once for each of its threads, and not again before the next flush.
//! So a settled database has been compacted, by fjall's own strategy, until it found nothing to do.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use fjall::config::{BlockSizePolicy, CompressionPolicy};
use fjall::{AbstractTree as _, CompressionType, Keyspace, KeyspaceCreateOptions, PersistMode};
use statelab_abi::engine::{
    Basis, Capability, Change, Database, Description, Engine, Error, Memory, Options, Reader, Result, Shape, Stat, Unsettled, pinned,
};

const BLOCK_BYTES: &str = "block_bytes";
const COMPRESSION: &str = "compression";
const LAST_LEVEL_FILTERS: &str = "last_level_filters";
const MEMTABLE_BYTES: &str = "memtable_bytes";

const BOOLEANS: [&str; 2] = ["true", "false"];
const COMPRESSIONS: [&str; 2] = ["lz4", "none"];

const MIB: u64 = 1 << 20;

/// fjall's own defaults.
const DEFAULT_CACHE_BYTES: u64 = 32 * MIB;
const DEFAULT_HANDLES: u64 = 900;
const DEFAULT_MEMTABLE_BYTES: u64 = 64 * MIB;

const MOST_MEMTABLE_BYTES: u64 = 1024 * MIB;

/// fjall tells nobody the size of a keyspace's memtables, so it is in the keyspace's name.
const KEYSPACE: &str = "pairs, memtables of ";

/// The file that says that a folder is fjall's, and in which format.
const VERSION: (&str, &[u8]) = ("version", b"FJL\x03");

struct Fjall;

statelab_abi::export_engine!(Fjall);

impl Engine for Fjall {
    type Database = Store;

    fn describe() -> Description {
        Description {
            name: "fjall",
            version: pinned(include_str!("../Cargo.toml"), "fjall"),
            licence: "MIT OR Apache-2.0",
            durability: "a kill: every commit; a power cut: what a sync returned for",
            capabilities: &[
                Capability::BlockReads,
                Capability::MemoryBudget,
                Capability::Stores(BLOCK_BYTES),
                Capability::Stores(COMPRESSION),
                Capability::Stores(LAST_LEVEL_FILTERS),
                Capability::Stores(MEMTABLE_BYTES),
            ],
        }
    }

    fn check(options: &Options) -> Vec<String> {
        let settings = &options.settings;
        let mut mistakes = settings.unknown(&[BLOCK_BYTES, COMPRESSION, LAST_LEVEL_FILTERS, MEMTABLE_BYTES]);
        mistakes.extend(settings.number(BLOCK_BYTES, 1024..=MIB).err());
        mistakes.extend(settings.number(MEMTABLE_BYTES, MIB..=MOST_MEMTABLE_BYTES).err());
        mistakes.extend(settings.choice(COMPRESSION, &COMPRESSIONS).err());
        mistakes.extend(settings.choice(LAST_LEVEL_FILTERS, &BOOLEANS).err());
        if let Some(few) = options.handles.filter(|&count| count < 10) {
            mistakes.push(format!("{few} handles are too few for fjall: it needs at least 10, as in --max-open-files 10"));
        }
        if let Some(budget) = options.memory_bytes.filter(|&budget| budget < 8 * MIB) {
            mistakes.push(format!("a memory of {budget} bytes is too small for fjall's memtables and cache, as in --memory 8MiB"));
        }
        mistakes
    }

    fn open(options: &Options) -> Result<Store> {
        let folder = &options.directory;
        if !options.create {
            recognise(folder)?;
        }
        let asked = options.settings.number(MEMTABLE_BYTES, 0..=u64::MAX).unwrap_or_default();
        // Of a budget, two memtables get a quarter, and filters and indexes outside the cache a sixteenth.
        let memtable_bytes =
            asked.or(options.memory_bytes.map(|budget| budget / 8)).unwrap_or(DEFAULT_MEMTABLE_BYTES).clamp(MIB, MOST_MEMTABLE_BYTES);
        // What is looked up in a settled database is in no memtable.
        let buffers = if options.read_only { 0 } else { MEMTABLES * memtable_bytes };
        let budget = options.memory_bytes.map(|budget| (budget - budget / 16).saturating_sub(buffers).max(MIB));
        let cache_bytes = options.cache_bytes.or(budget).unwrap_or(DEFAULT_CACHE_BYTES);
        let handles = options.handles.unwrap_or(DEFAULT_HANDLES);
        let database = open(folder, cache_bytes, handles)?;
        let pairs = match keyspace_of(&database) {
            None if !options.create => return Err(Error::NotADatabase("another program's database of fjall".into())),
            found => found.unwrap_or_else(|| format!("{KEYSPACE}{memtable_bytes}")),
        };
        let pairs = database.keyspace(&pairs, || keyspace_options(options, memtable_bytes)).map_err(Error::doing("open the keyspace"))?;
        Ok(Store { database, pairs, cache_bytes, handles, buffers, told: Default::default() })
    }
}

/// The one that is written to and the one that is being flushed. fjall stops writers at four more.
const MEMTABLES: u64 = 2;

fn open(folder: &Path, cache_bytes: u64, handles: u64) -> Result<fjall::Database> {
    let builder = fjall::Database::builder(folder).cache_size(cache_bytes).max_cached_files(usize::try_from(handles).ok());
    builder.open().map_err(|why| match why {
        fjall::Error::Locked => Error::Locked(format!("{} is locked", folder.display())),
        why => Error::Failed(format!("open {}: {why}", folder.display())),
    })
}

/// Refuses a folder that fjall would make a database in, or take for damaged.
fn recognise(folder: &Path) -> Result<()> {
    let (name, head) = VERSION;
    let found = fs::read(folder.join(name)).map_err(|why| Error::NotADatabase(format!("{name}: {why}")))?;
    if found != head {
        return Err(Error::NotADatabase(format!("the file {name} is not of fjall 3")));
    }
    Ok(())
}

fn keyspace_of(database: &fjall::Database) -> Option<String> {
    database.list_keyspace_names().iter().map(|name| name.to_string()).find(|name| name.starts_with(KEYSPACE))
}

fn keyspace_options(options: &Options, memtable_bytes: u64) -> KeyspaceCreateOptions {
    let settings = &options.settings;
    let mut keyspace = KeyspaceCreateOptions::default().max_memtable_size(memtable_bytes);
    if let Ok(Some(bytes)) = settings.number(BLOCK_BYTES, 0..=MIB) {
        keyspace = keyspace.data_block_size_policy(BlockSizePolicy::all(bytes as u32));
    }
    if settings.get(COMPRESSION) == Some("none") {
        keyspace = keyspace.data_block_compression_policy(CompressionPolicy::disabled());
    }
    keyspace.expect_point_read_hits(settings.get(LAST_LEVEL_FILTERS) == Some("false"))
}

struct Store {
    database: fjall::Database,
    pairs: Keyspace,
    cache_bytes: u64,
    handles: u64,
    /// What two memtables may take. Those of a database that was made with other sizes can be larger.
    buffers: u64,
    /// Reads as they were last told. Accesses are asked for before hits, so while Gets run their difference may be
    /// too small, and never too large.
    told: [AtomicU64; 3],
}

impl Store {
    /// What compactions change.
    fn levels(&self) -> (Vec<Option<usize>>, usize, u64) {
        let tree = &self.pairs.tree;
        ((0..7).map(|level| tree.level_table_count(level)).collect(), tree.l0_run_count(), tree.disk_space())
    }

    /// Compacts once, and says whether there was something to do.
    fn compact(&self) -> Result<bool> {
        let before = self.levels();
        let oldest = self.database.supervisor.snapshot_tracker.get_seqno_safe_to_gc();
        self.pairs.tree.compact(self.pairs.config.compaction_strategy.clone(), oldest).map_err(Error::doing("compact"))?;
        Ok(self.levels() != before)
    }

    fn memtable_bytes(&self) -> u64 {
        self.pairs.name().strip_prefix(KEYSPACE).and_then(|bytes| bytes.parse().ok()).unwrap_or_default()
    }

    /// Memtables to be flushed, and compactions that run.
    fn jobs(&self) -> u64 {
        (self.pairs.tree.sealed_memtable_count() + self.database.active_compactions()) as u64
    }
}

impl Database for Store {
    type Reader = Lookup;

    fn reader(&self) -> Result<Lookup> {
        Ok(Lookup(self.pairs.clone()))
    }

    fn commit(&self, changes: Vec<Change>) -> Result<()> {
        let mut batch = self.database.batch();
        for Change { key, value } in changes {
            match value {
                Some(value) => batch.insert(&self.pairs, key, value),
                None => batch.remove(&self.pairs, key),
            }
        }
        batch.commit().map_err(Error::doing("commit"))
    }

    /// An error of fjall's threads comes to light here.
    fn sync(&self) -> Result<()> {
        self.database.persist(PersistMode::SyncAll).map_err(Error::doing("sync"))
    }

    fn settle(&self, at_most: Duration) -> Result<Option<Unsettled>> {
        let until = Instant::now() + at_most;
        self.pairs.rotate_memtable().map_err(Error::doing("flush"))?;
        // One of fjall's own that begins meanwhile keeps ours from its tables.
        while self.jobs() > 0 || self.compact()? || self.jobs() > 0 {
            if Instant::now() >= until {
                return Ok(Some(Unsettled { pending_bytes: 0, jobs: self.jobs().max(1) }));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(None)
    }

    fn stats(&self) -> Vec<Stat> {
        let metrics = self.pairs.metrics();
        let needed = [metrics.data_block_load_count(), metrics.index_block_load_count(), metrics.filter_block_load_count()];
        let cached = [metrics.data_block_load_cached_count(), metrics.index_block_load_cached_count(), metrics.filter_block_load_cached_count()];
        let mut reads = [0; 3];
        for (i, read) in reads.iter_mut().enumerate() {
            let now = needed[i].saturating_sub(cached[i]) as u64;
            *read = now.max(self.told[i].fetch_max(now, Relaxed));
        }
        let stat = |name, value| Stat { name, value };
        vec![
            stat("reads.data", reads[0]),
            stat("read_bytes.data", metrics.data_block_io()),
            stat("reads.index", reads[1]),
            stat("read_bytes.index", metrics.index_block_io()),
            stat("reads.filter", reads[2]),
            stat("read_bytes.filter", metrics.filter_block_io()),
            stat("cache_hits", cached.iter().sum::<usize>() as u64),
            stat("cache_misses", metrics.block_load_io_count() as u64),
            stat("filter_negative", metrics.io_skipped_by_filter() as u64),
            stat("cache_used_bytes", self.database.cache_size()),
            stat("memtable_bytes", self.database.write_buffer_size()),
        ]
    }

    fn memory(&self) -> Vec<Memory> {
        let outside = (self.pairs.tree.pinned_filter_size() + self.pairs.tree.pinned_block_index_size()) as u64;
        let buffers = self.buffers.max(self.database.write_buffer_size());
        let mut parts = vec![
            Memory { usage: "block cache", basis: Basis::Limit, bytes: self.cache_bytes },
            Memory { usage: "write buffers", basis: Basis::Estimate, bytes: buffers },
            Memory { usage: "filters and indexes outside the cache", basis: Basis::Measured, bytes: outside },
        ];
        parts.sort_by_key(|part| std::cmp::Reverse(part.bytes));
        parts
    }

    fn effective(&self) -> Vec<(&'static str, String)> {
        let config = &self.pairs.config;
        let compressed = config.data_block_compression_policy.last() == Some(&CompressionType::Lz4);
        vec![
            ("cache_bytes", self.cache_bytes.to_string()),
            ("handles", self.handles.to_string()),
            (BLOCK_BYTES, config.data_block_size_policy.first().copied().unwrap_or_default().to_string()),
            (COMPRESSION, if compressed { "lz4" } else { "none" }.to_string()),
            (LAST_LEVEL_FILTERS, (!config.expect_point_read_hits).to_string()),
            (MEMTABLE_BYTES, self.memtable_bytes().to_string()),
        ]
    }

    fn shape(&self) -> Result<Shape> {
        Ok(Shape { bytes: self.pairs.disk_space(), files: self.pairs.table_count() as u64 })
    }
}

struct Lookup(Keyspace);

impl Reader for Lookup {
    fn get<T>(&mut self, key: &[u8], take: impl FnOnce(&[u8]) -> T) -> Result<Option<T>> {
        Ok(self.0.get(key).map_err(Error::doing("get"))?.map(|value| take(&value)))
    }
}

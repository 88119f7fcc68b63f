//! The traits that an engine implements, and what they talk about.

use std::fs::{File, OpenOptions, TryLockError};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use crate::{Error, Memory, Result, Settings, Stat, Unsettled};

/// Opens databases. Implementations hold no state of their own.
pub trait Engine: 'static {
    /// What [`Engine::open`] opens.
    type Database: Database;

    /// What the table tells. Called once.
    fn describe() -> Description;

    /// Everything that is wrong with the options, each with a legal example. Touches no file.
    /// An engine without options of its own needs no other than this.
    fn check(options: &Options) -> Vec<String> {
        options.settings.unknown(&[])
    }

    /// Opens the database. The options have passed [`Engine::check`].
    fn open(options: &Options) -> Result<Self::Database>;
}

/// An open database. All methods take `&self`: they are called from several threads at a time.
/// What readers need beyond the database's own life is shared with them by `Arc`.
///
/// If a method that returns a `Result` panics, the caller gets an error. A panic in one of the
/// others ends the process.
pub trait Database: Send + Sync + 'static {
    /// What looks up.
    type Reader: Reader;

    /// Opens a reader. All are dropped before the database is closed.
    fn reader(&self) -> Result<Self::Reader>;

    /// Applies a batch as a whole and in order, and need not wait for the disk. Nobody sees anything
    /// of it before. Never called if the database is open for reading only.
    fn commit(&self, batch: Vec<Change>) -> Result<()>;

    /// Returns when everything that was committed survives a kill of the process. Called before the
    /// database is closed as well, and never if it is open for reading only.
    fn sync(&self) -> Result<()>;

    /// Flushes what is buffered and returns when no background work is left, but not much later
    /// than `at_most`: then with what is left. An engine that does nothing in the background has
    /// settled when it has synced, which has been done before.
    fn settle(&self, at_most: Duration) -> Result<Option<Unsettled>> {
        let _ = at_most;
        Ok(None)
    }

    /// The counters that the engine has. Reads no block. `user_write_bytes` is added here.
    fn stats(&self) -> Vec<Stat>;

    /// The parts of what the engine keeps in memory; none if it does not tell.
    fn memory(&self) -> Vec<Memory> {
        Vec::new()
    }

    /// What the engine runs with, defaults resolved: `cache_bytes` and `handles`, and the settings by their names.
    /// An engine of [`Capability::NoBlockCache`] and [`Capability::NoHandles`] without settings needs no other than this.
    fn effective(&self) -> Vec<(&'static str, String)> {
        vec![("cache_bytes", "0".into()), ("handles", "0".into())]
    }

    /// Of the files that lookups read.
    fn shape(&self) -> Result<Shape>;

    /// Nothing may be left running afterwards, also on failure. Where dropping the database does
    /// all that, nothing else is needed.
    fn close(self) -> Result<()>
    where
        Self: Sized,
    {
        Ok(())
    }
}

/// Counts block reads of an engine whose blocks are all of one type.
#[derive(Debug, Default)]
pub struct Reads {
    count: AtomicU64,
    bytes: AtomicU64,
}

impl Reads {
    /// Counts a block read of so many bytes of the file.
    pub fn add(&self, bytes: usize) {
        self.count.fetch_add(1, Relaxed);
        self.bytes.fetch_add(bytes as u64, Relaxed);
    }

    /// For [`Database::stats`].
    pub fn stats(&self) -> Vec<Stat> {
        let stat = |name, value: &AtomicU64| Stat { name, value: value.load(Relaxed) };
        vec![stat("reads.data", &self.count), stat("read_bytes.data", &self.bytes)]
    }
}

/// Looks up. Used by one thread at a time, but not always by the same one; many readers look up at
/// once.
pub trait Reader: Send + 'static {
    /// Hands the value of a key to `take`, which copies it to where the harness wants it. This is the
    /// call that is measured. It sees every commit that returned before it began.
    fn get<T>(&mut self, key: &[u8], take: impl FnOnce(&[u8]) -> T) -> Result<Option<T>>;
}

/// A part of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Its key.
    pub key: Vec<u8>,
    /// What it becomes; None deletes it.
    pub value: Option<Vec<u8>>,
}

/// What a database is opened with.
#[derive(Clone, Debug)]
pub struct Options {
    /// Of the database; empty in a check that does not know it yet.
    pub directory: PathBuf,
    /// Make a database in the directory, which exists and holds nothing but, perhaps, folders
    /// "statelab" and "lost+found". Otherwise open the one that is there, and create nothing.
    pub create: bool,
    /// No file will be changed.
    pub read_only: bool,
    /// Reads bypass the page cache. Only with [`Capability::Direct`].
    pub direct: bool,
    /// The cache admits nothing. Only with [`Capability::BlockAccesses`].
    pub trace_accesses: bool,
    /// The engine's own cache of blocks; None: its default.
    pub cache_bytes: Option<u64>,
    /// All that the engine keeps in memory; None: its default. Only with
    /// [`Capability::MemoryBudget`], and never together with `cache_bytes`.
    pub memory_bytes: Option<u64>,
    /// Files that it may keep open; None: its default.
    pub handles: Option<u64>,
    /// The user's own.
    pub settings: Settings,
}

impl Options {
    /// Opens a file in the directory, and locks it until it is closed: a new one if a database is created, for reading only
    /// if no file may change.
    ///
    /// # Errors
    /// [`Error::NotADatabase`] if it cannot be opened, [`Error::Locked`] if another process has locked it.
    pub fn open_file(&self, name: &str) -> Result<File> {
        let path = self.directory.join(name);
        let file = OpenOptions::new().read(true).write(!self.read_only).create_new(self.create).open(&path);
        let file = file.map_err(|why| Error::NotADatabase(format!("open {}: {why}", path.display())))?;
        let locked = if self.read_only { file.try_lock_shared() } else { file.try_lock() };
        match locked {
            Ok(()) => Ok(file),
            Err(TryLockError::WouldBlock) => Err(Error::Locked(format!("{} is locked", path.display()))),
            Err(TryLockError::Error(why)) => Err(Error::Failed(format!("lock {}: {why}", path.display()))),
        }
    }
}

/// What the table tells of an engine.
#[derive(Clone, Debug)]
pub struct Description {
    /// "redb".
    pub name: &'static str,
    /// Of the code behind it: see [`pinned`](crate::pinned).
    pub version: &'static str,
    /// SPDX.
    pub licence: &'static str,
    /// What survives a kill, and what a power cut, after a commit and after a sync.
    pub durability: &'static str,
    /// What the conformance suite can rely on, and will.
    pub capabilities: &'static [Capability],
}

/// What an engine can tell or do; the header says more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capability {
    /// Counts `reads.TYPE` and, if it has a cache, `cache_hits` and `cache_misses` exactly.
    BlockReads,
    /// Honours `trace_accesses`.
    BlockAccesses,
    /// Honours `direct`.
    Direct,
    /// Honours `memory_bytes` and tells its memory.
    MemoryBudget,
    /// Gets that wait for another's read of a block count as cache misses.
    SharedReads,
    /// Reads through mmap: the operating system's page cache is its cache.
    PageCache,
    /// Keeps nothing on disk.
    Volatile,
    /// Keeps no blocks itself: `cache_bytes` has no effect, and is told as 0.
    NoBlockCache,
    /// Keeps all its files open: `handles` has no effect, and is told as 0.
    NoHandles,
    /// This setting applies when data is written. A database keeps the value that it was made with:
    /// told by [`Database::effective`], it is compared with what the user asks for at every later open.
    Stores(&'static str),
}

impl Capability {
    /// In the header.
    pub(super) fn name(self) -> String {
        let word = match self {
            Capability::BlockReads => "block_reads",
            Capability::BlockAccesses => "block_accesses",
            Capability::Direct => "direct",
            Capability::MemoryBudget => "memory_budget",
            Capability::SharedReads => "shared_reads",
            Capability::PageCache => "page_cache",
            Capability::Volatile => "volatile",
            Capability::NoBlockCache => "no_block_cache",
            Capability::NoHandles => "no_handles",
            Capability::Stores(setting) => return format!("stores={setting}"),
        };
        word.to_string()
    }
}

/// Of the files that lookups read: no log, no manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Of all of them.
    pub bytes: u64,
    /// How many.
    pub files: u64,
}

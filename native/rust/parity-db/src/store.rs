//! An open database.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, RwLock};
use std::time::{Duration, Instant};

use parity_db::{Db, Options as DbOptions};
use statelab_abi::engine::{Basis, Change, Database, Error, Memory, Options, Reader, Result, Shape, Stat, Unsettled};

use crate::{UNIFORM, UNIFORM_KEY_BYTES, files_of};

/// The column of all pairs.
const PAIRS: u8 = 0;

/// A key that only a sync writes, as long as those that are uniform. What it holds after the database was
/// opened again says whether ParityDB wrote all: closing tells no errors.
const MARK: &[u8; UNIFORM_KEY_BYTES] = b"statelab: the number of the sync";

/// Commits that wait to be written to the log, and logs that wait to be written to the files: ParityDB's own
/// limits, which cannot be set.
const WRITE_BUFFER_BYTES: u64 = (16 + 128) << 20;

/// How long ParityDB first gets to move an index before the database is closed, which alone makes what is
/// moved take effect. Moving begins anew at every open, so it gets twice as long each time.
const FIRST_PATIENCE: Duration = Duration::from_millis(500);

pub struct Store {
    shared: Arc<Shared>,
    memory_bytes: Option<u64>,
    read_only: bool,
    unsynced: AtomicBool,
    syncs: AtomicU64,
    moving: Mutex<Patience>,
}

struct Patience {
    since: Instant,
    length: Duration,
}

/// What readers need as well.
struct Shared {
    /// Missing for good after a sync that could not open it again.
    place: RwLock<Option<Db>>,
    options: DbOptions,
}

impl Store {
    /// Opens the database, or makes one.
    pub fn open(files: DbOptions, options: &Options) -> Result<Store> {
        let opened = match (options.create, options.read_only) {
            (true, _) => Db::open_or_create(&files),
            (false, true) => Db::open_read_only(&files),
            (false, false) => Db::open(&files),
        };
        let opened = opened.map_err(|why| failed(&files.path, why))?;
        let syncs = mark_of(&opened)?;
        Ok(Store {
            shared: Arc::new(Shared { place: RwLock::new(Some(opened)), options: files }),
            memory_bytes: options.memory_bytes,
            read_only: options.read_only,
            unsynced: AtomicBool::new(false),
            syncs: AtomicU64::new(syncs),
            moving: Mutex::new(Patience { since: Instant::now(), length: FIRST_PATIENCE }),
        })
    }

    /// Closes the database, which writes everything, and opens it again.
    fn reopen(&self) -> Result<()> {
        let mut place = self.shared.place.write().map_err(|_| broken())?;
        let database = place.take().ok_or_else(broken)?;
        let number = self.syncs.fetch_add(1, Relaxed) + 1;
        // An error of ParityDB's threads comes to light here.
        let marked = database.commit([(PAIRS, MARK, Some(number.to_le_bytes().to_vec()))]);
        drop(database);
        marked.map_err(Error::doing("sync"))?;
        let database = Db::open(&self.shared.options).map_err(|why| failed(&self.shared.options.path, why))?;
        if mark_of(&database)? != number {
            return Err(Error::Failed("sync: ParityDB did not write all that was committed: look whether the disk is full".into()));
        }
        *place = Some(database);
        Ok(())
    }

    fn uniform(&self) -> bool {
        self.shared.options.columns.iter().any(|column| column.uniform)
    }
}

fn mark_of(database: &Db) -> Result<u64> {
    let mark = database.get(PAIRS, MARK).map_err(Error::doing("read the number of the sync"))?;
    Ok(mark.and_then(|bytes| Some(u64::from_le_bytes(bytes.try_into().ok()?))).unwrap_or(0))
}

fn failed(folder: &Path, why: parity_db::Error) -> Error {
    let text = format!("open {}: {why}", folder.display());
    match why {
        parity_db::Error::Locked(_) => Error::Locked(text),
        _ => Error::Failed(text),
    }
}

fn broken() -> Error {
    Error::Failed("an earlier sync failed: close the database and open it again".into())
}

impl Shared {
    fn with<T>(&self, doing: &str, f: impl FnOnce(&Db) -> parity_db::Result<T>) -> Result<T> {
        let database = self.place.read().map_err(|_| broken())?;
        f(database.as_ref().ok_or_else(broken)?).map_err(Error::doing(doing))
    }
}

impl Database for Store {
    type Reader = Lookup;

    fn reader(&self) -> Result<Lookup> {
        Ok(Lookup { shared: self.shared.clone(), uniform: self.uniform() })
    }

    fn commit(&self, batch: Vec<Change>) -> Result<()> {
        if let Some(change) = batch.iter().find(|change| self.uniform() && change.key.len() != UNIFORM_KEY_BYTES) {
            let bytes = change.key.len();
            return Err(Error::Failed(format!(
                "commit: a key of {bytes} bytes, and with {UNIFORM}=true ParityDB takes keys of {UNIFORM_KEY_BYTES} bytes alone"
            )));
        }
        self.unsynced.store(true, Relaxed);
        self.shared.with("commit", |database| database.commit(batch.into_iter().map(|Change { key, value }| (PAIRS, key, value))))
    }

    fn sync(&self) -> Result<()> {
        if self.unsynced.swap(false, Relaxed) { self.reopen().inspect_err(|_| self.unsynced.store(true, Relaxed)) } else { Ok(()) }
    }

    fn settle(&self, at_most: Duration) -> Result<Option<Unsettled>> {
        let (indexes, _) = files_of(&self.shared.options.path)?;
        if self.read_only || indexes.len() < 2 {
            return Ok(None);
        }
        let mut moving = self.moving.lock().map_err(|_| broken())?;
        match moving.length.checked_sub(moving.since.elapsed()) {
            Some(left) => std::thread::sleep(left.min(at_most)),
            None => {
                self.reopen()?;
                *moving = Patience { since: Instant::now(), length: 2 * moving.length };
            }
        }
        let oldest = indexes.iter().filter_map(|path| path.metadata().ok()).map(|info| info.len()).min();
        Ok(Some(Unsettled { pending_bytes: oldest.unwrap_or_default(), jobs: 1 }))
    }

    fn stats(&self) -> Vec<Stat> {
        Vec::new()
    }

    /// While nothing is written, the buffers are empty and the page cache has all of a budget. Otherwise it is
    /// divided, and the buffers may outgrow their half.
    fn memory(&self) -> Vec<Memory> {
        let most = self.memory_bytes.map_or(WRITE_BUFFER_BYTES, |budget| WRITE_BUFFER_BYTES.min(budget / 2));
        let buffers = if self.unsynced.load(Relaxed) { most } else { 0 };
        let pages = self.memory_bytes.unwrap_or_default().saturating_sub(buffers);
        let pages = Memory { usage: "page cache", basis: Basis::Limit, bytes: pages };
        let buffers = Memory { usage: "write buffers", basis: Basis::Estimate, bytes: buffers };
        if pages.bytes < buffers.bytes { vec![buffers, pages] } else { vec![pages, buffers] }
    }

    fn effective(&self) -> Vec<(&'static str, String)> {
        vec![("cache_bytes", "0".into()), ("handles", "0".into()), (UNIFORM, self.uniform().to_string())]
    }

    fn shape(&self) -> Result<Shape> {
        let (indexes, values) = files_of(&self.shared.options.path)?;
        let mut shape = Shape { bytes: 0, files: 0 };
        for path in indexes.iter().chain(&values) {
            shape.bytes += path.metadata().map_err(Error::doing("look at a file"))?.len();
            shape.files += 1;
        }
        Ok(shape)
    }
}

pub struct Lookup {
    shared: Arc<Shared>,
    uniform: bool,
}

impl Reader for Lookup {
    fn get<T>(&mut self, key: &[u8], take: impl FnOnce(&[u8]) -> T) -> Result<Option<T>> {
        if self.uniform && key.len() != UNIFORM_KEY_BYTES {
            return Ok(None); // none was ever written
        }
        let found = self.shared.with("get", |database| database.get(PAIRS, key))?;
        Ok(found.map(|value| take(&value)))
    }
}

//! redb, a B-tree of copied-on-write pages, as an engine. `counting.rs` is the file below redb that
//! counts its block reads.

mod counting;

use std::fs::{File, OpenOptions};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use redb::{Database as Writable, DatabaseError, Durability, ReadOnlyDatabase, ReadOnlyTable, ReadableDatabase, TableDefinition};
use statelab_abi::engine::{Basis, Capability, Change, Database, Description, Engine, Error, Memory, Options, Reader, Result, Shape, Stat, pinned};

use crate::counting::{Counters, CountingFile, as_a_get};

const PAIRS: TableDefinition<&[u8], &[u8]> = TableDefinition::new("pairs");
const FILE: &str = "redb";
const DEFAULT_CACHE_BYTES: u64 = 8 << 20;

struct Redb;

statelab_abi::export_engine!(Redb);

impl Engine for Redb {
    type Database = Store;

    fn describe() -> Description {
        Description {
            name: "redb",
            version: pinned(include_str!("../Cargo.toml"), "redb"),
            licence: "MIT OR Apache-2.0",
            durability: "a kill or a power cut: what a sync or settle returned for; what was committed later is lost",
            capabilities: &[Capability::BlockReads, Capability::MemoryBudget],
        }
    }

    fn open(options: &Options) -> Result<Store> {
        let path = options.directory.join(FILE);
        let file = OpenOptions::new().read(true).write(!options.read_only).create_new(options.create).open(&path);
        let file = file.map_err(|why| match why.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Error::NotADatabase(format!("{} is not there", path.display())),
            _ => Error::Failed(format!("open {}: {why}", path.display())),
        })?;
        // redb keeps all that it buffers, of reads and writes, within one size.
        let cache_bytes = options.cache_bytes.or(options.memory_bytes).unwrap_or(DEFAULT_CACHE_BYTES);
        let counters = Arc::new(Counters::default());
        let opened = open_redb(file, &counters, options.read_only, cache_bytes).map_err(|why| match why {
            DatabaseError::DatabaseAlreadyOpen => Error::Locked(format!("{} is locked", path.display())),
            why => Error::Failed(format!("open {}: {why}", path.display())),
        })?;
        let shared = Arc::new(Shared { opened, counters, commits: AtomicU64::new(0) });
        let store = Store { shared, path, cache_bytes, handles: options.handles.unwrap_or(1) };
        if options.create {
            store.write(&[], Durability::Immediate)?; // makes the table
        }
        Ok(store)
    }
}

fn open_redb(file: File, counters: &Arc<Counters>, read_only: bool, cache_bytes: u64) -> Result<Opened, DatabaseError> {
    let file = CountingFile::new(file, counters.clone())?;
    let mut builder = Writable::builder();
    builder.set_cache_size(cache_bytes as usize);
    Ok(match read_only {
        true => Opened::ReadOnly(builder.open_read_only_with_backend(file)?),
        false => Opened::ReadWrite(builder.create_with_backend(file)?),
    })
}

enum Opened {
    ReadWrite(Writable),
    ReadOnly(ReadOnlyDatabase),
}

/// What readers need as well.
struct Shared {
    opened: Opened,
    counters: Arc<Counters>,
    commits: AtomicU64, // so that readers see when their snapshot is old
}

struct Store {
    shared: Arc<Shared>,
    path: PathBuf,
    cache_bytes: u64,
    handles: u64,
}

impl Store {
    fn write(&self, batch: &[Change], durability: Durability) -> Result<()> {
        let Opened::ReadWrite(database) = &self.shared.opened else {
            return Err(Error::Failed("the database is open for reading only".into()));
        };
        let mut transaction = database.begin_write().map_err(Error::doing("begin to write"))?;
        transaction.set_durability(durability).map_err(Error::doing("set the durability"))?;
        {
            let mut table = transaction.open_table(PAIRS).map_err(Error::doing("open the table"))?;
            for Change { key, value } in batch {
                match value {
                    Some(value) => table.insert(key.as_slice(), value.as_slice()).map_err(Error::doing("insert"))?,
                    None => table.remove(key.as_slice()).map_err(Error::doing("remove"))?,
                };
            }
        }
        transaction.commit().map_err(Error::doing("commit"))?;
        self.shared.commits.fetch_add(1, Ordering::Release);
        Ok(())
    }
}

impl Database for Store {
    type Reader = Lookup;

    fn reader(&self) -> Result<Lookup> {
        Ok(Lookup { snapshot: self.shared.snapshot()?, shared: self.shared.clone() })
    }

    fn commit(&self, batch: Vec<Change>) -> Result<()> {
        self.write(&batch, Durability::None)
    }

    /// A durable commit makes all earlier ones durable, too.
    fn sync(&self) -> Result<()> {
        self.write(&[], Durability::Immediate)
    }

    fn stats(&self) -> Vec<Stat> {
        self.shared.counters.stats()
    }

    fn memory(&self) -> Vec<Memory> {
        vec![Memory { usage: "block cache", basis: Basis::Limit, bytes: self.cache_bytes }]
    }

    fn effective(&self) -> Vec<(&'static str, String)> {
        vec![("cache_bytes", self.cache_bytes.to_string()), ("handles", self.handles.to_string())]
    }

    fn shape(&self) -> Result<Shape> {
        let info = std::fs::metadata(&self.path).map_err(Error::doing("look at the database file"))?;
        Ok(Shape { bytes: info.len(), files: 1 })
    }
}

/// A state of the database, and the number of commits it is sure to hold.
struct Snapshot {
    commits: u64,
    table: ReadOnlyTable<&'static [u8], &'static [u8]>,
}

impl Shared {
    fn snapshot(&self) -> Result<Snapshot> {
        let commits = self.commits.load(Ordering::Acquire);
        let transaction = match &self.opened {
            Opened::ReadWrite(database) => database.begin_read(),
            Opened::ReadOnly(database) => database.begin_read(),
        };
        let transaction = transaction.map_err(Error::doing("begin to read"))?;
        let table = transaction.open_table(PAIRS).map_err(Error::doing("open the table"))?;
        Ok(Snapshot { commits, table })
    }
}

/// Reads from a snapshot for as long as nobody commits. A reader that is kept idle keeps the pages
/// of its snapshot from being used again.
struct Lookup {
    snapshot: Snapshot,
    shared: Arc<Shared>,
}

impl Reader for Lookup {
    fn get<T>(&mut self, key: &[u8], take: impl FnOnce(&[u8]) -> T) -> Result<Option<T>> {
        as_a_get(|| {
            if self.snapshot.commits != self.shared.commits.load(Ordering::Acquire) {
                self.snapshot = self.shared.snapshot()?;
            }
            let found = self.snapshot.table.get(key).map_err(Error::doing("get"))?;
            Ok(found.map(|value| take(value.value())))
        })
    }
}

//! One table of a redb database, as the contract wants it: readers that see every
//! commit, writers that collect a batch.

use std::ffi::CString;
use std::fs::OpenOptions;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use redb::{Database, DatabaseError, Durability, ReadOnlyDatabase, ReadOnlyTable, ReadTransaction, ReadableDatabase, TableDefinition};

use crate::counting::{Counters, CountingFile, as_a_get};

const PAIRS: TableDefinition<&[u8], &[u8]> = TableDefinition::new("pairs");
const FILE: &str = "redb";
const DEFAULT_CACHE_BYTES: i64 = 8 << 20;

pub enum Failure {
    Failed(String),
    Locked(String),
    NotADatabase(String),
}

/// Says what was being done when it went wrong.
fn failed<E: std::fmt::Display>(doing: &str) -> impl FnOnce(E) -> Failure {
    move |why| Failure::Failed(format!("{doing}: {why}"))
}

/// What a store is opened with.
pub struct Plan<'a> {
    pub directory: &'a Path,
    pub create: bool,
    pub read_only: bool,
    pub cache_bytes: i64, // 0: the default
    pub handles: i64,
}

enum Opened {
    ReadWrite(Database),
    ReadOnly(ReadOnlyDatabase),
}

pub struct Store {
    shared: Arc<Shared>,
    pub cache_bytes: i64,
    pub cache_text: CString,
    pub handles_text: CString,
}

struct Shared {
    database: Opened,
    counters: Arc<Counters>,
    commits: AtomicU64, // so that readers see when their snapshot is old
    user_write_bytes: AtomicI64,
    file: std::path::PathBuf,
}

impl Store {
    pub fn open(plan: &Plan) -> Result<Store, Failure> {
        let path = plan.directory.join(FILE);
        let mut options = OpenOptions::new();
        options.read(true).write(!plan.read_only).create_new(plan.create);
        let file = options.open(&path).map_err(|why| match why.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Failure::NotADatabase(format!("{} is not there", path.display())),
            _ => Failure::Failed(format!("open {}: {why}", path.display())),
        })?;
        let cache_bytes = if plan.cache_bytes == 0 { DEFAULT_CACHE_BYTES } else { plan.cache_bytes };
        let counters = Arc::new(Counters::default());
        let database = open_redb(file, plan.read_only, cache_bytes as usize, &counters).map_err(|why| match why {
            DatabaseError::DatabaseAlreadyOpen => Failure::Locked(format!("{} is locked", path.display())),
            why => Failure::Failed(format!("open {}: {why}", path.display())),
        })?;
        let shared = Shared { database, counters, commits: AtomicU64::new(0), user_write_bytes: AtomicI64::new(0), file: path };
        if plan.create {
            shared.commit(&[], Durability::Immediate)?; // makes the table
        }
        let handles = if plan.handles == 0 { 1 } else { plan.handles };
        let text = |n: i64| CString::new(n.to_string()).expect("digits hold no NUL");
        Ok(Store { shared: Arc::new(shared), cache_bytes, cache_text: text(cache_bytes), handles_text: text(handles) })
    }

    pub fn reader(&self) -> Result<Reader, Failure> {
        Ok(Reader { snapshot: self.shared.snapshot()?, shared: self.shared.clone() })
    }

    pub fn writer(&self) -> Result<Writer, Failure> {
        match self.shared.database {
            Opened::ReadOnly(_) => Err(Failure::Failed("the database is open for reading only".into())),
            Opened::ReadWrite(_) => Ok(Writer { shared: self.shared.clone(), batch: Vec::new() }),
        }
    }

    /// A durable commit makes all earlier ones durable, too.
    pub fn sync(&self) -> Result<(), Failure> {
        match self.shared.database {
            Opened::ReadOnly(_) => Ok(()),
            Opened::ReadWrite(_) => self.shared.commit(&[], Durability::Immediate),
        }
    }

    pub fn counters(&self) -> &Counters {
        &self.shared.counters
    }

    pub fn user_write_bytes(&self) -> i64 {
        self.shared.user_write_bytes.load(Ordering::Relaxed)
    }

    pub fn file_bytes(&self) -> Result<i64, Failure> {
        let info = std::fs::metadata(&self.shared.file).map_err(failed("look at the database file"))?;
        Ok(info.len() as i64)
    }
}

fn open_redb(file: std::fs::File, read_only: bool, cache_bytes: usize, counters: &Arc<Counters>) -> Result<Opened, DatabaseError> {
    let file = CountingFile::new(file, counters.clone())?;
    let mut builder = Database::builder();
    builder.set_cache_size(cache_bytes);
    Ok(if read_only { Opened::ReadOnly(builder.open_read_only_with_backend(file)?) } else { Opened::ReadWrite(builder.create_with_backend(file)?) })
}

/// A state of the database, and the number of commits it is sure to hold.
struct Snapshot {
    commits: u64,
    table: ReadOnlyTable<&'static [u8], &'static [u8]>,
}

impl Shared {
    fn snapshot(&self) -> Result<Snapshot, Failure> {
        let commits = self.commits.load(Ordering::Acquire);
        let transaction: ReadTransaction = match &self.database {
            Opened::ReadWrite(database) => database.begin_read(),
            Opened::ReadOnly(database) => database.begin_read(),
        }
        .map_err(failed("begin to read"))?;
        let table = transaction.open_table(PAIRS).map_err(failed("open the table"))?;
        Ok(Snapshot { commits, table })
    }

    fn commit(&self, batch: &[(Vec<u8>, Option<Vec<u8>>)], durability: Durability) -> Result<(), Failure> {
        let Opened::ReadWrite(database) = &self.database else {
            return Err(Failure::Failed("the database is open for reading only".into()));
        };
        let mut transaction = database.begin_write().map_err(failed("begin to write"))?;
        transaction.set_durability(durability).map_err(failed("set the durability"))?;
        {
            let mut table = transaction.open_table(PAIRS).map_err(failed("open the table"))?;
            for (key, value) in batch {
                match value {
                    Some(value) => table.insert(key.as_slice(), value.as_slice()).map_err(failed("insert"))?,
                    None => table.remove(key.as_slice()).map_err(failed("remove"))?,
                };
            }
        }
        transaction.commit().map_err(failed("commit"))?;
        self.commits.fetch_add(1, Ordering::Release);
        Ok(())
    }
}

/// Reads from a snapshot for as long as nobody commits. A reader that is kept idle
/// keeps the pages of its snapshot from being used again.
pub struct Reader {
    snapshot: Snapshot,
    shared: Arc<Shared>,
}

impl Reader {
    /// Hands the value of key to `take`.
    pub fn get<T>(&mut self, key: &[u8], take: impl FnOnce(&[u8]) -> T) -> Result<Option<T>, Failure> {
        as_a_get(|| {
            if self.snapshot.commits != self.shared.commits.load(Ordering::Acquire) {
                self.snapshot = self.shared.snapshot()?;
            }
            let found = self.snapshot.table.get(key).map_err(failed("get"))?;
            Ok(found.map(|value| take(value.value())))
        })
    }
}

pub struct Writer {
    shared: Arc<Shared>,
    batch: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

impl Writer {
    pub fn put(&mut self, key: &[u8], value: &[u8]) {
        self.batch.push((key.to_vec(), Some(value.to_vec())));
    }

    pub fn remove(&mut self, key: &[u8]) {
        self.batch.push((key.to_vec(), None));
    }

    pub fn commit(&mut self) -> Result<(), Failure> {
        if self.batch.is_empty() {
            return Ok(());
        }
        self.shared.commit(&self.batch, Durability::None)?;
        let bytes: usize = self.batch.iter().map(|(key, value)| key.len() + value.as_ref().map_or(0, Vec::len)).sum();
        self.shared.user_write_bytes.fetch_add(bytes as i64, Ordering::Relaxed);
        self.batch.clear();
        Ok(())
    }
}

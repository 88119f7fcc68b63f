//! A log of batches, with the place of each value in memory: a Get reads once.

use std::collections::HashMap;
use std::fs::{File, OpenOptions, TryLockError};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, RwLock};

use statelab_abi::engine::{Capability, Change, Database, Description, Engine, Error, Memory, Options, Reader, Result, Shape, Stat};

struct Hashlog;

statelab_abi::export_engine!(Hashlog);

impl Engine for Hashlog {
    type Database = Store;

    fn describe() -> Description {
        let durability = "a kill: all commits; a power cut: what a sync returned for";
        let capabilities = &[Capability::BlockReads, Capability::NoBlockCache, Capability::NoHandles];
        Description { name: "hashlog", version: "1", licence: "Apache-2.0", durability, capabilities }
    }

    fn open(options: &Options) -> Result<Store> {
        let path = options.directory.join("hashlog");
        let file = OpenOptions::new().read(true).write(!options.read_only).create_new(options.create).open(&path);
        let file = file.map_err(|why| Error::NotADatabase(format!("open {}: {why}", path.display())))?;
        let locked = if options.read_only { file.try_lock_shared() } else { file.try_lock() };
        locked.map_err(|why| match why {
            TryLockError::WouldBlock => Error::Locked(format!("{} is locked", path.display())),
            TryLockError::Error(why) => Error::Failed(format!("lock {}: {why}", path.display())),
        })?;
        let log = std::fs::read(&path).map_err(Error::doing("read the log"))?;
        let mut index = Index::default();
        while let Some(batch) = whole_batch(&log[index.end as usize..]) {
            index.add(batch);
        }
        if !options.read_only {
            file.set_len(index.end).map_err(Error::doing("cut off a batch that a kill left unfinished"))?;
        }
        Ok(Store(Arc::new(Log { file, index: RwLock::new(index), reads: AtomicU64::new(0), bytes: AtomicU64::new(0) })))
    }
}

/// The batch that the rest of a log begins with, its length in the first 8 bytes; None at the end.
fn whole_batch(rest: &[u8]) -> Option<&[u8]> {
    let length = u64::from_le_bytes(rest.get(..8)?.try_into().ok()?) as usize;
    rest.get(..length.max(8))
}

/// Where the values are: offset and length.
#[derive(Default)]
struct Index {
    places: HashMap<Vec<u8>, (u64, usize)>,
    end: u64,
}

impl Index {
    /// Adds a batch at the end of the log: pairs with the lengths of key and value, -1 if deleted.
    fn add(&mut self, batch: &[u8]) {
        let number = |at: usize| i32::from_le_bytes(batch[at..at + 4].try_into().unwrap());
        let mut at = 8;
        while at < batch.len() {
            let (key_len, value_len) = (number(at) as usize, number(at + 4));
            let key = &batch[at + 8..at + 8 + key_len];
            at += 8 + key_len;
            match usize::try_from(value_len) {
                Ok(length) => self.places.insert(key.to_vec(), (self.end + at as u64, length)),
                Err(_) => self.places.remove(key),
            };
            at += value_len.max(0) as usize;
        }
        self.end += batch.len() as u64;
    }
}

struct Log {
    file: File,
    index: RwLock<Index>,
    reads: AtomicU64,
    bytes: AtomicU64,
}

struct Store(Arc<Log>);

impl Database for Store {
    type Reader = Lookup;

    fn reader(&self) -> Result<Lookup> {
        Ok(Lookup { log: self.0.clone(), value: Vec::new() })
    }

    fn commit(&self, changes: Vec<Change>) -> Result<()> {
        let mut batch = vec![0; 8];
        for Change { key, value } in changes {
            batch.extend((key.len() as i32).to_le_bytes());
            batch.extend(value.as_ref().map_or(-1, |value| value.len() as i32).to_le_bytes());
            batch.extend(key);
            batch.extend(value.unwrap_or_default());
        }
        let length = (batch.len() as u64).to_le_bytes();
        batch[..8].copy_from_slice(&length);
        let mut index = self.0.index.write().unwrap();
        self.0.file.write_all_at(&batch, index.end).map_err(Error::doing("write to the log"))?;
        index.add(&batch);
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        self.0.file.sync_data().map_err(Error::doing("sync the log"))
    }

    fn stats(&self) -> Vec<Stat> {
        let stat = |name, value: &AtomicU64| Stat { name, value: value.load(Relaxed) };
        vec![stat("reads.data", &self.0.reads), stat("read_bytes.data", &self.0.bytes)]
    }

    fn memory(&self) -> Vec<Memory> {
        Vec::new() // the index is not counted
    }

    fn effective(&self) -> Vec<(&'static str, String)> {
        vec![("cache_bytes", "0".into()), ("handles", "0".into())]
    }

    fn shape(&self) -> Result<Shape> {
        Ok(Shape { bytes: self.0.index.read().unwrap().end, files: 1 })
    }
}

struct Lookup {
    log: Arc<Log>,
    value: Vec<u8>,
}

impl Reader for Lookup {
    fn get<T>(&mut self, key: &[u8], take: impl FnOnce(&[u8]) -> T) -> Result<Option<T>> {
        let place = self.log.index.read().unwrap().places.get(key).copied();
        let Some((offset, length)) = place else { return Ok(None) };
        self.value.resize(length, 0);
        self.log.file.read_exact_at(&mut self.value, offset).map_err(Error::doing("read a value"))?;
        self.log.reads.fetch_add(1, Relaxed);
        self.log.bytes.fetch_add(length as u64, Relaxed);
        Ok(Some(take(&self.value)))
    }
}

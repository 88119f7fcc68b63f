//! A log of batches, with the place of each value in memory: a Get reads once.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, RwLock};

use statelab_abi::engine::{Capability, Change, Database, Description, Engine, Error, Options, Reader, Reads, Result, Shape, Stat};

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
        let (mut file, mut log, mut places) = (options.open_file("hashlog")?, Vec::new(), Places::default());
        file.read_to_end(&mut log).map_err(Error::doing("read the log"))?;
        while places.add(&log[places.end as usize..]).is_some() {}
        if !options.read_only {
            file.set_len(places.end).map_err(Error::doing("cut off a batch that a kill left unfinished"))?;
        }
        Ok(Store(Arc::new(Log { file, places: RwLock::new(places), reads: Reads::default() })))
    }
}

/// Where the values are: offset and length.
#[derive(Default)]
struct Places {
    of: HashMap<Vec<u8>, Option<(u64, usize)>>,
    end: u64,
}

impl Places {
    /// Adds the batch that the rest of the log begins with; None at its end, or where a kill cut it off. A batch begins with its
    /// length, and each of its changes with the lengths of key and value, u32::MAX if it is a deletion.
    fn add(&mut self, rest: &[u8]) -> Option<()> {
        let number = |at: usize| Some(u32::from_le_bytes(*rest.get(at..)?.first_chunk()?));
        let batch = rest.get(..(number(0)? as usize).max(4))?;
        let mut at = 4;
        while at < batch.len() {
            let (key_bytes, value_bytes) = (number(at)? as usize, number(at + 4)?);
            let key = batch[at + 8..][..key_bytes].to_vec();
            at += 8 + key_bytes;
            let place = (value_bytes != u32::MAX).then_some((self.end + at as u64, value_bytes as usize));
            at += place.map_or(0, |(_, length)| length);
            self.of.insert(key, place);
        }
        self.end += batch.len() as u64;
        Some(())
    }
}

struct Log {
    file: File,
    places: RwLock<Places>,
    reads: Reads,
}

struct Store(Arc<Log>);

impl Database for Store {
    type Reader = Lookup;

    fn reader(&self) -> Result<Lookup> {
        Ok(Lookup { log: self.0.clone(), value: Vec::new() })
    }

    fn commit(&self, changes: Vec<Change>) -> Result<()> {
        let mut batch = vec![0; 4];
        for Change { key, value } in changes {
            batch.extend((key.len() as u32).to_le_bytes());
            batch.extend(value.as_ref().map_or(u32::MAX, |value| value.len() as u32).to_le_bytes());
            batch.extend(key.into_iter().chain(value.unwrap_or_default()));
        }
        let length = batch.len() as u32;
        batch[..4].copy_from_slice(&length.to_le_bytes());
        let mut places = self.0.places.write().unwrap();
        self.0.file.write_all_at(&batch, places.end).map_err(Error::doing("write to the log"))?;
        places.add(&batch).ok_or_else(|| Error::Failed("a batch of more than 4 GiB".into()))
    }

    fn sync(&self) -> Result<()> {
        self.0.file.sync_data().map_err(Error::doing("sync the log"))
    }

    fn stats(&self) -> Vec<Stat> {
        self.0.reads.stats()
    }

    fn shape(&self) -> Result<Shape> {
        Ok(Shape { bytes: self.0.places.read().unwrap().end, files: 1 })
    }
}

struct Lookup {
    log: Arc<Log>,
    value: Vec<u8>,
}

impl Reader for Lookup {
    fn get<T>(&mut self, key: &[u8], take: impl FnOnce(&[u8]) -> T) -> Result<Option<T>> {
        let place = self.log.places.read().unwrap().of.get(key).copied().flatten();
        let Some((offset, length)) = place else { return Ok(None) };
        self.value.resize(length, 0);
        self.log.file.read_exact_at(&mut self.value, offset).map_err(Error::doing("read a value"))?;
        self.log.reads.add(length);
        Ok(Some(take(&self.value)))
    }
}

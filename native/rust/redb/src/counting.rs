//! A file that counts what redb reads of it. redb keeps whole pages in its cache, so
//! every read that arrives here is a block read; the first byte of a page says what
//! the page is.

use std::cell::Cell;
use std::fs::File;
use std::io;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use redb::backends::FileBackend;
use redb::{BackendError, StorageBackend};
use statelab_abi::engine::Stat;

thread_local! {
    /// Whether this thread is inside a Get: reads of commits do not count as a Get's.
    static IN_A_GET: Cell<bool> = const { Cell::new(false) };
}

/// Runs `f`, whose reads are those of a Get.
pub fn as_a_get<T>(f: impl FnOnce() -> T) -> T {
    IN_A_GET.set(true);
    let result = f();
    IN_A_GET.set(false);
    result
}

/// Reads and their bytes.
#[derive(Debug, Default)]
struct Tally(AtomicU64, AtomicU64);

impl Tally {
    fn add(&self, bytes: usize) {
        self.0.fetch_add(1, Relaxed);
        self.1.fetch_add(bytes as u64, Relaxed);
    }

    fn stats(&self, reads: &'static str, read_bytes: &'static str) -> [Stat; 2] {
        [Stat { name: reads, value: self.0.load(Relaxed) }, Stat { name: read_bytes, value: self.1.load(Relaxed) }]
    }
}

/// Of the file, since open.
#[derive(Debug, Default)]
pub struct Counters {
    leaf: Tally,
    branch: Tally,
    other: Tally,
    background: Tally,
    written_bytes: AtomicU64,
}

impl Counters {
    /// By the header's names.
    pub fn stats(&self) -> Vec<Stat> {
        let reads = [
            self.leaf.stats("reads.data", "read_bytes.data"),
            self.branch.stats("reads.index", "read_bytes.index"),
            self.other.stats("reads.page", "read_bytes.page"),
            self.background.stats("background_reads", "background_read_bytes"),
        ];
        let written = Stat { name: "flush_bytes", value: self.written_bytes.load(Relaxed) };
        reads.into_iter().flatten().chain([written]).collect()
    }
}

/// The first byte of a page in redb's file format.
const LEAF: u8 = 1;
const BRANCH: u8 = 2;

/// The file of a database.
#[derive(Debug)]
pub struct CountingFile {
    file: FileBackend,
    counters: Arc<Counters>,
}

impl CountingFile {
    /// Of an open file.
    pub fn new(file: File, counters: Arc<Counters>) -> Result<Self, redb::DatabaseError> {
        Ok(CountingFile { file: FileBackend::new(file)?, counters })
    }
}

impl StorageBackend for CountingFile {
    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read(offset, out)?;
        let tally = match (IN_A_GET.get(), out.first()) {
            (false, _) => &self.counters.background,
            (true, Some(&LEAF)) => &self.counters.leaf,
            (true, Some(&BRANCH)) => &self.counters.branch,
            (true, _) => &self.counters.other,
        };
        tally.add(out.len());
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.file.write(offset, data)?;
        self.counters.written_bytes.fetch_add(data.len() as u64, Relaxed);
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn close(&self) -> io::Result<()> {
        self.file.close()
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.try_lock_range(start, end)
    }

    fn try_lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.try_lock_shared_range(start, end)
    }

    fn lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.lock_range(start, end)
    }

    fn lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.lock_shared_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.unlock_range(start, end)
    }

    fn query_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.query_lock_range(start, end)
    }
}

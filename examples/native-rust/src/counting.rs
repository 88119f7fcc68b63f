//! A file that counts what redb reads of it. redb keeps whole pages in its cache, so
//! every read that arrives here is a block read; the first byte of a page says what
//! the page is.

use std::cell::Cell;
use std::fs::File;
use std::io;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

use redb::backends::FileBackend;
use redb::{BackendError, StorageBackend};

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

#[derive(Debug, Default)]
pub struct Tally {
    pub count: AtomicI64,
    pub bytes: AtomicI64,
}

impl Tally {
    fn add(&self, bytes: usize) {
        self.count.fetch_add(1, Relaxed);
        self.bytes.fetch_add(bytes as i64, Relaxed);
    }
}

#[derive(Debug, Default)]
pub struct Counters {
    pub leaf: Tally,
    pub branch: Tally,
    pub other: Tally,
    pub background: Tally,
    pub written_bytes: AtomicI64,
}

/// The first byte of a page in redb's file format.
const LEAF: u8 = 1;
const BRANCH: u8 = 2;

#[derive(Debug)]
pub struct CountingFile {
    file: FileBackend,
    counters: Arc<Counters>,
}

impl CountingFile {
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
        self.counters.written_bytes.fetch_add(data.len() as i64, Relaxed);
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

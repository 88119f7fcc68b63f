//! TrieDB's own count of pages, which it tells the recorder of metrics that was there when it was
//! opened: after each lookup, and after each commit.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use metrics::{Counter, Gauge, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder, SharedString, Unit};

thread_local! {
    /// Read by this thread's lookups, of all states.
    static READ: Cell<u64> = const { Cell::new(0) };
}

/// How many pages this thread's lookups have read.
pub fn read_by_this_thread() -> u64 {
    READ.get()
}

/// Counts for one state.
#[derive(Clone, Default)]
pub struct Pages {
    written: Arc<Written>,
}

impl Pages {
    /// Written by commits.
    pub fn written(&self) -> u64 {
        self.written.0.load(Relaxed)
    }
}

/// New pages, and old ones that are used again.
#[derive(Default)]
struct Written(AtomicU64);

impl HistogramFn for Written {
    fn record(&self, pages: f64) {
        self.0.fetch_add(pages as u64, Relaxed);
    }
}

/// TrieDB records a lookup on the thread that makes it.
struct Read;

impl HistogramFn for Read {
    fn record(&self, pages: f64) {
        READ.set(READ.get() + pages as u64);
    }
}

impl Recorder for Pages {
    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        let name = key.name();
        if name.ends_with("ro_transaction_pages_read") {
            Histogram::from_arc(Arc::new(Read))
        } else if name.ends_with("rw_transaction_pages_allocated") || name.ends_with("rw_transaction_pages_reallocated") {
            Histogram::from_arc(self.written.clone())
        } else {
            Histogram::noop()
        }
    }

    fn register_counter(&self, _: &Key, _: &Metadata<'_>) -> Counter {
        Counter::noop()
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
}

//! An account of the heap, for layouts that cannot tell what their structures take.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The system's heap, with a count of the bytes that are in use: those that were asked for,
/// without what the system adds to each block. A library has its own:
///
/// ```
/// #[global_allocator]
/// static HEAP: statelab_abi::Heap = statelab_abi::Heap::new();
/// assert!(HEAP.used_bytes() > 0);
/// ```
pub struct Heap {
    used_bytes: AtomicUsize,
}

impl Heap {
    /// Of which nothing is in use.
    #[allow(clippy::new_without_default, reason = "a static wants a constant")]
    pub const fn new() -> Self {
        Heap { used_bytes: AtomicUsize::new(0) }
    }

    /// In use now.
    pub fn used_bytes(&self) -> u64 {
        self.used_bytes.load(Relaxed) as u64
    }

    /// Has the system take back what is not in use. The GNU library keeps what threads freed, for
    /// each of them, and a state that is closed and opened again would count twice and thrice.
    pub fn give_back(&self) {
        #[cfg(all(target_os = "linux", target_env = "gnu"))]
        // SAFETY: it takes no pointer, and any thread may call it.
        unsafe {
            malloc_trim(0);
        }
    }
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
unsafe extern "C" {
    /// Of the GNU C library, which the standard library is linked with there.
    fn malloc_trim(keep_bytes: usize) -> i32;
}

// SAFETY: all is passed on to the system's allocator, which keeps the trait's rules.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        self.used_bytes.fetch_add(layout.size(), Relaxed);
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        self.used_bytes.fetch_add(layout.size(), Relaxed);
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        self.used_bytes.fetch_sub(layout.size(), Relaxed);
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, new_bytes: usize) -> *mut u8 {
        self.used_bytes.fetch_add(new_bytes, Relaxed);
        self.used_bytes.fetch_sub(layout.size(), Relaxed);
        unsafe { System.realloc(at, layout, new_bytes) }
    }
}

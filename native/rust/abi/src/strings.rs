//! Strings that C keeps pointers to.

use std::collections::BTreeSet;
use std::ffi::{CString, c_char};
use std::sync::{Mutex, PoisonError};

/// Keeps each string once, for as long as itself lives.
#[derive(Default)]
pub(crate) struct Strings {
    kept: Mutex<BTreeSet<CString>>,
}

impl Strings {
    /// A pointer that stays good: a CString's bytes stand on the heap, wherever it moves.
    pub(crate) fn keep(&self, text: &str) -> *const c_char {
        let text = c_string(text);
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(same) = kept.get(&text) {
            return same.as_ptr();
        }
        let at = text.as_ptr();
        kept.insert(text);
        at
    }
}

/// A pointer for the library's whole life: only for the table, which is made once.
pub(crate) fn for_ever(text: &str) -> *const c_char {
    c_string(text).into_raw()
}

fn c_string(text: &str) -> CString {
    CString::new(text.replace('\0', " ")).expect("there is no NUL left")
}

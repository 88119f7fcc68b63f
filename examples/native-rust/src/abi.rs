//! `statelab_engine.h` in Rust, name by name. What the members mean is said there.

use std::ffi::{CStr, c_char};

pub const ABI: u32 = 1;

pub const OK: i32 = 0;
pub const MISSING: i32 = 1;
pub const TOO_SMALL: i32 = 2;
pub const FAILED: i32 = -1;
pub const LOCKED: i32 = -2;
pub const NOT_A_DATABASE: i32 = -3;

pub const ERROR_BYTES: usize = 1024;

#[repr(C)]
pub struct Error {
    pub text: [u8; ERROR_BYTES],
}

impl Error {
    /// Leaves a sentence, cut where there is no more room.
    pub fn say(&mut self, sentence: &str) {
        let n = sentence.len().min(ERROR_BYTES - 1);
        self.text[..n].copy_from_slice(&sentence.as_bytes()[..n]);
        self.text[n] = 0;
    }
}

#[repr(C)]
pub struct Setting {
    pub name: *const c_char,
    pub value: *const c_char,
}

#[repr(C)]
pub struct Options {
    pub directory: *const c_char,
    pub create: i32,
    pub read_only: i32,
    pub direct: i32,
    pub trace_accesses: i32,
    pub cache_bytes: i64,
    pub memory_bytes: i64,
    pub handles: i64,
    pub settings_count: usize,
    pub settings: *const Setting,
}

#[repr(C)]
pub struct Stat {
    pub name: *const c_char,
    pub value: i64,
}

#[repr(C)]
pub struct Memory {
    pub usage: *const c_char,
    pub basis: *const c_char,
    pub bytes: i64,
}

#[repr(C)]
pub struct Shape {
    pub bytes: i64,
    pub files: i64,
}

#[repr(C)]
pub struct Settling {
    pub pending_bytes: i64,
    pub jobs: i64,
}

/// The table of functions, for handles of the types `D`, `R` and `W`.
#[repr(C)]
pub struct Engine<D, R, W> {
    pub abi: u32,
    pub struct_bytes: u32,
    pub name: *const c_char,
    pub version: *const c_char,
    pub licence: *const c_char,
    pub durability: *const c_char,
    pub capabilities: *const c_char,
    pub check: extern "C" fn(&Options, &mut Error) -> i32,
    pub open: extern "C" fn(&Options, &mut *mut D, &mut Error) -> i32,
    pub close: extern "C" fn(*mut D, &mut Error) -> i32,
    pub reader_open: extern "C" fn(&D, &mut *mut R, &mut Error) -> i32,
    pub reader_close: extern "C" fn(*mut R),
    pub get: extern "C" fn(&mut R, *const u8, usize, *mut u8, usize, &mut usize, &mut Error) -> i32,
    pub writer_open: extern "C" fn(&D, &mut *mut W, &mut Error) -> i32,
    pub writer_close: extern "C" fn(*mut W),
    pub put: extern "C" fn(&mut W, *const u8, usize, *const u8, usize, &mut Error) -> i32,
    pub remove: extern "C" fn(&mut W, *const u8, usize, &mut Error) -> i32,
    pub commit: extern "C" fn(&mut W, &mut Error) -> i32,
    pub sync: extern "C" fn(&D, &mut Error) -> i32,
    pub settle: extern "C" fn(&D, i64, &mut Settling, &mut Error) -> i32,
    pub stats: extern "C" fn(&D, *mut Stat, usize) -> usize,
    pub memory: extern "C" fn(&D, *mut Memory, usize) -> usize,
    pub effective: extern "C" fn(&D, *mut Setting, usize) -> usize,
    pub shape: extern "C" fn(&D, &mut Shape, &mut Error) -> i32,
}

// The strings are never written to, and live as long as the library.
unsafe impl<D, R, W> Sync for Engine<D, R, W> {}
unsafe impl<D, R, W> Send for Engine<D, R, W> {}

/// The bytes of a key or value, whose pointer may be NULL where there are none.
///
/// # Safety
/// `at` must point to `n` bytes that outlive the result.
pub unsafe fn bytes<'a>(at: *const u8, n: usize) -> &'a [u8] {
    if n == 0 { &[] } else { unsafe { std::slice::from_raw_parts(at, n) } }
}

/// # Safety
/// `text` must end with NUL and outlive the result.
pub unsafe fn text<'a>(text: *const c_char) -> std::borrow::Cow<'a, str> {
    unsafe { CStr::from_ptr(text) }.to_string_lossy()
}

/// Fills the caller's array if all entries fit, and returns how many there are.
///
/// # Safety
/// `into` must have room for `capacity` entries.
pub unsafe fn fill<T>(entries: Vec<T>, into: *mut T, capacity: usize) -> usize {
    let n = entries.len();
    if n <= capacity {
        for (i, entry) in entries.into_iter().enumerate() {
            unsafe { into.add(i).write(entry) };
        }
    }
    n
}

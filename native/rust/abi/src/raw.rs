//! What both headers share: codes, and structs name by name. What the members mean is said there.
#![allow(missing_docs, reason = "the headers document them")]

use std::ffi::{c_char, c_void};

pub const OK: i32 = 0;
pub const MISSING: i32 = 1;
pub const TOO_SMALL: i32 = 2;
pub const WORKING: i32 = 3;
pub const FAILED: i32 = -1;
pub const LOCKED: i32 = -2;
pub const NOT_A_DATABASE: i32 = -3;

pub const ERROR_BYTES: usize = 1024;

#[repr(C)]
pub struct RawError {
    pub text: [c_char; ERROR_BYTES],
}

#[repr(C)]
pub struct RawSetting {
    pub name: *const c_char,
    pub value: *const c_char,
}

#[repr(C)]
pub struct RawSettling {
    pub pending_bytes: i64,
    pub jobs: i64,
}

#[repr(C)]
pub struct RawStat {
    pub name: *const c_char,
    pub value: i64,
}

#[repr(C)]
pub struct RawMemory {
    pub usage: *const c_char,
    pub basis: *const c_char,
    pub bytes: i64,
}

/// A handle, of a database or state, of a reader or of a writer.
pub type Handle = *mut c_void;

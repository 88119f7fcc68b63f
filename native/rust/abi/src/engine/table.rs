//! The header's structs, name by name. What the members mean is said there.
#![allow(missing_docs, reason = "the header documents them")]

use std::ffi::c_char;

use crate::raw::{Handle, RawError, RawMemory, RawSetting, RawSettling, RawStat};

pub const ABI: u32 = 1;

#[repr(C)]
pub struct RawOptions {
    pub directory: *const c_char,
    pub create: i32,
    pub read_only: i32,
    pub direct: i32,
    pub trace_accesses: i32,
    pub cache_bytes: i64,
    pub memory_bytes: i64,
    pub handles: i64,
    pub settings_count: usize,
    pub settings: *const RawSetting,
}

#[repr(C)]
pub struct RawShape {
    pub bytes: i64,
    pub files: i64,
}

#[repr(C)]
pub struct Table {
    pub abi: u32,
    pub struct_bytes: u32,
    pub name: *const c_char,
    pub version: *const c_char,
    pub licence: *const c_char,
    pub durability: *const c_char,
    pub capabilities: *const c_char,
    pub check: unsafe extern "C" fn(*const RawOptions, *mut RawError) -> i32,
    pub open: unsafe extern "C" fn(*const RawOptions, *mut Handle, *mut RawError) -> i32,
    pub close: unsafe extern "C" fn(Handle, *mut RawError) -> i32,
    pub reader_open: unsafe extern "C" fn(Handle, *mut Handle, *mut RawError) -> i32,
    pub reader_close: unsafe extern "C" fn(Handle),
    pub get: unsafe extern "C" fn(Handle, *const u8, usize, *mut u8, usize, *mut usize, *mut RawError) -> i32,
    pub writer_open: unsafe extern "C" fn(Handle, *mut Handle, *mut RawError) -> i32,
    pub writer_close: unsafe extern "C" fn(Handle),
    pub put: unsafe extern "C" fn(Handle, *const u8, usize, *const u8, usize, *mut RawError) -> i32,
    pub remove: unsafe extern "C" fn(Handle, *const u8, usize, *mut RawError) -> i32,
    pub commit: unsafe extern "C" fn(Handle, *mut RawError) -> i32,
    pub sync: unsafe extern "C" fn(Handle, *mut RawError) -> i32,
    pub settle: unsafe extern "C" fn(Handle, i64, *mut RawSettling, *mut RawError) -> i32,
    pub stats: unsafe extern "C" fn(Handle, *mut RawStat, usize) -> usize,
    pub memory: unsafe extern "C" fn(Handle, *mut RawMemory, usize) -> usize,
    pub effective: unsafe extern "C" fn(Handle, *mut RawSetting, usize) -> usize,
    pub shape: unsafe extern "C" fn(Handle, *mut RawShape, *mut RawError) -> i32,
}

// SAFETY: a table is never written to once it is made, and what it points at lives as long
// as the library.
#[allow(unsafe_code)]
unsafe impl Send for Table {}
// SAFETY: likewise.
#[allow(unsafe_code)]
unsafe impl Sync for Table {}

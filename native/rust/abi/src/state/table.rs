//! The header's structs, name by name. What the members mean is said there.
#![allow(missing_docs, reason = "the header documents them")]

use std::ffi::c_char;

use crate::raw::{Handle, RawError, RawMemory, RawSetting, RawSettling, RawStat};
use crate::state::{Account, Hash, Slot};

pub const ABI: u32 = 1;

#[repr(C)]
pub struct RawOptions {
    pub directory: *const c_char,
    pub profile: *const c_char,
    pub create: i32,
    pub read_only: i32,
    pub memory_bytes: i64,
    pub accounts_hint: u64,
    pub slots_hint: u64,
    pub settings_count: usize,
    pub settings: *const RawSetting,
}

#[repr(C)]
pub struct RawProfile {
    pub name: *const c_char,
    pub about: *const c_char,
}

#[repr(C)]
pub struct RawTouched {
    pub nodes: i64,
    pub pages: i64,
}

#[repr(C)]
pub struct Table {
    pub abi: u32,
    pub struct_bytes: u32,
    pub name: *const c_char,
    pub version: *const c_char,
    pub licence: *const c_char,
    pub root: *const c_char,
    pub durability: *const c_char,
    pub history: *const c_char,
    pub profiles: *const RawProfile,
    pub check: unsafe extern "C" fn(*const RawOptions, *mut RawError) -> i32,
    pub open: unsafe extern "C" fn(*const RawOptions, *mut Handle, *mut RawError) -> i32,
    pub close: unsafe extern "C" fn(Handle, *mut RawError) -> i32,
    pub head: unsafe extern "C" fn(Handle, *mut u64, *mut Hash),
    pub change: unsafe extern "C" fn(Handle, *const Hash, *const Account, *const Slot, usize, *mut RawError) -> i32,
    pub commit: unsafe extern "C" fn(Handle, *mut Hash, *mut RawError) -> i32,
    pub reader_open: unsafe extern "C" fn(Handle, *mut Handle, *mut RawError) -> i32,
    pub reader_close: unsafe extern "C" fn(Handle),
    pub account: unsafe extern "C" fn(Handle, *const Hash, *mut Account, *mut RawError) -> i32,
    pub slot: unsafe extern "C" fn(Handle, *const Hash, *const Hash, *mut Slot, *mut RawError) -> i32,
    pub touched: unsafe extern "C" fn(Handle, *mut RawTouched),
    pub settle: unsafe extern "C" fn(Handle, i64, *mut RawSettling, *mut RawError) -> i32,
    pub stats: unsafe extern "C" fn(Handle, *mut RawStat, usize) -> usize,
    pub memory: unsafe extern "C" fn(Handle, *mut RawMemory, usize) -> usize,
    pub effective: unsafe extern "C" fn(Handle, *mut RawSetting, usize) -> usize,
}

// SAFETY: a table is never written to once it is made, and what it points at lives as long
// as the library.
#[allow(unsafe_code)]
unsafe impl Send for Table {}
// SAFETY: likewise.
#[allow(unsafe_code)]
unsafe impl Sync for Table {}

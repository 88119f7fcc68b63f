//! redb, a B-tree of copied-on-write pages, as an engine for `statelab --engine
//! native`: the table of functions of `statelab_engine.h`.
//!
//! Read `store.rs` for what the engine does, `counting.rs` for how its block reads
//! are seen; this file only translates. No panic leaves it: each becomes an error.

mod abi;
mod counting;
mod store;

use std::ffi::CString;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::Ordering::Relaxed;

use abi::{Engine, Error, FAILED, LOCKED, MISSING, Memory, NOT_A_DATABASE, OK, Options, Setting, Settling, Shape, Stat, TOO_SMALL};
use store::{Failure, Plan, Reader, Store, Writer};

type Table = Engine<Store, Reader, Writer>;

#[unsafe(no_mangle)]
pub extern "C" fn statelab_engine_v1() -> *const Table {
    static TABLE: OnceLock<Table> = OnceLock::new();
    TABLE.get_or_init(|| Engine {
        abi: abi::ABI,
        struct_bytes: size_of::<Table>() as u32,
        name: c"redb".as_ptr(),
        version: CString::new(pinned_version()).expect("a version holds no NUL").into_raw(),
        licence: c"MIT OR Apache-2.0".as_ptr(),
        durability: c"a kill or a power cut: what a sync or settle returned for; what was committed later is lost".as_ptr(),
        capabilities: c"block_reads memory_budget".as_ptr(),
        check,
        open,
        close,
        reader_open,
        reader_close,
        get,
        writer_open,
        writer_close,
        put,
        remove,
        commit,
        sync,
        settle,
        stats,
        memory,
        effective,
        shape,
    })
}

/// The version that Cargo.toml pins redb to.
fn pinned_version() -> &'static str {
    let (_, after) = include_str!("../Cargo.toml").split_once("redb = \"=").expect("redb is pinned");
    after.split('"').next().unwrap_or_default()
}

/// Runs `f` and turns what becomes of it into a code and a sentence.
fn answer(error: &mut Error, f: impl FnOnce() -> Result<i32, Failure>) -> i32 {
    let (code, sentence) = match catch_unwind(AssertUnwindSafe(f)) {
        Ok(Ok(code)) => return code,
        Ok(Err(Failure::Failed(why))) => (FAILED, why),
        Ok(Err(Failure::Locked(why))) => (LOCKED, why),
        Ok(Err(Failure::NotADatabase(why))) => (NOT_A_DATABASE, why),
        Err(_) => (FAILED, "the engine panicked: its words are on standard error".to_string()),
    };
    error.say(&sentence);
    code
}

extern "C" fn check(options: &Options, error: &mut Error) -> i32 {
    answer(error, || {
        let settings =
            if options.settings_count == 0 { &[] } else { unsafe { std::slice::from_raw_parts(options.settings, options.settings_count) } };
        let unknown: Vec<String> =
            settings.iter().map(|s| format!("unknown option \"{}\": redb has none but its cache", unsafe { abi::text(s.name) })).collect();
        if unknown.is_empty() { Ok(OK) } else { Err(Failure::Failed(unknown.join("\n"))) }
    })
}

extern "C" fn open(options: &Options, opened: &mut *mut Store, error: &mut Error) -> i32 {
    answer(error, || {
        let directory = unsafe { abi::text(options.directory) };
        let store = Store::open(&Plan {
            directory: Path::new(directory.as_ref()),
            create: options.create != 0,
            read_only: options.read_only != 0,
            // redb keeps all that it buffers, of reads and writes, within one size.
            cache_bytes: options.cache_bytes.max(options.memory_bytes),
            handles: options.handles,
        })?;
        *opened = Box::into_raw(Box::new(store));
        Ok(OK)
    })
}

extern "C" fn close(store: *mut Store, error: &mut Error) -> i32 {
    answer(error, || {
        let store = unsafe { Box::from_raw(store) };
        store.sync()?;
        Ok(OK)
    })
}

extern "C" fn reader_open(store: &Store, opened: &mut *mut Reader, error: &mut Error) -> i32 {
    answer(error, || {
        *opened = Box::into_raw(Box::new(store.reader()?));
        Ok(OK)
    })
}

extern "C" fn reader_close(reader: *mut Reader) {
    drop(unsafe { Box::from_raw(reader) });
}

extern "C" fn get(
    reader: &mut Reader,
    key: *const u8,
    key_bytes: usize,
    value: *mut u8,
    capacity: usize,
    value_bytes: &mut usize,
    error: &mut Error,
) -> i32 {
    answer(error, || {
        let key = unsafe { abi::bytes(key, key_bytes) };
        let code = reader.get(key, |found| {
            *value_bytes = found.len();
            if found.len() > capacity {
                return TOO_SMALL;
            }
            if !found.is_empty() {
                unsafe { std::ptr::copy_nonoverlapping(found.as_ptr(), value, found.len()) };
            }
            OK
        })?;
        Ok(code.unwrap_or(MISSING))
    })
}

extern "C" fn writer_open(store: &Store, opened: &mut *mut Writer, error: &mut Error) -> i32 {
    answer(error, || {
        *opened = Box::into_raw(Box::new(store.writer()?));
        Ok(OK)
    })
}

extern "C" fn writer_close(writer: *mut Writer) {
    drop(unsafe { Box::from_raw(writer) });
}

extern "C" fn put(writer: &mut Writer, key: *const u8, key_bytes: usize, value: *const u8, value_bytes: usize, error: &mut Error) -> i32 {
    answer(error, || {
        writer.put(unsafe { abi::bytes(key, key_bytes) }, unsafe { abi::bytes(value, value_bytes) });
        Ok(OK)
    })
}

extern "C" fn remove(writer: &mut Writer, key: *const u8, key_bytes: usize, error: &mut Error) -> i32 {
    answer(error, || {
        writer.remove(unsafe { abi::bytes(key, key_bytes) });
        Ok(OK)
    })
}

extern "C" fn commit(writer: &mut Writer, error: &mut Error) -> i32 {
    answer(error, || writer.commit().map(|()| OK))
}

extern "C" fn sync(store: &Store, error: &mut Error) -> i32 {
    answer(error, || store.sync().map(|()| OK))
}

/// redb does nothing in the background: what is durable is settled.
extern "C" fn settle(store: &Store, _wait_ms: i64, _left: &mut Settling, error: &mut Error) -> i32 {
    answer(error, || store.sync().map(|()| OK))
}

extern "C" fn stats(store: &Store, into: *mut Stat, capacity: usize) -> usize {
    let c = store.counters();
    let stat = |name: &'static std::ffi::CStr, value: i64| Stat { name: name.as_ptr(), value };
    let entries = vec![
        stat(c"reads.data", c.leaf.count.load(Relaxed)),
        stat(c"read_bytes.data", c.leaf.bytes.load(Relaxed)),
        stat(c"reads.index", c.branch.count.load(Relaxed)),
        stat(c"read_bytes.index", c.branch.bytes.load(Relaxed)),
        stat(c"reads.page", c.other.count.load(Relaxed)),
        stat(c"read_bytes.page", c.other.bytes.load(Relaxed)),
        stat(c"background_reads", c.background.count.load(Relaxed)),
        stat(c"background_read_bytes", c.background.bytes.load(Relaxed)),
        stat(c"flush_bytes", c.written_bytes.load(Relaxed)),
        stat(c"user_write_bytes", store.user_write_bytes()),
    ];
    unsafe { abi::fill(entries, into, capacity) }
}

extern "C" fn memory(store: &Store, into: *mut Memory, capacity: usize) -> usize {
    let cache = Memory { usage: c"block cache".as_ptr(), basis: c"limit".as_ptr(), bytes: store.cache_bytes };
    unsafe { abi::fill(vec![cache], into, capacity) }
}

extern "C" fn effective(store: &Store, into: *mut Setting, capacity: usize) -> usize {
    let entries = vec![
        Setting { name: c"cache_bytes".as_ptr(), value: store.cache_text.as_ptr() },
        Setting { name: c"handles".as_ptr(), value: store.handles_text.as_ptr() },
    ];
    unsafe { abi::fill(entries, into, capacity) }
}

extern "C" fn shape(store: &Store, shape: &mut Shape, error: &mut Error) -> i32 {
    answer(error, || {
        shape.bytes = store.file_bytes()?;
        shape.files = 1;
        Ok(OK)
    })
}

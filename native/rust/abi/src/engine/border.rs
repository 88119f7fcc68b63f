//! The table's functions for any [`Engine`].
//!
//! A panic becomes an error where the header has a place for one. In the others
//! (`reader_close`, `writer_close`, `stats`, `memory`, `effective`) it ends the process, as Rust
//! does with all panics that reach C: no figure is better than a wrong one.
//!
//! # Safety
//! All of them take the header's word for the pointers they get: handles come from `open`,
//! `reader_open` or `writer_open` of the same table and are not used after being closed, and a
//! database is closed after its readers and writers; other pointers are good, aligned and nobody
//! else's for the length of the call. A reader's or writer's handle is used by one thread at a time;
//! a database's by several, so only `&` is ever taken of it.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::border::{answer, array, effective_of, memory_of, settings_of, settled, signed, stats_of, text};
use crate::engine::table::{ABI, RawOptions, RawShape, Table};
use crate::engine::{Capability, Change, Database, Engine, Options, Reader};
use crate::raw::{Handle, RawError, RawMemory, RawSetting, RawSettling, RawStat};
use crate::strings::{Strings, for_ever};
use crate::{Error, MISSING, OK, Result, Stat, TOO_SMALL};

/// What a database's handle points at.
struct Opened<D> {
    database: D,
    read_only: bool,
    user_write_bytes: AtomicU64,
    strings: Strings,
}

impl<D: Database> Opened<D> {
    fn sync(&self) -> Result<()> {
        if self.read_only { Ok(()) } else { self.database.sync() }
    }
}

/// What a writer's handle points at.
struct Writer<D> {
    opened: *const Opened<D>,
    batch: Vec<Change>,
    bytes: u64,
}

impl<D> Writer<D> {
    fn add(&mut self, key: &[u8], value: Option<&[u8]>) {
        self.bytes += (key.len() + value.map_or(0, <[u8]>::len)) as u64;
        self.batch.push(Change { key: key.to_vec(), value: value.map(<[u8]>::to_vec) });
    }
}

/// The table for an engine. Its strings are never freed: make it once.
pub fn table_of<E: Engine>() -> Table {
    let about = E::describe();
    let capabilities: Vec<String> = about.capabilities.iter().map(|capability| capability.name()).collect();
    Table {
        abi: ABI,
        struct_bytes: size_of::<Table>() as u32,
        name: for_ever(about.name),
        version: for_ever(about.version),
        licence: for_ever(about.licence),
        durability: for_ever(about.durability),
        capabilities: for_ever(&capabilities.join(" ")),
        check: check::<E>,
        open: open::<E>,
        close: close::<E>,
        reader_open: reader_open::<E>,
        reader_close: reader_close::<E>,
        get: get::<E>,
        writer_open: writer_open::<E>,
        writer_close: writer_close::<E>,
        put: put::<E>,
        remove: remove::<E>,
        commit: commit::<E>,
        sync: sync::<E>,
        settle: settle::<E>,
        stats: stats::<E>,
        memory: memory::<E>,
        effective: effective::<E>,
        shape: shape::<E>,
    }
}

unsafe extern "C" fn check<E: Engine>(options: *const RawOptions, error: *mut RawError) -> i32 {
    unsafe { answer(error, || checked::<E>(&*options).map(|_| OK)) }
}

unsafe extern "C" fn open<E: Engine>(options: *const RawOptions, opened: *mut Handle, error: *mut RawError) -> i32 {
    unsafe {
        answer(error, || {
            let options = checked::<E>(&*options)?;
            let database = E::open(&options)?;
            if let Err(why) = kept::<E>(&options, &database) {
                database.close()?;
                return Err(why);
            }
            let all = Opened { database, read_only: options.read_only, user_write_bytes: AtomicU64::new(0), strings: Strings::default() };
            opened.write(Box::into_raw(Box::new(all)).cast());
            Ok(OK)
        })
    }
}

/// Refuses an open that asks for another value of what a database keeps.
fn kept<E: Engine>(options: &Options, database: &E::Database) -> Result<()> {
    let effective = if options.create { Vec::new() } else { database.effective() };
    let stored = E::describe().capabilities.iter().filter_map(|capability| match capability {
        Capability::Stores(name) => effective.iter().find(|(its, _)| its == name),
        _ => None,
    });
    stored.into_iter().try_for_each(|(name, value)| options.settings.kept(name, value))
}

unsafe extern "C" fn close<E: Engine>(database: Handle, error: *mut RawError) -> i32 {
    unsafe {
        answer(error, || {
            let opened = Box::from_raw(database.cast::<Opened<E::Database>>());
            let synced = opened.sync();
            opened.database.close().and(synced).map(|()| OK)
        })
    }
}

type ReaderOf<E> = <<E as Engine>::Database as Database>::Reader;

unsafe extern "C" fn reader_open<E: Engine>(database: Handle, reader: *mut Handle, error: *mut RawError) -> i32 {
    unsafe {
        answer(error, || {
            reader.write(Box::into_raw(Box::new(opened::<E>(database).database.reader()?)).cast());
            Ok(OK)
        })
    }
}

unsafe extern "C" fn reader_close<E: Engine>(reader: Handle) {
    drop(unsafe { Box::from_raw(reader.cast::<ReaderOf<E>>()) });
}

unsafe extern "C" fn get<E: Engine>(
    reader: Handle,
    key: *const u8,
    key_bytes: usize,
    value: *mut u8,
    capacity: usize,
    value_bytes: *mut usize,
    error: *mut RawError,
) -> i32 {
    unsafe {
        answer(error, || {
            let reader = &mut *reader.cast::<ReaderOf<E>>();
            let code = reader.get(array(key, key_bytes), |found| {
                value_bytes.write(found.len());
                if found.len() > capacity {
                    return TOO_SMALL;
                }
                if !found.is_empty() {
                    value.copy_from_nonoverlapping(found.as_ptr(), found.len());
                }
                OK
            })?;
            Ok(code.unwrap_or(MISSING))
        })
    }
}

unsafe extern "C" fn writer_open<E: Engine>(database: Handle, writer: *mut Handle, error: *mut RawError) -> i32 {
    unsafe {
        answer(error, || {
            let opened = opened::<E>(database);
            if opened.read_only {
                return Err(Error::Failed("the database is open for reading only".into()));
            }
            writer.write(Box::into_raw(Box::new(Writer { opened, batch: Vec::new(), bytes: 0 })).cast());
            Ok(OK)
        })
    }
}

unsafe extern "C" fn writer_close<E: Engine>(writer: Handle) {
    drop(unsafe { Box::from_raw(writer.cast::<Writer<E::Database>>()) });
}

unsafe extern "C" fn put<E: Engine>(
    writer: Handle,
    key: *const u8,
    key_bytes: usize,
    value: *const u8,
    value_bytes: usize,
    error: *mut RawError,
) -> i32 {
    unsafe {
        answer(error, || {
            self::writer::<E>(writer).add(array(key, key_bytes), Some(array(value, value_bytes)));
            Ok(OK)
        })
    }
}

unsafe extern "C" fn remove<E: Engine>(writer: Handle, key: *const u8, key_bytes: usize, error: *mut RawError) -> i32 {
    unsafe {
        answer(error, || {
            self::writer::<E>(writer).add(array(key, key_bytes), None);
            Ok(OK)
        })
    }
}

unsafe extern "C" fn commit<E: Engine>(writer: Handle, error: *mut RawError) -> i32 {
    unsafe {
        answer(error, || {
            let writer = self::writer::<E>(writer);
            let (batch, bytes) = (std::mem::take(&mut writer.batch), std::mem::take(&mut writer.bytes));
            if !batch.is_empty() {
                let opened = &*writer.opened;
                writer.batch.reserve(batch.len()); // the next is probably as large
                opened.database.commit(batch)?;
                opened.user_write_bytes.fetch_add(bytes, Relaxed);
            }
            Ok(OK)
        })
    }
}

unsafe extern "C" fn sync<E: Engine>(database: Handle, error: *mut RawError) -> i32 {
    unsafe { answer(error, || opened::<E>(database).sync().map(|()| OK)) }
}

unsafe extern "C" fn settle<E: Engine>(database: Handle, wait_ms: i64, left: *mut RawSettling, error: *mut RawError) -> i32 {
    unsafe {
        answer(error, || {
            let opened = opened::<E>(database);
            opened.sync()?;
            settled(wait_ms, left, |at_most| opened.database.settle(at_most))
        })
    }
}

unsafe extern "C" fn stats<E: Engine>(database: Handle, into: *mut RawStat, capacity: usize) -> usize {
    let opened = unsafe { opened::<E>(database) };
    let mut stats = opened.database.stats();
    stats.push(Stat { name: "user_write_bytes", value: opened.user_write_bytes.load(Relaxed) });
    unsafe { stats_of(&opened.strings, &stats, into, capacity) }
}

unsafe extern "C" fn memory<E: Engine>(database: Handle, into: *mut RawMemory, capacity: usize) -> usize {
    let opened = unsafe { opened::<E>(database) };
    unsafe { memory_of(&opened.strings, &opened.database.memory(), into, capacity) }
}

unsafe extern "C" fn effective<E: Engine>(database: Handle, into: *mut RawSetting, capacity: usize) -> usize {
    let opened = unsafe { opened::<E>(database) };
    unsafe { effective_of(&opened.strings, &opened.database.effective(), into, capacity) }
}

unsafe extern "C" fn shape<E: Engine>(database: Handle, shape: *mut RawShape, error: *mut RawError) -> i32 {
    unsafe {
        answer(error, || {
            let seen = opened::<E>(database).database.shape()?;
            shape.write(RawShape { bytes: signed(seen.bytes), files: signed(seen.files) });
            Ok(OK)
        })
    }
}

/// The options, if nothing is wrong with them.
unsafe fn checked<E: Engine>(raw: &RawOptions) -> Result<Options> {
    let given = |n: i64| u64::try_from(n).ok().filter(|&n| n > 0);
    let options = Options {
        directory: unsafe { text(raw.directory) }.into(),
        create: raw.create != 0,
        read_only: raw.read_only != 0,
        direct: raw.direct != 0,
        trace_accesses: raw.trace_accesses != 0,
        cache_bytes: given(raw.cache_bytes),
        memory_bytes: given(raw.memory_bytes),
        handles: given(raw.handles),
        settings: unsafe { settings_of(raw.settings, raw.settings_count) },
    };
    let mistakes = E::check(&options);
    if mistakes.is_empty() { Ok(options) } else { Err(Error::Failed(mistakes.join("\n"))) }
}

/// # Safety
/// As the module says; the result must not outlive the handle.
unsafe fn opened<'a, E: Engine>(database: Handle) -> &'a Opened<E::Database> {
    unsafe { &*database.cast() }
}

/// # Safety
/// Likewise.
unsafe fn writer<'a, E: Engine>(writer: Handle) -> &'a mut Writer<E::Database> {
    unsafe { &mut *writer.cast() }
}

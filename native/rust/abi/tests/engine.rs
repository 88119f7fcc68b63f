//! An engine that keeps its pairs in a map, driven through the table as the harness does. That
//! engines on disks work is for the conformance suite to say.
#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::ffi::CStr;
use std::ptr::{null, null_mut};
use std::sync::{Arc, Mutex};

use statelab_abi::engine::{
    Basis, Capability, Change, Database, Description, Engine, Error, Memory, Options, RawOptions, RawShape, Reader, Result, Shape, Stat, Table,
};
use statelab_abi::{FAILED, LOCKED, MISSING, OK, RawSettling, RawStat, TOO_SMALL};

use common::{Assertions, no_error, same, text};

mod common;

struct Map;

#[derive(Clone, Default)]
struct Pairs(Arc<Mutex<BTreeMap<Vec<u8>, Vec<u8>>>>);

impl Engine for Map {
    type Database = Pairs;

    fn describe() -> Description {
        Description {
            name: "map",
            version: "1",
            licence: "Apache-2.0",
            durability: "none",
            capabilities: &[Capability::Volatile, Capability::MemoryBudget],
        }
    }

    fn open(options: &Options) -> Result<Pairs> {
        match (options.directory.to_str(), options.cache_bytes, options.memory_bytes, options.handles) {
            (Some("here"), None, Some(4096), Some(7)) => Ok(Pairs::default()),
            _ => Err(Error::Locked(format!("open {}: it is held", options.directory.display()))),
        }
    }
}

impl Database for Pairs {
    type Reader = Pairs;

    fn reader(&self) -> Result<Pairs> {
        Ok(self.clone())
    }

    fn commit(&self, batch: Vec<Change>) -> Result<()> {
        let mut pairs = self.0.lock().unwrap();
        for Change { key, value } in batch {
            match value {
                Some(value) => pairs.insert(key, value),
                None => pairs.remove(&key),
            };
        }
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }

    fn stats(&self) -> Vec<Stat> {
        vec![Stat { name: "wal_bytes", value: 3 }]
    }

    fn memory(&self) -> Vec<Memory> {
        vec![Memory { usage: "map", basis: Basis::Estimate, bytes: 1 }]
    }

    fn effective(&self) -> Vec<(&'static str, String)> {
        vec![("cache_bytes", "0".to_string())]
    }

    fn shape(&self) -> Result<Shape> {
        panic!("no files")
    }
}

impl Reader for Pairs {
    fn get<T>(&mut self, key: &[u8], take: impl FnOnce(&[u8]) -> T) -> Result<Option<T>> {
        Ok(self.0.lock().unwrap().get(key).map(|value| take(value)))
    }
}

statelab_abi::export_engine!(Map);

fn table() -> &'static Table {
    unsafe { &*statelab_engine_v1() }
}

fn options(directory: &CStr, read_only: bool) -> RawOptions {
    RawOptions {
        directory: directory.as_ptr(),
        create: 1,
        read_only: read_only.into(),
        direct: 0,
        trace_accesses: 0,
        cache_bytes: 0,
        memory_bytes: 4096,
        handles: 7,
        settings_count: 0,
        settings: null(),
    }
}

#[test]
fn a_database_is_written_read_and_closed() {
    let (t, mut error) = (table(), no_error());
    assert_eq!((t.abi, t.struct_bytes as usize), (1, size_of::<Table>()));
    assert_eq!((text(t.name), text(t.capabilities)), ("map", "volatile memory_budget"));
    let (mut database, mut reader, mut writer) = (null_mut(), null_mut(), null_mut());
    let (mut value, mut count) = ([0xee; 4], 0);
    unsafe {
        assert_eq!((t.open)(&options(c"here", false), &mut database, &mut error), OK);
        assert_eq!((t.writer_open)(database, &mut writer, &mut error), OK);
        assert_eq!((t.put)(writer, b"ab".as_ptr(), 2, b"value".as_ptr(), 5, &mut error), OK);
        assert_eq!((t.put)(writer, b"c".as_ptr(), 1, null(), 0, &mut error), OK);
        assert_eq!((t.reader_open)(database, &mut reader, &mut error), OK);
        let mut get = |key: &[u8], capacity| (t.get)(reader, key.as_ptr(), key.len(), value.as_mut_ptr(), capacity, &mut count, &mut error);
        assert_eq!(get(b"ab", 4), MISSING, "nobody sees what is not committed");
        assert_eq!((t.commit)(writer, &mut no_error()), OK);
        assert_eq!(get(b"ab", 4), TOO_SMALL);
        assert_eq!(get(b"c", 4), OK);
        assert_eq!((value, count), ([0xee; 4], 0), "nothing is written beyond a value");
        assert_eq!((t.remove)(writer, b"c".as_ptr(), 1, &mut error), OK);
        assert_eq!((t.put)(writer, b"ab".as_ptr(), 2, b"xyz".as_ptr(), 3, &mut error), OK);
        assert_eq!((t.commit)(writer, &mut error), OK);
        let mut get = |key: &[u8], capacity| (t.get)(reader, key.as_ptr(), key.len(), value.as_mut_ptr(), capacity, &mut count, &mut error);
        assert_eq!((get(b"c", 4), get(b"ab", 4)), (MISSING, OK));
        assert_eq!((&value, count), (b"xyz\xee", 3));

        let mut stats = [const { RawStat { name: null(), value: 0 } }; 2];
        assert_eq!((t.stats)(database, stats.as_mut_ptr(), 2), 2);
        assert_eq!((text(stats[1].name), stats[1].value), ("user_write_bytes", 2 + 5 + 1 + 1 + 2 + 3));
        assert_eq!((t.settle)(database, 1, &mut RawSettling { pending_bytes: 0, jobs: 0 }, &mut error), OK);
        assert!(error.text.iter().all(|&byte| byte == 0x7f), "success leaves no sentence");
        assert_eq!((t.shape)(database, &mut RawShape { bytes: 0, files: 0 }, &mut error), FAILED);
        assert_eq!(text(error.text.as_ptr()), "the library panicked: no files");
        (t.reader_close)(reader);
        (t.writer_close)(writer);
        assert_eq!((t.close)(database, &mut error), OK);
    }
}

#[test]
fn what_is_refused_says_why() {
    let (t, mut error) = (table(), no_error());
    let (mut database, mut writer) = (null_mut(), null_mut());
    unsafe {
        assert_eq!((t.open)(&options(c"there", false), &mut database, &mut error), LOCKED);
        assert_eq!(text(error.text.as_ptr()), "open there: it is held");
        assert!(database.is_null());
        assert_eq!((t.open)(&options(c"here", true), &mut database, &mut error), OK);
        assert_eq!((t.writer_open)(database, &mut writer, &mut error), FAILED);
        assert_eq!(text(error.text.as_ptr()), "the database is open for reading only");
        assert_eq!((t.close)(database, &mut error), OK);
    }
}

#[test]
fn the_structs_are_the_headers() {
    let mut c = Assertions::of("statelab_engine.h");
    same!(c, "statelab_options", RawOptions, directory, create, read_only, direct, trace_accesses, cache_bytes, memory_bytes, handles);
    same!(c, "statelab_options", RawOptions, settings_count, settings);
    same!(c, "statelab_shape", RawShape, bytes, files);
    same!(c, "statelab_engine", Table, abi, struct_bytes, name, version, licence, durability, capabilities, check, open, close);
    same!(c, "statelab_engine", Table, reader_open, reader_close, get, writer_open, writer_close, put, remove, commit, sync, settle);
    same!(c, "statelab_engine", Table, stats, memory, effective, shape);
    c.hold("STATELAB_ENGINE_ABI", statelab_abi::engine::ABI);
}

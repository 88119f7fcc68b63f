//! ParityDB, a hash table in mapped files, as an engine.
//!
//! - `store.rs`: an open database. A Get and a commit are ParityDB's own.
//!
//! # What a lookup is
//!
//! The index is a file of chunks of 64 entries (512 bytes), by the leading bits of the key's hash; a value
//! lies in a file of entries of its size. Both are mapped: a lookup of a present key touches a page of the
//! index and one of the values (two, where an entry crosses a page's end), one of an absent key a page of
//! the index, but for entries that share the bits that the index keeps. ParityDB keeps no block in memory:
//! the operating system's page cache is its cache, so page faults are counted, and a memory budget is the
//! page cache's. ParityDB's own statistics have no counts of reads, and are not collected.
//!
//! # What survives
//!
//! A commit is put into a queue in memory, from where threads write it to a log, and from a log of 64 MiB,
//! once that is synced, to the files. ParityDB has no call that waits for this, but does all of it when it
//! closes a database. So a sync closes the database and opens it again, while Gets and commits wait.
//!
//! # Settling
//!
//! Where a chunk of the index is full, ParityDB moves all entries to an index of twice the size in the
//! background. A database has settled when one index is left.

mod store;

use std::path::{Path, PathBuf};

use parity_db::Options as DbOptions;
use statelab_abi::engine::{Capability, Description, Engine, Error, Options, Result, pinned};

use crate::store::Store;

/// Whether keys of 32 bytes are taken for uniform: ParityDB then places them by a short hash of their first
/// half instead of BLAKE2b of the whole, as Substrate's nodes have it for their state.
const UNIFORM: &str = "uniform";

const BOOLEANS: [&str; 2] = ["false", "true"];

const UNIFORM_KEY_BYTES: usize = 32;

/// The format of this ParityDB's databases. It reads some older ones, and takes newer ones for its own.
const FORMAT: u32 = 9;

struct ParityDb;

statelab_abi::export_engine!(ParityDb);

impl Engine for ParityDb {
    type Database = Store;

    fn describe() -> Description {
        Description {
            name: "parity-db",
            version: pinned(include_str!("../Cargo.toml"), "parity-db"),
            licence: "MIT OR Apache-2.0",
            durability: "a kill or a power cut: what a sync or settle returned for; of later commits the oldest, up to one, which may be none",
            capabilities: &[
                Capability::PageCache,
                Capability::MemoryBudget,
                Capability::NoBlockCache,
                Capability::NoHandles,
                Capability::Stores(UNIFORM),
            ],
        }
    }

    fn check(options: &Options) -> Vec<String> {
        let mut mistakes = options.settings.unknown(&[UNIFORM]);
        mistakes.extend(options.settings.choice(UNIFORM, &BOOLEANS).err());
        mistakes
    }

    fn open(options: &Options) -> Result<Store> {
        let folder = &options.directory;
        let files = if options.create {
            let mut files = DbOptions::with_columns(folder, 1);
            files.columns[0].uniform = options.settings.get(UNIFORM) == Some("true");
            files
        } else {
            recognise(folder)?
        };
        Store::open(DbOptions { stats: false, ..files }, options)
    }
}

/// The options that a database was made with. ParityDB makes a file in any folder before it looks whose it is.
fn recognise(folder: &Path) -> Result<DbOptions> {
    let none = |why: &str| Error::NotADatabase(why.into());
    let found = DbOptions::load_metadata(folder).map_err(|why| none(&format!("the file metadata: {why}")))?;
    let found = found.ok_or_else(|| none("there is no file metadata"))?;
    if found.version > FORMAT {
        return Err(none(&format!("it has format {}, and this ParityDB reads formats up to {FORMAT}", found.version)));
    }
    let columns = found.columns;
    match columns.as_slice() {
        [column] if !column.btree_index && !column.multitree && !column.ref_counted => {}
        _ => return Err(none("another program's database of ParityDB: its columns are not one of keys and values")),
    }
    Ok(DbOptions { columns, ..DbOptions::with_columns(folder, 1) })
}

/// The files that Gets read, of a database in a folder: the index, more than one while it is being moved, and the values.
fn files_of(folder: &Path) -> Result<(Vec<PathBuf>, Vec<PathBuf>)> {
    let doing = Error::doing("look at the files");
    let (mut indexes, mut values) = (Vec::new(), Vec::new());
    for entry in std::fs::read_dir(folder).map_err(&doing)? {
        let path = entry.map_err(|why| Error::doing("look at the files")(why))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with("index_") {
            indexes.push(path);
        } else if name.starts_with("table_") {
            values.push(path);
        }
    }
    Ok((indexes, values))
}

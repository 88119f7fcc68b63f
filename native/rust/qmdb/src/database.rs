//! QMDB as it is used here.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use commonware_cryptography::sha256::{Digest, Sha256};
use commonware_parallel::Rayon;
use commonware_runtime::buffer::paged::{CacheRef, page_size};
use commonware_runtime::tokio::Context;
use commonware_runtime::{BLOB_PAGE_SIZE, Strategizer as _, Supervisor as _};
use commonware_storage::journal::contiguous::fixed::Config as LogConfig;
use commonware_storage::merkle::{full::Config as TreeConfig, mmb};
use commonware_storage::qmdb::any::unordered::fixed::Update;
use commonware_storage::qmdb::floor::Proportional;
use commonware_storage::qmdb::{self, current};
use commonware_storage::translator::EightCap;
use statelab_abi::state::{Error, Hash, Result};

use crate::HEAP;
use crate::keys::{self, Key, OPERATION_BYTES, Record};
use crate::place::Place;
use crate::plan::{Plan, WRITE_BUFFER_BYTES};
use crate::runtime::Runtime;

/// Bytes of the bitmap of newest operations that one leaf of the tree above it commits to, as in
/// commonware's benches.
const BITMAP_CHUNK_BYTES: usize = 32;

/// The database. What changes it takes it, and gives it back unless it fails.
pub type Database = current::unordered::fixed::Db<mmb::Family, Context, Key, Record, Sha256, EightCap, BITMAP_CHUNK_BYTES, Rayon>;

/// A block that is ready to be applied.
type Batch = current::batch::MerkleizedBatch<mmb::Family, Digest, Update<Key, Record>, BITMAP_CHUNK_BYTES, Rayon>;

/// What QMDB says when something goes wrong.
pub type QmdbError = qmdb::Error<mmb::Family>;

const LOG: &str = "log";

/// Where the runtime puts the log's files, below the state's folder.
const LOG_FOLDER: &str = "log-blobs";

/// Opens the database, or makes one. Replays the log. Returns what the page cache takes as well.
pub fn open(runtime: &Runtime, place: &Place, plan: &Plan) -> Result<(Database, u64)> {
    let before = HEAP.used_bytes();
    let page_cache = CacheRef::new(page_size(BLOB_PAGE_SIZE), plan.page_cache_pages);
    let page_cache_bytes = HEAP.used_bytes().saturating_sub(before);
    let config = current::FixedConfig {
        merkle_config: TreeConfig {
            journal_partition: "nodes".into(),
            metadata_partition: "nodes-pruned".into(),
            items_per_blob: place.operations_per_file,
            write_buffer: WRITE_BUFFER_BYTES,
            replay_buffer: WRITE_BUFFER_BYTES,
            strategy: runtime.context().strategy(plan.hash_threads),
            page_cache: page_cache.clone(),
        },
        journal_config: LogConfig {
            partition: LOG.into(),
            items_per_blob: place.operations_per_file,
            page_cache,
            write_buffer: WRITE_BUFFER_BYTES,
            replay_buffer: WRITE_BUFFER_BYTES,
        },
        grafted_metadata_partition: "bitmap".into(),
        translator: EightCap,
        // Of places in the log by key: two keys in 2^32 share their first eight bytes.
        init_cache: None,
        init_buffer: WRITE_BUFFER_BYTES,
        init_concurrency: (),
    };
    let database = runtime.wait(Database::init(runtime.context().child("state"), config, None));
    let database = database.map_err(Error::doing(&format!("open {}", place.folder.display())))?;
    Ok((database, page_cache_bytes))
}

/// Resolves a block against the newest one and hashes it. Lookups may go on meanwhile.
pub fn prepare(runtime: &Runtime, database: &Database, number: u64, changes: Vec<(Key, Option<Record>)>) -> Result<Arc<Batch>, QmdbError> {
    let batch = changes.into_iter().fold(database.new_batch(), |batch, (key, record)| batch.write(key, record));
    runtime.wait(batch.merkleize(database, Some(keys::of_block(number)), &mut Proportional))
}

/// Applies a block and makes it durable, then drops the files of the log that hold nothing of
/// today's.
pub fn commit(runtime: &Runtime, database: Database, batch: Arc<Batch>, place: &Place) -> Result<Database, QmdbError> {
    runtime.wait(async {
        let database = database.apply_batch(batch).await?.commit().await?;
        let floor = database.sync_boundary();
        if *floor >= *database.bounds().start + place.operations_per_file.get() { database.prune(floor).await } else { Ok(database) }
    })
}

/// The database's root.
pub fn root(database: &Database) -> Hash {
    database.root().0
}

/// How many operations the log's files hold at most; 0 if there are none.
pub fn operations_in(folder: &Path) -> Result<u64> {
    let log = folder.join(LOG_FOLDER);
    let doing = format!("look at {}", log.display());
    let files = match fs::read_dir(&log) {
        Err(why) if why.kind() == std::io::ErrorKind::NotFound => return Ok(0),
        found => found.map_err(Error::doing(&doing))?,
    };
    let mut bytes = 0;
    for file in files {
        bytes += file.and_then(|file| file.metadata()).map_err(Error::doing(&doing))?.len();
    }
    Ok(bytes / OPERATION_BYTES)
}

#[cfg(test)]
#[path = "tests/database.rs"]
mod tests;

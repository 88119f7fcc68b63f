//! TrieDB's two files. It takes no lock, so this does, on the larger one.

use std::fs::{File, TryLockError};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use statelab_abi::state::{Error, Options, Result};
use triedb::meta::{MetadataManager, OpenMetadataError};
use triedb::page::PageId;

/// A state's files, which this process holds until it is dropped.
pub struct Place {
    /// The pages.
    pub pages: PathBuf,
    /// Locked.
    file: File,
}

/// Takes hold of the files, new or not.
pub fn take(options: &Options) -> Result<Place> {
    let pages = options.directory.join("pages");
    let doing = format!("open {}", pages.display());
    let opened = File::options().read(true).write(true).create_new(options.create).open(&pages);
    let file = opened.map_err(|why| match why.kind() {
        io::ErrorKind::NotFound => Error::NotADatabase(format!("open {}: it holds no state of TrieDB: {why}", options.directory.display())),
        _ => Error::Failed(format!("{doing}: {why}")),
    })?;
    file.try_lock().map_err(|why| match why {
        TryLockError::WouldBlock => Error::Locked(format!("{doing}: another process holds it")),
        TryLockError::Error(why) => Error::Failed(format!("{doing}: {why}")),
    })?;
    if !options.create && !meta(&pages).is_file() {
        return Err(Error::NotADatabase(format!("{doing}: {} is missing", meta(&pages).display())));
    }
    Ok(Place { pages, file })
}

/// What a state held when it was closed, or its process killed.
#[derive(Default)]
pub struct Found {
    /// The number of the newest block, which TrieDB's functions do not tell once it is open.
    pub block: u64,
    /// Pages to be used again.
    orphans: Vec<PageId>,
}

/// Looks at a state that is not open.
pub fn find(place: &Place) -> Result<Found> {
    let meta = meta(&place.pages);
    let mut opened = MetadataManager::open(&meta).map_err(|why| match why {
        OpenMetadataError::IO(why) => Error::Failed(format!("open {}: {why}", meta.display())),
        OpenMetadataError::Corrupted => Error::NotADatabase(format!("open {}: neither of its two slots is sound", meta.display())),
    })?;
    let block = opened.active_slot().snapshot_id();
    Ok(Found { block, orphans: opened.orphan_pages().iter().map(|orphan| orphan.page_id()).collect() })
}

/// Of a page's first eight bytes, which are its snapshot's number, the highest bit says that a
/// thread writes to it. It is in the file, and stays there if the process is killed; TrieDB then
/// refuses the page for ever. No committed block has such a page: they are orphans.
pub fn release(place: &Place, found: &Found) -> Result<()> {
    const HIGH_BYTE: u64 = if cfg!(target_endian = "little") { 7 } else { 0 };
    const BEING_WRITTEN: u8 = 0x80;
    let doing = Error::doing("release the pages that a killed process was writing to");
    for page in &found.orphans {
        let at = page.as_offset() as u64 + HIGH_BYTE;
        let mut byte = [0];
        place.file.read_exact_at(&mut byte, at).map_err(&doing)?;
        if byte[0] & BEING_WRITTEN != 0 {
            place.file.write_all_at(&[byte[0] & !BEING_WRITTEN], at).map_err(&doing)?;
        }
    }
    Ok(())
}

fn meta(pages: &Path) -> PathBuf {
    pages.with_extension("meta")
}

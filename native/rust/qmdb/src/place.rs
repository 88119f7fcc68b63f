//! What the folder must be like, and who holds it.
//!
//! commonware's runtime makes a database wherever it finds none, and waits without end for a
//! folder that another process holds. So a file of our own says that a state is there and how
//! its files are cut, and is locked for as long as the state is open.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{Read as _, Write as _};
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};

use statelab_abi::state::{Error, Options, Result};

use crate::plan;

const NAME: &str = "statelab-qmdb";

/// Longer than any that we write.
const MOST_BYTES: u64 = 256;

const FORMAT: &str = "qmdb 1, operations per file: ";

/// A folder that this process holds until it is dropped.
pub struct Place {
    pub folder: PathBuf,
    /// Cuts the log for the state's whole life.
    pub operations_per_file: NonZeroU64,
    _lock: File,
}

/// Takes hold of the folder, new or not.
pub fn take(options: &Options) -> Result<Place> {
    let folder = options.directory.clone();
    let (_lock, operations_per_file) = if options.create { make(&folder, plan::operations_per_file(options))? } else { find(&folder)? };
    options.settings.kept(plan::OPERATIONS_PER_FILE, &operations_per_file.to_string())?;
    Ok(Place { folder, operations_per_file, _lock })
}

fn make(folder: &Path, operations_per_file: NonZeroU64) -> Result<(File, NonZeroU64)> {
    let path = folder.join(NAME);
    let doing = format!("make {}", path.display());
    let mut file = OpenOptions::new().write(true).create_new(true).open(&path).map_err(Error::doing(&doing))?;
    lock(&file, folder)?;
    writeln!(file, "{FORMAT}{operations_per_file}").and_then(|()| file.sync_all()).map_err(Error::doing(&doing))?;
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(Error::doing(&doing))?;
    Ok((file, operations_per_file))
}

fn find(folder: &Path) -> Result<(File, NonZeroU64)> {
    let none = |why: &dyn std::fmt::Display| Error::NotADatabase(format!("open {}: it holds no state of QMDB: {why}", folder.display()));
    let path = folder.join(NAME);
    if !fs::metadata(&path).map_err(|why| none(&why))?.is_file() {
        return Err(none(&format_args!("{NAME} is no file")));
    }
    let file = File::open(&path).map_err(Error::doing(&format!("open {}", path.display())))?;
    lock(&file, folder)?;
    let mut text = String::new();
    (&file).take(MOST_BYTES).read_to_string(&mut text).map_err(|why| none(&why))?;
    let count = text.trim_end().strip_prefix(FORMAT).and_then(|count| count.parse().ok());
    Ok((file, count.ok_or_else(|| none(&format_args!("{NAME} does not say so")))?))
}

fn lock(file: &File, folder: &Path) -> Result<()> {
    file.try_lock().map_err(|why| match why {
        TryLockError::WouldBlock => Error::Locked(format!("open {}: another process holds it", folder.display())),
        TryLockError::Error(why) => Error::Failed(format!("lock {}: {why}", folder.display())),
    })
}

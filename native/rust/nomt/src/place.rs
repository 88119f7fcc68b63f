//! What the machine and the folder must be like.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use nix::sys::statfs::{TMPFS_MAGIC, statfs};
use nomt::IoUringPermission;
use statelab_abi::state::{Error, Result};

use crate::error_text::{Meaning, meaning};
use crate::plan::PAGE_BYTES;

/// NOMT's threads end the process where the kernel has no io_uring for them.
pub fn can_ring() -> Result<()> {
    let why = match nomt::check_iou_permissions() {
        IoUringPermission::Allowed => return Ok(()),
        IoUringPermission::Denied => "this process may not use it: see /proc/sys/kernel/io_uring_disabled and the container's seccomp profile",
        IoUringPermission::NotSupported => "the kernel is older than Linux 6.0",
    };
    Err(Error::Failed(format!("NOMT reads and writes by io_uring: {why}")))
}

/// On tmpfs NOMT would run, and read memory instead of a disk.
pub fn is_on_disk(directory: &Path) -> Result<()> {
    let system = statfs(directory).map_err(Error::doing(&format!("look at the file system of {}", directory.display())))?;
    if system.filesystem_type() == TMPFS_MAGIC {
        return Err(Error::Failed(format!(
            "{} is on tmpfs, where NOMT cannot read past the page cache: use a folder on a disk",
            directory.display()
        )));
    }
    Ok(())
}

/// What of a state's size is in memory.
pub struct Sizes {
    /// Of the hash table, each a byte in memory.
    pub buckets: u64,
    /// Of the B-tree's branches.
    pub branch_bytes: u64,
}

impl Sizes {
    /// As the files tell before the state is open; the hash table's header is taken for
    /// buckets, one in 4,097.
    pub fn of(folder: &Path) -> Result<Sizes> {
        let file = |name: &str| match fs::metadata(folder.join(name)) {
            Err(why) if why.kind() == io::ErrorKind::NotFound => Ok((0, 0)), // a new state
            Err(why) => Err(Error::Failed(format!("look at {}: {why}", folder.join(name).display()))),
            Ok(found) => Ok((found.len(), found.blocks() * 512)),
        };
        let ((table, _), (_, branches)) = (file("ht")?, file("bbn")?);
        Ok(Sizes { buckets: table / PAGE_BYTES, branch_bytes: branches })
    }
}

/// NOMT's words for why it could not open, and ours where its are the kernel's.
pub fn explain(folder: &Path, why: impl std::fmt::Display) -> Error {
    let words = format!("open {}: {why:#}", folder.display());
    match meaning(&words) {
        Meaning::Locked => Error::Locked(words),
        Meaning::NoDirect => {
            Error::Failed(format!("{words}: the file system cannot read past the page cache (O_DIRECT), as NOMT does: use ext4 or xfs"))
        }
        Meaning::Full | Meaning::Other => Error::Failed(words),
    }
}

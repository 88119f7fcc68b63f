//! What the process has read from block devices, by the kernel's account.
//!
//! NOMT reads nothing but pages of 4 KiB, past the page cache, by `pread` and by io_uring: the
//! account has both, and nothing that a cache answered. It is the whole process's, so what
//! else reads a file for the first time is in it, too; during lookups nothing else does. On
//! file systems without a block device the kernel keeps no account.

use nix::sys::resource::{UsageWho, getrusage};
use statelab_abi::state::{Error, Result};

/// The kernel counts in units of 512 bytes.
const UNIT_BYTES: u64 = 512;

pub fn read_bytes() -> Result<u64> {
    let usage = getrusage(UsageWho::RUSAGE_SELF).map_err(Error::doing("ask what the process has read"))?;
    Ok(usage.block_reads() as u64 * UNIT_BYTES)
}

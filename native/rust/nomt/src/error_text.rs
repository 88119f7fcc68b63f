//! What NOMT's errors mean: they have words alone, and no other file searches those.

use std::io;

/// What the harness does something about.
pub enum Meaning {
    /// Another process has the folder.
    Locked,
    /// The file system cannot read past the page cache.
    NoDirect,
    /// No bucket of the hash table is free.
    Full,
    /// Anything else.
    Other,
}

/// The meaning of an error's words.
pub fn meaning(words: &str) -> Meaning {
    if words.contains("Failed to lock directory") {
        Meaning::Locked
    } else if words.contains("bucket exhaustion") {
        Meaning::Full
    } else if words.contains(&io::Error::from_raw_os_error(nix::libc::EINVAL).to_string()) {
        Meaning::NoDirect
    } else {
        Meaning::Other
    }
}

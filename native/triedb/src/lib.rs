//! Base's TrieDB as a layout of state: Ethereum's Merkle-Patricia trie in pages of 4 KiB of a
//! file of its own, mapped into memory.
//!
//! - `pages.rs`: TrieDB's own count of pages.
//! - `place.rs`: the files, and who holds them.
//! - `state.rs`: blocks; `lookup.rs`: lookups.
//!
//! A block is a transaction, and its number the snapshot's: the file says after a kill which block
//! it holds. A lookup is one of TrieDB's read transaction, which remembers where it met an account
//! with storage: a slot looked up after its account goes on from there.
//!
//! TrieDB keeps nothing in memory but the list of free pages: the kernel's page cache is its cache.

mod lookup;
mod pages;
mod place;
mod state;

use statelab_abi::state::{Description, Heap, Layout, Options, Profile, Result, Root};

pub use crate::lookup::Lookup;
pub use crate::state::Opened;

/// TrieDB does not tell what it takes, so the library's whole heap is counted.
#[global_allocator]
static HEAP: Heap = Heap::new();

/// Of the pool that TrieDB hashes with.
const THREADS: &str = "threads";

/// The layout.
pub struct TrieDb;

statelab_abi::export_layout!(TrieDb);

impl Layout for TrieDb {
    type State = Opened;

    fn describe() -> Description {
        Description {
            name: "triedb",
            version: commit(include_str!("../Cargo.toml")),
            licence: "MIT",
            root: Root::EthereumMpt,
            durability: "a kill or a power cut: every committed block (pages synced, then the meta slot)",
            history: "blocks that open readers hold",
            profiles: &[Profile { name: "default", about: "mapped into memory, with random advice" }],
        }
    }

    /// Of a memory budget TrieDB takes nothing: it is the page cache's.
    fn check(options: &Options) -> Vec<String> {
        let mut mistakes = options.settings.unknown(&[THREADS]);
        mistakes.extend(options.settings.number(THREADS, 1..=256).err());
        mistakes
    }

    fn open(options: &Options) -> Result<Opened> {
        Opened::open(options)
    }
}

/// The commit that the manifest pins.
fn commit(manifest: &'static str) -> &'static str {
    let (_, after) = manifest.split_once("rev = \"").expect("the manifest pins a commit");
    &after[..8]
}

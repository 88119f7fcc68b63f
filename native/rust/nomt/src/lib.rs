//! NOMT as a layout of state: values in a B-tree whose branches are in memory, and beside
//! it a binary Merkle trie of the values' hashes in pages of six levels, which a hash table
//! on disk holds.
//!
//! - `keys.rs`: what an account and a slot are to NOMT.
//! - `plan.rs`: what the options come to: the budget divided, the hash table sized.
//! - `place.rs`: what the machine and the folder must be like.
//! - `state.rs`: blocks; `lookup.rs`: lookups; `eviction.rs`: why lookups commit now and then.
//! - `input.rs`: what has been read; `error_text.rs`: what NOMT's errors mean.
//!
//! # What NOMT is, as far as a lookup goes
//!
//! A value lookup searches the branches in memory and reads one leaf page of 4 KiB by a
//! `pread` past the page cache, unless the leaf cache has it. It touches no page of the trie.
//! A proof walks the trie's pages from the root's, through the page cache or by io_uring;
//! pages below which there are fewer than 20 values are not stored but made again from the
//! leaves.
//!
//! NOMT's public functions count neither kind: its metrics leave out the leaves, and the
//! pages that the hash table took for others. The kernel does: reads are what it says that the
//! process took in, in pages (`input.rs`). Its count of read calls has no io_uring in it. Writes
//! cannot be told from others' that way, and are not reported.
//!
//! Commits and lookups exclude each other in NOMT, and do here.

mod error_text;
mod eviction;
mod input;
mod keys;
mod lookup;
mod place;
mod plan;
mod state;

use std::fs;

use nomt::hasher::Blake3Hasher;
use statelab_abi::state::{Description, Error, Layout, Options, Profile, Result, Root, pinned};

pub use crate::keys::{Path, account_path, number_path, slot_path};
pub use crate::lookup::Lookup;
pub use crate::plan::{hash_table_buckets, stored_pages};
pub use crate::state::Opened;

use crate::plan::{PROVE, Plan, VALUE};

/// The layout.
pub struct Nomt;

statelab_abi::export_layout!(Nomt);

/// NOMT as it is used here.
type Database = nomt::Nomt<Blake3Hasher>;

/// Below the state's folder, which may hold a "lost+found": NOMT makes its files in none but an
/// empty one.
const FOLDER: &str = "nomt";

impl Layout for Nomt {
    type State = Opened;

    fn describe() -> Description {
        Description {
            name: "nomt",
            version: pinned(include_str!("../Cargo.toml"), "nomt"),
            licence: "MIT OR Apache-2.0",
            root: Root::Own,
            durability: "a kill or a power cut: every committed block",
            history: "the newest block",
            profiles: &[
                Profile { name: VALUE, about: "reads the value: one leaf of the B-tree" },
                Profile { name: PROVE, about: "reads the value and proves it: the trie's path as well" },
            ],
        }
    }

    fn check(options: &Options) -> Vec<String> {
        Plan::check(options)
    }

    fn open(options: &Options) -> Result<Opened> {
        let folder = options.directory.join(FOLDER);
        place::can_ring()?;
        place::is_on_disk(&options.directory)?;
        if options.create {
            fs::create_dir(&folder).map_err(Error::doing(&format!("make the folder {}", folder.display())))?;
        } else if !folder.join("meta").is_file() {
            return Err(Error::NotADatabase(format!("open {}: it holds no state of NOMT", options.directory.display())));
        }
        let plan = Plan::of(options, &place::Sizes::of(&folder)?)?;
        let database = Database::open(plan.options(&folder)).map_err(|why| place::explain(&folder, why))?;
        Opened::new(database, plan)
    }
}

//! QMDB as a layout of state: an append-only log of operations, an index in memory from every
//! key to its newest operation, and a Merkle tree over the log.
//!
//! - `keys.rs`: what an account and a slot are to QMDB.
//! - `plan.rs`: what the options come to: the budget divided.
//! - `place.rs`: what the folder must be like, and who holds it.
//! - `runtime.rs`: commonware's runtime, kept alive beside threads that are not its own.
//! - `database.rs`: QMDB as it is used here; `state.rs`: blocks; `lookup.rs`: lookups.
//!
//! # Which QMDB
//!
//! commonware-storage has several databases after the QMDB paper. This is `current`,
//! unordered, with values of a fixed size, over a Merkle mountain belt: the one that proves
//! which value a key has now, as the paper does with its bits of active entries, in the form
//! commonware's own benches run (`constantinople.rs`; `cold_read.rs` has the same log and index
//! without those bits). Values of variable size would be smaller and need a second log, of
//! offsets, which a lookup reads first.
//!
//! # What a lookup is
//!
//! The index is a hash table in memory from a key's first eight bytes to a place in the log.
//! A lookup reads the page of 4 KiB that holds the operation, unless the page cache has it, and
//! a second where the operation crosses a page's end (one in 38). An absent key whose first
//! eight bytes nobody shares is answered from memory. Pages are read past the operating
//! system's page cache (O_DIRECT, or RWF_DONTCACHE where the file system has none), each by a
//! thread of the runtime's.
//!
//! # What opening is
//!
//! The index is on no disk: opening replays the log from the first operation that is still
//! active, and takes as long as that is.

mod database;
mod keys;
mod lookup;
mod place;
mod plan;
mod runtime;
mod state;

use statelab_abi::state::{Description, Heap, Layout, Options, Profile, Result, Root, pinned};

pub use crate::keys::OPERATION_BYTES;
pub use crate::lookup::Lookup;
pub use crate::state::Opened;

use crate::plan::{PROVE, Plan, VALUE};

/// QMDB does not tell what its index takes, so the library's whole heap is counted.
#[global_allocator]
static HEAP: Heap = Heap::new();

/// The layout.
pub struct Qmdb;

statelab_abi::export_layout!(Qmdb);

impl Layout for Qmdb {
    type State = Opened;

    fn describe() -> Description {
        Description {
            name: "qmdb",
            version: pinned(include_str!("../Cargo.toml"), "commonware-storage"),
            licence: "MIT OR Apache-2.0",
            root: Root::Own,
            durability: "a kill or a power cut: every committed block",
            history: "the newest block",
            profiles: &[
                Profile { name: VALUE, about: "reads the value: one operation of the log" },
                Profile { name: PROVE, about: "reads the value and makes the proof that it is the newest; no proof of absence" },
            ],
        }
    }

    fn check(options: &Options) -> Vec<String> {
        Plan::check(options)
    }

    fn open(options: &Options) -> Result<Opened> {
        let place = place::take(options)?;
        Opened::open(options, place)
    }
}

//! `statelab_engine.h`: key-value engines.

mod border;
mod table;
mod traits;

pub use crate::{Basis, Error, Heap, Memory, Result, Settings, Stat, Unsettled, pinned};
pub use border::table_of;
pub use table::{ABI, RawOptions, RawShape, Table};
pub use traits::{Capability, Change, Database, Description, Engine, Options, Reader, Reads, Shape};

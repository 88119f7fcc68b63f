//! `statelab_state.h`: layouts of blockchain state.

mod border;
mod record;
mod table;
mod traits;
mod types;

pub use crate::{Basis, Error, Heap, Memory, Result, Settings, Stat, Unsettled, pinned};
pub use border::table_of;
pub use record::{MOST_ACCOUNT_BYTES, decode_account, encode_account};
pub use table::{ABI, RawOptions, RawProfile, RawTouched, Table};
pub use traits::{Layout, Reader, State};
pub use types::{Account, Description, EMPTY_CODE, Hash, Head, Options, Profile, Root, Slot, Touched, Value};

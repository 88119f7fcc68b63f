//! `statelab_state.h` in Rust: how a layout of blockchain state, written in safe Rust,
//! becomes a shared library.
//!
//! A layout implements [`Layout`], [`State`] and [`Reader`] and ends with
//! [`export!`](crate::export). This crate translates: it checks what arrives, catches
//! panics, keeps strings alive and puts errors into sentences. What the functions promise
//! is said in the header; here stands what Rust adds to it.
//!
//! Read `layout.rs` for the traits, `types.rs` for what they talk about, `border.rs` for the
//! translation, `table.rs` for the header's structs. `record.rs` and `heap.rs` are for layouts that
//! want them. Only the border, the table and the heap use `unsafe`.
//!
//! Non-goals: to measure, to cache, to retry.

mod border;
mod heap;
mod layout;
mod record;
mod settings;
mod strings;
mod table;
mod types;

pub use border::table_of;
pub use heap::Heap;
pub use layout::{Layout, Reader, State};
pub use record::{MOST_ACCOUNT_BYTES, decode_account, encode_account};
pub use settings::Settings;
pub use table::{
    ABI, ERROR_BYTES, FAILED, LOCKED, MISSING, NOT_A_DATABASE, OK, RawError, RawMemory, RawOptions, RawProfile, RawSetting, RawSettling, RawStat,
    RawTouched, Table, WORKING,
};
pub use types::{
    Account, Basis, Description, EMPTY_CODE, Error, Hash, Head, Memory, Options, Profile, Result, Root, Slot, Stat, Touched, Unsettled, Value,
};

/// The version that a manifest pins a package to: `pinned(include_str!("../Cargo.toml"), "nomt")`.
///
/// # Panics
/// If it pins none, as `package = "=1.2.3"` or `package = { version = "=1.2.3", .. }`.
pub fn pinned(manifest: &'static str, package: &str) -> &'static str {
    let line = manifest.lines().find(|line| line.strip_prefix(package).is_some_and(|rest| rest.trim_start().starts_with('=')));
    let (_, after) = line.and_then(|line| line.split_once("\"=")).expect("the manifest pins the package");
    after.split('"').next().unwrap_or_default()
}

/// Exports `statelab_state_v1` for a [`Layout`].
#[macro_export]
macro_rules! export {
    ($layout:ty) => {
        /// The table of the layout's functions.
        #[allow(unsafe_code)]
        #[unsafe(no_mangle)]
        pub extern "C" fn statelab_state_v1() -> *const $crate::Table {
            static TABLE: std::sync::OnceLock<$crate::Table> = std::sync::OnceLock::new();
            TABLE.get_or_init($crate::table_of::<$layout>)
        }
    };
}

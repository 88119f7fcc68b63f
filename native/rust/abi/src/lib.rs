//! `statelab_engine.h` and `statelab_state.h` in Rust: how a key-value engine or a layout of
//! blockchain state, written in safe Rust, becomes a shared library.
//!
//! An engine implements the traits of [`engine`] and ends with [`export_engine!`]; a layout
//! implements those of [`state`] and ends with [`export_layout!`]. This crate translates: it
//! checks what arrives, catches panics, keeps strings alive and puts errors into sentences. What
//! the functions promise is said in the headers; here stands what Rust adds to it.
//!
//! Read `engine/traits.rs` or `state/traits.rs` for the traits, `border.rs` in the same folder for
//! the translation, `table.rs` for the header's table. What both have in common is in this folder.
//! Only the borders, the tables and the heap use `unsafe`.
//!
//! Non-goals: to measure, to cache, to retry.

mod border;
pub mod engine;
mod heap;
mod raw;
mod settings;
pub mod state;
mod strings;
mod types;

pub use heap::Heap;
pub use raw::{ERROR_BYTES, FAILED, LOCKED, MISSING, NOT_A_DATABASE, OK, RawError, RawMemory, RawSetting, RawSettling, RawStat, TOO_SMALL, WORKING};
pub use settings::Settings;
pub use types::{Basis, Error, Memory, Result, Stat, Unsettled};

/// The version that a manifest pins a package to: `pinned(include_str!("../Cargo.toml"), "nomt")`.
///
/// # Panics
/// If it pins none, as `package = "=1.2.3"` or `package = { version = "=1.2.3", .. }`.
pub fn pinned(manifest: &'static str, package: &str) -> &'static str {
    let line = manifest.lines().find(|line| line.strip_prefix(package).is_some_and(|rest| rest.trim_start().starts_with('=')));
    let (_, after) = line.and_then(|line| line.split_once("\"=")).expect("the manifest pins the package");
    after.split('"').next().unwrap_or_default()
}

/// Exports `statelab_engine_v1` for an [`engine::Engine`].
#[macro_export]
macro_rules! export_engine {
    ($engine:ty) => {
        /// The table of the engine's functions.
        #[allow(unsafe_code)]
        #[unsafe(no_mangle)]
        pub extern "C" fn statelab_engine_v1() -> *const $crate::engine::Table {
            static TABLE: std::sync::OnceLock<$crate::engine::Table> = std::sync::OnceLock::new();
            TABLE.get_or_init($crate::engine::table_of::<$engine>)
        }
    };
}

/// Exports `statelab_state_v1` for a [`state::Layout`].
#[macro_export]
macro_rules! export_layout {
    ($layout:ty) => {
        /// The table of the layout's functions.
        #[allow(unsafe_code)]
        #[unsafe(no_mangle)]
        pub extern "C" fn statelab_state_v1() -> *const $crate::state::Table {
            static TABLE: std::sync::OnceLock<$crate::state::Table> = std::sync::OnceLock::new();
            TABLE.get_or_init($crate::state::table_of::<$layout>)
        }
    };
}

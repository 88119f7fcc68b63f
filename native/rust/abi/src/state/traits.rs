//! The traits that a layout implements.

use std::time::Duration;

use crate::state::{Account, Description, Hash, Head, Options, Slot, Touched, Value};
use crate::{Memory, Result, Stat, Unsettled};

/// Opens states. Implementations hold no state of their own.
pub trait Layout: 'static {
    /// What [`Layout::open`] opens.
    type State: State;

    /// What the table tells. Called once.
    fn describe() -> Description;

    /// Everything that is wrong with the options, each with a legal example. Touches no file.
    /// That the profile exists has been checked.
    fn check(options: &Options) -> Vec<String>;

    /// Opens the state at its newest committed block. The options have passed
    /// [`Layout::check`].
    fn open(options: &Options) -> Result<Self::State>;
}

/// An open state. All methods take `&self`, since readers are opened, and statistics asked
/// for, while another thread changes and commits; `change` and `commit` never overlap each
/// other. What readers need beyond the state's own life is shared with them by `Arc`.
///
/// If a method that returns a `Result` panics, the caller gets an error. A panic in one of
/// the others ends the process.
pub trait State: Send + Sync + 'static {
    /// What looks up.
    type Reader: Reader;

    /// The newest committed block.
    fn head(&self) -> Head;

    /// Adds one account's changes to the block being built; `None` deletes it with all its
    /// storage. An account comes at most once a block. Nobody sees anything before commit.
    fn change(&self, name: &Hash, account: Option<&Account>, slots: &[Slot]) -> Result<()>;

    /// Ends the block and returns its root, once a killed process would keep it.
    fn commit(&self) -> Result<Hash>;

    /// Opens a reader. All are dropped before the state is closed.
    fn reader(&self) -> Result<Self::Reader>;

    /// Returns when no background work is left, but not much later than `at_most`: then with
    /// what is left.
    fn settle(&self, at_most: Duration) -> Result<Option<Unsettled>>;

    /// The counters that the layout has. Reads no block.
    fn stats(&self) -> Vec<Stat>;

    /// The parts of what the layout keeps in memory.
    fn memory(&self) -> Vec<Memory>;

    /// What the layout runs with, defaults resolved, by the names of the settings.
    fn effective(&self) -> Vec<(&'static str, String)>;

    /// Nothing may be left running afterwards, also on failure.
    fn close(self) -> Result<()>;
}

/// Looks up at the newest committed block. Used by one thread at a time, but not always by
/// the same one; many readers look up at once.
pub trait Reader: Send + 'static {
    /// The account, if there is one.
    fn account(&mut self, name: &Hash) -> Result<Option<Account>>;

    /// The value of an account's slot, if it has one.
    fn slot(&mut self, name: &Hash, key: &Hash) -> Result<Option<Value>>;

    /// What this reader's lookups touched so far.
    fn touched(&self) -> Touched;
}

//! What engines, layouts and the harness talk about.

/// Background work that is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unsettled {
    /// An estimate.
    pub pending_bytes: u64,
    /// Running.
    pub jobs: u64,
}

/// A counter, cumulative since open and monotonic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// One of the header's.
    pub name: &'static str,
    /// Bytes or a plain count.
    pub value: u64,
}

/// How a figure of memory came to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// What is measured keeps to it.
    Limit,
    /// Its own account, now.
    Measured,
    /// Neither.
    Estimate,
}

/// A part of what the engine or layout keeps in memory. The parts add up to all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// "page cache".
    pub usage: &'static str,
    /// How the figure came to be.
    pub basis: Basis,
    /// How much.
    pub bytes: u64,
}

/// Why something failed: a sentence that says what was being done and what went wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// Anything but what follows.
    Failed(String),
    /// Another process holds the database or state.
    Locked(String),
    /// The directory is missing, empty or holds something else.
    NotADatabase(String),
}

impl Error {
    /// For `map_err`: what was being done, before the error's own words.
    pub fn doing<E: std::fmt::Display>(what: &str) -> impl Fn(E) -> Error {
        move |why| Error::Failed(format!("{what}: {why}"))
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (Error::Failed(why) | Error::Locked(why) | Error::NotADatabase(why)) = self;
        f.write_str(why)
    }
}

impl std::error::Error for Error {}

/// Or an [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

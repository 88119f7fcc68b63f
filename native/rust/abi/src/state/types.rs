//! What layouts and the harness talk about.

use std::path::PathBuf;

use crate::Settings;

/// A Keccak-256 hash.
pub type Hash = [u8; 32];

/// The hash of no code.
pub const EMPTY_CODE: Hash = [
    0xc5, 0xd2, 0x46, 0x01, 0x86, 0xf7, 0x23, 0x3c, 0x92, 0x7e, 0x7d, 0xb2, 0xdc, 0xc7, 0x03, 0xc0, 0xe5, 0x00, 0xb6, 0x53, 0xca, 0x82, 0x27, 0x3b,
    0x7b, 0xfa, 0xd8, 0x04, 0x5d, 0x85, 0xa4, 0x70,
];

/// What the state keeps of an account, beside its storage; as in the header.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Account {
    /// Transactions sent.
    pub nonce: u64,
    /// Big endian.
    pub balance: [u8; 32],
    /// [`EMPTY_CODE`] for an account without code.
    pub code: Hash,
}

/// A storage slot after a block; as in the header.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// The hash of its key.
    pub key: Hash,
    /// Empty if the block deletes it.
    pub value: Value,
}

/// At most 32 bytes, as the header's slots hold them.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Value {
    bytes: [u8; 32],
    /// What comes over the border can be out of bounds: [`Value::is_sound`].
    count: i32,
}

impl Value {
    /// None if there are more than 32 bytes.
    pub fn new(value: &[u8]) -> Option<Self> {
        let mut bytes = [0; 32];
        bytes.get_mut(..value.len())?.copy_from_slice(value);
        Some(Value { bytes, count: value.len() as i32 })
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.count as usize]
    }

    /// Whether the count is of bytes that are there.
    pub(crate) fn is_sound(&self) -> bool {
        (0..=32).contains(&self.count)
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl Eq for Value {}

/// The newest committed block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// 0 for a new state.
    pub block: u64,
    /// The state's after that block.
    pub root: Hash,
}

/// What a state is opened with.
#[derive(Clone, Debug)]
pub struct Options {
    /// Of the state; empty in a check that does not know it yet.
    pub directory: PathBuf,
    /// One of the [`Description`]'s; the first where none was named.
    pub profile: String,
    /// Make a state in the directory, which exists and holds nothing but, perhaps, a folder
    /// "lost+found".
    pub create: bool,
    /// Nothing will be changed or committed.
    pub read_only: bool,
    /// All that the layout keeps in memory; None: its own default.
    pub memory_bytes: Option<u64>,
    /// Accounts that the state will come to hold; None: unknown.
    pub accounts_hint: Option<u64>,
    /// Slots of all accounts, likewise.
    pub slots_hint: Option<u64>,
    /// The user's own.
    pub settings: Settings,
}

/// How a commitment is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Root {
    /// By Ethereum's Merkle-Patricia trie.
    EthereumMpt,
    /// In the layout's own way.
    Own,
    /// Not at all.
    None,
}

/// What the table tells of a layout.
#[derive(Clone, Debug)]
pub struct Description {
    /// "nomt".
    pub name: &'static str,
    /// Of the code behind it: see [`pinned`](crate::pinned).
    pub version: &'static str,
    /// SPDX.
    pub licence: &'static str,
    /// How a commitment is made.
    pub root: Root,
    /// What survives a kill, and what a power cut, after commit.
    pub durability: &'static str,
    /// Which old states stay readable.
    pub history: &'static str,
    /// At least one; the first is the default.
    pub profiles: &'static [Profile],
}

/// A way to run the layout.
#[derive(Clone, Copy, Debug)]
pub struct Profile {
    /// As the user writes it.
    pub name: &'static str,
    /// A sentence.
    pub about: &'static str,
}

/// What a reader's lookups touched so far, cached or not; None where the layout cannot tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Touched {
    /// Of the layout's tree, the leaf included.
    pub nodes: Option<u64>,
    /// Of the layout's own.
    pub pages: Option<u64>,
}

//! What accounts and slots are to NOMT: key paths of 32 bytes, and values.
//!
//! An account's path is its own name, a slot's is the BLAKE3 hash of the account's name and the
//! slot's: both are uniform, and no two meet but by a collision of 256-bit hashes. A
//! contract's slots therefore lie scattered over the whole tree.

use statelab_abi::state::{Hash, Value};

/// A key path of NOMT's.
pub type Path = [u8; 32];

/// The path of an account.
pub fn account_path(name: &Hash) -> Path {
    *name
}

/// The path of a slot of an account.
pub fn slot_path(name: &Hash, key: &Hash) -> Path {
    let mut hasher = blake3::Hasher::new();
    hasher.update(name);
    hasher.update(key);
    *hasher.finalize().as_bytes()
}

/// The path under which the number of the newest block is kept, as eight big-endian bytes:
/// in the state itself, so that it is committed with the block or not at all. The root is
/// therefore one of the accounts, the slots and this.
pub fn number_path() -> Path {
    *blake3::hash(b"statelab: number of the newest block").as_bytes()
}

/// A slot's bytes are its value's.
pub fn decode_slot(bytes: &[u8]) -> Option<Value> {
    Value::new(bytes).filter(|value| !value.as_bytes().is_empty())
}

//! What accounts and slots are to QMDB: keys of 32 bytes, and values of one size.
//!
//! An account's key is its own name, a slot's is the SHA-256 hash of the account's name and
//! the slot's: both are uniform, and no two meet but by a collision of 256-bit hashes.

use commonware_cryptography::{Hasher as _, Sha256};
use commonware_utils::sequence::FixedBytes;
use statelab_abi::state::{Account, Hash, MOST_ACCOUNT_BYTES, Value as SlotValue, decode_account, encode_account};

/// A key of QMDB's.
pub type Key = FixedBytes<32>;

const RECORD_BYTES: usize = 1 + MOST_ACCOUNT_BYTES;

/// A value of QMDB's: a count, as many bytes, and zeros.
pub type Record = FixedBytes<RECORD_BYTES>;

/// What an update takes in the log: its kind, the key and the value.
pub const OPERATION_BYTES: u64 = 1 + 32 + RECORD_BYTES as u64;

/// The key of an account.
pub fn account_key(name: &Hash) -> Key {
    Key::new(*name)
}

/// The key of a slot of an account.
pub fn slot_key(name: &Hash, key: &Hash) -> Key {
    Key::new(Sha256::hash(&[name, key]).0)
}

/// A record of an account.
pub fn of_account(account: &Account) -> Record {
    padded(&encode_account(account))
}

/// The account of a record as [`of_account`] makes them.
pub fn as_account(record: &Record) -> Option<Account> {
    decode_account(unpadded(record)?)
}

/// A record of a slot's value.
pub fn of_slot(value: &SlotValue) -> Record {
    padded(value.as_bytes())
}

/// The value of a record as [`of_slot`] makes them.
pub fn as_slot(record: &Record) -> Option<SlotValue> {
    SlotValue::new(unpadded(record)?).filter(|value| !value.as_bytes().is_empty())
}

/// A record of a block's number, which goes with the block's commit.
pub fn of_block(number: u64) -> Record {
    padded(&number.to_be_bytes())
}

/// The number of a record as [`of_block`] makes them.
pub fn as_block(record: &Record) -> Option<u64> {
    Some(u64::from_be_bytes(unpadded(record)?.try_into().ok()?))
}

fn padded(bytes: &[u8]) -> Record {
    let mut record = [0; RECORD_BYTES];
    record[0] = bytes.len() as u8;
    record[1..=bytes.len()].copy_from_slice(bytes);
    Record::new(record)
}

fn unpadded(record: &Record) -> Option<&[u8]> {
    let (&count, bytes) = record.split_first()?;
    bytes.get(..count.into())
}

#[cfg(test)]
#[path = "tests/keys.rs"]
mod tests;

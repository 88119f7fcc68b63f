//! What accounts and slots are to NOMT: key paths of 32 bytes, and values.
//!
//! An account's path is its own name, a slot's is the BLAKE3 hash of the account's name and the
//! slot's: both are uniform, and no two meet but by a collision of 256-bit hashes. A
//! contract's slots therefore lie scattered over the whole tree.

use statelab_state::{Account, EMPTY_CODE, Hash, Value};

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
pub const fn number_path() -> Path {
    [0xff; 32]
}

const HAS_CODE: u8 = 0x80;

/// An account's bytes: how many the nonce takes; how many the balance takes, and whether there
/// is code; then both, big endian and without leading zeros, and the code's hash.
pub fn encode_account(account: &Account) -> Vec<u8> {
    let nonce = account.nonce.to_be_bytes();
    let nonce = without_leading_zeros(&nonce);
    let balance = without_leading_zeros(&account.balance);
    let code: &[u8] = if account.code == EMPTY_CODE { &[] } else { &account.code };
    let flag = if code.is_empty() { 0 } else { HAS_CODE };
    [&[nonce.len() as u8, balance.len() as u8 | flag], nonce, balance, code].concat()
}

/// The account of bytes as [`encode_account`] makes them.
pub fn decode_account(bytes: &[u8]) -> Option<Account> {
    let (&[nonce_count, balance_count], rest) = bytes.split_first_chunk()?;
    let (nonce, rest) = rest.split_at_checked(nonce_count.into())?;
    let (balance, code) = rest.split_at_checked((balance_count & !HAS_CODE).into())?;
    let code = if balance_count & HAS_CODE == 0 { code.is_empty().then_some(EMPTY_CODE)? } else { code.try_into().ok()? };
    Some(Account { nonce: u64::from_be_bytes(with_leading_zeros(nonce)?), balance: with_leading_zeros(balance)?, code })
}

/// A slot's bytes are its value's.
pub fn decode_slot(bytes: &[u8]) -> Option<Value> {
    Value::new(bytes).filter(|value| !value.as_bytes().is_empty())
}

fn without_leading_zeros(bytes: &[u8]) -> &[u8] {
    let first = bytes.iter().position(|&byte| byte != 0).unwrap_or(bytes.len());
    &bytes[first..]
}

fn with_leading_zeros<const N: usize>(bytes: &[u8]) -> Option<[u8; N]> {
    let mut all = [0; N];
    all[N.checked_sub(bytes.len())?..].copy_from_slice(bytes);
    Some(all)
}

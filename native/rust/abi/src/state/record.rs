//! How an account is kept as bytes, for layouts that keep any bytes: both numbers without
//! leading zeros, and no hash where there is no code.

use crate::state::{Account, EMPTY_CODE};

/// An account never takes more bytes.
pub const MOST_ACCOUNT_BYTES: usize = 2 + 8 + 32 + 32;

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

/// The account of bytes as [`encode_account`] makes them; None of others.
pub fn decode_account(bytes: &[u8]) -> Option<Account> {
    let (&[nonce_count, balance_count], rest) = bytes.split_first_chunk()?;
    let (nonce, rest) = rest.split_at_checked(nonce_count.into())?;
    let (balance, code) = rest.split_at_checked((balance_count & !HAS_CODE).into())?;
    let code = if balance_count & HAS_CODE == 0 { code.is_empty().then_some(EMPTY_CODE)? } else { code.try_into().ok()? };
    Some(Account { nonce: u64::from_be_bytes(with_leading_zeros(nonce)?), balance: with_leading_zeros(balance)?, code })
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

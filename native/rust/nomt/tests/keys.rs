//! Bytes of accounts.

mod model;

use model::Random;
use statelab_nomt::{decode_account, encode_account, slot_path};
use statelab_state::{Account, EMPTY_CODE};

#[test]
fn accounts_are_compact() {
    let mut balance = [0; 32];
    balance[24..].copy_from_slice(&0x0de0_b6b3_a764_0000u64.to_be_bytes());
    let account = Account { nonce: 9, balance, code: EMPTY_CODE };
    assert_eq!(encode_account(&account), [1, 8, 9, 0x0d, 0xe0, 0xb6, 0xb3, 0xa7, 0x64, 0, 0]);
    assert_eq!(encode_account(&Account { nonce: 0, balance: [0; 32], code: EMPTY_CODE }), [0, 0]);
    let contract = encode_account(&Account { code: [7; 32], ..account });
    assert_eq!((contract.len(), contract[1]), (11 + 32, 0x88));
}

#[test]
fn accounts_come_back() {
    let mut random = Random(1);
    for _ in 0..10_000 {
        let mut balance = [0; 32];
        let zeros = random.below(33) as usize;
        balance[zeros..].fill_with(|| random.below(256) as u8);
        let nonce = random.below(u64::MAX) >> random.below(64);
        let code = if random.below(2) == 0 { EMPTY_CODE } else { [random.below(256) as u8; 32] };
        let account = Account { nonce, balance, code };
        assert_eq!(decode_account(&encode_account(&account)), Some(account));
    }
}

#[test]
fn other_bytes_are_no_account() {
    let mut random = Random(2);
    for _ in 0..100_000 {
        let bytes: Vec<u8> = (0..random.below(80)).map(|i| random.below(if i < 2 { 48 } else { 256 }) as u8).collect();
        // Whatever decodes is an account, whose own encoding is no longer.
        if let Some(account) = decode_account(&bytes) {
            assert!(encode_account(&account).len() <= bytes.len());
        }
    }
    assert_eq!(decode_account(&[0]), None);
    assert_eq!(decode_account(&[1, 0]), None);
    assert_eq!(decode_account(&[0, 0, 0]), None);
    assert_eq!(decode_account(&[9, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1]), None);
    assert_eq!(decode_account(&[0, 0x80, 1]), None);
}

#[test]
fn a_slots_path_is_the_hash_of_both_names() {
    let both: Vec<u8> = [[1; 32], [2; 32]].concat();
    assert_eq!(slot_path(&[1; 32], &[2; 32]), *blake3::hash(&both).as_bytes());
}

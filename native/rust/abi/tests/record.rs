//! An account's bytes, by hand and back again.

use statelab_abi::state::{Account, EMPTY_CODE, Heap, MOST_ACCOUNT_BYTES, decode_account, encode_account};

#[global_allocator]
static HEAP: Heap = Heap::new();

fn balance(of: u8) -> [u8; 32] {
    let mut balance = [0; 32];
    balance[31] = of;
    balance
}

#[test]
fn an_account_is_its_numbers_and_its_code() {
    let cases: [(Account, &[u8]); 3] = [
        (Account { nonce: 0, balance: [0; 32], code: EMPTY_CODE }, &[0, 0]),
        (Account { nonce: 258, balance: balance(7), code: EMPTY_CODE }, &[2, 1, 1, 2, 7]),
        (Account { nonce: 1, balance: [0; 32], code: [9; 32] }, &[&[1, 0x80, 1][..], &[9; 32]].concat()),
    ];
    for (account, bytes) in cases {
        assert_eq!(encode_account(&account), bytes);
        assert_eq!(decode_account(bytes), Some(account));
    }
    let largest = Account { nonce: u64::MAX, balance: [0xff; 32], code: [1; 32] };
    assert_eq!(encode_account(&largest).len(), MOST_ACCOUNT_BYTES);
    assert_eq!(decode_account(&encode_account(&largest)), Some(largest));
}

#[test]
fn other_bytes_are_no_account() {
    let short: &[u8] = &[];
    for bytes in [short, &[1], &[9, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9], &[0, 33], &[0, 0, 1], &[0, 0x80, 1], &[1, 0]] {
        assert_eq!(decode_account(bytes), None, "{bytes:x?}");
    }
}

#[test]
fn the_heap_counts_what_is_held() {
    let before = HEAP.used_bytes();
    let mut held = vec![0u8; 10 << 20];
    held.resize(30 << 20, 1);
    let during = HEAP.used_bytes().saturating_sub(before);
    // The other tests of this process hold a little meanwhile, or have given it back.
    assert!((29 << 20..31 << 20).contains(&during), "{during}");
    drop(held);
    assert!(HEAP.used_bytes() < before + (1 << 20));
}

use statelab_abi::state::EMPTY_CODE;

use super::*;

#[test]
fn records_come_back() {
    let account = Account { nonce: u64::MAX, balance: [0xff; 32], code: [7; 32] };
    assert_eq!(as_account(&of_account(&account)), Some(account));
    let plain = Account { nonce: 0, balance: [0; 32], code: EMPTY_CODE };
    assert_eq!(as_account(&of_account(&plain)), Some(plain));
    let value = SlotValue::new(&[3; 32]).unwrap();
    assert_eq!(as_slot(&of_slot(&value)), Some(value));
    assert_eq!(as_block(&of_block(1 << 40)), Some(1 << 40));
}

#[test]
fn other_records_are_nothing() {
    let too_long = Record::new([0xff; RECORD_BYTES]);
    assert_eq!((as_account(&too_long), as_slot(&too_long), as_block(&too_long)), (None, None, None));
    assert_eq!(as_slot(&of_slot(&SlotValue::new(&[]).unwrap())), None);
    assert_eq!(as_block(&of_slot(&SlotValue::new(&[1]).unwrap())), None);
}

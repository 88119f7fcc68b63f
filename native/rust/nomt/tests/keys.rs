//! Key paths.

use statelab_nomt::slot_path;

#[test]
fn a_slots_path_is_the_hash_of_both_names() {
    let both: Vec<u8> = [[1; 32], [2; 32]].concat();
    assert_eq!(slot_path(&[1; 32], &[2; 32]), *blake3::hash(&both).as_bytes());
}

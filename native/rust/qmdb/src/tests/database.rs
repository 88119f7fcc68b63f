use statelab_abi::state::{Options, Settings};

use super::*;
use crate::place;

/// What the profile "prove" makes is checked by QMDB's own verifier.
#[test]
fn a_proof_is_of_the_value_and_of_no_other() {
    let folder = std::env::temp_dir().join(format!("statelab-qmdb-proof-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let options = Options {
        directory: folder.clone(),
        profile: crate::plan::PROVE.into(),
        create: true,
        read_only: false,
        memory_bytes: Some(4 << 20),
        accounts_hint: None,
        slots_hint: None,
        settings: Settings::default(),
    };
    let place = place::take(&options).unwrap();
    let runtime = Runtime::start(&folder).unwrap();
    let (mut database, _) = open(&runtime, &place, &Plan::of(&options, 0)).unwrap();
    let key = |i: u32| keys::slot_key(&[0; 32], &[i as u8; 32]);
    let of = |number: u64| keys::of_block(number);
    for number in 1..=3 {
        let changes = (0..200).map(|i| (key(i), Some(of(number + u64::from(i))))).collect();
        let block = prepare(&runtime, &database, number, changes).unwrap();
        database = commit(&runtime, database, block, &place).unwrap();
    }
    for i in 0..200 {
        let proof = runtime.wait(database.key_value_proof(key(i))).unwrap();
        let holds = |i, number| Database::verify_key_value_proof(key(i), of(number), &proof, &database.root());
        assert!(holds(i, 3 + u64::from(i)));
        assert!(!holds(i, 2 + u64::from(i)), "the value of the block before");
        assert!(!holds(i + 1, 3 + u64::from(i)), "another key");
    }
    assert!(runtime.wait(database.key_value_proof(key(200))).is_err(), "absence is not proven");
    drop(database);
    runtime.stop().unwrap();
    fs::remove_dir_all(folder).unwrap();
}

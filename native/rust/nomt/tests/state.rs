//! The layout against a map, through blocks, closes and openings.

mod model;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use model::{Folder, Model, hash, open, options};
use nomt::SessionParams;
use nomt::hasher::{Blake3Hasher, ValueHasher};
use nomt::trie::LeafData;
use statelab_abi::state::{Account, EMPTY_CODE, Error, Head, Layout, Reader, Settings, Slot, State, Touched, Value, encode_account};
use statelab_nomt::{Nomt, account_path};

const ACCOUNTS: u64 = 300;

#[test]
fn blocks_are_those_of_the_model() {
    let folder = Folder::new("blocks");
    let mut model = Model::default();
    let mut state = open(&options(&folder.0, true));
    assert_eq!(state.head(), Head { block: 0, root: model.root() });
    for block in 1..=20 {
        let changes = model.next(ACCOUNTS, 120);
        let mut before = state.reader().unwrap();
        for (name, account, slots) in &changes {
            state.change(name, account.as_ref(), slots).unwrap();
        }
        if block == 3 {
            model.hold(&mut before, ACCOUNTS);
        }
        let root = state.commit().unwrap();
        model.apply(&changes);
        assert_eq!(root, model.root(), "block {block}");
        assert_eq!(state.head(), Head { block, root });
        if block % 5 == 0 {
            model.hold(&mut before, ACCOUNTS);
            drop(before);
            state.close().unwrap();
            let mut again = options(&folder.0, false);
            again.profile = if block % 2 == 0 { "value" } else { "prove" }.into();
            state = open(&again);
            assert_eq!(state.head(), Head { block, root });
            model.hold(&mut state.reader().unwrap(), ACCOUNTS);
        }
    }
    assert!(model.accounts.len() > 100 && model.slots.len() > 100, "the chain is too tame to prove anything");
    state.close().unwrap();
    every_proof_is_of_the_root(&folder, &model);
}

/// NOMT's proofs, verified by its verifier, against the root by our definition.
fn every_proof_is_of_the_root(folder: &Folder, model: &Model) {
    let mut options = nomt::Options::new();
    options.path(folder.0.join("nomt"));
    let database = nomt::Nomt::<Blake3Hasher>::open(options).unwrap();
    let session = database.begin_session(SessionParams::default());
    for n in 0..ACCOUNTS {
        let name = hash("account", n);
        let path = account_path(&name);
        let proof = session.prove(path).unwrap();
        let bits = (0..256).map(|i| path[i / 8] >> (7 - i % 8) & 1 == 1).collect();
        let proven = verify(&proof, &bits, model.root());
        match model.accounts.get(&name) {
            Some(account) => {
                let leaf = LeafData { key_path: path, value_hash: Blake3Hasher::hash_value(&encode_account(account)) };
                assert!(proven.confirm_value(&leaf).unwrap(), "account {n}");
            }
            None => assert!(proven.confirm_nonexistence(&path).unwrap(), "account {n}"),
        }
    }
}

fn verify(proof: &nomt::proof::PathProof, bits: &bitvec::vec::BitVec<u8, bitvec::order::Msb0>, root: [u8; 32]) -> nomt::proof::VerifiedPathProof {
    proof.verify::<Blake3Hasher>(bits, root).unwrap_or_else(|why| panic!("{why:?}"))
}

#[test]
fn an_account_with_code_is_not_deleted() {
    let folder = Folder::new("delete");
    let state = open(&options(&folder.0, true));
    let account = |code| Account { nonce: 1, balance: [0; 32], code };
    let slot = Slot { key: [3; 32], value: Value::new(&[4]).unwrap() };
    state.change(&[1; 32], Some(&account([2; 32])), &[slot]).unwrap();
    state.change(&[5; 32], Some(&account(EMPTY_CODE)), &[]).unwrap();
    state.commit().unwrap();
    let Err(Error::Failed(why)) = state.change(&[1; 32], None, &[]) else { panic!("deleted") };
    assert!(why.ends_with("it has code, so it may have slots, and NOMT keeps no list of them"), "{why}");
    state.change(&[5; 32], None, &[]).unwrap();
    state.change(&[6; 32], None, &[]).unwrap();
    state.commit().unwrap();
    let mut reader = state.reader().unwrap();
    assert_eq!(reader.account(&[1; 32]).unwrap(), Some(account([2; 32])));
    assert_eq!(reader.account(&[5; 32]).unwrap(), None);
}

#[test]
fn an_account_that_comes_twice_is_refused() {
    let folder = Folder::new("twice");
    let state = open(&options(&folder.0, true));
    let account = Account { nonce: 1, balance: [0; 32], code: EMPTY_CODE };
    state.change(&[1; 32], Some(&account), &[]).unwrap();
    state.change(&[1; 32], Some(&account), &[]).unwrap();
    let Err(Error::Failed(why)) = state.commit() else { panic!("committed") };
    assert!(why.starts_with("commit block 1: it changes [01, 01"), "{why}");
}

#[test]
fn a_proof_touches_the_path() {
    let folder = Folder::new("touched");
    let mut with_proofs = options(&folder.0, true);
    with_proofs.profile = "prove".into();
    let state = open(&with_proofs);
    let account = Account { nonce: 1, balance: [0; 32], code: EMPTY_CODE };
    // Paths that part at the first bit, at the seventh and at the eighth; the block's number is all ones.
    for first in [0b0000_0000, 0b1000_0000, 0b1000_0010, 0b1000_0011] {
        state.change(&[first; 32], Some(&account), &[]).unwrap();
    }
    state.commit().unwrap();
    let touched = |first: u8| {
        let mut reader = state.reader().unwrap();
        assert_eq!(reader.touched(), Touched { nodes: Some(0), pages: Some(0) });
        reader.account(&[first; 32]).unwrap();
        reader.touched()
    };
    assert_eq!(touched(0b0000_0000), Touched { nodes: Some(2), pages: Some(1) });
    assert_eq!(touched(0b1000_0000), Touched { nodes: Some(8), pages: Some(2) });
    assert_eq!(touched(0b1000_0011), Touched { nodes: Some(9), pages: Some(2) });
    assert_eq!(touched(0b1000_0100), Touched { nodes: Some(6), pages: Some(1) }, "a terminator is no node");
    assert_eq!(touched(0b0000_0001), Touched { nodes: Some(2), pages: Some(1) }, "another's leaf proves an absence");
}

#[test]
fn a_full_hash_table_says_so() {
    let folder = Folder::new("full");
    let mut small = options(&folder.0, true);
    small.settings = Settings::new(vec![("hashtable_buckets".into(), "1024".into())]);
    let state = open(&small);
    let account = Account { nonce: 1, balance: [0; 32], code: EMPTY_CODE };
    let mut n = 0;
    let why = loop {
        for _ in 0..20_000 {
            n += 1;
            state.change(&hash("account", n), Some(&account), &[]).unwrap();
        }
        match state.commit() {
            Ok(_) => assert!(n < 200_000, "1,024 buckets hold more than 4,096 pages"),
            Err(why) => break why.to_string(),
        }
    };
    assert!(why.ends_with("the hash table of 1024 buckets is full: make the state again with more, as in --set hashtable_buckets=4096"), "{why}");
    let Err(why) = state.reader().unwrap().account(&hash("account", 1)) else { panic!("found") };
    assert_eq!(why.to_string(), "an earlier commit failed: close the state and open it again");
    state.close().unwrap();
    let head = open(&options(&folder.0, false)).head();
    assert_eq!(head.block, n / 20_000 - 1, "the blocks before are there");
}

#[test]
fn lookups_of_many_threads_go_on_beside_commits() {
    let folder = Folder::new("threads");
    let mut with_proofs = options(&folder.0, true);
    with_proofs.profile = "prove".into();
    with_proofs.memory_bytes = Some(8 << 20);
    let state = open(&with_proofs);
    // Every block gives all accounts its own number as their nonce.
    let write = |block: u64| {
        for n in 0..200 {
            let account = Account { nonce: block, balance: [0; 32], code: EMPTY_CODE };
            state.change(&hash("account", n), Some(&account), &[]).unwrap();
        }
        state.commit().unwrap();
    };
    write(1);
    let (committed, done, lookups) = (AtomicU64::new(1), AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for thread in 0..64u64 {
            let (mut reader, state) = (state.reader().unwrap(), &state);
            let (committed, done, lookups) = (&committed, &done, &lookups);
            scope.spawn(move || {
                let mut random = model::Random(thread);
                while !done.load(Ordering::Relaxed) {
                    let least = committed.load(Ordering::Acquire);
                    let found = reader.account(&hash("account", random.below(200))).unwrap().unwrap();
                    let most = state.head().block + 1;
                    assert!((least..=most).contains(&found.nonce), "{} is not in {least}..={most}", found.nonce);
                    lookups.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        for block in 2..=20 {
            write(block);
            committed.store(block, Ordering::Release);
        }
        done.store(true, Ordering::Relaxed);
    });
    assert!(lookups.into_inner() > 1000);
    state.close().unwrap();
}

#[test]
fn openings_that_cannot_be_are_told_apart() {
    let folder = Folder::new("openings");
    let code = |options: statelab_abi::state::Options| match Nomt::open(&options) {
        Ok(_) => panic!("opened"),
        Err(why) => why,
    };
    assert!(matches!(code(options(&folder.0, false)), Error::NotADatabase(_)));
    let state = open(&options(&folder.0, true));
    assert!(matches!(code(options(&folder.0, false)), Error::Locked(_)));
    assert!(matches!(code(options(&folder.0, true)), Error::Failed(_)));
    state.close().unwrap();
    for _ in 0..20 {
        open(&options(&folder.0, false)).close().unwrap();
    }
    let shared_memory = std::path::Path::new("/dev/shm");
    if shared_memory.is_dir() {
        let why = code(options(shared_memory, true)).to_string();
        assert_eq!(why, "/dev/shm is on tmpfs, where NOMT cannot read past the page cache: use a folder on a disk");
    }
}

#[test]
fn mistakes_come_with_legal_examples() {
    let mut wrong = options(std::path::Path::new(""), true);
    wrong.memory_bytes = Some(2 << 20);
    assert_eq!(
        Nomt::check(&wrong),
        [
            "a memory of 2097152 bytes is too small for 1024 buckets of the hash table, 0 bytes of branches and caches of whole MiB, as in --memory 3MiB"
        ]
    );
    wrong.memory_bytes = Some(3 << 20);
    assert_eq!(Nomt::check(&wrong), Vec::<String>::new());
    wrong.settings = Settings::new(vec![("io_workers".into(), "0".into()), ("fanout".into(), "2".into())]);
    assert_eq!(
        Nomt::check(&wrong),
        [
            "unknown option \"fanout\": there are commit_concurrency, io_workers, hashtable_buckets",
            "option io_workers=\"0\": want a whole number from 1 to 64, as in --set io_workers=1"
        ]
    );
}

/// A budget's parts are the budget, but for less than a MiB that the caches' units leave, and
/// for the pool's free pages.
#[test]
fn a_budget_is_spent_and_not_exceeded() {
    let folder = Folder::new("budget");
    open(&options(&folder.0, true)).close().unwrap();
    for (profile, read_only, mib, leaf_mib) in
        [("value", true, 16, 11), ("value", false, 16, 9), ("prove", false, 128, 44), ("value", true, 128, 102)]
    {
        let mut budgeted = options(&folder.0, false);
        (budgeted.profile, budgeted.read_only, budgeted.memory_bytes) = (profile.into(), read_only, Some(mib << 20));
        let state = open(&budgeted);
        let parts = state.memory();
        let sum: u64 = parts.iter().filter(|part| part.usage != "free pages of the pool").map(|part| part.bytes).sum();
        assert!((mib - 1) << 20 < sum && sum <= mib << 20, "{profile} {mib}: {sum} bytes in {parts:?}");
        assert_eq!((parts[0].usage, parts[0].bytes >> 20), ("leaf cache", leaf_mib), "{profile} {mib}");
        state.close().unwrap();
    }
}

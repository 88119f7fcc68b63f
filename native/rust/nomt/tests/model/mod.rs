//! A chain that follows from a seed, its state in a map, and that state's root by the
//! definition of NOMT's trie.
#![allow(dead_code, reason = "not every test needs all of it")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use statelab_abi::state::{Account, EMPTY_CODE, Hash, Layout, Options, Reader, Settings, Slot, State, Value, encode_account};
use statelab_nomt::{Nomt, account_path, number_path, slot_path};

/// A folder on the disk, whatever the temporary folder is on.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new(name: &str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub fn options(folder: &Path, create: bool) -> Options {
    Options {
        directory: folder.to_path_buf(),
        profile: "value".into(),
        create,
        read_only: false,
        memory_bytes: None,
        accounts_hint: Some(10_000),
        slots_hint: None,
        settings: Settings::default(),
    }
}

pub fn open(options: &Options) -> statelab_nomt::Opened {
    assert_eq!(Nomt::check(options), Vec::<String>::new());
    Nomt::open(options).unwrap()
}

/// Random numbers: the n-th of splitmix64.
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % n
    }
}

pub fn hash(of: &str, n: u64) -> Hash {
    *blake3::hash(format!("{of} {n}").as_bytes()).as_bytes()
}

/// What a block does to an account: None deletes it.
pub type Change = (Hash, Option<Account>, Vec<Slot>);

/// The state as it ought to be.
#[derive(Clone, Default, PartialEq, Debug)]
pub struct Model {
    pub block: u64,
    pub accounts: BTreeMap<Hash, Account>,
    pub slots: BTreeMap<(Hash, Hash), Value>,
}

impl Model {
    /// The changes of the next block: every fourth account is a contract, which stays one.
    pub fn next(&self, accounts: u64, changes: u64) -> Vec<Change> {
        let mut random = Random(self.block * 7919);
        let mut made = BTreeMap::new();
        for _ in 0..changes {
            let n = random.below(accounts);
            let contract = n.is_multiple_of(4);
            let name = hash("account", n);
            if !contract && random.below(5) == 0 {
                made.insert(name, (None, Vec::new()));
                continue;
            }
            let mut balance = [0; 32];
            balance[16..24].copy_from_slice(&random.below(u64::MAX).to_be_bytes());
            let code = if contract { hash("code", n) } else { EMPTY_CODE };
            let mut slots = BTreeMap::new();
            for _ in 0..if contract { random.below(6) } else { 0 } {
                let bytes = random.below(u64::MAX).to_be_bytes();
                let value = if random.below(3) == 0 { &[][..] } else { &bytes[..] };
                slots.insert(hash("slot", random.below(10)), Value::new(value).unwrap());
            }
            let slots = slots.into_iter().map(|(key, value)| Slot { key, value }).collect();
            made.insert(name, (Some(Account { nonce: random.below(300), balance, code }), slots));
        }
        made.into_iter().map(|(name, (account, slots))| (name, account, slots)).collect()
    }

    pub fn apply(&mut self, changes: &[Change]) {
        for (name, account, slots) in changes {
            match account {
                Some(account) => self.accounts.insert(*name, *account),
                None => self.accounts.remove(name),
            };
            for slot in slots {
                if slot.value.as_bytes().is_empty() {
                    self.slots.remove(&(*name, slot.key));
                } else {
                    self.slots.insert((*name, slot.key), slot.value);
                }
            }
        }
        self.block += 1;
    }

    /// The root of a binary trie of the BLAKE3 hashes of the values, by recursion over the sorted paths.
    pub fn root(&self) -> Hash {
        let accounts = self.accounts.iter().map(|(name, account)| (account_path(name), encode_account(account)));
        let slots = self.slots.iter().map(|((name, key), value)| (slot_path(name, key), value.as_bytes().to_vec()));
        let mut values: BTreeMap<[u8; 32], Vec<u8>> = accounts.chain(slots).collect();
        if self.block > 0 {
            values.insert(number_path(), self.block.to_be_bytes().to_vec());
        }
        let leaves: Vec<(Hash, Hash)> = values.iter().map(|(path, value)| (*path, *blake3::hash(value).as_bytes())).collect();
        subtrie(&leaves, 0)
    }

    /// Looks up everything that there is, and some that there is not.
    pub fn hold(&self, reader: &mut impl Reader, accounts: u64) {
        for n in 0..accounts + 5 {
            let name = hash("account", n);
            assert_eq!(reader.account(&name).unwrap().as_ref(), self.accounts.get(&name), "account {n}");
            for m in 0..11 {
                let key = hash("slot", m);
                assert_eq!(reader.slot(&name, &key).unwrap().as_ref(), self.slots.get(&(name, key)), "slot {m} of account {n}");
            }
        }
    }
}

fn subtrie(leaves: &[(Hash, Hash)], depth: usize) -> Hash {
    let (left, right) = match leaves {
        [] => return [0; 32],
        [(path, value)] => {
            let mut leaf = join(path, value);
            leaf[0] |= 0x80;
            return leaf;
        }
        _ => leaves.split_at(leaves.partition_point(|(path, _)| path[depth / 8] >> (7 - depth % 8) & 1 == 0)),
    };
    let mut internal = join(&subtrie(left, depth + 1), &subtrie(right, depth + 1));
    internal[0] &= 0x7f;
    internal
}

fn join(left: &Hash, right: &Hash) -> Hash {
    *blake3::Hasher::new().update(left).update(right).finalize().as_bytes()
}

/// Commits changes and returns the root.
pub fn commit(state: &impl State, changes: &[Change]) -> Hash {
    for (name, account, slots) in changes {
        state.change(name, account.as_ref(), slots).unwrap();
    }
    state.commit().unwrap()
}

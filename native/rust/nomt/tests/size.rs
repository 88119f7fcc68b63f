//! What is said of sizes, held against NOMT's own count and the kernel's.

mod model;

use std::fs;

use model::{Folder, hash, open, options};
use statelab_abi::state::{Account, EMPTY_CODE, Reader, State};
use statelab_nomt::{hash_table_buckets, stored_pages};

const VALUES: u64 = 75_000;

#[test]
fn pages_and_memory_are_as_said() {
    let folder = Folder::new("size");
    build(&folder);
    pages_are_as_expected(&folder);
    lookups_keep_to_the_budget(&folder);
}

/// Accounts with balances of 32 bytes: about 7 MB of leaves.
fn build(folder: &Folder) {
    let mut hinted = options(&folder.0, true);
    hinted.accounts_hint = Some(VALUES);
    let state = open(&hinted);
    for n in 0..VALUES {
        let account = Account { nonce: n, balance: hash("balance", n), code: EMPTY_CODE };
        state.change(&hash("account", n), Some(&account), &[]).unwrap();
        if (n + 1) % 15_000 == 0 {
            state.commit().unwrap();
        }
    }
    state.close().unwrap();
}

fn pages_are_as_expected(folder: &Folder) {
    let mut options = nomt::Options::new();
    options.path(folder.0.join("nomt"));
    let table = nomt::Nomt::<nomt::hasher::Blake3Hasher>::open(options).unwrap().hash_table_utilization();
    assert_eq!(table.capacity as u64, hash_table_buckets(VALUES));
    let expected = stored_pages(VALUES as f64);
    assert!((table.occupied as f64 / expected - 1.0).abs() < 0.02, "{} pages, not {expected}", table.occupied);
}

/// A scan of more leaves than the cache may hold finds none of them again; one of fewer finds
/// all. What the process takes in all is what the state says.
fn lookups_keep_to_the_budget(folder: &Folder) {
    let mut names: Vec<_> = (0..VALUES).map(|n| hash("account", n)).collect();
    names.sort_unstable();
    for profile in ["value", "prove"] {
        let before = anonymous_bytes();
        let mut budgeted = options(&folder.0, false);
        (budgeted.profile, budgeted.read_only, budgeted.memory_bytes) = (profile.into(), true, Some(BUDGET));
        let state = open(&budgeted);
        let mut reader = state.reader().unwrap();
        let read_bytes = || state.stats().iter().find(|stat| stat.name == "read_bytes").unwrap().value;
        let mut scan = |share: usize| {
            let before = read_bytes();
            for name in &names[..names.len() / share] {
                assert!(reader.account(name).unwrap().is_some());
            }
            read_bytes() - before
        };
        let all = scan(1);
        assert!(all > 2 * BUDGET, "{profile}: all leaves are {all} bytes");
        let again = scan(1);
        assert!(again > all * 9 / 10, "{profile}: {again} of {all} bytes are read again: the cache outgrows its limit");
        scan(10);
        let few = scan(10);
        assert!(few < all / 100, "{profile}: {few} bytes are read again of a tenth of {all}: the budget is not used");
        let (taken, said) = (anonymous_bytes() - before, state.memory().iter().map(|part| part.bytes).sum::<u64>());
        assert!(taken < said + THREADS_OWN, "{profile}: {taken} bytes taken, {said} said");
        drop(reader);
        state.close().unwrap();
    }
}

const BUDGET: u64 = 3 << 20;
const THREADS_OWN: u64 = 8 << 20;

fn anonymous_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("RssAnon:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

//! What is said of sizes, held against NOMT's own count and the kernel's.

mod model;

use std::fs;

use model::{Folder, hash, open, options};
use statelab_nomt::{hash_table_buckets, stored_pages};
use statelab_state::{Account, EMPTY_CODE, Reader, State};

const VALUES: u64 = 300_000;

#[test]
fn pages_and_memory_are_as_said() {
    let folder = Folder::new("size");
    build(&folder);
    pages_are_as_expected(&folder);
    lookups_keep_to_the_budget(&folder);
}

/// Accounts with balances of 32 bytes: about 30 MB of leaves.
fn build(folder: &Folder) {
    let mut hinted = options(&folder.0, true);
    hinted.accounts_hint = Some(VALUES);
    let state = open(&hinted);
    for n in 0..VALUES {
        let account = Account { nonce: n, balance: hash("balance", n), code: EMPTY_CODE };
        state.change(&hash("account", n), Some(&account), &[]).unwrap();
        if (n + 1) % 20_000 == 0 {
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

/// Every leaf is read, several times the budget; what the process takes more than before is
/// no more than the budget and its threads' own.
fn lookups_keep_to_the_budget(folder: &Folder) {
    const BUDGET: u64 = 12 << 20;
    const THREADS_OWN: u64 = 4 << 20;
    assert!(fs::metadata(folder.0.join("nomt/ln")).unwrap().len() > 2 * BUDGET);
    for profile in ["value", "prove"] {
        let before = anonymous_bytes();
        let mut budgeted = options(&folder.0, false);
        (budgeted.profile, budgeted.read_only, budgeted.memory_bytes) = (profile.into(), true, Some(BUDGET));
        let state = open(&budgeted);
        let mut reader = state.reader().unwrap();
        for n in (0..VALUES).step_by(3) {
            assert_eq!(reader.account(&hash("account", n)).unwrap().unwrap().nonce, n);
        }
        let taken = anonymous_bytes().saturating_sub(before);
        drop(reader);
        state.close().unwrap();
        assert!(taken <= BUDGET + THREADS_OWN, "{profile}: {taken} bytes taken for a budget of {BUDGET}");
        assert!(taken >= BUDGET / 2, "{profile}: {taken} bytes: the budget is not used");
    }
}

fn anonymous_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("RssAnon:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

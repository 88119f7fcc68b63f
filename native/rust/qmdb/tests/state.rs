//! States held against a map, by the trait that the harness drives through the table.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use statelab_abi::state::{Account, EMPTY_CODE, Error, Hash, Head, Layout as _, Options, Reader as _, Settings, Slot, State as _, Value};
use statelab_qmdb::{OPERATION_BYTES, Opened, Qmdb};

/// A folder that is gone when the test is.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Small files, so that some are pruned, and a cache of 245 pages.
fn options(folder: &Path, profile: &str, create: bool) -> Options {
    let settings = if create { vec![("operations_per_file".to_string(), "256".to_string())] } else { vec![] };
    Options {
        directory: folder.into(),
        profile: profile.into(),
        create,
        read_only: false,
        memory_bytes: Some(3 << 20),
        accounts_hint: None,
        slots_hint: None,
        settings: Settings::new(settings),
    }
}

fn create(folder: &Folder) -> Opened {
    Qmdb::open(&options(&folder.0, "value", true)).unwrap()
}

fn reopen(folder: &Folder) -> Opened {
    Qmdb::open(&options(&folder.0, "value", false)).unwrap()
}

/// What a failed open says.
fn refusal(options: &Options) -> Error {
    Qmdb::open(options).err().expect("the open must fail")
}

/// Numbers that follow from a seed (splitmix64).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
}

/// A uniform hash of a number.
fn hash(of: u64) -> Hash {
    let mut numbers = Numbers(of);
    let mut hash = [0; 32];
    hash.chunks_mut(8).for_each(|part| part.copy_from_slice(&numbers.next().to_le_bytes()));
    hash
}

fn account(nonce: u64, has_code: bool) -> Account {
    let mut balance = [0; 32];
    balance[24..].copy_from_slice(&(nonce * 1000).to_be_bytes());
    Account { nonce, balance, code: if has_code { hash(nonce) } else { EMPTY_CODE } }
}

type Changes = Vec<(Hash, Option<Account>, Vec<Slot>)>;

/// What a state ought to hold.
#[derive(Clone, Default)]
struct Model {
    accounts: BTreeMap<Hash, Account>,
    slots: BTreeMap<(Hash, Hash), Value>,
}

const NAMES: u64 = 300;
const SLOTS: u64 = 5;

impl Model {
    /// A block of changes that follows from its number and what there is.
    fn block(&mut self, number: u64) -> Changes {
        let mut numbers = Numbers(number);
        let mut changes = BTreeMap::new();
        for _ in 0..numbers.below(60) {
            let i = numbers.below(NAMES);
            let (name, has_code) = (hash(i), i.is_multiple_of(3));
            if changes.contains_key(&name) {
                continue;
            }
            if !has_code && numbers.below(4) == 0 {
                self.accounts.remove(&name);
                changes.insert(name, (None, vec![]));
                continue;
            }
            let new = account(numbers.below(1 << 30), has_code);
            self.accounts.insert(name, new);
            let mut slots = vec![];
            for j in 0..if has_code { SLOTS } else { 0 } {
                let key = hash(1_000_000 + j);
                let bytes = numbers.next().to_be_bytes();
                let value = if numbers.below(3) == 0 { Value::new(&[]) } else { Value::new(&bytes[..1 + numbers.below(8) as usize]) }.unwrap();
                match value.as_bytes() {
                    [] => self.slots.remove(&(name, key)),
                    _ => self.slots.insert((name, key), value),
                };
                slots.push(Slot { key, value });
            }
            changes.insert(name, (Some(new), slots));
        }
        changes.into_iter().map(|(name, (account, slots))| (name, account, slots)).collect()
    }

    /// Every account and slot that there could be.
    fn check(&self, state: &Opened) {
        let mut reader = state.reader().unwrap();
        for i in 0..NAMES {
            let name = hash(i);
            assert_eq!(reader.account(&name).unwrap(), self.accounts.get(&name).copied(), "account {i}");
            for j in 0..SLOTS {
                let key = hash(1_000_000 + j);
                assert_eq!(reader.slot(&name, &key).unwrap(), self.slots.get(&(name, key)).copied(), "slot {j} of account {i}");
            }
        }
    }
}

fn commit(state: &Opened, changes: &Changes) -> Hash {
    for (name, account, slots) in changes {
        state.change(name, account.as_ref(), slots).unwrap();
    }
    state.commit().unwrap()
}

#[test]
fn random_blocks_are_what_a_map_holds() {
    let folder = Folder::new("random");
    let mut model = Model::default();
    let mut state = create(&folder);
    let empty = state.head();
    assert_eq!(empty.block, 0);
    for number in 1..=120 {
        let root = commit(&state, &model.block(number));
        assert_eq!(state.head(), Head { block: number, root });
        if number % 15 == 0 {
            model.check(&state);
            if number % 2 == 0 {
                state.settle(Duration::ZERO).unwrap();
            }
            state.close().unwrap();
            state = Qmdb::open(&options(&folder.0, if number % 2 == 0 { "value" } else { "prove" }, false)).unwrap();
            assert_eq!(state.head(), Head { block: number, root }, "after opening again");
            model.check(&state);
        }
    }
    state.close().unwrap();
    assert!(!folder.0.join("log-blobs/0000000000000000").exists(), "the log's first file is pruned");
}

#[test]
fn the_same_blocks_give_the_same_root() {
    let (one, other) = (Folder::new("one"), Folder::new("other"));
    let first = create(&one);
    let mut elsewhere = options(&other.0, "prove", true);
    elsewhere.settings = Settings::new(vec![("hash_threads".into(), "3".into()), ("operations_per_file".into(), "100000".into())]);
    let second = Qmdb::open(&elsewhere).unwrap();
    assert_eq!(first.head(), second.head());
    let (mut model, mut roots) = (Model::default(), HashMap::new());
    for number in 1..=40 {
        let mut changes = model.block(number);
        let root = commit(&first, &changes);
        changes.reverse();
        assert_eq!(commit(&second, &changes), root, "whatever the order within a block, the threads and the files");
        assert_eq!(roots.insert(root, number), None, "every block has its own root");
    }
    first.close().unwrap();
    second.close().unwrap();
}

/// The harness gives every open the user's settings, also those that only the making takes.
#[test]
fn a_state_keeps_the_size_of_its_files() {
    let folder = Folder::new("files");
    let state = create(&folder);
    let root = commit(&state, &Model::default().block(1));
    state.close().unwrap();
    let mut again = options(&folder.0, "value", false);
    again.settings = Settings::new(vec![("operations_per_file".into(), "256".into())]);
    let state = Qmdb::open(&again).unwrap();
    assert_eq!(state.head(), Head { block: 1, root });
    assert!(state.effective().contains(&("operations_per_file", "256".to_string())));
    state.close().unwrap();
    again.settings = Settings::new(vec![("operations_per_file".into(), "1000".into())]);
    assert_eq!(
        refusal(&again).to_string(),
        "option operations_per_file=1000: it was made with operations_per_file=256, which cannot change: leave the option out"
    );
}

/// Not a test by itself: the process that is killed.
#[test]
#[ignore = "run by a_killed_process_keeps_what_it_committed"]
fn commits_until_killed() {
    let Some(folder) = std::env::var_os("STATELAB_QMDB_FOLDER") else { return };
    let state = Qmdb::open(&options(Path::new(&folder), "value", false)).unwrap();
    let mut model = Model::default();
    for number in 1.. {
        let changes = model.block(number);
        if number > state.head().block {
            commit(&state, &changes);
            let mut out = std::io::stdout().lock();
            writeln!(out, "committed {number}").unwrap();
            out.flush().unwrap();
        }
    }
}

#[test]
fn a_killed_process_keeps_what_it_committed() {
    let (folder, oracle) = (Folder::new("killed"), Folder::new("oracle"));
    create(&folder).close().unwrap();
    let whole = create(&oracle);
    let (mut model, mut built) = (Model::default(), 0);
    for round in 1..=6 {
        let arguments = ["--exact", "commits_until_killed", "--ignored", "--nocapture"];
        let mut child = Command::new(std::env::current_exe().unwrap());
        let child = child.args(arguments).env("STATELAB_QMDB_FOLDER", &folder.0).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = child.spawn().unwrap();
        let mut told = built;
        for line in BufReader::new(child.stdout.take().unwrap()).lines() {
            let line = line.unwrap();
            if let Some((_, number)) = line.split_once("committed ") {
                told = number.trim().parse().unwrap();
            }
            if told >= built + round * 4 {
                break;
            }
        }
        thread::sleep(Duration::from_millis(round * 7));
        child.kill().unwrap();
        child.wait().unwrap();

        let state = reopen(&folder);
        let head = state.head();
        assert!(head.block >= told && told > built, "{} blocks of {told} are there", head.block);
        while built < head.block {
            built += 1;
            commit(&whole, &model.block(built));
        }
        assert_eq!(head, whole.head(), "as if nobody had been killed");
        model.check(&state);
        state.close().unwrap();
    }
    whole.close().unwrap();
}

#[test]
fn an_account_with_code_cannot_be_deleted() {
    let folder = Folder::new("delete");
    let state = create(&folder);
    commit(&state, &vec![(hash(1), Some(account(1, false)), vec![]), (hash(2), Some(account(2, true)), vec![])]);
    state.change(&hash(3), None, &[]).unwrap();
    state.change(&hash(1), None, &[]).unwrap();
    let why = state.change(&hash(2), None, &[]).unwrap_err().to_string();
    assert!(why.ends_with("it has code, so it may have slots, and QMDB keeps no list of them"), "{why}");
    state.commit().unwrap();
    let mut reader = state.reader().unwrap();
    assert_eq!(reader.account(&hash(1)).unwrap(), None);
    assert_eq!(reader.account(&hash(2)).unwrap(), Some(account(2, true)));
    drop(reader);
    state.close().unwrap();
}

#[test]
fn lookups_beside_commits_see_whole_blocks() {
    let folder = Folder::new("beside");
    let state = create(&folder);
    let block = |number| (0..100).map(|i| (hash(i), Some(account(number, false)), vec![])).collect();
    commit(&state, &block(1));
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        for first in 0..64 {
            let (state, done) = (&state, &done);
            scope.spawn(move || {
                let mut reader = state.reader().unwrap();
                let mut seen = 1;
                for i in (first..).step_by(7) {
                    let nonce = reader.account(&hash(i % 100)).unwrap().unwrap().nonce;
                    assert!(nonce >= seen, "account {} is of block {nonce} after one of block {seen}", i % 100);
                    seen = nonce;
                    if done.load(Relaxed) {
                        return;
                    }
                }
            });
        }
        for number in 2..=40 {
            commit(&state, &block(number));
        }
        done.store(true, Relaxed);
    });
    state.close().unwrap();
}

#[test]
fn a_folder_without_a_state_is_told_so() {
    let folder = Folder::new("foreign");
    let mut there = options(&folder.0, "value", false);
    assert!(matches!(refusal(&there), Error::NotADatabase(_)), "empty");
    there.directory = folder.0.join("nowhere");
    assert!(matches!(refusal(&there), Error::NotADatabase(_)), "missing");
    there.directory = folder.0.clone();
    for bytes in [&b"something else"[..], b"", b"\xff\xfe", b"qmdb 1, operations per file: 0"] {
        fs::write(folder.0.join("statelab-qmdb"), bytes).unwrap();
        assert!(matches!(refusal(&there), Error::NotADatabase(_)), "{bytes:?}");
    }
    assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 1, "nothing was made there");
    assert!(refusal(&options(&folder.0, "value", true)).to_string().contains("File exists"));
}

#[test]
fn a_state_is_held_by_one() {
    let folder = Folder::new("held");
    let state = create(&folder);
    assert!(matches!(refusal(&options(&folder.0, "value", false)), Error::Locked(_)));
    state.close().unwrap();
    reopen(&folder).close().unwrap();
}

#[test]
fn a_damaged_log_is_not_taken_for_a_shorter_one() {
    let folder = Folder::new("damaged");
    let state = create(&folder);
    let mut model = Model::default();
    for number in 1..=10 {
        commit(&state, &model.block(number));
    }
    state.close().unwrap();
    let log = folder.0.join("log-blobs");
    let files = fs::read_dir(&log).unwrap().map(|file| file.unwrap().path());
    let newest = files.max().unwrap();
    let whole = fs::read(&newest).unwrap();
    assert!(whole.len() as u64 > 4096 + OPERATION_BYTES);

    fs::write(&newest, &whole[..4096]).unwrap();
    let why = refusal(&options(&folder.0, "value", false));
    assert!(matches!(why, Error::Failed(_)), "{why}");
    fs::remove_dir_all(&log).unwrap();
    let why = refusal(&options(&folder.0, "value", false));
    assert!(!why.to_string().is_empty(), "{why}");
}

#[test]
fn after_a_failed_commit_all_is_refused() {
    let folder = Folder::new("broken");
    let state = create(&folder);
    let many = (0..50).map(|i| (hash(i), Some(account(i, false)), vec![])).collect();
    let root = commit(&state, &many);
    let mut reader = state.reader().unwrap();
    // The log's next file cannot be made where its folder is a file.
    fs::rename(folder.0.join("log-blobs"), folder.0.join("moved")).unwrap();
    fs::write(folder.0.join("log-blobs"), b"").unwrap();
    for i in 0..600 {
        state.change(&hash(i), Some(&account(i, false)), &[]).unwrap();
    }
    let why = state.commit().unwrap_err().to_string();
    assert!(why.starts_with("commit block 2: "), "{why}");
    let why = "an earlier commit failed: close the state and open it again";
    assert_eq!(reader.account(&hash(1)).unwrap_err().to_string(), why);
    assert_eq!(state.settle(Duration::ZERO).unwrap_err().to_string(), why);
    drop(reader);
    state.close().unwrap();

    fs::remove_file(folder.0.join("log-blobs")).unwrap();
    fs::rename(folder.0.join("moved"), folder.0.join("log-blobs")).unwrap();
    let state = reopen(&folder);
    assert_eq!(state.head(), Head { block: 1, root });
    state.close().unwrap();
}

/// Read calls of this process, by the kernel's count.
fn kernel_reads() -> u64 {
    let text = fs::read_to_string("/proc/self/io").unwrap();
    text.lines().find_map(|line| line.strip_prefix("syscr: ")).unwrap().parse().unwrap()
}

fn stat(state: &Opened, name: &str) -> u64 {
    state.stats().iter().find(|stat| stat.name == name).unwrap().value
}

/// In a process of its own: other tests read as well.
#[test]
#[ignore = "run by reads_and_memory_are_what_the_kernel_and_the_heap_say"]
fn reads_and_memory() {
    let folder = Folder::new("reads");
    let accounts = 50_000;
    let mut new = options(&folder.0, "value", true);
    new.settings = Settings::default();
    let state = Qmdb::open(&new).unwrap();
    for block in 0..5 {
        commit(&state, &(0..10_000).map(|i| (hash(block * 10_000 + i), Some(account(i, false)), vec![])).collect());
    }
    state.close().unwrap();

    let state = reopen(&folder);
    let mut reader = state.reader().unwrap();
    let (ours, bytes, kernels) = (stat(&state, "reads"), stat(&state, "read_bytes"), kernel_reads());
    let lookups = 5000;
    for i in 0..lookups {
        assert!(reader.account(&hash(i * 7919 % accounts)).unwrap().is_some());
    }
    let kernels = kernel_reads() - kernels;
    let (ours, bytes) = (stat(&state, "reads") - ours, stat(&state, "read_bytes") - bytes);
    // The looks at /proc/self/io are reads of their own, and so are those of the runtime's
    // threads, of which a busy machine sees one or two more.
    assert!(kernels.abs_diff(ours) <= 16, "the kernel counts {kernels} reads, QMDB {ours}");
    assert_eq!(bytes, ours * 4096);
    // 245 pages in memory of 1,323, and one operation in 38 crosses a page's end.
    let per_lookup = ours as f64 / lookups as f64;
    assert!((0.75..0.95).contains(&per_lookup), "{per_lookup} reads a lookup");

    let before = stat(&state, "reads");
    for i in 0..1000 {
        assert_eq!(reader.account(&hash(1_000_000_000 + i)).unwrap(), None);
    }
    assert_eq!(stat(&state, "reads"), before, "absent keys are answered from memory");

    let memory = state.memory();
    let index = memory.iter().find(|part| part.usage.starts_with("index")).unwrap().bytes;
    // A table of 65,536 entries of 17 bytes, buffers of 2 MiB, the bitmap and the runtime.
    assert!((65_536 * 17..65_536 * 17 + (6 << 20)).contains(&index), "{index}");
    drop(reader);
    state.close().unwrap();
}

#[test]
fn reads_and_memory_are_what_the_kernel_and_the_heap_say() {
    let mut child = Command::new(std::env::current_exe().unwrap());
    let output = child.args(["--exact", "reads_and_memory", "--ignored", "--nocapture"]).output().unwrap();
    assert!(output.status.success(), "{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
}

//! A process that is killed while it commits leaves the newest block whose commit returned, or
//! the one after it, whole.

mod model;

use std::env;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use model::{Folder, Model, Random, commit, open, options};
use statelab_abi::state::{Head, State};

const WRITE_TO: &str = "STATELAB_NOMT_TEST_WRITE_TO";
const ACCOUNTS: u64 = 2000;

#[test]
fn a_kill_loses_no_committed_block() {
    if let Ok(folder) = env::var(WRITE_TO) {
        write_for_ever(Path::new(&folder));
    }
    let folder = Folder::new("kill");
    open(&options(&folder.0, true)).close().unwrap();
    let mut model = Model::default();
    let mut random = Random(42);
    for round in 0..6 {
        let returned = write_until_killed(&folder.0, Duration::from_micros(random.below(50_000)));
        let state = open(&options(&folder.0, false));
        let Head { block, root } = state.head();
        assert!(block >= returned && block <= returned + 1, "round {round}: block {returned} was committed, {block} is there");
        while model.block < block {
            let changes = changes_after(&model);
            model.apply(&changes);
        }
        assert_eq!(root, model.root(), "round {round}, block {block}");
        model.hold(&mut state.reader().unwrap(), ACCOUNTS);
        // It goes on from there.
        let changes = changes_after(&model);
        model.apply(&changes);
        assert_eq!(commit(&state, &changes), model.root());
        state.close().unwrap();
    }
    assert!(model.block > 12);
}

fn changes_after(model: &Model) -> Vec<model::Change> {
    model.next(ACCOUNTS, 400)
}

/// Runs this test as a writer, kills it a while after its third block and returns the last
/// block whose commit it told of.
fn write_until_killed(folder: &Path, then: Duration) -> u64 {
    let mut writer = Command::new(env::current_exe().unwrap())
        .args(["--exact", "a_kill_loses_no_committed_block", "--nocapture"])
        .env(WRITE_TO, folder)
        .stderr(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let mut told = BufReader::new(writer.stderr.take().unwrap()).lines();
    let mut returned = 0;
    for _ in 0..3 {
        returned = told.next().unwrap().unwrap().parse().unwrap();
    }
    std::thread::sleep(then);
    writer.kill().unwrap();
    writer.wait().unwrap();
    told.map_while(Result::ok).filter_map(|line| line.parse().ok()).last().unwrap_or(returned)
}

fn write_for_ever(folder: &Path) -> ! {
    let state = open(&options(folder, false));
    let mut model = Model::default();
    while model.block < state.head().block {
        let changes = changes_after(&model);
        model.apply(&changes);
    }
    loop {
        let changes = changes_after(&model);
        commit(&state, &changes);
        model.apply(&changes);
        eprintln!("{}", model.block);
    }
}

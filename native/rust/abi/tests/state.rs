//! A layout that keeps its state in a map, driven through the table as the harness does.
#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::ffi::{CStr, CString};
use std::ptr::{null, null_mut};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use statelab_abi::state::{
    Account, Basis, Description, EMPTY_CODE, Error, Hash, Head, Layout, Memory, Options, Profile, RawOptions, RawProfile, RawTouched, Reader, Result,
    Root, Slot, Stat, State, Table, Touched, Unsettled, Value, pinned,
};
use statelab_abi::{FAILED, LOCKED, MISSING, NOT_A_DATABASE, OK, RawMemory, RawSetting, RawSettling, WORKING};

use common::{Assertions, no_error, same, text};

mod common;

struct Map;

#[derive(Default)]
struct Contents {
    accounts: BTreeMap<Hash, Account>,
    slots: BTreeMap<(Hash, Hash), Value>,
}

struct Open {
    contents: Arc<Mutex<Contents>>,
    block: Mutex<u64>,
    memory_bytes: u64,
}

struct Lookup {
    contents: Arc<Mutex<Contents>>,
    nodes: u64,
}

impl Layout for Map {
    type State = Open;

    fn describe() -> Description {
        Description {
            name: "map",
            version: "1",
            licence: "Apache-2.0",
            root: Root::None,
            durability: "none",
            history: "none",
            profiles: &[Profile { name: "plain", about: "a map" }, Profile { name: "other", about: "the same" }],
        }
    }

    fn check(options: &Options) -> Vec<String> {
        let mut mistakes = options.settings.unknown(&["fanout"]);
        mistakes.extend(options.settings.number("fanout", 2..=16).err());
        mistakes
    }

    fn open(options: &Options) -> Result<Open> {
        match options.directory.to_str() {
            Some("held") => Err(Error::Locked("open the map: it is held".into())),
            Some("empty") => Err(Error::NotADatabase("open the map: nothing there".into())),
            Some("long") => Err(Error::Failed("ä".repeat(1000))),
            _ => Ok(Open { contents: Arc::default(), block: Mutex::new(0), memory_bytes: options.memory_bytes.unwrap_or(7) }),
        }
    }
}

impl State for Open {
    type Reader = Lookup;

    fn head(&self) -> Head {
        Head { block: *self.block.lock().unwrap(), root: [9; 32] }
    }

    fn change(&self, name: &Hash, account: Option<&Account>, slots: &[Slot]) -> Result<()> {
        let mut contents = self.contents.lock().unwrap();
        contents.accounts.insert(*name, *account.expect("this map deletes nothing"));
        contents.slots.extend(slots.iter().map(|slot| ((*name, slot.key), slot.value)));
        Ok(())
    }

    fn commit(&self) -> Result<Hash> {
        *self.block.lock().unwrap() += 1;
        Ok([8; 32])
    }

    fn reader(&self) -> Result<Lookup> {
        Ok(Lookup { contents: self.contents.clone(), nodes: 0 })
    }

    fn settle(&self, at_most: Duration) -> Result<Option<Unsettled>> {
        Ok((at_most < Duration::from_millis(5)).then_some(Unsettled { pending_bytes: 3, jobs: 1 }))
    }

    fn stats(&self) -> Vec<Stat> {
        vec![]
    }

    fn memory(&self) -> Vec<Memory> {
        vec![Memory { usage: "map", basis: Basis::Limit, bytes: self.memory_bytes }, Memory { usage: "rest", basis: Basis::Estimate, bytes: 1 }]
    }

    fn effective(&self) -> Vec<(&'static str, String)> {
        vec![("fanout", "16".to_string())]
    }

    fn close(self) -> Result<()> {
        Ok(())
    }
}

impl Reader for Lookup {
    fn account(&mut self, name: &Hash) -> Result<Option<Account>> {
        self.nodes += 1;
        Ok(self.contents.lock().unwrap().accounts.get(name).copied())
    }

    fn slot(&mut self, name: &Hash, key: &Hash) -> Result<Option<Value>> {
        Ok(self.contents.lock().unwrap().slots.get(&(*name, *key)).copied())
    }

    fn touched(&self) -> Touched {
        Touched { nodes: Some(self.nodes), pages: None }
    }
}

statelab_abi::export_layout!(Map);

fn table() -> &'static Table {
    unsafe { &*statelab_state_v1() }
}

fn options(directory: &CStr, profile: &CStr, settings: &[RawSetting]) -> RawOptions {
    RawOptions {
        directory: directory.as_ptr(),
        profile: profile.as_ptr(),
        create: 1,
        read_only: 0,
        memory_bytes: 4096,
        accounts_hint: 0,
        slots_hint: 0,
        settings_count: settings.len(),
        settings: if settings.is_empty() { null() } else { settings.as_ptr() },
    }
}

#[test]
fn the_table_describes_the_layout() {
    let t = table();
    assert_eq!((t.abi, t.struct_bytes as usize), (1, size_of::<Table>()));
    assert_eq!((text(t.name), text(t.root)), ("map", "none"));
    let profiles = unsafe { std::slice::from_raw_parts(t.profiles, 3) };
    assert_eq!((text(profiles[0].name), text(profiles[1].name)), ("plain", "other"));
    assert!(profiles[2].name.is_null());
}

#[test]
fn a_state_is_opened_changed_looked_up_and_closed() {
    let (t, mut error) = (table(), no_error());
    let mut state = null_mut();
    let name: Hash = [1; 32];
    let account = Account { nonce: 5, balance: [2; 32], code: EMPTY_CODE };
    let slots = [Slot { key: [3; 32], value: Value::new(&[4, 5]).unwrap() }];
    unsafe {
        assert_eq!((t.open)(&options(c"here", c"", &[]), &mut state, &mut error), OK);
        assert_eq!((t.change)(state, &name, &account, slots.as_ptr(), 1, &mut error), OK);
        let mut root = [0; 32];
        assert_eq!((t.commit)(state, &mut root, &mut error), OK);
        assert_eq!(root, [8; 32]);
        let mut block = 0;
        (t.head)(state, &mut block, &mut root);
        assert_eq!((block, root), (1, [9; 32]));

        let mut reader = null_mut();
        assert_eq!((t.reader_open)(state, &mut reader, &mut error), OK);
        let mut found = Account { nonce: 0, balance: [0; 32], code: [0; 32] };
        assert_eq!((t.account)(reader, &name, &mut found, &mut error), OK);
        assert_eq!(found, account);
        assert_eq!((t.account)(reader, &[7; 32], &mut found, &mut error), MISSING);
        let mut slot = Slot { key: [0; 32], value: Value::new(&[]).unwrap() };
        assert_eq!((t.slot)(reader, &name, &[3; 32], &mut slot, &mut error), OK);
        assert_eq!((slot.key, slot.value.as_bytes()), ([3; 32], &[4u8, 5][..]));
        assert_eq!((t.slot)(reader, &name, &[4; 32], &mut slot, &mut error), MISSING);
        let mut touched = RawTouched { nodes: 0, pages: 0 };
        (t.touched)(reader, &mut touched);
        assert_eq!((touched.nodes, touched.pages), (2, -1));
        (t.reader_close)(reader);
        assert_eq!((t.close)(state, &mut error), OK);
    }
    assert!(error.text.iter().all(|&byte| byte == 0x7f), "success leaves no sentence");
}

#[test]
fn lists_fill_what_there_is_room_for() {
    let (t, mut error) = (table(), no_error());
    let mut state = null_mut();
    unsafe {
        assert_eq!((t.open)(&options(c"here", c"other", &[]), &mut state, &mut error), OK);
        assert_eq!((t.stats)(state, null_mut(), 0), 0);
        let mut parts = [const { RawMemory { usage: null(), basis: null(), bytes: 0 } }; 3];
        assert_eq!((t.memory)(state, parts.as_mut_ptr(), 1), 2);
        assert_eq!((text(parts[0].usage), text(parts[0].basis), parts[0].bytes), ("map", "limit", 4096));
        assert!(parts[1].usage.is_null(), "beyond the capacity nothing is written");
        assert_eq!((t.memory)(state, parts.as_mut_ptr(), 3), 2);
        assert_eq!((text(parts[1].usage), text(parts[1].basis)), ("rest", "estimate"));
        let mut settings = [const { RawSetting { name: null(), value: null() } }; 1];
        assert_eq!((t.effective)(state, settings.as_mut_ptr(), 1), 1);
        let first = settings[0].value;
        assert_eq!((text(settings[0].name), text(first)), ("fanout", "16"));
        assert_eq!((t.effective)(state, settings.as_mut_ptr(), 1), 1);
        assert_eq!(settings[0].value, first, "a string that comes again is kept once");
        let mut left = RawSettling { pending_bytes: 0, jobs: 0 };
        assert_eq!((t.settle)(state, 1, &mut left, &mut error), WORKING);
        assert_eq!((left.pending_bytes, left.jobs), (3, 1));
        assert_eq!((t.settle)(state, 5, &mut left, &mut error), OK);
        assert_eq!((t.close)(state, &mut error), OK);
    }
}

#[test]
fn what_goes_wrong_becomes_a_sentence() {
    let (t, mut error) = (table(), no_error());
    let mut state = null_mut();
    unsafe {
        let settings = [RawSetting { name: c"speed".as_ptr(), value: c"1".as_ptr() }, RawSetting { name: c"fanout".as_ptr(), value: c"99".as_ptr() }];
        assert_eq!((t.check)(&options(c"", c"plain", &settings), &mut error), FAILED);
        assert_eq!(
            text(error.text.as_ptr()),
            "unknown option \"speed\": there are fanout\n\
             option fanout=\"99\": want a whole number from 2 to 16, as in --set fanout=2"
        );
        assert_eq!((t.open)(&options(c"here", c"slow", &[]), &mut state, &mut error), FAILED);
        assert_eq!(text(error.text.as_ptr()), "unknown profile \"slow\": there are plain, other");
        assert_eq!((t.open)(&options(c"held", c"plain", &[]), &mut state, &mut error), LOCKED);
        assert_eq!(text(error.text.as_ptr()), "open the map: it is held");
        assert_eq!((t.open)(&options(c"empty", c"plain", &[]), &mut state, &mut error), NOT_A_DATABASE);
        assert_eq!((t.open)(&options(c"long", c"plain", &[]), &mut state, &mut error), FAILED);
        assert_eq!(text(error.text.as_ptr()), "ä".repeat(511), "cut between characters");
        assert!(state.is_null());

        assert_eq!((t.open)(&options(c"here", c"plain", &[]), &mut state, &mut error), OK);
        let mut slot = Slot { key: [0; 32], value: Value::new(&[1]).unwrap() };
        (&raw mut slot).cast::<i32>().byte_add(64).write(33);
        let account = Account { nonce: 0, balance: [0; 32], code: EMPTY_CODE };
        assert_eq!((t.change)(state, &[1; 32], &account, &slot, 1, &mut error), FAILED);
        assert_eq!(text(error.text.as_ptr()), "change an account: a slot's value is not of 0 to 32 bytes");
        assert_eq!((t.change)(state, &[1; 32], null(), null(), 0, &mut error), FAILED);
        assert_eq!(text(error.text.as_ptr()), "the library panicked: this map deletes nothing");
        assert_eq!((t.close)(state, &mut error), OK);
    }
}

#[test]
fn the_structs_are_the_headers() {
    let mut c = Assertions::of("statelab_state.h");
    same!(c, "statelab_hash", Hash);
    same!(c, "statelab_account", Account, nonce, balance, code);
    same!(c, "statelab_slot", Slot, key, value);
    c.add("offsetof(statelab_slot, value_bytes) == 64");
    same!(c, "statelab_profile", RawProfile, name, about);
    same!(c, "statelab_touched", RawTouched, nodes, pages);
    same!(
        c,
        "statelab_state_options",
        RawOptions,
        directory,
        profile,
        create,
        read_only,
        memory_bytes,
        accounts_hint,
        slots_hint,
        settings_count,
        settings
    );
    same!(
        c,
        "statelab_layout",
        Table,
        abi,
        struct_bytes,
        name,
        version,
        licence,
        root,
        durability,
        history,
        profiles,
        check,
        open,
        close,
        head,
        change,
        commit,
        reader_open,
        reader_close,
        account,
        slot,
        touched,
        settle,
        stats,
        memory,
        effective
    );
    c.hold("STATELAB_STATE_ABI", statelab_abi::state::ABI);
}

#[test]
fn a_manifests_pin_is_found() {
    let manifest = "[dependencies]\nnomt-core = \"=9\"\nnomt = { version = \"=1.0.5\", default-features = false }\nredb = \"=4.5.0\"\n";
    assert_eq!((pinned(manifest, "nomt"), pinned(manifest, "redb")), ("1.0.5", "4.5.0"));
}

#[test]
fn a_value_is_of_at_most_32_bytes() {
    assert_eq!(Value::new(&[7; 32]).unwrap().as_bytes(), [7; 32]);
    assert!(Value::new(&[7; 33]).is_none());
    assert_eq!(CString::new(Value::new(b"ab").unwrap().as_bytes()).unwrap().as_c_str(), c"ab");
}

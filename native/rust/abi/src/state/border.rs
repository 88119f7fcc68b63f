//! The table's functions for any [`Layout`].
//!
//! A panic becomes an error where the header has a place for one. In the others (`head`,
//! `reader_close`, `touched`, `stats`, `memory`, `effective`) it ends the process, as
//! Rust does with all panics that reach C: no figure is better than a wrong one.
//!
//! # Safety
//! All of them take the header's word for the pointers they get: handles come from `open` or
//! `reader_open` of the same table and are not used after being closed; other pointers are
//! good, aligned and nobody else's for the length of the call; arrays have as many entries
//! as is said beside them. A reader's handle is used by one thread at a time; a state's by
//! several, so only `&` is ever taken of it.
#![allow(unsafe_code)]

use crate::border::{answer, array, effective_of, memory_of, settings_of, settled, signed, stats_of, text};
use crate::raw::{Handle, RawError, RawMemory, RawSetting, RawSettling, RawStat};
use crate::state::table::{ABI, RawOptions, RawProfile, RawTouched, Table};
use crate::state::{Account, Hash, Layout, Options, Reader, Root, Slot, State};
use crate::strings::{Strings, for_ever};
use crate::{Error, MISSING, OK, Result};

/// What a state's handle points at.
struct Opened<S> {
    state: S,
    strings: Strings,
}

/// The table for a layout. Its strings are never freed: make it once.
pub fn table_of<L: Layout>() -> Table {
    let about = L::describe();
    let profiles = about.profiles.iter().map(|p| RawProfile { name: for_ever(p.name), about: for_ever(p.about) });
    let end = RawProfile { name: std::ptr::null(), about: std::ptr::null() };
    let profiles: Vec<RawProfile> = profiles.chain([end]).collect();
    let root = match about.root {
        Root::EthereumMpt => "ethereum-mpt",
        Root::Own => "own",
        Root::None => "none",
    };
    Table {
        abi: ABI,
        struct_bytes: size_of::<Table>() as u32,
        name: for_ever(about.name),
        version: for_ever(about.version),
        licence: for_ever(about.licence),
        root: for_ever(root),
        durability: for_ever(about.durability),
        history: for_ever(about.history),
        profiles: profiles.leak().as_ptr(),
        check: check::<L>,
        open: open::<L>,
        close: close::<L>,
        head: head::<L>,
        change: change::<L>,
        commit: commit::<L>,
        reader_open: reader_open::<L>,
        reader_close: reader_close::<L>,
        account: account::<L>,
        slot: slot::<L>,
        touched: touched::<L>,
        settle: settle::<L>,
        stats: stats::<L>,
        memory: memory::<L>,
        effective: effective::<L>,
    }
}

unsafe extern "C" fn check<L: Layout>(options: *const RawOptions, error: *mut RawError) -> i32 {
    unsafe { answer(error, || checked::<L>(&*options).map(|_| OK)) }
}

unsafe extern "C" fn open<L: Layout>(options: *const RawOptions, opened: *mut Handle, error: *mut RawError) -> i32 {
    unsafe {
        answer(error, || {
            let state = L::open(&checked::<L>(&*options)?)?;
            opened.write(Box::into_raw(Box::new(Opened { state, strings: Strings::default() })).cast());
            Ok(OK)
        })
    }
}

unsafe extern "C" fn close<L: Layout>(state: Handle, error: *mut RawError) -> i32 {
    unsafe {
        answer(error, || {
            let opened = Box::from_raw(state.cast::<Opened<L::State>>());
            opened.state.close().map(|()| OK)
        })
    }
}

unsafe extern "C" fn head<L: Layout>(state: Handle, block: *mut u64, root: *mut Hash) {
    let head = unsafe { opened::<L>(state) }.state.head();
    unsafe {
        block.write(head.block);
        root.write(head.root);
    }
}

unsafe extern "C" fn change<L: Layout>(
    state: Handle,
    name: *const Hash,
    account: *const Account,
    slots: *const Slot,
    slots_count: usize,
    error: *mut RawError,
) -> i32 {
    unsafe {
        answer(error, || {
            let slots = array(slots, slots_count);
            if slots.iter().any(|slot| !slot.value.is_sound()) {
                return Err(Error::Failed("change an account: a slot's value is not of 0 to 32 bytes".into()));
            }
            opened::<L>(state).state.change(&*name, account.as_ref(), slots).map(|()| OK)
        })
    }
}

unsafe extern "C" fn commit<L: Layout>(state: Handle, root: *mut Hash, error: *mut RawError) -> i32 {
    unsafe {
        answer(error, || {
            root.write(opened::<L>(state).state.commit()?);
            Ok(OK)
        })
    }
}

type ReaderOf<L> = <<L as Layout>::State as State>::Reader;

unsafe extern "C" fn reader_open<L: Layout>(state: Handle, reader: *mut Handle, error: *mut RawError) -> i32 {
    unsafe {
        answer(error, || {
            reader.write(Box::into_raw(Box::new(opened::<L>(state).state.reader()?)).cast());
            Ok(OK)
        })
    }
}

unsafe extern "C" fn reader_close<L: Layout>(reader: Handle) {
    drop(unsafe { Box::from_raw(reader.cast::<ReaderOf<L>>()) });
}

unsafe extern "C" fn account<L: Layout>(reader: Handle, name: *const Hash, found: *mut Account, error: *mut RawError) -> i32 {
    unsafe {
        answer(error, || {
            let reader = &mut *reader.cast::<ReaderOf<L>>();
            Ok(match reader.account(&*name)? {
                Some(account) => {
                    found.write(account);
                    OK
                }
                None => MISSING,
            })
        })
    }
}

unsafe extern "C" fn slot<L: Layout>(reader: Handle, name: *const Hash, key: *const Hash, found: *mut Slot, error: *mut RawError) -> i32 {
    unsafe {
        answer(error, || {
            let reader = &mut *reader.cast::<ReaderOf<L>>();
            Ok(match reader.slot(&*name, &*key)? {
                Some(value) => {
                    found.write(Slot { key: *key, value });
                    OK
                }
                None => MISSING,
            })
        })
    }
}

unsafe extern "C" fn touched<L: Layout>(reader: Handle, touched: *mut RawTouched) {
    let so_far = unsafe { &*reader.cast::<ReaderOf<L>>() }.touched();
    let raw = |count: Option<u64>| count.map_or(-1, signed);
    unsafe { touched.write(RawTouched { nodes: raw(so_far.nodes), pages: raw(so_far.pages) }) };
}

unsafe extern "C" fn settle<L: Layout>(state: Handle, wait_ms: i64, left: *mut RawSettling, error: *mut RawError) -> i32 {
    unsafe { answer(error, || settled(wait_ms, left, |at_most| opened::<L>(state).state.settle(at_most))) }
}

unsafe extern "C" fn stats<L: Layout>(state: Handle, into: *mut RawStat, capacity: usize) -> usize {
    let opened = unsafe { opened::<L>(state) };
    unsafe { stats_of(&opened.strings, &opened.state.stats(), into, capacity) }
}

unsafe extern "C" fn memory<L: Layout>(state: Handle, into: *mut RawMemory, capacity: usize) -> usize {
    let opened = unsafe { opened::<L>(state) };
    unsafe { memory_of(&opened.strings, &opened.state.memory(), into, capacity) }
}

unsafe extern "C" fn effective<L: Layout>(state: Handle, into: *mut RawSetting, capacity: usize) -> usize {
    let opened = unsafe { opened::<L>(state) };
    unsafe { effective_of(&opened.strings, &opened.state.effective(), into, capacity) }
}

/// The options, if nothing is wrong with them.
unsafe fn checked<L: Layout>(raw: &RawOptions) -> Result<Options> {
    let profiles = L::describe().profiles;
    let asked = unsafe { text(raw.profile) };
    let profile = if asked.is_empty() { profiles[0].name.to_string() } else { asked };
    if !profiles.iter().any(|known| known.name == profile) {
        let known: Vec<&str> = profiles.iter().map(|known| known.name).collect();
        return Err(Error::Failed(format!("unknown profile \"{profile}\": there are {}", known.join(", "))));
    }
    let options = Options {
        directory: unsafe { text(raw.directory) }.into(),
        profile,
        create: raw.create != 0,
        read_only: raw.read_only != 0,
        memory_bytes: u64::try_from(raw.memory_bytes).ok().filter(|&bytes| bytes > 0),
        accounts_hint: Some(raw.accounts_hint).filter(|&count| count > 0),
        slots_hint: Some(raw.slots_hint).filter(|&count| count > 0),
        settings: unsafe { settings_of(raw.settings, raw.settings_count) },
    };
    let mistakes = L::check(&options);
    if mistakes.is_empty() { Ok(options) } else { Err(Error::Failed(mistakes.join("\n"))) }
}

/// # Safety
/// As the module says; the result must not outlive the handle.
unsafe fn opened<'a, L: Layout>(state: Handle) -> &'a Opened<L::State> {
    unsafe { &*state.cast() }
}

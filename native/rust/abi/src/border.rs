//! What the borders of engines and of layouts have in common.
//!
//! # Safety
//! All of it takes the headers' word for the pointers it gets: they are good, aligned and nobody
//! else's for the length of the call, and arrays have as many entries as is said beside them.
#![allow(unsafe_code)]

use std::any::Any;
use std::ffi::{CStr, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use crate::strings::Strings;
use crate::{
    Basis, ERROR_BYTES, Error, FAILED, LOCKED, Memory, NOT_A_DATABASE, OK, RawError, RawMemory, RawSetting, RawSettling, RawStat, Result, Settings,
    Stat, Unsettled, WORKING,
};

/// Runs `f` and turns what becomes of it into a code and, if it failed, a sentence.
pub(crate) unsafe fn answer(error: *mut RawError, f: impl FnOnce() -> Result<i32>) -> i32 {
    let (code, sentence) = match catch_unwind(AssertUnwindSafe(f)) {
        Ok(Ok(code)) => return code,
        Ok(Err(Error::Failed(why))) => (FAILED, why),
        Ok(Err(Error::Locked(why))) => (LOCKED, why),
        Ok(Err(Error::NotADatabase(why))) => (NOT_A_DATABASE, why),
        Err(panic) => (FAILED, format!("the library panicked: {}", words(panic.as_ref()))),
    };
    say(unsafe { &mut *error }, &sentence);
    code
}

/// What a panic said.
fn words(panic: &(dyn Any + Send)) -> &str {
    let literal = panic.downcast_ref::<&str>().copied();
    literal.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("see standard error")
}

/// Leaves a sentence, cut between characters where there is no more room.
fn say(error: &mut RawError, sentence: &str) {
    let mut count = sentence.len().min(ERROR_BYTES - 1);
    while !sentence.is_char_boundary(count) {
        count -= 1;
    }
    for (to, from) in error.text.iter_mut().zip(sentence.as_bytes()[..count].iter().chain([&0])) {
        *to = *from as c_char;
    }
}

/// The user's own options.
pub(crate) unsafe fn settings_of(at: *const RawSetting, count: usize) -> Settings {
    let settings = unsafe { array(at, count) };
    Settings::new(settings.iter().map(|s| unsafe { (text(s.name), text(s.value)) }).collect())
}

/// Settles for at most `wait_ms`, and leaves what is left.
pub(crate) unsafe fn settled(wait_ms: i64, left: *mut RawSettling, settle: impl FnOnce(Duration) -> Result<Option<Unsettled>>) -> Result<i32> {
    let at_most = Duration::from_millis(wait_ms.try_into().unwrap_or(0));
    Ok(match settle(at_most)? {
        Some(work) => {
            unsafe { left.write(RawSettling { pending_bytes: signed(work.pending_bytes), jobs: signed(work.jobs) }) };
            WORKING
        }
        None => OK,
    })
}

pub(crate) unsafe fn stats_of(strings: &Strings, stats: &[Stat], into: *mut RawStat, capacity: usize) -> usize {
    let raw = stats.iter().map(|stat| RawStat { name: strings.keep(stat.name), value: signed(stat.value) });
    unsafe { fill(raw, into, capacity) }
}

pub(crate) unsafe fn memory_of(strings: &Strings, parts: &[Memory], into: *mut RawMemory, capacity: usize) -> usize {
    let raw = parts.iter().map(|part| {
        let basis = match part.basis {
            Basis::Limit => c"limit",
            Basis::Measured => c"measured",
            Basis::Estimate => c"estimate",
        };
        RawMemory { usage: strings.keep(part.usage), basis: basis.as_ptr(), bytes: signed(part.bytes) }
    });
    unsafe { fill(raw, into, capacity) }
}

pub(crate) unsafe fn effective_of(strings: &Strings, settings: &[(&str, String)], into: *mut RawSetting, capacity: usize) -> usize {
    let raw = settings.iter().map(|(name, value)| RawSetting { name: strings.keep(name), value: strings.keep(value) });
    unsafe { fill(raw, into, capacity) }
}

/// A string; empty where `at` is NULL.
pub(crate) unsafe fn text(at: *const c_char) -> String {
    if at.is_null() { String::new() } else { unsafe { CStr::from_ptr(at) }.to_string_lossy().into_owned() }
}

/// An array, whose pointer may be NULL where it has no entries, and which must outlive the result.
pub(crate) unsafe fn array<'a, T>(at: *const T, count: usize) -> &'a [T] {
    if count == 0 { &[] } else { unsafe { std::slice::from_raw_parts(at, count) } }
}

/// Fills the caller's array as far as it goes, and returns how many entries there are.
unsafe fn fill<T>(entries: impl ExactSizeIterator<Item = T>, into: *mut T, capacity: usize) -> usize {
    let count = entries.len();
    for (i, entry) in entries.take(capacity).enumerate() {
        unsafe { into.add(i).write(entry) };
    }
    count
}

/// The headers' counts are signed; none comes near the limit.
pub(crate) fn signed(count: u64) -> i64 {
    count.try_into().unwrap_or(i64::MAX)
}

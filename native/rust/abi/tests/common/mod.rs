//! What tests of both borders need.
#![allow(unsafe_code, dead_code, reason = "each test uses some of it")]

use std::ffi::{CStr, c_char};
use std::fmt::Write as _;

use statelab_abi::{
    ERROR_BYTES, FAILED, LOCKED, MISSING, NOT_A_DATABASE, OK, RawError, RawMemory, RawSetting, RawSettling, RawStat, TOO_SMALL, WORKING,
};

/// A struct of the header is ours, member by member.
macro_rules! same {
    ($assertions:ident, $c:literal, $rust:ty $(, $at:ident)*) => {
        $assertions.add(&format!("sizeof({}) == {}", $c, size_of::<$rust>()));
        $($assertions.add(&format!("offsetof({}, {}) == {}", $c, stringify!($at), std::mem::offset_of!($rust, $at)));)*
    };
}
pub(crate) use same;

pub fn no_error() -> RawError {
    RawError { text: [0x7f; ERROR_BYTES] }
}

pub fn text(at: *const c_char) -> &'static str {
    unsafe { CStr::from_ptr(at) }.to_str().unwrap()
}

/// What a C compiler has to find true of a header: that its structs are ours.
pub struct Assertions(String);

impl Assertions {
    /// Of a header, with what both have.
    pub fn of(header: &str) -> Self {
        let mut c = Assertions(format!("#include \"{header}\"\n"));
        same!(c, "statelab_error", RawError, text);
        same!(c, "statelab_setting", RawSetting, name, value);
        same!(c, "statelab_settling", RawSettling, pending_bytes, jobs);
        same!(c, "statelab_stat", RawStat, name, value);
        same!(c, "statelab_memory", RawMemory, basis, bytes);
        for (name, ours) in [
            ("OK", OK),
            ("MISSING", MISSING),
            ("TOO_SMALL", TOO_SMALL),
            ("WORKING", WORKING),
            ("FAILED", FAILED),
            ("LOCKED", LOCKED),
            ("NOT_A_DATABASE", NOT_A_DATABASE),
        ] {
            c.add(&format!("STATELAB_{name} == {ours}"));
        }
        c
    }

    pub fn add(&mut self, condition: &str) {
        writeln!(self.0, "_Static_assert({condition}, \"{condition}\");").unwrap();
    }

    /// Compiles them, with the version of the contract.
    pub fn hold(mut self, version: &str, ours: u32) {
        self.add(&format!("{version} == {ours}"));
        let source = std::env::temp_dir().join(format!("{version}-{}.c", std::process::id()));
        std::fs::write(&source, self.0).unwrap();
        // Of this clone: one that is gone may have compiled the test.
        let headers = std::env::var("CARGO_MANIFEST_DIR").expect("cargo runs the test") + "/../..";
        let output = std::process::Command::new("cc").args(["-std=c11", "-fsyntax-only", "-I", &headers]).arg(&source).output();
        std::fs::remove_file(&source).unwrap();
        let output = output.expect("run the C compiler");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

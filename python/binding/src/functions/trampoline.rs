//! One C function per method: a method table row carries no data, so the function itself must know
//! which group it stands for.

use super::call::call_group;
use super::group::Group;
use crate::py::call::guard;
use crate::py::errors::runtime_error;
use crate::py::{Args, Function, Obj, ffi};
use std::sync::OnceLock;

/// The groups that are methods, in the order of their trampolines.
static METHODS: OnceLock<Vec<&'static Group>> = OnceLock::new();

/// How many methods there can be.
pub(crate) const CAPACITY: usize = 1536;

/// Fixes which group each trampoline calls; only the first call has an effect.
pub(crate) fn install(groups: Vec<&'static Group>) {
    let _first = METHODS.set(groups);
}

unsafe extern "C" fn enter<const INDEX: usize>(
    this: *mut ffi::PyObject,
    args: *const *mut ffi::PyObject,
    count: ffi::Py_ssize_t,
    names: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: passes on what CPython passed.
    unsafe { run(INDEX, this, args, count, names) }
}

/// The common part, so that a trampoline is a load and a jump.
///
/// # Safety
/// The pointers are those CPython passed to a method.
unsafe fn run(
    index: usize,
    this: *mut ffi::PyObject,
    args: *const *mut ffi::PyObject,
    count: ffi::Py_ssize_t,
    names: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    guard(|| {
        // SAFETY: live for the time of the call.
        let (this, args) = unsafe { (Obj::peek(&this), Args::new(args, count, &names)) };
        match METHODS.get().and_then(|groups| groups.get(index)) {
            Some(group) => call_group(group, Some(this), args),
            None => Err(runtime_error("a method without an operator")),
        }
    })
}

macro_rules! rows {
    ($($high:literal)+) => {
        [$(
            enter::<{ $high * 16 }>, enter::<{ $high * 16 + 1 }>, enter::<{ $high * 16 + 2 }>,
            enter::<{ $high * 16 + 3 }>, enter::<{ $high * 16 + 4 }>, enter::<{ $high * 16 + 5 }>,
            enter::<{ $high * 16 + 6 }>, enter::<{ $high * 16 + 7 }>, enter::<{ $high * 16 + 8 }>,
            enter::<{ $high * 16 + 9 }>, enter::<{ $high * 16 + 10 }>, enter::<{ $high * 16 + 11 }>,
            enter::<{ $high * 16 + 12 }>, enter::<{ $high * 16 + 13 }>, enter::<{ $high * 16 + 14 }>,
            enter::<{ $high * 16 + 15 }>,
        )+]
    };
}

static TABLE: [Function; CAPACITY] = rows!(
    0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31
    32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63
    64 65 66 67 68 69 70 71 72 73 74 75 76 77 78 79 80 81 82 83 84 85 86 87 88 89 90 91 92 93 94 95
);

/// The C function of the method at a place.
pub(crate) fn function(index: usize) -> Option<Function> {
    TABLE.get(index).copied()
}

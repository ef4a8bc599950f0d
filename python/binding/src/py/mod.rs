//! A small safe layer over the stable C API.
//!
//! Note [Why not PyO3's object types]: everything here runs with the interpreter lock held, on the
//! thread that called us. PyO3 is used for its declarations of the C API; its object layer costs
//! 4 to 9 ns per call and per argument, turns a panic into an exception that `except Exception`
//! does not catch, has no metaclasses, and defers reference drops made outside its own trampolines.
//! An [`Obj`] is neither `Send` nor `Sync`, so it cannot enter a section that released the lock.

pub(crate) mod call;
pub(crate) mod class;
pub(crate) mod collect;
pub(crate) mod convert;
pub(crate) mod errors;
pub(crate) mod gil;
pub(crate) mod names;
pub(crate) mod obj;

pub(crate) use call::{Args, Function, function, getter, method, setter, slot};
pub(crate) use class::TypeCell;
pub(crate) use errors::{Py, Raised};
pub(crate) use names::name;
pub(crate) use obj::Obj;
pub(crate) use pyo3::ffi;

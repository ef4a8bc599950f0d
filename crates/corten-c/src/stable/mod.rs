//! PyTorch's stable C ABI: the functions `aoti_torch_*` and `torch_*` that extensions built with its stable headers
//! call, so that one file serves PyTorch and Corten.
//!
//! Nothing here is exported under its name, which is PyTorch's. A library that needs `libtorch_cpu.so` gets one that
//! is made in memory when it is loaded (`provide.rs`): its symbols are the addresses of these functions. So a program
//! can hold Corten and PyTorch side by side, and Rust programs need no exported symbols.
//!
//! Values travel as words of 64 bits (`words.rs`), and kernels may throw C++ exceptions (`protect.rs`).

#![expect(non_snake_case, reason = "some names of PyTorch have two underscores")]

mod constants;
mod create;
mod cudart;
mod devices;
mod elf;
mod handle;
mod items;
mod kernels;
mod lists;
mod needed;
mod operators;
mod outcome;
mod protect;
mod provide;
mod python;
mod runtime;
mod shims;
mod tensors;
mod values;
mod words;

pub(crate) use kernels::Loading;
pub(crate) use provide::{explain, provide_for};
pub use provide::{provide, stable_symbols};
pub use python::{PythonObjects, set_python_objects};

use std::ffi::c_void;

/// The version of PyTorch whose ABI this is, as `TORCH_ABI_VERSION` has it: a byte each for 2, 15 and 0.
const VERSION: u64 = (2 << 56) | (15 << 48);

/// A function by its name in C.
pub(crate) struct Function {
    name: &'static str,
    address: *const c_void,
}

/// A list of functions by their names.
macro_rules! functions {
    ($($name:ident)+) => {
        pub(super) const FUNCTIONS: &[super::Function] = &[$(super::Function {
            name: stringify!($name),
            address: $name as *const std::ffi::c_void,
        }),+];
    };
}
use functions;

/// All functions but the operators of `shims.rs`.
const FUNCTIONS: [&[Function]; 12] = [
    constants::FUNCTIONS,
    create::FUNCTIONS,
    devices::FUNCTIONS,
    items::FUNCTIONS,
    kernels::FUNCTIONS,
    lists::FUNCTIONS,
    operators::FUNCTIONS,
    outcome::FUNCTIONS,
    python::FUNCTIONS,
    runtime::FUNCTIONS,
    tensors::FUNCTIONS,
    values::FUNCTIONS,
];

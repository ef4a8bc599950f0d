//! The `Tensor` class.

mod attrs;
mod class;
mod convert;
mod index;
mod item;
mod legacy;
mod memory;
mod methods;
mod number;
mod object;
mod spare;
mod subclass;

pub(crate) use class::{add_to, functions};
pub(crate) use item::{index_object, item};
pub(crate) use memory::{
    PROTECTED, empty, forbid_resizing, from_bytes, lend, over_foreign, plain_copy, requires_grad,
    set_requires_grad, to_bytes,
};
pub(crate) use object::{
    TENSOR, expect, get, is_disabled_function, is_plain, is_tensor, overrides, this, wrap,
    wrap_owned,
};

//! The `Tensor` class.

mod attrs;
mod class;
mod convert;
mod fake;
mod freelist;
mod index;
mod item;
mod legacy;
mod memory;
mod methods;
mod names;
mod number;
mod object;
mod subclass;

/// A row of the method table whose method subclasses and modes may take over.
macro_rules! overridable {
    ($name:literal, $function:expr) => {
        $crate::py::method!($name, |object: &$crate::py::Obj, args: $crate::py::Args<'_>| {
            $crate::overrides::method_or(object, $crate::py::name!($name), args, $function)
        })
    };
}
use overridable;

/// A row of the attribute table whose attribute subclasses and modes may take over.
macro_rules! attribute {
    ($name:literal, $get:expr) => {
        $crate::py::getter!($name, |object: &$crate::py::Obj| {
            $crate::overrides::get_or(object, $crate::py::name!($name), $get)
        })
    };
    ($name:literal, $get:expr, $set:expr) => {
        $crate::py::setter!(
            $name,
            |object: &$crate::py::Obj| {
                $crate::overrides::get_or(object, $crate::py::name!($name), $get)
            },
            |object: &$crate::py::Obj, value: Option<&$crate::py::Obj>| {
                $crate::overrides::set_or(object, $crate::py::name!($name), value, $set)
            }
        )
    };
}
use attribute;

pub(crate) use class::{add_to, functions};
#[cfg(feature = "cuda")]
pub(crate) use convert::legacy_name;
pub(crate) use fake::lift;
pub(crate) use item::{index_object, item};
pub(crate) use memory::{
    dense_copy, empty, forbid_resizing, from_bytes, lend, over_foreign, over_foreign_on,
    requires_grad, set_requires_grad, to_bytes,
};
pub(crate) use names::{dim_name, dim_names};
pub(crate) use object::{
    TENSOR, expect, get, is_dense_cpu, is_disabled_function, is_tensor, overrides, this, wrap,
    wrap_as, wrap_owned,
};

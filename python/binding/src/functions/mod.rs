//! The operators of the registry as Python functions and methods.
//!
//! Nothing here knows an operator: names, signatures, homes and docs come from the registry. A
//! [`Group`] is everything that one Python name can mean; its signatures are parsed when it is
//! called for the first time.

mod call;
mod estimate;
mod fast;
mod group;
mod named;
mod overload;
mod publish;
mod trampoline;

pub(crate) use call::{
    OpCell, call_function, call_method, call_overload, call_overload_at, op, op1, wrap_value,
};
pub(crate) use estimate::{is_long_product, is_long_stream};
pub(crate) use group::{Group, Mode};
pub(crate) use named::without_names as with_names_of_call;
pub(crate) use overload::result_names;
pub(crate) use publish::{add_to, lookup, method_rows, public_object};

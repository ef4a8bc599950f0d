//! Reading and writing by index.
//!
//! Kernels that only move elements run on integers of the element's size, so each loop exists
//! five times and not once per dtype.

mod advanced;
mod arithmetic;
mod choose;
mod flat;
mod gather;
mod into;
mod masked;
mod put;
mod reduce;
mod row_copies;
mod select;

pub use advanced::{index, index_put, index_put_};
pub use choose::where_self;
pub use gather::{
    gather, scatter_add, scatter_add_, scatter_reduce_src, scatter_reduce_src_,
    scatter_reduce_value, scatter_reduce_value_, scatter_src, scatter_src_, scatter_value,
    scatter_value_,
};
pub use into::{gather_out, index_out, index_select_out, masked_select_out, nonzero_out, take_out};
pub use masked::{masked_scatter, masked_scatter_, masked_select, nonzero};
pub use put::{put, put_, take};
pub use reduce::{index_reduce, index_reduce_, scatter_reduce_two, scatter_reduce_two_};
pub use select::{
    index_add, index_add_, index_copy, index_copy_, index_fill_scalar, index_fill_scalar_,
    index_fill_tensor, index_fill_tensor_, index_select,
};

pub(crate) use flat::{as_bits, match_bits};

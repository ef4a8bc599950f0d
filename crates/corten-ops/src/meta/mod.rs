//! Meta rules: from an iterator operator's arguments to a planned [`TensorIterator`].
//!
//! A rule checks the arguments in PyTorch's words, decides shape and dtype of the results, and
//! allocates or resizes them. The registry names a rule with `meta = "rule"` or
//! `meta = "rule(variant)"`, which is the function `rule_variant`; it gets all arguments of the
//! schema, then one `Option<&Tensor>` per output. Operators given as an expression go through
//! [`pointwise`].
//!
//! [`TensorIterator`]: crate::TensorIterator

mod check;
pub mod clamp;
pub mod copy;
pub mod distance;
pub mod elementwise;
pub mod factory;
pub mod fft;
pub mod index;
pub mod linalg;
pub mod number;
mod pointwise;
pub mod reduce;
mod reduction;
pub mod sampling;
pub mod sort;
pub mod special;
pub mod tools;
pub mod upsample;

pub use check::{check_dtype, check_fill_value, check_out_dtype, cpp_name};
pub use pointwise::{
    Domain, Promote, binary, binary_float, comparison, pointwise, ternary, unary, unary_bool,
    unary_float,
};
pub use reduction::{
    Reduce, check_var_out, reduction_all, reduction_all_dim, reduction_all_dims, reduction_any,
    reduction_any_dim, reduction_any_dims, reduction_arg, reduction_mean, reduction_minmax,
    reduction_nansum, reduction_prod, reduction_prod_dim, reduction_sum, reduction_var,
    reduction_var_mean,
};

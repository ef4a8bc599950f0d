//! Views: other sizes, strides and offset over the same storage and version.

mod backward;
mod bits;
mod inplace;
mod pieces;
mod repeat;
mod select;
mod shape;
mod strided;

pub use backward::{
    diagonal_backward, diagonal_scatter, select_backward, select_scatter, slice_backward,
    slice_scatter, unfold_backward,
};
pub use bits::{conj_view, neg_view, view_as_complex, view_as_real, view_dtype};
pub(crate) use bits::{stored, view_as_real_physical};
pub use inplace::{
    as_strided_, detach_, squeeze_, squeeze_dim_, squeeze_dims_, t_, transpose_, unsqueeze_,
};
pub(crate) use pieces::room_for_pieces;
pub use pieces::{
    split, split_copy_out, split_with_sizes, split_with_sizes_copy_out, unbind, unbind_copy_out,
};
pub use repeat::{flip, flip_view, repeat, roll, rot90};
pub(crate) use select::narrow_start;
pub(crate) use select::{clamped_range, selected};
pub use select::{diagonal, select, slice, unfold};
pub use shape::{
    alias, expand, permute, squeeze, squeeze_dim, squeeze_dims, t, transpose, unsafe_view,
    unsqueeze, view,
};
pub use strided::{as_strided, as_strided_scatter, reshape_alias};

use crate::Tensor;
use corten_core::{Dims, Result};

/// A view with another geometry. The caller vouches for the bounds.
pub(crate) fn with_geometry(
    self_: &Tensor,
    sizes: &[i64],
    strides: &[i64],
    offset: i64,
) -> Result<Tensor> {
    Ok(self_.as_view_of(sizes, strides, offset)?.into())
}

/// Sizes and strides of a tensor, to be changed.
pub(crate) fn geometry_of(self_: &Tensor) -> (Dims, Dims) {
    (self_.sizes(), self_.strides())
}

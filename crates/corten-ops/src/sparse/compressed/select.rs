//! One slice of a compressed tensor.

use super::Matrices;
use super::convert::single_entries;
use super::dense::at;
use crate::any::view::selected;
use crate::sparse::{Compressed, Coo};
use crate::{Tensor, op};
use corten_core::{Dims, Result, Scalar, ensure, geometry};

/// One slice: of a batch or a dense dimension compressed, over the same memory; of rows or columns in
/// coordinates.
///
/// # Errors
/// `Index` out of bounds; `Runtime` for rows and columns of batches.
pub fn select(self_: &Tensor, dim: i64, index: i64) -> Result<Tensor> {
    let x = Matrices::expect(self_, "select")?;
    let (dim, start) = (geometry::wrap_dim(dim, x.sizes.len())?, x.start());
    let index = selected(&x.sizes, dim, dim as i64, index)?;
    let mut sizes = Dims::from_slice(&x.sizes);
    sizes.remove(dim);
    let parts = &x.parts;
    if dim < start {
        let slice = |part: &Tensor| op::select_int(part, dim as i64, index);
        let parts = Compressed {
            layout: parts.layout,
            compressed_indices: slice(&parts.compressed_indices)?,
            plain_indices: slice(&parts.plain_indices)?,
            values: slice(&parts.values)?,
        };
        return parts.tensor(&sizes);
    }
    if dim >= start + 2 {
        // The entries have one dimension for rows and columns, and two more for blocks.
        let place = if x.in_blocks() { dim + 1 } else { dim - 1 };
        let values = op::select_int(&parts.values, place as i64, index)?;
        return Compressed { values, ..parts.clone() }.tensor(&sizes);
    }
    ensure!(
        start == 0,
        Runtime,
        "select(): selecting sparse dimensions is not supported for batched sparse compressed tensors."
    );
    let (places, values) = single_entries(&x)?;
    let (along, other) = match dim {
        0 => (places.row, places.column),
        _ => (places.column, places.row),
    };
    let kept = op::eq_scalar(&along, Scalar::Int(index))?;
    let indices = op::unsqueeze(&at(&other, &[&kept])?, 0)?;
    Coo { indices, values: at(&values, &[&kept])?, coalesced: true }.tensor(&sizes)
}

/// The gradient of [`select`], dense.
///
/// # Errors
/// Those of the dense operator.
pub fn select_backward(
    grad_output: &Tensor,
    input_sizes: &[i64],
    dim: i64,
    index: i64,
) -> Result<Tensor> {
    op::select_backward(&op::to_dense(grad_output, None, None)?, input_sizes, dim, index)
}

//! Entries at every place that a broadcast tensor shows them at.

use crate::sparse::Coo;
use crate::{Tensor, op};
use corten_core::{DType, Result, ensure};

/// A sparse tensor broadcast to a larger size.
///
/// # Errors
/// `Runtime` where the sizes do not broadcast.
pub fn spread(self_: &Tensor, size: &[i64]) -> Result<Tensor> {
    let sizes = self_.sizes();
    check(&sizes, size)?;
    if sizes.as_slice() == size {
        return op::alias(self_);
    }
    let parts = Coo::expect(self_, "_sparse_broadcast_to")?;
    let lead = size.len() - sizes.len();
    let (nnz, counted) = (parts.nnz(), lead + parts.sparse_dim() as usize);
    let is_new = |dim: usize| dim < lead || sizes[dim - lead] != size[dim];
    let dims: Vec<usize> = (0..counted).filter(|&dim| is_new(dim)).collect();
    let copies: i64 = dims.iter().map(|&dim| size[dim]).product();
    let (mut rows, mut inner) = (Vec::new(), copies);
    for (dim, &length) in size.iter().enumerate().take(counted) {
        rows.push(if is_new(dim) {
            inner /= length.max(1);
            let device = Some(parts.indices.device());
            let places = op::arange(length.into(), Some(DType::Int64), None, device, None)?;
            let each = op::repeat_interleave_self_int(&places, inner, None, None)?;
            let count = if each.size(0)? == 0 { 0 } else { nnz * copies / each.size(0)? };
            op::repeat(&each, &[count])?
        } else {
            let row = op::select_int(&parts.indices, 0, (dim - lead) as i64)?;
            op::repeat_interleave_self_int(&row, copies, None, None)?
        });
    }
    let mut shape = vec![nnz];
    shape.extend_from_slice(&size[counted..]);
    let values = op::expand(&parts.values, &shape, false)?;
    let values = op::repeat_interleave_self_int(&values, copies, Some(0), None)?;
    let indices = if rows.is_empty() { parts.indices.clone() } else { op::stack(&rows, 0)? };
    let ordered = parts.coalesced && (lead == 0 || nnz < 2 || copies == 1);
    let coalesced = ordered && dims.len() == lead || indices.size(1)? < 2;
    Coo { indices, values, coalesced }.tensor(size)
}

fn check(sizes: &[i64], size: &[i64]) -> Result<()> {
    ensure!(
        size.len() >= sizes.len(),
        Runtime,
        "the requested broadcast shape has fewer dimensions than the input"
    );
    let lead = size.len() - sizes.len();
    for (dim, (length, wanted)) in sizes.iter().zip(&size[lead..]).enumerate() {
        ensure!(
            *length == 1 || length == wanted,
            Runtime,
            "The input's length {length} at dimension {dim} does not broadcast over the requested \
             shape of length {wanted} at dimension {}",
            dim + lead
        );
    }
    Ok(())
}

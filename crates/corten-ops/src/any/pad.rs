//! Padding with one value.

use crate::{Tensor, op};
use corten_core::{Dims, Result, Scalar, ensure};

/// A border of one value, given from the last dimension on as pairs of sizes before and after;
/// negative sizes cut elements off.
///
/// # Errors
/// `Runtime` when there are more pairs than dimensions or a size would become negative.
pub fn constant_pad_nd(self_: &Tensor, pad: &[i64], value: Scalar) -> Result<Tensor> {
    let rank = self_.dim();
    ensure!(
        pad.len().is_multiple_of(2),
        Runtime,
        "Length of pad must be even but instead it equals {}",
        pad.len()
    );
    ensure!(
        pad.len() / 2 <= rank,
        Runtime,
        "Length of pad should be no more than twice the number of dimensions of the input. Pad \
         length is {} while the input has {rank} dimensions.",
        pad.len()
    );
    let sizes = self_.sizes();
    let mut shape = Dims::with_capacity(rank);
    for (dim, size) in sizes.iter().enumerate() {
        let [before, after] = pair(pad, rank, dim);
        let padded = size.saturating_add(before).saturating_add(after);
        ensure!(
            padded >= 0,
            Runtime,
            "The input size {size}, plus negative padding {before} and {after} resulted in a \
             negative output size, which is invalid. Check dimension {dim} of your input."
        );
        shape.push(padded);
    }
    let format = Some(self_.suggest_memory_format());
    let (dtype, device) = (Some(self_.dtype()), Some(self_.device()));
    let out = op::empty_memory_format(&shape, dtype, None, device, None, format)?;
    op::fill__scalar(&out, value)?;
    let (mut source, mut target) = (self_.clone(), out.clone());
    for dim in 0..rank {
        let [before, after] = pair(pad, rank, dim);
        source = cut(&source, dim, before.saturating_neg(), after.saturating_neg())?;
        target = cut(&target, dim, before, after)?;
    }
    op::copy_(&target, &source, false)?;
    Ok(out)
}

/// The sizes before and after one dimension.
fn pair(pad: &[i64], rank: usize, dim: usize) -> [i64; 2] {
    let place = 2 * (rank - 1 - dim);
    match pad.get(place..place + 2) {
        Some(&[before, after]) => [before, after],
        _ => [0, 0],
    }
}

/// The tensor without what positive sizes say at both ends of a dimension.
fn cut(tensor: &Tensor, dim: usize, before: i64, after: i64) -> Result<Tensor> {
    let (before, after) = (before.max(0), after.max(0));
    let length = tensor.sizes()[dim].saturating_sub(before).saturating_sub(after);
    // More than everything can be cut off where the other end grows.
    op::narrow(tensor, dim as i64, before.min(tensor.sizes()[dim]), length.max(0))
}

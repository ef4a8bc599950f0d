//! Dimensions moved, elements reversed and repeated.

use crate::{Tensor, op};
use corten_core::{Dims, Result, ensure, geometry};
use smallvec::smallvec;

/// One dimension moved, the others keep their order.
///
/// # Errors
/// Those of [`movedim_intlist`].
pub fn movedim_int(self_: &Tensor, source: i64, destination: i64) -> Result<Tensor> {
    movedim_intlist(self_, &[source], &[destination])
}

/// Several dimensions moved, the others keep their order.
///
/// # Errors
/// `Index` for a dimension out of range; `Runtime` when one is given twice or the lists differ in
/// length.
pub fn movedim_intlist(self_: &Tensor, source: &[i64], destination: &[i64]) -> Result<Tensor> {
    ensure!(
        source.len() == destination.len(),
        Runtime,
        "movedim: Invalid source or destination dims: source ({source:?} dims) should contain the \
         same number of dims as destination ({destination:?} dims)"
    );
    let rank = self_.dim();
    let wrapped = |dims: &[i64]| -> Result<Dims> {
        let mut result = Dims::new();
        for &dim in dims {
            result.push(geometry::wrap_dim(dim, rank)? as i64);
        }
        Ok(result)
    };
    let (from, to) = (wrapped(source)?, wrapped(destination)?);
    for (dims, given, name) in [(&from, source, "source"), (&to, destination, "destination")] {
        let unique = (1..dims.len()).all(|i| !dims[..i].contains(&dims[i]));
        ensure!(unique, Runtime, "movedim: repeated dim in `{name}` ({given:?})");
    }
    if rank == 0 {
        return op::alias(self_);
    }
    let mut order: Dims = smallvec![-1; rank];
    for (&from, &to) in from.iter().zip(&to) {
        order[to as usize] = from;
    }
    let mut rest = (0..rank as i64).filter(|dim| !from.contains(dim));
    for place in order.iter_mut().filter(|place| **place < 0) {
        *place = rest.next().unwrap_or(0);
    }
    op::permute(self_, &order)
}

/// `transpose` under numpy's name.
///
/// # Errors
/// Those of `transpose`.
pub fn swapaxes(self_: &Tensor, axis0: i64, axis1: i64) -> Result<Tensor> {
    op::transpose_int(self_, axis0, axis1)
}

/// `transpose_` under numpy's name.
///
/// # Errors
/// Those of `transpose_`.
pub fn swapaxes_(self_: &Tensor, axis0: i64, axis1: i64) -> Result<Tensor> {
    op::transpose_(self_, axis0, axis1)
}

/// `transpose` under another name.
///
/// # Errors
/// Those of `transpose`.
pub fn swapdims(self_: &Tensor, dim0: i64, dim1: i64) -> Result<Tensor> {
    op::transpose_int(self_, dim0, dim1)
}

/// `transpose_` under another name.
///
/// # Errors
/// Those of `transpose_`.
pub fn swapdims_(self_: &Tensor, dim0: i64, dim1: i64) -> Result<Tensor> {
    op::transpose_(self_, dim0, dim1)
}

/// The second dimension reversed.
///
/// # Errors
/// `Runtime` below rank 2.
pub fn fliplr(self_: &Tensor) -> Result<Tensor> {
    ensure!(self_.dim() >= 2, Runtime, "Input must be >= 2-d.");
    op::flip(self_, &[1])
}

/// The first dimension reversed.
///
/// # Errors
/// `Runtime` for scalars.
pub fn flipud(self_: &Tensor) -> Result<Tensor> {
    ensure!(self_.dim() >= 1, Runtime, "Input must be >= 1-d.");
    op::flip(self_, &[0])
}

/// `repeat` with missing leading counts of 1.
///
/// # Errors
/// Those of `repeat`.
pub fn tile(self_: &Tensor, dims: &[i64]) -> Result<Tensor> {
    let missing = self_.dim().saturating_sub(dims.len());
    let mut counts: Dims = smallvec![1; missing];
    counts.extend_from_slice(dims);
    op::repeat(self_, &counts)
}

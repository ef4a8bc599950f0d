//! Numbers of matrices, and batches of matrices that lie by columns.

use crate::gemm::{MatElement, PARALLEL_WORK};
use crate::kernels::support::contiguous;
use crate::parallel::chunks::{for_each_chunk, for_each_chunk2, for_each_chunk3};
use crate::parallel::scratch::Buffered;
use corten_core::{Access, AccessSet, Element, Result};
use corten_linalg::Lapack;
use corten_ops::meta::linalg as shapes;
use corten_ops::{Tensor, op};
use num_complex::ComplexFloat;

/// A number of a matrix.
pub(super) trait Number:
    MatElement + Buffered + Lapack + ComplexFloat<Real: Element>
{
}

impl<T: MatElement + Buffered + Lapack + ComplexFloat<Real: Element>> Number for T {}

/// A copy of a batch of matrices, by columns.
pub(super) fn by_columns(tensor: &Tensor) -> Result<Tensor> {
    let out = shapes::columns(&tensor.sizes(), tensor.dtype(), tensor.device())?;
    op::copy_(&out, tensor, false)
}

/// [`by_columns`], or the tensor itself where it lies so.
pub(super) fn in_columns(tensor: &Tensor) -> Result<Tensor> {
    match op::transpose_int(tensor, -2, -1)?.is_contiguous() && !tensor.is_conj() {
        true => Ok(tensor.clone()),
        false => by_columns(tensor),
    }
}

/// The tensor, or a copy of it whose matrices lie by rows.
pub(super) fn in_rows(tensor: &Tensor) -> Result<Tensor> {
    contiguous(&op::resolve_conj(tensor)?)
}

/// The two sizes of every matrix.
pub(super) fn shape(tensor: &Tensor) -> Result<[usize; 2]> {
    Ok([tensor.size(-2)? as usize, tensor.size(-1)? as usize])
}

/// The adjoints, conjugated at once: a kernel may run where lazy conjugation is not seen.
pub(super) fn adjoint(tensor: &Tensor) -> Result<Tensor> {
    op::conj_physical(&op::transpose_int(tensor, -2, -1)?)
}

/// Matrices that are read: one for each of a batch, or one for all.
pub(super) struct Read<'a, T> {
    data: &'a [T],
    length: usize,
}

impl<T> Read<'_, T> {
    /// Matrix `index`.
    pub(super) fn get(&self, index: usize) -> &[T] {
        let start = if self.data.len() == self.length { 0 } else { index * self.length };
        &self.data[start..start + self.length]
    }
}

/// A batch that fits another one: expanded, unless one matrix serves all.
pub(super) fn fitted(tensor: &Tensor, batch: &[i64]) -> Result<Tensor> {
    let sizes = tensor.sizes();
    let (own, matrix) = sizes.split_at(sizes.len() - 2);
    if own.iter().product::<i64>() == 1 || own == batch {
        return Ok(tensor.clone());
    }
    op::expand(tensor, &[batch, matrix].concat(), false)
}

/// [`fitted`] for vectors.
pub(super) fn fitted_vectors(tensor: &Tensor, batch: &[i64]) -> Result<Tensor> {
    op::squeeze_dim(&fitted(&op::unsqueeze(tensor, -1)?, batch)?, -1)
}

fn grain(rows: usize, cols: usize) -> usize {
    (PARALLEL_WORK / (rows * cols * rows.max(cols)).max(1)).max(1)
}

/// Calls `body(i, matrix i)` for every matrix of a batch that lies by columns.
///
/// # Errors
/// The first error of `body`.
pub(super) fn each<T: Number>(
    out: &Tensor,
    body: impl Fn(usize, &mut [T]) -> Result<()> + Sync,
) -> Result<()> {
    let [rows, cols] = shape(out)?;
    let view = op::transpose_int(out, -2, -1)?;
    let set = AccessSet::acquire(&[(view.base(), Access::Write)])?;
    for_each_chunk(set.write::<T>(0)?, rows * cols, grain(rows, cols), body)
}

/// [`each`] with vectors that belong to the matrices, contiguous in `vectors`.
///
/// # Errors
/// The first error of `body`.
pub(super) fn each_with<T: Number, V: Element>(
    out: &Tensor,
    vectors: (&Tensor, usize),
    body: impl Fn(usize, &mut [T], &mut [V]) -> Result<()> + Sync,
) -> Result<()> {
    let [rows, cols] = shape(out)?;
    let view = op::transpose_int(out, -2, -1)?;
    let set =
        AccessSet::acquire(&[(view.base(), Access::Write), (vectors.0.base(), Access::Write)])?;
    let (matrices, others) = ((set.write::<T>(0)?, rows * cols), (set.write::<V>(1)?, vectors.1));
    for_each_chunk2(matrices, others, grain(rows, cols), body)
}

/// [`each_with`] with two kinds of vectors.
///
/// # Errors
/// The first error of `body`.
pub(super) fn each_with_two<T: Number, V: Element, W: Element>(
    out: &Tensor,
    first: (&Tensor, usize),
    second: (&Tensor, usize),
    body: impl Fn(usize, &mut [T], &mut [V], &mut [W]) -> Result<()> + Sync,
) -> Result<()> {
    let [rows, cols] = shape(out)?;
    let view = op::transpose_int(out, -2, -1)?;
    let set = AccessSet::acquire(&[
        (view.base(), Access::Write),
        (first.0.base(), Access::Write),
        (second.0.base(), Access::Write),
    ])?;
    for_each_chunk3(
        (set.write::<T>(0)?, rows * cols),
        (set.write::<V>(1)?, first.1),
        (set.write::<W>(2)?, second.1),
        grain(rows, cols),
        body,
    )
}

/// Calls `body` with a tensor's elements, as matrices or vectors of `length`.
///
/// # Errors
/// Those of `body`; `Runtime` when the tensor is not contiguous.
pub(super) fn reading<T: Element, R>(
    tensor: &Tensor,
    length: usize,
    body: impl FnOnce(Read<'_, T>) -> Result<R>,
) -> Result<R> {
    let set = AccessSet::acquire(&[(tensor.base(), Access::Read)])?;
    body(Read { data: set.read::<T>(0)?, length })
}

/// [`reading`] for matrices that lie by columns.
///
/// # Errors
/// Those of [`reading`].
pub(super) fn reading_columns<T: Element, R>(
    tensor: &Tensor,
    body: impl FnOnce(Read<'_, T>) -> Result<R>,
) -> Result<R> {
    let [rows, cols] = shape(tensor)?;
    reading(&op::transpose_int(tensor, -2, -1)?, rows * cols, body)
}

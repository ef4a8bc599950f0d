//! Batches of matrices as kernels take them.

use crate::operands::{contiguous, empty};
use corten_core::{DType, Result, ensure, not_implemented_for};
use corten_ops::meta::linalg as shapes;
use corten_ops::{Tensor, op};

/// The most blocks along the grid's y and z.
const MOST_BATCHES: i64 = 65535;

/// `LaView` of `linalg.cuh`: the strides of rows, columns and matrices.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct View {
    row: i64,
    column: i64,
    batch: i64,
}

impl View {
    /// That of a tensor [batch, rows, columns]; one matrix serves for all.
    pub(super) fn of(tensor: &Tensor) -> Self {
        let (sizes, strides) = (tensor.sizes(), tensor.strides());
        let batch = if sizes[0] == 1 { 0 } else { strides[0] };
        Self { row: strides[1], column: strides[2], batch }
    }
}

/// The distance of the vectors of a tensor [batch, length]; one serves for all.
pub(super) fn vector_stride(tensor: &Tensor) -> i64 {
    if tensor.sizes()[0] == 1 { 0 } else { tensor.strides()[0] }
}

/// The sizes of a tensor [batch, rows, columns].
pub(super) fn sizes(tensor: &Tensor) -> Result<[u32; 3]> {
    let sizes = tensor.sizes();
    ensure!(
        sizes.iter().all(|&size| size <= i64::from(i32::MAX)),
        Runtime,
        "CUDA factorisations take at most 2^31 - 1 matrices, rows and columns"
    );
    Ok([sizes[0] as u32, sizes[1] as u32, sizes[2] as u32])
}

/// Refuses dtypes other than those of LAPACK.
pub(super) fn check_dtype(tensor: &Tensor, name: &'static str) -> Result<()> {
    match tensor.dtype() {
        DType::Float32 | DType::Float64 | DType::Complex64 | DType::Complex128 => Ok(()),
        other => Err(not_implemented_for(name, other)),
    }
}

/// A copy of matrices, by columns.
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

/// Adjoint matrices, conjugated at once.
pub(super) fn adjoint(tensor: &Tensor) -> Result<Tensor> {
    op::conj_physical(&op::transpose_int(tensor, -2, -1)?)
}

/// A batch that fits another one: expanded, unless one matrix serves for all.
pub(super) fn fitted(tensor: &Tensor, batch: &[i64]) -> Result<Tensor> {
    let sizes = tensor.sizes();
    let (own, matrix) = sizes.split_at(sizes.len() - 2);
    if own.iter().product::<i64>() == 1 || own == batch {
        return Ok(tensor.clone());
    }
    op::expand(tensor, &[batch, matrix].concat(), false)
}

/// [`fitted`] for vectors, as a contiguous tensor [batch, length].
pub(super) fn fitted_vectors(tensor: &Tensor, batch: &[i64]) -> Result<Tensor> {
    flat_vectors(&op::squeeze_dim(&fitted(&op::unsqueeze(tensor, -1)?, batch)?, -1)?)
}

/// Vectors as a contiguous tensor [batch, length].
pub(super) fn flat_vectors(tensor: &Tensor) -> Result<Tensor> {
    let length = tensor.size(-1)?;
    let count = tensor.numel() / length.max(1);
    op::reshape(&contiguous(tensor)?, &[count, length])
}

/// Matrices that lie by columns as a tensor [batch, rows, columns] of the same memory.
pub(super) fn flat(tensor: &Tensor) -> Result<Tensor> {
    let (rows, columns) = (tensor.size(-2)?, tensor.size(-1)?);
    let turned = op::transpose_int(tensor, -2, -1)?;
    let count = tensor.numel() / (rows * columns).max(1);
    op::transpose_int(&op::view(&turned, &[count, columns, rows])?, -2, -1)
}

/// Some rows and columns of flat matrices.
pub(super) fn block(tensor: &Tensor, rows: [i64; 2], columns: [i64; 2]) -> Result<Tensor> {
    let rows = op::narrow(tensor, 1, rows[0], rows[1] - rows[0])?;
    op::narrow(&rows, 2, columns[0], columns[1] - columns[0])
}

/// Calls `body` with parts of tensors [batch, ...] that one launch takes.
///
/// # Errors
/// Those of `body`.
pub(super) fn in_parts(
    tensors: &[&Tensor],
    mut body: impl FnMut(&[Tensor]) -> Result<()>,
) -> Result<()> {
    let batches = tensors.iter().map(|tensor| tensor.sizes()[0]).max().unwrap_or(0);
    let mut start = 0;
    while start < batches {
        let count = MOST_BATCHES.min(batches - start);
        let part = |tensor: &&Tensor| match tensor.sizes()[0] {
            1 => Ok((*tensor).clone()),
            _ => op::narrow(tensor, 0, start, count),
        };
        body(&tensors.iter().map(part).collect::<Result<Vec<_>>>()?)?;
        start += count;
    }
    Ok(())
}

/// Identity matrices by columns, [batch, rows, columns].
pub(super) fn identity(batch: i64, [rows, columns]: [i64; 2], like: &Tensor) -> Result<Tensor> {
    let turned = op::zero_(&empty(&[batch, columns, rows], like.dtype(), like)?)?;
    let out = op::transpose_int(&turned, -2, -1)?;
    set_diagonal(&out)?;
    Ok(out)
}

/// Ones on the diagonal.
pub(super) fn set_diagonal(tensor: &Tensor) -> Result<()> {
    let diagonal = op::diagonal(tensor, 0, -2, -1)?;
    op::fill__scalar(&diagonal, corten_core::Scalar::Int(1)).map(drop)
}

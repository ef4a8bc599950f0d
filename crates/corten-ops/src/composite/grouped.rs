//! Products of groups of matrices.

use crate::{Tensor, op};
use corten_core::{DType, Result, bail, ensure};

/// Products of pairs of matrices, or of groups of rows and columns that `offs` has the ends of.
///
/// # Errors
/// `Runtime` for shapes, strides, dtypes and offsets that do not fit.
pub fn grouped_mm(
    self_: &Tensor,
    mat2: &Tensor,
    offs: Option<&Tensor>,
    bias: Option<&Tensor>,
    out_dtype: Option<DType>,
) -> Result<Tensor> {
    let (offs, bias) = (super::support::defined(offs), super::support::defined(bias));
    check(self_, mat2, offs)?;
    ensure!(bias.is_none(), Runtime, "Bias not supported yet");
    ensure!(
        out_dtype.is_none_or(|dtype| dtype == self_.dtype()),
        Runtime,
        "Grouped gemm output dtype must match `mat_a` dtype"
    );
    let Some(offs) = offs else { return op::bmm(self_, mat2) };
    let (rows, columns) = (self_.size(-2)?, mat2.size(-1)?);
    let stacked = self_.dim() == mat2.dim();
    if offs.device().is_meta() {
        let count = if stacked { vec![offs.numel()] } else { Vec::new() };
        let sizes = [&count[..], &[rows, columns]].concat();
        return op::new_empty(self_, &sizes, None, None, None, None);
    }
    let ends = op::to_dtype(offs, DType::Int64, false, false, None)?.to_vec::<i64>()?;
    let along =
        if stacked || self_.dim() == 3 { mat2.size(if stacked { 0 } else { -1 })? } else { rows };
    let mut parts = Vec::new();
    let mut start = 0;
    for (place, &end) in ends.iter().enumerate() {
        ensure!(
            (0..=along).contains(&end),
            Runtime,
            "offs has to be between 0 and the size of the dimension, {along}, got {end}"
        );
        let (place, length) = (place as i64, (end - start).max(0));
        let (a, b) = match (self_.dim(), mat2.dim()) {
            (2, 2) => (op::narrow(self_, 1, start, length)?, op::narrow(mat2, 0, start, length)?),
            (2, _) => (op::narrow(self_, 0, start, length)?, op::select_int(mat2, 0, place)?),
            _ => (op::select_int(self_, 0, place)?, op::narrow(mat2, 1, start, length)?),
        };
        parts.push(op::mm(&a, &b)?);
        start = end;
    }
    if stacked {
        return op::stack(&parts, 0);
    }
    let dim = i64::from(self_.dim() == 3);
    if let Some(missing) = (along - start > 0).then_some(along - start) {
        // Zeros behind the last group.
        let sizes = if dim == 0 { [missing, columns] } else { [rows, missing] };
        parts.push(op::new_zeros(self_, &sizes, None, None, None, None)?);
    }
    op::cat(&parts, dim)
}

fn check(a: &Tensor, b: &Tensor, offs: Option<&Tensor>) -> Result<()> {
    let names = [a, b].map(|matrix| matrix.dtype().type_name());
    ensure!(
        matches!(a.dtype(), DType::Float32 | DType::BFloat16 | DType::Float16),
        Runtime,
        "Expected mat_a to be Float32, BFloat16 or Float16 matrix, got {}",
        names[0]
    );
    ensure!(
        a.dtype() == b.dtype(),
        Runtime,
        "Expected mat_a and mat_b to have the same dtype, got {} and {}",
        names[0],
        names[1]
    );
    for (name, matrix) in [("mat_a", a), ("mat_b", b)] {
        ensure!(matches!(matrix.dim(), 2 | 3), Runtime, "{name} has to be 2 or 3d");
    }
    let is_stack = |matrix: &Tensor| matrix.dim() == 3;
    let (stacks, singles) = (is_stack(a) && is_stack(b), !is_stack(a) && !is_stack(b));
    ensure!(
        singles || a.size(-1)? == b.size(-2)?,
        Runtime,
        "contraction dimension of mat_a and mat_b must match"
    );
    check_strides(a)?;
    check_strides(b)?;
    ensure!(!stacks || a.size(0)? == b.size(0)?, Runtime, "batched dimension has to match");
    ensure!(
        offs.is_none() == stacks,
        Runtime,
        "Have to provide offsets if there is a 2d matrix, or no offset if both matrices are 3d"
    );
    let Some(offs) = offs else { return Ok(()) };
    ensure!(offs.dim() == 1, Runtime, "offs has to be 1D");
    ensure!(offs.dtype() == DType::Int32, Runtime, "Offsets have to be int32");
    let stack = if is_stack(a) { a } else { b };
    ensure!(
        singles || stack.size(0)? == offs.size(0)?,
        Runtime,
        "matrix batch sizes have to match"
    );
    Ok(())
}

/// One of the last two dimensions is contiguous, and rows of the other begin at 16 bytes.
fn check_strides(matrix: &Tensor) -> Result<()> {
    for (inner, outer) in [(-1, -2), (-2, -1)] {
        let stride = matrix.stride(outer)?;
        if matrix.stride(inner)? == 1 && stride >= matrix.size(inner)?.max(1) {
            ensure!(
                stride * matrix.itemsize() as i64 % 16 == 0,
                Runtime,
                "strides should be multiple of 16 bytes"
            );
            return Ok(());
        }
    }
    bail!(
        Runtime,
        "Invalid strides/sizes, got {:?} for strides and {:?} for sizes",
        matrix.strides().as_slice(),
        matrix.sizes().as_slice()
    )
}

//! Products of matrices of bytes in integers of 32 bits.

use super::{acquire, check_any_mm, shares_memory};
use crate::gemm::{Mat, MatMut, gemm_of_bytes};
use crate::kernels::support::{empty_as, is_shape_only};
use corten_core::{DType, Result, ensure};
use corten_ops::composite::support::type_id_name;
use corten_ops::{Tensor, op};

/// Product of two matrices of bytes, those of the second one with signs, in integers of 32 bits.
///
/// # Errors
/// `Runtime` when rank, shape or dtype do not fit.
pub fn int_mm(self_: &Tensor, mat2: &Tensor) -> Result<Tensor> {
    let sizes = check_int_mm(self_, mat2)?;
    let out = empty_as(&sizes, self_, DType::Int32)?;
    multiply_bytes(&out, self_, mat2)?;
    Ok(out)
}

/// [`int_mm`] into a given tensor, which is not resized.
///
/// # Errors
/// As for `int_mm`, and `Runtime` when `out` is not a contiguous `int32` matrix of the shape.
pub fn int_mm_out(self_: &Tensor, mat2: &Tensor, out: &Tensor) -> Result<Tensor> {
    let sizes = check_int_mm(self_, mat2)?;
    ensure!(
        out.dtype() == DType::Int32,
        Runtime,
        "int_mm_out_cpu: Expected result dtype to be of type kInt but got {}",
        type_id_name(out.dtype())
    );
    for (dim, size) in sizes.into_iter().enumerate() {
        let got = out.size(dim as i64)?;
        ensure!(
            got == size,
            Runtime,
            "int_mm_out_cpu: Expected result.size({dim}) to be {size} but got {got}"
        );
    }
    ensure!(
        out.dim() == 2,
        Runtime,
        "int_mm_out_cpu: Expected result to be of dimension 2 but got {}",
        out.dim()
    );
    ensure!(out.is_contiguous(), Runtime, "int_mm_out_cpu: Expected result to be contiguous.");
    if shares_memory(out, &[self_, mat2]) {
        return op::copy_(out, &int_mm(self_, mat2)?, false);
    }
    multiply_bytes(out, self_, mat2)?;
    Ok(out.clone())
}

fn multiply_bytes(out: &Tensor, a: &Tensor, b: &Tensor) -> Result<()> {
    if is_shape_only(out) {
        return Ok(());
    }
    let access = acquire(out, a, b)?;
    let (c, b) = (MatMut::of(&access, 0, out)?, Mat::<i8>::of(&access, 2, b)?);
    match a.dtype() {
        DType::UInt8 => gemm_of_bytes(c, Mat::<u8>::of(&access, 1, a)?, b),
        _ => gemm_of_bytes(c, Mat::<i8>::of(&access, 1, a)?, b),
    }
}

fn check_int_mm(self_: &Tensor, mat2: &Tensor) -> Result<[i64; 2]> {
    ensure!(
        self_.dim() == 2,
        Runtime,
        "_int_mm: self must be a matrix, got {}-D tensor",
        self_.dim()
    );
    // A vector has no second dimension, which is what PyTorch says of it.
    mat2.size(1)?;
    let sizes = check_any_mm("_int_mm", self_, mat2)?;
    ensure!(
        matches!(self_.dtype(), DType::Int8 | DType::UInt8),
        Runtime,
        "int_mm_out_cpu: Expected self dtype to be int8 or uint8 but got {}",
        type_id_name(self_.dtype())
    );
    ensure!(
        mat2.dtype() == DType::Int8,
        Runtime,
        "int_mm_out_cpu: Expected mat2 dtype to be of type int8 but got {}",
        type_id_name(mat2.dtype())
    );
    Ok(sizes)
}

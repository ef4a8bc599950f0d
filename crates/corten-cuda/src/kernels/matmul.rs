//! Products of matrices and vectors.

use crate::kernel::{Argument, Template, parameters};
use crate::launch::Shape;
use crate::operands::{Operands, empty, on_meta};
use crate::pointwise::Numbers;
use crate::stream::Stream;
use crate::text;
use corten_core::{Access, DType, Result, Scalar, ensure, not_implemented_for};
use corten_ops::{Tensor, op};

static GEMM: Template = Template { name: "gemm", text: &[text::GEMM] };

/// The factors of `alpha * a @ b + beta * c`.
#[derive(Clone, Copy)]
struct Factors {
    alpha: Scalar,
    beta: Scalar,
}

const PRODUCT: Factors = Factors { alpha: Scalar::Int(1), beta: Scalar::Int(0) };

/// `GemmShape` of `gemm.cuh`.
#[repr(C)]
#[derive(Clone, Copy)]
struct GemmShape {
    sizes: [u32; 4],
    a: [i64; 3],
    b: [i64; 3],
    c: [i64; 3],
}

/// Batch, rows, columns and their strides of a matrix or a batch.
fn matrix(tensor: &Tensor) -> ([i64; 3], [i64; 3]) {
    let (sizes, strides) = (tensor.sizes(), tensor.strides());
    match sizes.len() {
        3 => ([sizes[0], sizes[1], sizes[2]], [strides[0], strides[1], strides[2]]),
        2 => ([1, sizes[0], sizes[1]], [0, strides[0], strides[1]]),
        1 => ([1, sizes[0], 1], [0, strides[0], 0]),
        _ => ([1, 1, 1], [0, 0, 0]),
    }
}

/// `out = alpha * a @ b + beta * out`; the shapes fit, a vector is a column.
fn multiply(out: &Tensor, a: &Tensor, b: &Tensor, factors: Factors) -> Result<()> {
    let (result, dtype) = (out.dtype(), a.dtype());
    if dtype == DType::Bool || dtype.itemsize() == 1 && dtype.is_floating_point() {
        return Err(not_implemented_for("addmm_cuda", dtype));
    }
    let ([batches, m, n], c_strides) = matrix(out);
    let (([_, _, k], a_strides), (_, b_strides)) = (matrix(a), matrix(b));
    if out.numel() == 0 {
        return Ok(());
    }
    let fits = [batches, m, n, k].iter().all(|&size| size <= i64::from(i32::MAX));
    ensure!(fits, Runtime, "CUDA products take at most 2^31 - 1 rows, columns and batches");
    let mut shape = GemmShape {
        sizes: [batches as u32, m as u32, n as u32, k as u32],
        a: a_strides,
        b: b_strides,
        c: c_strides,
    };
    let mut numbers = Numbers::of(&[factors.alpha, factors.beta], result)?;
    let held = Operands::hold(&[(out, Access::Write), (a, Access::Read), (b, Access::Read)])?;
    let (mut c_at, mut a_at, mut b_at) = (held.at(0), held.at(1), held.at(2));
    let tiles = (m as u64).div_ceil(64) * (n as u64).div_ceil(64);
    let launched = Shape {
        grid: [u32::try_from(tiles).unwrap_or(u32::MAX), (batches as u32).min(65535), 1],
        block: [256, 1, 1],
        shared: 0,
    };
    let arguments = [Argument::Storage(result), Argument::Storage(dtype), Argument::Value(result)];
    let stream = Stream::current(out.device().index);
    // SAFETY: the strides stay within the tensors, which are held.
    unsafe {
        let parameters = parameters!(shape, a_at, b_at, c_at, numbers);
        GEMM.launch(&arguments, launched, stream, parameters)?;
    }
    drop(held);
    Ok(())
}

/// The product of two matrices.
///
/// # Errors
/// `Runtime` when rank, shape or dtype do not fit; for the functions below likewise.
pub fn mm(self_: &Tensor, mat2: &Tensor) -> Result<Tensor> {
    let planned = op::mm(&on_meta(self_)?, &on_meta(mat2)?)?;
    let out = empty(&planned.sizes(), self_.dtype(), self_)?;
    multiply(&out, self_, mat2, PRODUCT)?;
    Ok(out)
}

/// The product of two matrices of bytes, in 32 bits.
pub fn int_mm(self_: &Tensor, mat2: &Tensor) -> Result<Tensor> {
    let planned = op::_int_mm(&on_meta(self_)?, &on_meta(mat2)?)?;
    let out = empty(&planned.sizes(), DType::Int32, self_)?;
    multiply(&out, self_, mat2, PRODUCT)?;
    Ok(out)
}

/// The products of two batches of matrices.
pub fn bmm(self_: &Tensor, mat2: &Tensor) -> Result<Tensor> {
    let planned = op::bmm(&on_meta(self_)?, &on_meta(mat2)?)?;
    let out = empty(&planned.sizes(), self_.dtype(), self_)?;
    multiply(&out, self_, mat2, PRODUCT)?;
    Ok(out)
}

/// The product of a matrix and a vector.
pub fn mv(self_: &Tensor, vec: &Tensor) -> Result<Tensor> {
    let planned = op::mv(&on_meta(self_)?, &on_meta(vec)?)?;
    let out = empty(&planned.sizes(), self_.dtype(), self_)?;
    multiply(&out, self_, vec, PRODUCT)?;
    Ok(out)
}

/// The sum of the products of two vectors.
pub fn dot(self_: &Tensor, tensor: &Tensor) -> Result<Tensor> {
    op::dot(&on_meta(self_)?, &on_meta(tensor)?)?;
    let out = empty(&[], self_.dtype(), self_)?;
    multiply(&out, &op::unsqueeze(self_, 0)?, tensor, PRODUCT)?;
    Ok(out)
}

/// [`dot`] with the first vector conjugated.
pub fn vdot(self_: &Tensor, other: &Tensor) -> Result<Tensor> {
    match self_.dtype().is_complex() {
        true => op::dot(&op::conj_physical(self_)?, other),
        false => dot(self_, other),
    }
}

/// A tensor of the product's shape that holds `self`, which is not read where `beta` is 0.
fn started(self_: &Tensor, planned: &Tensor, beta: Scalar) -> Result<Tensor> {
    let sizes = planned.sizes();
    let out = empty(&sizes, self_.dtype(), self_)?;
    match beta.to_complex() == corten_core::Complex::new(0.0, 0.0) {
        true => Ok(out),
        false => op::copy_(&out, &op::expand(self_, &sizes, false)?, false),
    }
}

/// `beta * self + alpha * mat1 @ mat2`.
pub fn addmm(
    self_: &Tensor,
    mat1: &Tensor,
    mat2: &Tensor,
    beta: Scalar,
    alpha: Scalar,
) -> Result<Tensor> {
    let planned = op::addmm(&on_meta(self_)?, &on_meta(mat1)?, &on_meta(mat2)?, beta, alpha)?;
    let out = started(self_, &planned, beta)?;
    multiply(&out, mat1, mat2, Factors { alpha, beta })?;
    Ok(out)
}

/// The rectifier of [`addmm`], or GELU of it.
pub fn addmm_activation(
    self_: &Tensor,
    mat1: &Tensor,
    mat2: &Tensor,
    beta: Scalar,
    alpha: Scalar,
    use_gelu: bool,
) -> Result<Tensor> {
    let sums = addmm(self_, mat1, mat2, beta, alpha)?;
    if use_gelu { op::gelu_(&sums, "none") } else { op::relu_(&sums) }
}

/// `beta * self + alpha * mat @ vec`.
pub fn addmv(
    self_: &Tensor,
    mat: &Tensor,
    vec: &Tensor,
    beta: Scalar,
    alpha: Scalar,
) -> Result<Tensor> {
    let planned = op::addmv(&on_meta(self_)?, &on_meta(mat)?, &on_meta(vec)?, beta, alpha)?;
    let out = started(self_, &planned, beta)?;
    multiply(&out, mat, vec, Factors { alpha, beta })?;
    Ok(out)
}

/// `beta * self + alpha * bmm(batch1, batch2)`.
pub fn baddbmm(
    self_: &Tensor,
    batch1: &Tensor,
    batch2: &Tensor,
    beta: Scalar,
    alpha: Scalar,
) -> Result<Tensor> {
    let [first, second] = [on_meta(batch1)?, on_meta(batch2)?];
    let planned = op::baddbmm(&on_meta(self_)?, &first, &second, beta, alpha)?;
    let out = started(self_, &planned, beta)?;
    multiply(&out, batch1, batch2, Factors { alpha, beta })?;
    Ok(out)
}

/// `beta * self` plus `alpha` times the sum of a batch of products.
pub fn addbmm(
    self_: &Tensor,
    batch1: &Tensor,
    batch2: &Tensor,
    beta: Scalar,
    alpha: Scalar,
) -> Result<Tensor> {
    let [first, second] = [on_meta(batch1)?, on_meta(batch2)?];
    let planned = op::addbmm(&on_meta(self_)?, &first, &second, beta, alpha)?;
    let out = started(self_, &planned, beta)?;
    // The sum over the batch is a product of one row of matrices with one column of them.
    let [count, rows, steps] = [batch1.size(0)?, batch1.size(1)?, batch1.size(2)?];
    let left = op::reshape(&op::transpose_int(batch1, 0, 1)?, &[rows, count * steps])?;
    let right = op::reshape(batch2, &[count * steps, batch2.size(2)?])?;
    multiply(&out, &left, &right, Factors { alpha, beta })?;
    Ok(out)
}

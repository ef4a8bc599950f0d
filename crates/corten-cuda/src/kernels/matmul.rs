//! Products of matrices and vectors.

use crate::blas::{Activation, Product};
use crate::operands::{empty, on_meta};
use corten_core::{DType, Result, Scalar};
use corten_ops::{Tensor, iter, op};

/// The shape of the product of two matrices of one dtype, found without a call; `None` where something does
/// not fit and the operator has to say what.
fn sizes_of(a: &Tensor, b: &Tensor) -> Option<[i64; 2]> {
    let ([rows, depth], _) = a.matrix_geometry()?;
    let ([steps, columns], _) = b.matrix_geometry()?;
    (depth == steps && a.dtype() == b.dtype()).then_some([rows, columns])
}

/// Whether writing to `out` could change an input or another element of `out`.
fn shares_memory(out: &Tensor, inputs: &[&Tensor]) -> bool {
    !out.is_non_overlapping_and_dense() || inputs.iter().any(|input| out.is_alias_of(input))
}

/// The product of two matrices.
///
/// # Errors
/// `Runtime` when rank, shape or dtype do not fit; for the functions below likewise.
pub fn mm(self_: &Tensor, mat2: &Tensor) -> Result<Tensor> {
    let out = match sizes_of(self_, mat2) {
        Some(sizes) => empty(&sizes, self_.dtype(), self_)?,
        None => {
            let planned = op::mm(&on_meta(self_)?, &on_meta(mat2)?)?;
            empty(&planned.sizes(), self_.dtype(), self_)?
        }
    };
    Product::of(&out, self_, mat2).compute()?;
    Ok(out)
}

/// [`mm`] into a given tensor.
pub fn mm_out(self_: &Tensor, mat2: &Tensor, out: &Tensor) -> Result<Tensor> {
    let planned = op::mm_out(&on_meta(self_)?, &on_meta(mat2)?, &on_meta(out)?)?;
    if out.device() != self_.device() || shares_memory(out, &[self_, mat2]) {
        return corten_ops::derived::write_out(out, &mm(self_, mat2)?);
    }
    iter::resize_output(out, &planned.sizes())?;
    Product::of(out, self_, mat2).compute()?;
    Ok(out.clone())
}

/// The product of two matrices of bytes, in 32 bits.
pub fn int_mm(self_: &Tensor, mat2: &Tensor) -> Result<Tensor> {
    let planned = op::_int_mm(&on_meta(self_)?, &on_meta(mat2)?)?;
    let out = empty(&planned.sizes(), DType::Int32, self_)?;
    Product::of(&out, self_, mat2).compute()?;
    Ok(out)
}

/// The products of two batches of matrices.
pub fn bmm(self_: &Tensor, mat2: &Tensor) -> Result<Tensor> {
    let planned = op::bmm(&on_meta(self_)?, &on_meta(mat2)?)?;
    let out = empty(&planned.sizes(), self_.dtype(), self_)?;
    Product::of(&out, self_, mat2).compute()?;
    Ok(out)
}

/// The product of a matrix and a vector.
pub fn mv(self_: &Tensor, vec: &Tensor) -> Result<Tensor> {
    let planned = op::mv(&on_meta(self_)?, &on_meta(vec)?)?;
    let out = empty(&planned.sizes(), self_.dtype(), self_)?;
    Product::of(&out, self_, vec).compute()?;
    Ok(out)
}

/// The sum of the products of two vectors.
pub fn dot(self_: &Tensor, tensor: &Tensor) -> Result<Tensor> {
    op::dot(&on_meta(self_)?, &on_meta(tensor)?)?;
    let out = empty(&[], self_.dtype(), self_)?;
    Product::of(&out, &op::unsqueeze(self_, 0)?, tensor).compute()?;
    Ok(out)
}

/// [`dot`] with the first vector conjugated.
pub fn vdot(self_: &Tensor, other: &Tensor) -> Result<Tensor> {
    match self_.dtype().is_complex() {
        true => op::dot(&op::conj_physical(self_)?, other),
        false => dot(self_, other),
    }
}

/// [`addmm`] with an activation.
fn added(
    self_: &Tensor,
    [mat1, mat2]: [&Tensor; 2],
    [beta, alpha]: [Scalar; 2],
    activation: Activation,
) -> Result<Tensor> {
    let out = match sizes_of(mat1, mat2) {
        Some(sizes) if self_.dtype() == mat1.dtype() && broadcasts(self_, &sizes) => {
            empty(&sizes, self_.dtype(), self_)?
        }
        _ => {
            let (first, second) = (on_meta(mat1)?, on_meta(mat2)?);
            let planned = op::addmm(&on_meta(self_)?, &first, &second, beta, alpha)?;
            empty(&planned.sizes(), self_.dtype(), self_)?
        }
    };
    let product = Product::of(&out, mat1, mat2).plus(self_, beta, alpha);
    Product { activation, ..product }.compute()?;
    Ok(out)
}

/// Whether a tensor is a row or a matrix that is broadcast to a shape without a check of the operator.
fn broadcasts(tensor: &Tensor, sizes: &[i64; 2]) -> bool {
    match tensor.matrix_geometry() {
        Some((own, _)) => own == *sizes,
        None => tensor.dim() == 1 && tensor.numel() == sizes[1],
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
    added(self_, [mat1, mat2], [beta, alpha], Activation::None)
}

/// [`addmm`] in place.
pub fn addmm_(
    self_: &Tensor,
    mat1: &Tensor,
    mat2: &Tensor,
    beta: Scalar,
    alpha: Scalar,
) -> Result<Tensor> {
    op::addmm_(&on_meta(self_)?, &on_meta(mat1)?, &on_meta(mat2)?, beta, alpha)?;
    add_in_place(self_, [mat1, mat2], [beta, alpha])
}

/// `self = beta * self + alpha * a @ b`, in place where that is safe.
fn add_in_place(
    self_: &Tensor,
    [a, b]: [&Tensor; 2],
    [beta, alpha]: [Scalar; 2],
) -> Result<Tensor> {
    if !shares_memory(self_, &[a, b]) {
        Product::of(self_, a, b).plus(self_, beta, alpha).compute()?;
        return Ok(self_.clone());
    }
    let out = op::clone(self_, None)?;
    Product::of(&out, a, b).plus(&out, beta, alpha).compute()?;
    op::copy_(self_, &out, false)
}

/// The rectifier of [`addmm`], or GELU of it, which is approximated by tanh as in cuBLASLt and PyTorch.
pub fn addmm_activation(
    self_: &Tensor,
    mat1: &Tensor,
    mat2: &Tensor,
    beta: Scalar,
    alpha: Scalar,
    use_gelu: bool,
) -> Result<Tensor> {
    let activation = if use_gelu { Activation::Gelu } else { Activation::Relu };
    if self_.dtype().is_floating_point() {
        return added(self_, [mat1, mat2], [beta, alpha], activation);
    }
    let sums = addmm(self_, mat1, mat2, beta, alpha)?;
    if use_gelu { op::gelu_(&sums, "tanh") } else { op::relu_(&sums) }
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
    let out = empty(&planned.sizes(), self_.dtype(), self_)?;
    Product::of(&out, mat, vec).plus(self_, beta, alpha).compute()?;
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
    let out = empty(&planned.sizes(), self_.dtype(), self_)?;
    Product::of(&out, batch1, batch2).plus(self_, beta, alpha).compute()?;
    Ok(out)
}

/// [`baddbmm`] in place.
pub fn baddbmm_(
    self_: &Tensor,
    batch1: &Tensor,
    batch2: &Tensor,
    beta: Scalar,
    alpha: Scalar,
) -> Result<Tensor> {
    let [first, second] = [on_meta(batch1)?, on_meta(batch2)?];
    op::baddbmm_(&on_meta(self_)?, &first, &second, beta, alpha)?;
    add_in_place(self_, [batch1, batch2], [beta, alpha])
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
    let out = empty(&planned.sizes(), self_.dtype(), self_)?;
    // The sum over the batch is a product of one row of matrices with one column of them.
    let [count, rows, steps] = [batch1.size(0)?, batch1.size(1)?, batch1.size(2)?];
    let left = op::reshape(&op::transpose_int(batch1, 0, 1)?, &[rows, count * steps])?;
    let right = op::reshape(batch2, &[count * steps, batch2.size(2)?])?;
    Product::of(&out, &left, &right).plus(self_, beta, alpha).compute()?;
    Ok(out)
}

//! Products of matrices and vectors.

use super::support::{empty, expect_dtype, is_shape_only};
use crate::gemm::{
    Base, Batch, BatchMut, Factors, Mat, MatElement, MatMut, batched, gemm, gemm_from,
};
use corten_core::{Access, AccessSet, Complex, DType, Result, Scalar, bail, ensure, match_dtype};
use corten_ops::composite::support::type_id_name;
use corten_ops::{Tensor, iter, op};

mod bytes;

pub use bytes::{int_mm, int_mm_out};

/// Product of two matrices.
///
/// # Errors
/// `Runtime` when rank, shape or dtype do not fit.
pub fn mm(self_: &Tensor, mat2: &Tensor) -> Result<Tensor> {
    let out = empty(&check_mm("mm", self_, mat2)?, self_)?;
    multiply("addmm_impl_cpu_", &out, self_, mat2, Factors::PRODUCT)?;
    Ok(out)
}

/// [`mm`] into a given tensor.
///
/// # Errors
/// As for `mm`, and `Runtime` for another dtype of `out`.
pub fn mm_out(self_: &Tensor, mat2: &Tensor, out: &Tensor) -> Result<Tensor> {
    let sizes = check_mm("mm", self_, mat2)?;
    ensure!(
        out.dtype() == self_.dtype(),
        Runtime,
        "Expected out tensor to have dtype {}, but got {} instead",
        type_id_name(self_.dtype()),
        type_id_name(out.dtype())
    );
    if shares_memory(out, &[self_, mat2]) {
        return corten_ops::derived::write_out(out, &mm(self_, mat2)?);
    }
    iter::resize_output(out, &sizes)?;
    multiply("addmm_impl_cpu_", out, self_, mat2, Factors::PRODUCT)?;
    Ok(out.clone())
}

/// Products of two batches of matrices.
///
/// # Errors
/// `Runtime` when rank, shape or dtype do not fit.
pub fn bmm(self_: &Tensor, mat2: &Tensor) -> Result<Tensor> {
    let out = empty(&check_bmm(self_, mat2)?, self_)?;
    expect_dtype(mat2, self_.dtype())?;
    multiply("bmm", &out, self_, mat2, Factors::PRODUCT)?;
    Ok(out)
}

/// Product of a matrix and a vector.
///
/// # Errors
/// `Runtime` when rank, shape or dtype do not fit.
pub fn mv(self_: &Tensor, vec: &Tensor) -> Result<Tensor> {
    let rows = self_.sizes().first().copied().unwrap_or(1);
    let out = empty(&[rows], vec)?;
    check_addmv(&out, self_, vec)?;
    multiply("addmv_impl_cpu", &out, self_, vec, Factors::PRODUCT)?;
    Ok(out)
}

/// Sum of the products of two vectors.
///
/// # Errors
/// `Runtime` when rank, length or dtype do not fit.
pub fn dot(self_: &Tensor, tensor: &Tensor) -> Result<Tensor> {
    check_dot(self_, tensor)?;
    let out = empty(&[], self_)?;
    let row = row_of(self_)?;
    multiply("dot", &out, &row, tensor, Factors::PRODUCT)?;
    Ok(out)
}

/// [`dot`] with the first vector conjugated.
///
/// # Errors
/// As for `dot`.
pub fn vdot(self_: &Tensor, other: &Tensor) -> Result<Tensor> {
    if !self_.dtype().is_complex() {
        return dot(self_, other);
    }
    check_dot(self_, other)?;
    dot(&op::conj(self_)?, other)
}

/// `beta * self + alpha * mat1 @ mat2`.
///
/// # Errors
/// `Runtime` when rank, shape or dtype do not fit.
pub fn addmm(
    self_: &Tensor,
    mat1: &Tensor,
    mat2: &Tensor,
    beta: Scalar,
    alpha: Scalar,
) -> Result<Tensor> {
    let sizes = check_addmm(self_, mat1, mat2)?;
    if is_one(alpha) && is_one(beta) && is_dense_row(self_, &sizes) {
        match self_.dtype() {
            DType::Float32 => return with_row::<f32>(self_, mat1, mat2, &sizes),
            DType::Float64 => return with_row::<f64>(self_, mat1, mat2, &sizes),
            _ => {}
        }
    }
    let out = start_from(self_, &sizes, beta)?;
    multiply("addmm_impl_cpu_", &out, mat1, mat2, Factors { alpha, beta })?;
    Ok(out)
}

/// `row + a @ b`: the sums meet the row where they are stored, as if it had been there.
fn with_row<T: MatElement>(row: &Tensor, a: &Tensor, b: &Tensor, sizes: &[i64]) -> Result<Tensor> {
    let out = empty(sizes, row)?;
    if is_shape_only(&out) {
        return Ok(out);
    }
    let access = AccessSet::acquire(&[
        (&out, Access::Write),
        (a, Access::Read),
        (b, Access::Read),
        (row, Access::Read),
    ])?;
    let (a, b) = (Mat::<T>::of(&access, 1, a)?, Mat::<T>::of(&access, 2, b)?);
    let c = MatMut::of(&access, 0, &out)?;
    gemm_from(None, c, a, b, Base::PerColumn(access.read(3)?))?;
    drop(access);
    Ok(out)
}

/// `_addmm_activation`: the rectifier of [`addmm`], or GELU of it, in place. Rejected: the activation of
/// each tile as it is stored, which takes as long.
///
/// # Errors
/// As for [`addmm`], and those of the activation.
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

fn is_one(factor: Scalar) -> bool {
    match factor {
        Scalar::Int(factor) => factor == 1,
        factor => factor.to_complex() == Complex::new(1.0, 0.0),
    }
}

/// [`addmm`] in place.
///
/// # Errors
/// As for `addmm`, and `Runtime` when `self` has not the product's shape.
pub fn addmm_(
    self_: &Tensor,
    mat1: &Tensor,
    mat2: &Tensor,
    beta: Scalar,
    alpha: Scalar,
) -> Result<Tensor> {
    check_addmm(self_, mat1, mat2)?;
    check_inplace(self_, &[mat1.sizes()[0], mat2.sizes()[1]])?;
    add_in_place("addmm_impl_cpu_", self_, mat1, mat2, Factors { alpha, beta })
}

/// `beta * self + alpha * mat @ vec`.
///
/// # Errors
/// `Runtime` when rank, shape or dtype do not fit.
pub fn addmv(
    self_: &Tensor,
    mat: &Tensor,
    vec: &Tensor,
    beta: Scalar,
    alpha: Scalar,
) -> Result<Tensor> {
    check_addmv(self_, mat, vec)?;
    let out = start_from(self_, &[mat.sizes()[0]], beta)?;
    multiply("addmv_impl_cpu", &out, mat, vec, Factors { alpha, beta })?;
    Ok(out)
}

/// `beta * self + alpha * bmm(batch1, batch2)`.
///
/// # Errors
/// `Runtime` when rank, shape or dtype do not fit.
pub fn baddbmm(
    self_: &Tensor,
    batch1: &Tensor,
    batch2: &Tensor,
    beta: Scalar,
    alpha: Scalar,
) -> Result<Tensor> {
    op::expand(self_, &[batch1.size(0)?, batch1.size(1)?, batch2.size(2)?], false)?;
    let sizes = check_baddbmm(self_, batch1, batch2)?;
    let out = start_from(self_, &sizes, beta)?;
    multiply("baddbmm", &out, batch1, batch2, Factors { alpha, beta })?;
    Ok(out)
}

/// [`baddbmm`] in place.
///
/// # Errors
/// As for `baddbmm`, and `Runtime` when `self` has not the product's shape.
pub fn baddbmm_(
    self_: &Tensor,
    batch1: &Tensor,
    batch2: &Tensor,
    beta: Scalar,
    alpha: Scalar,
) -> Result<Tensor> {
    let sizes = check_baddbmm(self_, batch1, batch2)?;
    check_inplace(self_, &sizes)?;
    add_in_place("baddbmm", self_, batch1, batch2, Factors { alpha, beta })
}

/// `beta * self` plus `alpha` times the sum of a batch of products.
///
/// # Errors
/// `Runtime` when rank, shape or dtype do not fit.
pub fn addbmm(
    self_: &Tensor,
    batch1: &Tensor,
    batch2: &Tensor,
    beta: Scalar,
    alpha: Scalar,
) -> Result<Tensor> {
    let [count, rows, cols] = check_addbmm(batch1, batch2)?;
    ensure_same_dtype(self_, batch1)?;
    ensure_same_dtype(batch1, batch2)?;
    let out = start_from(self_, &[rows, cols], beta)?;
    if count == 0 {
        return op::mul_scalar(&out, beta);
    }
    add_products(&out, batch1, batch2, Factors { alpha, beta })?;
    Ok(out)
}

fn add_products(out: &Tensor, batch1: &Tensor, batch2: &Tensor, factors: Factors) -> Result<()> {
    if is_shape_only(out) {
        return Ok(());
    }
    let access = acquire(out, batch1, batch2)?;
    match_dtype!(out.dtype(), "addmm_impl_cpu_", Summable, T => {
        let (a, b) = (Batch::<T>::of(&access, 1, batch1)?, Batch::<T>::of(&access, 2, batch2)?);
        for index in 0..a.len() {
            let c = BatchMut::of(&access, 0, out)?.into_first();
            let factors = if index == 0 { factors } else { Factors { beta: Scalar::Int(1), ..factors } };
            gemm(c, a.get(index), b.get(index), factors)?;
        }
        Ok(())
    })
}

/// A tensor of the product's shape that holds `self`, unless `beta` makes that pointless.
fn start_from(self_: &Tensor, sizes: &[i64], beta: Scalar) -> Result<Tensor> {
    if beta.to_bool() && is_dense_row(self_, sizes) {
        return repeated_row(self_, sizes);
    }
    let expanded = op::expand(self_, sizes, false)?;
    let out = empty(sizes, self_)?;
    if beta.to_bool() {
        op::copy_(&out, &expanded, false)?;
    } else {
        op::zero_(&out)?;
    }
    Ok(out)
}

/// Whether the tensor is a dense vector as long as the rows, like the bias of a linear layer.
fn is_dense_row(self_: &Tensor, sizes: &[i64]) -> bool {
    self_.dim() == 1
        && self_.numel() > 0
        && sizes.last() == Some(&self_.numel())
        && self_.is_contiguous()
        && matches!(
            self_.dtype(),
            DType::Float32 | DType::Float64 | DType::Float16 | DType::BFloat16
        )
        && !self_.is_neg()
}

/// [`start_from`] for a dense row: copied without an iterator, which costs more than small products.
fn repeated_row(row: &Tensor, sizes: &[i64]) -> Result<Tensor> {
    let out = empty(sizes, row)?;
    if is_shape_only(&out) {
        return Ok(out);
    }
    match_dtype!(row.dtype(), "addmm_impl_cpu_", Summable, T => {
        let access = AccessSet::acquire(&[(&out, Access::Write), (row, Access::Read)])?;
        let row = access.read::<T>(1)?;
        access.write::<T>(0)?.chunks_exact_mut(row.len()).for_each(|out| out.copy_from_slice(row));
        Ok(())
    })?;
    Ok(out)
}

/// `out = beta * out + alpha * a @ b` for matrices or batches of them; shapes fit.
fn multiply(
    name: &'static str,
    out: &Tensor,
    a: &Tensor,
    b: &Tensor,
    factors: Factors,
) -> Result<()> {
    if is_shape_only(out) || out.numel() == 0 {
        return Ok(());
    }
    let access = acquire(out, a, b)?;
    match_dtype!(out.dtype(), name, Summable, T => {
        factors.alpha.checked_to::<T>(name)?;
        factors.beta.checked_to::<T>(name)?;
        multiply_as::<T>(&access, out, a, b, factors)
    })
}

fn multiply_as<T: MatElement>(
    access: &AccessSet<'_>,
    out: &Tensor,
    a: &Tensor,
    b: &Tensor,
    factors: Factors,
) -> Result<()> {
    let (a, b) = (Batch::<T>::of(access, 1, a)?, Batch::<T>::of(access, 2, b)?);
    batched(BatchMut::of(access, 0, out)?, &a, &b, factors)
}

fn acquire<'a>(out: &'a Tensor, a: &'a Tensor, b: &'a Tensor) -> Result<AccessSet<'a>> {
    AccessSet::acquire(&[(out, Access::Write), (a, Access::Read), (b, Access::Read)])
}

/// Writes straight into `self` where that is safe, else through a temporary.
fn add_in_place(
    name: &'static str,
    self_: &Tensor,
    a: &Tensor,
    b: &Tensor,
    factors: Factors,
) -> Result<Tensor> {
    if !shares_memory(self_, &[a, b]) && !self_.is_conj() && !self_.is_neg() {
        multiply(name, self_, a, b, factors)?;
        return Ok(self_.clone());
    }
    let out = op::clone(self_, None)?;
    multiply(name, &out, a, b, factors)?;
    op::copy_(self_, &out, false)
}

/// Whether writing to `out` could change an input or another element of `out`.
fn shares_memory(out: &Tensor, inputs: &[&Tensor]) -> bool {
    !out.is_non_overlapping_and_dense() || inputs.iter().any(|input| out.is_alias_of(input))
}

/// A vector as a matrix of one row.
fn row_of(vector: &Tensor) -> Result<Tensor> {
    let (size, stride) = (vector.sizes()[0], vector.strides()[0]);
    Ok(vector.as_view_of(&[1, size], &[0, stride], vector.storage_offset())?.into())
}

/// The shape of the product of two matrices.
fn check_mm(name: &str, a: &Tensor, b: &Tensor) -> Result<[i64; 2]> {
    if let (Some(([rows, depth], _)), Some(([steps, cols], _))) =
        (a.matrix_geometry(), b.matrix_geometry())
        && depth == steps
        && a.dtype() == b.dtype()
    {
        return Ok([rows, cols]);
    }
    check_any_mm(name, a, b)
}

#[cold]
fn check_any_mm(name: &str, a: &Tensor, b: &Tensor) -> Result<[i64; 2]> {
    ensure!(a.dim() == 2, Runtime, "{name}: self must be a matrix, got {}-D tensor", a.dim());
    ensure!(b.dim() == 2, Runtime, "{name}: mat2 must be a matrix, got {}-D tensor", b.dim());
    ensure!(
        a.size(1)? == b.size(0)?,
        Runtime,
        "{name}: mat1 and mat2 shapes cannot be multiplied ({}x{} and {}x{})",
        a.size(0)?,
        a.size(1)?,
        b.size(0)?,
        b.size(1)?
    );
    ensure!(
        name != "mm" || a.dtype() == b.dtype(),
        Runtime,
        "expected m1 and m2 to have the same dtype, but got: {} != {}",
        type_id_name(a.dtype()),
        type_id_name(b.dtype())
    );
    Ok([a.size(0)?, b.size(1)?])
}

fn check_addmm(self_: &Tensor, mat1: &Tensor, mat2: &Tensor) -> Result<[i64; 2]> {
    let sizes = check_mm("addmm", mat1, mat2)?;
    ensure_same_dtype(self_, mat2)?;
    ensure!(
        mat1.dtype() == mat2.dtype(),
        Runtime,
        "mat1 and mat2 must have the same dtype, but got {} and {}",
        mat1.dtype().type_name(),
        mat2.dtype().type_name()
    );
    Ok(sizes)
}

fn ensure_same_dtype(self_: &Tensor, mat2: &Tensor) -> Result<()> {
    ensure!(
        self_.dtype() == mat2.dtype(),
        Runtime,
        "self and mat2 must have the same dtype, but got {} and {}",
        self_.dtype().type_name(),
        mat2.dtype().type_name()
    );
    Ok(())
}

/// The shape of the product of two batches.
fn check_bmm(batch1: &Tensor, batch2: &Tensor) -> Result<[i64; 3]> {
    ensure!(batch1.dim() == 3, Runtime, "batch1 must be a 3D tensor");
    ensure!(batch2.dim() == 3, Runtime, "batch2 must be a 3D tensor");
    let (left, right) = (batch1.sizes(), batch2.sizes());
    ensure!(
        left[0] == right[0] && left[2] == right[1],
        Runtime,
        "Expected size for first two dimensions of batch2 tensor to be: [{}, {}] but got: [{}, {}].",
        left[0],
        left[2],
        right[0],
        right[1]
    );
    Ok([left[0], left[1], right[2]])
}

fn check_baddbmm(self_: &Tensor, batch1: &Tensor, batch2: &Tensor) -> Result<[i64; 3]> {
    ensure!(
        self_.dtype() == batch1.dtype(),
        Runtime,
        "Input dtypes must be the same, got: input {}, batch1: {}, batch2: {}",
        type_id_name(self_.dtype()),
        type_id_name(batch1.dtype()),
        type_id_name(batch2.dtype())
    );
    let sizes = check_bmm(batch1, batch2)?;
    expect_dtype(batch2, batch1.dtype())?;
    Ok(sizes)
}

/// The number of products and the shape of their sum.
fn check_addbmm(batch1: &Tensor, batch2: &Tensor) -> Result<[i64; 3]> {
    ensure!(batch1.dim() == 3, Runtime, "batch1 must be a 3D tensor");
    ensure!(batch2.dim() == 3, Runtime, "batch2 must be a 3D tensor");
    let (left, right) = (batch1.sizes(), batch2.sizes());
    ensure!(
        left[0] == right[0],
        Runtime,
        "batch1 and batch2 must have same number of batches, got {} and {}",
        left[0],
        right[0]
    );
    ensure!(
        left[2] == right[1],
        Runtime,
        "Incompatible matrix sizes for bmm ({}x{} and {}x{})",
        left[1],
        left[2],
        right[1],
        right[2]
    );
    Ok([left[0], left[1], right[2]])
}

fn check_addmv(self_: &Tensor, mat: &Tensor, vec: &Tensor) -> Result<()> {
    ensure!(
        mat.dim() == 2 && vec.dim() == 1 && self_.dim() <= 1,
        Runtime,
        "vector + matrix @ vector expected, got {}, {}, {}",
        self_.dim(),
        mat.dim(),
        vec.dim()
    );
    let sizes = mat.sizes();
    let length = self_.numel();
    ensure!(
        sizes[1] == vec.numel() && (sizes[0] == length || length == 1),
        Runtime,
        "size mismatch, got input ({}), mat ({}x{}), vec ({})",
        length,
        sizes[0],
        sizes[1],
        vec.numel()
    );
    ensure!(
        self_.dtype() == mat.dtype() && mat.dtype() == vec.dtype(),
        Runtime,
        "addmv input tensors must have the same dtype, but got {}, {}, and {}",
        self_.dtype().type_name(),
        mat.dtype().type_name(),
        vec.dtype().type_name()
    );
    Ok(())
}

fn check_dot(self_: &Tensor, other: &Tensor) -> Result<()> {
    ensure!(
        self_.dim() == 1 && other.dim() == 1,
        Runtime,
        "1D tensors expected, but got {}D and {}D tensors",
        self_.dim(),
        other.dim()
    );
    ensure!(
        self_.dtype() == other.dtype(),
        Runtime,
        "dot : expected both vectors to have same dtype, but found {} and {}",
        self_.dtype().type_name(),
        other.dtype().type_name()
    );
    let (left, right) = (self_.numel(), other.numel());
    ensure!(
        left == right,
        Runtime,
        "inconsistent tensor size, expected tensor [{left}] and src [{right}] to have the same \
         number of elements, but got {left} and {right} elements respectively"
    );
    Ok(())
}

fn check_inplace(self_: &Tensor, sizes: &[i64]) -> Result<()> {
    if self_.sizes().as_slice() != sizes {
        bail!(
            Runtime,
            "Bad in-place call: input tensor size {:?} and output tensor size {:?} should match",
            self_.sizes().as_slice(),
            sizes
        );
    }
    Ok(())
}

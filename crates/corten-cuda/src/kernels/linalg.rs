//! Factorisations of matrices, and what is solved with them. Matrices are copied by columns, as LAPACK wants
//! them and PyTorch returns them, and worked on in place.

mod factor;
mod matrices;
mod solve;
mod spectral;

use crate::failure;
use crate::kernel::{Argument, Template, parameters};
use crate::launch::Shape;
use crate::operands::{Operands, contiguous, empty};
use crate::stream::Stream;
use crate::text;
use corten_core::{Access, DType, Device, Error, Result, ensure, err, warn_once};
use corten_ops::meta::linalg as shapes;
use corten_ops::{Tensor, op};
use matrices::{
    adjoint, by_columns, check_dtype, fitted, fitted_vectors, flat, flat_vectors, in_columns,
    set_diagonal,
};
use solve::Triangle;
use spectral::Trouble;
use std::sync::atomic::AtomicBool;

static LDL_FACTOR: Template = Template { name: "ldl_factor", text: &[text::LINALG, text::LDL] };
static PERMUTATION: Template = Template { name: "lu_permutation", text: factor::TEXT };

/// The sizes of the batch.
fn batch(tensor: &Tensor) -> Vec<i64> {
    let sizes = tensor.sizes();
    sizes[..sizes.len() - 2].to_vec()
}

/// `info` of a batch as a vector.
fn flat_info(info: &Tensor) -> Result<Tensor> {
    op::view(info, &[-1])
}

/// `A = L L^H` or `U^H U`, and the order of the first minor that is not positive.
///
/// # Errors
/// Those of the shapes; `LinAlg` where a matrix is not positive-definite, if that is checked;
/// `NotImplemented` for half precision; for the functions below likewise.
pub fn linalg_cholesky_ex(
    self_: &Tensor,
    upper: bool,
    check_errors: bool,
) -> Result<(Tensor, Tensor)> {
    let (out, info) = shapes::linalg_cholesky_ex(self_, upper, check_errors)?;
    check_dtype(self_, "cholesky_cuda")?;
    op::zero_(&info)?;
    if out.numel() == 0 {
        return Ok((out, info));
    }
    let work = if upper { by_columns(&adjoint(self_)?)? } else { op::copy_(&out, self_, false)? };
    factor::cholesky(&flat(&work)?, &flat_info(&info)?)?;
    let factors = op::tril(&work, 0)?;
    op::copy_(&out, &if upper { adjoint(&factors)? } else { factors }, false)?;
    if check_errors {
        shapes::check_info(&info, "linalg.cholesky_ex")?;
    }
    Ok((out, info))
}

/// `A X = B` for a triangular `A`, or `X A = B`.
///
/// # Errors
/// As [`linalg_cholesky_ex`].
pub fn linalg_solve_triangular(
    self_: &Tensor,
    b: &Tensor,
    upper: bool,
    left: bool,
    unitriangular: bool,
) -> Result<Tensor> {
    let out = shapes::linalg_solve_triangular(self_, b, upper, left, unitriangular)?;
    check_dtype(&out, "triangular_solve_cuda")?;
    if out.numel() == 0 {
        return Ok(out);
    }
    op::copy_(&out, b, false)?;
    let conjugated = self_.is_conj();
    let own = if conjugated { op::conj(self_)? } else { self_.clone() };
    let a = fitted(&own, &batch(&out))?;
    // Matrices that lie by rows are read as they are: the kernel takes both strides.
    let a = match a.is_contiguous() {
        true => op::transpose_int(&flat(&op::transpose_int(&a, -2, -1)?)?, -2, -1)?,
        false => flat(&in_columns(&a)?)?,
    };
    let x = flat(&out)?;
    let triangle = Triangle { upper: upper == left, unit: unitriangular, conjugated };
    match left {
        true => solve::solve_triangle(&a, &x, triangle)?,
        // `X A = B` is solved as `A^T X^T = B^T`.
        false => {
            let [a, x] = [&a, &x].map(|tensor| op::transpose_int(tensor, -2, -1));
            solve::solve_triangle(&a?, &x?, triangle)?;
        }
    }
    Ok(out)
}

/// `P A = L U` in one matrix, the rows exchanged, counted from 1, and the first zero of the diagonal of `U`,
/// counted from 1.
///
/// # Errors
/// As [`linalg_cholesky_ex`].
pub fn linalg_lu_factor_ex(
    a: &Tensor,
    pivot: bool,
    check_errors: bool,
) -> Result<(Tensor, Tensor, Tensor)> {
    let (out, pivots, info) = shapes::linalg_lu_factor_ex(a, pivot, check_errors)?;
    check_dtype(a, "lu_factor_cuda")?;
    op::zero_(&info)?;
    if a.numel() == 0 {
        return Ok((out, pivots, info));
    }
    op::copy_(&out, a, false)?;
    factor::lu(&flat(&out)?, &flat_vectors(&pivots)?, &flat_info(&info)?, pivot)?;
    if check_errors {
        shapes::check_info(&info, "torch.linalg.lu_factor_ex")?;
    }
    Ok((out, pivots, info))
}

/// Systems with matrices of which the factors are known. Pivots that are no rows are reported at the next
/// synchronisation.
///
/// # Errors
/// As [`linalg_cholesky_ex`].
pub fn linalg_lu_solve(
    lu: &Tensor,
    pivots: &Tensor,
    b: &Tensor,
    left: bool,
    adjoint: bool,
) -> Result<Tensor> {
    let out = shapes::linalg_lu_solve(lu, pivots, b, left, adjoint)?;
    if out.numel() == 0 {
        return Ok(out);
    }
    op::copy_(&out, b, false)?;
    // `X op(A) = B` is solved as `op(A)^T X^T = B^T`.
    let work = if left { out.clone() } else { op::transpose_int(&out, -2, -1)? };
    let batch = batch(&work);
    let factors = flat(&in_columns(&fitted(lu, &batch)?)?)?;
    let pivots = fitted_vectors(pivots, &batch)?;
    solve::lu_solve(&factors, &pivots, &flat(&work)?, [left == adjoint, adjoint])?;
    Ok(out)
}

/// The three factors of `A = P L U`, from those in one matrix.
///
/// # Errors
/// As [`linalg_cholesky_ex`].
pub fn lu_unpack(
    lu_data: &Tensor,
    lu_pivots: &Tensor,
    unpack_data: bool,
    unpack_pivots: bool,
) -> Result<(Tensor, Tensor, Tensor)> {
    let (p, l, u) = shapes::lu_unpack(lu_data, lu_pivots, unpack_data, unpack_pivots)?;
    let (rows, columns) = (lu_data.size(-2)?, lu_data.size(-1)?);
    let steps = rows.min(columns);
    if unpack_data {
        op::copy_(&u, &op::triu(&op::narrow(lu_data, -2, 0, steps)?, 0)?, false)?;
        op::copy_(&l, &op::tril(&op::narrow(lu_data, -1, 0, steps)?, -1)?, false)?;
        set_diagonal(&l)?;
    }
    if unpack_pivots {
        op::zero_(&p)?;
        if p.numel() > 0 {
            permutations(&p, &contiguous(lu_pivots)?, rows as u32, steps as u32)?;
        }
    }
    Ok((p, l, u))
}

/// Sets the ones of permutation matrices.
fn permutations(out: &Tensor, pivots: &Tensor, mut rows: u32, mut steps: u32) -> Result<()> {
    check_dtype(out, "lu_unpack_cuda")?;
    let count = out.numel() / (i64::from(rows) * i64::from(rows));
    let order = empty(&[count, i64::from(rows)], DType::Int64, out)?;
    let held =
        Operands::hold(&[(out, Access::Write), (&order, Access::Write), (pivots, Access::Read)])?;
    let (mut to, mut order_at, mut pivots_at) = (held.at(0), held.at(1), held.at(2));
    let (mut failure, mut batches) = (failure::address(out.device().index)?, count as u32);
    let stream = Stream::current(out.device().index);
    let shape = Shape { grid: [batches.div_ceil(64), 1, 1], block: [64, 1, 1], shared: 0 };
    // SAFETY: there are as many pivots as steps for each matrix, and those that are no rows are not
    // followed; all tensors are held.
    unsafe {
        let parameters = parameters!(to, order_at, pivots_at, rows, steps, batches, failure);
        PERMUTATION.launch(&[Argument::Value(out.dtype())], shape, stream, parameters)?;
    }
    drop(held);
    Ok(())
}

/// The inverses of matrices, and the first zero pivot.
///
/// # Errors
/// As [`linalg_cholesky_ex`].
pub fn linalg_inv_ex(a: &Tensor, check_errors: bool) -> Result<(Tensor, Tensor)> {
    let (out, info) = shapes::linalg_inv_ex(a, check_errors)?;
    op::zero_(&info)?;
    if a.numel() == 0 {
        return Ok((out, info));
    }
    let factors = flat(&by_columns(a)?)?;
    let pivots = empty(&factors.sizes()[..2], DType::Int32, a)?;
    factor::lu(&factors, &pivots, &flat_info(&info)?, true)?;
    op::zero_(&out)?;
    set_diagonal(&out)?;
    solve::lu_solve(&factors, &pivots, &flat(&out)?, [false, false])?;
    if check_errors {
        shapes::check_info(&info, "linalg.inv_ex")?;
    }
    Ok((out, info))
}

/// `R` on and above the diagonal, and the reflections that lead to it below.
///
/// # Errors
/// As [`linalg_cholesky_ex`].
pub fn geqrf(self_: &Tensor) -> Result<(Tensor, Tensor)> {
    let (out, tau) = shapes::geqrf(self_)?;
    check_dtype(self_, "geqrf_cuda")?;
    op::copy_(&out, self_, false)?;
    if out.numel() > 0 {
        factor::qr(&flat(&out)?, &flat_vectors(&tau)?)?;
    }
    Ok((out, tau))
}

/// The first columns of the product of reflections.
///
/// # Errors
/// As [`linalg_cholesky_ex`].
pub fn linalg_householder_product(input: &Tensor, tau: &Tensor) -> Result<Tensor> {
    let out = shapes::linalg_householder_product(input, tau)?;
    check_dtype(input, "orgqr_cuda")?;
    op::zero_(&out)?;
    set_diagonal(&out)?;
    reflect(input, tau, &out, false)?;
    Ok(out)
}

/// The product of reflections times other matrices, on the left or the right, or its adjoint.
///
/// # Errors
/// As [`linalg_cholesky_ex`].
pub fn ormqr(
    self_: &Tensor,
    input2: &Tensor,
    input3: &Tensor,
    left: bool,
    transpose: bool,
) -> Result<Tensor> {
    let out = shapes::ormqr(self_, input2, input3, left, transpose)?;
    check_dtype(self_, "ormqr_cuda")?;
    if left {
        op::copy_(&out, input3, false)?;
        reflect(self_, input2, &out, transpose)?;
        return Ok(out);
    }
    // `C Q` is `(Q^H C^H)^H`.
    let work = by_columns(&adjoint(input3)?)?;
    reflect(self_, input2, &work, !transpose)?;
    op::copy_(&out, &adjoint(&work)?, false)
}

/// Multiplies matrices that lie by columns with reflections.
fn reflect(input: &Tensor, tau: &Tensor, out: &Tensor, adjoint: bool) -> Result<()> {
    if out.numel() == 0 || tau.numel() == 0 {
        return Ok(());
    }
    let batch = batch(out);
    let vectors = flat(&in_columns(&fitted(input, &batch)?)?)?;
    let tau = fitted_vectors(&op::resolve_conj(tau)?, &batch)?;
    factor::apply_reflections(&vectors, &tau, &flat(out)?, adjoint)
}

/// Factors `L D L^T` or `L D L^H` in one matrix, the pivots, and the first zero of the diagonal of `D`.
///
/// # Errors
/// As [`linalg_cholesky_ex`].
pub fn linalg_ldl_factor_ex(
    self_: &Tensor,
    hermitian: bool,
    check_errors: bool,
) -> Result<(Tensor, Tensor, Tensor)> {
    let (out, pivots, info) = shapes::linalg_ldl_factor_ex(self_, hermitian, check_errors)?;
    check_dtype(self_, "ldl_factor_cuda")?;
    op::zero_(&info)?;
    if out.numel() == 0 {
        return Ok((out, pivots, info));
    }
    op::copy_(&out, &op::tril(self_, 0)?, false)?;
    let [count, mut n, _] = matrices::sizes(&flat(&out)?)?;
    let held =
        Operands::hold(&[(&out, Access::Write), (&pivots, Access::Write), (&info, Access::Write)])?;
    let (mut data, mut pivots_at, mut info_at) = (held.at(0), held.at(1), held.at(2));
    let stream = Stream::current(out.device().index);
    let hermitian = hermitian && out.dtype().is_complex();
    let arguments = [Argument::Value(out.dtype()), Argument::Number(u32::from(hermitian))];
    // SAFETY: the matrices lie by columns, with pivots and a number of `info` for each; all are held.
    unsafe {
        let parameters = parameters!(data, n, pivots_at, info_at);
        LDL_FACTOR.launch(&arguments, factor::per_matrix(count), stream, parameters)?;
    }
    drop(held);
    if check_errors {
        shapes::check_info(&info, "torch.linalg.ldl_factor_ex")?;
    }
    Ok((out, pivots, info))
}

/// Systems with matrices of which the factors `L D L^T` are known. Pivots that are no rows are reported at the
/// next synchronisation.
///
/// # Errors
/// As [`linalg_cholesky_ex`].
pub fn linalg_ldl_solve(
    ld: &Tensor,
    pivots: &Tensor,
    b: &Tensor,
    hermitian: bool,
) -> Result<Tensor> {
    let out = shapes::linalg_ldl_solve(ld, pivots, b, hermitian)?;
    if out.numel() == 0 {
        return Ok(out);
    }
    op::copy_(&out, b, false)?;
    let batch = batch(&out);
    let factors = flat(&in_columns(&fitted(ld, &batch)?)?)?;
    let pivots = op::to_dtype(pivots, DType::Int32, false, false, None)?;
    let pivots = fitted_vectors(&pivots, &batch)?;
    let hermitian = hermitian && out.dtype().is_complex();
    solve::ldl_solve(&factors, &pivots, &flat(&out)?, hermitian)?;
    Ok(out)
}

/// ` (Batch element i): ` for the matrices of a batch.
fn place(tensor: &Tensor, index: usize) -> String {
    if tensor.dim() > 2 { format!("(Batch element {index}): ") } else { String::new() }
}

/// The batch as one dimension.
fn one_batch(tensor: &Tensor) -> Result<Tensor> {
    op::reshape(&op::resolve_conj(tensor)?, &[-1, tensor.size(-2)?, tensor.size(-1)?])
}

/// The eigenvalues of Hermitian matrices, the smallest first, and their eigenvectors.
///
/// # Errors
/// As [`linalg_cholesky_ex`]; `LinAlg` where the iteration does not converge.
pub fn _linalg_eigh(a: &Tensor, uplo: &str, compute_v: bool) -> Result<(Tensor, Tensor)> {
    let (values, vectors) = shapes::_linalg_eigh(a, uplo, compute_v)?;
    check_dtype(a, "linalg_eigh_cuda")?;
    if a.numel() == 0 {
        return Ok((values, vectors));
    }
    let whole = spectral::hermitian(&one_batch(a)?, uplo.eq_ignore_ascii_case("L"))?;
    let (found, basis) = spectral::eigh(&whole)?.map_err(|trouble| {
        let (Trouble::NotFinite(index) | Trouble::NotConvergent(index)) = trouble;
        err!(
            LinAlg,
            "linalg.eigh: {}The algorithm failed to converge because the input matrix is ill-conditioned or \
             has too many repeated eigenvalues (error code: {}).",
            place(a, index),
            if compute_v { a.sizes()[a.dim() - 1].saturating_sub(1).max(1) } else { 1 }
        )
    })?;
    op::copy_(&values, &op::view(&found, &values.sizes())?, false)?;
    if compute_v {
        op::copy_(&vectors, &op::reshape(&basis, &vectors.sizes())?, false)?;
    }
    Ok((values, vectors))
}

/// The singular values, the largest first, with both bases.
///
/// # Errors
/// As [`_linalg_eigh`].
pub fn _linalg_svd(
    a: &Tensor,
    full_matrices: bool,
    compute_uv: bool,
    driver: Option<&str>,
) -> Result<(Tensor, Tensor, Tensor)> {
    let (u, s, vh) = shapes::_linalg_svd(a, full_matrices, compute_uv, driver)?;
    check_dtype(a, "linalg_svd_cuda")?;
    if a.numel() == 0 {
        for basis in [&u, &vh].into_iter().filter(|basis| compute_uv && basis.numel() > 0) {
            op::zero_(basis)?;
            set_diagonal(basis)?;
        }
        return Ok((u, s, vh));
    }
    let tall = a.size(-2)? >= a.size(-1)?;
    let work = one_batch(a)?;
    let work = if tall { work } else { adjoint(&work)? };
    let found = spectral::svd(&work, compute_uv, full_matrices)?;
    let (left, values, right) = found.map_err(|trouble| svd_error(a, trouble))?;
    op::copy_(&s, &op::view(&values, &s.sizes())?, false)?;
    if compute_uv {
        let (left, right) = if tall { (left, right) } else { (right, left) };
        op::copy_(&u, &op::reshape(&left, &u.sizes())?, false)?;
        op::copy_(&vh, &op::reshape(&adjoint(&right)?, &vh.sizes())?, false)?;
    }
    Ok((u, s, vh))
}

fn svd_error(a: &Tensor, trouble: Trouble) -> Error {
    match trouble {
        Trouble::NotFinite(index) => err!(
            LinAlg,
            "linalg.svd: {}The algorithm failed to converge because the input matrix contained non-finite \
             values.",
            place(a, index)
        ),
        Trouble::NotConvergent(index) => err!(
            LinAlg,
            "linalg.svd: {}The algorithm failed to converge because the input matrix is ill-conditioned or \
             has too many repeated singular values (error code: {}).",
            place(a, index),
            a.sizes().iter().rev().take(2).min().copied().unwrap_or(0)
        ),
    }
}

/// A matrix on the host, where eigenvalues of general matrices are computed.
fn on_the_host(a: &Tensor) -> Result<Tensor> {
    /// From so many rows on the time is worth a word.
    const LARGE: i64 = 256;
    static SAID: AtomicBool = AtomicBool::new(false);
    if a.size(-1)? >= LARGE {
        warn_once(
            &SAID,
            "torch.linalg.eig: the eigenvalues of general matrices on CUDA devices are computed on the CPU, \
             between two copies",
        );
    }
    op::to_device(a, Device::CPU, a.dtype(), false, false, None)
}

fn back(tensor: &Tensor, planned: &Tensor) -> Result<()> {
    ensure!(tensor.sizes() == planned.sizes(), Internal, "eigenvalues of another shape");
    op::copy_(planned, tensor, false).map(drop)
}

/// The eigenvalues of square matrices, and their eigenvectors of length 1; computed by the host.
///
/// # Errors
/// Those of the CPU's.
pub fn linalg_eig(self_: &Tensor) -> Result<(Tensor, Tensor)> {
    let planned = shapes::linalg_eig(self_)?;
    let (values, vectors) = op::linalg_eig(&on_the_host(self_)?)?;
    back(&values, &planned.0)?;
    back(&vectors, &planned.1)?;
    Ok(planned)
}

/// The eigenvalues of square matrices; computed by the host.
///
/// # Errors
/// As [`linalg_eig`].
pub fn _linalg_eigvals(self_: &Tensor) -> Result<Tensor> {
    let planned = shapes::_linalg_eigvals(self_)?;
    let values = op::_linalg_eigvals(&on_the_host(self_)?)?;
    back(&values, &planned)?;
    Ok(planned)
}

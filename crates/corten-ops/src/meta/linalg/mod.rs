//! Shapes of matrix factorisations, and the checks that PyTorch makes before them.
//!
//! Matrices in results lie by columns.

use crate::iter::allocate;
use crate::{Tensor, op};
use corten_core::{DType, Device, Dims, Result, ensure, geometry};

mod checks;

pub(crate) use checks::{batch_of, check_dtypes, check_kernel, check_solve_inputs, check_system};
pub use checks::{check_info, check_matrix, check_numbers, check_square};

/// A batch of matrices that lie by columns, without its data.
///
/// # Errors
/// `Runtime` for sizes that overflow; `OutOfMemory`.
pub fn columns(sizes: &[i64], dtype: DType, device: Device) -> Result<Tensor> {
    let mut strides = geometry::contiguous_strides(sizes)?;
    if let [.., rows, cols] = strides.as_mut_slice() {
        *rows = 1;
        *cols = sizes[sizes.len() - 2].max(1);
    }
    allocate(sizes, Some(&strides), dtype, device)
}

fn empty_contiguous(sizes: &[i64], dtype: DType, device: Device) -> Result<Tensor> {
    allocate(sizes, None, dtype, device)
}

fn like(tensor: &Tensor, sizes: &[i64]) -> Result<Tensor> {
    columns(sizes, tensor.dtype(), tensor.device())
}

fn nothing(tensor: &Tensor) -> Result<Tensor> {
    empty_contiguous(&[0], tensor.dtype(), tensor.device())
}

/// The sizes in front of the last `matrix` ones, with others behind.
fn with(tensor: &Tensor, matrix: usize, behind: &[i64]) -> Dims {
    let sizes = tensor.sizes();
    sizes[..sizes.len().saturating_sub(matrix)].iter().chain(behind).copied().collect()
}

/// The shapes of `linalg_cholesky_ex`.
///
/// # Errors
/// `Runtime` for other than square matrices, `NotImplemented` for integers; for the functions
/// below likewise, and `Runtime` where shapes or dtypes do not fit together.
pub fn linalg_cholesky_ex(
    self_: &Tensor,
    _upper: bool,
    _check_errors: bool,
) -> Result<(Tensor, Tensor)> {
    check_square(self_, "linalg.cholesky")?;
    check_numbers(self_, "linalg.cholesky", true)?;
    let info = empty_contiguous(&with(self_, 2, &[]), DType::Int32, self_.device())?;
    Ok((like(self_, &self_.sizes())?, info))
}

/// The shape of `linalg_solve_triangular`.
///
/// # Errors
/// See [`linalg_cholesky_ex`].
pub fn linalg_solve_triangular(
    self_: &Tensor,
    b: &Tensor,
    _upper: bool,
    left: bool,
    _unitriangular: bool,
) -> Result<Tensor> {
    check_dtypes("linalg.solve_triangular", "A", self_, "B", b)?;
    check_square(self_, "linalg.solve_triangular")?;
    check_matrix(b, "linalg.solve_triangular", "B")?;
    check_system("linalg.solve_triangular", self_, b, left)?;
    let batch = batch_of(b, self_)?;
    let sizes: Dims = batch.iter().copied().chain([b.size(-2)?, b.size(-1)?]).collect();
    like(b, &sizes)
}
/// The shapes of `linalg_lu_factor_ex`.
///
/// # Errors
/// See [`linalg_cholesky_ex`].
pub fn linalg_lu_factor_ex(
    a: &Tensor,
    pivot: bool,
    _check_errors: bool,
) -> Result<(Tensor, Tensor, Tensor)> {
    ensure!(
        a.dim() >= 2,
        Runtime,
        "torch.lu_factor: Expected tensor with 2 or more dimensions. Got size: {:?} instead",
        a.sizes().as_slice()
    );
    ensure!(
        pivot || !a.device().is_cpu(),
        Runtime,
        "linalg.lu_factor: LU without pivoting is not implemented on the CPU"
    );
    let steps = a.size(-2)?.min(a.size(-1)?);
    let pivots = empty_contiguous(&with(a, 2, &[steps]), DType::Int32, a.device())?;
    let info = empty_contiguous(&with(a, 2, &[]), DType::Int32, a.device())?;
    Ok((like(a, &a.sizes())?, pivots, info))
}

/// The shapes of `linalg_inv_ex`.
///
/// # Errors
/// See [`linalg_cholesky_ex`]; `NotImplemented` for half precision as well.
pub fn linalg_inv_ex(a: &Tensor, _check_errors: bool) -> Result<(Tensor, Tensor)> {
    check_square(a, "linalg.inv")?;
    check_numbers(a, "linalg.inv", false)?;
    let info = empty_contiguous(&with(a, 2, &[]), DType::Int32, a.device())?;
    Ok((like(a, &a.sizes())?, info))
}

/// The shape of `linalg_lu_solve`.
///
/// # Errors
/// See [`linalg_cholesky_ex`].
pub fn linalg_lu_solve(
    lu: &Tensor,
    pivots: &Tensor,
    b: &Tensor,
    left: bool,
    _adjoint: bool,
) -> Result<Tensor> {
    check_numbers(lu, "torch.linalg.lu_solve", false)?;
    check_dtypes("linalg.lu_solve", "LU", lu, "B", b)?;
    ensure!(
        pivots.dtype() == DType::Int32,
        Runtime,
        "linalg.lu_solve: pivots should be a Tensor of scalar type torch.int32"
    );
    check_square(lu, "torch.linalg.lu_solve")?;
    check_matrix(b, "torch.linalg.lu_solve", "B")?;
    check_system("linalg.lu_solve", lu, b, left)?;
    ensure!(
        pivots.dim() > 0 && pivots.size(-1)? == lu.size(-1)?,
        Runtime,
        "linalg.lu_solve: Number of pivots per batch should be same as the dimension of the matrix"
    );
    ensure!(
        with(lu, 1, &[]) == pivots.sizes(),
        Runtime,
        "linalg.lu_solve: Expected LU.shape[:-1] and pivots.shape to be the same, but got pivots \
         with shape {:?} instead",
        pivots.sizes().as_slice()
    );
    let batch = batch_of(b, lu)?;
    let own = [b.size(-2)?, b.size(-1)?];
    if left {
        return like(b, &batch.iter().copied().chain(own).collect::<Dims>());
    }
    let turned = like(b, &batch.iter().copied().chain([own[1], own[0]]).collect::<Dims>())?;
    op::transpose_int(&turned, -2, -1)
}

/// The shapes of `lu_unpack`.
///
/// # Errors
/// See [`linalg_cholesky_ex`].
pub fn lu_unpack(
    lu_data: &Tensor,
    lu_pivots: &Tensor,
    unpack_data: bool,
    unpack_pivots: bool,
) -> Result<(Tensor, Tensor, Tensor)> {
    ensure!(
        lu_data.dim() >= 2,
        Runtime,
        "torch.lu_unpack: Expected tensor with 2 or more dimensions. Got size: {:?} instead",
        lu_data.sizes().as_slice()
    );
    let [rows, cols] = [lu_data.size(-2)?, lu_data.size(-1)?];
    let steps = rows.min(cols);
    if unpack_pivots {
        ensure!(
            lu_pivots.dtype() == DType::Int32,
            Runtime,
            "torch.lu_unpack: LU_pivots is expected to be a contiguous tensor of torch.int32 \
             dtype."
        );
        let expected = with(lu_data, 2, &[steps]);
        ensure!(
            expected == lu_pivots.sizes(),
            Value,
            "Expected LU_pivots to have shape {:?} but got {:?} instead.",
            expected.as_slice(),
            lu_pivots.sizes().as_slice()
        );
    }
    let made = |wanted: bool, sizes: [i64; 2]| match wanted {
        true => empty_contiguous(&with(lu_data, 2, &sizes), lu_data.dtype(), lu_data.device()),
        false => nothing(lu_data),
    };
    Ok((
        made(unpack_pivots, [rows, rows])?,
        made(unpack_data, [rows, steps])?,
        made(unpack_data, [steps, cols])?,
    ))
}

/// The shapes of `geqrf`.
///
/// # Errors
/// See [`linalg_cholesky_ex`].
pub fn geqrf(self_: &Tensor) -> Result<(Tensor, Tensor)> {
    ensure!(self_.dim() >= 2, Runtime, "torch.geqrf: input must have at least 2 dimensions.");
    let steps = self_.size(-2)?.min(self_.size(-1)?);
    let tau = empty_contiguous(&with(self_, 2, &[steps]), self_.dtype(), self_.device())?;
    Ok((like(self_, &self_.sizes())?, tau))
}

/// The shape of `linalg_householder_product`.
///
/// # Errors
/// See [`linalg_cholesky_ex`].
pub fn linalg_householder_product(input: &Tensor, tau: &Tensor) -> Result<Tensor> {
    const NAME: &str = "torch.linalg.householder_product";
    ensure!(input.dim() >= 2, Runtime, "{NAME}: input must have at least 2 dimensions.");
    ensure!(
        input.size(-2)? >= input.size(-1)?,
        Runtime,
        "{NAME}: input.shape[-2] must be greater than or equal to input.shape[-1]"
    );
    check_tau(NAME, input, tau)?;
    ensure!(
        input.size(-1)? >= tau.size(-1)?,
        Runtime,
        "{NAME}: input.shape[-1] must be greater than or equal to tau.shape[-1]"
    );
    ensure!(
        input.dtype() == tau.dtype(),
        Runtime,
        "{NAME}: tau dtype {} does not match input dtype {}",
        tau.dtype().type_name(),
        input.dtype().type_name()
    );
    like(input, &input.sizes())
}

fn check_tau(name: &str, input: &Tensor, tau: &Tensor) -> Result<()> {
    ensure!(
        input.dim() == tau.dim() + 1,
        Runtime,
        "{name}: Expected tau to have one dimension less than input, but got tau.ndim equal to {} \
         and input.ndim is equal to {}",
        tau.dim(),
        input.dim()
    );
    let (own, batch) = (with(tau, 1, &[]), with(input, 2, &[]));
    ensure!(
        own == batch,
        Runtime,
        "{name}: Expected batch dimensions of tau to be equal to input.shape[:-2], but got {:?}",
        own.as_slice()
    );
    Ok(())
}

/// The shape of `ormqr`.
///
/// # Errors
/// See [`linalg_cholesky_ex`].
pub fn ormqr(
    self_: &Tensor,
    input2: &Tensor,
    input3: &Tensor,
    left: bool,
    _transpose: bool,
) -> Result<Tensor> {
    let (tau, other) = (input2, input3);
    ensure!(self_.dim() >= 2, Runtime, "torch.ormqr: input must have at least 2 dimensions.");
    ensure!(other.dim() >= 2, Runtime, "torch.ormqr: other must have at least 2 dimensions.");
    let side = if left { -2 } else { -1 };
    check_tau("torch.ormqr", self_, tau)?;
    ensure!(
        other.size(side)? >= tau.size(-1)?,
        Runtime,
        "torch.ormqr: other.shape[{side}] must be greater than or equal to tau.shape[-1]"
    );
    ensure!(
        other.size(side)? == self_.size(-2)?,
        Runtime,
        "torch.ormqr: other.shape[{side}] must be equal to input.shape[-2]"
    );
    ensure!(
        tau.size(-1)? == other.size(side)?.min(self_.size(-1)?),
        Runtime,
        "torch.ormqr: tau.shape[-1] must be equal to min(other.shape[{side}], input.shape[-1])"
    );
    ensure!(
        self_.dim() == other.dim(),
        Runtime,
        "torch.ormqr: Expected other to have the same number of dimensions as input, but got \
         other.ndim equal to {} and input.ndim is equal to {}",
        other.dim(),
        self_.dim()
    );
    let (own, batch) = (with(other, 2, &[]), with(self_, 2, &[]));
    ensure!(
        own == batch,
        Runtime,
        "torch.ormqr: Expected batch dimensions of other to be equal to input.shape[:-2], but got \
         {:?}",
        own.as_slice()
    );
    for (name, tensor) in [("tau", tau), ("other", other)] {
        ensure!(
            tensor.dtype() == self_.dtype(),
            Runtime,
            "torch.ormqr: Expected input and {name} to have the same dtype, but input has dtype {} \
             and {name} has dtype {}",
            self_.dtype().type_name(),
            tensor.dtype().type_name()
        );
    }
    like(other, &other.sizes())
}

/// The shapes of `linalg_ldl_factor_ex`.
///
/// # Errors
/// See [`linalg_cholesky_ex`].
pub fn linalg_ldl_factor_ex(
    self_: &Tensor,
    _hermitian: bool,
    _check_errors: bool,
) -> Result<(Tensor, Tensor, Tensor)> {
    check_square(self_, "torch.linalg.ldl_factor_ex")?;
    check_numbers(self_, "torch.linalg.ldl_factor_ex", true)?;
    let pivots = empty_contiguous(&with(self_, 1, &[]), DType::Int32, self_.device())?;
    let info = empty_contiguous(&with(self_, 2, &[]), DType::Int32, self_.device())?;
    Ok((like(self_, &self_.sizes())?, pivots, info))
}

/// The shape of `linalg_ldl_solve`.
///
/// # Errors
/// See [`linalg_cholesky_ex`].
pub fn linalg_ldl_solve(
    ld: &Tensor,
    pivots: &Tensor,
    b: &Tensor,
    _hermitian: bool,
) -> Result<Tensor> {
    const NAME: &str = "torch.linalg.ldl_solve";
    check_square(ld, NAME)?;
    check_numbers(ld, NAME, false)?;
    check_solve_inputs(NAME, b, ld)?;
    ensure!(
        with(ld, 1, &[]) == pivots.sizes(),
        Runtime,
        "{NAME}: Expected LD.shape[:-1] and pivots.shape to be the same, but got pivots with shape \
         {:?} instead",
        pivots.sizes().as_slice()
    );
    ensure!(
        pivots.dtype().is_integral(false),
        Runtime,
        "{NAME}: Expected pivots to be integers. Got {}",
        pivots.dtype().type_name()
    );
    let batch = batch_of(b, ld)?;
    like(b, &batch.iter().copied().chain([b.size(-2)?, b.size(-1)?]).collect::<Dims>())
}

/// The shapes of `_linalg_eigh`.
///
/// # Errors
/// See [`linalg_cholesky_ex`].
pub fn _linalg_eigh(a: &Tensor, uplo: &str, compute_v: bool) -> Result<(Tensor, Tensor)> {
    check_square(a, "linalg.eigh")?;
    check_numbers(a, "linalg.eigh", true)?;
    ensure!(
        uplo.eq_ignore_ascii_case("L") || uplo.eq_ignore_ascii_case("U"),
        Runtime,
        "Expected UPLO argument to be 'L' or 'U', but got {uplo}"
    );
    let values = empty_contiguous(&with(a, 1, &[]), a.dtype().to_real(), a.device())?;
    let vectors = if compute_v { like(a, &a.sizes())? } else { nothing(a)? };
    Ok((values, vectors))
}

/// The shapes of `_linalg_svd`.
///
/// # Errors
/// See [`linalg_cholesky_ex`].
pub fn _linalg_svd(
    a: &Tensor,
    full_matrices: bool,
    compute_uv: bool,
    driver: Option<&str>,
) -> Result<(Tensor, Tensor, Tensor)> {
    check_numbers(a, "linalg.svd", true)?;
    check_matrix(a, "linalg.svd", "A")?;
    ensure!(
        driver.is_none() || !a.device().is_cpu(),
        Runtime,
        "torch.linalg.svd: keyword argument `driver=` is only supported on CUDA inputs with \
         cuSOLVER backend."
    );
    let [m, n] = [a.size(-2)?, a.size(-1)?];
    let k = m.min(n);
    let s = empty_contiguous(&with(a, 2, &[k]), a.dtype().to_real(), a.device())?;
    if !compute_uv {
        return Ok((nothing(a)?, s, nothing(a)?));
    }
    let u = like(a, &with(a, 2, &[m, if full_matrices { m } else { k }]))?;
    let vh = like(a, &with(a, 2, &[if full_matrices { n } else { k }, n]))?;
    Ok((u, s, vh))
}

/// The shapes of `linalg_eig`.
///
/// # Errors
/// See [`linalg_cholesky_ex`].
pub fn linalg_eig(self_: &Tensor) -> Result<(Tensor, Tensor)> {
    let values = _linalg_eigvals(self_)?;
    let vectors = columns(&self_.sizes(), self_.dtype().to_complex(), self_.device())?;
    Ok((values, vectors))
}

/// The shape of `_linalg_eigvals`.
///
/// # Errors
/// See [`linalg_cholesky_ex`].
pub fn _linalg_eigvals(self_: &Tensor) -> Result<Tensor> {
    check_square(self_, "linalg.eig")?;
    ensure!(
        self_.dtype().to_complex() != DType::Undefined,
        Runtime,
        "Unknown Complex ScalarType for {}",
        self_.dtype().type_name()
    );
    empty_contiguous(&with(self_, 1, &[]), self_.dtype().to_complex(), self_.device())
}

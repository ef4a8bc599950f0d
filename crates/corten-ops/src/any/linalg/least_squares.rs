//! Least squares and pseudoinverses, from the singular value decomposition or, where no singular
//! value is negligible, from orthogonal factors.

use super::systems::{broadcast_batch, is_vector};
use super::{adjoint, identity};
use crate::meta::linalg::columns;
use crate::{Tensor, op};
use corten_core::{DType, Dims, Result, Scalar, bail, ensure};

/// Which results a least squares solution comes with.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Driver {
    Gels,
    Gelsy,
    Gelsd,
    Gelss,
}

impl Driver {
    fn named(name: Option<&str>) -> Result<Self> {
        Ok(match name {
            None | Some("gelsy") => Self::Gelsy,
            Some("gels") => Self::Gels,
            Some("gelsd") => Self::Gelsd,
            Some("gelss") => Self::Gelss,
            Some(_) => bail!(
                Runtime,
                "torch.linalg.lstsq: parameter `driver` should be one of (gels, gelsy, gelsd, \
                 gelss)"
            ),
        })
    }

    /// Below which part of the largest singular value others count as zero: LAPACK takes the
    /// precision of the dtype for what is no tolerance to each driver.
    fn tolerance(self, rcond: f64, precision: f64) -> f64 {
        match self {
            Self::Gels => 0.0,
            // The rank is at least one.
            Self::Gelsy => rcond.min(1.0 - precision),
            Self::Gelsd if rcond <= 0.0 || rcond >= 1.0 => precision,
            Self::Gelss if rcond < 0.0 => precision,
            Self::Gelsd | Self::Gelss => rcond,
        }
    }
}

/// The distance of 1 to the next number.
///
/// # Errors
/// `Runtime` for half precision and integers.
fn epsilon(dtype: DType) -> Result<f64> {
    match dtype.to_real() {
        DType::Float64 => Ok(f64::EPSILON),
        DType::Float32 => Ok(f64::from(f32::EPSILON)),
        _ => bail!(Runtime, "This function doesn't handle types other than float and double"),
    }
}

/// The solution with the least squares, and of these the smallest; the squares of what is left,
/// the rank and the singular values, as far as the driver has them.
///
/// # Errors
/// `Runtime` for shapes or dtypes that do not fit, `LinAlg` for a matrix without full rank where
/// the driver wants one, `NotImplemented` for half precision.
pub fn linalg_lstsq(
    self_: &Tensor,
    b: &Tensor,
    rcond: Option<f64>,
    driver: Option<&str>,
) -> Result<(Tensor, Tensor, Tensor, Tensor)> {
    check(self_, b)?;
    let vector = is_vector(self_, b);
    let right = if vector { op::unsqueeze(b, -1)? } else { b.clone() };
    ensure!(
        self_.size(-2)? == right.size(-2)?,
        Runtime,
        "torch.linalg.lstsq: input.size(-2) should match other.size({})",
        if vector { -1 } else { -2 }
    );
    let driver = Driver::named(driver)?;
    let [m, n] = [self_.size(-2)?, self_.size(-1)?];
    let rcond = match rcond {
        Some(rcond) => rcond,
        None => epsilon(self_.dtype())? * m.max(n) as f64,
    };
    let batch = broadcast_batch(self_, &right)?;
    let direct = match driver {
        Driver::Gelsd | Driver::Gelss => None,
        Driver::Gels | Driver::Gelsy => by_orthogonal_factors(self_, &right, rcond)?,
    };
    let Found { solution, rank, full, values } = match direct {
        Some(found) => found,
        None => by_singular_values(self_, &right, driver, rcond)?,
    };
    // The solution lies in memory where it took the place of the right-hand side.
    let sizes: Dims = batch.iter().copied().chain([m.max(n), right.size(-1)?]).collect();
    let room = columns(&sizes, self_.dtype(), self_.device())?;
    let place = op::narrow(&room, -2, 0, n)?;
    op::copy_(&place, &solution, false)?;
    let residuals = match m > n && driver != Driver::Gelsy && full {
        true => squares(&op::sub_tensor(&op::matmul(self_, &solution)?, &right, Scalar::Int(1))?)?,
        false => nothing(self_, self_.dtype().to_real())?,
    };
    let rank = if driver == Driver::Gels { nothing(self_, DType::Int64)? } else { rank };
    let values = match values.filter(|_| matches!(driver, Driver::Gelsd | Driver::Gelss)) {
        Some(values) => values,
        None => nothing(self_, self_.dtype().to_real())?,
    };
    let place = if vector { op::squeeze_dim(&place, -1)? } else { place };
    Ok((place, residuals, rank, values))
}

/// A solution and what is known of the matrices.
struct Found {
    solution: Tensor,
    rank: Tensor,
    /// Whether all matrices have full rank.
    full: bool,
    values: Option<Tensor>,
}

fn by_singular_values(a: &Tensor, b: &Tensor, driver: Driver, rcond: f64) -> Result<Found> {
    let most = a.size(-2)?.min(a.size(-1)?);
    let (u, s, vh) = op::_linalg_svd(a, false, true, None)?;
    let kept = kept(&s, driver.tolerance(rcond, epsilon(a.dtype())?))?;
    let rank = op::sum_dim_intlist(&kept, Some(&[-1]), false, None)?;
    let full = a.device().is_meta() || has_rank(&rank, most)?;
    ensure!(
        driver != Driver::Gels || full,
        LinAlg,
        "torch.linalg.lstsq: The least squares solution could not be computed because the input \
         matrix does not have full rank (error code: {most})."
    );
    let inverse = op::where_scalarother(&kept, &op::reciprocal(&s)?, Scalar::Int(0))?;
    let turned = op::matmul(&adjoint(&u)?, b)?;
    let scaled = op::mul_tensor(&turned, &op::unsqueeze(&inverse, -1)?)?;
    let solution = op::matmul(&adjoint(&vh)?, &scaled)?;
    Ok(Found { solution, rank, full, values: Some(s) })
}

/// The solution from `A = Q R`, which costs a fraction of the singular values; `None` where one of
/// these may be negligible. The largest is at most the norm of `R`, the smallest at least one over
/// the norm of its inverse.
fn by_orthogonal_factors(a: &Tensor, b: &Tensor, rcond: f64) -> Result<Option<Found>> {
    let [rows, cols] = [a.size(-2)?, a.size(-1)?];
    if rows < cols || a.numel() == 0 || a.device().is_meta() {
        return Ok(None);
    }
    let (q, r) = op::linalg_qr(a, "reduced")?;
    let inverse = op::linalg_solve_triangular(&r, &identity(&r)?, true, true, false)?;
    let norm = |matrix: &Tensor| {
        op::linalg_vector_norm(matrix, Scalar::Int(2), Some(&[-2, -1]), false, None)
    };
    let condition = op::mul_tensor(&norm(&r)?, &norm(&inverse)?)?;
    let limit = rcond.max(epsilon(a.dtype())?).recip();
    if !op::item(&op::all(&op::lt_scalar(&condition, Scalar::Float(limit))?)?)?.to_bool() {
        return Ok(None);
    }
    let turned = op::matmul(&adjoint(&q)?, b)?;
    let solution = op::linalg_solve_triangular(&r, &turned, true, true, false)?;
    let batch = a.sizes()[..a.dim() - 2].to_vec();
    let rank =
        op::full(&batch, Scalar::Int(cols), Some(DType::Int64), None, Some(a.device()), None)?;
    Ok(Some(Found { solution, rank, full: true, values: None }))
}

fn check(a: &Tensor, b: &Tensor) -> Result<()> {
    ensure!(a.dim() >= 2, Runtime, "torch.linalg.lstsq: input must have at least 2 dimensions.");
    ensure!(b.dim() >= 1, Runtime, "torch.linalg.lstsq: other must have at least 1 dimension.");
    ensure!(
        a.dtype() == b.dtype(),
        Runtime,
        "torch.linalg.lstsq: Expected input and other to have the same dtype, but got input's dtype \
         {} and other's dtype {}",
        a.dtype().type_name(),
        b.dtype().type_name()
    );
    let distance = a.dim() as i64 - b.dim() as i64;
    ensure!(
        (0..=1).contains(&distance),
        Runtime,
        "torch.linalg.lstsq: input.dim() must be greater or equal to other.dim() and (input.dim() \
         - other.dim()) <= 1"
    );
    Ok(())
}

fn nothing(like: &Tensor, dtype: DType) -> Result<Tensor> {
    op::new_empty(like, &[0], Some(dtype), None, None, None)
}

/// Which singular values count, in relation to the largest.
fn kept(s: &Tensor, rcond: f64) -> Result<Tensor> {
    if s.size(-1)? == 0 {
        return op::gt_scalar(s, Scalar::Int(0));
    }
    let largest = op::narrow(s, -1, 0, 1)?;
    op::gt_tensor(s, &op::mul_scalar(&largest, Scalar::Float(rcond))?)
}

fn has_rank(rank: &Tensor, wanted: i64) -> Result<bool> {
    Ok(op::item(&op::all(&op::eq_scalar(rank, Scalar::Int(wanted))?)?)?.to_bool())
}

/// The sums of the squares of columns.
fn squares(left: &Tensor) -> Result<Tensor> {
    let size = op::abs(left)?;
    op::sum_dim_intlist(&op::mul_tensor(&size, &size)?, Some(&[-2]), false, None)
}

/// That there are matrices to invert.
///
/// # Errors
/// `Runtime` for integers and below rank 2.
fn check_pinv(a: &Tensor) -> Result<()> {
    let numbers = matches!(a.dtype().to_real(), DType::Float32 | DType::Float64);
    ensure!(
        numbers && a.dim() >= 2,
        Runtime,
        "linalg.pinv({}{{{:?}}}): expected a tensor with 2 or more dimensions of float, double, \
         cfloat or cdouble types",
        a.dtype().type_name(),
        a.sizes().as_slice()
    );
    Ok(())
}

/// The pseudoinverses of matrices, of which singular values up to a tolerance count as zero.
///
/// # Errors
/// `Runtime` below rank 2 and for complex tolerances; those of the decomposition.
pub fn linalg_pinv_tensors(
    self_: &Tensor,
    atol: Option<&Tensor>,
    rtol: Option<&Tensor>,
    hermitian: bool,
) -> Result<Tensor> {
    check_pinv(self_)?;
    let (atol, rtol) = tolerances("torch.linalg.pinv", self_, atol, rtol)?;
    if self_.numel() == 0 {
        let [m, n] = [self_.size(-2)?, self_.size(-1)?];
        let mut sizes = self_.sizes();
        let last = sizes.len() - 1;
        (sizes[last - 1], sizes[last]) = (n, m);
        return op::new_zeros(self_, &sizes, None, None, None, None);
    }
    let tolerance = |largest: &Tensor| {
        let relative = op::mul_tensor(&op::unsqueeze(&rtol, -1)?, largest)?;
        op::maximum(&op::unsqueeze(&atol, -1)?, &relative)
    };
    let (left, inverse, right) = if hermitian {
        let (values, vectors) = op::linalg_eigh(self_, "L")?;
        let sizes = op::abs(&values)?;
        let above = op::gt_tensor(&sizes, &tolerance(&op::amax(&sizes, &[-1], true)?)?)?;
        (vectors.clone(), (above, values), vectors)
    } else {
        let (u, s, vh) = op::linalg_svd(self_, false, None)?;
        let above = op::gt_tensor(&s, &tolerance(&op::narrow(&s, -1, 0, 1)?)?)?;
        (adjoint(&vh)?, (above, s), u)
    };
    let inverse = op::where_scalarother(&inverse.0, &op::reciprocal(&inverse.1)?, Scalar::Int(0))?;
    let scaled = op::mul_tensor(&left, &op::unsqueeze(&inverse, -2)?)?;
    op::matmul(&scaled, &adjoint(&right)?)
}

/// The tolerances as tensors: by default relative ones of the machine's precision, unless there is
/// an absolute one.
pub(crate) fn tolerances(
    name: &str,
    a: &Tensor,
    atol: Option<&Tensor>,
    rtol: Option<&Tensor>,
) -> Result<(Tensor, Tensor)> {
    let (atol, rtol) = (atol.filter(|t| t.defined()), rtol.filter(|t| t.defined()));
    for (which, tensor) in [("atol", atol), ("rtol", rtol)] {
        if let Some(tensor) = tensor {
            ensure!(
                !tensor.dtype().is_complex(),
                Runtime,
                "{name}: {which} tensor of complex type is not supported. Got {}",
                tensor.dtype().type_name()
            );
        }
    }
    let (dtype, device) = (Some(a.dtype().to_real()), Some(a.device()));
    let number = |value: f64| op::full(&[], Scalar::Float(value), dtype, None, device, None);
    let default = epsilon(a.dtype())? * a.size(-2)?.max(a.size(-1)?) as f64;
    let rtol = match (rtol, atol) {
        (Some(rtol), _) => rtol.clone(),
        (None, None) => number(default)?,
        (None, Some(atol)) => {
            let given = op::gt_scalar(atol, Scalar::Int(0))?;
            op::where_self(&given, &number(0.0)?, &number(default)?)?
        }
    };
    let atol = match atol {
        Some(atol) => atol.clone(),
        None => number(0.0)?,
    };
    Ok((atol, rtol))
}

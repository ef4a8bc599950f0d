//! Sorting made of `sort`.

use super::support::requires_grad;
use crate::{Tensor, batched, op};
use corten_core::{DType, Dims, Result, Scalar, bail, ensure, geometry};

/// Where the sorted elements are.
///
/// # Errors
/// Those of `sort`; for the functions below likewise.
pub fn argsort(self_: &Tensor, dim: i64, descending: bool) -> Result<Tensor> {
    Ok(op::sort(self_, dim, descending)?.1)
}

/// Where the sorted elements are; equal ones in their order.
pub fn argsort_stable(self_: &Tensor, stable: bool, dim: i64, descending: bool) -> Result<Tensor> {
    Ok(op::sort_stable(self_, Some(stable), dim, descending)?.1)
}

/// Sorted along the first dimension.
pub fn msort(self_: &Tensor) -> Result<Tensor> {
    Ok(op::sort(self_, 0, false)?.0)
}

/// How a value between two elements follows from them.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Between {
    Linear,
    Lower,
    Higher,
    Midpoint,
    Nearest,
}

impl Between {
    fn named(name: &str) -> Result<Self> {
        Ok(match name {
            "linear" => Self::Linear,
            "lower" => Self::Lower,
            "higher" => Self::Higher,
            "midpoint" => Self::Midpoint,
            "nearest" => Self::Nearest,
            other => bail!(
                Runtime,
                "quantile() interpolation must be one of linear, lower, higher, midpoint or \
                 nearest, but got {other}"
            ),
        })
    }
}

fn check_quantile(self_: &Tensor, q: &Tensor) -> Result<()> {
    ensure!(self_.numel() > 0, Runtime, "quantile() input tensor must be non-empty");
    ensure!(q.dim() <= 1, Runtime, "quantile() q must be a scalar or 1D tensor");
    ensure!(
        matches!(self_.dtype(), DType::Float32 | DType::Float64),
        Runtime,
        "quantile() input tensor must be either float or double dtype"
    );
    ensure!(
        self_.dtype() == q.dtype(),
        Runtime,
        "quantile() q tensor must be same dtype as the input tensor"
    );
    Ok(())
}

/// The shape of the result, with one dimension in front for `q` even where that is a number.
fn quantile_shape(self_: &Tensor, q: &Tensor, dim: Option<usize>, keepdim: bool) -> Dims {
    let mut shape = Dims::from_slice(&[q.numel()]);
    for (i, &size) in self_.sizes().iter().enumerate() {
        match dim {
            Some(dim) if dim != i => shape.push(size),
            _ if keepdim => shape.push(1),
            _ => {}
        }
    }
    shape
}

fn quantiles(
    self_: &Tensor,
    q: &Tensor,
    dim: Option<i64>,
    keepdim: bool,
    interpolation: &str,
    ignore_nan: bool,
) -> Result<Tensor> {
    let between = Between::named(interpolation)?;
    check_quantile(self_, q)?;
    let dim = dim.map(|dim| geometry::wrap_dim(dim, self_.dim())).transpose()?;
    if q.device().is_cpu() && !q.lacks_data() {
        let inside = op::logical_and(
            &op::ge_scalar(q, Scalar::Int(0))?,
            &op::le_scalar(q, Scalar::Int(1))?,
        )?;
        let all = op::all(&batched::all_items(&inside))?.to_vec::<bool>()?;
        ensure!(!all.contains(&false), Runtime, "quantile() q values must be in the range [0, 1]");
    }
    let lines = match dim {
        None => op::flatten_using_ints(self_, 0, -1)?,
        Some(dim) if dim + 1 == self_.dim() || self_.dim() == 0 => self_.clone(),
        Some(dim) => op::transpose_int(&op::unsqueeze(self_, -1)?, dim as i64, -1)?,
    };
    let lines = if lines.dim() == 0 { op::unsqueeze(&lines, 0)? } else { lines };
    // Which of several equal elements comes first shows in gradients only, and costs another sort.
    let stable = Some(!requires_grad(self_));
    let sorted = op::sort_stable(&lines, stable, -1, false)?.0;
    let mut shape: Vec<i64> = quantile_shape(self_, q, dim, keepdim)[1..].to_vec();
    shape.push(sorted.size(-1)?);
    let sorted = op::view(&sorted, &shape)?;
    let values = at_ranks(&sorted, &ranks(&sorted, q, ignore_nan)?, between)?;
    match q.dim() {
        0 => op::squeeze_dim(&values, -1),
        _ => op::squeeze_dim(&op::transpose_int(&op::unsqueeze(&values, 0)?, 0, -1)?, -1),
    }
}

/// The places of the quantiles among sorted elements, as fractions.
fn ranks(sorted: &Tensor, q: &Tensor, ignore_nan: bool) -> Result<Tensor> {
    let q = if q.dim() == 0 { op::unsqueeze(q, 0)? } else { q.clone() };
    let nan = op::isnan(sorted)?;
    if ignore_nan {
        let counts = op::sum_dim_intlist(&op::logical_not(&nan)?, Some(&[-1]), true, None)?;
        let last = op::sub_scalar(&counts, Scalar::Int(1), Scalar::Int(1))?;
        let ranks = op::mul_tensor(&q, &last)?;
        // Where all are NaN the first one is as good as any.
        let below = op::lt_scalar(&ranks, Scalar::Int(0))?;
        return op::masked_fill_scalar(&ranks, &below, Scalar::Int(0));
    }
    let last = Scalar::Int(sorted.size(-1)? - 1);
    let pair = [op::mul_scalar(&q, last)?, op::any_dim(&nan, -1, true)?];
    let pair = op::broadcast_tensors(&pair)?;
    // NaN is sorted to the end.
    op::masked_fill_scalar(&pair[0], &pair[1], last)
}

fn at_ranks(sorted: &Tensor, ranks: &Tensor, between: Between) -> Result<Tensor> {
    let ranks = match between {
        Between::Lower => op::floor(ranks)?,
        Between::Higher => op::ceil(ranks)?,
        Between::Nearest => op::round(ranks)?,
        _ => ranks.clone(),
    };
    let places = |ranks: &Tensor| op::to_dtype(ranks, DType::Int64, false, false, None);
    let below = places(&ranks)?;
    let values = op::gather(sorted, -1, &below, false)?;
    if !matches!(between, Between::Linear | Between::Midpoint) {
        return Ok(values);
    }
    let weights = match between {
        Between::Midpoint => {
            op::full_like(&ranks, Scalar::Float(0.5), None, None, None, None, None)?
        }
        _ => op::sub_tensor(&ranks, &below, Scalar::Int(1))?,
    };
    let above = op::gather(sorted, -1, &places(&op::ceil(&ranks)?)?, false)?;
    op::lerp_tensor(&values, &above, &weights)
}

fn fraction(self_: &Tensor, q: f64) -> Result<Tensor> {
    let inside = (0.0..=1.0).contains(&q);
    let shown = if q.is_nan() { "nan".to_owned() } else { q.to_string() };
    ensure!(inside, Runtime, "quantile() q must be in the range [0, 1] but got {shown}");
    let (dtype, device) = (Some(self_.dtype()), Some(self_.device()));
    op::scalar_tensor(Scalar::Float(q), dtype, None, device, None)
}

fn into_quantile(self_: &Tensor, out: &Tensor, result: Result<Tensor>) -> Result<Tensor> {
    let result = result?;
    ensure!(
        out.dtype() == self_.dtype(),
        Runtime,
        "quantile() out tensor must be same dtype as the input tensor"
    );
    crate::derived::write_out(out, &result)
}

macro_rules! quantile_functions {
    ($($(#[$doc:meta])* $name:ident $scalar:ident $out:ident $scalar_out:ident: $ignore:literal;)+) => {$(
        $(#[$doc])*
        pub fn $name(
            self_: &Tensor,
            q: &Tensor,
            dim: Option<i64>,
            keepdim: bool,
            interpolation: &str,
        ) -> Result<Tensor> {
            quantiles(self_, q, dim, keepdim, interpolation, $ignore)
        }

        $(#[$doc])*
        /// Of one fraction.
        pub fn $scalar(
            self_: &Tensor,
            q: f64,
            dim: Option<i64>,
            keepdim: bool,
            interpolation: &str,
        ) -> Result<Tensor> {
            $name(self_, &fraction(self_, q)?, dim, keepdim, interpolation)
        }

        $(#[$doc])*
        /// Into `out`.
        pub fn $out(
            self_: &Tensor,
            q: &Tensor,
            dim: Option<i64>,
            keepdim: bool,
            interpolation: &str,
            out: &Tensor,
        ) -> Result<Tensor> {
            into_quantile(self_, out, $name(self_, q, dim, keepdim, interpolation))
        }

        $(#[$doc])*
        /// Of one fraction, into `out`.
        pub fn $scalar_out(
            self_: &Tensor,
            q: f64,
            dim: Option<i64>,
            keepdim: bool,
            interpolation: &str,
            out: &Tensor,
        ) -> Result<Tensor> {
            $out(self_, &fraction(self_, q)?, dim, keepdim, interpolation, out)
        }
    )+};
}

quantile_functions! {
    /// Values below which fractions of the elements lie.
    quantile quantile_scalar quantile_out quantile_scalar_out: false;
    /// Values below which fractions of the elements lie that are not NaN.
    nanquantile nanquantile_scalar nanquantile_out nanquantile_scalar_out: true;
}

//! Covariances and combinations of observations.

use super::support::defined;
use crate::{Tensor, batched, op};
use corten_core::{DType, Result, Scalar, ensure, try_collect, try_with_capacity};

const ONE: Scalar = Scalar::Int(1);

fn check_weights(weights: &Tensor, name: &str, observations: i64) -> Result<()> {
    ensure!(
        weights.dim() <= 1,
        Runtime,
        "cov(): expected {name} to have one or fewer dimensions but got {name} with {} dimensions",
        weights.dim()
    );
    let (integral, dtype) = (name == "fweights", weights.dtype());
    let fits = if integral { dtype.is_integral(false) } else { dtype.is_floating_point() };
    ensure!(
        fits,
        Runtime,
        "cov(): expected {name} to have {} dtype but got {name} with {} dtype",
        if integral { "integral" } else { "floating point" },
        dtype.type_name()
    );
    ensure!(
        weights.numel() == observations,
        Runtime,
        "cov(): expected {name} to have the same numel as there are observations in the input but \
         got {} != {observations}",
        weights.numel()
    );
    if weights.device().is_cpu() && observations > 0 {
        let least = op::min(&batched::all_items(weights))?.to_element::<f64>()?;
        ensure!(least >= 0.0 || least.is_nan(), Runtime, "cov(): {name} cannot be negative");
    }
    Ok(())
}

/// The covariance matrix of variables in rows, observations in columns.
///
/// # Errors
/// `Runtime` for more than two dimensions and weights that do not fit, `NotImplemented` for bool.
pub fn cov(
    self_: &Tensor,
    correction: i64,
    fweights: Option<&Tensor>,
    aweights: Option<&Tensor>,
) -> Result<Tensor> {
    ensure!(
        self_.dim() <= 2,
        Runtime,
        "cov(): expected input to have two or fewer dimensions but got an input with {} dimensions",
        self_.dim()
    );
    let bool = self_.dtype() == DType::Bool;
    ensure!(!bool, NotImplemented, "cov(): bool dtype is not supported for input");
    let values = if self_.dim() < 2 { op::view(self_, &[1, -1])? } else { self_.clone() };
    let observations = values.size(1)?;
    let (fweights, aweights) = (defined(fweights), defined(aweights));
    for (weights, name) in [(fweights, "fweights"), (aweights, "aweights")] {
        if let Some(weights) = weights {
            check_weights(weights, name, observations)?;
        }
    }
    let weights = match (fweights, aweights) {
        (Some(f), Some(a)) => Some(op::mul_tensor(f, a)?),
        (f, a) => f.or(a).cloned(),
    };
    let total = match &weights {
        Some(weights) => op::sum(weights, None)?,
        None => op::scalar_tensor(Scalar::Int(observations), Some(DType::Int64), None, None, None)?,
    };
    let usable = weights.is_none()
        || observations == 0
        || !total.device().is_cpu()
        || op::all(&op::ne_scalar(&batched::all_items(&total), Scalar::Int(0))?)?.to_element()?;
    ensure!(usable, Runtime, "cov(): weights sum to zero, can't be normalized");
    let weighted = |values: &Tensor| match &weights {
        Some(weights) => op::mul_tensor(values, weights),
        None => Ok(values.clone()),
    };
    let sums = op::sum_dim_intlist(&weighted(&values)?, Some(&[1]), false, None)?;
    let centred =
        op::sub_tensor(&values, &op::unsqueeze(&op::div_tensor(&sums, &total)?, 1)?, ONE)?;
    let freedom = freedom(&total, correction, weights.as_ref(), aweights)?;
    let product = op::mm(&centred, &op::conj(&op::t(&weighted(&centred)?)?)?)?;
    op::squeeze(&op::true_divide_tensor(&product, &freedom)?)
}

/// The number that sums of products are divided by.
fn freedom(
    total: &Tensor,
    correction: i64,
    weights: Option<&Tensor>,
    aweights: Option<&Tensor>,
) -> Result<Tensor> {
    let freedom = match (weights, aweights) {
        (Some(weights), Some(aweights)) if correction != 0 => {
            let squares = op::sum(&op::mul_tensor(weights, aweights)?, None)?;
            let share = op::div_tensor(&squares, total)?;
            op::sub_tensor(total, &op::mul_scalar(&share, Scalar::Int(correction))?, ONE)?
        }
        _ => op::sub_scalar(total, Scalar::Int(correction), ONE)?,
    };
    let least = || op::min(&batched::all_items(&freedom))?.to_element::<f64>();
    if freedom.device().is_cpu() && least()? <= 0.0 {
        corten_core::warn(
            "cov(): degrees of freedom is <= 0. Correction should be strictly less than the number \
             of observations.",
        );
    }
    op::clamp_min(&freedom, Scalar::Int(0))
}

/// The matrix of correlation coefficients of variables in rows.
///
/// # Errors
/// `Runtime` for more than two dimensions.
pub fn corrcoef(self_: &Tensor) -> Result<Tensor> {
    ensure!(
        self_.dim() <= 2,
        Runtime,
        "corrcoef(): expected input to have two or fewer dimensions but got an input with {} \
         dimensions",
        self_.dim()
    );
    let c = op::cov(self_, 1, None, None)?;
    if c.dim() == 0 {
        return op::div_tensor(&c, &c);
    }
    let diagonal = op::diagonal(&c, 0, 0, 1)?;
    let real = if diagonal.dtype().is_complex() { op::real(&diagonal)? } else { diagonal };
    let deviation = op::sqrt(&real)?;
    let c = op::div_tensor(&c, &op::unsqueeze(&deviation, 1)?)?;
    let c = op::div_tensor(&c, &op::unsqueeze(&deviation, 0)?)?;
    if c.dtype().is_complex() {
        // Real and imaginary part are limited apart.
        let (re, im) = (op::real(&c)?, op::imag(&c)?);
        return op::complex(&limited(&re)?, &limited(&im)?);
    }
    limited(&c)
}

fn limited(c: &Tensor) -> Result<Tensor> {
    op::clamp(c, Some(Scalar::Int(-1)), Some(ONE))
}

/// Every way to choose `r` of the elements of a vector, one per row.
///
/// # Errors
/// `Runtime` for other than a vector and a negative number.
pub fn combinations(self_: &Tensor, r: i64, with_replacement: bool) -> Result<Tensor> {
    ensure!(
        self_.dim() == 1,
        Runtime,
        "Expect a 1D vector, but got shape {:?}",
        self_.sizes().as_slice()
    );
    ensure!(r >= 0, Runtime, "Expect a non-negative number, but got {r}");
    if r == 0 {
        return op::new_empty(self_, &[0], None, None, None, None);
    }
    let count = self_.numel();
    let rows = choices(count, r, with_replacement)?;
    let height = rows.len() as i64 / r;
    let index = Tensor::from_vec(rows, &[height * r])?;
    op::view(&op::index_select(self_, 0, &index)?, &[height, r])
}

/// Every choice of `r` of so many numbers, in ascending order, one after the other.
fn choices(count: i64, r: i64, with_replacement: bool) -> Result<Vec<i64>> {
    if count == 0 || (r > count && !with_replacement) {
        return Ok(Vec::new());
    }
    let wide = if with_replacement { count.saturating_add(r - 1) } else { count };
    let all = binomial(wide, r).and_then(|all| all.checked_mul(r as usize));
    let mut rows: Vec<i64> = try_with_capacity(all.unwrap_or(usize::MAX))?;
    let gap = i64::from(!with_replacement);
    let mut row: Vec<i64> = try_collect((0..r).map(|place| place * gap))?;
    loop {
        rows.extend_from_slice(&row);
        // The last place that is not at its end moves on, and those behind follow it.
        let end = |place: i64| count - 1 - (r - 1 - place) * gap;
        let Some(place) = (0..r).rev().find(|&place| row[place as usize] < end(place)) else {
            return Ok(rows);
        };
        let first = row[place as usize] + 1;
        for (number, behind) in (0..).zip(&mut row[place as usize..]) {
            *behind = first + number * gap;
        }
    }
}

/// How many choices of `r` of so many there are, if that can be said.
fn binomial(count: i64, r: i64) -> Option<usize> {
    let mut all = 1u128;
    for step in 0..r.min(count - r) as u128 {
        all = all.checked_mul(count as u128 - step)? / (step + 1);
        usize::try_from(all).ok()?;
    }
    usize::try_from(all).ok()
}

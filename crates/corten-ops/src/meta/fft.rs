//! Shapes and layouts of the Fourier transforms.
//!
//! The transformed dimensions lie innermost in the result, the last one named varying fastest, so
//! that a kernel walks its lines in order; the others keep the order of their strides.

use crate::Tensor;
use crate::iter::allocate;
use corten_core::{Dims, Result, ensure, err, geometry};

/// The result of a transform without its data.
///
/// ```
/// use corten::ops::meta::fft::{Transform, plan_r2c};
/// use corten::prelude::*;
///
/// # fn main() -> Result<()> {
/// let plan: Transform = plan_r2c(&Tensor::ones([8])?, &[0], true)?;
/// assert_eq!((plan.out.dtype(), plan.out.sizes().to_vec()), (DType::Complex64, vec![5]));
/// # Ok(())
/// # }
/// ```
pub struct Transform {
    /// The result.
    pub out: Tensor,
    /// The order of dimensions in which the result is contiguous; the transformed ones are last.
    pub order: Dims,
}

fn last_of(dim: &[i64]) -> Result<i64> {
    dim.last().copied().ok_or_else(|| err!(Runtime, "at least one dimension must be transformed"))
}

fn wrapped(self_: &Tensor, dim: &[i64]) -> Result<Dims> {
    let mut seen = vec![false; self_.dim()];
    dim.iter()
        .map(|&dim| {
            let place = geometry::wrap_dim_strict(dim, self_.dim())?;
            ensure!(
                !std::mem::replace(&mut seen[place], true),
                Runtime,
                "dim {place} appears multiple times in the list of dims"
            );
            Ok(place as i64)
        })
        .collect()
}

/// The dimensions not transformed by falling stride, then the transformed ones: by falling stride
/// too, except for the `fixed` last ones.
fn order(self_: &Tensor, dim: &[i64], fixed: usize) -> Dims {
    let strides = self_.strides();
    let by_stride = |a: &i64, b: &i64| strides[*b as usize].cmp(&strides[*a as usize]);
    let mut batch: Vec<i64> = (0..self_.dim() as i64).filter(|d| !dim.contains(d)).collect();
    batch.sort_by(by_stride);
    let (sorted, last) = dim.split_at(dim.len() - fixed);
    let mut sorted = sorted.to_vec();
    sorted.sort_by(by_stride);
    batch.into_iter().chain(sorted).chain(last.iter().copied()).collect()
}

fn transform(self_: &Tensor, sizes: &[i64], order: Dims, complex: bool) -> Result<Transform> {
    let permuted: Dims = order.iter().map(|&dim| sizes[dim as usize]).collect();
    let inner = geometry::contiguous_strides(&permuted)?;
    let mut strides: Dims = sizes.into();
    for (&dim, &stride) in order.iter().zip(&inner) {
        strides[dim as usize] = stride;
    }
    let dtype = if complex { self_.dtype().to_complex() } else { self_.dtype().to_real() };
    Ok(Transform { out: allocate(sizes, Some(&strides), dtype, self_.device())?, order })
}

/// Of complex numbers.
///
/// # Errors
/// `Runtime` for real numbers and repeated dimensions, `Index` for dimensions out of range.
pub fn plan_c2c(self_: &Tensor, dim: &[i64]) -> Result<Transform> {
    ensure!(
        self_.dtype().is_complex(),
        Runtime,
        "Only supports complex dtypes, but found: {}",
        self_.dtype().type_name()
    );
    let dim = wrapped(self_, dim)?;
    transform(self_, &self_.sizes(), order(self_, &dim, 0), true)
}

/// Of real numbers.
///
/// # Errors
/// `Type` for other numbers, `Runtime` without a dimension; those of [`plan_c2c`].
pub fn plan_r2c(self_: &Tensor, dim: &[i64], onesided: bool) -> Result<Transform> {
    ensure!(
        self_.dtype().is_floating_point(),
        Type,
        "Only supports floating-point dtypes, but found: {}",
        self_.dtype().type_name()
    );
    let dim = wrapped(self_, dim)?;
    let last = last_of(&dim)? as usize;
    let mut sizes = self_.sizes();
    if onesided {
        sizes[last] = sizes[last] / 2 + 1;
    }
    transform(self_, &sizes, order(self_, &dim, 1), true)
}

/// Of half a symmetric spectrum, along one dimension.
///
/// # Errors
/// `Runtime` for real numbers, and for a spectrum too short for `last_dim_size` points.
pub fn plan_c2r(self_: &Tensor, dim: i64, last_dim_size: i64) -> Result<Transform> {
    let found = self_.dtype();
    ensure!(
        found.is_complex(),
        Runtime,
        "Only supports complex dtypes, but found: {}",
        found.type_name()
    );
    let dim = geometry::wrap_dim_strict(dim, self_.dim())?;
    let mut sizes = self_.sizes();
    ensure!(
        last_dim_size >= 1 && sizes[dim] > last_dim_size / 2,
        Runtime,
        "a spectrum of {} points is not that of {last_dim_size} real ones",
        sizes[dim]
    );
    sizes[dim] = last_dim_size;
    transform(self_, &sizes, order(self_, &[dim as i64], 1), false)
}

/// The shape of `_fft_c2c`.
///
/// # Errors
/// Those of [`plan_c2c`].
pub fn _fft_c2c(
    self_: &Tensor,
    dim: &[i64],
    _normalization: i64,
    _forward: bool,
) -> Result<Tensor> {
    Ok(plan_c2c(self_, dim)?.out)
}

/// The shape of `_fft_r2c`.
///
/// # Errors
/// Those of [`plan_r2c`].
pub fn _fft_r2c(
    self_: &Tensor,
    dim: &[i64],
    _normalization: i64,
    onesided: bool,
) -> Result<Tensor> {
    Ok(plan_r2c(self_, dim, onesided)?.out)
}

/// The shape of `_fft_c2r`.
///
/// # Errors
/// Those of [`plan_c2r`].
pub fn _fft_c2r(
    self_: &Tensor,
    dim: &[i64],
    _normalization: i64,
    last_dim_size: i64,
) -> Result<Tensor> {
    let dims = wrapped(self_, dim)?;
    let last = last_of(&dims)?;
    // The other dimensions are transformed first, which decides how the spectrum lies.
    let spectrum = match dims.len() {
        1 => self_.clone(),
        several => plan_c2c(self_, &dims[..several - 1])?.out,
    };
    Ok(plan_c2r(&spectrum, last, last_dim_size)?.out)
}

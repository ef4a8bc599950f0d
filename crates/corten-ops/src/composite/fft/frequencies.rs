//! The frequencies that belong to the points of a transform, and shifts of them.

use crate::{Tensor, op};
use corten_core::{DType, Device, Layout, Result, Scalar, default_dtype, ensure, geometry};

fn check_dtype(name: &str, dtype: DType) -> Result<()> {
    ensure!(
        dtype.is_floating_point() || dtype.is_complex(),
        Runtime,
        "{name} requires a floating point or complex dtype"
    );
    Ok(())
}

/// The frequencies of a transform of `n` samples, the negative ones in the second half.
///
/// # Errors
/// `Runtime` for other dtypes than floating-point ones and a negative number.
pub fn fft_fftfreq(
    n: i64,
    d: f64,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    check_dtype("fftfreq", dtype.unwrap_or_else(default_dtype))?;
    let dtype = Some(dtype.unwrap_or_else(default_dtype));
    fft_fftfreq_out(n, d, &op::empty_memory_format(&[n], dtype, layout, device, pin_memory, None)?)
}

/// The `out=` form of [`fft_fftfreq`].
///
/// # Errors
/// As there.
pub fn fft_fftfreq_out(n: i64, d: f64, out: &Tensor) -> Result<Tensor> {
    check_dtype("fftfreq", out.dtype())?;
    op::arange_out(Scalar::Int(n), out)?;
    let positive = n / 2 + n % 2;
    let negative = op::slice_tensor(out, 0, Some(positive), None, 1)?;
    op::arange_start_out(Scalar::Int(-(n / 2)), Scalar::Int(0), Scalar::Int(1), &negative)?;
    op::mul__scalar(out, Scalar::Float(1.0 / (n as f64 * d)))
}

/// The frequencies of a transform of `n` real samples, without the negative ones.
///
/// # Errors
/// As [`fft_fftfreq`].
pub fn fft_rfftfreq(
    n: i64,
    d: f64,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    check_dtype("rfftfreq", dtype.unwrap_or_else(default_dtype))?;
    let dtype = Some(dtype.unwrap_or_else(default_dtype));
    let half = n / 2 + 1;
    let out = op::empty_memory_format(&[half], dtype, layout, device, pin_memory, None)?;
    fft_rfftfreq_out(n, d, &out)
}

/// The `out=` form of [`fft_rfftfreq`].
///
/// # Errors
/// As there.
pub fn fft_rfftfreq_out(n: i64, d: f64, out: &Tensor) -> Result<Tensor> {
    check_dtype("rfftfreq", out.dtype())?;
    op::arange_out(Scalar::Int(n / 2 + 1), out)?;
    op::mul__scalar(out, Scalar::Float(1.0 / (n as f64 * d)))
}

/// Frequency zero moved to the middle.
///
/// # Errors
/// `Index` for dimensions out of range.
pub fn fft_fftshift(self_: &Tensor, dim: Option<&[i64]>) -> Result<Tensor> {
    shifted(self_, dim, |size| size / 2)
}

/// Frequency zero moved back from the middle.
///
/// # Errors
/// As [`fft_fftshift`].
pub fn fft_ifftshift(self_: &Tensor, dim: Option<&[i64]>) -> Result<Tensor> {
    shifted(self_, dim, |size| size / 2 + size % 2)
}

fn shifted(self_: &Tensor, dim: Option<&[i64]>, by: impl Fn(i64) -> i64) -> Result<Tensor> {
    let rank = self_.dim();
    let dims = match dim {
        Some(dim) => dim
            .iter()
            .map(|&dim| Ok(geometry::wrap_dim(dim, rank)? as i64))
            .collect::<Result<Vec<i64>>>()?,
        None => (0..rank as i64).collect(),
    };
    if rank == 0 && dims.is_empty() {
        return op::clone(self_, None);
    }
    let sizes = self_.sizes();
    let shifts: Vec<i64> =
        dims.iter().map(|&dim| by(sizes.get(dim as usize).copied().unwrap_or(1))).collect();
    op::roll(self_, &shifts, &dims)
}

//! Numbers at equal distances.

use super::empty::empty;
use super::fresh;
use crate::meta::cpp_name;
use crate::meta::factory::{all_integers, arange_size};
use crate::{Tensor, op};
use corten_core::{
    Complex, DType, Device, Layout, Result, Scalar, bail, default_complex_dtype, default_dtype,
    ensure,
};

/// `start`, `start + step`, … below `end`.
///
/// # Errors
/// `Runtime` for bounds that do not go with the step.
pub fn arange(
    start: Scalar,
    end: Scalar,
    step: Scalar,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    let integers = all_integers(&[start, end, step]);
    let natural = || if integers { DType::Int64 } else { default_dtype() };
    let dtype = dtype.unwrap_or_else(natural);
    let size = arange_size(start, end, step, dtype)?;
    let result = empty(&[size], Some(dtype), layout, device, pin_memory, None)?;
    fresh(|| op::arange_start_out(start, end, step, &result))?;
    Ok(result)
}

/// `start`, `start + 1`, … below `end`.
///
/// # Errors
/// Those of [`arange`].
pub fn arange_start(
    start: Scalar,
    end: Scalar,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    arange(start, end, Scalar::Int(1), dtype, layout, device, pin_memory)
}

/// 0, 1, … below `end`.
///
/// # Errors
/// Those of [`arange`].
pub fn arange_end(
    end: Scalar,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    arange(Scalar::Int(0), end, Scalar::Int(1), dtype, layout, device, pin_memory)
}

/// [`arange_end`] into `out`.
///
/// # Errors
/// Those of [`arange`].
pub fn arange_end_out(end: Scalar, out: &Tensor) -> Result<Tensor> {
    op::arange_start_out(Scalar::Int(0), end, Scalar::Int(1), out)
}

/// The dtype of numbers between two bounds.
fn spaced_dtype(name: &str, bounds: [Scalar; 2], dtype: Option<DType>) -> Result<DType> {
    let complex = bounds.iter().any(|bound| bound.is_complex());
    let natural = if complex { default_complex_dtype() } else { default_dtype() };
    let dtype = dtype.unwrap_or(natural);
    if complex && !dtype.is_complex() {
        bail!(
            Runtime,
            "torch.{name}(): inferred dtype {} can't be safely cast to passed dtype {}",
            cpp_name(natural),
            dtype.type_name()
        );
    }
    Ok(dtype)
}

/// `steps` numbers from `start` to `end`, both included.
///
/// # Errors
/// `Runtime` for a negative number of steps or a complex bound with a real dtype.
pub fn linspace(
    start: Scalar,
    end: Scalar,
    steps: i64,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    ensure!(steps >= 0, Runtime, "number of steps must be non-negative");
    let dtype = spaced_dtype("linspace", [start, end], dtype)?;
    let result = empty(&[steps], Some(dtype), layout, device, pin_memory, None)?;
    fresh(|| op::linspace_out(start, end, steps, &result))?;
    Ok(result)
}

/// A bound as a number; without data any of its kind.
fn bound(tensor: &Tensor) -> Result<Scalar> {
    match tensor.device().is_meta() {
        true if tensor.dtype().is_complex() => Ok(Scalar::Complex(Complex::new(1.0, 0.0))),
        true => Ok(Scalar::Float(1.0)),
        false => op::item(tensor),
    }
}

/// The device of numbers between tensors: without data where a bound is.
fn device_of(bounds: &[&Tensor], device: Option<Device>) -> Option<Device> {
    let meta = bounds.iter().any(|bound| bound.device().is_meta());
    device.or(meta.then_some(Device::META))
}

/// [`linspace`] between tensors of rank 0.
///
/// # Errors
/// Those of [`linspace`]; `Runtime` for bounds of another rank.
pub fn linspace_tensor_tensor(
    start: &Tensor,
    end: &Tensor,
    steps: i64,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    ensure!(
        start.dim() == 0 && end.dim() == 0,
        Runtime,
        "linspace only supports 0-dimensional start and end tensors, but got start with {} \
         dimension(s) and end with {} dimension(s).",
        start.dim(),
        end.dim()
    );
    let device = device_of(&[start, end], device);
    linspace(bound(start)?, bound(end)?, steps, dtype, layout, device, pin_memory)
}

/// [`linspace`] from a tensor of rank 0.
///
/// # Errors
/// Those of [`linspace`]; `Runtime` for a bound of another rank.
pub fn linspace_tensor_scalar(
    start: &Tensor,
    end: Scalar,
    steps: i64,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    ensure!(
        start.dim() == 0,
        Runtime,
        "linspace only supports 0-dimensional start and end tensors, but got start with {} \
         dimension(s).",
        start.dim()
    );
    let device = device_of(&[start], device);
    linspace(bound(start)?, end, steps, dtype, layout, device, pin_memory)
}

/// [`linspace`] to a tensor of rank 0.
///
/// # Errors
/// Those of [`linspace`]; `Runtime` for a bound of another rank.
pub fn linspace_scalar_tensor(
    start: Scalar,
    end: &Tensor,
    steps: i64,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    ensure!(
        end.dim() == 0,
        Runtime,
        "linspace only supports 0-dimensional start and end tensors, but got end with {} \
         dimension(s).",
        end.dim()
    );
    let device = device_of(&[end], device);
    linspace(start, bound(end)?, steps, dtype, layout, device, pin_memory)
}

/// Powers of `base` with exponents at equal distances.
///
/// # Errors
/// Those of [`linspace`].
pub fn logspace(
    start: Scalar,
    end: Scalar,
    steps: i64,
    base: f64,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    ensure!(steps >= 0, Runtime, "number of steps must be non-negative");
    let dtype = spaced_dtype("logspace", [start, end], dtype)?;
    let result = empty(&[steps], Some(dtype), layout, device, pin_memory, None)?;
    fresh(|| op::logspace_out(start, end, steps, base, &result))?;
    Ok(result)
}

/// [`logspace`] between tensors of rank 0.
///
/// # Errors
/// Those of [`logspace`]; `Runtime` for a bound of another rank.
pub fn logspace_tensor_tensor(
    start: &Tensor,
    end: &Tensor,
    steps: i64,
    base: f64,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    ensure!(
        start.dim() == 0 && end.dim() == 0,
        Runtime,
        "logspace only supports 0-dimensional start and end tensors, but got start with {} \
         dimension(s) and end with {} dimension(s).",
        start.dim(),
        end.dim()
    );
    let device = device_of(&[start, end], device);
    logspace(bound(start)?, bound(end)?, steps, base, dtype, layout, device, pin_memory)
}

/// [`logspace`] from a tensor of rank 0.
///
/// # Errors
/// Those of [`logspace`]; `Runtime` for a bound of another rank.
pub fn logspace_tensor_scalar(
    start: &Tensor,
    end: Scalar,
    steps: i64,
    base: f64,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    ensure!(
        start.dim() == 0,
        Runtime,
        "logspace only supports 0-dimensional start and end tensors, but got start with {} \
         dimension(s).",
        start.dim()
    );
    let device = device_of(&[start], device);
    logspace(bound(start)?, end, steps, base, dtype, layout, device, pin_memory)
}

/// [`logspace`] to a tensor of rank 0.
///
/// # Errors
/// Those of [`logspace`]; `Runtime` for a bound of another rank.
pub fn logspace_scalar_tensor(
    start: Scalar,
    end: &Tensor,
    steps: i64,
    base: f64,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    ensure!(
        end.dim() == 0,
        Runtime,
        "logspace only supports 0-dimensional start and end tensors, but got end with {} \
         dimension(s).",
        end.dim()
    );
    let device = device_of(&[end], device);
    logspace(start, bound(end)?, steps, base, dtype, layout, device, pin_memory)
}

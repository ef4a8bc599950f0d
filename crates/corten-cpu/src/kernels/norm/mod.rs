//! Normalisation over batches, rows and groups.

mod batch;
mod columns;
mod group;
mod layer;
mod rms;

pub use batch::{AffineStep, affine_of_running, native_batch_norm, native_batch_norm_backward};
pub use group::{native_group_norm, native_group_norm_backward};
pub use layer::{native_layer_norm, native_layer_norm_backward};
pub use rms::fused_rms_norm;

use super::support::{contiguous, defined, empty_as, is_shape_only};
use crate::rows::loops::{Function, map, row_functions};
use crate::rows::{Float, Wide};
use corten_core::{Access, AccessSet, DType, Result, ensure, match_dtype, try_collect};
use corten_ops::Tensor;

/// Means and reciprocal standard deviations.
type MeanRstd<T> = (Vec<<T as Float>::Wide>, Vec<<T as Float>::Wide>);

/// The dtype of statistics and parameter gradients: that of the parameters, which may be `f32`
/// beside half precision inputs, else that of the input.
///
/// # Errors
/// `Runtime` for any other mix.
fn parameter_dtype(input: &Tensor, parameters: &[Option<&Tensor>]) -> Result<DType> {
    let mut dtypes = parameters.iter().filter_map(|p| defined(*p)).map(|p| p.dtype());
    let Some(first) = dtypes.next() else { return Ok(input.dtype()) };
    let half = input.dtype().is_reduced_float();
    ensure!(
        first == input.dtype() || (half && first == DType::Float32),
        Runtime,
        "mixed dtype (CPU): expect parameter to have scalar type of Float"
    );
    for dtype in dtypes {
        ensure!(
            dtype == first || first != DType::Float32,
            Runtime,
            "mixed dtype (CPU): expect parameter to have scalar type of Float"
        );
        ensure!(
            dtype == first,
            Runtime,
            "expected scalar type {} but found {}",
            first.type_name(),
            dtype.type_name()
        );
    }
    Ok(first)
}

/// The elements of a parameter in the type that the kernel computes in.
fn values_of<W: Wide>(tensor: Option<&Tensor>) -> Result<Option<Vec<W>>> {
    let Some(tensor) = defined(tensor) else { return Ok(None) };
    let tensor = contiguous(tensor)?;
    match_dtype!(tensor.dtype(), "norm", Float, T => {
        let access = AccessSet::acquire(&[(&tensor, Access::Read)])?;
        let values = access.read::<T>(0)?;
        Ok(Some(try_collect(values.iter().map(|&value| corten_core::cast(value)))?))
    })
}

row_functions! {
    /// The gradient of a normalised row: `average` and `along` are what the mean and the variance
    /// take from it.
    InputGradient { weight, mean, average, along, factor }: 2 |g, x|
        (x - mean).mul_add(-along, g.mul_add(weight, -average)) * factor;
}

/// `out = f(a, b)`, computed in the wider type.
fn map_pair<T: Float>(out: &mut [T], a: &[T], b: &[T], f: impl Function<T::Wide, 2>) {
    let mut buffers = (Vec::new(), Vec::new());
    let (a, b) = (T::wide_row(a, &mut buffers.0), T::wide_row(b, &mut buffers.1));
    T::fill(out, &mut Vec::new(), |out| map(out, [a, b], f));
}

/// A new tensor of the given values.
fn tensor_of<W: Wide>(values: &[W], sizes: &[i64], like: &Tensor, dtype: DType) -> Result<Tensor> {
    let out = empty_as(sizes, like, dtype)?;
    if is_shape_only(&out) {
        return Ok(out);
    }
    match_dtype!(dtype, "norm", Float, T => {
        let access = AccessSet::acquire(&[(&out, Access::Write)])?;
        let target = access.write::<T>(0)?;
        for (target, &value) in target.iter_mut().zip(values) {
            *target = corten_core::cast(value);
        }
        Ok(())
    })?;
    Ok(out)
}

/// The gradients of input, weight and bias, those that are asked for, without their values.
fn unfilled_gradients(
    grad_input: impl FnOnce() -> Result<Tensor>,
    parameter: impl Fn(usize) -> Result<Tensor>,
    mask: &[bool],
) -> Result<(Tensor, Tensor, Tensor)> {
    Ok((
        if_asked(mask[0], grad_input)?,
        if_asked(mask[1], || parameter(1))?,
        if_asked(mask[2], || parameter(2))?,
    ))
}

/// The value, or an undefined tensor where it is not asked for.
fn if_asked(asked: bool, value: impl FnOnce() -> Result<Tensor>) -> Result<Tensor> {
    if asked { value() } else { Ok(Tensor::undefined()) }
}

//! Rules of factories that compute their elements from the position. The loop has one operand,
//! walked in logical order.

use super::copy::linear;
use crate::Tensor;
use crate::iter::{TensorIterator, allocate, resize_to};
use corten_core::{DType, Result, Scalar, bail, ensure, warn};

/// The output that a rule of a factory cannot do without.
fn given(out: Option<&Tensor>) -> Result<&Tensor> {
    match out {
        Some(out) => Ok(out),
        None => bail!(Internal, "a factory's rule needs an output"),
    }
}

/// Whether numbers are all integers or bools.
pub(crate) fn all_integers(numbers: &[Scalar]) -> bool {
    numbers.iter().all(|number| number.is_integral(true))
}

/// The number of elements of `arange(start, end, step)`.
///
/// # Errors
/// `NotImplemented` for dtypes that are not counted in; `Runtime` for a step of zero, bounds that
/// do not go with its sign, or too many elements.
pub(crate) fn arange_size(start: Scalar, end: Scalar, step: Scalar, dtype: DType) -> Result<i64> {
    let wide_unsigned = matches!(dtype, DType::UInt16 | DType::UInt32 | DType::UInt64);
    let float8 = dtype.is_floating_point() && dtype.itemsize() == 1;
    ensure!(
        !(wide_unsigned || float8 || dtype == DType::Bool || dtype.is_complex()),
        NotImplemented,
        "\"arange_cpu\" not implemented for '{}'",
        dtype.type_name()
    );
    let a = start.checked_to::<f64>("arange")?;
    let b = end.checked_to::<f64>("arange")?;
    let s = step.checked_to::<f64>("arange")?;
    ensure!(s != 0.0, Runtime, "step must be nonzero");
    ensure!(
        a.is_finite() && b.is_finite(),
        Runtime,
        "unsupported range: {} -> {}",
        as_streamed(a),
        as_streamed(b)
    );
    ensure!(
        (s > 0.0 && b >= a) || (s < 0.0 && b <= a),
        Runtime,
        "upper bound and lower bound inconsistent with step sign"
    );
    let size = if dtype == DType::Int64 && all_integers(&[start, end, step]) {
        // In integers: a double cannot tell neighbours above 2^53.
        let (a, b, s) = (start.to_i64(), end.to_i64(), step.to_i64());
        let distance = i128::from(b) - i128::from(a);
        ((distance + i128::from(s) - i128::from(s.signum())) / i128::from(s)) as f64
    } else {
        ((b - a) / s).ceil()
    };
    ensure!(size >= 0.0 && size <= i64::MAX as f64, Runtime, "invalid size, possible overflow?");
    Ok(size as i64)
}

/// A double as C++ streams print it.
fn as_streamed(value: f64) -> String {
    if value.is_nan() { "nan".to_owned() } else { value.to_string() }
}

/// `arange.start_out`: `start`, `start + step`, … below `end`. An output of the right number of
/// elements keeps its shape.
///
/// # Errors
/// Those of the bounds and the dtype.
pub fn arange(
    start: Scalar,
    end: Scalar,
    step: Scalar,
    out: Option<&Tensor>,
) -> Result<TensorIterator> {
    let out = given(out)?;
    let dtype = out.dtype();
    let size = arange_size(start, end, step, dtype)?;
    if out.numel() != size {
        if out.numel() > 0 {
            warn(format!(
                "The number of elements in the out tensor of shape {:?} is {} which does not \
                 match the computed number of elements {size}. Note that this may occur as a \
                 result of rounding error. The out tensor will be resized to a tensor of shape \
                 ({size},).",
                out.sizes().as_slice(),
                out.numel()
            ));
        }
        resize_to(out, &[size], None)?;
    }
    linear(out)
}

/// `linspace.out`: `steps` numbers from `start` to `end`, both included.
///
/// # Errors
/// `Runtime` for a negative number of steps; `NotImplemented` for bools.
pub fn linspace(
    _start: Scalar,
    _end: Scalar,
    steps: i64,
    out: Option<&Tensor>,
) -> Result<TensorIterator> {
    spaced("linspace_cpu", steps, given(out)?)
}

/// `logspace.out`: powers of a base with exponents as in [`linspace`].
///
/// # Errors
/// Those of [`linspace`].
pub fn logspace(
    _start: Scalar,
    _end: Scalar,
    steps: i64,
    _base: f64,
    out: Option<&Tensor>,
) -> Result<TensorIterator> {
    spaced("logspace_cpu", steps, given(out)?)
}

fn spaced(name: &str, steps: i64, out: &Tensor) -> Result<TensorIterator> {
    ensure!(steps >= 0, Runtime, "number of steps must be non-negative");
    ensure!(
        out.dtype() != DType::Bool || steps <= 1,
        NotImplemented,
        "\"{name}\" not implemented for 'Bool'"
    );
    if out.numel() != steps {
        resize_to(out, &[steps], None)?;
    }
    linear(out)
}

/// `tril`, `triu`: the result without its data.
///
/// # Errors
/// `Runtime` below rank 2.
pub fn tril(self_: &Tensor, _diagonal: i64) -> Result<Tensor> {
    ensure!(self_.dim() >= 2, Runtime, "tril: input tensor must have at least 2 dimensions");
    allocate(&self_.sizes(), None, self_.dtype(), self_.device())
}

/// See [`tril`].
///
/// # Errors
/// `Runtime` below rank 2.
pub fn triu(self_: &Tensor, _diagonal: i64) -> Result<Tensor> {
    ensure!(self_.dim() >= 2, Runtime, "triu: input tensor must have at least 2 dimensions");
    allocate(&self_.sizes(), None, self_.dtype(), self_.device())
}

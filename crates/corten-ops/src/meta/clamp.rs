//! The rule of limiting elements to a range.

use super::elementwise::refusal;
use super::number::{beside_numbers, promoted};
use super::{Domain, Promote, pointwise};
use crate::iter::TensorIterator;
use crate::{Tensor, op, shortcut, stubs};
use corten_core::{DType, Result, ResultTypeState, Scalar, can_cast, ensure};

/// `clamp`: three inputs; an absent bound becomes the end of the dtype's range.
///
/// # Errors
/// `Runtime` without bounds, and those of [`pointwise`].
pub fn clamp(
    self_: &Tensor,
    min: Option<Scalar>,
    max: Option<Scalar>,
    out: Option<&Tensor>,
) -> Result<TensorIterator> {
    let dtype = self_.dtype();
    let wrapped = |name: &str, bound: Option<Scalar>, outside: fn(i64, i64, i64) -> bool| {
        let Some(bound) = bound else { return Ok(None) };
        let within = within_range(dtype, bound, |value, low, high| {
            ensure!(
                !outside(value, low, high),
                Runtime,
                "Clamp {name} value {value} is outside the representable range of {}",
                dtype.type_name()
            );
            Ok(value.clamp(low, high))
        })?;
        if !matches!(within, Scalar::Int(_)) || !is_wide_unsigned(dtype) {
            return crate::derived::wrapped(within).map(Some);
        }
        // No other integers are promoted with these dtypes.
        let device = Some(self_.device());
        let bound = op::scalar_tensor(within, Some(dtype), None, device, None)?;
        bound.set_wrapped_number(true);
        Ok(Some(bound))
    };
    // The result takes its order of dimensions from all strides, also those of dimensions of size 1.
    let ordered = self_.sizes().iter().all(|&size| size >= 2);
    if ordered
        && out.is_none_or(|out| out.is_same(self_))
        && let Some(result) = clamp_dense(self_, min, max, out)?
    {
        return Ok(TensorIterator::nothing(&result, self_));
    }
    let numbers: Vec<Scalar> = min.into_iter().chain(max).collect();
    let min = wrapped("min", min, |value, _, high| value > high)?;
    let max = wrapped("max", max, |value, low, _| value < low)?;
    if let Some(out) = out.filter(|out| out.defined()) {
        check_clamp_out(self_, &numbers, out)?;
    }
    if out.is_some() || ordered {
        return clamp_tensor(self_, min.as_ref(), max.as_ref(), out);
    }
    let result = beside_numbers(self_, &numbers)?;
    clamp_tensor(self_, min.as_ref(), max.as_ref(), Some(&result))
}

/// [`clamp`] between real numbers of a tensor that needs no iterator: limits that are numbers need
/// not become tensors then.
fn clamp_dense(
    self_: &Tensor,
    min: Option<Scalar>,
    max: Option<Scalar>,
    out: Option<&Tensor>,
) -> Result<Option<Tensor>> {
    const RULE: shortcut::Rule = shortcut::Rule { promote: Promote::Same, domain: Domain::Ordered };
    let bound = |given: Option<Scalar>, end: f64| match given {
        None => Some(Scalar::Float(end)),
        given => given.filter(|number| !number.is_complex()),
    };
    let bounds = bound(min, f64::NEG_INFINITY).zip(bound(max, f64::INFINITY));
    let limited = self_.dtype().is_floating_point() && (min.is_some() || max.is_some());
    let Some((min, max)) = bounds.filter(|_| limited) else { return Ok(None) };
    let call = shortcut::Call { inputs: &[self_], out, scalars: &[min, max] };
    // The same expression.
    shortcut::run(&stubs::HARDTANH, &RULE, &call)
}

/// An output must have the dtype of the result; in place a cast will do.
fn check_clamp_out(self_: &Tensor, numbers: &[Scalar], out: &Tensor) -> Result<()> {
    let (dtype, written) = (promoted(self_, numbers)?, out.dtype());
    if out.is_same(self_) {
        ensure!(
            can_cast(dtype, written),
            Runtime,
            "result type {} can't be cast to the desired output type {}",
            dtype.type_name(),
            super::cpp_name(written)
        );
        return Ok(());
    }
    ensure!(
        dtype == written,
        Runtime,
        "Found dtype {} but expected {}",
        written.type_name(),
        dtype.type_name()
    );
    Ok(())
}

/// An integer bound for integers, brought into their range.
fn within_range(
    dtype: DType,
    bound: Scalar,
    limit: impl Fn(i64, i64, i64) -> Result<i64>,
) -> Result<Scalar> {
    match (bound, range_of(dtype)?) {
        (Scalar::Int(value), (Scalar::Int(low), Scalar::Int(high))) => {
            Ok(Scalar::Int(limit(value, low, high)?))
        }
        // Signed integers are never beyond the end of 64 bits without a sign.
        (Scalar::Int(value), (Scalar::Int(low), _)) => {
            Ok(Scalar::Int(limit(value, low, i64::MAX)?))
        }
        _ => Ok(bound),
    }
}

/// `clamp.Tensor`: as [`clamp`].
///
/// # Errors
/// `Runtime` without bounds, and those of [`pointwise`].
pub fn clamp_tensor(
    self_: &Tensor,
    min: Option<&Tensor>,
    max: Option<&Tensor>,
    out: Option<&Tensor>,
) -> Result<TensorIterator> {
    ensure!(
        min.is_some() || max.is_some(),
        Runtime,
        "torch.clamp: At least one of 'min' or 'max' must not be None"
    );
    let mut state = ResultTypeState::default();
    for tensor in [Some(self_), min, max].into_iter().flatten() {
        state.push_tensor(tensor.dtype(), tensor.dim(), tensor.is_wrapped_number())?;
    }
    let dtype = state.finish()?;
    if let Some(error) = refusal("clamp", dtype) {
        return Err(error);
    }
    let (low, high) = range_of(dtype)?;
    let bound = |given: Option<&Tensor>, end: Scalar| match given {
        Some(tensor) => Ok(tensor.clone()),
        None => {
            let end = op::scalar_tensor(end, Some(dtype), None, Some(self_.device()), None)?;
            // It takes no part in the promotion.
            end.set_wrapped_number(true);
            Ok(end)
        }
    };
    let (min, max) = (bound(min, low)?, bound(max, high)?);
    pointwise("clamp", Promote::Ternary, Domain::OrderedWide, &[self_, &min, &max], out)
}

fn is_wide_unsigned(dtype: DType) -> bool {
    matches!(dtype, DType::UInt16 | DType::UInt32 | DType::UInt64)
}

/// The least and the greatest value of a dtype.
fn range_of(dtype: DType) -> Result<(Scalar, Scalar)> {
    if dtype.is_floating_point() {
        return Ok((Scalar::Float(f64::NEG_INFINITY), Scalar::Float(f64::INFINITY)));
    }
    let bits = 8 * dtype.itemsize() as u32;
    Ok(match (dtype.is_integral(false), dtype.is_signed()) {
        (false, _) => (Scalar::Bool(false), Scalar::Bool(true)),
        (_, true) => (Scalar::Int(i64::MIN >> (64 - bits)), Scalar::Int(i64::MAX >> (64 - bits))),
        (_, false) => (Scalar::Int(0), Scalar::from(u64::MAX >> (64 - bits))),
    })
}

//! Pointwise operators that are more than an expression of tensors and numbers.

use super::support::is_shape_only;
use crate::pointwise::{Pointwise1, Pointwise2, Pointwise3, pointwise1, pointwise2, pointwise3};
use crate::vec::expr::Expr;
use corten_core::{DType, Element, Result, Scalar, match_dtype};
use corten_ops::Tensor;
use corten_ops::iter::{self, TensorIterator};
use corten_ops::meta::Domain;
use corten_ops::meta::elementwise::{
    Rounding, greatest_finite, plan_div, plan_logit, plan_nan_to_num,
};
use corten_ops::{IterKernel, op};

/// Runs a loop over a planned walk and returns its output.
pub(crate) fn finished(
    mut iter: TensorIterator,
    kernel: IterKernel,
    scalars: &[Scalar],
) -> Result<Tensor> {
    kernel(&mut iter, scalars)?;
    iter.finish()?;
    Ok(iter.into_output(0))
}

/// What a plan computes; on the meta device nothing. See Note [Kernels on the meta device].
pub(crate) fn computed(
    plan: TensorIterator,
    kernel: IterKernel,
    scalars: &[Scalar],
) -> Result<Tensor> {
    match is_shape_only(plan.tensor(0)) {
        true => Ok(plan.into_output(0)),
        false => finished(plan, kernel, scalars),
    }
}

/// Defines pointwise operators: a type with the expression.
macro_rules! operators {
    ($($(#[$doc:meta])* $name:ident: $shape:ident $domain:ident |$($x:ident),+; $s:ident| $body:expr;)+) => {$(
        $(#[$doc])*
        struct $name;
        impl $shape for $name {
            const NAME: &'static str = stringify!($name);
            const DOMAIN: Domain = Domain::$domain;
            #[inline(always)]
            fn eval<E: Expr>($($x: E,)+ $s: &[E]) -> E {
                $body
            }
        }
    )+};
}
pub(crate) use operators;

operators! {
    /// Between two numbers; where they are in the wrong order, the upper one.
    Clamp: Pointwise3 OrderedWide |x, low, high; _s| x.clamp(low, high);
    ClampToNumbers: Pointwise3 OrderedWide |x, _low, _high; s| x.clamp(s[0], s[1]);
    /// log(x / (1 - x)).
    Logit: Pointwise1 Float |x; _s| (x / (E::lit(1.0) - x)).log();
    /// As `Logit`, of x between eps and 1 - eps.
    LogitClamped: Pointwise1 Float |x; s| {
        let x = limited(x, s);
        (x / (E::lit(1.0) - x)).log()
    };
    /// The limits are checked in this order, whichever is larger.
    Limited: Pointwise1 Float |x; s| limited(x, s);
    /// NaN, infinity and negative infinity replaced.
    NanToNum: Pointwise1 Float |x; s| {
        let x = E::select(x.is_nan(), s[0], x);
        let finite = E::select(x.eq(E::lit(f64::INFINITY)), s[1], x);
        E::select(x.eq(E::lit(f64::NEG_INFINITY)), s[2], finite)
    };
    Identity: Pointwise1 Every |x; _s| x;
    Rounded: Pointwise1 Float |x; _s| x.round();
    /// To multiples of 1 / s[0], a power of ten, and of s[0].
    RoundedToPart: Pointwise1 Float |x; s| (x * s[0]).round() / s[0];
    RoundedToMultiple: Pointwise1 Float |x; s| (x / s[0]).round() * s[0];
    TrueQuotient: Pointwise2 FloatComplex |x, y; _s| x / y;
    FloorQuotient: Pointwise2 Ordered |x, y; _s| x.floor_divide(y);
    TruncQuotient: Pointwise2 Ordered |x, y; _s| x.trunc_divide(y);
    Power: Pointwise2 NoBool |x, y; _s| x.pow(y);
    Square: Pointwise2 NoBool |x, _y; _s| x * x;
    Cube: Pointwise2 NoBool |x, _y; _s| x * x * x;
    SquareRoot: Pointwise2 FloatComplex |x, _y; _s| x.sqrt();
    ReciprocalRoot: Pointwise2 FloatComplex |x, _y; _s| x.rsqrt();
    Reciprocal: Pointwise2 FloatComplex |x, _y; _s| x.reciprocal();
    ReciprocalSquare: Pointwise2 FloatComplex |x, _y; _s| (x * x).reciprocal();
}

#[inline(always)]
fn limited<E: Expr>(x: E, s: &[E]) -> E {
    E::select(x.lt(s[0]), s[0], E::select(x.gt(s[1]), s[1], x))
}

/// `clamp`: the inputs are the tensor, the lower and the upper bound.
///
/// # Errors
/// Those of [`pointwise3`].
pub fn clamp(iter: &mut TensorIterator, _scalars: &[Scalar]) -> Result<()> {
    // Also where the rule has done the work.
    if iter.numel() == 0 {
        return Ok(());
    }
    match (number(iter, 2)?, number(iter, 3)?) {
        (Some(low), Some(high)) => pointwise3::<ClampToNumbers>(iter, &[low, high]),
        _ => pointwise3::<Clamp>(iter, &[]),
    }
}

/// `pow`: frequent exponents have loops of their own. Square roots differ from powers for negative zeros
/// and infinities, so that only numbers stand for them.
///
/// # Errors
/// Those of [`pointwise2`].
pub fn pow(iter: &mut TensorIterator, _scalars: &[Scalar]) -> Result<()> {
    let dtype = iter.input_dtype();
    let fractional = dtype.is_floating_point() || dtype.is_complex();
    let root = fractional && iter.is_wrapped_number(2);
    let kernel: IterKernel = match fixed_exponent(iter)? {
        Some(2.0) => pointwise2::<Square>,
        Some(3.0) => pointwise2::<Cube>,
        Some(0.5) if root => pointwise2::<SquareRoot>,
        Some(-0.5) if root => pointwise2::<ReciprocalRoot>,
        Some(-1.0) if fractional => pointwise2::<Reciprocal>,
        Some(-2.0) if fractional => pointwise2::<ReciprocalSquare>,
        _ => pointwise2::<Power>,
    };
    kernel(iter, &[])
}

/// `round.decimals`.
///
/// # Errors
/// Those of [`pointwise1`].
pub fn round_decimals(iter: &mut TensorIterator, scalars: &[Scalar]) -> Result<()> {
    let decimals = scalars[0].to_f64();
    let power = Scalar::from(10f64.powf(decimals.abs()));
    match decimals {
        0.0 => pointwise1::<Rounded>(iter, &[]),
        _ if decimals < 0.0 => pointwise1::<RoundedToMultiple>(iter, &[power]),
        _ => pointwise1::<RoundedToPart>(iter, &[power]),
    }
}

/// The exponent where all elements share a real one.
fn fixed_exponent(iter: &mut TensorIterator) -> Result<Option<f64>> {
    if iter.numel() == 0 {
        return Ok(None);
    }
    Ok(match number(iter, 2)? {
        Some(Scalar::Complex(value)) if value.im != 0.0 => None,
        exponent => exponent.map(|exponent| exponent.to_f64()),
    })
}

/// The one element that an operand has, of an iterator that is not empty.
fn number(iter: &mut TensorIterator, operand: usize) -> Result<Option<Scalar>> {
    if !iter.is_cpu_scalar(operand) {
        return Ok(None);
    }
    let (at, dtype) = (iter.data_ptr(operand)?, iter.dtype(operand));
    match_dtype!(dtype, "number", All, T => {
        // SAFETY: the operand is one element of this dtype, and access to it is held.
        Ok(Some(unsafe { at.cast::<T>().read() }.to_scalar()))
    })
}

fn quotient(rounding: Rounding) -> IterKernel {
    match rounding {
        Rounding::True => pointwise2::<TrueQuotient>,
        Rounding::Floor => pointwise2::<FloorQuotient>,
        Rounding::Trunc => pointwise2::<TruncQuotient>,
    }
}

fn divided(
    self_: &Tensor,
    other: &Tensor,
    rounding_mode: Option<&str>,
    out: Option<&Tensor>,
) -> Result<Tensor> {
    let rounding = Rounding::named(rounding_mode)?;
    let iter = plan_div(self_, other, rounding, out)?;
    let rounds = iter.common_dtype().is_reduced_float() && !iter.is_cpu_scalar(2);
    if rounding == Rounding::Trunc && rounds {
        drop(iter);
        // The quotient is rounded to its dtype before it is cut off, as PyTorch's is.
        let quotient = divided(self_, other, None, None)?;
        return match out {
            Some(out) => op::trunc_out(&quotient, out),
            None => op::trunc(&quotient),
        };
    }
    finished(iter, quotient(rounding), &[])
}

/// `div` with a rounding mode.
///
/// # Errors
/// Those of the plan, or a division of integers by zero; for the variants likewise.
pub fn div_mode(self_: &Tensor, other: &Tensor, rounding_mode: Option<&str>) -> Result<Tensor> {
    divided(self_, other, rounding_mode, None)
}

/// As [`div_mode`], in place.
pub fn div_mode_(self_: &Tensor, other: &Tensor, rounding_mode: Option<&str>) -> Result<Tensor> {
    divided(self_, other, rounding_mode, Some(self_))
}

/// As [`div_mode`], into `out`.
pub fn div_mode_out(
    self_: &Tensor,
    other: &Tensor,
    rounding_mode: Option<&str>,
    out: &Tensor,
) -> Result<Tensor> {
    divided(self_, other, rounding_mode, Some(out))
}

fn logit_into(self_: &Tensor, eps: Option<f64>, out: Option<&Tensor>) -> Result<Tensor> {
    let iter = plan_logit(self_, out)?;
    // The limits are numbers of the dtype.
    let dtype = iter.dtype(0);
    let limits = eps.map(|eps| {
        let low = Scalar::Float(eps).rounded_to(dtype);
        [low, Scalar::Float(1.0 - low.to_f64()).rounded_to(dtype)]
    });
    if dtype.is_reduced_float() {
        drop(iter);
        return logit_in_steps(self_, limits, out);
    }
    match limits {
        None => finished(iter, pointwise1::<Logit>, &[]),
        Some(limits) => finished(iter, pointwise1::<LogitClamped>, &limits),
    }
}

/// `logit` in 16 bits, where every step is rounded as in PyTorch.
fn logit_in_steps(
    self_: &Tensor,
    limits: Option<[Scalar; 2]>,
    out: Option<&Tensor>,
) -> Result<Tensor> {
    let within = match limits {
        None => self_.clone(),
        Some(limits) => finished(plan_logit(self_, None)?, pointwise1::<Limited>, &limits)?,
    };
    let odds = op::div_tensor(&within, &op::rsub_scalar(&within, 1.into(), 1.into())?)?;
    match out {
        Some(out) => op::log_out(&odds, out),
        None => op::log(&odds),
    }
}

/// `logit`.
///
/// # Errors
/// Those of the plan; for the variants likewise.
pub fn logit(self_: &Tensor, eps: Option<f64>) -> Result<Tensor> {
    logit_into(self_, eps, None)
}

/// As [`logit`], in place.
pub fn logit_(self_: &Tensor, eps: Option<f64>) -> Result<Tensor> {
    logit_into(self_, eps, Some(self_))
}

/// As [`logit`], into `out`.
pub fn logit_out(self_: &Tensor, eps: Option<f64>, out: &Tensor) -> Result<Tensor> {
    logit_into(self_, eps, Some(out))
}

fn numbers_into(
    self_: &Tensor,
    nan: Option<f64>,
    posinf: Option<f64>,
    neginf: Option<f64>,
    out: Option<&Tensor>,
) -> Result<Tensor> {
    let (dtype, greatest) = (self_.dtype(), greatest_finite(self_.dtype())?);
    if dtype.is_integral(true) {
        return finished(plan_nan_to_num(self_, out)?, pointwise1::<Identity>, &[]);
    }
    let numbers = [nan.unwrap_or(0.0), posinf.unwrap_or(greatest), neginf.unwrap_or(-greatest)];
    let scalars = numbers.map(Scalar::Float);
    if !dtype.is_complex() {
        return finished(plan_nan_to_num(self_, out)?, pointwise1::<NanToNum>, &scalars);
    }
    // The parts of complex numbers are replaced one by one.
    let result = match out {
        Some(out) => {
            iter::resize_output(out, &self_.sizes())?;
            out.clone()
        }
        None => plan_nan_to_num(self_, None)?.into_output(0),
    };
    let (parts, written) = (real_parts(self_)?, real_parts(&result)?);
    finished(plan_nan_to_num(&parts, Some(&written))?, pointwise1::<NanToNum>, &scalars)?;
    Ok(result)
}

/// The parts of complex numbers as a dimension.
fn real_parts(tensor: &Tensor) -> Result<Tensor> {
    let (mut sizes, mut strides) = (tensor.sizes(), tensor.strides());
    strides.iter_mut().for_each(|stride| *stride *= 2);
    sizes.push(2);
    strides.push(1);
    let storage = tensor.storage()?;
    let view = corten_core::TensorBase::new_with_storage(
        storage,
        DType::to_real(tensor.dtype()),
        tensor.key_set(),
        &sizes,
        &strides,
        2 * tensor.storage_offset(),
    )?;
    Ok(view.into())
}

/// `nan_to_num`.
///
/// # Errors
/// Those of the plan; for the variants likewise.
pub fn nan_to_num(
    self_: &Tensor,
    nan: Option<f64>,
    posinf: Option<f64>,
    neginf: Option<f64>,
) -> Result<Tensor> {
    numbers_into(self_, nan, posinf, neginf, None)
}

/// As [`nan_to_num`], in place.
pub fn nan_to_num_(
    self_: &Tensor,
    nan: Option<f64>,
    posinf: Option<f64>,
    neginf: Option<f64>,
) -> Result<Tensor> {
    numbers_into(self_, nan, posinf, neginf, Some(self_))
}

/// As [`nan_to_num`], into `out`.
pub fn nan_to_num_out(
    self_: &Tensor,
    nan: Option<f64>,
    posinf: Option<f64>,
    neginf: Option<f64>,
    out: &Tensor,
) -> Result<Tensor> {
    numbers_into(self_, nan, posinf, neginf, Some(out))
}

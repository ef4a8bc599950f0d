//! Rules of elementwise operators that the general ones do not cover, and the words with which
//! operators refuse dtypes.

use super::{Domain, Promote, pointwise};
use crate::Tensor;
use crate::iter::{TensorIterator, TensorIteratorConfig, allocate_like};
use corten_core::{DType, Error, Result, Scalar, bail, can_cast, ensure, err};

/// torch's words where an operator refuses a dtype for a reason of its own.
pub(super) fn refusal(name: &str, dtype: DType) -> Option<Error> {
    let complex = dtype.is_complex();
    Some(match name {
        "neg" if dtype == DType::Bool => err!(
            NotImplemented,
            "Negation, the `-` operator, on a bool tensor is not supported. If you are trying to \
             invert a mask, use the `~` or `logical_not()` operator instead."
        ),
        "floor" | "ceil" | "trunc" if complex => {
            err!(NotImplemented, "{name} is not supported for complex inputs")
        }
        "sign" if complex => err!(
            NotImplemented,
            "Unlike NumPy, torch.sign is not intended to support complex numbers. Please use \
             torch.sgn instead."
        ),
        "relu" if dtype == DType::Bool => {
            err!(NotImplemented, "Boolean inputs not supported for relu")
        }
        "hardtanh" if dtype == DType::Bool => {
            err!(NotImplemented, "Bool inputs not supported for hardtanh")
        }
        "clamp" | "relu" | "hardtanh" if complex => {
            err!(NotImplemented, "clamp is not supported for complex types")
        }
        "maximum" | "minimum" | "fmax" | "fmin" if complex => {
            err!(Type, "{name} not implemented for complex tensors.")
        }
        "isposinf" | "isneginf" if complex => {
            err!(Type, "{name} does not support complex inputs.")
        }
        "heaviside" if complex => {
            err!(NotImplemented, "heaviside is not yet implemented for complex tensors.")
        }
        "addcdiv" if dtype.is_integral(true) => err!(
            Runtime,
            "Integer division with addcdiv is no longer supported, and in a future  release \
             addcdiv will perform a true division of tensor1 and tensor2. The historic addcdiv \
             behavior can be implemented as (input + value * torch.trunc(tensor1 / \
             tensor2)).to(input.dtype) for integer inputs and as (input + value * tensor1 / \
             tensor2) for float inputs. The future addcdiv behavior is just the latter \
             implementation: (input + value * tensor1 / tensor2), for all dtypes."
        ),
        _ => return None,
    })
}

/// A factor of a result of this dtype must be of no higher category, and no bool beside numbers.
///
/// # Errors
/// `Runtime` otherwise, with the name of the factor.
pub(crate) fn check_category(dtype: DType, name: &str, factor: Scalar) -> Result<()> {
    ensure!(
        dtype == DType::Bool || !matches!(factor, Scalar::Bool(_)),
        Runtime,
        "Boolean {name} only supported for Boolean results."
    );
    ensure!(
        !dtype.is_integral(true) || factor.is_integral(true),
        Runtime,
        "For integral input tensors, argument {name} must not be a floating point number."
    );
    Ok(())
}

/// `add`, `addcmul`: a factor must fit the dtype that is computed in.
fn check_factor(dtype: DType, alpha: Scalar) -> Result<()> {
    check_category(dtype, "alpha", alpha)?;
    ensure!(
        dtype.is_complex() || !alpha.is_complex(),
        Runtime,
        "For non-complex input tensors, argument alpha must not be a complex number."
    );
    if dtype.is_integral(false) {
        alpha.check_fits(dtype, "alpha")?;
    }
    Ok(())
}

/// `add.Tensor`.
///
/// # Errors
/// `Runtime` for a factor of a higher category, and those of [`pointwise`].
pub fn add(
    self_: &Tensor,
    other: &Tensor,
    alpha: Scalar,
    out: Option<&Tensor>,
) -> Result<TensorIterator> {
    let iter = pointwise("add", Promote::Binary, Domain::All, &[self_, other], out)?;
    check_factor(iter.common_dtype(), alpha)?;
    Ok(iter)
}

/// `sub.Tensor`, `rsub.Tensor`: as [`add`], without bool.
///
/// # Errors
/// `NotImplemented` for bool, and those of [`add`].
pub fn sub(
    self_: &Tensor,
    other: &Tensor,
    alpha: Scalar,
    out: Option<&Tensor>,
) -> Result<TensorIterator> {
    let bools = [self_, other].iter().filter(|tensor| tensor.dtype() == DType::Bool).count();
    ensure!(
        bools < 2,
        NotImplemented,
        "Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or \
         `logical_xor()` operator instead."
    );
    ensure!(
        bools == 0,
        NotImplemented,
        "Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying to \
         invert a mask, use the `~` or `logical_not()` operator instead."
    );
    add(self_, other, alpha, out)
}

/// One input and a result of its dtype, or of the real dtype where it is complex.
fn real_result(name: &'static str, self_: &Tensor, out: Option<&Tensor>) -> Result<TensorIterator> {
    ensure!(
        !out.is_some_and(|out| out.is_same(self_)),
        Runtime,
        "In-place {name} is not supported for complex tensors."
    );
    let real = self_.dtype().to_real();
    if let Some(out) = out.filter(|out| out.defined()) {
        ensure!(
            can_cast(real, out.dtype()),
            Runtime,
            "result type {} can't be cast to the desired output type {}",
            real.type_name(),
            out.dtype().type_name()
        );
    }
    TensorIteratorConfig::new()
        .check_all_same_dtype(false)
        .declare_static_dtype(real)
        .add_output(out)
        .add_input(self_)
        .build()
}

/// `abs`: real for complex numbers.
///
/// # Errors
/// `Runtime` for a complex tensor in place, and those of [`pointwise`].
pub fn abs(self_: &Tensor, out: Option<&Tensor>) -> Result<TensorIterator> {
    if self_.dtype().is_complex() {
        return real_result("abs", self_, out);
    }
    pointwise("abs", Promote::Same, Domain::NoBool, &[self_], out)
}

/// `angle`: real for complex numbers, floating point for integers.
///
/// # Errors
/// Those of [`pointwise`].
pub fn angle(self_: &Tensor, out: Option<&Tensor>) -> Result<TensorIterator> {
    if self_.dtype().is_complex() {
        return real_result("angle", self_, out);
    }
    pointwise("angle", Promote::Float, Domain::All, &[self_], out)
}

/// `addcdiv`: integers are not divided by integers.
///
/// # Errors
/// `Runtime` for such a quotient, and those of [`pointwise`].
pub fn addcdiv(
    self_: &Tensor,
    tensor1: &Tensor,
    tensor2: &Tensor,
    _value: Scalar,
    out: Option<&Tensor>,
) -> Result<TensorIterator> {
    let integral = [tensor1, tensor2].iter().all(|tensor| tensor.dtype().is_integral(true));
    if integral && let Some(error) = refusal("addcdiv", tensor1.dtype()) {
        return Err(error);
    }
    let operands = [self_, tensor1, tensor2];
    pointwise("addcdiv", Promote::Ternary, Domain::FloatComplex, &operands, out)
}

/// `heaviside`: both operands must have one dtype.
///
/// # Errors
/// `Runtime` for two dtypes, and those of [`pointwise`].
pub fn heaviside(self_: &Tensor, values: &Tensor, out: Option<&Tensor>) -> Result<TensorIterator> {
    refuse("heaviside", &[self_, values])?;
    ensure!(
        self_.dtype() == values.dtype()
            && out.is_none_or(|out| !out.defined() || out.dtype() == self_.dtype()),
        Runtime,
        "heaviside is not yet implemented for tensors with different dtypes."
    );
    pointwise("heaviside", Promote::Binary, Domain::Real, &[self_, values], out)
}

/// Fails with the operator's own words where an operand has a dtype that it refuses.
///
/// # Errors
/// As [`refusal`] says.
pub(super) fn refuse(name: &str, inputs: &[&Tensor]) -> Result<()> {
    inputs.iter().find_map(|input| refusal(name, input.dtype())).map_or(Ok(()), Err)
}

fn check_lerp(self_: &Tensor, other: &Tensor, name: &str) -> Result<()> {
    ensure!(
        self_.dtype() == other.dtype(),
        Runtime,
        "expected dtype {} for `{name}` but got dtype {}",
        super::cpp_name(self_.dtype()),
        super::cpp_name(other.dtype())
    );
    Ok(())
}

/// `lerp.Scalar`: both ends must have one dtype.
///
/// # Errors
/// `Runtime` for two dtypes, and those of [`pointwise`].
pub fn lerp_scalar(
    self_: &Tensor,
    end: &Tensor,
    weight: Scalar,
    out: Option<&Tensor>,
) -> Result<TensorIterator> {
    check_lerp(self_, end, "end")?;
    if weight.is_complex() && self_.dtype().is_floating_point() {
        weight.check_fits(self_.dtype(), "lerp")?;
    }
    pointwise("lerp", Promote::Binary, Domain::FloatComplex, &[self_, end], out)
}

/// `lerp.Tensor`: the ends and the weight must have one dtype.
///
/// # Errors
/// `Runtime` for several dtypes, and those of [`pointwise`].
pub fn lerp_tensor(
    self_: &Tensor,
    end: &Tensor,
    weight: &Tensor,
    out: Option<&Tensor>,
) -> Result<TensorIterator> {
    check_lerp(self_, end, "end")?;
    if weight.dim() > 0 {
        check_lerp(self_, weight, "weight")?;
    }
    pointwise("lerp", Promote::Ternary, Domain::FloatComplex, &[self_, end, weight], out)
}

/// What a rounding mode makes of a quotient.
///
/// ```
/// use corten::ops::meta::elementwise::Rounding;
///
/// assert_eq!(Rounding::named(Some("floor"))?, Rounding::Floor);
/// # Ok::<(), corten::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rounding {
    /// Nothing.
    True,
    /// Down.
    Floor,
    /// Towards zero.
    Trunc,
}

impl Rounding {
    /// The mode of this name.
    ///
    /// # Errors
    /// `Runtime` for any other name.
    pub fn named(mode: Option<&str>) -> Result<Self> {
        Ok(match mode {
            None => Self::True,
            Some("floor") => Self::Floor,
            Some("trunc") => Self::Trunc,
            Some(other) => bail!(
                Runtime,
                "div expected rounding_mode to be one of None, 'trunc', or 'floor' but found \
                 '{other}'"
            ),
        })
    }
}

/// The walk of `div` with a rounding mode: floating point only where nothing is rounded.
///
/// # Errors
/// Those of [`pointwise`].
pub fn plan_div(
    self_: &Tensor,
    other: &Tensor,
    rounding: Rounding,
    out: Option<&Tensor>,
) -> Result<TensorIterator> {
    let (name, promote, domain) = match rounding {
        Rounding::True => ("div", Promote::BinaryFloat, Domain::FloatComplex),
        Rounding::Floor => ("div_floor", Promote::Binary, Domain::Ordered),
        Rounding::Trunc => ("div_trunc", Promote::Binary, Domain::Ordered),
    };
    pointwise(name, promote, domain, &[self_, other], out)
}

/// The shape of `div.Tensor_mode`.
///
/// # Errors
/// Those of [`plan_div`].
pub fn div_mode(self_: &Tensor, other: &Tensor, rounding_mode: Option<&str>) -> Result<Tensor> {
    Ok(plan_div(self_, other, Rounding::named(rounding_mode)?, None)?.into_output(0))
}

/// The walk of `logit`.
///
/// # Errors
/// Those of [`pointwise`].
pub fn plan_logit(self_: &Tensor, out: Option<&Tensor>) -> Result<TensorIterator> {
    pointwise("logit", Promote::Float, Domain::Float, &[self_], out)
}

/// The shape of `logit`.
///
/// # Errors
/// Those of [`plan_logit`].
pub fn logit(self_: &Tensor, _eps: Option<f64>) -> Result<Tensor> {
    Ok(plan_logit(self_, None)?.into_output(0))
}

/// The walk of `nan_to_num`.
///
/// # Errors
/// Those of [`pointwise`].
pub fn plan_nan_to_num(self_: &Tensor, out: Option<&Tensor>) -> Result<TensorIterator> {
    if out.is_some() {
        return pointwise("nan_to_num", Promote::Same, Domain::Every, &[self_], out);
    }
    let result = allocate_like(self_, self_.dtype())?;
    pointwise("nan_to_num", Promote::Same, Domain::Every, &[self_], Some(&result))
}

/// The shape of `nan_to_num`.
///
/// # Errors
/// Those of [`plan_nan_to_num`].
pub fn nan_to_num(
    self_: &Tensor,
    _nan: Option<f64>,
    _posinf: Option<f64>,
    _neginf: Option<f64>,
) -> Result<Tensor> {
    Ok(plan_nan_to_num(self_, None)?.into_output(0))
}

/// The greatest finite number of a floating-point dtype, or of a complex one's parts.
///
/// # Errors
/// Never for a defined dtype.
pub fn greatest_finite(dtype: DType) -> Result<f64> {
    let dtype = dtype.to_real();
    Ok(match dtype {
        DType::Float16 => 65_504.0,
        DType::BFloat16 => f64::from(f32::from_bits(0x7f7f_0000)),
        DType::Float32 => f64::from(f32::MAX),
        _ => f64::MAX,
    })
}

/// Whether `gelu` uses the approximation by tanh.
///
/// # Errors
/// `Runtime` for any other name.
pub fn gelu_by_tanh(approximate: &str) -> Result<bool> {
    match approximate {
        "none" => Ok(false),
        "tanh" => Ok(true),
        _ => bail!(Runtime, "approximate argument must be either none or tanh."),
    }
}

/// The walk of an activation function: one or two floating-point inputs of one dtype.
///
/// # Errors
/// Those of [`pointwise`].
pub fn plan_activation(
    name: &'static str,
    inputs: &[&Tensor],
    out: Option<&Tensor>,
) -> Result<TensorIterator> {
    let promote = if inputs.len() == 1 { Promote::Same } else { Promote::Binary };
    pointwise(name, promote, Domain::Float, inputs, out)
}

/// Refuses a λ of `softshrink` that is negative or beyond the range of the dtype.
///
/// # Errors
/// `Runtime`.
pub fn check_softshrink(self_: &Tensor, lambd: Scalar) -> Result<()> {
    let (lambd, dtype) = (lambd.to_f64(), self_.dtype());
    let greatest = -dtype.lowest();
    let shown = match dtype {
        DType::Float16 => "65504",
        DType::BFloat16 => "3.38953e+38",
        DType::Float64 => "1.79769e+308",
        _ => "3.40282e+38",
    };
    ensure!(
        (0.0..=greatest).contains(&lambd),
        Runtime,
        "lambda must be in range [0, {shown}] for input dtype {}, but found {lambd}",
        dtype.type_name()
    );
    Ok(())
}

/// The shape of `softshrink`.
///
/// # Errors
/// Those of [`check_softshrink`] and [`plan_activation`].
pub fn softshrink(self_: &Tensor, lambd: Scalar) -> Result<Tensor> {
    check_softshrink(self_, lambd)?;
    Ok(plan_activation("softshrink", &[self_], None)?.into_output(0))
}

/// The shape of `gelu`.
///
/// # Errors
/// Those of [`plan_activation`].
pub fn gelu(self_: &Tensor, approximate: &str) -> Result<Tensor> {
    gelu_by_tanh(approximate)?;
    Ok(plan_activation("gelu", &[self_], None)?.into_output(0))
}

/// The shape of `gelu_backward`.
///
/// # Errors
/// Those of [`plan_activation`].
pub fn gelu_backward(grad_output: &Tensor, self_: &Tensor, approximate: &str) -> Result<Tensor> {
    gelu_by_tanh(approximate)?;
    Ok(plan_activation("gelu_backward", &[grad_output, self_], None)?.into_output(0))
}

/// The shapes of `log_sigmoid_forward`; the buffer is empty.
///
/// # Errors
/// Those of [`plan_activation`].
pub fn log_sigmoid_forward(self_: &Tensor) -> Result<(Tensor, Tensor)> {
    let result = plan_activation("log_sigmoid", &[self_], None)?.into_output(0);
    let buffer = crate::iter::allocate(&[0], None, self_.dtype(), self_.device())?;
    Ok((result, buffer))
}

/// The shape of `log_sigmoid_backward`.
///
/// # Errors
/// Those of [`plan_activation`].
pub fn log_sigmoid_backward(
    grad_output: &Tensor,
    self_: &Tensor,
    _buffer: &Tensor,
) -> Result<Tensor> {
    Ok(plan_activation("log_sigmoid_backward", &[grad_output, self_], None)?.into_output(0))
}

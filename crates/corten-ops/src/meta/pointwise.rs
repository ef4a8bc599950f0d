//! Rules of elementwise operators.

use super::check::check_dtype;
use crate::Tensor;
use crate::iter::{TensorIterator, TensorIteratorConfig};
use corten_core::{DType, Result, bug, ensure};

/// How the dtypes of an elementwise operator's operands decide that of its result.
///
/// ```
/// use corten::ops::meta::Promote;
///
/// assert_ne!(Promote::Binary, Promote::BinaryFloat);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Promote {
    /// All operands have one dtype.
    Same,
    /// Integers become the default floating-point dtype.
    Float,
    /// Two inputs are promoted together.
    Binary,
    /// As `Binary`, and integers become floating point.
    BinaryFloat,
    /// As `Binary`, and the result is boolean.
    Comparison,
    /// Three inputs are promoted together.
    Ternary,
    /// One input of any dtype, and the result is boolean.
    BoolOut,
}

/// The dtypes that an operator computes in.
///
/// ```
/// use corten::DType;
/// use corten::ops::meta::Domain;
///
/// assert!(Domain::FloatComplex.contains(DType::Complex64));
/// assert!(!Domain::Integral.contains(DType::Bool));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Domain {
    /// Every dtype, also float8 and the wide unsigned integers, which most operators only store.
    Every,
    /// `Every` without float8 and the wide unsigned integers.
    All,
    /// `All` without bool.
    NoBool,
    /// `All` without complex numbers.
    Real,
    /// `Real` with the wide unsigned integers.
    RealWide,
    /// Integers and floating-point numbers.
    Ordered,
    /// `Ordered` with the wide unsigned integers.
    OrderedWide,
    /// Floating-point numbers.
    Float,
    /// Floating-point and complex numbers.
    FloatComplex,
    /// Integers.
    Integral,
    /// Integers and bool.
    IntegralBool,
    /// `IntegralBool` with the wide unsigned integers.
    IntegralBoolWide,
}

impl Domain {
    /// Whether the domain has this dtype.
    pub fn contains(self, dtype: DType) -> bool {
        let float8 = dtype.is_floating_point() && dtype.itemsize() == 1;
        let wide = matches!(dtype, DType::UInt16 | DType::UInt32 | DType::UInt64);
        if (float8 && self != Self::Every) || (wide && !self.has_wide()) {
            return false;
        }
        match self {
            Self::Every | Self::All => dtype != DType::Undefined,
            Self::NoBool => dtype != DType::Bool && dtype != DType::Undefined,
            Self::Real | Self::RealWide => !dtype.is_complex() && dtype != DType::Undefined,
            Self::Ordered | Self::OrderedWide => {
                dtype.is_floating_point() || dtype.is_integral(false)
            }
            Self::Float => dtype.is_floating_point(),
            Self::FloatComplex => dtype.is_floating_point() || dtype.is_complex(),
            Self::Integral => dtype.is_integral(false),
            Self::IntegralBool | Self::IntegralBoolWide => dtype.is_integral(true),
        }
    }

    /// Whether the domain has the unsigned integers of more than 8 bits.
    pub const fn has_wide(self) -> bool {
        matches!(self, Self::Every | Self::RealWide | Self::OrderedWide | Self::IntegralBoolWide)
    }
}

/// Predicates that are written to bool outputs only.
const BOOL_ONLY: [&str; 3] = ["isposinf", "isneginf", "signbit"];

/// The rule of an operator given as an expression.
///
/// # Errors
/// Those of [`TensorIteratorConfig::build`], `NotImplemented` outside the domain, and `Runtime` for
/// an output that is not bool where it has to be.
pub fn pointwise(
    name: &'static str,
    promote: Promote,
    domain: Domain,
    inputs: &[&Tensor],
    out: Option<&Tensor>,
) -> Result<TensorIterator> {
    if matches!(promote, Promote::Binary | Promote::Comparison) {
        super::elementwise::refuse(name, inputs)?;
    }
    let config = match promote {
        Promote::Same => TensorIteratorConfig::unary(),
        Promote::Float if inputs.len() == 1 => TensorIteratorConfig::unary_float(),
        Promote::Float | Promote::BinaryFloat => TensorIteratorConfig::binary_float(),
        Promote::Binary => TensorIteratorConfig::binary(),
        Promote::Comparison => TensorIteratorConfig::comparison(out),
        Promote::Ternary => TensorIteratorConfig::ternary(),
        Promote::BoolOut => {
            let written = out.filter(|out| out.defined()).map(|out| out.dtype());
            ensure!(
                matches!(written, None | Some(DType::Bool)) || !BOOL_ONLY.contains(&name),
                Runtime,
                "{name} does not support non-boolean outputs."
            );
            TensorIteratorConfig::unary_force_bool()
        }
    };
    let mut config = config.add_output(out);
    for input in inputs {
        config = config.add_input(input);
    }
    let iter = config.build()?;
    if iter.ninputs() == 0 {
        bug!("{name} has no tensor argument");
    }
    check_dtype(name, domain, iter.compute_dtype(), iter.device())?;
    Ok(iter)
}

/// Input and output have the same dtype.
///
/// # Errors
/// Those of [`TensorIteratorConfig::build`].
pub fn unary(self_: &Tensor, out: Option<&Tensor>) -> Result<TensorIterator> {
    TensorIteratorConfig::unary().add_output(out).add_input(self_).build()
}

/// Integers become floating point.
///
/// # Errors
/// Those of [`TensorIteratorConfig::build`].
pub fn unary_float(self_: &Tensor, out: Option<&Tensor>) -> Result<TensorIterator> {
    TensorIteratorConfig::unary_float().add_output(out).add_input(self_).build()
}

/// One input of any dtype; the result is boolean.
///
/// # Errors
/// Those of [`TensorIteratorConfig::build`].
pub fn unary_bool(self_: &Tensor, out: Option<&Tensor>) -> Result<TensorIterator> {
    TensorIteratorConfig::unary_force_bool().add_output(out).add_input(self_).build()
}

/// Two inputs are promoted together.
///
/// # Errors
/// Those of [`TensorIteratorConfig::build`].
pub fn binary(self_: &Tensor, other: &Tensor, out: Option<&Tensor>) -> Result<TensorIterator> {
    TensorIteratorConfig::binary().add_output(out).add_input(self_).add_input(other).build()
}

/// Two inputs are promoted together; integers become floating point.
///
/// # Errors
/// Those of [`TensorIteratorConfig::build`].
pub fn binary_float(
    self_: &Tensor,
    other: &Tensor,
    out: Option<&Tensor>,
) -> Result<TensorIterator> {
    TensorIteratorConfig::binary_float().add_output(out).add_input(self_).add_input(other).build()
}

/// Two inputs are promoted together; the result is boolean.
///
/// # Errors
/// Those of [`TensorIteratorConfig::build`].
pub fn comparison(self_: &Tensor, other: &Tensor, out: Option<&Tensor>) -> Result<TensorIterator> {
    TensorIteratorConfig::comparison(out).add_output(out).add_input(self_).add_input(other).build()
}

/// Three inputs are promoted together.
///
/// # Errors
/// Those of [`TensorIteratorConfig::build`].
pub fn ternary(a: &Tensor, b: &Tensor, c: &Tensor, out: Option<&Tensor>) -> Result<TensorIterator> {
    TensorIteratorConfig::ternary().add_output(out).add_input(a).add_input(b).add_input(c).build()
}

//! Expressions of several operators with one `?`: what the macro `expr!` makes of them.
//!
//! Operators on tensors give results, and Rust lets no crate define operators of two results, since both are
//! the standard library's. So `expr!` puts every operand into a [`Term`], which has the operators.

use crate::operators::{add, add_number, number_add, number_div, number_mul, number_sub};
use crate::operators::{sub, sub_number};
use crate::{Tensor, op};
use corten_core::{Result, Scalar, bail};
use std::borrow::Cow;
use std::ops::{Add, Div, Mul, Neg, Sub};

/// A part of an expression: a tensor, a number, or the first error.
///
/// ```
/// use corten::ops::expression::{Operand, Term};
/// use corten::prelude::*;
///
/// # fn main() -> Result<()> {
/// let (a, b) = (tensor![1.0, 2.0]?, tensor![3.0, 4.0]?);
/// let y: Term<'_> = (&a).term() * (&b).term() - (&a).term() / 2.0_f64.term();
/// assert_eq!(y.finish()?.to_vec::<f32>()?, [2.5, 7.0]);
/// # Ok(())
/// # }
/// ```
#[must_use = "`finish` gives the result"]
pub struct Term<'a>(Result<Value<'a>>);

enum Value<'a> {
    Tensor(Cow<'a, Tensor>),
    Number(Scalar),
}

impl Term<'_> {
    /// The value of the expression.
    ///
    /// # Errors
    /// The first one of its operators and operands, and `Type` for numbers alone.
    pub fn finish(self) -> Result<Tensor> {
        match self.0? {
            Value::Tensor(tensor) => Ok(tensor.into_owned()),
            Value::Number(_) => {
                bail!(Type, "expr!: an expression of numbers alone gives no tensor")
            }
        }
    }
}

/// What may stand in an expression: tensors and numbers, references to them, and results of operators.
///
/// ```
/// use corten::prelude::*;
///
/// # fn main() -> Result<()> {
/// let (a, b) = (tensor![1.0, 2.0]?, tensor![3.0, 4.0]?);
/// let sum = corten::expr!(a * b - 1.0)?;
/// assert_eq!(sum.to_vec::<f32>()?, [2.0, 7.0]);
/// # Ok(())
/// # }
/// ```
pub trait Operand<'a> {
    /// The operand as part of an expression.
    fn term(self) -> Term<'a>;
}

impl<'a> Operand<'a> for &'a Tensor {
    fn term(self) -> Term<'a> {
        Term(Ok(Value::Tensor(Cow::Borrowed(self))))
    }
}

impl<'a> Operand<'a> for &&'a Tensor {
    fn term(self) -> Term<'a> {
        (*self).term()
    }
}

impl<'a> Operand<'a> for Tensor {
    fn term(self) -> Term<'a> {
        Ok(self).term()
    }
}

impl<'a> Operand<'a> for Result<Tensor> {
    fn term(self) -> Term<'a> {
        Term(self.map(|tensor| Value::Tensor(Cow::Owned(tensor))))
    }
}

macro_rules! numbers {
    ($($number:ty => |$value:ident| $scalar:expr),+ $(,)?) => {$(
        impl<'a> Operand<'a> for $number {
            fn term(self) -> Term<'a> {
                let $value = self;
                Term(Ok(Value::Number($scalar)))
            }
        }

        impl<'a> Operand<'a> for &$number {
            fn term(self) -> Term<'a> {
                (*self).term()
            }
        }
    )+};
}

numbers! {
    f64 => |x| Scalar::Float(x), f32 => |x| Scalar::Float(f64::from(x)),
    i64 => |x| Scalar::Int(x), i32 => |x| Scalar::Int(i64::from(x)), Scalar => |x| x,
}

/// The functions of one operator.
struct Operator {
    tensors: fn(&Tensor, &Tensor) -> Result<Tensor>,
    tensor_number: fn(&Tensor, Scalar) -> Result<Tensor>,
    number_tensor: fn(Scalar, &Tensor) -> Result<Tensor>,
    floats: fn(f64, f64) -> f64,
    /// None where integers give no integer.
    integers: Option<fn(i64, i64) -> Option<i64>>,
}

impl Operator {
    fn apply<'a>(&self, left: Term<'a>, right: Term<'a>) -> Term<'a> {
        Term(self.compute(left, right))
    }

    fn compute<'a>(&self, left: Term<'a>, right: Term<'a>) -> Result<Value<'a>> {
        let tensor = match (left.0?, right.0?) {
            (Value::Tensor(left), Value::Tensor(right)) => (self.tensors)(&left, &right)?,
            (Value::Tensor(left), Value::Number(right)) => (self.tensor_number)(&left, right)?,
            (Value::Number(left), Value::Tensor(right)) => (self.number_tensor)(left, &right)?,
            (Value::Number(left), Value::Number(right)) => {
                return self.of_numbers(left, right).map(Value::Number);
            }
        };
        Ok(Value::Tensor(Cow::Owned(tensor)))
    }

    fn of_numbers(&self, left: Scalar, right: Scalar) -> Result<Scalar> {
        if let (Scalar::Int(left), Scalar::Int(right), Some(integers)) =
            (left, right, self.integers)
        {
            let Some(found) = integers(left, right) else {
                bail!(Runtime, "expr!: {left} and {right} do not combine to an integer of 64 bits");
            };
            return Ok(Scalar::Int(found));
        }
        let float = |number: Scalar| number.checked_to::<f64>("expr!");
        Ok(Scalar::Float((self.floats)(float(left)?, float(right)?)))
    }
}

macro_rules! term_operator {
    ($trait:ident, $method:ident, $tensors:path, $tensor_number:path, $number_tensor:path, $integers:expr) => {
        impl<'a> $trait for Term<'a> {
            type Output = Term<'a>;

            fn $method(self, other: Term<'a>) -> Term<'a> {
                let operator = Operator {
                    tensors: $tensors,
                    tensor_number: $tensor_number,
                    number_tensor: $number_tensor,
                    floats: f64::$method,
                    integers: $integers,
                };
                operator.apply(self, other)
            }
        }
    };
}

term_operator!(Add, add, add, add_number, number_add, Some(i64::checked_add));
term_operator!(Sub, sub, sub, sub_number, number_sub, Some(i64::checked_sub));
term_operator!(Mul, mul, op::mul_tensor, op::mul_scalar, number_mul, Some(i64::checked_mul));
term_operator!(Div, div, op::div_tensor, op::div_scalar, number_div, None);

impl<'a> Neg for Term<'a> {
    type Output = Term<'a>;

    fn neg(self) -> Term<'a> {
        match self.0 {
            Ok(Value::Tensor(tensor)) => op::neg(&tensor).term(),
            other => Term(other) * (-1_i64).term(),
        }
    }
}

//! `+ - * /` and unary minus.
//!
//! Numbers are `f64`, `i64` and `Scalar`: with one type per kind of literal, `2.0` and `2` need no
//! suffix anywhere in an expression. Every combination of `Tensor`, `&Tensor` and numbers is there, and a fallible result with a
//! tensor on either side, so that `(&a * &b + &c)?` needs one `?`. Two fallible results, and a result and a
//! number, cannot be combined directly: Rust's orphan rule forbids it, for none of these types is this
//! crate's. The macro `expr!` takes such expressions, with one `?` at the end.

use crate::{Tensor, op};
use corten_core::{Error, Result, Scalar};
use std::ops::{Add, Div, Mul, Neg, Sub};

pub(crate) fn add(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    op::add_tensor(a, b, Scalar::Int(1))
}

pub(crate) fn sub(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    op::sub_tensor(a, b, Scalar::Int(1))
}

pub(crate) fn add_number(a: &Tensor, b: Scalar) -> Result<Tensor> {
    op::add_scalar(a, b, Scalar::Int(1))
}

pub(crate) fn sub_number(a: &Tensor, b: Scalar) -> Result<Tensor> {
    op::sub_scalar(a, b, Scalar::Int(1))
}

pub(crate) fn number_sub(a: Scalar, b: &Tensor) -> Result<Tensor> {
    op::rsub_scalar(b, a, Scalar::Int(1))
}

pub(crate) fn number_div(a: Scalar, b: &Tensor) -> Result<Tensor> {
    op::mul_scalar(&op::reciprocal(b)?, a)
}

macro_rules! tensor_operator {
    ($trait:ident, $method:ident, $function:path; $($left:ty),+) => {$(
        tensor_operator!(@right $trait, $method, $function; $left; Tensor, &Tensor);

        impl $trait<Result<Tensor>> for $left {
            type Output = Result<Tensor>;

            fn $method(self, other: Result<Tensor>) -> Result<Tensor> {
                $function(&self, &other?)
            }
        }
    )+};
    (@right $trait:ident, $method:ident, $function:path; $left:ty; $($right:ty),+) => {$(
        impl $trait<$right> for $left {
            type Output = Result<Tensor>;

            fn $method(self, other: $right) -> Result<Tensor> {
                $function(&self, &other)
            }
        }
    )+};
}

macro_rules! result_operator {
    ($trait:ident, $method:ident, $function:path; $($right:ty),+) => {$(
        impl $trait<$right> for Result<Tensor, Error> {
            type Output = Result<Tensor>;

            fn $method(self, other: $right) -> Result<Tensor> {
                $function(&self?, &other)
            }
        }
    )+};
}

macro_rules! number_operator {
    ($trait:ident, $method:ident, $right:path, $left:path; $($number:ty),+) => {$(
        number_operator!(@one $trait, $method, $right, $left; $number; Tensor, &Tensor);
    )+};
    (@one $trait:ident, $method:ident, $right:path, $left:path; $number:ty; $($tensor:ty),+) => {$(
        impl $trait<$number> for $tensor {
            type Output = Result<Tensor>;

            fn $method(self, number: $number) -> Result<Tensor> {
                $right(&self, Scalar::from(number))
            }
        }

        impl $trait<$tensor> for $number {
            type Output = Result<Tensor>;

            fn $method(self, tensor: $tensor) -> Result<Tensor> {
                $left(Scalar::from(self), &tensor)
            }
        }
    )+};
}

pub(crate) fn number_add(a: Scalar, b: &Tensor) -> Result<Tensor> {
    add_number(b, a)
}

pub(crate) fn number_mul(a: Scalar, b: &Tensor) -> Result<Tensor> {
    op::mul_scalar(b, a)
}

tensor_operator!(Add, add, add; Tensor, &Tensor);
tensor_operator!(Sub, sub, sub; Tensor, &Tensor);
tensor_operator!(Mul, mul, op::mul_tensor; Tensor, &Tensor);
tensor_operator!(Div, div, op::div_tensor; Tensor, &Tensor);
result_operator!(Add, add, add; Tensor, &Tensor);
result_operator!(Sub, sub, sub; Tensor, &Tensor);
result_operator!(Mul, mul, op::mul_tensor; Tensor, &Tensor);
result_operator!(Div, div, op::div_tensor; Tensor, &Tensor);
number_operator!(Add, add, add_number, number_add; i64, f64, Scalar);
number_operator!(Sub, sub, sub_number, number_sub; i64, f64, Scalar);
number_operator!(Mul, mul, op::mul_scalar, number_mul; i64, f64, Scalar);
number_operator!(Div, div, op::div_scalar, number_div; i64, f64, Scalar);

macro_rules! negate {
    ($($tensor:ty),+) => {$(
        impl Neg for $tensor {
            type Output = Result<Tensor>;

            fn neg(self) -> Result<Tensor> {
                op::neg(&self)
            }
        }
    )+};
}

negate!(Tensor, &Tensor);

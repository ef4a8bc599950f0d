//! Operators: `a + b`, `-a`, `a < b`, `a += b` and so on.
//!
//! Each slot takes the short road when both operands are plain tensors, or one is and the other is
//! a Python number: straight to the overload, with no parsing. Everything else goes through the
//! function or method of the operator, so that overrides and NumPy's numbers are honoured; what
//! does not fit becomes `NotImplemented`, and Python asks the other operand.

use super::object::{get, is_plain, is_tensor, this, wrap_owned};
use crate::args::number_kind;
use crate::functions::{call_function, call_method, op1};
use crate::overrides::modes_active;
use crate::py::errors::type_error;
use crate::py::{Obj, Py, ffi, slot};
use corten_core::{Result, Scalar};
use corten_ops::Tensor;
use std::ffi::{c_int, c_void};

/// An operand of the short road.
enum Operand<'a> {
    Tensor(&'a Tensor),
    Number(Scalar),
    Other,
}

/// What an object is to the short road.
#[inline]
fn operand(object: &Obj) -> Operand<'_> {
    if is_plain(object) {
        return Operand::Tensor(this(object));
    }
    let (float, int) = (&raw mut ffi::PyFloat_Type, &raw mut ffi::PyLong_Type);
    let ty = object.type_ptr();
    if ty == float || ty == int || object.is_bool() {
        return match object.to_scalar() {
            Ok(scalar) => Operand::Number(scalar),
            Err(raised) => {
                raised.clear();
                Operand::Other
            }
        };
    }
    Operand::Other
}

/// The long road of a binary operator.
#[cold]
fn slow(name: &str, a: &Obj, b: &Obj) -> Py<Obj> {
    let is_ours = |object: &Obj| {
        is_tensor(object) || number_kind(object).is_some() || crate::numpy::is_array(object)
    };
    let has_override = |object: &Obj| {
        let mut found = Default::default();
        crate::args::is_tensor_like(object, &mut found);
        !found.is_empty()
    };
    if !(is_ours(a) || has_override(a)) || !(is_ours(b) || has_override(b)) {
        return Ok(Obj::not_implemented());
    }
    call_function(name, &[a.clone(), b.clone()]).or_else(not_implemented)
}

/// A `TypeError` of the parser means that the other operand should be asked.
fn not_implemented(raised: crate::py::Raised) -> Py<Obj> {
    // SAFETY: reads a static of the interpreter.
    if raised.matches(unsafe { ffi::PyExc_TypeError }) {
        raised.clear();
        return Ok(Obj::not_implemented());
    }
    Err(raised)
}

/// A binary slot over an operator with `Tensor` and `Scalar` overloads.
macro_rules! arithmetic {
    ($function:ident, $name:literal, |$x:ident, $y:ident| $tensors:expr,
     |$t:ident, $s:ident| $right:expr, |$n:ident, $u:ident| $left:expr) => {
        fn $function(a: &Obj, b: &Obj) -> Py<Obj> {
            if modes_active() {
                return slow($name, a, b);
            }
            let result: Result<Tensor> = match (operand(a), operand(b)) {
                (Operand::Tensor($x), Operand::Tensor($y)) => $tensors,
                (Operand::Tensor($t), Operand::Number($s)) => $right,
                (Operand::Number($n), Operand::Tensor($u)) => $left,
                _ => return slow($name, a, b),
            };
            wrap_owned(result?)
        }
    };
}

const ONE: Scalar = Scalar::Int(1);

fn wrapped(number: Scalar) -> Result<Tensor> {
    corten_ops::derived::wrapped(number)
}

arithmetic!(add, "add",
    |x, y| op1!("aten::add.Tensor", x, y, ONE),
    |t, s| op1!("aten::add.Scalar", t, s, ONE),
    |n, u| op1!("aten::add.Scalar", u, n, ONE));
arithmetic!(sub, "sub",
    |x, y| op1!("aten::sub.Tensor", x, y, ONE),
    |t, s| op1!("aten::sub.Scalar", t, s, ONE),
    |n, u| op1!("aten::rsub.Scalar", u, n, ONE));
arithmetic!(mul, "mul",
    |x, y| op1!("aten::mul.Tensor", x, y),
    |t, s| op1!("aten::mul.Scalar", t, s),
    |n, u| op1!("aten::mul.Scalar", u, n));
arithmetic!(div, "div",
    |x, y| op1!("aten::div.Tensor", x, y),
    |t, s| op1!("aten::div.Scalar", t, s),
    |n, u| op1!("aten::reciprocal", u).and_then(|r| op1!("aten::mul.Scalar", r, n)));
arithmetic!(floor_divide, "floor_divide",
    |x, y| op1!("aten::floor_divide", x, y),
    |t, s| op1!("aten::floor_divide.Scalar", t, s),
    |n, u| wrapped(n).and_then(|w| op1!("aten::floor_divide", w, u)));
arithmetic!(remainder, "remainder",
    |x, y| op1!("aten::remainder.Tensor", x, y),
    |t, s| op1!("aten::remainder.Scalar", t, s),
    |n, u| op1!("aten::remainder.Scalar_Tensor", n, u));
arithmetic!(pow, "pow",
    |x, y| op1!("aten::pow.Tensor_Tensor", x, y),
    |t, s| op1!("aten::pow.Tensor_Scalar", t, s),
    |n, u| op1!("aten::pow.Scalar", n, u));
arithmetic!(and, "bitwise_and",
    |x, y| op1!("aten::bitwise_and.Tensor", x, y),
    |t, s| op1!("aten::bitwise_and.Scalar", t, s),
    |n, u| op1!("aten::bitwise_and.Scalar", u, n));
arithmetic!(or, "bitwise_or",
    |x, y| op1!("aten::bitwise_or.Tensor", x, y),
    |t, s| op1!("aten::bitwise_or.Scalar", t, s),
    |n, u| op1!("aten::bitwise_or.Scalar", u, n));
arithmetic!(xor, "bitwise_xor",
    |x, y| op1!("aten::bitwise_xor.Tensor", x, y),
    |t, s| op1!("aten::bitwise_xor.Scalar", t, s),
    |n, u| op1!("aten::bitwise_xor.Scalar", u, n));
arithmetic!(lshift, "bitwise_left_shift",
    |x, y| op1!("aten::__lshift__.Tensor", x, y),
    |t, s| op1!("aten::__lshift__.Scalar", t, s),
    |n, u| op1!("aten::bitwise_left_shift.Scalar_Tensor", n, u));
arithmetic!(rshift, "bitwise_right_shift",
    |x, y| op1!("aten::__rshift__.Tensor", x, y),
    |t, s| op1!("aten::__rshift__.Scalar", t, s),
    |n, u| op1!("aten::bitwise_right_shift.Scalar_Tensor", n, u));

fn matmul(a: &Obj, b: &Obj) -> Py<Obj> {
    match (is_plain(a), is_plain(b), modes_active()) {
        (true, true, false) => {
            call_function("matmul", &[a.clone(), b.clone()])
        }
        _ if number_kind(a).is_some() || number_kind(b).is_some() => Ok(Obj::not_implemented()),
        _ => slow("matmul", a, b),
    }
}

/// An in-place slot: the method with the trailing underscore.
macro_rules! inplace {
    ($($function:ident, $method:literal, $tensor:literal, $scalar:literal $(, $one:expr)?;)+) => {$(
        fn $function(a: &Obj, b: &Obj) -> Py<Obj> {
            if !modes_active() && is_plain(a) {
                let result = match operand(b) {
                    Operand::Tensor(other) => op1!($tensor, this(a), other $(, $one)?),
                    Operand::Number(other) => op1!($scalar, this(a), other $(, $one)?),
                    Operand::Other => return call_method($method, a, &[b.clone()]).or_else(not_implemented),
                };
                result?;
                return Ok(a.clone());
            }
            call_method($method, a, &[b.clone()]).or_else(not_implemented)
        }
    )+};
}

inplace! {
    iadd, "add_", "aten::add_.Tensor", "aten::add_.Scalar", ONE;
    isub, "sub_", "aten::sub_.Tensor", "aten::sub_.Scalar", ONE;
    imul, "mul_", "aten::mul_.Tensor", "aten::mul_.Scalar";
    idiv, "div_", "aten::div_.Tensor", "aten::div_.Scalar";
    ifloor_divide, "floor_divide_", "aten::floor_divide_.Tensor", "aten::floor_divide_.Scalar";
    iremainder, "remainder_", "aten::remainder_.Tensor", "aten::remainder_.Scalar";
    ipow, "pow_", "aten::pow_.Tensor", "aten::pow_.Scalar";
    iand, "bitwise_and_", "aten::bitwise_and_.Tensor", "aten::bitwise_and_.Scalar";
    ior, "bitwise_or_", "aten::bitwise_or_.Tensor", "aten::bitwise_or_.Scalar";
    ixor, "bitwise_xor_", "aten::bitwise_xor_.Tensor", "aten::bitwise_xor_.Scalar";
    ilshift, "bitwise_left_shift_", "aten::__ilshift__.Tensor", "aten::__ilshift__.Scalar";
    irshift, "bitwise_right_shift_", "aten::__irshift__.Tensor", "aten::__irshift__.Scalar";
}

fn neg(a: &Obj) -> Py<Obj> {
    call_method("neg", a, &[])
}

fn positive(a: &Obj) -> Py<Obj> {
    call_method("positive", a, &[])
}

fn abs(a: &Obj) -> Py<Obj> {
    call_method("abs", a, &[])
}

fn invert(a: &Obj) -> Py<Obj> {
    if !this(a).dtype().is_integral(true) {
        return Err(type_error(
            "~ (operator.invert) is only implemented on integer and Boolean-type tensors",
        ));
    }
    call_method("bitwise_not", a, &[])
}

/// Comparisons; with something that is no number, `==` is `False` and `<` is a `TypeError`.
fn compare(a: &Obj, b: &Obj, op: c_int) -> Py<Obj> {
    let (name, reflected) = match op {
        ffi::Py_LT => ("lt", "gt"),
        ffi::Py_LE => ("le", "ge"),
        ffi::Py_EQ => ("eq", "eq"),
        ffi::Py_NE => ("ne", "ne"),
        ffi::Py_GT => ("gt", "lt"),
        _ => ("ge", "le"),
    };
    if get(a).is_none() {
        return match get(b) {
            Some(_) => compare_with(reflected, b, a),
            None => Ok(Obj::not_implemented()),
        };
    }
    if !modes_active() && is_plain(a) {
        let (x, other) = (this(a), operand(b));
        let result = match (op, other) {
            (ffi::Py_LT, Operand::Tensor(y)) => op1!("aten::lt.Tensor", x, y),
            (ffi::Py_LT, Operand::Number(n)) => op1!("aten::lt.Scalar", x, n),
            (ffi::Py_LE, Operand::Tensor(y)) => op1!("aten::le.Tensor", x, y),
            (ffi::Py_LE, Operand::Number(n)) => op1!("aten::le.Scalar", x, n),
            (ffi::Py_EQ, Operand::Tensor(y)) => op1!("aten::eq.Tensor", x, y),
            (ffi::Py_EQ, Operand::Number(n)) => op1!("aten::eq.Scalar", x, n),
            (ffi::Py_NE, Operand::Tensor(y)) => op1!("aten::ne.Tensor", x, y),
            (ffi::Py_NE, Operand::Number(n)) => op1!("aten::ne.Scalar", x, n),
            (ffi::Py_GT, Operand::Tensor(y)) => op1!("aten::gt.Tensor", x, y),
            (ffi::Py_GT, Operand::Number(n)) => op1!("aten::gt.Scalar", x, n),
            (_, Operand::Tensor(y)) => op1!("aten::ge.Tensor", x, y),
            (_, Operand::Number(n)) => op1!("aten::ge.Scalar", x, n),
            (_, Operand::Other) => return compare_with(name, a, b),
        };
        return wrap_owned(result?);
    }
    compare_with(name, a, b)
}

#[cold]
fn compare_with(name: &str, a: &Obj, b: &Obj) -> Py<Obj> {
    call_method(name, a, &[b.clone()]).or_else(not_implemented)
}

/// The operator slots of the class.
pub(crate) fn slots() -> Vec<(c_int, *mut c_void)> {
    vec![
        (ffi::Py_nb_add, slot!(binary add)),
        (ffi::Py_nb_subtract, slot!(binary sub)),
        (ffi::Py_nb_multiply, slot!(binary mul)),
        (ffi::Py_nb_true_divide, slot!(binary div)),
        (ffi::Py_nb_floor_divide, slot!(binary floor_divide)),
        (ffi::Py_nb_remainder, slot!(binary remainder)),
        (ffi::Py_nb_power, slot!(power pow)),
        (ffi::Py_nb_and, slot!(binary and)),
        (ffi::Py_nb_or, slot!(binary or)),
        (ffi::Py_nb_xor, slot!(binary xor)),
        (ffi::Py_nb_lshift, slot!(binary lshift)),
        (ffi::Py_nb_rshift, slot!(binary rshift)),
        (ffi::Py_nb_matrix_multiply, slot!(binary matmul)),
        (ffi::Py_nb_inplace_add, slot!(binary iadd)),
        (ffi::Py_nb_inplace_subtract, slot!(binary isub)),
        (ffi::Py_nb_inplace_multiply, slot!(binary imul)),
        (ffi::Py_nb_inplace_true_divide, slot!(binary idiv)),
        (ffi::Py_nb_inplace_floor_divide, slot!(binary ifloor_divide)),
        (ffi::Py_nb_inplace_remainder, slot!(binary iremainder)),
        (ffi::Py_nb_inplace_power, slot!(power ipow)),
        (ffi::Py_nb_inplace_and, slot!(binary iand)),
        (ffi::Py_nb_inplace_or, slot!(binary ior)),
        (ffi::Py_nb_inplace_xor, slot!(binary ixor)),
        (ffi::Py_nb_inplace_lshift, slot!(binary ilshift)),
        (ffi::Py_nb_inplace_rshift, slot!(binary irshift)),
        (ffi::Py_nb_negative, slot!(unary neg)),
        (ffi::Py_nb_positive, slot!(unary positive)),
        (ffi::Py_nb_absolute, slot!(unary abs)),
        (ffi::Py_nb_invert, slot!(unary invert)),
        (ffi::Py_tp_richcompare, slot!(compare compare)),
    ]
}

//! Operators: `a + b`, `-a`, `a < b`, `a += b` and so on.
//!
//! Each slot takes the fast path when both operands are plain tensors, or one is and the other is
//! a Python number: straight to the overload, with no parsing. Everything else goes through the
//! function or method of the operator, so that overrides and NumPy's numbers are honoured; what
//! does not fit becomes `NotImplemented`, and Python asks the other operand.

use super::object::{get, is_dense_cpu, is_tensor, this, wrap_owned};
use crate::args::{Operand, number_kind, operand};
use crate::functions::{call_function, call_method, is_long_product, is_long_stream};
use crate::overrides::{self, modes_active};
use crate::py::errors::type_error;
use crate::py::gil::detach_if;
use crate::py::names::Name;
use crate::py::{Obj, Py, ffi, name, slot};
use corten_core::{ErrorKind, Result, Scalar, fast_paths};
use corten_ops::derived::wrapped;
use corten_ops::{Tensor, op};
use std::ffi::{c_int, c_void};

/// The general path of a binary operator.
#[cold]
fn slow(name: &str, methods: &[&'static Name; 2], a: &Obj, b: &Obj) -> Py<Obj> {
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
    // Overrides see the method of the operand that is a tensor.
    let (this, method, other) = match is_tensor(a) {
        true => (a, methods[0], b),
        false => (b, methods[1], a),
    };
    if let Some(done) = overrides::binary(this, method, other) {
        return done.or_else(not_implemented);
    }
    let done = match name {
        "sub" if !is_tensor(a) => call_function("rsub", &[b.clone(), a.clone()]),
        // What commutes has the tensor first, as overrides see it.
        "add" | "mul" | "bitwise_and" | "bitwise_or" | "bitwise_xor" if !is_tensor(a) => {
            call_function(name, &[b.clone(), a.clone()])
        }
        "div" if !is_tensor(a) => call_method("reciprocal", b, &[])
            .and_then(|inverse| call_method("mul", &inverse, std::slice::from_ref(a))),
        _ => call_function(name, &[a.clone(), b.clone()]),
    };
    done.or_else(not_implemented)
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

/// The methods that overrides see, of the left and of the right operand: by the operator's name unless others
/// are given.
macro_rules! methods {
    ($name:literal) => {
        [name!($name), name!($name)]
    };
    ($name:literal, $method:literal, $reflected:literal) => {
        [name!($method), name!($reflected)]
    };
}

/// Whether there is no kernel for a dtype, for which the general path computes in a wider one.
#[inline]
fn has_no_kernel(result: &Result<Tensor>) -> bool {
    matches!(result, Err(error) if error.kind() == ErrorKind::NotImplemented)
}

/// A binary slot: what to do with two tensors, a tensor and a number, a number and a tensor.
macro_rules! arithmetic {
    ($($function:ident, $name:literal $(as $method:literal, $reflected:literal)?,
       |$x:ident, $y:ident| $tensors:expr,
       |$t:ident, $s:ident| $right:expr, |$n:ident, $u:ident| $left:expr;)+) => {$(
        fn $function(a: &Obj, b: &Obj) -> Py<Obj> {
            if modes_active() || !fast_paths() {
                return slow($name, &methods!($name $(, $method, $reflected)?), a, b);
            }
            let result: Result<Tensor> = match (operand(a), operand(b)) {
                (Operand::Tensor($x), Operand::Tensor($y)) => {
                    detach_if(is_long_stream($x.numel().max($y.numel())), || $tensors)
                }
                (Operand::Tensor($t), Operand::Number($s)) => {
                    detach_if(is_long_stream($t.numel()), || $right)
                }
                (Operand::Number($n), Operand::Tensor($u)) => {
                    detach_if(is_long_stream($u.numel()), || $left)
                }
                _ => return slow($name, &methods!($name $(, $method, $reflected)?), a, b),
            };
            if has_no_kernel(&result) {
                return slow($name, &methods!($name $(, $method, $reflected)?), a, b);
            }
            wrap_owned(result?)
        }
    )+};
}

const ONE: Scalar = Scalar::Int(1);

arithmetic! {
    add, "add", |x, y| op::add_tensor(x, y, ONE), |t, s| op::add_scalar(t, s, ONE),
        |n, u| op::add_scalar(u, n, ONE);
    sub, "sub" as "sub", "__rsub__", |x, y| op::sub_tensor(x, y, ONE), |t, s| op::sub_scalar(t, s, ONE),
        |n, u| op::rsub_scalar(u, n, ONE);
    mul, "mul", |x, y| op::mul_tensor(x, y), |t, s| op::mul_scalar(t, s),
        |n, u| op::mul_scalar(u, n);
    div, "div" as "div", "__rtruediv__", |x, y| op::div_tensor(x, y), |t, s| op::div_scalar(t, s),
        |n, u| op::mul_scalar(&op::reciprocal(u)?, n);
    floor_divide, "floor_divide" as "__floordiv__", "__rfloordiv__", |x, y| op::floor_divide(x, y),
        |t, s| op::floor_divide_scalar(t, s), |n, u| op::floor_divide(&wrapped(n)?, u);
    remainder, "remainder" as "remainder", "__rmod__", |x, y| op::remainder_tensor(x, y),
        |t, s| op::remainder_scalar(t, s), |n, u| op::remainder_scalar_tensor(n, u);
    pow, "pow" as "__pow__", "__rpow__", |x, y| op::pow_tensor_tensor(x, y), |t, s| op::pow_tensor_scalar(t, s),
        |n, u| op::pow_scalar(n, u);
    and, "bitwise_and" as "__and__", "bitwise_and", |x, y| op::bitwise_and_tensor(x, y),
        |t, s| op::bitwise_and_scalar(t, s), |n, u| op::bitwise_and_scalar(u, n);
    or, "bitwise_or" as "__or__", "bitwise_or", |x, y| op::bitwise_or_tensor(x, y),
        |t, s| op::bitwise_or_scalar(t, s), |n, u| op::bitwise_or_scalar(u, n);
    xor, "bitwise_xor" as "__xor__", "bitwise_xor", |x, y| op::bitwise_xor_tensor(x, y),
        |t, s| op::bitwise_xor_scalar(t, s), |n, u| op::bitwise_xor_scalar(u, n);
    lshift, "bitwise_left_shift" as "__lshift__", "__rlshift__", |x, y| op::__lshift___tensor(x, y),
        |t, s| op::__lshift___scalar(t, s), |n, u| op::bitwise_left_shift_scalar_tensor(n, u);
    rshift, "bitwise_right_shift" as "__rshift__", "__rrshift__", |x, y| op::__rshift___tensor(x, y),
        |t, s| op::__rshift___scalar(t, s), |n, u| op::bitwise_right_shift_scalar_tensor(n, u);
}

fn matmul(a: &Obj, b: &Obj) -> Py<Obj> {
    if is_dense_cpu(a) && is_dense_cpu(b) && !modes_active() && fast_paths() {
        let (x, y) = (this(a), this(b));
        let result = detach_if(is_long_product(x, y), || op::matmul(x, y));
        if has_no_kernel(&result) {
            return call_function("matmul", &[a.clone(), b.clone()]);
        }
        return wrap_owned(result?);
    }
    if number_kind(a).is_some() || number_kind(b).is_some() {
        return Ok(Obj::not_implemented());
    }
    slow("matmul", &[name!("matmul"), name!("__rmatmul__")], a, b)
}

/// An in-place slot: the method with the trailing underscore.
macro_rules! inplace {
    ($($function:ident, $method:literal, $seen:literal, |$x:ident, $y:ident| $tensors:expr,
       |$t:ident, $s:ident| $number:expr;)+) => {$(
        fn $function(a: &Obj, b: &Obj) -> Py<Obj> {
            if !modes_active() && is_dense_cpu(a) && fast_paths() {
                let result: Result<Tensor> = match (this(a), operand(b)) {
                    ($x, Operand::Tensor($y)) => {
                        detach_if(is_long_stream($x.numel()), || $tensors)
                    }
                    ($t, Operand::Number($s)) => {
                        detach_if(is_long_stream($t.numel()), || $number)
                    }
                    (_, Operand::Other) => {
                        return call_method($method, a, std::slice::from_ref(b)).or_else(not_implemented);
                    }
                };
                if has_no_kernel(&result) {
                    return call_method($method, a, std::slice::from_ref(b));
                }
                result?;
                return Ok(a.clone());
            }
            if let Some(done) = overrides::binary(a, name!($seen), b) {
                return done.or_else(not_implemented);
            }
            call_method($method, a, std::slice::from_ref(b)).or_else(not_implemented)
        }
    )+};
}

inplace! {
    iadd, "add_", "add_", |x, y| op::add__tensor(x, y, ONE), |t, s| op::add__scalar(t, s, ONE);
    isub, "sub_", "sub_", |x, y| op::sub__tensor(x, y, ONE), |t, s| op::sub__scalar(t, s, ONE);
    imul, "mul_", "mul_", |x, y| op::mul__tensor(x, y), |t, s| op::mul__scalar(t, s);
    idiv, "div_", "div_", |x, y| op::div__tensor(x, y), |t, s| op::div__scalar(t, s);
    ifloor_divide, "floor_divide_", "floor_divide_", |x, y| op::floor_divide__tensor(x, y),
        |t, s| op::floor_divide__scalar(t, s);
    iremainder, "remainder_", "remainder_", |x, y| op::remainder__tensor(x, y),
        |t, s| op::remainder__scalar(t, s);
    ipow, "pow_", "__ipow__", |x, y| op::pow__tensor(x, y), |t, s| op::pow__scalar(t, s);
    iand, "bitwise_and_", "__iand__", |x, y| op::bitwise_and__tensor(x, y),
        |t, s| op::bitwise_and__scalar(t, s);
    ior, "bitwise_or_", "__ior__", |x, y| op::bitwise_or__tensor(x, y),
        |t, s| op::bitwise_or__scalar(t, s);
    ixor, "bitwise_xor_", "__ixor__", |x, y| op::bitwise_xor__tensor(x, y),
        |t, s| op::bitwise_xor__scalar(t, s);
    ilshift, "bitwise_left_shift_", "__ilshift__", |x, y| op::__ilshift___tensor(x, y),
        |t, s| op::__ilshift___scalar(t, s);
    irshift, "bitwise_right_shift_", "__irshift__", |x, y| op::__irshift___tensor(x, y),
        |t, s| op::__irshift___scalar(t, s);
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
    if let Some(done) = overrides::slot(a, name!("__invert__"), &[]) {
        return done;
    }
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
    if !modes_active() && is_dense_cpu(a) && fast_paths() {
        let x = this(a);
        let result = match operand(b) {
            Operand::Tensor(y) => {
                let run = match op {
                    ffi::Py_LT => op::lt_tensor,
                    ffi::Py_LE => op::le_tensor,
                    ffi::Py_EQ => op::eq_tensor,
                    ffi::Py_NE => op::ne_tensor,
                    ffi::Py_GT => op::gt_tensor,
                    _ => op::ge_tensor,
                };
                detach_if(is_long_stream(x.numel()), || run(x, y))
            }
            Operand::Number(n) => {
                let run = match op {
                    ffi::Py_LT => op::lt_scalar,
                    ffi::Py_LE => op::le_scalar,
                    ffi::Py_EQ => op::eq_scalar,
                    ffi::Py_NE => op::ne_scalar,
                    ffi::Py_GT => op::gt_scalar,
                    _ => op::ge_scalar,
                };
                detach_if(is_long_stream(x.numel()), || run(x, n))
            }
            Operand::Other => return compare_with(name, a, b),
        };
        if has_no_kernel(&result) {
            return call_method(name, a, std::slice::from_ref(b));
        }
        return wrap_owned(result?);
    }
    compare_with(name, a, b)
}

#[cold]
fn compare_with(name: &str, a: &Obj, b: &Obj) -> Py<Obj> {
    if name == "eq"
        && let Some(done) = overrides::binary(a, name!("__eq__"), b)
    {
        return done.or_else(not_implemented);
    }
    if name == "eq" && crate::numpy::is_array(b) {
        // NumPy would compare identities; PyTorch takes the array for data, with `==` only.
        return match crate::py::convert::import(name!("corten"))?
            .call_method(name!("as_tensor"), &[b])
        {
            Ok(data) => call_method(name, a, &[data]),
            Err(raised) => not_implemented(raised),
        };
    }
    call_method(name, a, std::slice::from_ref(b)).or_else(not_implemented)
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

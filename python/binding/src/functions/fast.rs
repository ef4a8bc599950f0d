//! Fast paths for the operators that eager programs call most: dense tensors and numbers as
//! positional arguments go straight to the typed operator. A path that does not fit says so, and
//! the general parser takes over; it must never accept what the parser refuses.

use super::estimate::{is_long_product, is_long_stream, is_long_work};
use super::group::Mode;
use crate::args::{Operand, operand};
use crate::py::gil::detach_if;
use crate::py::{Args, Obj, Py, ffi, name};
use crate::tensor;
use corten_core::{Dims, MemoryFormat, Result, Scalar};
use corten_ops::{Tensor, op};
use smallvec::SmallVec;

/// A fast path; nothing when the arguments are not of its kind.
pub(crate) type Fast = fn(Option<&Obj>, Args<'_>) -> Option<Py<Obj>>;

const ONE: Scalar = Scalar::Int(1);

/// A tensor that certainly overrides nothing.
#[inline]
fn dense_tensor(object: &Obj) -> Option<&Tensor> {
    tensor::is_dense_cpu(object).then(|| tensor::this(object))
}

/// The tensor and the remaining arguments of a call without keywords.
pub(super) fn split<'a>(this: Option<&'a Obj>, args: Args<'a>) -> Option<(&'a Tensor, &'a [Obj])> {
    if args.names.is_some() {
        return None;
    }
    let (first, rest) = match this {
        Some(this) => (this, args.positional),
        None => args.positional.split_first()?,
    };
    Some((dense_tensor(first)?, rest))
}

pub(super) fn finish(result: Result<Tensor>) -> Option<Py<Obj>> {
    Some(match result {
        Ok(made) => tensor::wrap_owned(made),
        Err(error) => Err(error.into()),
    })
}

pub(super) fn unary(
    this: Option<&Obj>,
    args: Args<'_>,
    run: fn(&Tensor) -> Result<Tensor>,
) -> Option<Py<Obj>> {
    let (x, []) = split(this, args)? else { return None };
    finish(detach_if(is_long_stream(x.numel()), || run(x)))
}

fn binary(
    this: Option<&Obj>,
    args: Args<'_>,
    tensors: fn(&Tensor, &Tensor) -> Result<Tensor>,
    number: fn(&Tensor, Scalar) -> Result<Tensor>,
) -> Option<Py<Obj>> {
    let (x, [other]) = split(this, args)? else { return None };
    match operand(other) {
        Operand::Tensor(y) => {
            let long = is_long_stream(x.numel().max(y.numel()));
            finish(detach_if(long, || tensors(x, y)))
        }
        Operand::Number(n) => finish(detach_if(is_long_stream(x.numel()), || number(x, n))),
        Operand::Other => None,
    }
}

fn product(
    this: Option<&Obj>,
    args: Args<'_>,
    run: fn(&Tensor, &Tensor) -> Result<Tensor>,
) -> Option<Py<Obj>> {
    let (x, [other]) = split(this, args)? else { return None };
    let y = dense_tensor(other)?;
    finish(detach_if(is_long_product(x, y), || run(x, y)))
}

/// Three tensors, the last of which may be missing.
fn affine(
    this: Option<&Obj>,
    args: Args<'_>,
    run: fn(&Tensor, &Tensor, Option<&Tensor>) -> Result<Tensor>,
) -> Option<Py<Obj>> {
    let (x, [weight, rest @ ..]) = split(this, args)? else { return None };
    let bias = match rest {
        [] => None,
        [bias] if bias.is_none() => None,
        [bias] => Some(dense_tensor(bias)?),
        _ => return None,
    };
    let weight = dense_tensor(weight)?;
    // The rows of the weight are the columns of the product.
    let long = is_long_work(x, weight.sizes().first());
    finish(detach_if(long, || run(x, weight, bias)))
}

/// One integer.
pub(super) fn int(object: &Obj) -> Option<i64> {
    if object.type_ptr() != &raw mut ffi::PyLong_Type {
        return None;
    }
    object.to_i64().map_err(crate::py::Raised::clear).ok()
}

/// Calls `run` with integers given one by one or as one sequence.
fn with_ints<R>(args: &[Obj], run: impl FnOnce(&[i64]) -> R) -> Option<R> {
    if let [only] = args
        && (only.is_tuple() || only.is_list())
    {
        let mut dims = Dims::new();
        for at in 0..only.sequence_len() {
            dims.push(int(&only.sequence_item(at).ok()?)?);
        }
        return Some(run(&dims));
    }
    let mut few = [0; 4];
    let ints = few.get_mut(..args.len())?;
    for (slot, arg) in ints.iter_mut().zip(args) {
        *slot = int(arg)?;
    }
    Some(run(ints))
}

fn shaped(
    this: Option<&Obj>,
    args: Args<'_>,
    run: fn(&Tensor, &[i64]) -> Result<Tensor>,
) -> Option<Py<Obj>> {
    let (x, rest) = split(this, args)?;
    if rest.is_empty() {
        return None;
    }
    finish(with_ints(rest, |sizes| run(x, sizes))?)
}

/// [`binary`] on tensors with `out=`, too: the result is that object.
fn binary_out(
    this: Option<&Obj>,
    args: Args<'_>,
    run: fn(&Tensor, &Tensor, &Tensor) -> Result<Tensor>,
) -> Option<Py<Obj>> {
    let ([given], None) = (args.keywords, this) else { return None };
    if args.keyword_ptr(0) != name!("out").as_ptr() {
        return None;
    }
    let (x, [y]) = split(None, Args { names: None, ..args })? else { return None };
    let (y, out) = (dense_tensor(y)?, dense_tensor(given)?);
    let done = is_small(&[x, y]).then(|| run(x, y, out))?;
    Some(done.map(|_| given.clone()).map_err(Into::into))
}

macro_rules! fast_paths {
    (
        unary: $($unary:ident)+;
        binary: $($name:literal $tensors:expr, $number:expr $(, out $out:expr)?;)+
    ) => {
        /// The fast path of an operator, if it has one.
        pub(crate) fn find(name: &str, mode: Mode) -> Option<Fast> {
            Some(match name {
                $(stringify!($unary) => |this, args| unary(this, args, op::$unary),)+
                $($name => |this, args| {
                    binary(this, args, $tensors, $number)
                        $(.or_else(|| binary_out(this, args, $out)))?
                },)+
                _ => return find_shape(name, mode),
            })
        }
    };
}

fast_paths! {
    unary: abs exp log neg relu sigmoid sqrt rsqrt tanh silu sin cos detach square;
    binary:
        "add" |x, y| op::add_tensor(x, y, ONE), |x, n| op::add_scalar(x, n, ONE),
            out |x, y, out| op::add_out(x, y, ONE, out);
        "sub" |x, y| op::sub_tensor(x, y, ONE), |x, n| op::sub_scalar(x, n, ONE),
            out |x, y, out| op::sub_out(x, y, ONE, out);
        "mul" op::mul_tensor, op::mul_scalar, out op::mul_out;
        "div" op::div_tensor, op::div_scalar, out op::div_out;
        "add_" |x, y| op::add__tensor(x, y, ONE), |x, n| op::add__scalar(x, n, ONE);
        "sub_" |x, y| op::sub__tensor(x, y, ONE), |x, n| op::sub__scalar(x, n, ONE);
        "mul_" op::mul__tensor, op::mul__scalar;
        "div_" op::div__tensor, op::div__scalar;
        "eq" op::eq_tensor, op::eq_scalar;
        "lt" op::lt_tensor, op::lt_scalar;
        "gt" op::gt_tensor, op::gt_scalar;
}

/// Products, shapes and dense reductions.
fn find_shape(name: &str, mode: Mode) -> Option<Fast> {
    let is_method = mode == Mode::Method;
    Some(match name {
        "matmul" => |this, args| product(this, args, op::matmul),
        "mm" => |this, args| product(this, args, op::mm),
        "bmm" => |this, args| product(this, args, op::bmm),
        "addmm" => |this, args| {
            let (x, [a, b]) = split(this, args)? else { return None };
            let (a, b) = (dense_tensor(a)?, dense_tensor(b)?);
            finish(detach_if(is_long_product(a, b), || op::addmm(x, a, b, ONE, ONE)))
        },
        "linear" => |this, args| affine(this, args, op::linear),
        "t" => |this, args| unary(this, args, op::t),
        "clone" => |this, args| unary(this, args, |x| op::clone(x, None)),
        "zero_" => |this, args| unary(this, args, op::zero_),
        "contiguous" if is_method => |this, args| {
            let bare = args.positional.is_empty() && args.names.is_none();
            let this = this.filter(|this| bare && tensor::is_dense_cpu(this))?;
            // Nothing to do, also for autograd.
            match tensor::this(this).is_contiguous() {
                true => Some(Ok(this.clone())),
                false => unary(Some(this), args, |x| op::contiguous(x, MemoryFormat::Contiguous)),
            }
        },
        "view" if is_method => |this, args| shaped(this, args, op::view),
        "reshape" if is_method => |this, args| shaped(this, args, op::reshape),
        "permute" if is_method => |this, args| shaped(this, args, op::permute),
        "expand" if is_method => {
            |this, args| shaped(this, args, |x, sizes| op::expand(x, sizes, false))
        }
        "unsqueeze" => |this, args| {
            let (x, [dim]) = split(this, args)? else { return None };
            let dim = int(dim)?;
            finish(op::unsqueeze(x, dim))
        },
        "squeeze" => |this, args| match split(this, args)? {
            (x, []) => finish(op::squeeze(x)),
            (x, [dim]) => {
                let dim = int(dim)?;
                finish(op::squeeze_dim(x, dim))
            }
            _ => None,
        },
        "transpose" => |this, args| {
            let (x, [dim0, dim1]) = split(this, args)? else { return None };
            let (dim0, dim1) = (int(dim0)?, int(dim1)?);
            finish(op::transpose_int(x, dim0, dim1))
        },
        "select" => |this, args| {
            let (x, [dim, index]) = split(this, args)? else { return None };
            let (dim, index) = (int(dim)?, int(index)?);
            finish(op::select_int(x, dim, index))
        },
        "narrow" => |this, args| {
            let (x, [dim, start, length]) = split(this, args)? else { return None };
            let (dim, start, length) = (int(dim)?, int(start)?, int(length)?);
            finish(op::narrow(x, dim, start, length))
        },
        _ => return find_joint(name, is_method),
    })
}

/// Small calls of several tensors, and factories.
fn find_joint(name: &str, is_method: bool) -> Option<Fast> {
    Some(match name {
        "copy_" if is_method => |this, args| {
            let (x, [y]) = split(this, args)? else { return None };
            let y = dense_tensor(y)?;
            is_small(&[x, y]).then(|| finish(op::copy_(x, y, false)))?
        },
        "where" if !is_method => |this, args| {
            let (condition, [a, b]) = split(this, args)? else { return None };
            let (a, b) = (dense_tensor(a)?, dense_tensor(b)?);
            is_small(&[condition, a, b]).then(|| finish(op::where_self(condition, a, b)))?
        },
        "softmax" => |this, args| along(this, args, |x, dim| op::softmax_int(x, dim, None)),
        "log_softmax" => |this, args| along(this, args, |x, dim| op::log_softmax_int(x, dim, None)),
        "cat" => |_, args| joined(args, op::cat),
        "stack" => |_, args| joined(args, op::stack),
        "empty" => |_, args| {
            made(args, |sizes| op::empty_memory_format(sizes, None, None, None, None, None))
        },
        "zeros" => |_, args| made(args, |sizes| op::zeros(sizes, None, None, None, None)),
        "ones" => |_, args| made(args, |sizes| op::ones(sizes, None, None, None, None)),
        "rand" => |_, args| made(args, |sizes| op::rand(sizes, None, None, None, None)),
        "randn" => |_, args| made(args, |sizes| op::randn(sizes, None, None, None, None)),
        "arange" => |_, args| {
            let [end] = args.positional else { return None };
            let end = int(end).filter(|end| (0..SMALL).contains(end) && args.names.is_none())?;
            finish(op::arange(Scalar::Int(end), None, None, None, None))
        },
        _ => return super::fast_reductions::find(name),
    })
}

/// Calls of fewer elements never give the interpreter lock up.
const SMALL: i64 = 2048;

pub(super) fn is_small(tensors: &[&Tensor]) -> bool {
    tensors.iter().all(|x| x.numel() < SMALL / 4)
}

/// A small tensor and a dimension.
fn along(
    this: Option<&Obj>,
    args: Args<'_>,
    run: fn(&Tensor, i64) -> Result<Tensor>,
) -> Option<Py<Obj>> {
    let (x, [dim]) = split(this, args)? else { return None };
    let dim = int(dim).filter(|_| is_small(&[x]))?;
    finish(run(x, dim))
}

/// A short list of small tensors, and perhaps a dimension.
fn joined(args: Args<'_>, run: fn(&[Tensor], i64) -> Result<Tensor>) -> Option<Py<Obj>> {
    let [list, rest @ ..] = args.positional else { return None };
    let dim = match rest {
        [] => 0,
        [dim] => int(dim)?,
        _ => return None,
    };
    if args.names.is_some() || !(list.is_tuple() || list.is_list()) || list.sequence_len() > 4 {
        return None;
    }
    let mut tensors = SmallVec::<[Tensor; 4]>::new();
    for at in 0..list.sequence_len() {
        let item = list.sequence_item(at).ok()?;
        tensors.push(dense_tensor(&item).filter(|x| is_small(&[x]))?.clone());
    }
    finish(run(&tensors, dim))
}

/// A small tensor of sizes given one by one or as one sequence.
fn made(args: Args<'_>, run: fn(&[i64]) -> Result<Tensor>) -> Option<Py<Obj>> {
    if args.names.is_some() || args.positional.is_empty() {
        return None;
    }
    let made = with_ints(args.positional, |sizes| {
        let numel = sizes.iter().try_fold(1_i64, |numel, &size| numel.checked_mul(size))?;
        let small = numel < SMALL && sizes.iter().all(|&size| size >= 0);
        small.then(|| run(sizes))
    });
    finish(made??)
}

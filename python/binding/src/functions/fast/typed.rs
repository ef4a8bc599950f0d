//! Typed calls of overloads by the signatures of their operators.

use super::super::group::Mode;
use super::super::overload::{Overload, Plan, Source};
use crate::args::Signature;
use corten_core::{DType, Device, Layout, MemoryFormat, Result, Scalar};
use corten_ops::derived::wrapped;
use corten_ops::{AnyOp, IValue, Signed, Tensor};

/// A call of one overload.
pub(super) type Call<F> = Option<Box<F>>;

pub(super) type OfTensor = dyn Fn(&Tensor) -> Result<Tensor> + Send + Sync;
pub(super) type OfTwo = dyn Fn(&Tensor, &Tensor) -> Result<Tensor> + Send + Sync;
pub(super) type OfThree = dyn Fn(&Tensor, &Tensor, &Tensor) -> Result<Tensor> + Send + Sync;
pub(super) type WithInt = dyn Fn(&Tensor, i64) -> Result<Tensor> + Send + Sync;
pub(super) type WithFloat = dyn Fn(&Tensor, f64) -> Result<Tensor> + Send + Sync;
pub(super) type WithBool = dyn Fn(&Tensor, bool) -> Result<Tensor> + Send + Sync;
pub(super) type WithTwoInts = dyn Fn(&Tensor, i64, i64) -> Result<Tensor> + Send + Sync;
pub(super) type WithThreeInts = dyn Fn(&Tensor, i64, i64, i64) -> Result<Tensor> + Send + Sync;
pub(super) type WithInts = dyn Fn(&Tensor, &[i64]) -> Result<Tensor> + Send + Sync;
pub(super) type AlongDim = dyn Fn(&Tensor, i64, bool) -> Result<Tensor> + Send + Sync;
pub(super) type PairAlongDim = dyn Fn(&Tensor, i64, bool) -> Result<(Tensor, Tensor)> + Send + Sync;
pub(super) type OfList = dyn Fn(&[Tensor]) -> Result<Tensor> + Send + Sync;
pub(super) type OfListAlongDim = dyn Fn(&[Tensor], i64) -> Result<Tensor> + Send + Sync;
pub(super) type OfSizes = dyn Fn(&[i64]) -> Result<Tensor> + Send + Sync;
pub(super) type OfInt = dyn Fn(i64) -> Result<Tensor> + Send + Sync;

/// The operator of an overload, and the values of its arguments that are left out.
pub(super) struct Target {
    op: &'static dyn AnyOp,
    rest: Vec<IValue>,
}

impl Target {
    /// The call of an overload with `given` arguments in the order of the schema.
    pub(super) fn new(
        overload: &Overload,
        signature: &Signature,
        mode: Mode,
        given: usize,
    ) -> Option<Self> {
        Self::of_plan(overload.without_out.as_ref()?, signature, mode, given)
    }

    /// The same of a plan, whose outputs are among the given ones.
    pub(super) fn of_plan(
        plan: &Plan,
        signature: &Signature,
        mode: Mode,
        given: usize,
    ) -> Option<Self> {
        let mut rest = Vec::new();
        let shift = usize::from(mode == Mode::Method);
        for (at, source) in plan.sources.iter().enumerate() {
            match source {
                Source::This if at == 0 && shift == 1 => {}
                Source::Param(index) if *index + shift == at && at < given => {}
                Source::Param(index) if at >= given => {
                    corten_core::try_push(&mut rest, signature.params[*index].default.clone())
                        .ok()?;
                }
                Source::Fixed(value) if at >= given => {
                    corten_core::try_push(&mut rest, value.clone()).ok()?;
                }
                Source::Out(0) if at + 1 == plan.sources.len() => {}
                _ => return None,
            }
        }
        Some(Self { op: plan.op, rest })
    }
}

/// The value of an argument that is left out, as the operator takes it.
trait LeftOut: Sized {
    fn left_out(value: &IValue) -> Option<Self>;
}

macro_rules! left_out {
    ($($ty:ty)+) => {$(
        impl LeftOut for $ty {
            fn left_out(value: &IValue) -> Option<Self> {
                value.get().ok()
            }
        }
    )+};
}

left_out! {
    bool i64 f64 Scalar MemoryFormat Option<DType> Option<Layout> Option<Device> Option<bool>
    Option<MemoryFormat>
}

/// A call of these arguments.
macro_rules! boxed {
    (($($arg:ident: $ty:ty),+), $body:expr) => {
        Box::new(move |$($arg: $ty),+| $body)
    };
}

/// The call of a target by the first of these signatures that its operator has: the types and values of
/// the arguments that are given, then names and types of those that are left out.
macro_rules! by_signature {
    ($target:expr, $args:tt -> $out:ty {
        $(($($ty:ty),+) => ($($value:expr),+), [$($name:ident: $rest:ty),*];)+
    }) => {{
        let target: Target = $target;
        $(
            if let Some(op) = Signed::<fn($($ty,)+ $($rest),*) -> Result<$out>>::of(target.op) {
                let mut values = target.rest.iter();
                $(let $name = <$rest as LeftOut>::left_out(values.next()?)?;)*
                if values.next().is_some() {
                    return None;
                }
                return Some(boxed!($args, op.call($($value,)+ $($name),*)));
            }
        )+
        None
    }};
}

pub(super) fn of_tensor(target: Target) -> Call<OfTensor> {
    by_signature!(target, (x: &Tensor) -> Tensor {
        (&Tensor) => (x), [];
        (&Tensor) => (x), [a: Option<DType>];
        (&Tensor) => (x), [a: Option<MemoryFormat>];
        (&Tensor) => (x), [a: MemoryFormat];
        (&Tensor) => (x), [a: bool];
        (&Tensor) => (x), [a: i64];
        (&Tensor) => (x), [a: i64, b: i64];
        (&Tensor) => (x), [a: Scalar];
        (&Tensor) => (x), [a: Scalar, b: Scalar];
    })
}

pub(super) fn of_two(target: Target) -> Call<OfTwo> {
    let op = target.op;
    if let Some(op) = Signed::<fn(&Tensor, &Tensor, Option<&Tensor>) -> Result<Tensor>>::of(op) {
        let [IValue::None] = &target.rest[..] else { return None };
        return Some(Box::new(move |x, y| op.call(x, y, None)));
    }
    by_signature!(target, (x: &Tensor, y: &Tensor) -> Tensor {
        (&Tensor, &Tensor) => (x, y), [];
        (&Tensor, &Tensor) => (x, y), [a: Scalar];
        (&Tensor, &Tensor) => (x, y), [a: bool];
        (&Tensor, &Tensor) => (x, y), [a: i64];
    })
}

pub(super) fn of_three(target: Target) -> Call<OfThree> {
    by_signature!(target, (x: &Tensor, y: &Tensor, z: &Tensor) -> Tensor {
        (&Tensor, &Tensor, &Tensor) => (x, y, z), [];
        (&Tensor, &Tensor, &Tensor) => (x, y, z), [a: Scalar];
        (&Tensor, &Tensor, &Tensor) => (x, y, z), [a: Scalar, b: Scalar];
        (&Tensor, &Tensor, Option<&Tensor>) => (x, y, Some(z)), [];
    })
}

/// With the two inputs and the output of an operator.
pub(super) fn of_two_and_out(target: Target) -> Call<OfThree> {
    let op = target.op;
    if let Some(op) = Signed::<fn(&Tensor, &Tensor, Scalar, &Tensor) -> Result<Tensor>>::of(op) {
        let [value] = &target.rest[..] else { return None };
        let value = Scalar::left_out(value)?;
        return Some(Box::new(move |x, y, out| op.call(x, y, value, out)));
    }
    by_signature!(target, (x: &Tensor, y: &Tensor, out: &Tensor) -> Tensor {
        (&Tensor, &Tensor, &Tensor) => (x, y, out), [];
    })
}

pub(super) fn with_int(target: Target) -> Call<WithInt> {
    by_signature!(target, (x: &Tensor, n: i64) -> Tensor {
        (&Tensor, i64) => (x, n), [];
        (&Tensor, i64) => (x, n), [a: i64];
        (&Tensor, i64) => (x, n), [a: bool];
        (&Tensor, i64) => (x, n), [a: Option<DType>];
        (&Tensor, Option<i64>) => (x, Some(n)), [a: bool];
        (&Tensor, &[i64]) => (x, &[n]), [];
        (&Tensor, &[i64]) => (x, &[n]), [a: bool];
        (&Tensor, Option<&[i64]>) => (x, Some(&[n])), [a: bool, b: Option<DType>];
        (&Tensor, Scalar) => (x, Scalar::Int(n)), [];
        (&Tensor, Scalar) => (x, Scalar::Int(n)), [a: Scalar];
        (&Tensor, &Tensor) => (x, &wrapped(Scalar::Int(n))?), [];
        (&Tensor, &Tensor) => (x, &wrapped(Scalar::Int(n))?), [a: Scalar];
    })
}

pub(super) fn with_float(target: Target) -> Call<WithFloat> {
    by_signature!(target, (x: &Tensor, n: f64) -> Tensor {
        (&Tensor, Scalar) => (x, Scalar::Float(n)), [];
        (&Tensor, Scalar) => (x, Scalar::Float(n)), [a: Scalar];
        (&Tensor, &Tensor) => (x, &wrapped(Scalar::Float(n))?), [];
        (&Tensor, &Tensor) => (x, &wrapped(Scalar::Float(n))?), [a: Scalar];
    })
}

pub(super) fn with_bool(target: Target) -> Call<WithBool> {
    by_signature!(target, (x: &Tensor, n: bool) -> Tensor {
        (&Tensor, bool) => (x, n), [];
        (&Tensor, Scalar) => (x, Scalar::Bool(n)), [];
        (&Tensor, &Tensor) => (x, &wrapped(Scalar::Bool(n))?), [];
    })
}

pub(super) fn with_two_ints(target: Target) -> Call<WithTwoInts> {
    by_signature!(target, (x: &Tensor, m: i64, n: i64) -> Tensor {
        (&Tensor, i64, i64) => (x, m, n), [];
    })
}

pub(super) fn with_three_ints(target: Target) -> Call<WithThreeInts> {
    by_signature!(target, (x: &Tensor, m: i64, n: i64, o: i64) -> Tensor {
        (&Tensor, i64, i64, i64) => (x, m, n, o), [];
    })
}

pub(super) fn with_ints(target: Target) -> Call<WithInts> {
    by_signature!(target, (x: &Tensor, n: &[i64]) -> Tensor {
        (&Tensor, &[i64]) => (x, n), [];
        (&Tensor, &[i64]) => (x, n), [a: bool];
        (&Tensor, Option<&[i64]>) => (x, Some(n)), [a: bool, b: Option<DType>];
    })
}

pub(super) fn along_dim(target: Target) -> Call<AlongDim> {
    by_signature!(target, (x: &Tensor, dim: i64, keep: bool) -> Tensor {
        (&Tensor, i64, bool) => (x, dim, keep), [];
        (&Tensor, Option<i64>, bool) => (x, Some(dim), keep), [];
        (&Tensor, &[i64], bool) => (x, &[dim], keep), [];
        (&Tensor, Option<&[i64]>, bool) => (x, Some(&[dim]), keep), [a: Option<DType>];
    })
}

pub(super) fn pair_along_dim(target: Target) -> Call<PairAlongDim> {
    by_signature!(target, (x: &Tensor, dim: i64, keep: bool) -> (Tensor, Tensor) {
        (&Tensor, i64, bool) => (x, dim, keep), [];
    })
}

pub(super) fn of_list(target: Target) -> Call<OfList> {
    by_signature!(target, (list: &[Tensor]) -> Tensor {
        (&[Tensor]) => (list), [];
        (&[Tensor]) => (list), [a: i64];
    })
}

pub(super) fn of_list_along_dim(target: Target) -> Call<OfListAlongDim> {
    by_signature!(target, (list: &[Tensor], dim: i64) -> Tensor {
        (&[Tensor], i64) => (list, dim), [];
    })
}

pub(super) fn of_sizes(target: Target) -> Call<OfSizes> {
    by_signature!(target, (sizes: &[i64]) -> Tensor {
        (&[i64]) => (sizes), [a: Option<DType>, b: Option<Layout>, c: Option<Device>, d: Option<bool>];
        (&[i64]) => (sizes), [a: Option<DType>, b: Option<Layout>, c: Option<Device>, d: Option<bool>,
            e: Option<MemoryFormat>];
    })
}

pub(super) fn of_int(target: Target) -> Call<OfInt> {
    by_signature!(target, (n: i64) -> Tensor {
        (i64) => (n), [a: Option<DType>, b: Option<Layout>, c: Option<Device>, d: Option<bool>];
        (Scalar) => (Scalar::Int(n)), [a: Option<DType>, b: Option<Layout>, c: Option<Device>,
            d: Option<bool>];
    })
}

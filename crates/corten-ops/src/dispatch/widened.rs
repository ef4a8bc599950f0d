//! Operators on dtypes that few kernels have, computed in a wider dtype.

// Note [Widened dtypes]
// Eight-bit floats and the unsigned integers of 16, 32 and 64 bits have kernels for copies, views and some
// arithmetic alone, as in PyTorch. Kernels of all operators for eight more dtypes would be megabytes. Where a
// boxed call ends because a kernel has no instance for such a dtype, it is made again: floats are computed in
// `float32` and rounded once, integers in `int32` or `int64`. Calls that succeed do not pay for it. Arguments
// are still on the stack, since kernels take them by reference; rules of promotion have been applied, and their
// errors are of another kind.
//
// `uint64` does not fit into `int64`. Sums, differences and products are the same modulo 2^64. What depends on
// the order of elements is computed with the sign bit flipped, which keeps the order. Quotients and remainders
// are those of halved numbers, corrected. All else is computed only if no element needs the sign bit.

use super::fallback::{replace_tensors, restore};
use crate::boxed::{IValue, Stack};
use crate::registry::{AnyOp, OpKind, Uint64};
use crate::schema::{BaseType, Type};
use crate::{Tensor, op};
use corten_core::{
    DType, Device, Error, ErrorKind, MemoryFormat, Result, Scalar, TensorBase, TensorOptions,
};

/// The bit of numbers that `int64` does not have.
const TOP: i64 = i64::MIN;

fn is_narrow(dtype: DType) -> bool {
    dtype.is_float8() || dtype.is_barebones_unsigned()
}

/// How elements are represented in the wider dtype.
#[derive(Clone, Copy)]
struct Widened {
    narrow: DType,
    wide: DType,
    /// The sign bit is flipped.
    flipped: bool,
}

impl Widened {
    fn of(narrow: DType) -> Self {
        let wide = match narrow {
            DType::UInt16 => DType::Int32,
            DType::UInt32 | DType::UInt64 => DType::Int64,
            _ => DType::Float32,
        };
        Self { narrow, wide, flipped: false }
    }

    fn widen(self, tensor: &Tensor) -> Result<Tensor> {
        let wide = op::to_dtype(tensor, self.wide, false, true, None)?;
        if self.flipped { op::bitwise_xor__scalar(&wide, Scalar::Int(TOP)) } else { Ok(wide) }
    }

    fn narrow(self, tensor: &Tensor) -> Result<Tensor> {
        let wide = match self.flipped {
            true => &op::bitwise_xor_scalar(tensor, Scalar::Int(TOP))?,
            false => tensor,
        };
        op::to_dtype(wide, self.narrow, false, false, None)
    }

    /// A number beside elements in this representation; nothing for one below zero where the order counts.
    fn number(self, value: &IValue) -> Option<IValue> {
        let bits = match value {
            IValue::Int(value) if self.flipped && *value < 0 => return None,
            IValue::Int(value) => *value,
            IValue::UInt(value) => *value as i64,
            other => return Some(other.clone()),
        };
        Some(IValue::Int(if self.flipped { bits ^ TOP } else { bits }))
    }
}

/// The narrow dtype of a call's tensors, or of the dtype that it asks for.
fn narrow_of(stack: &Stack) -> Option<DType> {
    let mut found = None;
    let mut asked = None;
    for value in stack.iter() {
        value.for_each_tensor(&mut |tensor| {
            found = found.or(Some(tensor.dtype()).filter(|&dtype| is_narrow(dtype)));
        });
        if let IValue::DType(dtype) = value {
            asked = Some(*dtype).filter(|&dtype| is_narrow(dtype));
        }
    }
    found.or(asked)
}

/// Makes a call again in a wider dtype that ended because there is no kernel.
pub(super) fn retry(op: &'static dyn AnyOp, stack: &mut Stack, error: Error) -> Result<()> {
    let is_whole = stack.len() == op.schema().arguments.len();
    if error.kind() != ErrorKind::NotImplemented || !is_whole {
        return Err(error);
    }
    let Some(narrow) = narrow_of(stack) else { return Err(error) };
    let mut widened = Widened::of(narrow);
    if narrow == DType::UInt64 {
        match op.def().uint64 {
            Some(Uint64::Modular) => {}
            Some(Uint64::Ordered) => widened.flipped = true,
            Some(rule) if rule != Uint64::Quotient || rounds(op, stack) => {
                return divide(op, rule, stack).map_err(|found| first_of(found, error));
            }
            _ if needs_top(stack)? => return Err(error),
            _ => {}
        }
    }
    let original = stack.clone();
    let done = widened_call(op, stack, widened);
    if done.is_err() {
        *stack = original;
    }
    done.map_err(|found| first_of(found, error))
}

/// The error of the call as it was made, unless the other one says more than that there is no kernel.
fn first_of(found: Error, error: Error) -> Error {
    if found.kind() == ErrorKind::NotImplemented { error } else { found }
}

/// Whether an element is 2^63 or more.
fn needs_top(stack: &Stack) -> Result<bool> {
    let mut tensors = Vec::new();
    for value in stack.iter() {
        value.for_each_tensor(&mut |tensor| tensors.push(tensor.clone()));
    }
    for tensor in tensors {
        if tensor.dtype() == DType::UInt64 && tensor.numel() > 0 && !tensor.device().is_meta() {
            let wide = op::to_dtype(&tensor, DType::Int64, false, false, None)?;
            if op::item(&op::min(&wide)?)?.to_i64() < 0 {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

fn widened_call(op: &'static dyn AnyOp, stack: &mut Stack, widened: Widened) -> Result<()> {
    let is_value = values_of(op, stack, widened);
    let mut written = Vec::new();
    let mut keeps = false;
    for (argument, value) in op.schema().arguments.iter().zip(stack.iter_mut()) {
        let is_written = argument.is_written();
        replace_tensors(value, &mut |tensor| {
            if tensor.dtype() != widened.narrow {
                return Ok(tensor.clone());
            }
            let wide = widened.widen(tensor)?;
            if is_written {
                written.push((tensor.clone(), wide.clone()));
            }
            Ok(wide)
        })?;
        match value {
            IValue::DType(dtype) if *dtype == widened.narrow => {
                *value = IValue::DType(widened.wide)
            }
            IValue::DType(_) => keeps = true,
            IValue::Int(_) | IValue::UInt(_) if is_scalar(&argument.ty) => {
                let number = widened.number(value);
                *value = number.ok_or_else(|| below_zero(op))?;
            }
            _ => {}
        }
    }
    op.call_boxed(stack)?;
    for (original, wide) in &written {
        if original.sizes() != wide.sizes() {
            original.resize(&wide.sizes(), None::<MemoryFormat>)?;
        }
        op::copy_(original, &widened.narrow(wide)?, false)?;
    }
    restore(stack, &written)?;
    for (place, value) in stack.iter_mut().enumerate() {
        let narrows = !keeps && is_value.get(place).copied().unwrap_or(true);
        replace_tensors(value, &mut |tensor| {
            let is_result = narrows && tensor.defined() && tensor.dtype() == widened.wide;
            if is_result { widened.narrow(tensor) } else { Ok(tensor.clone()) }
        })?;
    }
    Ok(())
}

fn is_scalar(ty: &Type) -> bool {
    match ty {
        Type::Base(BaseType::Scalar) => true,
        Type::Optional(inner) => is_scalar(inner),
        _ => false,
    }
}

fn below_zero(op: &'static dyn AnyOp) -> Error {
    corten_core::err!(
        Runtime,
        "value cannot be converted to type uint64_t without overflow: {} got a number below zero",
        op.def().qualified_name()
    )
}

/// Which results have elements of the arguments, and are no positions or counts, which are `int64` as well:
/// those whose dtype follows that of the arguments.
fn values_of(op: &'static dyn AnyOp, stack: &Stack, widened: Widened) -> Vec<bool> {
    if widened.wide != DType::Int64 {
        return Vec::new();
    }
    let mut probe = stack.clone();
    let shapes = |value: &mut IValue| -> Result<()> {
        replace_tensors(value, &mut |tensor| {
            let is_narrow = tensor.dtype() == widened.narrow;
            let dtype = if is_narrow { DType::Int32 } else { tensor.dtype() };
            let options = TensorOptions::new().dtype(dtype).device(Device::META);
            Ok(TensorBase::empty(&tensor.sizes(), options)?.into())
        })?;
        match value {
            IValue::DType(dtype) if *dtype == widened.narrow => *dtype = DType::Int32,
            IValue::Device(device) => *device = Device::META,
            _ => {}
        }
        Ok(())
    };
    let done = probe.iter_mut().try_for_each(shapes).and_then(|()| op.call_boxed(&mut probe));
    if done.is_err() {
        let returns = op.schema().returns.iter();
        let names = returns.map(|one| one.name.as_deref().unwrap_or_default());
        return names.map(|name| !name.contains("ind") && !name.contains("count")).collect();
    }
    let is_value = |value: &IValue| {
        let mut all = true;
        value.for_each_tensor(&mut |tensor| all &= tensor.dtype() == DType::Int32);
        all
    };
    probe.iter().map(is_value).collect()
}

/// Whether a call rounds its quotients, which those with a rounding mode do where they are given one.
fn rounds(op: &'static dyn AnyOp, stack: &Stack) -> bool {
    let mut given = op.schema().arguments.iter().zip(stack.iter());
    given.all(|(argument, value)| {
        argument.name != "rounding_mode" || matches!(value, IValue::String(_))
    })
}

/// Quotients, remainders and shifts of numbers without a sign, which wrapped numbers do not give.
fn divide(op: &'static dyn AnyOp, rule: Uint64, stack: &mut Stack) -> Result<()> {
    let widened = Widened::of(DType::UInt64);
    let wide = |value: &IValue| match value {
        IValue::Tensor(tensor) => widened.widen(tensor),
        IValue::Int(value) => number(*value),
        IValue::UInt(value) => number(*value as i64),
        _ => Err(corten_core::err!(NotImplemented, "no number")),
    };
    let (a, b) = (wide(&stack[0])?, wide(&stack[1])?);
    let made = match rule {
        Uint64::Shift => shifted(&a, &b)?,
        Uint64::Remainder => divided(&a, &b)?.1,
        _ => divided(&a, &b)?.0,
    };
    let made = widened.narrow(&made)?;
    let target = match op.def().kind {
        OpKind::Inplace => stack.first(),
        OpKind::Out => stack.last(),
        _ => None,
    };
    let made = match target {
        Some(IValue::Tensor(target)) => {
            if op.def().kind == OpKind::Out && target.sizes() != made.sizes() {
                target.resize(&made.sizes(), None::<MemoryFormat>)?;
            }
            op::copy_(target, &made, false)?
        }
        _ => made,
    };
    stack.replace(made);
    Ok(())
}

fn number(value: i64) -> Result<Tensor> {
    op::scalar_tensor(Scalar::Int(value), Some(DType::Int64), None, None, None)
}

/// Whether numbers without a sign are at least others.
fn at_least(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    let flip = |tensor: &Tensor| op::bitwise_xor_scalar(tensor, Scalar::Int(TOP));
    op::ge_tensor(&flip(a)?, &flip(b)?)
}

/// `a / b` and `a % b` of numbers without a sign: the half of `a` is divided, and the quotient, twice that, is
/// one too small at most. A divisor with the top bit goes in once or not at all.
fn divided(a: &Tensor, b: &Tensor) -> Result<(Tensor, Tensor)> {
    let one = Scalar::Int(1);
    let is_large = op::lt_scalar(b, Scalar::Int(0))?;
    let small = op::where_self(&is_large, &number(1)?, b)?;
    let half = op::bitwise_right_shift_tensor_scalar(a, one)?;
    let half = op::bitwise_and_scalar(&half, Scalar::Int(i64::MAX))?;
    let twice = op::mul_scalar(&op::floor_divide(&half, &small)?, Scalar::Int(2))?;
    let quotient = op::where_self(&is_large, &number(0)?, &twice)?;
    let rest = op::sub_tensor(a, &op::mul_tensor(&quotient, b)?, one)?;
    let more = op::to_dtype(&at_least(&rest, b)?, DType::Int64, false, false, None)?;
    let rest = op::sub_tensor(&rest, &op::mul_tensor(&more, b)?, one)?;
    Ok((op::add_tensor(&quotient, &more, one)?, rest))
}

/// `a >> b` with zeros from above.
fn shifted(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    let half = op::bitwise_right_shift_tensor_scalar(a, Scalar::Int(1))?;
    let half = op::bitwise_and_scalar(&half, Scalar::Int(i64::MAX))?;
    let less = op::clamp_min(&op::sub_scalar(b, Scalar::Int(1), Scalar::Int(1))?, Scalar::Int(0))?;
    let less_is_all = op::ge_scalar(&less, Scalar::Int(63))?;
    let moved = op::bitwise_right_shift_tensor(&half, &less)?;
    let moved = op::where_self(&less_is_all, &number(0)?, &moved)?;
    op::where_self(&op::eq_scalar(b, Scalar::Int(0))?, a, &moved)
}

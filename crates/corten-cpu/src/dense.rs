//! Elementwise operators on dense operands of one dtype, without an iterator: the shortcut that
//! [`corten_ops::dense`] describes.

use crate::block::{Kernel, PickLoop, Scalars, Source, Value, element, take_division_by_zero};
use corten_core::{Access, AccessSet, DType, Layout, Result, Scalar, TensorBase, bail, geometry};
use corten_ops::Tensor;
use corten_ops::dense::{Call, Rule};
use corten_ops::meta::Promote;
use corten_ops::parallel::GRAIN;

/// Runs the operator if the operands are dense; `None` leaves it to the iterator.
///
/// # Errors
/// Those of the allocation, of taking access, and a division of integers by zero.
pub(crate) fn run(pick: PickLoop, rule: &Rule, call: &Call<'_>) -> Result<Option<Tensor>> {
    match *call.inputs {
        [a] => run_on(pick, rule, [a], call),
        [a, b] => run_on(pick, rule, [a, b], call),
        [a, b, c] => run_on(pick, rule, [a, b, c], call),
        _ => Ok(None),
    }
}

fn run_on<const N: usize>(
    pick: PickLoop,
    rule: &Rule,
    inputs: [&Tensor; N],
    given: &Call<'_>,
) -> Result<Option<Tensor>> {
    let Some(leader) = leader(&inputs) else { return Ok(None) };
    let dtype = leader.dtype();
    if !serves(rule, dtype) || !given.scalars.iter().all(|scalar| suits(scalar, dtype)) {
        return Ok(None);
    }
    let Some(inputs) = operands(leader, inputs)? else { return Ok(None) };
    let Some(looped) = pick(dtype).filter(|found| found.compute == dtype) else {
        return Ok(None);
    };
    let result = match given.out {
        None => {
            let dtype = if is_test(rule) { DType::Bool } else { dtype };
            Tensor::from(TensorBase::empty(&leader.sizes(), dtype)?)
        }
        Some(out) if takes(out, leader, rule) && writes_apart(out, &inputs) => out.clone(),
        Some(_) => return Ok(None),
    };
    let scalars = Scalars::wrapped(given.scalars, dtype)?;
    let ran = call(&looped, &result, &inputs, &scalars)?;
    Ok(ran.then_some(result))
}

/// An input: a dense tensor, or one element.
enum Operand<'a> {
    Dense(&'a Tensor),
    Single(&'a Tensor),
    Number(Value),
}

impl<'a> Operand<'a> {
    fn tensor(&self) -> Option<&'a Tensor> {
        match self {
            Self::Dense(input) | Self::Single(input) => Some(input),
            Self::Number(_) => None,
        }
    }
}

fn is_test(rule: &Rule) -> bool {
    matches!(rule.promote, Promote::Comparison | Promote::BoolOut)
}

/// Three dtypes are enough for almost all calls, and no operator refuses them for reasons that
/// its domain does not tell.
fn serves(rule: &Rule, dtype: DType) -> bool {
    let served = match dtype {
        DType::Float32 | DType::Float64 => true,
        DType::Int64 => {
            !matches!(rule.promote, Promote::Float | Promote::BinaryFloat | Promote::Ternary)
        }
        _ => false,
    };
    served && rule.domain.contains(dtype)
}

/// The input that decides shape and dtype: the first that is no single element, if there is one.
fn leader<'a, const N: usize>(inputs: &[&'a Tensor; N]) -> Option<&'a Tensor> {
    let leader = inputs.iter().find(|input| input.defined() && input.dim() > 0);
    let leader = *leader.unwrap_or(&inputs[0]);
    let plain = leader.defined()
        && leader.device().is_cpu()
        && leader.layout() == Layout::Strided
        && leader.is_contiguous()
        && !leader.is_wrapped_number();
    (plain && (1..=GRAIN).contains(&leader.numel())).then_some(leader)
}

/// Whether a scalar argument is computed with as it is, and refused by no operator.
fn suits(scalar: &Scalar, dtype: DType) -> bool {
    match scalar {
        Scalar::Int(_) => true,
        Scalar::Float(_) => dtype.is_floating_point(),
        _ => false,
    }
}

/// The inputs as the loop takes them.
fn operands<'a, const N: usize>(
    leader: &Tensor,
    inputs: [&'a Tensor; N],
) -> Result<Option<[Operand<'a>; N]>> {
    let mut found = inputs.map(Operand::Dense);
    for (operand, input) in found.iter_mut().zip(inputs) {
        if input.is_same(leader) {
            continue;
        }
        if !input.defined() || !input.device().is_cpu() || input.layout() != Layout::Strided {
            return Ok(None);
        }
        if input.is_wrapped_number() {
            let Some(value) = number(input, leader)? else { return Ok(None) };
            *operand = Operand::Number(value);
        } else if input.dtype() != leader.dtype() {
            return Ok(None);
        } else if input.dim() == 0 && input.numel() == 1 {
            *operand = Operand::Single(input);
        } else if !input.is_contiguous() || input.sizes() != leader.sizes() {
            return Ok(None);
        }
    }
    // Where operands broadcast, the result takes its order of dimensions from all strides, also
    // from those of dimensions of size 1.
    let broadcasts = found.iter().any(|operand| !matches!(operand, Operand::Dense(_)));
    let usual = || leader.strides() == geometry::contiguous_strides_wrapping(&leader.sizes());
    Ok((!broadcasts || usual()).then_some(found))
}

/// A number beside a tensor that keeps its dtype.
fn number(input: &Tensor, leader: &Tensor) -> Result<Option<Value>> {
    let fits = match input.dtype() {
        DType::Int64 => true,
        DType::Float64 => leader.dtype().is_floating_point(),
        _ => false,
    };
    if !fits || leader.dim() == 0 {
        return Ok(None);
    }
    element(corten_ops::iter::read_scalar(input)?, leader.dtype()).map(Some)
}

/// Whether an output can be written as it is: dense, of the result's shape and dtype.
fn takes(out: &Tensor, leader: &Tensor, rule: &Rule) -> bool {
    let dtype = if is_test(rule) { DType::Bool } else { leader.dtype() };
    out.defined()
        && out.dtype() == dtype
        && out.device().is_cpu()
        && out.layout() == Layout::Strided
        && out.is_contiguous()
        && (out.is_same(leader) || out.sizes() == leader.sizes())
}

/// Whether `out` shares no memory with an input, but for being the first one.
fn writes_apart<const N: usize>(out: &Tensor, inputs: &[Operand<'_>; N]) -> bool {
    inputs.iter().enumerate().all(|(i, input)| match input {
        Operand::Dense(first) if i == 0 && first.is_same(out) => true,
        Operand::Dense(other) | Operand::Single(other) => other.storage_key() != out.storage_key(),
        Operand::Number(_) => true,
    })
}

/// Calls the loop while the storages are held. `false`: an operand has no memory.
fn call<const N: usize>(
    looped: &Kernel,
    result: &Tensor,
    inputs: &[Operand<'_>; N],
    scalars: &Scalars,
) -> Result<bool> {
    let mut wanted = [(result.base(), Access::Write); 4];
    let mut count = 1;
    for input in inputs.iter().filter_map(Operand::tensor) {
        wanted[count] = (input.base(), Access::Read);
        count += 1;
    }
    let held = AccessSet::acquire(&wanted[..count])?;
    let numel = result.numel() as usize;
    let to = held.byte_ptr(0);
    let mut inside = within_storage(&held, 0, numel * result.itemsize());
    let mut from = [Source { from: to, fixed: true }; 3];
    let mut place = 0;
    for (source, input) in from.iter_mut().zip(inputs) {
        let fixed = !matches!(input, Operand::Dense(_));
        let address = if let Operand::Number(value) = input {
            std::ptr::from_ref(value).cast()
        } else {
            place += 1;
            let count = if fixed { 1 } else { numel };
            inside &= within_storage(&held, place, count * looped.compute.itemsize());
            held.byte_ptr(place).cast_const()
        };
        *source = Source { from: address, fixed };
    }
    if !inside || looped.arity > N {
        return Ok(false);
    }
    // SAFETY: the addresses are those of `numel` elements, or single ones, inside of storages that
    // the set holds, or of numbers; the loop is one for this processor, and each bit pattern is an
    // element of its dtypes.
    unsafe { (looped.block)(to, &from, scalars, numel) };
    if take_division_by_zero() {
        bail!(Runtime, "ZeroDivisionError")
    }
    Ok(true)
}

/// Whether operand `index` has `bytes` bytes from its first element on, whatever happened to its
/// geometry or storage since they were looked at.
fn within_storage(held: &AccessSet<'_>, index: usize, bytes: usize) -> bool {
    let (start, length) = held.extent(index);
    let before = held.byte_ptr(index).addr().wrapping_sub(start.addr());
    !start.is_null() && before.checked_add(bytes).is_some_and(|end| end <= length)
}

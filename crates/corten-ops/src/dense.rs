//! Elementwise operators on dense operands of one dtype, without an iterator.
//!
//! Most calls of a program are small and regular: tensors of one dtype and shape that lie
//! contiguously, and numbers. For those an iterator would cost several times what the loop does.
//! [`run`] takes exactly the calls on which it gives what the iterator gives, and leaves all
//! others, errors included, to it.

use crate::Tensor;
use crate::meta::{Domain, Promote};
use crate::parallel::GRAIN;
use crate::stub::Stub;
use corten_core::{
    Access, AccessSet, DType, Element, Layout, Result, Scalar, TensorBase, bail, geometry,
    match_dtype,
};
use smallvec::SmallVec;
use std::cell::Cell;

/// One operand of a contiguous loop.
#[derive(Clone, Copy)]
pub struct Source {
    /// The first element.
    pub from: *const u8,
    /// Whether every step takes the same element.
    pub fixed: bool,
}

/// Operators have at most this many scalar arguments.
pub const MOST_SCALARS: usize = 4;

/// Room for an element of any dtype.
pub type Value = [u64; 2];

/// The scalar arguments, in the element type of the loop.
pub struct Scalars {
    values: [Value; MOST_SCALARS],
    count: usize,
}

/// A contiguous loop: `n` results from three operands, of which it may need fewer.
///
/// # Safety
/// The result must be writable and the operands readable for `n` elements (a fixed one for one
/// element) of the types the loop was made for; the processor must have the loop's instructions.
pub type Block = unsafe fn(to: *mut u8, from: &[Source; 3], scalars: &Scalars, n: usize);

/// A loop, and the dtype in which it computes.
#[derive(Clone, Copy)]
pub struct DenseLoop {
    /// The loop, for this processor.
    pub block: Block,
    /// The dtype of its operands.
    pub compute: DType,
    /// How many operands it reads.
    pub arity: usize,
    /// Whether results are bool whatever the dtype of the operands.
    pub test: bool,
}

/// Chooses the loop of an operator for a dtype.
pub type PickLoop = fn(DType) -> Option<DenseLoop>;

impl Scalars {
    /// Numbers beyond the range of an integer dtype become the end of the range.
    ///
    /// # Errors
    /// `NotImplemented` for a dtype without elements.
    pub fn new(scalars: &[Scalar], dtype: DType) -> Result<Self> {
        let within: SmallVec<[Scalar; MOST_SCALARS]> =
            scalars.iter().map(|&scalar| within(scalar, dtype)).collect();
        Self::wrapped(&within, dtype)
    }

    /// As [`new`](Self::new); numbers beyond the range of an integer dtype wrap around.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn wrapped(scalars: &[Scalar], dtype: DType) -> Result<Self> {
        let mut values = [[0; 2]; MOST_SCALARS];
        for (value, &scalar) in values.iter_mut().zip(scalars) {
            *value = element(scalar, dtype)?;
        }
        Ok(Self { values, count: scalars.len().min(MOST_SCALARS) })
    }

    /// The scalars, each at the start of its place.
    pub fn values(&self) -> &[Value] {
        &self.values[..self.count]
    }

    /// The address of the first one.
    pub fn address(&self) -> *mut u8 {
        (&raw const self.values).cast_mut().cast()
    }
}

/// A number as an element, at the start of its place.
fn element(scalar: Scalar, dtype: DType) -> Result<Value> {
    let mut value = [0; 2];
    match_dtype!(dtype, "scalar", All, T => {
        const { assert!(size_of::<T>() <= size_of::<Value>()) };
        const { assert!(align_of::<T>() <= align_of::<Value>()) };
        // SAFETY: the place has room and alignment for every element type, as just asserted.
        unsafe { (&raw mut value).cast::<T>().write(T::from_scalar(scalar)) };
        Ok(())
    })?;
    Ok(value)
}

/// A number at the end of the range of an integer dtype if it lies outside.
fn within(scalar: Scalar, dtype: DType) -> Scalar {
    if !dtype.is_integral(false) || scalar.is_complex() {
        return scalar;
    }
    let bits = 8 * dtype.itemsize() as u32;
    let (low, high) = match dtype.is_signed() {
        true => (i64::MIN >> (64 - bits), i64::MAX >> (64 - bits)),
        false => (0, ((1i128 << bits) - 1).min(i128::from(i64::MAX)) as i64),
    };
    match scalar {
        Scalar::Int(value) => Scalar::Int(value.clamp(low, high)),
        Scalar::Float(value) => Scalar::Int((value as i64).clamp(low, high)),
        other => other,
    }
}

/// What [`run`] knows of an operator.
pub struct Rule {
    /// How the operands' dtypes decide that of the result.
    pub promote: Promote,
    /// The dtypes that the operator computes in.
    pub domain: Domain,
}

/// Runs the operator if the operands are dense; `None` leaves it to the iterator.
///
/// # Errors
/// Those of the allocation, of taking access, and a division of integers by zero.
pub fn run<const N: usize>(
    stub: &Stub,
    rule: &Rule,
    inputs: [&Tensor; N],
    out: Option<&Tensor>,
    scalars: &[Scalar],
) -> Result<Option<Tensor>> {
    const { assert!(N >= 1 && N <= 3) };
    let Some(leader) = leader(&inputs) else { return Ok(None) };
    let dtype = leader.dtype();
    if !rule.serves(dtype) || !scalars.iter().all(|scalar| suits(scalar, dtype)) {
        return Ok(None);
    }
    let Some(inputs) = operands(leader, inputs)? else { return Ok(None) };
    let Some(looped) = stub.dense_loop(dtype).filter(|found| found.compute == dtype) else {
        return Ok(None);
    };
    let result = match out {
        None => {
            let dtype = if rule.is_test() { DType::Bool } else { dtype };
            Tensor::from(TensorBase::empty(&leader.sizes(), dtype)?)
        }
        Some(out) if takes(out, leader, rule) && writes_apart(out, &inputs) => out.clone(),
        Some(_) => return Ok(None),
    };
    let scalars = Scalars::wrapped(scalars, dtype)?;
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

impl Rule {
    fn is_test(&self) -> bool {
        matches!(self.promote, Promote::Comparison | Promote::BoolOut)
    }

    /// Three dtypes are enough for almost all calls, and no operator refuses them for reasons that
    /// its domain does not tell.
    fn serves(&self, dtype: DType) -> bool {
        let served = match dtype {
            DType::Float32 | DType::Float64 => true,
            DType::Int64 => {
                !matches!(self.promote, Promote::Float | Promote::BinaryFloat | Promote::Ternary)
            }
            _ => false,
        };
        served && self.domain.contains(dtype)
    }
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
    element(crate::iter::read_scalar(input)?, leader.dtype()).map(Some)
}

/// Whether an output can be written as it is: dense, of the result's shape and dtype.
fn takes(out: &Tensor, leader: &Tensor, rule: &Rule) -> bool {
    let dtype = if rule.is_test() { DType::Bool } else { leader.dtype() };
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
    looped: &DenseLoop,
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

thread_local! {
    static DIVISION_BY_ZERO: Cell<bool> = const { Cell::new(false) };
}

/// Notes that a loop of this thread divided an integer by zero.
#[inline]
pub fn report_division_by_zero() {
    DIVISION_BY_ZERO.set(true);
}

/// Whether a loop of this thread divided an integer by zero since this was last asked.
#[inline]
pub fn take_division_by_zero() -> bool {
    DIVISION_BY_ZERO.get() && DIVISION_BY_ZERO.replace(false)
}

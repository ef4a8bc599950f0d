//! Elementwise operators on dense operands of one dtype, without an iterator: the shortcut that
//! [`corten_ops::shortcut`] describes.

use crate::pointwise::inner_loop::{InnerLoop, Kernel, PickLoop, Scalars, Source, Value, element};
use crate::pointwise::vector_loop::FAR;
use crate::vec::stream::streams;
use crate::vec::take_division_by_zero;
use corten_core::{Access, Blocks, DType, Layout, Result, Scalar, TensorBase, bail, geometry};
use corten_ops::Tensor;
use corten_ops::meta::Promote;
use corten_ops::parallel::{GRAIN, parallel_for};
use corten_ops::shortcut::{Call, Rule};
use std::num::NonZeroUsize;
use std::ops::Range;

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
    let Some((leader, layouts, row)) = layouts(&inputs) else { return Ok(None) };
    let dtype = leader.dtype();
    let of = if is_test(rule) { DType::Bool } else { dtype };
    let numel = leader.numel();
    if !serves(rule, dtype)
        || numel < 1
        || (numel > GRAIN && streams(numel as usize * of.itemsize()))
        || !given.scalars.iter().all(|scalar| suits(scalar, dtype))
    {
        return Ok(None);
    }
    let Some(looped) = pick(dtype).filter(|found| found.compute == dtype && found.arity <= N)
    else {
        return Ok(None);
    };
    let mut scalars = Scalars::none();
    scalars.wrap(given.scalars, dtype)?;
    let step = LoopCall { looped: &looped, scalars: &scalars, dtype, row };
    let Some(out) = given.out else {
        let (result, memory) = leader.empty_like_dense(of)?;
        let ran = step.run(&result, Some(memory), &inputs, &layouts)?;
        return Ok(ran.then(|| Tensor::from(result)));
    };
    if !takes(out, leader, of) || !writes_apart(out, &inputs, &layouts) {
        return Ok(None);
    }
    Ok(step.run(out.base(), None, &inputs, &layouts)?.then(|| out.clone()))
}

/// How an input takes part.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OperandLayout {
    /// Element by element.
    Dense,
    /// As many elements as the last dimensions of the leader have, again for each of the others.
    Row,
    /// One element of the leader's dtype, for all.
    Single,
    /// A number of this dtype, for all.
    Number(DType),
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

/// The input that decides shape and dtype, how all take part, and the length of those that are rows.
type Parts<'a, const N: usize> = (&'a Tensor, [OperandLayout; N], Option<NonZeroUsize>);

/// How the inputs take part. Nothing if an iterator has to look at them.
#[inline(always)]
fn layouts<'a, const N: usize>(inputs: &[&'a Tensor; N]) -> Option<Parts<'a, N>> {
    let first = inputs[0];
    let alike =
        first.is_dense_cpu() && inputs[1..].iter().all(|other| other.is_dense_cpu_like(first));
    if alike { Some((first, [OperandLayout::Dense; N], None)) } else { mixed_layouts(inputs) }
}

/// As [`layouts`], for dense tensors beside numbers, single elements and rows.
fn mixed_layouts<'a, const N: usize>(inputs: &[&'a Tensor; N]) -> Option<Parts<'a, N>> {
    let leader = leader(inputs)?;
    if !leader.is_dense_cpu() {
        return None;
    }
    let mut layouts = [OperandLayout::Dense; N];
    let mut row = None;
    for (layout, input) in layouts.iter_mut().zip(inputs) {
        if input.is_dense_cpu_like(leader) {
            continue;
        }
        if input.dim() == 0 {
            *layout = layout_of_scalar(input, leader.dtype())?;
            continue;
        }
        let length = length_of_row(input, leader)?;
        if *row.get_or_insert(length) != length {
            return None;
        }
        *layout = OperandLayout::Row;
    }
    // Where operands broadcast, the result takes its order of dimensions from all strides, also
    // from those of dimensions of size 1.
    let usual = leader.strides() == geometry::contiguous_strides_wrapping(&leader.sizes());
    usual.then_some((leader, layouts, row))
}

/// The first of the inputs with the most dimensions, which is one at least.
fn leader<'a>(inputs: &[&'a Tensor]) -> Option<&'a Tensor> {
    let mut leader: Option<&Tensor> = None;
    for input in inputs.iter().filter(|input| input.defined()) {
        if input.dim() > leader.map_or(0, |leader| leader.dim()) {
            leader = Some(input);
        }
    }
    leader
}

/// The number of elements of a tensor whose sizes are the last ones of the leader. Rows are worth a
/// call of the loop each where they are few or long.
fn length_of_row(input: &Tensor, leader: &Tensor) -> Option<NonZeroUsize> {
    if !input.is_dense_cpu() || input.dtype() != leader.dtype() {
        return None;
    }
    let (sizes, all) = (input.sizes(), leader.sizes());
    let last = all.len() > sizes.len() && all.ends_with(&sizes);
    if !last || all.contains(&1) {
        return None;
    }
    let (row, numel) = (input.numel(), leader.numel());
    let few_or_long = numel / 16 <= row || row >= 64;
    NonZeroUsize::new(usize::try_from(row).ok()?).filter(|_| few_or_long)
}

/// How one element takes part beside a tensor of dtype `dtype` that keeps its dtype.
fn layout_of_scalar(input: &Tensor, dtype: DType) -> Option<OperandLayout> {
    let one = input.defined()
        && input.dim() == 0
        && input.device().is_cpu()
        && input.layout() == Layout::Strided;
    if !one {
        return None;
    }
    let own = input.dtype();
    if !input.is_wrapped_number() {
        return (own == dtype && input.numel() == 1).then_some(OperandLayout::Single);
    }
    let fits = match own {
        DType::Int64 => true,
        DType::Float64 => dtype.is_floating_point(),
        _ => false,
    };
    fits.then_some(OperandLayout::Number(own))
}

/// Whether a scalar argument is computed with as it is, and refused by no operator.
fn suits(scalar: &Scalar, dtype: DType) -> bool {
    match scalar {
        Scalar::Int(_) => true,
        Scalar::Float(_) => dtype.is_floating_point(),
        _ => false,
    }
}

/// Whether an output can be written as it is: dense, of the result's shape and dtype.
fn takes(out: &Tensor, leader: &Tensor, dtype: DType) -> bool {
    out.is_dense_cpu()
        && out.dtype() == dtype
        && (out.is_same(leader) || out.sizes() == leader.sizes())
}

/// Whether `out` shares no memory with an input, but for being the first one.
fn writes_apart<const N: usize>(
    out: &Tensor,
    inputs: &[&Tensor; N],
    layouts: &[OperandLayout; N],
) -> bool {
    inputs.iter().zip(layouts).enumerate().all(|(i, (input, &layout))| {
        (i == 0 && layout == OperandLayout::Dense && input.is_same(out))
            || input.storage_key() != out.storage_key()
    })
}

/// One run of a loop.
struct LoopCall<'a> {
    looped: &'a Kernel,
    scalars: &'a Scalars,
    /// The dtype of the loop's operands.
    dtype: DType,
    /// The length of the operands that are rows.
    row: Option<NonZeroUsize>,
}

impl LoopCall<'_> {
    /// Calls the loop while the storages are held. `false`: an operand has no memory.
    ///
    /// A fresh result is nobody else's: its memory is given, and need not be held. Its sizes decide
    /// how many elements there are, since those of the inputs may change meanwhile.
    #[inline(always)]
    fn run<const N: usize>(
        &self,
        result: &TensorBase,
        fresh: Option<*mut u8>,
        inputs: &[&Tensor; N],
        layouts: &[OperandLayout; N],
    ) -> Result<bool> {
        let (itemsize, numel) = (self.dtype.itemsize(), result.numel() as usize);
        let written = numel * result.itemsize();
        let mut wanted = [(result, Access::Write, written); 4];
        for ((place, input), layout) in wanted.iter_mut().zip(inputs).zip(layouts) {
            let nbytes = match layout {
                OperandLayout::Dense => numel * itemsize,
                OperandLayout::Row => self.row.map_or(0, NonZeroUsize::get) * itemsize,
                OperandLayout::Single => itemsize,
                OperandLayout::Number(dtype) => dtype.itemsize(),
            };
            *place = (input.base(), Access::Read, nbytes);
        }
        let mut held = Blocks::none();
        if !held.acquire(&wanted[..N + usize::from(fresh.is_none())])? {
            return Ok(false);
        }
        let to = fresh.unwrap_or_else(|| held.address(N));
        let mut from = [Source { from: to.cast_const(), fixed: true }; 3];
        let mut numbers = [Value::default(); N];
        for (i, ((source, &layout), number)) in
            from.iter_mut().zip(layouts).zip(&mut numbers).enumerate()
        {
            let address = held.address(i).cast_const();
            *source = Source {
                from: address,
                fixed: !matches!(layout, OperandLayout::Dense | OperandLayout::Row),
            };
            if let OperandLayout::Number(dtype) = layout {
                // SAFETY: the element is held, and its dtype is one of the two that are read here.
                *number = element(unsafe { number_at(address, dtype) }, self.dtype)?;
                source.from = (&raw const *number).cast();
            }
        }
        // SAFETY, of both: the addresses are those of `numel` elements, or of a row, or single ones,
        // inside of storages that are held or belong to the fresh result, or of numbers; the loops are
        // for this processor and read no more than `N` operands, and each bit pattern is an element of
        // their dtypes.
        if self.row.is_none() && written < FAR {
            // SAFETY: as just said.
            unsafe { (self.looped.inner_loop)(to, &from, self.scalars, numel) };
            self.checked()?;
            return Ok(true);
        }
        let row = self.row.map_or(1, NonZeroUsize::get);
        if !numel.is_multiple_of(row) {
            // Another thread has just changed what was looked at.
            return Ok(false);
        }
        let mut steps = [0; 3];
        for (step, _) in
            steps.iter_mut().zip(layouts).filter(|(_, layout)| **layout == OperandLayout::Dense)
        {
            *step = row * itemsize;
        }
        let walk = LoopRun { step: self, to, written: row * result.itemsize(), from, steps };
        // SAFETY: as just said.
        unsafe { walk.run_all(numel / row) }?;
        Ok(true)
    }

    /// What the loop reports when it has run.
    #[inline(always)]
    fn checked(&self) -> Result<()> {
        if self.dtype == DType::Int64 && take_division_by_zero() {
            bail!(Runtime, "ZeroDivisionError")
        }
        Ok(())
    }
}

/// Where a loop runs: over rows of the result, which are elements where no operand is a row.
struct LoopRun<'a> {
    step: &'a LoopCall<'a>,
    to: *mut u8,
    /// The bytes of a row of the result.
    written: usize,
    from: [Source; 3],
    /// The bytes from an operand's part in one row to that in the next.
    steps: [usize; 3],
}

// SAFETY: whoever runs a walk promises that operands are only read meanwhile, and that no other
// thread writes the same results.
unsafe impl Sync for LoopRun<'_> {}

impl LoopRun<'_> {
    /// Runs the loop over so many rows, by as many threads as they are worth.
    ///
    /// # Safety
    /// As for [`run`](Self::run).
    #[inline(never)]
    unsafe fn run_all(&self, rows: usize) -> Result<()> {
        let inner_loop = self.step.looped.inner_loop_for(rows * self.written);
        let row = self.step.row.map_or(1, NonZeroUsize::get) as i64;
        parallel_for(0..rows as i64, (GRAIN / row).max(1), |part| {
            // SAFETY: the caller's, of a part: they do not meet.
            unsafe { self.run(inner_loop, part.start as usize..part.end as usize) };
            self.step.checked()
        })
    }

    /// # Safety
    /// The operands must be readable and the results writable there, as for [`InnerLoop`], and nobody else
    /// may write either meanwhile.
    unsafe fn run(&self, inner_loop: InnerLoop, rows: Range<usize>) {
        let run_at = |row: usize, n| {
            let mut from = self.from;
            for (source, step) in from.iter_mut().zip(self.steps) {
                source.from = source.from.wrapping_add(row * step);
            }
            // SAFETY: the caller's.
            unsafe {
                inner_loop(self.to.wrapping_add(row * self.written), &from, self.step.scalars, n)
            };
        };
        match self.step.row {
            None => run_at(rows.start, rows.len()),
            Some(row) => rows.into_iter().for_each(|i| run_at(i, row.get())),
        }
    }
}

/// # Safety
/// `address` must be that of a readable element of `dtype`.
unsafe fn number_at(address: *const u8, dtype: DType) -> Scalar {
    // SAFETY: the caller vouches for the address.
    unsafe {
        match dtype {
            DType::Int64 => Scalar::Int(address.cast::<i64>().read_unaligned()),
            _ => Scalar::Float(address.cast::<f64>().read_unaligned()),
        }
    }
}

//! Reductions of memory and of tensors.

use std::any::TypeId;
use std::ptr;

use corten_core::{Access, AccessSet, DType, Scalar, TensorBase, TensorOptions, cast};
use corten_ops::Tensor;

use super::elements::{Combine, Number, Reduced, Sum};
use super::{Combination, Visit, VisitElement, unsupported, visit, visit_element};
use crate::error::{DistError, Result};
use crate::reduce_op::{Factor, ReduceOp};

/// So many elements are combined at a time, in the first level of the cache.
const CHUNK: usize = 256;

/// The operands of a reduction.
pub(crate) struct Operands<'a> {
    /// Where each has its elements. They may have any alignment.
    pub(crate) starts: &'a [*const u8],
    /// What each is multiplied with before, if with anything: one for each, or none.
    pub(crate) factors: &'a [Option<Scalar>],
    /// What the result is divided by.
    pub(crate) divisor: Option<usize>,
}

/// Writes the reduction of several operands to `out`. What is narrower than the arithmetic is rounded once.
///
/// # Errors
/// `Runtime` for dtypes and combinations that there are not.
///
/// # Safety
/// `out` and each operand must have `n` elements of `dtype`, which nobody else touches meanwhile; an operand
/// may be `out`, and overlaps it in no other way.
pub(crate) unsafe fn fold(
    dtype: DType,
    combination: Combination,
    out: *mut u8,
    operands: &Operands<'_>,
    n: usize,
) -> Result<()> {
    struct Fold<'a>(*mut u8, &'a Operands<'a>, usize);
    impl Visit for Fold<'_> {
        type Output = ();
        fn visit<T: Reduced, C: Combine<T::Wide>>(self) {
            // SAFETY: the promise of whoever called `fold`.
            unsafe { fold_elements::<T, C>(self.0.cast(), self.1, self.2) }
        }
    }
    visit(dtype, combination, Fold(out, operands, n)).ok_or_else(|| {
        DistError::runtime(format!("{combination:?} of {} cannot be reduced", dtype.name()))
    })
}

/// As [`fold`], for a type of elements.
///
/// # Safety
/// As for [`fold`].
pub(crate) unsafe fn fold_elements<T: Reduced, C: Combine<T::Wide>>(
    out: *mut T,
    operands: &Operands<'_>,
    n: usize,
) {
    if TypeId::of::<T>() == TypeId::of::<T::Wide>()
        && let ([a, b], [], None) = (operands.starts, operands.factors, operands.divisor)
    {
        // SAFETY: the caller's promise; the elements are those that are combined.
        return unsafe { fold_pair::<T::Wide, C>(out.cast(), a.cast(), b.cast(), n) };
    }
    let zero = T::from_scalar(Scalar::Int(0));
    let mut stage = Stage { narrow: [zero; CHUNK] };
    let (mut result, mut other) = ([cast::<T, T::Wide>(zero); CHUNK], [cast(zero); CHUNK]);
    for begin in (0..n).step_by(CHUNK) {
        let count = CHUNK.min(n - begin);
        let (result, other) = (&mut result[..count], &mut other[..count]);
        for (index, &start) in operands.starts.iter().enumerate() {
            let operand = start.cast::<T>().wrapping_add(begin);
            let into = if index == 0 { &mut *result } else { &mut *other };
            // SAFETY: the operand has these elements.
            unsafe { stage.load(operand, into) };
            if let Some(Some(factor)) = operands.factors.get(index) {
                // The factor is of the dtype of the elements, as in a tensor.
                let factor: T::Wide = cast(T::from_scalar(*factor));
                into.iter_mut().for_each(|value| *value = value.times(factor));
            }
            if index > 0 {
                for (a, &b) in result.iter_mut().zip(other.iter()) {
                    *a = C::combine(*a, b);
                }
            }
        }
        if let Some(ranks) = operands.divisor {
            result.iter_mut().for_each(|value| *value = value.divided(ranks));
        }
        // SAFETY: `out` has these elements, and those of an operand that is the same memory have been read.
        unsafe { stage.store(result, out.wrapping_add(begin)) };
    }
}

/// Combines two operands whose elements need no conversion, in registers.
///
/// # Safety
/// As for [`fold`].
unsafe fn fold_pair<T: Number, C: Combine<T>>(out: *mut T, a: *const T, b: *const T, n: usize) {
    /// A cache line of single-precision numbers.
    const BLOCK: usize = 16;
    let whole = n / BLOCK * BLOCK;
    for begin in (0..whole).step_by(BLOCK) {
        // SAFETY: all have `n` elements, at any alignment; a block is read before it is written.
        unsafe {
            let a = a.add(begin).cast::<[T; BLOCK]>().read_unaligned();
            let b = b.add(begin).cast::<[T; BLOCK]>().read_unaligned();
            let combined: [T; BLOCK] = std::array::from_fn(|i| C::combine(a[i], b[i]));
            out.add(begin).cast::<[T; BLOCK]>().write_unaligned(combined);
        }
    }
    for i in whole..n {
        // SAFETY: as above.
        unsafe {
            let combined = C::combine(a.add(i).read_unaligned(), b.add(i).read_unaligned());
            out.add(i).write_unaligned(combined);
        }
    }
}

/// Where elements are before they are widened and after they are narrowed.
struct Stage<T> {
    narrow: [T; CHUNK],
}

impl<T: Reduced> Stage<T> {
    /// # Safety
    /// `from` must have as many elements as `into`, which are at most [`CHUNK`].
    unsafe fn load(&mut self, from: *const T, into: &mut [T::Wide]) {
        let narrow = &mut self.narrow[..into.len()];
        // SAFETY: the caller's promise; bytes have no alignment, and all that a tensor has are valid elements.
        unsafe {
            ptr::copy_nonoverlapping(
                from.cast::<u8>(),
                narrow.as_mut_ptr().cast(),
                size_of_val(narrow),
            );
        }
        T::widen(narrow, into);
    }

    /// # Safety
    /// `to` must have as many elements as `from`, which are at most [`CHUNK`].
    unsafe fn store(&mut self, from: &[T::Wide], to: *mut T) {
        let narrow = &mut self.narrow[..from.len()];
        T::narrow(from, narrow);
        // SAFETY: as in `load`.
        unsafe {
            ptr::copy_nonoverlapping(narrow.as_ptr().cast::<u8>(), to.cast(), size_of_val(narrow));
        }
    }
}

/// The factor of an operation, as [`Operands::factors`] have it.
///
/// # Errors
/// As for [`Tensor::item`].
fn factor(op: &ReduceOp) -> Result<Option<Scalar>> {
    Ok(match op {
        ReduceOp::PremulSum(Factor::Number(number)) => Some((*number).into()),
        ReduceOp::PremulSum(Factor::Tensor(tensor)) => Some(tensor.item()?),
        _ => None,
    })
}

/// Multiplies elements with the factor of `op` in place, if it has one.
///
/// # Errors
/// `Runtime` for dtypes without arithmetic, and as for [`Tensor::item`].
///
/// # Safety
/// `data` must have `n` elements of `dtype`, which nobody else touches meanwhile.
pub(crate) unsafe fn premultiply(
    op: &ReduceOp,
    dtype: DType,
    data: *mut u8,
    n: usize,
) -> Result<()> {
    let Some(factor) = factor(op)? else { return Ok(()) };
    // SAFETY: the caller's promise.
    unsafe { change(op, dtype, (data, n), &[Some(factor)], None) }
}

/// Divides sums by the number of ranks in place, if `op` is an average.
///
/// # Errors
/// `Runtime` for dtypes without arithmetic.
///
/// # Safety
/// As for [`premultiply`].
pub(crate) unsafe fn divide(
    op: &ReduceOp,
    dtype: DType,
    data: *mut u8,
    n: usize,
    ranks: usize,
) -> Result<()> {
    if !matches!(op, ReduceOp::Avg) {
        return Ok(());
    }
    // SAFETY: the caller's promise.
    unsafe { change(op, dtype, (data, n), &[], Some(ranks)) }
}

/// # Safety
/// As for [`premultiply`].
unsafe fn change(
    op: &ReduceOp,
    dtype: DType,
    (data, n): (*mut u8, usize),
    factors: &[Option<Scalar>],
    divisor: Option<usize>,
) -> Result<()> {
    struct Change<'a>(*mut u8, Operands<'a>, usize);
    impl VisitElement for Change<'_> {
        type Output = ();
        fn visit<T: Reduced>(self) {
            // SAFETY: the promise of whoever called `change`.
            unsafe { fold_elements::<T, Sum>(self.0.cast(), &self.1, self.2) }
        }
    }
    let operands = Operands { starts: &[data.cast_const()], factors, divisor };
    visit_element(dtype, Change(data, operands, n)).ok_or_else(|| unsupported(op, dtype))
}

/// The reduction of tensors of one size and dtype, each with the operation of its rank, as a new tensor of one
/// dimension. What is narrower than 32 bits is rounded once.
///
/// # Errors
/// `Runtime` where the operation does not support the dtype, there is no tensor, or one is not contiguous in the
/// CPU's memory.
pub fn reduce(inputs: &[(Tensor, &ReduceOp)]) -> Result<Tensor> {
    let Some((first, op)) = inputs.first() else {
        return Err(DistError::runtime("a reduction needs at least one tensor"));
    };
    let (dtype, count) = (first.dtype(), first.numel());
    for (tensor, _) in inputs {
        if tensor.dtype() != dtype || tensor.numel() != count || !tensor.is_contiguous() {
            return Err(DistError::runtime(
                "a reduction needs contiguous tensors of one size and dtype",
            ));
        }
    }
    let combination = Combination::of(op, dtype)?;
    let factors = inputs.iter().map(|(_, op)| factor(op)).collect::<Result<Vec<_>>>()?;
    let out = Tensor::from(TensorBase::empty(&[count], TensorOptions::default().dtype(dtype))?);
    let mut accesses: Vec<(&TensorBase, Access)> = vec![(&out, Access::Write)];
    for (tensor, _) in inputs {
        accesses.push((tensor, Access::Read));
    }
    let set = AccessSet::acquire(&accesses)?;
    let starts: Vec<*const u8> =
        (0..inputs.len()).map(|index| set.byte_ptr(index + 1).cast_const()).collect();
    let divisor = matches!(op, ReduceOp::Avg).then_some(inputs.len());
    let operands = Operands { starts: &starts, factors: &factors, divisor };
    // SAFETY: the set holds all storages and has checked that the elements of each tensor lie inside of its own;
    // all are contiguous with `count` elements of `dtype`, and `out` is new.
    unsafe { fold(dtype, combination, set.byte_ptr(0), &operands, count as usize)? };
    drop(set);
    Ok(out)
}

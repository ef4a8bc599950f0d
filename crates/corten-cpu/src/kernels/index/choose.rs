//! Choosing between two operands by a condition.

use super::flat::match_bits;
use crate::pointwise::steps::{self, Step};
use corten_core::{Complex, Result, Scalar};
use corten_ops::TensorIterator;
use corten_ops::parallel::GRAIN;

/// The loop of `where` and `masked_fill`: one output; condition, first and second choice.
///
/// # Errors
/// When access to an operand is refused.
pub fn where_self(iter: &mut TensorIterator, _scalars: &[Scalar]) -> Result<()> {
    let chosen = ChooseStep(iter.dtype(0).itemsize());
    if steps::is_recording() {
        steps::push(iter, ChooseStep(chosen.0))?;
    }
    iter.for_each(
        // SAFETY: the iterator holds the operands' storages, and its addresses and strides stay within
        // them for `n0` elements of each row.
        |at, strides, n0, n1| unsafe { chosen.run(at, strides, n0 as usize, n1 as usize) },
        GRAIN,
    )
}

/// The loop over elements of so many bytes.
struct ChooseStep(usize);

impl Step for ChooseStep {
    unsafe fn run(&self, at: &[*mut u8], strides: &[i64], n0: usize, n1: usize) -> Result<()> {
        for row in 0..n1 as i64 {
            let start = |k: usize| at[k].wrapping_offset((strides[4 + k] * row) as isize);
            let row = [start(0), start(1), start(2), start(3)];
            let steps = [strides[0], strides[1], strides[2], strides[3]];
            // SAFETY: the caller's.
            match_bits!(self.0, T => unsafe { choose_row::<T>(row, steps, n0 as i64) });
        }
        Ok(())
    }
}

/// # Safety
/// The four operands must have `n` elements at the given strides in bytes: the first writable,
/// the second of one byte each.
#[inline(always)]
unsafe fn choose_row<T: Choice>(at: [*mut u8; 4], steps: [i64; 4], n: i64) {
    let size = size_of::<T>() as i64;
    let dense = |step: i64| step == size;
    // Constant strides let the loop be vectorised.
    // SAFETY: the caller's.
    unsafe {
        match steps {
            [to, 1, a, b] if dense(to) && dense(a) && dense(b) => {
                choose::<T>(at, [size, 1, size, size], n);
            }
            [to, 1, 0, b] if dense(to) && dense(b) && n > 0 => {
                let first = at[2].cast::<T>().read_unaligned();
                choose_beside::<T>([at[0], at[1], at[3]], n, |condition, x| {
                    T::choose(condition, first, x)
                });
            }
            [to, 1, a, 0] if dense(to) && dense(a) && n > 0 => {
                let second = at[3].cast::<T>().read_unaligned();
                choose_beside::<T>([at[0], at[1], at[2]], n, |condition, x| {
                    T::choose(condition, x, second)
                });
            }
            _ => choose::<T>(at, steps, n),
        }
    }
}

/// # Safety
/// As for [`choose_row`].
#[inline(always)]
unsafe fn choose<T: Choice>(at: [*mut u8; 4], steps: [i64; 4], n: i64) {
    for i in 0..n {
        let element = |k: usize| at[k].wrapping_offset((steps[k] * i) as isize);
        // SAFETY: the caller's. Both choices are read, so that no branch is needed.
        unsafe {
            let (a, b) =
                (element(2).cast::<T>().read_unaligned(), element(3).cast::<T>().read_unaligned());
            element(0).cast::<T>().write_unaligned(T::choose(element(1).read() != 0, a, b));
        }
    }
}

/// [`choose`] between dense elements and one number, which stays in a register. Blocks are read before
/// they are written: results that lie where the elements are would make stores that depend on conditions.
///
/// # Safety
/// Three operands of `n` dense elements: the first writable, the second of one byte each; the first and
/// the third are the same or apart.
#[inline(always)]
unsafe fn choose_beside<T: Choice>(at: [*mut u8; 3], n: i64, pick: impl Fn(bool, T) -> T) {
    const BLOCK: usize = 32;

    let (n, [to, conditions, from]) = (n as usize, at);
    let (to, from) = (to.cast::<T>(), from.cast::<T>());
    let whole = n / BLOCK * BLOCK;
    for start in (0..whole).step_by(BLOCK) {
        // SAFETY: the caller's; the block ends within the operands.
        unsafe {
            let mut block = from.add(start).cast::<[T; BLOCK]>().read_unaligned();
            let conditions = conditions.add(start).cast::<[u8; BLOCK]>().read_unaligned();
            block
                .iter_mut()
                .zip(conditions)
                .for_each(|(x, condition)| *x = pick(condition != 0, *x));
            to.add(start).cast::<[T; BLOCK]>().write_unaligned(block);
        }
    }
    for i in whole..n {
        // SAFETY: the caller's.
        unsafe {
            let x = from.add(i).read_unaligned();
            to.add(i).write_unaligned(pick(conditions.add(i).read() != 0, x));
        }
    }
}

/// Elements of which one of two is taken.
trait Choice: Copy {
    /// The first where the condition holds.
    fn choose(condition: bool, first: Self, second: Self) -> Self;
}

/// By masks: the compiler makes branches otherwise, which random conditions mislead.
macro_rules! masked {
    ($($int:ty)+) => {$(
        impl Choice for $int {
            #[inline(always)]
            fn choose(condition: bool, first: Self, second: Self) -> Self {
                let mask = Self::from(condition).wrapping_neg();
                (first & mask) | (second & !mask)
            }
        }
    )+};
}

masked! { u8 i16 i32 i64 }

impl Choice for Complex<f64> {
    #[inline(always)]
    fn choose(condition: bool, first: Self, second: Self) -> Self {
        if condition { first } else { second }
    }
}

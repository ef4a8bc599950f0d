//! Recurrent networks over whole sequences.
//!
//! What the inputs contribute to all steps is one product, made before. A step multiplies by a weight
//! that does not change: it is put in order once, in blocks of hidden units with all their gates side
//! by side, so that what a block's product gives is used while it is near.

mod backward;
mod batches;
mod forward;
mod gru;
mod lstm;

pub use gru::{gru_sequence, gru_sequence_backward};
pub use lstm::{lstm_sequence, lstm_sequence_backward};

use super::support::expect_dtype;
use crate::gemm::{Base, Factor, L1_ALIAS_STRIDE, Mat, MatElement, MatMut, gemm_of_factors};
use crate::parallel::scratch::Buffered;
use crate::rows::loops::Vectorised;
use crate::vec::{Lanes, prefetch_early};
use corten_core::{Result, bail, ensure, unwinding};
use corten_ops::{Tensor, op};
use std::ops::Range;

/// Rows of the batch at a time: products of so many read the weight as it was put in order.
const ROWS: usize = 48;

/// Elements between rows that share their places in the cache once they are apart.
const SPACE: usize = 16;

/// Below this many multiplications a second thread costs more than it saves.
const PARALLEL_WORK: usize = 100_000;

/// An element that sequences are computed in.
trait Element: Vectorised + MatElement + Buffered {}

impl<T: Vectorised + MatElement + Buffered> Element for T {}

/// A number of some units for every gate, of as many as the kind has.
type Gates<V> = [V; 4];

/// What is kept of a step, as much as the kind keeps.
type Kept<V> = [V; 5];

/// What a step leaves.
struct After<V> {
    output: V,
    /// The state beside the output.
    cell: V,
    kept: Kept<V>,
}

/// What a step receives in the backward pass.
struct Behind<V> {
    kept: Kept<V>,
    /// The state before the step.
    before: V,
    /// The gradient of the output.
    grad: V,
    /// The gradient of the state that does not pass through the gates of the step behind.
    carried: V,
}

/// The gradients of a step.
struct Grads<V> {
    /// Those of what the state contributes to the gates.
    gates: Gates<V>,
    carried: V,
    /// What else the kind needs.
    beside: Gates<V>,
}

/// A kind of cell.
trait Cell: Sync {
    /// Its operator.
    const NAME: &'static str;
    /// Gates per hidden unit.
    const GATES: usize;
    /// Numbers that are kept of every step per hidden unit, the gates first.
    const KEPT: usize;
    /// Whether it has a state beside its output.
    const HAS_CELL: bool;
    /// Numbers per hidden unit in [`Grads::beside`].
    const BESIDE: usize;

    /// Of what the state and the input contribute to the gates, what a step needs; `#[inline(always)]`.
    fn activate<V: Lanes>(of_state: Gates<V>, of_input: Gates<V>) -> Gates<V>;

    /// A step, given that; `#[inline(always)]`.
    fn forward<V: Lanes>(activated: Gates<V>, before: V) -> After<V>;

    /// The gradients of a step; `#[inline(always)]`.
    fn backward<V: Lanes>(behind: Behind<V>) -> Grads<V>;

    /// The step which [`Grads::beside`] of a step belongs to, if any.
    fn beside_of(step: usize, length: usize) -> Option<usize>;

    /// The states before a step, among what is kept and those before the first step.
    fn before<'a, T>(shape: &Shape, kept: &'a [T], first: &'a [T], step: usize) -> Before<'a, T>;
}

/// States in rows so far apart.
#[derive(Clone, Copy)]
struct Before<'a, T> {
    states: &'a [T],
    row: usize,
}

/// The shape of a sequence, or of some rows of its batch, and the order of its steps.
#[derive(Clone)]
struct Shape {
    length: usize,
    /// The batch in memory.
    whole: usize,
    /// The first of the rows.
    first: usize,
    batch: usize,
    hidden: usize,
    reverse: bool,
}

impl Shape {
    /// That of a tensor with so many numbers per hidden unit, and of the state and the weight.
    fn of<C: Cell>(
        steps: &Tensor,
        runs: usize,
        [hx, w_hh]: [&Tensor; 2],
        reverse: bool,
    ) -> Result<Self> {
        let (sizes, states, weight) = (steps.sizes(), hx.sizes(), w_hh.sizes());
        let hidden = states.last().copied().unwrap_or(0);
        let (&[length, batch, width], &[rows, _]) = (sizes.as_slice(), states.as_slice()) else {
            bail!(Runtime, "{}: expected a sequence and states of a batch", C::NAME);
        };
        ensure!(
            width == runs as i64 * hidden
                && batch == rows
                && weight.as_slice() == [C::GATES as i64 * hidden, hidden],
            Runtime,
            "{}: states of sizes {:?} and a weight of {:?} do not fit {:?}",
            C::NAME,
            states.as_slice(),
            weight.as_slice(),
            sizes.as_slice()
        );
        for tensor in [steps, w_hh] {
            expect_dtype(tensor, hx.dtype())?;
        }
        let [length, batch, hidden] = [length, batch, hidden].map(|size| size as usize);
        Ok(Self { length, whole: batch, first: 0, batch, hidden, reverse })
    }

    fn sizes(&self) -> [i64; 3] {
        [self.length, self.batch, self.hidden].map(|size| size as i64)
    }

    /// The elements of a state of all rows.
    fn state(&self) -> usize {
        self.batch * self.hidden
    }

    /// The place in memory of a step.
    fn place(&self, step: usize) -> usize {
        if self.reverse { self.length - 1 - step } else { step }
    }

    /// What is kept of a step, of `runs` numbers per hidden unit.
    fn range(&self, step: usize, runs: usize) -> Range<usize> {
        let start = (self.place(step) * self.whole + self.first) * self.hidden * runs;
        start..start + self.state() * runs
    }

    /// A state.
    fn states(&self) -> Range<usize> {
        let start = self.first * self.hidden;
        start..start + self.state()
    }

    /// The last of `runs` numbers per hidden unit that are kept of a step.
    fn kept_states<'a, T>(&self, kept: &'a [T], runs: usize) -> Before<'a, T> {
        let states = kept.get((runs - 1) * self.hidden..).unwrap_or_default();
        Before { states, row: runs * self.hidden }
    }

    /// How many blocks of units are worth a thread.
    fn grain(&self, columns: usize) -> usize {
        PARALLEL_WORK.div_ceil((self.state() * columns).max(1))
    }
}

/// Some rows at a time.
fn groups(batch: usize) -> impl Iterator<Item = Range<usize>> {
    (0..batch).step_by(ROWS).map(move |start| start..(start + ROWS).min(batch))
}

/// Rows of a state or of gradients, which a step multiplies for every block of units.
#[derive(Clone, Copy)]
struct Rows<'a, T> {
    elements: &'a [T],
    width: usize,
    /// The distance from one to the next.
    apart: usize,
}

/// Room for rows that a product would copy for every block otherwise, since their distance is one at
/// which they share their places in the cache.
struct Spread<T> {
    width: usize,
    apart: usize,
    /// None where the rows can stay as they lie.
    copies: Vec<T>,
}

impl<T: Element> Spread<T> {
    /// For products with so many columns.
    fn of([count, width]: [usize; 2], cols: usize) -> Self {
        let conflict = width > 0
            && (width * size_of::<T>()).is_multiple_of(L1_ALIAS_STRIDE)
            && T::packs_aliasing_rows(cols);
        let apart = if conflict { width + SPACE } else { width };
        let copied = if conflict { count * apart } else { 0 };
        Self { width, apart, copies: unwinding::vec(T::default(), copied) }
    }

    /// Contiguous rows, as they lie or copied.
    fn rows<'a>(&'a mut self, elements: &'a [T]) -> Rows<'a, T> {
        let Self { width, apart, .. } = *self;
        if self.copies.is_empty() {
            return Rows { elements, width, apart };
        }
        for (to, from) in self.copies.chunks_exact_mut(apart).zip(elements.chunks_exact(width)) {
            to[..width].copy_from_slice(from);
        }
        Rows { elements: &self.copies, width, apart }
    }
}

/// Some units of every run of a row of `runs` numbers per hidden unit; nothing of runs that it does not
/// have.
#[inline(always)]
fn parts<'a, T, const N: usize>(
    from: &'a [T],
    [row, runs]: [usize; 2],
    hidden: usize,
    units: &Range<usize>,
) -> [&'a [T]; N] {
    std::array::from_fn(|run| match run < runs {
        true => &from[(row * runs + run) * hidden..][units.clone()],
        false => Default::default(),
    })
}

/// Brings some units of a row of `runs` numbers per hidden unit near, if there is such a row: its runs are
/// too far apart for the processor to foresee them.
#[inline(always)]
fn fetch<T>(from: &[T], [row, runs]: [usize; 2], hidden: usize, units: &Range<usize>) {
    for run in row * runs..(row + 1) * runs {
        let start = run * hidden;
        if let Some(part) = from.get(start + units.start..start + units.end) {
            prefetch_early(part.as_ptr().cast(), size_of_val(part));
        }
    }
}

/// `to = base + from[rows] @ weight`, in rows of `width` that lie `apart`.
fn multiply<T: Element>(
    to: &mut [T],
    [width, apart]: [usize; 2],
    from: Rows<'_, T>,
    rows: &Range<usize>,
    weight: Mat<'_, T>,
    base: Base<'_, T>,
) -> Result<()> {
    let depth = from.width;
    let elements = &from.elements[rows.start * from.apart..];
    let from = Mat::strided(elements, [rows.len(), depth], [from.apart, 1])?;
    let to = MatMut::strided(to, [rows.len(), width], [apart, 1])?;
    gemm_of_factors(to.into(), depth, [from, weight].map(Factor::Matrix), base)
}

/// The steps of a sequence as the rows of a matrix.
fn rows(steps: &Tensor) -> Result<Tensor> {
    op::reshape(steps, &[steps.size(0)? * steps.size(1)?, steps.size(2)?])
}

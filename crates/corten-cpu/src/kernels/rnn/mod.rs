//! Recurrent networks over whole sequences.
//!
//! What the inputs contribute to all steps is one product, made before. A step multiplies by a weight
//! that does not change: it is put in order once, in blocks of hidden units with all their gates side
//! by side, so that what a block's product gives is used while it is near.

mod backward;
mod forward;

use super::support::{contiguous, empty, expect_dtype, is_shape_only};
use crate::gemm::{Base, Factor, Mat, MatElement, MatMut, gemm_of_factors};
use crate::row_loops::Vectorised;
use crate::rows::match_wide;
use crate::scratch::Buffered;
use corten_core::{Access, AccessSet, Result, bail, ensure};
use corten_ops::{Tensor, op};
use std::ops::Range;

/// The gates: input, forget, cell and output.
const GATES: usize = 4;

/// What is kept of every step: the gates, and the cell state after it.
const KEPT: usize = GATES + 1;

/// Rows of the batch at a time: products of so many read the weight as it was put in order.
const ROWS: usize = 48;

/// Below this many multiplications a second thread costs more than it saves.
const PARALLEL_WORK: usize = 100_000;

/// An element that sequences are computed in.
trait Cell: Vectorised + MatElement + Buffered {}

impl<T: Vectorised + MatElement + Buffered> Cell for T {}

/// Outputs, the last cell state, and the activated gates and cell states of all steps if they are
/// asked for.
///
/// # Errors
/// `Runtime` when shapes or dtypes do not fit.
pub fn lstm_sequence(
    gates: &Tensor,
    hx: &Tensor,
    cx: &Tensor,
    w_hh: &Tensor,
    reverse: bool,
    train: bool,
) -> Result<(Tensor, Tensor, Tensor)> {
    let shape = Shape::of(gates, GATES, [hx, cx, w_hh], reverse)?;
    let [length, batch, hidden] = shape.sizes();
    let output = empty(&[length, batch, hidden], gates)?;
    let cell = empty(&[batch, hidden], gates)?;
    let kept = if train { vec![length, batch, KEPT as i64 * hidden] } else { vec![0] };
    let workspace = empty(&kept, gates)?;
    if is_shape_only(&output) {
        return Ok((output, cell, workspace));
    }
    let [gates, hx, cx, w_hh] = [gates, hx, cx, w_hh].map(contiguous);
    let (gates, hx, cx, w_hh) = (gates?, hx?, cx?, w_hh?);
    let access = AccessSet::acquire(&[
        (&output, Access::Write),
        (&cell, Access::Write),
        (&workspace, Access::Write),
        (&gates, Access::Read),
        (&hx, Access::Read),
        (&cx, Access::Read),
        (&w_hh, Access::Read),
    ])?;
    match_wide!(gates.dtype(), "lstm_sequence", T => {
        let results = forward::Results {
            output: access.write::<T>(0)?,
            cell: access.write::<T>(1)?,
            kept: access.write::<T>(2)?,
        };
        let (gates, hx, cx) = (access.read::<T>(3)?, access.read::<T>(4)?, access.read::<T>(5)?);
        forward::run(&shape, results, gates, [hx, cx], access.read::<T>(6)?)
    })?;
    drop(access);
    Ok((output, cell, workspace))
}

/// Gradients of [`lstm_sequence`] with respect to its tensors.
///
/// # Errors
/// `Runtime` when shapes or dtypes do not fit.
pub fn lstm_sequence_backward(
    grad_output: &Tensor,
    grad_cy: &Tensor,
    hx: &Tensor,
    cx: &Tensor,
    w_hh: &Tensor,
    workspace: &Tensor,
    reverse: bool,
) -> Result<(Tensor, Tensor, Tensor, Tensor)> {
    let shape = Shape::of(workspace, KEPT, [hx, cx, w_hh], reverse)?;
    let [length, batch, hidden] = shape.sizes();
    ensure!(
        grad_output.sizes().as_slice() == [length, batch, hidden] && grad_cy.sizes() == cx.sizes(),
        Runtime,
        "lstm_sequence_backward: gradients of sizes {:?} and {:?} do not fit",
        grad_output.sizes().as_slice(),
        grad_cy.sizes().as_slice()
    );
    let grad_gates = empty(&[length, batch, GATES as i64 * hidden], hx)?;
    let (grad_hx, grad_cx) = (empty(&[batch, hidden], hx)?, empty(&[batch, hidden], hx)?);
    if is_shape_only(&grad_gates) {
        let grad_w = empty(&w_hh.sizes(), hx)?;
        return Ok((grad_gates, grad_hx, grad_cx, grad_w));
    }
    let before = empty(&[length, batch, hidden], hx)?;
    let [grad_output, grad_cy, hx, cx] = [grad_output, grad_cy, hx, cx].map(contiguous);
    let (grad_output, grad_cy, hx, cx) = (grad_output?, grad_cy?, hx?, cx?);
    let (w_hh, workspace) = (contiguous(w_hh)?, contiguous(workspace)?);
    let access = AccessSet::acquire(&[
        (&grad_gates, Access::Write),
        (&grad_hx, Access::Write),
        (&grad_cx, Access::Write),
        (&before, Access::Write),
        (&grad_output, Access::Read),
        (&grad_cy, Access::Read),
        (&hx, Access::Read),
        (&cx, Access::Read),
        (&w_hh, Access::Read),
        (&workspace, Access::Read),
    ])?;
    match_wide!(hx.dtype(), "lstm_sequence_backward", T => {
        let results = backward::Results {
            gates: access.write::<T>(0)?,
            h: access.write::<T>(1)?,
            c: access.write::<T>(2)?,
            before: access.write::<T>(3)?,
        };
        let given = backward::Given {
            output: access.read::<T>(4)?,
            c: access.read::<T>(5)?,
            states: [access.read::<T>(6)?, access.read::<T>(7)?],
            kept: access.read::<T>(9)?,
        };
        backward::run(&shape, results, given, access.read::<T>(8)?)
    })?;
    drop(access);
    let rows = |tensor: &Tensor| op::reshape(tensor, &[length * batch, tensor.size(2)?]);
    let grad_w = op::mm(&op::t(&rows(&grad_gates)?)?, &rows(&before)?)?;
    Ok((grad_gates, grad_hx, grad_cx, grad_w))
}

/// The shape of a sequence, and the order of its steps.
struct Shape {
    length: usize,
    batch: usize,
    hidden: usize,
    reverse: bool,
}

impl Shape {
    /// That of a tensor with so many numbers per hidden unit, and of the states and the weight.
    fn of(
        steps: &Tensor,
        runs: usize,
        [hx, cx, w_hh]: [&Tensor; 3],
        reverse: bool,
    ) -> Result<Self> {
        let (sizes, states, of_cell, weight) =
            (steps.sizes(), hx.sizes(), cx.sizes(), w_hh.sizes());
        let hidden = states.last().copied().unwrap_or(0);
        let (&[length, batch, width], &[rows, _]) = (sizes.as_slice(), states.as_slice()) else {
            bail!(Runtime, "lstm_sequence: expected a sequence and states of a batch");
        };
        ensure!(
            width == runs as i64 * hidden
                && batch == rows
                && of_cell == states
                && weight.as_slice() == [GATES as i64 * hidden, hidden],
            Runtime,
            "lstm_sequence: states of sizes {:?} and {:?} and a weight of {:?} do not fit {:?}",
            states.as_slice(),
            of_cell.as_slice(),
            weight.as_slice(),
            sizes.as_slice()
        );
        for tensor in [steps, cx, w_hh] {
            expect_dtype(tensor, hx.dtype())?;
        }
        let [length, batch, hidden] = [length, batch, hidden].map(|size| size as usize);
        Ok(Self { length, batch, hidden, reverse })
    }

    fn sizes(&self) -> [i64; 3] {
        [self.length, self.batch, self.hidden].map(|size| size as i64)
    }

    /// The elements of a state of the whole batch.
    fn state(&self) -> usize {
        self.batch * self.hidden
    }

    /// The place in memory of a step.
    fn place(&self, step: usize) -> usize {
        if self.reverse { self.length - 1 - step } else { step }
    }

    /// What is kept of a step, of `runs` numbers per hidden unit.
    fn range(&self, step: usize, runs: usize) -> Range<usize> {
        let len = self.state() * runs;
        let start = self.place(step) * len;
        start..start + len
    }

    /// One step to be written and another to be read, of `runs` numbers per hidden unit.
    fn two<'a, T>(
        &self,
        data: &'a mut [T],
        [write, read]: [usize; 2],
        runs: usize,
    ) -> (&'a mut [T], &'a [T]) {
        let [write, read] = [write, read].map(|step| self.range(step, runs));
        if write.start < read.start {
            let (first, second) = data.split_at_mut(read.start);
            return (&mut first[write], &second[..read.len()]);
        }
        let (first, second) = data.split_at_mut(write.start);
        (&mut second[..write.len()], &first[read])
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

/// `to = from[rows] @ weight`, in rows of `width`; `from` has rows of so many elements.
fn multiply<T: Cell>(
    to: &mut [T],
    width: usize,
    (from, depth): (&[T], usize),
    rows: &Range<usize>,
    weight: Mat<'_, T>,
) -> Result<()> {
    let from = Mat::row_major(&from[rows.start * depth..], rows.len(), depth)?;
    let to = MatMut::row_major(to, rows.len(), width)?;
    let factors = [from, weight].map(Factor::Matrix);
    gemm_of_factors(to.into(), depth, factors, Base::Nothing)
}

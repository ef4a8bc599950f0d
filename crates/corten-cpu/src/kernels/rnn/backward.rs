//! The gradients of a sequence, from its last step to its first.

use super::{Cell, GATES, KEPT, Shape, groups, multiply};
use crate::chunks::{RunsBlock, for_each_block_of_runs};
use crate::gemm::{Factors, Mat, MatMut, gemm};
use crate::row_loops::{Job, load, store};
use crate::scratch::with_buffer;
use crate::vec::Lanes;
use corten_core::{Element, Result};
use corten_ops::parallel::num_threads;
use std::ops::Range;

/// Hidden units of a block, and of one where there would be too few for all threads.
const UNITS: usize = 64;
const FEWER_UNITS: usize = 32;

/// What a sequence has computed, and the gradients of its results.
pub(super) struct Given<'a, T> {
    /// The gradients of the outputs.
    pub output: &'a [T],
    /// That of the last cell state.
    pub c: &'a [T],
    /// The states before the first step.
    pub states: [&'a [T]; 2],
    /// Gates and cell states of all steps.
    pub kept: &'a [T],
}

/// Gradients.
pub(super) struct Results<'a, T> {
    pub gates: &'a mut [T],
    /// Those of the states before the first step.
    pub h: &'a mut [T],
    pub c: &'a mut [T],
    /// The outputs before every step, which the gradient of the weight needs.
    pub before: &'a mut [T],
}

pub(super) fn run<T: Cell>(
    shape: &Shape,
    results: Results<'_, T>,
    given: Given<'_, T>,
    weight: &[T],
) -> Result<()> {
    let (hidden, batch) = (shape.hidden, shape.batch);
    let units = if hidden < UNITS * num_threads() { FEWER_UNITS } else { UNITS };
    let blocks = by_units(weight, hidden, units);
    results.c.copy_from_slice(given.c);
    for step in (0..shape.length).rev() {
        let last = step + 1 == shape.length;
        let (gates, next) = match last {
            true => (&mut results.gates[shape.range(step, GATES)], None),
            false => {
                let (now, next) = shape.two(results.gates, [step, step + 1], GATES);
                (now, Some(next))
            }
        };
        let before: &mut [T] = match last {
            true => &mut [],
            false => &mut results.before[shape.range(step + 1, 1)],
        };
        let cell_before = match step {
            0 => Before { states: given.states[1], row: hidden },
            _ => {
                let kept = &given.kept[shape.range(step - 1, KEPT)];
                Before { states: &kept[GATES * hidden..], row: KEPT * hidden }
            }
        };
        let step = Step {
            output: &given.output[shape.range(step, 1)],
            kept: &given.kept[shape.range(step, KEPT)],
            cell_before,
            next,
        };
        step.run(shape, [gates, &mut *results.c, before], &blocks, units)?;
    }
    if shape.length == 0 {
        results.h.fill(T::default());
        return Ok(());
    }
    results.before[shape.range(0, 1)].copy_from_slice(given.states[0]);
    let first = Mat::row_major(&results.gates[shape.range(0, GATES)], batch, GATES * hidden)?;
    let weight = Mat::row_major(weight, GATES * hidden, hidden)?;
    gemm(MatMut::row_major(results.h, batch, hidden)?, first, weight, Factors::PRODUCT)
}

/// The weight in blocks of columns, filled up with zeros.
fn by_units<T: Cell>(weight: &[T], hidden: usize, units: usize) -> Vec<T> {
    let mut blocks = vec![T::default(); hidden.div_ceil(units) * GATES * hidden * units];
    for (index, block) in blocks.chunks_exact_mut((GATES * hidden * units).max(1)).enumerate() {
        let columns = index * units..((index + 1) * units).min(hidden);
        for (to, line) in block.chunks_exact_mut(units).zip(weight.chunks_exact(hidden)) {
            to[..columns.len()].copy_from_slice(&line[columns.clone()]);
        }
    }
    blocks
}

/// Cell states in rows so far apart.
#[derive(Clone, Copy)]
struct Before<'a, T> {
    states: &'a [T],
    row: usize,
}

struct Step<'a, T> {
    /// The gradient of the output that comes from outside.
    output: &'a [T],
    kept: &'a [T],
    cell_before: Before<'a, T>,
    /// The gradient of the gates of the step behind.
    next: Option<&'a [T]>,
}

impl<T: Cell> Step<'_, T> {
    fn run(&self, shape: &Shape, results: [&mut [T]; 3], weight: &[T], width: usize) -> Result<()> {
        let (hidden, depth) = (shape.hidden, GATES * shape.hidden);
        let (size, grain) = ([shape.batch, hidden], shape.grain(GATES * width));
        for_each_block_of_runs(results, size, width, grain, |units, mut blocks| {
            let weight = &weight[units.start * depth..];
            let weight = Mat::row_major(weight, depth, width)?;
            with_buffer(shape.batch.min(super::ROWS) * width, |sums| {
                for rows in groups(shape.batch) {
                    match self.next {
                        None => sums.fill(T::default()),
                        Some(next) => multiply(sums, width, (next, depth), &rows, weight)?,
                    }
                    let (units, blocks) = (units.clone(), &mut blocks);
                    T::run(Cells { step: self, sums, width, hidden, rows, units, blocks });
                }
                Ok(())
            })
        })
    }
}

/// The cells of some rows and units.
struct Cells<'a, 'b, T> {
    step: &'a Step<'a, T>,
    /// The gradient of the output that comes from the step behind, in rows of so many.
    sums: &'a [T],
    width: usize,
    hidden: usize,
    rows: Range<usize>,
    units: Range<usize>,
    /// The gradients of the gates, of the cell states, and the outputs.
    blocks: &'a mut [RunsBlock<'b, T>; 3],
}

impl<T: Element> Job<T> for Cells<'_, '_, T> {
    type Out = ();

    #[inline(always)]
    fn run<V: Lanes<Elem = T>>(self) {
        let Self { step, sums, width, hidden, rows, units, blocks } = self;
        let [grads, grad_cell, outputs] = blocks;
        let one = V::lit(1.0);
        for (row, sums) in rows.zip(sums.chunks_exact(width)) {
            let kept = &step.kept[row * KEPT * hidden + units.start..];
            let grad_output = &step.output[row * hidden + units.start..];
            let before = &step.cell_before.states[row * step.cell_before.row + units.start..];
            for at in (0..units.len()).step_by(V::LANES) {
                let count = (units.len() - at).min(V::LANES);
                let mut active = [V::lit(0.0); KEPT];
                for (run, active) in active.iter_mut().enumerate() {
                    *active = load::<V>(kept, run * hidden + at, count);
                }
                let [input, forget, new, out, state] = active;
                let tanh = state.tanh();
                let grad = load::<V>(sums, at, count) + load::<V>(grad_output, at, count);
                let through = grad * out * (one - tanh * tanh);
                let of_cell = load::<V>(grad_cell.part(row, 0), at, count) + through;
                let before = load::<V>(before, at, count);
                let of_gates = [
                    of_cell * new * (input * (one - input)),
                    of_cell * before * (forget * (one - forget)),
                    of_cell * input * (one - new * new),
                    grad * tanh * (out * (one - out)),
                ];
                for (gate, of_gate) in of_gates.into_iter().enumerate() {
                    store(of_gate, grads.part(row, gate), at, count);
                }
                store(of_cell * forget, grad_cell.part(row, 0), at, count);
                if outputs.runs() > 0 {
                    store(out * tanh, outputs.part(row, 0), at, count);
                }
            }
        }
    }
}

//! The gradients of a sequence, from its last step to its first.

use super::{
    Before, Behind, Cell, Element, Grads, Kept, Rows, Shape, Spread, fetch, groups, multiply,
};
use crate::chunks::{RunsBlock, for_each_block_of_runs};
use crate::gemm::{Base, Factors, Mat, MatMut, gemm};
use crate::row_loops::{Job, for_each_vector, load, store};
use crate::scratch::with_buffer;
use crate::vec::Lanes;
use corten_core::Result;
use corten_ops::parallel::num_threads;
use std::marker::PhantomData;
use std::ops::Range;

/// Hidden units of a block, and of one where there would be too few for all threads.
const UNITS: usize = 64;
const FEWER_UNITS: usize = 32;

/// What a sequence has computed, and the gradients of its results.
pub(super) struct Given<'a, T> {
    /// The gradients of the outputs.
    pub output: &'a [T],
    /// The state beside the output before the first step, or nothing.
    pub state: &'a [T],
    pub weight: &'a [T],
    /// What was kept of all steps.
    pub kept: &'a [T],
}

/// Gradients.
pub(super) struct Results<'a, T> {
    /// Those of what the states contribute to the gates.
    pub gates: &'a mut [T],
    /// That of the output before the first step.
    pub output: &'a mut [T],
    /// What is carried from step to step: at first the gradient of the last state beside the output,
    /// in the end that of the first.
    pub carried: &'a mut [T],
    /// What else the kind needs of every step.
    pub beside: &'a mut [T],
}

pub(super) fn run<C: Cell, T: Element>(
    shape: &Shape,
    results: Results<'_, T>,
    given: Given<'_, T>,
) -> Result<()> {
    let (hidden, batch) = (shape.hidden, shape.batch);
    let units = if hidden < UNITS * num_threads() { FEWER_UNITS } else { UNITS };
    let blocks = by_units(given.weight, C::GATES * hidden, hidden, units);
    let mut spread = Spread::of(batch, C::GATES * hidden);
    for step in (0..shape.length).rev() {
        let (gates, next) = match step + 1 == shape.length {
            true => (&mut results.gates[shape.range(step, C::GATES)], None),
            false => {
                let (now, next) = shape.two(results.gates, [step, step + 1], C::GATES);
                (now, Some(next))
            }
        };
        let beside: &mut [T] = match C::beside_of(step, shape.length) {
            None => &mut [],
            Some(of) => &mut results.beside[shape.range(of, C::BESIDE)],
        };
        let step = Step {
            output: &given.output[shape.range(step, 1)],
            kept: &given.kept[shape.range(step, C::KEPT)],
            before: C::before(shape, given.kept, given.state, step),
            next: next.map(|next| spread.rows(next)),
            kind: PhantomData::<C>,
        };
        step.run(shape, [gates, &mut *results.carried, beside], &blocks, units)?;
    }
    match C::HAS_CELL {
        true => results.output.fill(T::default()),
        false => results.output.copy_from_slice(results.carried),
    }
    if shape.length == 0 {
        return Ok(());
    }
    let first = &results.gates[shape.range(0, C::GATES)];
    let first = Mat::row_major(first, batch, C::GATES * hidden)?;
    let weight = Mat::row_major(given.weight, C::GATES * hidden, hidden)?;
    gemm(MatMut::row_major(results.output, batch, hidden)?, first, weight, Factors::ADD)
}

/// The weight in blocks of columns, filled up with zeros.
fn by_units<T: Element>(weight: &[T], depth: usize, hidden: usize, units: usize) -> Vec<T> {
    let mut blocks = vec![T::default(); hidden.div_ceil(units) * depth * units];
    for (index, block) in blocks.chunks_exact_mut((depth * units).max(1)).enumerate() {
        let columns = index * units..((index + 1) * units).min(hidden);
        for (to, line) in block.chunks_exact_mut(units).zip(weight.chunks_exact(hidden)) {
            to[..columns.len()].copy_from_slice(&line[columns.clone()]);
        }
    }
    blocks
}

struct Step<'a, C, T> {
    /// The gradient of the output that comes from outside.
    output: &'a [T],
    kept: &'a [T],
    before: Before<'a, T>,
    /// The gradient of the gates of the step behind.
    next: Option<Rows<'a, T>>,
    kind: PhantomData<C>,
}

impl<C: Cell, T: Element> Step<'_, C, T> {
    fn run(&self, shape: &Shape, results: [&mut [T]; 3], weight: &[T], width: usize) -> Result<()> {
        let (hidden, depth) = (shape.hidden, C::GATES * shape.hidden);
        let (size, grain) = ([shape.batch, hidden], shape.grain(C::GATES * width));
        for_each_block_of_runs(results, size, width, grain, |units, mut blocks| {
            let weight = &weight[units.start * depth..];
            let weight = Mat::row_major(weight, depth, width)?;
            with_buffer(shape.batch.min(super::ROWS) * width, |sums| {
                for rows in groups(shape.batch) {
                    match self.next {
                        None => sums.fill(T::default()),
                        Some(next) => {
                            multiply(sums, width, next, &rows, weight, Base::Nothing)?;
                        }
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
struct Cells<'a, 'b, C, T> {
    step: &'a Step<'a, C, T>,
    /// The gradient of the output that comes from the step behind, in rows of so many.
    sums: &'a [T],
    width: usize,
    hidden: usize,
    rows: Range<usize>,
    units: Range<usize>,
    /// The gradients of the gates, what is carried, and what the kind needs beside.
    blocks: &'a mut [RunsBlock<'b, T>; 3],
}

impl<C: Cell, T: corten_core::Element> Job<T> for Cells<'_, '_, C, T> {
    type Out = ();

    #[inline(always)]
    fn run<V: Lanes<Elem = T>>(mut self) {
        let (units, sums) = (self.units.len(), self.sums);
        let (step, hidden) = (self.step, self.hidden);
        for (row, sums) in self.rows.clone().zip(sums.chunks_exact(self.width)) {
            fetch(step.kept, [row + 1, C::KEPT], hidden, &self.units);
            fetch(step.output, [row + 1, 1], hidden, &self.units);
            for_each_vector!(V, units, |at, n| self.some::<V>(row, sums, at, n));
        }
    }
}

impl<C: Cell, T: corten_core::Element> Cells<'_, '_, C, T> {
    /// The cells of some units of a row, as many as a vector has at the most.
    #[inline(always)]
    fn some<V: Lanes<Elem = T>>(&mut self, row: usize, sums: &[T], at: usize, count: usize) {
        let (step, hidden, first) = (self.step, self.hidden, self.units.start + at);
        let [gates, carried, beside] = &mut *self.blocks;
        let mut kept: Kept<V> = [V::lit(0.0); 5];
        for (run, kept) in kept.iter_mut().enumerate().take(C::KEPT) {
            *kept = load::<V>(step.kept, (row * C::KEPT + run) * hidden + first, count);
        }
        let before = step.before;
        let grad_output = load::<V>(step.output, row * hidden + first, count);
        let grads: Grads<V> = C::backward(Behind {
            kept,
            before: load::<V>(before.states, row * before.row + first, count),
            grad: load::<V>(sums, at, count) + grad_output,
            carried: load::<V>(carried.part(row, 0), at, count),
        });
        for gate in 0..C::GATES {
            store(grads.gates[gate], gates.part(row, gate), at, count);
        }
        store(grads.carried, carried.part(row, 0), at, count);
        if beside.runs() > 0 {
            for run in 0..C::BESIDE {
                store(grads.beside[run], beside.part(row, run), at, count);
            }
        }
    }
}

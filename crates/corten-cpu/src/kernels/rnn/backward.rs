//! The gradients of a sequence, from its last step to its first.

use super::batches::{Steps, for_each_part, states_of};
use super::{
    Before, Behind, Cell, Element, Grads, Kept, Rows, Shape, Spread, fetch, groups, multiply, parts,
};
use crate::gemm::{Base, Factors, Mat, MatMut, gemm};
use crate::parallel::chunks::{RunsBlock, for_each_block_of_runs};
use crate::parallel::scratch::with_buffer;
use crate::rows::loops::{RowKernel, for_each_vector, load, store};
use crate::vec::Lanes;
use corten_core::{Result, unwinding};
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
    let Results { gates, output, carried, beside } = results;
    let shapes = shape.parts(C::GATES);
    let few = shapes.len() == 1 && hidden < UNITS * num_threads();
    let units = if few { FEWER_UNITS } else { UNITS };
    let blocks = by_units(given.weight, C::GATES * hidden, hidden, units);
    let all = Steps::of(&shapes, gates, C::GATES).into_iter();
    let all = all.zip(states_of(&shapes, carried, 1)).zip(Steps::of(&shapes, beside, C::BESIDE));
    let parts = shapes.iter().zip(all).map(|(shape, ((gates, carried), beside))| GradientRows {
        shape,
        gates,
        carried,
        beside,
    });
    for_each_part(parts, |part| part.run::<C>(&given, &blocks, units))?;
    match C::HAS_CELL {
        true => output.fill(T::default()),
        false => output.copy_from_slice(carried),
    }
    if shape.length == 0 {
        return Ok(());
    }
    let first = Mat::row_major(&gates[shape.range(0, C::GATES)], batch, C::GATES * hidden)?;
    let weight = Mat::row_major(given.weight, C::GATES * hidden, hidden)?;
    gemm(MatMut::row_major(output, batch, hidden)?, first, weight, Factors::ADD)
}

/// Some rows of the batch, and the gradients of them.
struct GradientRows<'a, T> {
    shape: &'a Shape,
    gates: Steps<'a, T>,
    carried: &'a mut [T],
    beside: Steps<'a, T>,
}

impl<T: Element> GradientRows<'_, T> {
    fn run<C: Cell>(&mut self, given: &Given<'_, T>, weight: &[T], units: usize) -> Result<()> {
        let shape = self.shape;
        let mut spread = Spread::of([shape.batch, C::GATES * shape.hidden], units);
        for step in (0..shape.length).rev() {
            let (gates, next) = match step + 1 == shape.length {
                true => (self.gates.step(shape, step), None),
                false => {
                    let (now, next) = self.gates.two(shape, [step, step + 1]);
                    (now, Some(next))
                }
            };
            let beside: &mut [T] = match C::beside_of(step, shape.length) {
                None => &mut [],
                Some(of) => self.beside.step(shape, of),
            };
            let step = Step {
                output: &given.output[shape.range(step, 1)],
                kept: &given.kept[shape.range(step, C::KEPT)],
                before: C::before(shape, given.kept, given.state, step),
                next: next.map(|next| spread.rows(next)),
                kind: PhantomData::<C>,
            };
            step.run(shape, [gates, &mut *self.carried, beside], weight, units)?;
        }
        Ok(())
    }
}

/// The weight in blocks of columns, filled up with zeros.
fn by_units<T: Element>(weight: &[T], depth: usize, hidden: usize, units: usize) -> Vec<T> {
    let mut blocks = unwinding::vec(T::default(), hidden.div_ceil(units) * depth * units);
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
                            multiply(sums, [width; 2], next, &rows, weight, Base::Nothing)?;
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

impl<C: Cell, T: corten_core::Element> RowKernel<T> for Cells<'_, '_, C, T> {
    type Out = ();

    #[inline(always)]
    fn run<V: Lanes<Elem = T>>(self) {
        let Self { step, hidden, units, .. } = self;
        let [gates, carried, beside] = self.blocks;
        for (row, sums) in self.rows.zip(self.sums.chunks_exact(self.width)) {
            fetch(step.kept, [row + 1, C::KEPT], hidden, &units);
            fetch(step.output, [row + 1, 1], hidden, &units);
            let [output] = parts(step.output, [row, 1], hidden, &units);
            let before = &step.before.states[row * step.before.row..][units.clone()];
            let kept = parts(step.kept, [row, C::KEPT], hidden, &units);
            let ([carried], gates) = (carried.parts(row), gates.parts(row));
            let beside = beside.parts(row);
            let mut cells = Row { kept, before, sums, output, gates, carried, beside };
            for_each_vector!(V, units.len(), |at, n| cells.some::<C, V>(at, n));
        }
    }
}

/// Some cells of a row.
struct Row<'a, T> {
    kept: [&'a [T]; 5],
    /// The states before.
    before: &'a [T],
    /// The gradient of the output that comes from the step behind, and that from outside.
    sums: &'a [T],
    output: &'a [T],
    gates: [&'a mut [T]; 4],
    carried: &'a mut [T],
    beside: [&'a mut [T]; 4],
}

impl<T: corten_core::Element> Row<'_, T> {
    /// The cells of some units, as many as a vector has at the most.
    #[inline(always)]
    fn some<C: Cell, V: Lanes<Elem = T>>(&mut self, at: usize, count: usize) {
        let mut kept: Kept<V> = [V::lit(0.0); 5];
        for (kept, from) in kept.iter_mut().zip(self.kept).take(C::KEPT) {
            *kept = load::<V>(from, at, count);
        }
        let grads: Grads<V> = C::backward(Behind {
            kept,
            before: load::<V>(self.before, at, count),
            grad: load::<V>(self.sums, at, count) + load::<V>(self.output, at, count),
            carried: load::<V>(self.carried, at, count),
        });
        for gate in 0..C::GATES {
            store(grads.gates[gate], self.gates[gate], at, count);
        }
        store(grads.carried, self.carried, at, count);
        if !self.beside[0].is_empty() {
            for run in 0..C::BESIDE {
                store(grads.beside[run], self.beside[run], at, count);
            }
        }
    }
}

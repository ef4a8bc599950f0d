//! The steps of a sequence.

use super::batches::{Steps, for_each_part, states_of};
use super::{After, Cell, Element, Gates, Rows, Shape, Spread, fetch, groups, multiply};
use crate::gemm::{Base, Mat};
use crate::parallel::chunks::{RunsBlock, for_each_block_of_runs, for_each_chunk};
use crate::parallel::scratch::with_buffer;
use crate::rows::loops::{RowKernel, for_each_vector, load, store};
use crate::vec::Lanes;
use corten_core::{Result, try_vec};
use std::marker::PhantomData;
use std::ops::Range;

/// Hidden units of a block.
const UNITS: usize = 16;

/// Elements whose order is worth a thread.
const PARALLEL_COPY: usize = 32_768;

/// StridedLoads of a row of a block for all that its cells need.
const PLACES: usize = 4 * UNITS;

/// What a sequence computes.
pub(super) struct Results<'a, T> {
    pub output: &'a mut [T],
    /// The state beside the output after the last step, or nothing.
    pub cell: &'a mut [T],
    /// What is kept of all steps, or nothing.
    pub kept: &'a mut [T],
}

/// What a sequence is computed of.
pub(super) struct Given<'a, T> {
    /// What the inputs contribute to the gates of all steps.
    pub gates: &'a [T],
    /// The output before the first step.
    pub output: &'a [T],
    /// The state beside it, or nothing.
    pub cell: &'a [T],
    pub weight: &'a [T],
    /// A number per gate and hidden unit, or nothing.
    pub bias: &'a [T],
}

pub(super) fn run<C: Cell, T: Element>(
    shape: &Shape,
    results: Results<'_, T>,
    given: Given<'_, T>,
) -> Result<()> {
    let Results { output, cell, kept } = results;
    let weight = Weight::of::<C>(&given, shape.hidden)?;
    cell.copy_from_slice(given.cell);
    let shapes = shape.parts(C::GATES);
    let outputs = Steps::of(&shapes, output, 1);
    let kept = Steps::of(&shapes, kept, C::KEPT);
    let cells = states_of(&shapes, cell, 1);
    let steps = outputs.into_iter().zip(cells).zip(kept);
    let parts = shapes.iter().zip(steps).map(|(shape, ((output, cell), kept))| BatchRows {
        shape,
        output,
        cell,
        kept,
    });
    for_each_part(parts, |part| part.run::<C>(&given, &weight))
}

/// Some rows of the batch, and what is computed of them.
struct BatchRows<'a, T> {
    shape: &'a Shape,
    output: Steps<'a, T>,
    /// The state beside the output, or nothing.
    cell: &'a mut [T],
    kept: Steps<'a, T>,
}

impl<T: Element> BatchRows<'_, T> {
    fn run<C: Cell>(&mut self, given: &Given<'_, T>, weight: &Weight<T>) -> Result<()> {
        let shape = self.shape;
        let mut spread = Spread::of([shape.batch, shape.hidden], C::GATES * UNITS);
        for step in 0..shape.length {
            let (output, before) = match step {
                0 => (self.output.step(shape, 0), &given.output[shape.states()]),
                _ => self.output.two(shape, [step, step - 1]),
            };
            let results = [output, &mut *self.cell, self.kept.step(shape, step)];
            let gates = &given.gates[shape.range(step, C::GATES)];
            let before = (before, spread.rows(before));
            one_step::<C, T>(shape, results, gates, before, weight)?;
        }
        Ok(())
    }
}

/// The weight of a state and its bias block by block: for every element of the state a row with the
/// gates of the units, and zeros for units that do not exist.
struct Weight<T> {
    blocks: Vec<T>,
    bias: Vec<T>,
}

impl<T: Element> Weight<T> {
    fn of<C: Cell>(given: &Given<'_, T>, hidden: usize) -> Result<Self> {
        let (columns, count) = (C::GATES * UNITS, hidden.div_ceil(UNITS));
        let mut blocks = try_vec(T::default(), count * hidden * columns)?;
        let size = (hidden * columns).max(1);
        for_each_chunk(&mut blocks, size, PARALLEL_COPY.div_ceil(size), |index, block| {
            let units = index * UNITS..((index + 1) * UNITS).min(hidden);
            // A few rows of the block at a time, which stay near.
            for (part, rows) in block.chunks_mut(UNITS * columns).enumerate() {
                for gate in 0..C::GATES {
                    for unit in units.clone() {
                        let line = &given.weight[(gate * hidden + unit) * hidden + part * UNITS..];
                        let column = gate * UNITS + unit - units.start;
                        for (row, &value) in rows.chunks_exact_mut(columns).zip(line) {
                            row[column] = value;
                        }
                    }
                }
            }
            Ok(())
        })?;
        let mut bias =
            try_vec(T::default(), if given.bias.is_empty() { 0 } else { count * columns })?;
        for (gate, values) in given.bias.chunks_exact(hidden.max(1)).enumerate() {
            for (block, values) in bias.chunks_exact_mut(columns).zip(values.chunks(UNITS)) {
                block[gate * UNITS..][..values.len()].copy_from_slice(values);
            }
        }
        Ok(Self { blocks, bias })
    }

    /// The part of the units from the given one on.
    fn block<C: Cell>(&self, first: usize, hidden: usize) -> Result<(Mat<'_, T>, Base<'_, T>)> {
        let (columns, index) = (C::GATES * UNITS, first / UNITS);
        let block = Mat::row_major(&self.blocks[index * hidden * columns..], hidden, columns)?;
        let base = match self.bias.get(index * columns..(index + 1) * columns) {
            Some(bias) => Base::PerColumn(bias),
            None => Base::Nothing,
        };
        Ok((block, base))
    }
}

fn one_step<C: Cell, T: Element>(
    shape: &Shape,
    results: [&mut [T]; 3],
    gates: &[T],
    (before, factor): (&[T], Rows<'_, T>),
    weight: &Weight<T>,
) -> Result<()> {
    let (hidden, columns) = (shape.hidden, C::GATES * UNITS);
    let (size, grain) = ([shape.batch, hidden], shape.grain(columns));
    for_each_block_of_runs(results, size, UNITS, grain, |units, mut blocks| {
        let (weight, base) = weight.block::<C>(units.start, hidden)?;
        with_buffer(shape.batch.min(super::ROWS) * PLACES, |sums| {
            for rows in groups(shape.batch) {
                multiply(sums, [columns, PLACES], factor, &rows, weight, base)?;
                let (units, blocks) = (units.clone(), &mut blocks);
                let sums = &mut *sums;
                let kind = PhantomData::<C>;
                T::run(Cells { sums, gates, before, hidden, rows, units, blocks, kind });
            }
            Ok(())
        })
    })
}

/// The cells of some rows and units.
struct Cells<'a, 'b, C, T> {
    /// What the states contribute to the gates, and then what the cells need of it, in rows of
    /// [`PLACES`].
    sums: &'a mut [T],
    /// What the inputs do.
    gates: &'a [T],
    /// The outputs before.
    before: &'a [T],
    hidden: usize,
    rows: Range<usize>,
    units: Range<usize>,
    /// Outputs, states beside them, and what is kept.
    blocks: &'a mut [RunsBlock<'b, T>; 3],
    kind: PhantomData<C>,
}

impl<C: Cell, T: corten_core::Element> RowKernel<T> for Cells<'_, '_, C, T> {
    type Out = ();

    /// In two rounds: a vector that waits for its gates and then for its cell state, two long chains
    /// one after the other, leaves no room to begin the next.
    #[inline(always)]
    fn run<V: Lanes<Elem = T>>(mut self) {
        let (rows, units) = (self.rows.clone(), self.units.len());
        for (line, row) in rows.clone().enumerate() {
            fetch(self.gates, [row + 1, C::GATES], self.hidden, &self.units);
            for_each_vector!(V, units, |at, n| self.activate::<V>(line, row, at, n));
        }
        for (line, row) in rows.enumerate() {
            for_each_vector!(V, units, |at, n| self.finish::<V>(line, row, at, n));
        }
    }
}

impl<C: Cell, T: corten_core::Element> Cells<'_, '_, C, T> {
    /// What the cells of some units of a row need, as many as a vector has at the most.
    #[inline(always)]
    fn activate<V: Lanes<Elem = T>>(&mut self, line: usize, row: usize, at: usize, count: usize) {
        let first = self.units.start + at;
        let sums = &mut self.sums[line * PLACES..(line + 1) * PLACES];
        let mut of_state: Gates<V> = [V::lit(0.0); 4];
        let mut of_input = of_state;
        for gate in 0..C::GATES {
            let place = (row * C::GATES + gate) * self.hidden + first;
            of_state[gate] = load::<V>(sums, gate * UNITS + at, count);
            of_input[gate] = load::<V>(self.gates, place, count);
        }
        for (i, activated) in C::activate(of_state, of_input).into_iter().enumerate() {
            store(activated, sums, i * UNITS + at, count);
        }
    }

    /// The cells of some units of a row.
    #[inline(always)]
    fn finish<V: Lanes<Elem = T>>(&mut self, line: usize, row: usize, at: usize, count: usize) {
        let sums = &self.sums[line * PLACES..(line + 1) * PLACES];
        let [output, cell, kept] = &mut *self.blocks;
        let mut activated: Gates<V> = [V::lit(0.0); 4];
        for (i, activated) in activated.iter_mut().enumerate() {
            *activated = load::<V>(sums, i * UNITS + at, count);
        }
        let before = match C::HAS_CELL {
            true => load::<V>(cell.part(row, 0), at, count),
            false => load::<V>(self.before, row * self.hidden + self.units.start + at, count),
        };
        let after: After<V> = C::forward(activated, before);
        if C::HAS_CELL {
            store(after.cell, cell.part(row, 0), at, count);
        }
        store(after.output, output.part(row, 0), at, count);
        if kept.runs() > 0 {
            for run in 0..C::KEPT {
                store(after.kept[run], kept.part(row, run), at, count);
            }
        }
    }
}

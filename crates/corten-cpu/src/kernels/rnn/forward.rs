//! The steps of a sequence.

use super::{Cell, GATES, Shape, groups, multiply};
use crate::chunks::{RunsBlock, for_each_block_of_runs};
use crate::gemm::Mat;
use crate::row_loops::{Job, load, store};
use crate::scratch::with_buffer;
use crate::vec::Lanes;
use corten_core::{Element, Result};
use std::ops::Range;

/// Hidden units of a block.
const UNITS: usize = 16;

/// Their gates.
const COLUMNS: usize = GATES * UNITS;

/// What a sequence computes.
pub(super) struct Results<'a, T> {
    pub output: &'a mut [T],
    /// The cell state after the last step.
    pub cell: &'a mut [T],
    /// Gates and cell states of all steps, or nothing.
    pub kept: &'a mut [T],
}

pub(super) fn run<T: Cell>(
    shape: &Shape,
    results: Results<'_, T>,
    gates: &[T],
    [hx, cx]: [&[T]; 2],
    weight: &[T],
) -> Result<()> {
    let Results { output, cell, kept } = results;
    let weight = by_units(weight, shape.hidden);
    cell.copy_from_slice(cx);
    for step in 0..shape.length {
        let (output, before) = match step {
            0 => (&mut output[shape.range(0, 1)], hx),
            _ => shape.two(output, [step, step - 1], 1),
        };
        let kept: &mut [T] = match kept.is_empty() {
            true => &mut [],
            false => &mut kept[shape.range(step, super::KEPT)],
        };
        let gates = &gates[shape.range(step, GATES)];
        one_step(shape, [output, &mut *cell, kept], gates, before, &weight)?;
    }
    Ok(())
}

/// The weight of a state block by block: for every element of the state a row with the gates of the
/// units, and zeros for units that do not exist.
fn by_units<T: Cell>(weight: &[T], hidden: usize) -> Vec<T> {
    let mut blocks = vec![T::default(); hidden.div_ceil(UNITS) * hidden * COLUMNS];
    for (index, block) in blocks.chunks_exact_mut((hidden * COLUMNS).max(1)).enumerate() {
        let units = index * UNITS..((index + 1) * UNITS).min(hidden);
        // A few rows of the block at a time, which stay near.
        for (part, rows) in block.chunks_mut(UNITS * COLUMNS).enumerate() {
            for gate in 0..GATES {
                for unit in units.clone() {
                    let line = &weight[(gate * hidden + unit) * hidden + part * UNITS..];
                    let column = gate * UNITS + unit - units.start;
                    for (row, &value) in rows.chunks_exact_mut(COLUMNS).zip(line) {
                        row[column] = value;
                    }
                }
            }
        }
    }
    blocks
}

fn one_step<T: Cell>(
    shape: &Shape,
    results: [&mut [T]; 3],
    gates: &[T],
    before: &[T],
    weight: &[T],
) -> Result<()> {
    let hidden = shape.hidden;
    let (size, grain) = ([shape.batch, hidden], shape.grain(COLUMNS));
    for_each_block_of_runs(results, size, UNITS, grain, |units, mut blocks| {
        let weight = &weight[units.start / UNITS * hidden * COLUMNS..];
        let weight = Mat::row_major(weight, hidden, COLUMNS)?;
        with_buffer(shape.batch.min(super::ROWS) * COLUMNS, |sums| {
            for rows in groups(shape.batch) {
                multiply(sums, COLUMNS, (before, hidden), &rows, weight)?;
                let units = units.clone();
                T::run(Cells { sums, gates, hidden, rows, units, blocks: &mut blocks });
            }
            Ok(())
        })
    })
}

/// The cells of some rows and units.
struct Cells<'a, 'b, T> {
    /// What the states contribute to the gates.
    sums: &'a [T],
    /// What the inputs do.
    gates: &'a [T],
    hidden: usize,
    rows: Range<usize>,
    units: Range<usize>,
    /// Outputs, cell states, and what is kept.
    blocks: &'a mut [RunsBlock<'b, T>; 3],
}

impl<T: Element> Job<T> for Cells<'_, '_, T> {
    type Out = ();

    #[inline(always)]
    fn run<V: Lanes<Elem = T>>(self) {
        let Self { sums, gates, hidden, rows, units, blocks } = self;
        let [output, cell, kept] = blocks;
        let keeps = kept.runs() > 0;
        for (row, sums) in rows.zip(sums.chunks_exact(COLUMNS)) {
            let gates = &gates[row * GATES * hidden + units.start..];
            for at in (0..units.len()).step_by(V::LANES) {
                let count = (units.len() - at).min(V::LANES);
                let mut active = [V::lit(0.0); GATES];
                for (gate, active) in active.iter_mut().enumerate() {
                    let input = load::<V>(gates, gate * hidden + at, count);
                    *active = load::<V>(sums, gate * UNITS + at, count) + input;
                }
                let [input, forget, new, out] = active;
                let [input, forget, new, out] =
                    [input.sigmoid(), forget.sigmoid(), new.tanh(), out.sigmoid()];
                let old = load::<V>(cell.part(row, 0), at, count);
                let state = forget.mul_add(old, input * new);
                store(state, cell.part(row, 0), at, count);
                store(out * state.tanh(), output.part(row, 0), at, count);
                if keeps {
                    store(input, kept.part(row, 0), at, count);
                    store(forget, kept.part(row, 1), at, count);
                    store(new, kept.part(row, 2), at, count);
                    store(out, kept.part(row, 3), at, count);
                    store(state, kept.part(row, 4), at, count);
                }
            }
        }
    }
}

//! Sequences in parts of the batch.

use super::{Element, Shape};
use crate::parallel::chunks::for_each_chunk;
use corten_core::Result;
use corten_ops::parallel::{in_parallel_region, num_threads};

/// Rows of the batch that are worth a thread of their own. A product of fewer takes longer to read the
/// weight than to multiply by it.
const ROWS_PER_THREAD: usize = 16;

impl Shape {
    /// One part of the batch for every thread, or all of it. What threads compute of rows of their own they
    /// read from no other, nor wait for, and the weight fits the cache of each.
    pub(super) fn parts(&self, gates: usize) -> Vec<Self> {
        let threads = num_threads();
        let work = self.length * self.state() * gates * self.hidden;
        let few = self.batch < ROWS_PER_THREAD * threads || work < super::PARALLEL_WORK * threads;
        let count = if few || in_parallel_region() { 1 } else { threads };
        let start = |part: usize| self.batch * part / count;
        let part = |part| Self {
            first: start(part),
            batch: start(part + 1) - start(part),
            ..self.clone()
        };
        (0..count).map(part).collect()
    }
}

/// What is written of every step, in the order of memory; nothing if it is not kept.
pub(super) struct Steps<'a, T>(Vec<&'a mut [T]>);

impl<'a, T: Element> Steps<'a, T> {
    /// Those of parts of the batch, of `runs` numbers per hidden unit.
    pub(super) fn of(parts: &[Shape], data: &'a mut [T], runs: usize) -> Vec<Self> {
        // Bounded: threads.
        let mut all: Vec<_> = parts.iter().map(|_| Self(Vec::new())).collect();
        let states = parts.iter().map(Shape::state).sum::<usize>();
        for step in data.chunks_exact_mut((states * runs).max(1)) {
            for (steps, part) in all.iter_mut().zip(states_of(parts, step, runs)) {
                steps.0.push(part);
            }
        }
        all
    }

    pub(super) fn step(&mut self, shape: &Shape, step: usize) -> &mut [T] {
        self.0.get_mut(shape.place(step)).map_or(&mut [], |part| part)
    }

    /// One step to be written and another to be read.
    pub(super) fn two(&mut self, shape: &Shape, steps: [usize; 2]) -> (&mut [T], &[T]) {
        match self.0.get_disjoint_mut(steps.map(|step| shape.place(step))) {
            Ok([write, read]) => (write, read),
            Err(_) => Default::default(),
        }
    }
}

/// Parts of the batch of one step, of `runs` numbers per hidden unit; nothing of nothing.
pub(super) fn states_of<'a, T>(
    parts: &[Shape],
    mut data: &'a mut [T],
    runs: usize,
) -> impl Iterator<Item = &'a mut [T]> {
    parts.iter().map(move |part| {
        let len = (part.state() * runs).min(data.len());
        data.split_off_mut(..len).unwrap_or_default()
    })
}

/// Calls `run` with every part, each on a thread of its own.
///
/// # Errors
/// The first error of `run`.
pub(super) fn for_each_part<P: Send>(
    parts: impl Iterator<Item = P>,
    run: impl Fn(&mut P) -> Result<()> + Sync,
) -> Result<()> {
    // Bounded: threads.
    let mut parts: Vec<P> = parts.collect();
    for_each_chunk(&mut parts, 1, 1, |_, part| part.iter_mut().try_for_each(&run))
}

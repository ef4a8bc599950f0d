//! Running a loop over the walk.

use super::{Pointers, TensorIterator};
use crate::parallel;
use corten_core::{Dims, Result};
use smallvec::{SmallVec, smallvec};
use std::ops::Range;

/// A loop over a block of two dimensions: the operands' addresses, their strides in bytes (all
/// inner ones, then all outer ones), and the inner and outer sizes.
type Loop<'a> = dyn Fn(&[*mut u8], &[i64], i64, i64) -> Result<()> + Sync + 'a;

/// A [`Loop`] for one thread.
type LoopMut<'a> = dyn FnMut(&[*mut u8], &[i64], i64, i64) -> Result<()> + 'a;

/// What a loop may return: nothing, or a `Result`.
///
/// ```
/// use corten::ops::iter::TensorIteratorConfig;
/// use std::sync::atomic::{AtomicI64, Ordering};
/// use corten::prelude::*;
///
/// # fn main() -> Result<()> {
/// let x = Tensor::ones([4, 4])?;
/// let mut iter = TensorIteratorConfig::unary().add_output(None).add_input(&x).build()?;
/// let steps = AtomicI64::new(0);
/// let count = |_: &[*mut u8], _: &[i64], inner: i64, outer: i64| {
///     steps.fetch_add(inner * outer, Ordering::Relaxed);
/// };
/// iter.for_each(count, 32_768)?;
/// assert_eq!(steps.into_inner(), 16);
/// # Ok(())
/// # }
/// ```
pub trait LoopOutcome {
    /// The outcome as a result.
    ///
    /// # Errors
    /// The loop's own.
    fn into_result(self) -> Result<()>;
}

impl LoopOutcome for () {
    fn into_result(self) -> Result<()> {
        Ok(())
    }
}

impl LoopOutcome for Result<()> {
    fn into_result(self) -> Result<()> {
        self
    }
}

impl TensorIterator {
    /// Runs `body` over the whole walk, in parallel when it has more than `grain` steps.
    ///
    /// `body` gets the operands' addresses, their strides in bytes (`ntensors` inner ones, then
    /// as many outer ones), and the inner and outer sizes of a block. Blocks are disjoint.
    ///
    /// # Errors
    /// When access is refused, or the body's own.
    pub fn for_each<R: LoopOutcome>(
        &mut self,
        body: impl Fn(&[*mut u8], &[i64], i64, i64) -> R + Sync,
        grain: i64,
    ) -> Result<()> {
        self.run(&|pointers, strides, n0, n1| body(pointers, strides, n0, n1).into_result(), grain)
    }

    /// Runs `body` over part of the walk on this thread; steps are numbered in the walk's order.
    ///
    /// # Errors
    /// When access is refused, or the body's own.
    pub fn serial_for_each<R: LoopOutcome>(
        &mut self,
        mut body: impl FnMut(&[*mut u8], &[i64], i64, i64) -> R,
        range: Range<i64>,
    ) -> Result<()> {
        if range.is_empty() {
            return Ok(());
        }
        let pointers = self.pointers()?;
        LoopGeometry::of(self).run(&pointers, range, &mut |pointers, strides, n0, n1| {
            body(pointers, strides, n0, n1).into_result()
        })
    }

    /// Runs `body` over the rows of the first operand with the number of each row's first step in
    /// the walk's order: position, address, stride in bytes, length. Runs in parallel when the
    /// walk has more than `grain` steps.
    ///
    /// With `enforce_linear_iteration`, the position is that of the element in logical order.
    ///
    /// # Errors
    /// When access is refused, or the body's own.
    pub fn for_each_position<R: LoopOutcome>(
        &mut self,
        body: impl Fn(i64, *mut u8, i64, i64) -> R + Sync,
        grain: i64,
    ) -> Result<()> {
        if self.numel == 0 {
            return Ok(());
        }
        let walk = LoopGeometry::of(self);
        let count = self.operands.len();
        let pointers = Addresses(self.pointers()?);
        let independent = self.numel <= grain || self.parts_are_independent();
        let grain = if independent { grain } else { self.numel };
        parallel::parallel_for(0..self.numel, grain, |range| {
            let mut position = range.start;
            walk.run(pointers.get(), range, &mut |pointers, strides, n0, n1| {
                for row in 0..n1 {
                    let first = pointers[0].wrapping_offset((row * strides[count]) as isize);
                    body(position, first, strides[0], n0).into_result()?;
                    position += n0;
                }
                Ok(())
            })
        })
    }

    fn run(&mut self, body: &Loop<'_>, grain: i64) -> Result<()> {
        if self.numel == 0 {
            return Ok(());
        }
        let pointers = self.pointers()?;
        let walk = LoopGeometry::of(self);
        let serial = self.numel <= grain || parallel::num_threads() == 1;
        if serial || !self.parts_are_independent() {
            return walk.run(&pointers, 0..self.numel, &mut |p, s, n0, n1| body(p, s, n0, n1));
        }
        let shared = Addresses(pointers);
        parallel::parallel_for(0..self.numel, grain, |range| {
            walk.run(shared.get(), range, &mut |p, s, n0, n1| body(p, s, n0, n1))
        })
    }
}

/// Addresses that may be used from several threads at once, each for its own part of the outputs.
pub(crate) struct Addresses(pub(crate) Pointers);

// SAFETY: only the addresses are shared. The loops that dereference them do so for disjoint
// parts of the outputs, and the iterator holds the storages meanwhile.
unsafe impl Sync for Addresses {}

impl Addresses {
    pub(crate) fn get(&self) -> &[*mut u8] {
        &self.0
    }
}

/// The geometry of a walk, without the operands.
#[derive(Clone)]
pub(crate) struct LoopGeometry {
    pub(crate) shape: Dims,
    /// The strides of all operands along dimension 0, then along dimension 1, and so on; at least
    /// two dimensions.
    strides: SmallVec<[i64; 8]>,
    count: usize,
}

impl LoopGeometry {
    pub(crate) fn of(iter: &TensorIterator) -> Self {
        let count = iter.operands.len();
        let mut strides: SmallVec<[i64; 8]> = smallvec![0; iter.shape.len().max(2) * count];
        for (i, operand) in iter.operands.iter().enumerate() {
            if operand.inline.is_some() {
                continue;
            }
            for (dim, &stride) in operand.strides.iter().enumerate() {
                strides[dim * count + i] = stride;
            }
        }
        Self { shape: iter.shape.clone(), strides, count }
    }

    /// The strides of all operands along `dim`.
    pub(crate) fn along(&self, dim: usize) -> &[i64] {
        &self.strides[dim * self.count..(dim + 1) * self.count]
    }

    /// Runs a loop over the steps in `range`, starting from these addresses.
    pub(crate) fn run(
        &self,
        base: &[*mut u8],
        range: Range<i64>,
        body: &mut LoopMut<'_>,
    ) -> Result<()> {
        let block = &self.strides[..2 * self.count];
        if self.shape.len() <= 1 {
            let mut pointers: Pointers = base.into();
            advance(&mut pointers, block, range.start);
            return body(&pointers, block, range.end - range.start, 1);
        }
        let mut position = position(&self.shape, range.start);
        let mut pointers: Pointers = base.into();
        let mut done = range.start;
        while done < range.end {
            pointers.copy_from_slice(base);
            for (dim, &index) in position.iter().enumerate() {
                if index != 0 {
                    advance(&mut pointers, self.along(dim), index);
                }
            }
            let (n0, n1) = self.step(&position, range.end - done);
            body(&pointers, block, n0, n1)?;
            done += n0 * n1;
            self.increment(&mut position, n0, n1);
        }
        Ok(())
    }

    /// The largest block that starts here: part of a row, or whole rows.
    fn step(&self, position: &[i64], remaining: i64) -> (i64, i64) {
        let n0 = (self.shape[0] - position[0]).min(remaining);
        let whole_row = n0 == self.shape[0];
        let n1 = if whole_row {
            (self.shape[1] - position[1]).min(remaining / self.shape[0])
        } else {
            1
        };
        (n0, n1)
    }

    fn increment(&self, position: &mut [i64], n0: i64, n1: i64) {
        // Whole rows leave the first index at 0 and move the second; a part moves the first.
        let (mut carry, first) = if n0 == self.shape[0] { (n1, 1) } else { (n0, 0) };
        for (index, &size) in position.iter_mut().zip(&self.shape).skip(first) {
            if carry == 0 {
                return;
            }
            let next = *index + carry;
            (*index, carry) = if next >= size { (next - size, 1) } else { (next, 0) };
        }
    }
}

/// The index of element number `step` along each dimension, fastest first.
pub(crate) fn position(shape: &[i64], step: i64) -> Dims {
    let mut rest = step;
    let index = |&size: &i64| {
        let index = rest % size;
        rest /= size;
        index
    };
    shape.iter().map(index).collect()
}

/// Moves every address by `steps` strides.
pub(crate) fn advance(pointers: &mut [*mut u8], strides: &[i64], steps: i64) {
    for (pointer, &stride) in pointers.iter_mut().zip(strides) {
        *pointer = pointer.wrapping_offset((stride * steps) as isize);
    }
}

//! Running reductions: loops that fold an input into outputs with stride 0.

use super::loops::{Addresses, LoopGeometry, advance, position};
use super::types::{allocate, copy_dense};
use super::{Hold, LoopOutcome, Pointers, TensorIterator};
use crate::Tensor;
use crate::parallel::{self, GRAIN};
use corten_core::{Access, AccessSet, Dims, Result};
use smallvec::smallvec;

/// The elements that are folded into one element of the output.
///
/// Addresses are those of the first of them; the others lie at these sizes and strides.
///
/// ```
/// use corten::ops::iter::ReducedSlice;
/// use corten::ops::meta::Reduce;
/// use std::sync::atomic::{AtomicI64, Ordering};
/// use corten::prelude::*;
///
/// # fn main() -> Result<()> {
/// let x = Tensor::ones([4, 3])?;
/// let reduce = Reduce::over(&x, Some(&[1]), false)?;
/// let mut iter = reduce.plan(&[(None, DType::Float32)])?;
/// let folded = AtomicI64::new(0);
/// let fold = |_: &[*mut u8], slice: &ReducedSlice<'_>| {
///     folded.fetch_add(slice.numel(), Ordering::Relaxed);
/// };
/// iter.for_each_reduced(fold)?;
/// assert_eq!(folded.into_inner(), 12);
/// # Ok(())
/// # }
/// ```
pub struct ReducedSlice<'a> {
    shape: &'a [i64],
    strides: &'a [i64],
}

impl ReducedSlice<'_> {
    /// How many elements are folded.
    pub fn numel(&self) -> i64 {
        self.shape.iter().product()
    }

    /// The sizes of the reduced dimensions, fastest first.
    pub fn shape(&self) -> &[i64] {
        self.shape
    }

    /// The strides of the first input along the reduced dimensions, in bytes.
    pub fn strides(&self) -> &[i64] {
        self.strides
    }

    /// Calls `run` with each row of the slice: address, stride in bytes, length.
    ///
    /// # Errors
    /// The callee's own.
    pub fn rows<R: LoopOutcome>(
        &self,
        first: *mut u8,
        mut run: impl FnMut(*mut u8, i64, i64) -> R,
    ) -> Result<()> {
        let (Some(&length), Some(&stride)) = (self.shape.first(), self.strides.first()) else {
            return run(first, 0, 1).into_result();
        };
        let (outer_shape, outer_strides) = (&self.shape[1..], &self.strides[1..]);
        let mut position: Dims = smallvec![0; outer_shape.len()];
        for _ in 0..outer_shape.iter().product() {
            let offset: i64 = position.iter().zip(outer_strides).map(|(&i, &s)| i * s).sum();
            run(first.wrapping_offset(offset as isize), stride, length).into_result()?;
            increment(&mut position, outer_shape);
        }
        Ok(())
    }
}

impl TensorIterator {
    /// Calls `fold` once per element of the output with the addresses of the operands' first
    /// elements (outputs, then inputs) and the geometry of the slice of input 0 to be folded.
    /// Runs in parallel over the elements of the output.
    ///
    /// # Errors
    /// When access is refused, or the callee's own.
    pub fn for_each_reduced<R: LoopOutcome>(
        &mut self,
        fold: impl Fn(&[*mut u8], &ReducedSlice<'_>) -> R + Sync,
    ) -> Result<()> {
        let reduced = self.num_reduce_dims();
        let walk = LoopGeometry::of(self);
        let (folded, kept) = walk.shape.split_at(reduced);
        let count: i64 = kept.iter().product();
        if count == 0 {
            return Ok(());
        }
        let strides = &self.operands[self.outputs].strides[..reduced];
        let slice = ReducedSlice { shape: folded, strides: &Dims::from(strides) };
        let pointers = Addresses(self.pointers()?);
        let grain = (GRAIN / slice.numel().max(1)).max(1);
        parallel::parallel_for(0..count, grain, |range| {
            let mut position = position(kept, range.start);
            for _ in range {
                let mut own: Pointers = pointers.get().into();
                for (dim, &index) in position.iter().enumerate() {
                    advance(&mut own, walk.along(reduced + dim), index);
                }
                fold(&own, &slice).into_result()?;
                increment(&mut position, kept);
            }
            Ok(())
        })
    }

    /// Runs a loop that accumulates into outputs with stride 0, in parallel where it pays: over
    /// a dimension that is kept, or, for a single result, over parts of the input with a copy of
    /// the output each, folded by the same loop at the end. The output must hold the identity.
    ///
    /// # Errors
    /// When access is refused, or the body's own.
    pub fn parallel_reduce(
        &mut self,
        body: impl Fn(&[*mut u8], &[i64], i64, i64) -> Result<()> + Sync,
    ) -> Result<()> {
        let serial =
            self.numel < GRAIN || parallel::num_threads() == 1 || parallel::in_parallel_region();
        let dim = self.dim_for_threads();
        if serial {
            self.serial_for_each(&body, 0..self.numel)
        } else if !self.is_dim_reduced(dim) {
            self.reduce_along(dim, &body)
        } else if self.has_one_result() && !matches!(self.hold, Hold::Parent) {
            self.reduce_in_two_passes(&body)
        } else {
            self.serial_for_each(&body, 0..self.numel)
        }
    }

    fn has_one_result(&self) -> bool {
        self.operands.len() == 2 && self.operands[0].tensor.numel() == 1
    }

    fn reduce_along(
        &mut self,
        dim: usize,
        body: &(impl Fn(&[*mut u8], &[i64], i64, i64) -> Result<()> + Sync),
    ) -> Result<()> {
        let pointers = Addresses(self.pointers()?);
        let size = self.shape[dim];
        let rest = (self.numel / size.max(1)).max(1);
        let whole = LoopGeometry::of(self);
        parallel::parallel_for(0..size, (GRAIN / rest).max(1), |range| {
            let mut walk = whole.clone();
            walk.shape[dim] = range.end - range.start;
            let mut own: Pointers = pointers.get().into();
            advance(&mut own, walk.along(dim), range.start);
            let steps = rest * walk.shape[dim];
            walk.run(&own, 0..steps, &mut |p, s, n0, n1| body(p, s, n0, n1))
        })
    }

    /// The largest dimension that is kept, or any when every dimension is reduced.
    fn dim_for_threads(&self) -> usize {
        let rank =
            (0..self.shape.len()).map(|dim| (!self.is_dim_reduced(dim), self.shape[dim], dim));
        rank.max_by_key(|&(kept, size, dim)| (kept, size, std::cmp::Reverse(dim)))
            .map_or(0, |r| r.2)
    }

    fn reduce_in_two_passes(
        &mut self,
        body: &(impl Fn(&[*mut u8], &[i64], i64, i64) -> Result<()> + Sync),
    ) -> Result<()> {
        // The copies are made by an operator, which takes access to the output by itself.
        self.hold = Hold::Free;
        let threads = parallel::num_threads() as i64;
        let chunks = threads.min(self.numel.saturating_add(GRAIN - 1) / GRAIN).max(1);
        let (partial, itemsize) = self.copies_of_output(chunks)?;
        let pointers = Addresses(self.pointers()?);
        let _hold = AccessSet::acquire(&[(partial.base(), Access::Write)])?;
        let base = Addresses(smallvec![partial.data_ptr()]);
        let (numel, length) = (self.numel, self.numel.saturating_add(chunks - 1) / chunks);
        let walk = LoopGeometry::of(self);
        parallel::parallel_for(0..chunks, 1, |range| {
            for chunk in range {
                let mut own: Pointers = pointers.get().into();
                own[0] = base.get()[0].wrapping_offset((chunk * itemsize) as isize);
                let part = (chunk * length).min(numel)..((chunk + 1) * length).min(numel);
                if !part.is_empty() {
                    walk.run(&own, part, &mut |p, s, n0, n1| body(p, s, n0, n1))?;
                }
            }
            Ok(())
        })?;
        body(&[pointers.get()[0], base.get()[0]], &[0, itemsize, 0, 0], chunks, 1)
    }

    /// A tensor of `count` copies of the single output, and its item size.
    fn copies_of_output(&self, count: i64) -> Result<(Tensor, i64)> {
        let output = &self.operands[0].tensor;
        let copies = allocate(&[count], None, output.dtype(), output.device())?;
        let row: Tensor = output.as_view_of(&[count], &[0], output.storage_offset())?.into();
        copy_dense(&copies, &row)?;
        Ok((copies, output.itemsize() as i64))
    }
}

/// Moves to the next element.
fn increment(position: &mut [i64], shape: &[i64]) {
    for (index, &size) in position.iter_mut().zip(shape) {
        *index += 1;
        if *index < size {
            return;
        }
        *index = 0;
    }
}

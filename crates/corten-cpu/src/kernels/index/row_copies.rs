//! Walks by index over dense tensors, on several threads. Writes to one place are always made by
//! one thread, in the order of the index.

use crate::parallel::chunks::{
    ColumnBlock, for_each_chunk, for_each_column_block, for_each_run, grain_of,
};
use crate::rows::loops::compiled;
use crate::vec::prefetch_early;
use corten_core::{Error, Result, err};
use corten_ops::Tensor;
use corten_ops::parallel::{GRAIN, num_threads, parallel_for};
use std::sync::atomic::{AtomicBool, Ordering};

/// Elements of a slice that cost more than to look at indices of slices of other threads.
const LEAST_SHARED: usize = 16;

/// Picks ahead of the one at work whose slices are fetched into the cache, each up to
/// [`MOST_FETCHED`] bytes: picks are in no order that a processor could foresee.
pub(super) const AHEAD: usize = 8;
pub(super) const MOST_FETCHED: usize = 1024;

/// A tensor and an index as batches of matrices, of which the index picks rows.
#[derive(Clone, Copy)]
pub(super) struct RowSelection {
    batches: usize,
    /// Rows of the tensor.
    rows: usize,
    /// Rows of the index.
    picks: usize,
    cols: usize,
    /// The dimension of the index, if walks are to check it as they go.
    unchecked: Option<usize>,
}

impl RowSelection {
    /// `None` where the tensor is not contiguous, or has elements beside those that the index
    /// covers. The index is contiguous, and of the same rank.
    pub(super) fn of(tensor: &Tensor, dim: usize, index: &Tensor) -> Option<Self> {
        let (sizes, picked) = (tensor.sizes(), index.sizes());
        let fits = sizes.len() == picked.len()
            && (0..sizes.len()).all(|d| d == dim || sizes[d] == picked[d]);
        if fits { Self::of_slices(tensor, dim, picked[dim] as usize) } else { None }
    }

    /// The same for an index that picks whole slices along `dim`.
    pub(super) fn of_slices(tensor: &Tensor, dim: usize, picks: usize) -> Option<Self> {
        let sizes = tensor.sizes();
        let product = |sizes: &[i64]| sizes.iter().product::<i64>() as usize;
        tensor.is_contiguous().then(|| Self {
            batches: product(&sizes[..dim]),
            rows: sizes[dim] as usize,
            picks,
            cols: product(&sizes[dim + 1..]),
            unchecked: None,
        })
    }

    /// The same for an index along `dim` that nobody has checked, where a target that is left half
    /// written on an error is not seen: every line is checked while it is near.
    pub(super) fn unchecked(self, dim: usize) -> Self {
        Self { unchecked: Some(dim), ..self }
    }

    /// A part of the index.
    fn part<'a>(&self, at: &'a [i64], start: usize, len: usize) -> Result<&'a [i64]> {
        let at = &at[start..][..len];
        if let Some(dim) = self.unchecked
            && some_outside(at, self.rows as i64)
        {
            return Err(outside(at, dim, self.rows as i64));
        }
        Ok(at)
    }

    /// Fills `to`, of the index's shape, from the elements that the index names.
    ///
    /// # Errors
    /// `Runtime` for an index out of bounds that has not been checked.
    pub(super) fn gather<T: Copy + Send + Sync>(
        &self,
        from: &[T],
        at: &[i64],
        to: &mut [T],
    ) -> Result<()> {
        let Self { rows, picks, cols, .. } = *self;
        if cols == 1 {
            return for_each_chunk(to, picks, grain_of(picks), |batch, to| {
                let from = &from[batch * rows..][..rows];
                let at = self.part(at, batch * picks, picks)?;
                to.iter_mut().zip(at).for_each(|(to, &picked)| *to = from[picked as usize]);
                Ok(())
            });
        }
        for_each_chunk(to, cols, grain_of(cols), |line, to| {
            let from = &from[line / picks * rows * cols..][..rows * cols];
            let at = self.part(at, line * cols, cols)?;
            for (column, (to, &picked)) in to.iter_mut().zip(at).enumerate() {
                *to = from[picked as usize * cols + column];
            }
            Ok(())
        })
    }

    /// Combines the elements of `from`, of the index's shape or one for all, into those of `to`
    /// that the index names, each in the order of the index.
    ///
    /// # Errors
    /// `Runtime` for an index out of bounds that has not been checked.
    pub(super) fn scatter<T: Copy + Send + Sync>(
        &self,
        from: &[T],
        at: &[i64],
        to: &mut [T],
        combine: impl Fn(&mut T, T) + Sync,
    ) -> Result<()> {
        let Self { batches, rows, picks, cols, .. } = *self;
        let single = if let [value] = from { Some(*value) } else { None };
        if cols == 1 {
            return for_each_chunk(to, rows, grain_of(picks), |batch, to| {
                let line = batch * picks;
                let at = self.part(at, line, picks)?;
                match single {
                    Some(value) => {
                        at.iter().for_each(|&picked| combine(&mut to[picked as usize], value));
                    }
                    None => at.iter().zip(&from[line..][..picks]).for_each(|(&picked, &value)| {
                        combine(&mut to[picked as usize], value);
                    }),
                }
                Ok(())
            });
        }
        let width = columns_per_thread(cols);
        let grain = grain_of(picks * width);
        let scatter =
            |batch: usize, columns: std::ops::Range<usize>, to: &mut ColumnBlock<'_, T>| {
                for row in batch * picks..(batch + 1) * picks {
                    let line = row * cols + columns.start;
                    for (i, &picked) in self.part(at, line, columns.len())?.iter().enumerate() {
                        let value = single.unwrap_or_else(|| from[line + i]);
                        combine(&mut to.row(picked as usize)[i], value);
                    }
                }
                Ok(())
            };
        for_each_column_block(to, [batches, rows, cols], width, grain, scatter)
    }

    /// Whether slices are long enough for [`combine_slices`](Self::combine_slices).
    pub(super) fn are_long(&self) -> bool {
        self.cols >= LEAST_SHARED
    }

    /// Combines slices of `from` with those of `to` that the index names. Threads write to different
    /// ones: each looks at every index and takes its own, so that a slice is written in the order of the
    /// index.
    pub(super) fn combine_slices<T: Copy + Send + Sync>(
        &self,
        from: &[T],
        at: &[i64],
        to: &mut [T],
        combine: impl Fn(&mut T, T) + Sync,
    ) -> Result<()> {
        let Self { batches, rows, picks, cols, .. } = *self;
        let threads = if batches * picks * cols > GRAIN as usize { num_threads() } else { 1 };
        let grain = (batches * rows).div_ceil(threads);
        let fetched = (cols * size_of::<T>()).min(MOST_FETCHED);
        for_each_run(to, cols, grain, |lines, to| {
            for batch in lines.start / rows..lines.end.div_ceil(rows) {
                let values = from[batch * picks * cols..].chunks_exact(cols);
                for (pick, (&row, values)) in at.iter().zip(values).enumerate() {
                    if let Some(&later) = at.get(pick + AHEAD) {
                        let line = batch * rows + later as usize;
                        if lines.contains(&line) {
                            let first = (line - lines.start) * cols;
                            prefetch_early(to[first..].as_ptr().cast(), fetched);
                        }
                    }
                    let line = batch * rows + row as usize;
                    if lines.contains(&line) {
                        let slots = &mut to[(line - lines.start) * cols..][..cols];
                        slots.iter_mut().zip(values).for_each(|(slot, &x)| combine(slot, x));
                    }
                }
            }
            Ok(())
        })
    }
}

/// Copies rows of `cols` elements that start at the given places in `from`.
pub(super) fn copy_rows<T: Copy>(
    from: &[T],
    to: &mut [T],
    cols: usize,
    starts: impl Iterator<Item = usize>,
) {
    if cols == 1 {
        return to.iter_mut().zip(starts).for_each(|(to, start)| *to = from[start]);
    }
    for (to, start) in to.chunks_exact_mut(cols).zip(starts) {
        to.copy_from_slice(&from[start..][..cols]);
    }
}

/// Columns of a block where each thread takes some columns of all rows: whole lines of the cache.
pub(super) fn columns_per_thread(cols: usize) -> usize {
    cols.div_ceil(num_threads()).next_multiple_of(16)
}

/// Checks all indices before any is used, so that an error leaves the target as it was.
///
/// # Errors
/// `Runtime` for an index along `dim` that is not within `0..size`.
pub(super) fn check_bounds(at: &[i64], dim: usize, size: i64) -> Result<()> {
    let any = AtomicBool::new(false);
    parallel_for(0..at.len() as i64, GRAIN, |range| {
        if some_outside(&at[range.start as usize..range.end as usize], size) {
            any.store(true, Ordering::Relaxed);
        }
        Ok(())
    })?;
    if any.into_inner() { Err(outside(at, dim, size)) } else { Ok(()) }
}

fn some_outside(at: &[i64], size: i64) -> bool {
    compiled(|| at.iter().fold(false, |any, &picked| any | (picked as u64 >= size as u64)))
}

/// The error for the first index that is not within `0..size`.
#[cold]
fn outside(at: &[i64], dim: usize, size: i64) -> Error {
    let first =
        at.iter().find(|&&picked| picked as u64 >= size as u64).copied().unwrap_or_default();
    err!(Runtime, "index {first} is out of bounds for dimension {dim} with size {size}")
}

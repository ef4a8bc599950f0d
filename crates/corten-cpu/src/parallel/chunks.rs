//! Slices cut into equal chunks that several threads fill at once.

use corten_core::Result;
use corten_ops::parallel::parallel_for;
use std::ops::Range;

/// Calls `body(i, chunk i)` for every chunk of `len` elements, in parallel where `grain` chunks are
/// worth a thread. What is left over at the end is not visited.
///
/// # Errors
/// The first error of `body`.
pub(crate) fn for_each_chunk<A: Send>(
    out: &mut [A],
    len: usize,
    grain: usize,
    body: impl Fn(usize, &mut [A]) -> Result<()> + Sync,
) -> Result<()> {
    let out = Chunks::new(out, len);
    over(out.count, grain, |range| {
        range.into_iter().try_for_each(|i| {
            // SAFETY: every index is visited once.
            body(i, unsafe { out.get(i) })
        })
    })
}

/// [`for_each_chunk`] for two slices cut into the same number of chunks.
///
/// # Errors
/// The first error of `body`.
pub(crate) fn for_each_chunk2<A: Send, B: Send>(
    first: (&mut [A], usize),
    second: (&mut [B], usize),
    grain: usize,
    body: impl Fn(usize, &mut [A], &mut [B]) -> Result<()> + Sync,
) -> Result<()> {
    let (first, second) = (Chunks::new(first.0, first.1), Chunks::new(second.0, second.1));
    over(first.count.min(second.count), grain, |range| {
        range.into_iter().try_for_each(|i| {
            // SAFETY: every index is visited once.
            body(i, unsafe { first.get(i) }, unsafe { second.get(i) })
        })
    })
}

/// [`for_each_chunk`] for three slices cut into the same number of chunks.
///
/// # Errors
/// The first error of `body`.
pub(crate) fn for_each_chunk3<A: Send, B: Send, C: Send>(
    first: (&mut [A], usize),
    second: (&mut [B], usize),
    third: (&mut [C], usize),
    grain: usize,
    body: impl Fn(usize, &mut [A], &mut [B], &mut [C]) -> Result<()> + Sync,
) -> Result<()> {
    let first = Chunks::new(first.0, first.1);
    let second = Chunks::new(second.0, second.1);
    let third = Chunks::new(third.0, third.1);
    over(first.count.min(second.count).min(third.count), grain, |range| {
        range.into_iter().try_for_each(|i| {
            // SAFETY: every index is visited once.
            body(i, unsafe { first.get(i) }, unsafe { second.get(i) }, unsafe { third.get(i) })
        })
    })
}

/// Calls `body` with a run of adjacent chunks per thread: `body(first chunk, elements)`.
///
/// # Errors
/// The first error of `body`.
pub(crate) fn for_each_run<A: Send>(
    out: &mut [A],
    len: usize,
    grain: usize,
    body: impl Fn(Range<usize>, &mut [A]) -> Result<()> + Sync,
) -> Result<()> {
    let out = Chunks::new(out, len);
    over(out.count, grain, |range| {
        // SAFETY: the ranges of different calls do not overlap.
        let run = unsafe { out.run(range.clone()) };
        body(range, run)
    })
}

/// Calls `body(batch, columns, block)` for every block of `width` columns of every matrix of a
/// contiguous batch of shape `[batches, rows, cols]`.
///
/// # Errors
/// The first error of `body`.
pub(crate) fn for_each_column_block<A: Send>(
    out: &mut [A],
    [batches, rows, cols]: [usize; 3],
    width: usize,
    grain: usize,
    body: impl Fn(usize, Range<usize>, &mut ColumnBlock<'_, A>) -> Result<()> + Sync,
) -> Result<()> {
    assert!(out.len() >= batches * rows * cols);
    let blocks = cols.div_ceil(width);
    let out = Chunks::new(out, 1);
    over(batches * blocks, grain, |range| {
        range.into_iter().try_for_each(|i| {
            let start = (i % blocks) * width;
            let columns = start..(start + width).min(cols);
            let first = i / blocks * rows * cols;
            let block = &mut ColumnBlock { out: &out, first, rows, cols, columns: columns.clone() };
            body(i / blocks, columns, block)
        })
    })
}

/// Calls `body(columns, blocks)` for every block of `width` columns of some matrices, whose rows are
/// runs of `cols` elements: a block has its columns of every run.
///
/// # Errors
/// The first error of `body`.
pub(crate) fn for_each_block_of_runs<A: Send, const N: usize>(
    matrices: [&mut [A]; N],
    [rows, cols]: [usize; 2],
    width: usize,
    grain: usize,
    body: impl Fn(Range<usize>, [RunsBlock<'_, A>; N]) -> Result<()> + Sync,
) -> Result<()> {
    let matrices = matrices.map(|matrix| Chunks::new(matrix, 1));
    over(cols.div_ceil(width), grain, |range| {
        range.into_iter().try_for_each(|i| {
            let columns = i * width..((i + 1) * width).min(cols);
            let block = |out| RunsBlock::of(out, [rows, cols], columns.clone());
            body(columns.clone(), matrices.each_ref().map(block))
        })
    })
}

/// Some columns of every run of a matrix, which one thread fills.
pub(crate) struct RunsBlock<'a, A> {
    out: &'a Chunks<A>,
    rows: usize,
    cols: usize,
    /// The runs of a row.
    runs: usize,
    columns: Range<usize>,
}

impl<'a, A> RunsBlock<'a, A> {
    fn of(out: &'a Chunks<A>, [rows, cols]: [usize; 2], columns: Range<usize>) -> Self {
        let runs = out.count.checked_div(rows * cols).unwrap_or(0);
        Self { out, rows, cols, runs, columns }
    }

    /// How many runs a row has; none if there is no matrix.
    pub(crate) fn runs(&self) -> usize {
        self.runs
    }

    /// The block's part of a run of a row.
    #[inline(always)]
    pub(crate) fn part(&mut self, row: usize, run: usize) -> &mut [A] {
        assert!(run < self.runs);
        // SAFETY: the borrow of the block keeps a second part from living at the same time.
        unsafe { self.taken(row, run) }
    }

    /// The block's parts of the first runs of a row; empty ones where there are fewer.
    #[inline(always)]
    pub(crate) fn parts<const N: usize>(&mut self, row: usize) -> [&mut [A]; N] {
        std::array::from_fn(|run| match run < self.runs {
            // SAFETY: runs do not meet, and the borrow of the block keeps other parts from living at
            // the same time.
            true => unsafe { self.taken(row, run) },
            false => Default::default(),
        })
    }

    /// # Safety
    /// The run must be one of the row, and no other part of it may live at the same time.
    #[allow(clippy::mut_from_ref)]
    #[inline(always)]
    unsafe fn taken(&self, row: usize, run: usize) -> &mut [A] {
        assert!(row < self.rows);
        let start = (row * self.runs + run) * self.cols;
        // SAFETY: the columns belong to this block only; the caller owes the rest.
        unsafe { self.out.run(start + self.columns.start..start + self.columns.end) }
    }
}

/// Calls `body(batch, rows, first, second)` for every block of `height` rows of every matrix of two
/// contiguous batches that have the same number of rows, but rows of different length.
///
/// # Errors
/// The first error of `body`.
pub(crate) fn for_each_row_block2<A: Send, B: Send>(
    first: (&mut [A], usize),
    second: (&mut [B], usize),
    [batches, rows, height]: [usize; 3],
    grain: usize,
    body: impl Fn(usize, Range<usize>, &mut [A], &mut [B]) -> Result<()> + Sync,
) -> Result<()> {
    let (first, second) = (Chunks::new(first.0, first.1), Chunks::new(second.0, second.1));
    let blocks = rows.div_ceil(height);
    over(batches * blocks, grain, |range| {
        range.into_iter().try_for_each(|i| {
            let start = (i % blocks) * height;
            let block = start..(start + height).min(rows);
            let offset = i / blocks * rows;
            let run = block.start + offset..block.end + offset;
            // SAFETY: every block is visited once.
            let (a, b) = unsafe { (first.run(run.clone()), second.run(run)) };
            body(i / blocks, block, a, b)
        })
    })
}

/// Some columns of a matrix that one thread fills.
pub(crate) struct ColumnBlock<'a, A> {
    out: &'a Chunks<A>,
    first: usize,
    rows: usize,
    cols: usize,
    columns: Range<usize>,
}

impl<A> ColumnBlock<'_, A> {
    /// The block's part of a row.
    pub(crate) fn row(&mut self, row: usize) -> &mut [A] {
        assert!(row < self.rows);
        let start = self.first + row * self.cols;
        // SAFETY: the columns belong to this block only, and the borrow of the block keeps a second
        // row from living at the same time.
        unsafe { self.out.run(start + self.columns.start..start + self.columns.end) }
    }
}

/// The grain for chunks of which each costs about `work` elements.
pub(crate) fn grain_of(work: usize) -> usize {
    (corten_ops::parallel::GRAIN as usize).div_ceil(work.max(1))
}

fn over(
    count: usize,
    grain: usize,
    body: impl Fn(Range<usize>) -> Result<()> + Sync,
) -> Result<()> {
    parallel_for(0..count as i64, grain.max(1) as i64, |range| {
        body(range.start as usize..range.end as usize)
    })
}

/// A slice in equal chunks, shared between threads that take different ones.
struct Chunks<A> {
    data: *mut A,
    len: usize,
    count: usize,
}

// SAFETY: chunks are handed out under the contract of `get`, each to one thread at a time.
unsafe impl<A: Send> Sync for Chunks<A> {}

impl<A> Chunks<A> {
    fn new(slice: &mut [A], len: usize) -> Self {
        let count = slice.len().checked_div(len).unwrap_or(0);
        Self { data: slice.as_mut_ptr(), len, count }
    }

    /// # Safety
    /// The caller owes that the slice outlives the result and no chunk is taken twice.
    #[allow(clippy::mut_from_ref)]
    unsafe fn get(&self, index: usize) -> &mut [A] {
        // SAFETY: handed on to the caller.
        unsafe { self.run(index..index + 1) }
    }

    /// # Safety
    /// As for `get`, for every chunk of the range.
    #[allow(clippy::mut_from_ref)]
    #[inline(always)]
    unsafe fn run(&self, range: Range<usize>) -> &mut [A] {
        assert!(range.start <= range.end && range.end <= self.count);
        // SAFETY: the chunks lie within the slice; the caller owes that nobody else has them.
        unsafe {
            std::slice::from_raw_parts_mut(
                self.data.add(range.start * self.len),
                range.len() * self.len,
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_chunk_is_visited_once() {
        let mut out = vec![0usize; 10];
        for_each_chunk(&mut out, 3, 1, |i, chunk| {
            chunk.iter_mut().for_each(|value| *value += i + 1);
            Ok(())
        })
        .unwrap();
        assert_eq!(out, [1, 1, 1, 2, 2, 2, 3, 3, 3, 0]);
        let mut sums = vec![0usize; 3];
        for_each_chunk2((&mut out, 3), (&mut sums, 1), 1, |_, chunk, sum| {
            sum[0] = chunk.iter().sum();
            Ok(())
        })
        .unwrap();
        assert_eq!(sums, [3, 6, 9]);
        for_each_chunk(&mut sums, 0, 1, |_, _| Ok(())).unwrap();
    }

    #[test]
    fn blocks_of_runs_have_their_columns_of_every_run() {
        let (mut one, mut two) = (vec![0usize; 2 * 5], vec![0usize; 2 * 3 * 5]);
        let matrices: [&mut [usize]; 3] = [&mut one, &mut two, &mut []];
        for_each_block_of_runs(matrices, [2, 5], 2, 1, |columns, mut blocks| {
            assert_eq!(blocks.each_ref().map(|block| block.runs()), [1, 3, 0]);
            let lengths = blocks.each_mut().map(|block| block.parts::<3>(1).map(|part| part.len()));
            let len = columns.len();
            assert_eq!(lengths, [[len, 0, 0], [len; 3], [0; 3]]);
            for (row, run) in [(0, 0), (1, 0), (0, 2), (1, 1)] {
                let index = usize::from(run > 0);
                let part = blocks[index].part(row, run);
                let values = columns.clone().map(|column| 100 * row + 10 * run + column);
                part.iter_mut().zip(values).for_each(|(to, value)| *to = value);
            }
            Ok(())
        })
        .unwrap();
        assert_eq!(one, [0, 1, 2, 3, 4, 100, 101, 102, 103, 104]);
        assert_eq!(two[10..15], [20, 21, 22, 23, 24]);
        assert_eq!(two[20..25], [110, 111, 112, 113, 114]);
        assert_eq!(two.iter().filter(|&&value| value > 0).count(), 10);
    }
}

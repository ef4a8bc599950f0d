//! Splitting a range over threads. The pool belongs to the CPU crate, which installs itself here;
//! until then everything runs on the calling thread.

use corten_core::{LeadingRows, Result};
use std::ops::Range;
use std::sync::OnceLock;

/// Below this many elements a second thread costs more than it saves.
pub const GRAIN: i64 = 32_768;

/// Work on one part of a range.
pub type Body<'a> = dyn Fn(Range<i64>) -> Result<()> + Sync + 'a;

/// What a thread pool offers.
///
/// ```
/// use corten::ops::parallel;
/// use std::sync::atomic::{AtomicI64, Ordering};
///
/// let sum = AtomicI64::new(0);
/// parallel::parallel_for(0..100_000, parallel::GRAIN, |range| {
///     sum.fetch_add(range.sum(), Ordering::Relaxed);
///     Ok(())
/// })?;
/// assert_eq!(sum.into_inner(), 4_999_950_000);
/// # Ok::<(), corten::Error>(())
/// ```
pub struct Pool {
    /// Runs the body over disjoint parts of the range, each at least `grain` long, and returns the
    /// first error. The calling thread takes part.
    pub run: fn(Range<i64>, i64, &Body<'_>) -> Result<()>,
    /// The number of threads a range is split over at most.
    pub num_threads: fn() -> usize,
    /// Changes that number; 0 is refused by the caller.
    pub set_num_threads: fn(usize),
    /// Whether the calling thread already runs inside a parallel region.
    pub in_parallel_region: fn() -> bool,
}

static POOL: OnceLock<Pool> = OnceLock::new();

/// Installs the thread pool. Only the first call has an effect.
pub fn install(pool: Pool) {
    // A second installation means that two CPU crates are linked; the first one serves both.
    let _ = POOL.set(pool);
}

/// Runs `body` over parts of `range`, in parallel where it is longer than `grain`.
///
/// # Errors
/// The first error of any part.
pub fn parallel_for(
    range: Range<i64>,
    grain: i64,
    body: impl Fn(Range<i64>) -> Result<()> + Sync,
) -> Result<()> {
    if range.is_empty() {
        return Ok(());
    }
    match POOL.get() {
        Some(pool) if range.end - range.start > grain.max(1) => (pool.run)(range, grain, &body),
        _ => body(range),
    }
}

/// Runs `body` over the rows of an accessor, the tensors of its leading index, in parallel where there are more
/// than `grain` of them. The body gets the index, and the row to write to.
///
/// ```
/// use corten_core::TensorAccessorMut;
/// use corten_ops::{Tensor, parallel};
///
/// # fn main() -> corten_core::Result<()> {
/// let table = Tensor::from_vec(vec![0i64; 12], &[4, 3])?;
/// let mut accessor = TensorAccessorMut::<i64, 2>::new(&table)?;
/// parallel::for_each_row(accessor.packed_mut(), 1, |index, mut row| {
///     row.fill(index as i64);
///     Ok(())
/// })?;
/// drop(accessor);
/// assert_eq!(table.to_vec::<i64>()?, [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3]);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// The first error of any row.
pub fn for_each_row<A: LeadingRows + Sync>(
    accessor: A,
    grain: i64,
    body: impl Fn(usize, A::Row) -> Result<()> + Sync,
) -> Result<()> {
    parallel_for(0..accessor.row_count() as i64, grain, |rows| {
        for index in rows.start as usize..rows.end as usize {
            // SAFETY: the parts of the range are disjoint and within it, so that every index comes
            // once; the accessor was moved here, and nobody else uses it.
            body(index, unsafe { accessor.row_alone(index) })?;
        }
        Ok(())
    })
}

/// The number of threads that a range is split over at most.
pub fn num_threads() -> usize {
    POOL.get().map_or(1, |pool| (pool.num_threads)())
}

/// Sets the number of threads; takes effect for the next range.
pub fn set_num_threads(threads: usize) {
    if let Some(pool) = POOL.get() {
        (pool.set_num_threads)(threads.max(1));
    }
}

/// Whether the calling thread runs inside a parallel region, where ranges are not split again.
pub fn in_parallel_region() -> bool {
    POOL.get().is_some_and(|pool| (pool.in_parallel_region)())
}

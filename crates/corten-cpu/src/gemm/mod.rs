//! Products of matrices: `c = beta * c + alpha * a @ b` for every dtype that PyTorch multiplies.
//!
//! The safe front of the engines: it checks shapes, cuts work over threads and hands the parts to
//! [`MatElement::product`].

mod engine;
mod matrix;

pub(crate) use engine::MatElement;
use matrix::MatricesMut;
pub(crate) use matrix::{Batch, BatchMut, Heads, Mat, MatMut};

use corten_core::{Result, Scalar, ensure};
use corten_gemm::{Columns, Way};
use corten_ops::parallel::{in_parallel_region, num_threads, parallel_for};
use std::ops::Range;

/// Below this many multiplications a second thread costs more than it saves.
const PARALLEL_WORK: usize = 200_000;

/// From this many multiplications on there are two parts per thread, so that a thread that is slowed
/// down does less of them.
const BALANCED_WORK: usize = 32_000_000;

/// Parts are cut at multiples of this many rows or columns, so that tiles stay whole.
const PART_ALIGNMENT: usize = 16;

/// The factors of `c = beta * c + alpha * a @ b`. A `beta` of zero ignores what `c` holds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Factors {
    /// The factor of the product.
    pub alpha: Scalar,
    /// The factor of what is there.
    pub beta: Scalar,
}

impl Factors {
    /// The plain product.
    pub(crate) const PRODUCT: Self = Self { alpha: Scalar::Int(1), beta: Scalar::Int(0) };
    /// The product added to what is there.
    pub(crate) const ADD: Self = Self { alpha: Scalar::Int(1), beta: Scalar::Int(1) };
}

/// `c = beta * c + alpha * a @ b`, on several threads where it pays.
///
/// # Errors
/// `Runtime` when the shapes do not fit.
pub(crate) fn gemm<T: MatElement>(
    c: MatMut<'_, T>,
    a: Mat<'_, T>,
    b: Mat<'_, T>,
    factors: Factors,
) -> Result<()> {
    check_shapes([c.rows, c.cols], a.shape(), b.shape())?;
    let (m, n, k) = (c.rows, c.cols, a.cols);
    // Chosen for the whole, so that results do not depend on the number of threads.
    let way = Way::of(a.view(), b.view());
    let threads = num_threads();
    if threads < 2 || m * n * k < PARALLEL_WORK || in_parallel_region() {
        serial(c, a, b, factors, way);
        return Ok(());
    }
    let by_rows = m >= n;
    let length = m.max(n);
    let parts = if m * n * k < BALANCED_WORK { threads } else { 2 * threads };
    let part = length.div_ceil(parts).next_multiple_of(PART_ALIGNMENT);
    parallel_for(0..length.div_ceil(part) as i64, 1, |parts| {
        for index in parts {
            let start = index as usize * part;
            let range = start..(start + part).min(length);
            let (rows, cols) = if by_rows { (range, 0..n) } else { (0..m, range) };
            // SAFETY: the parts of different indices share no rows or no columns.
            let c = unsafe { c.part(rows.clone(), cols.clone()) };
            serial(c, a.rows(rows), b.cols(cols), factors, way);
        }
        Ok(())
    })
}

/// `c = a @ b`, and a value per row if there are any, on this thread.
///
/// # Errors
/// `Runtime` when the shapes do not fit.
pub(crate) fn gemm_with_bias<T: MatElement>(
    mut c: MatMut<'_, T>,
    a: Mat<'_, T>,
    b: Mat<'_, T>,
    bias: Option<&[T]>,
) -> Result<()> {
    check_shapes([c.rows, c.cols], a.shape(), b.shape())?;
    if c.rows == 0 || c.cols == 0 {
        return Ok(());
    }
    if a.cols == 0 {
        let value = |row: usize| bias.map_or(T::default(), |bias| bias[row]);
        (0..c.rows).for_each(|row| c.fill_row(row, value(row)));
        return Ok(());
    }
    T::product_with_bias(c, a, b, bias);
    Ok(())
}

/// [`gemm_with_bias`] with a second factor that is made as it is needed, of any depth and at least
/// as many columns as the result.
///
/// # Errors
/// `Runtime` when the shapes do not fit.
pub(crate) fn gemm_with_columns<T: MatElement>(
    c: MatMut<'_, T>,
    a: Mat<'_, T>,
    b: &dyn Columns<T>,
    bias: Option<&[T]>,
) -> Result<()> {
    check_shapes([c.rows, c.cols], a.shape(), [a.cols, c.cols])?;
    if c.rows > 0 && c.cols > 0 && a.cols > 0 {
        T::product_with_columns(c, a, b, bias);
    }
    Ok(())
}

/// [`gemm`] for every matrix of a batch; a batch of one is used for all of them.
///
/// # Errors
/// `Runtime` when the shapes do not fit.
pub(crate) fn batched<T: MatElement>(
    c: BatchMut<'_, T>,
    a: &Batch<'_, T>,
    b: &Batch<'_, T>,
    factors: Factors,
) -> Result<()> {
    let count = c.len();
    if count == 0 {
        return Ok(());
    }
    check_shapes(c.shape(), a.get(0).shape(), b.get(0).shape())?;
    if count == 1 {
        return gemm(c.into_first(), a.get(0), b.get(0), factors);
    }
    let [m, n] = c.shape();
    let way = Way::of(a.get(0).view(), b.get(0).view());
    let work = (m * n * a.get(0).cols).max(1);
    let grain = PARALLEL_WORK.div_ceil(work) as i64;
    let each = |range: Range<i64>| {
        for index in range {
            let index = index as usize;
            // SAFETY: every index is visited once.
            serial(unsafe { c.get(index) }, a.get(index), b.get(index), factors, way);
        }
        Ok(())
    };
    parallel_for(0..count as i64, grain, each)
}

/// Calls `body(matrix, columns, block)` for every block of `width` columns of every matrix of a
/// slice that holds `count` matrices of a shape, one after the other, in parallel where `grain`
/// blocks are worth a thread.
///
/// # Errors
/// The first error of `body`; `Internal` when the slice is too short or the matrices overlap.
pub(crate) fn for_each_block<T: Send>(
    data: &mut [T],
    count: usize,
    shape: [usize; 2],
    strides: [usize; 2],
    width: usize,
    grain: usize,
    body: impl Fn(usize, Range<usize>, MatMut<'_, T>) -> Result<()> + Sync,
) -> Result<()> {
    let [rows, cols] = shape;
    let matrices = MatricesMut::new(data, count, shape, strides)?;
    let blocks = cols.div_ceil(width.max(1));
    parallel_for(0..(count * blocks) as i64, grain.max(1) as i64, |range| {
        range.into_iter().try_for_each(|i| {
            let (matrix, block) = (i as usize / blocks, i as usize % blocks);
            let columns = block * width..((block + 1) * width).min(cols);
            // SAFETY: every block is visited once, and blocks share no element.
            let part = unsafe { matrices.get(matrix).part(0..rows, columns.clone()) };
            body(matrix, columns, part)
        })
    })
}

/// Shapes are known to fit.
fn serial<T: MatElement>(
    mut c: MatMut<'_, T>,
    a: Mat<'_, T>,
    b: Mat<'_, T>,
    factors: Factors,
    way: Way,
) {
    if c.rows == 0 || c.cols == 0 {
        return;
    }
    if a.cols == 0 {
        T::rescale(c.reborrow(), factors.beta);
        return;
    }
    T::product(way, c, a, b, factors);
}

fn check_shapes(c: [usize; 2], a: [usize; 2], b: [usize; 2]) -> Result<()> {
    ensure!(
        a[1] == b[0] && c == [a[0], b[1]],
        Runtime,
        "mat1 and mat2 shapes cannot be multiplied ({}x{} and {}x{})",
        a[0],
        a[1],
        b[0],
        b[1]
    );
    Ok(())
}

#[cfg(test)]
mod tests;

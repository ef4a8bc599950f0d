//! Products of matrices: `c = beta * c + alpha * a @ b` for every dtype that PyTorch multiplies.
//!
//! The safe front of the engines: it checks shapes, cuts work over threads and hands the parts to
//! [`MatElement::product`].

mod copy;
mod engine;
#[cfg(feature = "linalg")]
mod linalg_views;
mod matrix;
mod packed;

pub(crate) use corten_gemm::{L1_ALIAS_STRIDE, Plan};
pub(crate) use engine::{MatElement, instructions, instructions_in_use};
use matrix::MatricesMut;
pub(crate) use matrix::{Batch, BatchMut, Heads, Mat, MatMut, Pieces, SideBySide};
pub(crate) use packed::{Packable, PackedWeight};

use corten_core::{Result, Scalar, bug, ensure};
use corten_gemm::{Accumulate, ImplicitOperand, Int8};
use corten_ops::parallel::{in_parallel_region, num_threads, parallel_for};
use std::ops::Range;

/// The multiplications that a thread has to do at least: for fewer, another one costs more than it saves.
const LEAST_WORK: usize = 100_000;

/// Below this many multiplications a second thread costs more than it saves.
pub(crate) const PARALLEL_WORK: usize = 2 * LEAST_WORK;

/// There are two parts per thread where a part has so many multiplications, so that a thread that is
/// slowed down does less of them.
const BALANCED_WORK: usize = 8_000_000;

/// Multiplications that take as long as it does to bring an element of a factor into a tile's order.
const ORDERING: usize = 16;

/// Parts are cut at multiples of this many rows or columns, so that register blocks stay whole.
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
    // Chosen for the whole, so that results do not depend on the number of threads.
    let plan = Plan::of(a.view(), b.view());
    gemm_in(plan, c, a, b, factors)
}

/// [`gemm`] by a given plan, for a product that is part of a larger one.
///
/// # Errors
/// As for [`gemm`].
pub(crate) fn gemm_in<T: MatElement>(
    plan: Plan,
    c: MatMut<'_, T>,
    a: Mat<'_, T>,
    b: Mat<'_, T>,
    factors: Factors,
) -> Result<()> {
    check_shapes([c.rows, c.cols], a.shape(), b.shape())?;
    in_parts(&c, a.cols, PART_ALIGNMENT, |rows, cols, c| {
        serial(c, a.rows(rows), b.cols(cols), factors, plan);
    })
}

/// `c = a @ b` of bytes, on several threads where it pays.
///
/// # Errors
/// `Runtime` when the shapes do not fit.
pub(crate) fn gemm_of_bytes<A: Int8 + Sync, B: Int8 + Sync>(
    mut c: MatMut<'_, i32>,
    a: Mat<'_, A>,
    b: Mat<'_, B>,
) -> Result<()> {
    check_shapes([c.rows, c.cols], a.shape(), b.shape())?;
    if c.rows == 0 || c.cols == 0 {
        return Ok(());
    }
    if a.cols == 0 {
        c.update(|_, _, _| 0);
        return Ok(());
    }
    let plan = Plan::of(a.view(), b.view().cast());
    // Four steps of bytes take as long as one of others.
    in_parts(&c, a.cols.div_ceil(4), PART_ALIGNMENT, |rows, cols, c| {
        engine::multiply_bytes(plan, c, a.rows(rows), b.cols(cols));
    })
}

/// Calls `body(rows, columns, part)` for the parts of a product of so many steps, which are cut at
/// multiples of `alignment`, on several threads where it pays.
fn in_parts<T: Send>(
    c: &MatMut<'_, T>,
    depth: usize,
    alignment: usize,
    body: impl Fn(Range<usize>, Range<usize>, MatMut<'_, T>) + Sync,
) -> Result<()> {
    let (m, n) = (c.rows, c.cols);
    let work = m * n * depth;
    let threads = threads_for(work);
    if threads < 2 {
        // SAFETY: the only part.
        body(0..m, 0..n, unsafe { c.part(0..m, 0..n) });
        return Ok(());
    }
    let twice = work / (2 * threads) >= BALANCED_WORK;
    let [height, width] = part_of([m, n], threads, if twice { 2 } else { 1 }, alignment);
    let across = n.div_ceil(width);
    parallel_for(0..(m.div_ceil(height) * across) as i64, 1, |parts| {
        for index in parts {
            let (row, col) = (index as usize / across * height, index as usize % across * width);
            let (rows, cols) = (row..(row + height).min(m), col..(col + width).min(n));
            // SAFETY: the parts of different indices share no rows or no columns.
            let c = unsafe { c.part(rows.clone(), cols.clone()) };
            body(rows, cols, c);
        }
        Ok(())
    })
}

/// How many threads so many multiplications are worth.
pub(crate) fn threads_for(work: usize) -> usize {
    let threads = if in_parallel_region() { 1 } else { num_threads() };
    threads.min(work / LEAST_WORK).max(1)
}

/// The rows and columns of a part of a result, of which every thread gets so many at most: those that
/// take the least time, as every part has its rows of one factor and its columns of the other brought
/// into order.
fn part_of([m, n]: [usize; 2], threads: usize, each: usize, alignment: usize) -> [usize; 2] {
    let part = |down: usize| {
        let across = each * threads / down;
        [m.div_ceil(down), n.div_ceil(across)].map(|length| length.next_multiple_of(alignment))
    };
    let time = |&[height, width]: &[usize; 2]| {
        let parts = m.div_ceil(height) * n.div_ceil(width);
        let (height, width) = (height.min(m), width.min(n));
        parts.div_ceil(threads) * (height * width + ORDERING * (height + width))
    };
    // Of equals those with longer rows.
    let shapes = (1..=each * threads).map(part);
    shapes.min_by_key(|part| (time(part), part[0])).unwrap_or([m, n])
}

/// `c = base + a @ b`, on several threads where it pays; by the plan of the operands unless one is
/// given.
///
/// # Errors
/// `Runtime` when the shapes do not fit.
pub(crate) fn gemm_from<T: MatElement>(
    plan: Option<Plan>,
    mut c: MatMut<'_, T>,
    a: Mat<'_, T>,
    b: Mat<'_, T>,
    base: Base<'_, T>,
) -> Result<()> {
    check_shapes([c.rows, c.cols], a.shape(), b.shape())?;
    if c.rows == 0 || c.cols == 0 {
        return Ok(());
    }
    if a.cols == 0 {
        base.fill(&mut c);
        return Ok(());
    }
    let plan = plan.unwrap_or_else(|| Plan::of(a.view(), b.view()));
    if c.rows * c.cols * a.cols < PARALLEL_WORK {
        T::product_from(plan, c, a, b, base);
        return Ok(());
    }
    in_parts(&c, a.cols, PART_ALIGNMENT, |rows, cols, c| {
        let base = base.part(&rows, &cols);
        T::product_from(plan, c, a.rows(rows), b.cols(cols), base);
    })
}

/// A factor of a product: a matrix, or one that is made as it is needed, of any shape.
#[derive(Clone, Copy)]
pub(crate) enum Factor<'a, T> {
    Matrix(Mat<'a, T>),
    /// See [`corten_gemm::Operand::Implicit`].
    Made(&'a dyn ImplicitOperand<T>),
    /// A first factor in pieces.
    Pieces(Pieces<'a, T>),
}

/// What the sums of a product are added to.
#[derive(Clone, Copy)]
pub(crate) enum Base<'a, T> {
    Nothing,
    /// What the result holds.
    Result,
    /// A value per row, or per column.
    PerRow(&'a [T]),
    PerColumn(&'a [T]),
}

impl<'a, T: MatElement> Base<'a, T> {
    /// A value per row if there are any.
    pub(crate) fn rows(values: Option<&'a [T]>) -> Self {
        values.map_or(Self::Nothing, Self::PerRow)
    }

    /// That of some rows and columns of the result.
    fn part(self, rows: &Range<usize>, cols: &Range<usize>) -> Self {
        match self {
            Self::PerRow(values) => Self::PerRow(&values[rows.clone()]),
            Self::PerColumn(values) => Self::PerColumn(&values[cols.clone()]),
            other => other,
        }
    }

    /// The same for `corten-gemm`. There must be a value for every row, or column, of the result.
    fn start(self, [rows, cols]: [usize; 2], one: T) -> Accumulate<T> {
        match self {
            Self::Nothing => Accumulate::Overwrite,
            Self::Result => Accumulate::Beta(one),
            Self::PerRow(values) => {
                assert_eq!(values.len(), rows, "a value per row");
                Accumulate::RowBias(values.as_ptr())
            }
            Self::PerColumn(values) => {
                assert_eq!(values.len(), cols, "a value per column");
                Accumulate::ColumnBias(values.as_ptr())
            }
        }
    }

    /// Sets the result to it.
    fn fill(self, c: &mut MatMut<'_, T>) {
        match self {
            Self::Nothing => c.update(|_, _, _| T::default()),
            Self::Result => {}
            Self::PerRow(values) => c.update(|row, _, _| values[row]),
            Self::PerColumn(values) => c.update(|_, col, _| values[col]),
        }
    }
}

/// `c = base + a @ b` over so many steps, on this thread.
///
/// # Errors
/// `Runtime` when the shapes do not fit.
pub(crate) fn gemm_of_factors<T: MatElement>(
    c: SideBySide<'_, T>,
    depth: usize,
    [a, b]: [Factor<'_, T>; 2],
    base: Base<'_, T>,
) -> Result<()> {
    let [rows, cols] = c.shape();
    let shape_of = |factor: Factor<'_, T>, made: [usize; 2]| match factor {
        Factor::Matrix(matrix) => matrix.shape(),
        Factor::Made(_) => made,
        Factor::Pieces(pieces) => pieces.shape(),
    };
    check_shapes([rows, cols], shape_of(a, [rows, depth]), shape_of(b, [depth, cols]))?;
    let values = match base {
        Base::Nothing | Base::Result => true,
        Base::PerRow(values) => values.len() == rows,
        Base::PerColumn(values) => values.len() == cols,
    };
    if !values || depth == 0 {
        bug!("a product of {depth} steps that is added to values of another number");
    }
    if rows > 0 && cols > 0 {
        T::product_of_factors(c, depth, [a, b], base);
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
    let plan = Plan::of(a.get(0).view(), b.get(0).view());
    let work = (m * n * a.get(0).cols).max(1);
    let grain = PARALLEL_WORK.div_ceil(work) as i64;
    let each = |range: Range<i64>| {
        for index in range {
            let index = index as usize;
            // SAFETY: every index is visited once.
            serial(unsafe { c.get(index) }, a.get(index), b.get(index), factors, plan);
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

/// The number of parts of `width` columns, the last of which has those that are left: more than
/// [`corten_gemm::MAX_SKINNY`], unless it is the only one.
#[cfg(feature = "linalg")]
pub(crate) fn parts_of(cols: usize, width: usize) -> usize {
    ((cols + width).saturating_sub(corten_gemm::MAX_SKINNY + 1) / width).max(1)
}

/// Shapes are known to fit.
fn serial<T: MatElement>(
    mut c: MatMut<'_, T>,
    a: Mat<'_, T>,
    b: Mat<'_, T>,
    factors: Factors,
    plan: Plan,
) {
    if c.rows == 0 || c.cols == 0 {
        return;
    }
    if a.cols == 0 {
        T::rescale(c.reborrow(), factors.beta);
        return;
    }
    T::product(plan, c, a, b, factors);
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

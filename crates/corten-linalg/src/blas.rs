//! What the algorithms take from the program they are part of: products of matrices (BLAS level 3), threads
//! and memory. Loops of levels 1 and 2 are here, compiled for the processor at hand.

use crate::parallel::share;
use faer::{MatMut, MatRef};
use num_complex::ComplexFloat;
use pulp::{Arch, Simd, WithSimd};
use std::ops::Range;

/// Calls a function with every number below the first argument, on several threads or on one.
pub type Run = fn(usize, &(dyn Fn(usize) + Sync));

/// A factor of a product.
#[derive(Clone, Copy)]
pub struct Operand<'a, T> {
    /// Its numbers.
    pub matrix: MatRef<'a, T>,
    /// Whether they are conjugated.
    pub conjugated: bool,
}

impl<'a, T> From<MatRef<'a, T>> for Operand<'a, T> {
    fn from(matrix: MatRef<'a, T>) -> Self {
        Self { matrix, conjugated: false }
    }
}

/// The conjugate transpose of a matrix.
pub(crate) fn adjoint<T>(matrix: MatRef<'_, T>) -> Operand<'_, T> {
    Operand { matrix: matrix.transpose(), conjugated: true }
}

/// What becomes of a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Product {
    /// It is the result.
    Overwrite,
    /// It is subtracted from the result.
    Subtract,
    /// The same for some columns of a larger product: each has the digits that it has in the larger one.
    SubtractPart,
}

/// Products, threads and memory for matrices of one type of numbers. Memory that cannot be had unwinds.
pub trait Blas<T>: Sync {
    /// `c = a b` or `c -= a b`, of fitting shapes. Digits do not depend on the number of threads.
    fn gemm(&self, c: MatMut<'_, T>, a: Operand<'_, T>, b: Operand<'_, T>, product: Product);

    /// Copies a matrix to one of the same shape.
    fn copy(&self, to: MatMut<'_, T>, from: MatRef<'_, T>);

    /// So many zeros.
    fn zeros(&self, count: usize) -> Vec<T>;

    /// Calls a function with so many numbers, whatever they are.
    fn with_buffer(&self, count: usize, body: &mut dyn FnMut(&mut [T]));

    /// Calls a function within which everything runs on the calling thread.
    fn alone(&self, body: &mut dyn FnMut());

    /// How many columns are a part for a thread, where each costs so many multiplications.
    fn part_width(&self, columns: usize, work: usize) -> usize;

    /// The number of parts of so many columns of a width. The last part has the columns that are left.
    fn parts(&self, columns: usize, width: usize) -> usize;

    /// Runs the parts of something on its threads.
    fn runner(&self) -> Run;
}

/// The parts of so many columns.
fn parts<T>(
    blas: &dyn Blas<T>,
    columns: usize,
    width: usize,
) -> impl Iterator<Item = Range<usize>> + use<T> {
    let count = blas.parts(columns, width);
    let end = move |part: usize| if part + 1 < count { (part + 1) * width } else { columns };
    (0..count).map(move |part| part * width..end(part))
}

/// Calls `body(columns, part)` for parts of so many columns of a matrix, on several threads where there are
/// several.
pub(crate) fn for_each_part<T: Send + Sync>(
    blas: &dyn Blas<T>,
    matrix: MatMut<'_, T>,
    width: usize,
    body: impl Fn(Range<usize>, MatMut<'_, T>) + Sync,
) {
    let mut rest = Some(matrix);
    let columns = rest.as_ref().map_or(0, |matrix| matrix.ncols());
    let parts = parts(blas, columns, width).map_while(|range| {
        let (part, others) = rest.take()?.split_at_col_mut(range.len());
        rest = Some(others);
        Some((range, part))
    });
    share(blas.runner(), parts, |(range, part)| body(range, part));
}

/// The same for columns of `height` numbers that lie one behind the other.
pub(crate) fn for_each_part_of_columns<T: Send + Sync>(
    blas: &dyn Blas<T>,
    columns: &mut [T],
    height: usize,
    width: usize,
    body: impl Fn(&mut [T]) + Sync,
) {
    let mut rest = columns;
    let count = rest.len() / height;
    let parts =
        parts(blas, count, width).map_while(|range| rest.split_off_mut(..range.len() * height));
    share(blas.runner(), parts, body);
}

/// A matrix in columns that are `stride` apart.
pub(crate) fn in_columns<T>(data: &[T], shape: [usize; 2], stride: usize) -> MatRef<'_, T> {
    let [rows, cols] = shape;
    MatRef::from_column_major_slice_with_stride(data, rows, cols, stride)
}

/// The same, to be written.
pub(crate) fn in_columns_mut<T>(data: &mut [T], shape: [usize; 2], stride: usize) -> MatMut<'_, T> {
    let [rows, cols] = shape;
    MatMut::from_column_major_slice_with_stride_mut(data, rows, cols, stride)
}

/// A matrix in rows that are `stride` apart.
pub(crate) fn in_rows<T>(data: &[T], [rows, cols]: [usize; 2], stride: usize) -> MatRef<'_, T> {
    in_columns(data, [cols, rows], stride).transpose()
}

/// The same, to be written.
pub(crate) fn in_rows_mut<T>(
    data: &mut [T],
    [rows, cols]: [usize; 2],
    stride: usize,
) -> MatMut<'_, T> {
    in_columns_mut(data, [cols, rows], stride).transpose_mut()
}

/// A loop that the compiler turns into vectors.
pub(crate) trait Kernel {
    /// Its result.
    type Out;

    /// The loop; `#[inline(always)]`, as all that it calls.
    fn run(self) -> Self::Out;
}

/// Runs a loop with the instructions of the processor. No digit depends on them.
pub(crate) fn vectorised<K: Kernel>(kernel: K) -> K::Out {
    struct Vectorised<K>(K);

    impl<K: Kernel> WithSimd for Vectorised<K> {
        type Output = K::Out;

        #[inline(always)]
        fn with_simd<S: Simd>(self, _: S) -> K::Out {
            self.0.run()
        }
    }

    Arch::new().dispatch(Vectorised(kernel))
}

/// Rows or columns of which multiples are subtracted at a time, so that the other one is read and written
/// less often.
pub(crate) const AT_ONCE: usize = 4;

/// `x -= factors[0] * other(0)`, then the next one, for at most [`AT_ONCE`] others: several `axpy` at once.
#[inline(always)]
pub(crate) fn subtract_multiples<'a, T: ComplexFloat + 'a>(
    x: &mut [T],
    other: impl Fn(usize) -> &'a [T],
    factors: &[T],
) {
    match *factors {
        [f, g, h, i] => {
            let others = other(0).iter().zip(other(1)).zip(other(2)).zip(other(3));
            for (x, (((&a, &b), &c), &d)) in x.iter_mut().zip(others) {
                *x = *x - a * f - b * g - c * h - d * i;
            }
        }
        [f, g, h] => {
            let others = other(0).iter().zip(other(1)).zip(other(2));
            for (x, ((&a, &b), &c)) in x.iter_mut().zip(others) {
                *x = *x - a * f - b * g - c * h;
            }
        }
        [f, g] => {
            for (x, (&a, &b)) in x.iter_mut().zip(other(0).iter().zip(other(1))) {
                *x = *x - a * f - b * g;
            }
        }
        [f] => x.iter_mut().zip(other(0)).for_each(|(x, &a)| *x = *x - a * f),
        _ => {}
    }
}

/// Partial sums of a dot product, which do not wait for each other.
const LANES: usize = 8;

/// `xᴴ y`.
#[inline(always)]
pub(crate) fn dot<T: ComplexFloat>(x: &[T], y: &[T]) -> T {
    let ((xs, x_left), (ys, y_left)) = (x.as_chunks::<LANES>(), y.as_chunks::<LANES>());
    let mut sums = [T::zero(); LANES];
    for (x, y) in xs.iter().zip(ys) {
        for ((sum, x), y) in sums.iter_mut().zip(x).zip(y) {
            *sum = *sum + x.conj() * *y;
        }
    }
    let left = x_left.iter().zip(y_left).fold(T::zero(), |sum, (x, y)| sum + x.conj() * *y);
    sums.into_iter().fold(left, |total, sum| total + sum)
}

//! Householder reflectors `H = 1 - τ v vᴴ` of real and complex matrices: LAPACK's `larfg`, `larf`, `larft` and
//! `larfb`, after R. Schreiber and C. Van Loan, "A storage-efficient WY representation for products of
//! Householder transformations", 1989.

use crate::blas::{
    Blas, Kernel, Operand, Product, adjoint, dot, in_columns, in_columns_mut, vectorised,
};
use crate::number::Number;
use crate::parallel::{COLUMNS, share};
use crate::simd_columns::{AlignedColumns, Lanes};
use num_complex::ComplexFloat;
use std::ops::Range;

/// Reflectors that are applied at once, by matrix products.
pub(crate) const BLOCK: usize = 32;

/// Below this many columns reflectors are applied one after the other.
const FEW: usize = 8;

/// `larfg`: the reflector whose adjoint takes a vector to a multiple of the first unit vector. The multiple
/// is left in front, behind it the reflector's vector, whose first number is 1. Returns `τ`.
#[inline(always)]
pub(crate) fn larfg<T: Number>(x: &mut [T]) -> T {
    let Some((head, tail)) = x.split_first_mut() else { return T::zero() };
    let (alpha, square) = (*head, sum_of_squares(tail));
    let total = square + alpha.square();
    if !(square > T::small_square() && ComplexFloat::is_finite(total)) {
        return larfg_scaled(x);
    }
    let norm = ComplexFloat::sqrt(total);
    let beta = T::real(if alpha.re() >= zero::<T>() { -norm } else { norm });
    let unit = T::one().over(alpha - beta);
    tail.iter_mut().for_each(|value| *value = *value * unit);
    *head = beta;
    (beta - alpha).over(beta)
}

/// [`larfg`] of a vector whose squares may leave the range, or with nothing behind its first number. It is
/// divided by a power of two meanwhile, so that the smallest numbers lose no digit either.
#[cold]
#[inline(never)]
fn larfg_scaled<T: Number>(x: &mut [T]) -> T {
    let tail = x[1..].iter().any(|&value| value != T::zero());
    if !tail && x[0].im() == zero::<T>() {
        return T::zero();
    }
    let most = |most, value: &T| if value.size() > most { value.size() } else { most };
    let largest = x.iter().fold(zero::<T>(), most);
    let unit = T::real(T::power_of_two_below(largest));
    x.iter_mut().for_each(|value| *value = value.over(unit));
    let norm = ComplexFloat::sqrt(sum_of_squares(x));
    let alpha = x[0];
    let beta = T::real(if alpha.re() >= zero::<T>() { -norm } else { norm });
    x[1..].iter_mut().for_each(|value| *value = value.over(alpha - beta));
    x[0] = beta * unit;
    (beta - alpha).over(beta)
}

fn zero<T: Number>() -> T::Real {
    T::Real::default()
}

/// In partial sums, as [`dot`].
#[inline(always)]
fn sum_of_squares<T: Number>(x: &[T]) -> T::Real {
    let (chunks, left) = x.as_chunks::<8>();
    let mut sums = [zero::<T>(); 8];
    for chunk in chunks {
        for (sum, value) in sums.iter_mut().zip(chunk) {
            *sum = *sum + value.square();
        }
    }
    let left = left.iter().fold(zero::<T>(), |sum, value| sum + value.square());
    sums.into_iter().fold(left, |total, sum| total + sum)
}

/// `larf`: `x = (1 - τ v vᴴ) x`, the first number of `v` taken as 1.
#[inline(always)]
pub(crate) fn larf<T: Number>(v: &[T], tau: T, x: &mut [T]) {
    if tau == T::zero() {
        return;
    }
    let factor = tau * (x[0] + dot(&v[1..], &x[1..]));
    x[0] = x[0] - factor;
    for (&v, x) in v[1..].iter().zip(&mut x[1..]) {
        *x = *x - v * factor;
    }
}

/// Successive reflectors `H1 H2 …`. Vector `j` is in column `j`, from row `first + j` on, where its 1 is not
/// written.
#[derive(Clone, Copy)]
pub(crate) struct Reflectors<'a, T> {
    pub columns: &'a [T],
    /// From a column to the next.
    pub stride: usize,
    pub rows: usize,
    pub first: usize,
    pub tau: &'a [T],
}

impl<'a, T: Number> Reflectors<'a, T> {
    fn vector(&self, j: usize) -> &'a [T] {
        &self.columns[j * self.stride..][self.first + j..self.rows]
    }

    fn range(&self, range: Range<usize>) -> Self {
        let columns = &self.columns[range.start * self.stride..];
        Self { columns, first: self.first + range.start, tau: &self.tau[range], ..*self }
    }

    /// Blocks of them in the order in which their product, or its adjoint, is applied.
    pub(crate) fn blocks(self, adjoint: bool) -> impl Iterator<Item = Self> {
        let count = self.tau.len().div_ceil(BLOCK);
        (0..count).map(move |step| {
            let first = BLOCK * if adjoint { step } else { count - 1 - step };
            self.range(first..(first + BLOCK).min(self.tau.len()))
        })
    }

    /// Multiplies columns of `rows` numbers with the product of a block, or its adjoint, from the left.
    pub(crate) fn apply_block(&self, blas: &dyn Blas<T>, x: &mut [T], adjoint: bool) {
        if x.len() / self.rows < FEW || self.tau.len() < FEW {
            vectorised(OneByOne { reflectors: self, x, adjoint });
        } else {
            self.larft(blas).larfb(blas, x, adjoint);
        }
    }

    /// `larft`: the block `1 - V T Vᴴ` with an upper triangle `T`.
    pub(crate) fn larft(&self, blas: &dyn Blas<T>) -> BlockReflector<T> {
        let (count, height) = (self.tau.len(), self.rows - self.first);
        let mut vectors = blas.zeros(height * count);
        for (j, vector) in vectors.chunks_exact_mut(height).enumerate() {
            vector[j] = T::one();
            vector[j + 1..].copy_from_slice(&self.vector(j)[1..]);
        }
        let v = in_columns(&vectors, [height, count], height);
        let mut products = blas.zeros(count * count);
        let target = in_columns_mut(&mut products, [count, count], count);
        blas.gemm(target, adjoint(v), v.into(), Product::Overwrite);
        // T[..j, j] = -τ T[..j, ..j] V[.., ..j]ᴴ v.
        let mut triangle = blas.zeros(count * count);
        for (j, &tau) in self.tau.iter().enumerate() {
            for row in 0..j {
                let term = |k: usize| triangle[k * count + row] * products[j * count + k];
                let sum = (row..j).map(term).fold(T::zero(), |sum, term| sum + term);
                triangle[j * count + row] = -(tau * sum);
            }
            triangle[j * count + j] = tau;
        }
        BlockReflector { vectors, triangle, rows: self.rows, first: self.first, count }
    }
}

/// A few reflectors, one after the other.
struct OneByOne<'a, T> {
    reflectors: &'a Reflectors<'a, T>,
    x: &'a mut [T],
    adjoint: bool,
}

impl<T: Number> Kernel for OneByOne<'_, T> {
    type Out = ();

    #[inline(always)]
    fn run(self) {
        let Self { reflectors, x, adjoint } = self;
        let count = reflectors.tau.len();
        for step in 0..count {
            let j = if adjoint { step } else { count - 1 - step };
            let tau = reflectors.tau[j];
            let factor = if adjoint { tau.conj() } else { tau };
            for column in x.chunks_exact_mut(reflectors.rows) {
                larf(reflectors.vector(j), factor, &mut column[reflectors.first + j..]);
            }
        }
    }
}

/// The product `1 - V T Vᴴ` of some reflectors.
pub(crate) struct BlockReflector<T> {
    /// `V` from row `first` on, by columns, with its ones and zeros.
    vectors: Vec<T>,
    /// `T`, by columns.
    triangle: Vec<T>,
    rows: usize,
    first: usize,
    count: usize,
}

impl<T: Number> BlockReflector<T> {
    /// `larfb`: multiplies columns of `rows` numbers with it, or its adjoint, from the left.
    pub(crate) fn larfb(&self, blas: &dyn Blas<T>, x: &mut [T], transposed: bool) {
        let Self { rows, first, count, .. } = *self;
        let (height, columns) = (rows - first, x.len() / rows);
        let v = in_columns(&self.vectors, [height, count], height);
        let triangle = in_columns(&self.triangle, [count, count], count);
        let triangle: Operand<'_, T> = if transposed { adjoint(triangle) } else { triangle.into() };
        // W = Vᴴ X, then op(T) W, then X -= V W.
        blas.with_buffer(2 * count * columns, &mut |buffer| {
            let (w, product) = buffer.split_at_mut(count * columns);
            let below = &mut x[first..];
            let seen = in_columns(below, [height, columns], rows);
            let target = in_columns_mut(w, [count, columns], count);
            blas.gemm(target, adjoint(v), seen.into(), Product::Overwrite);
            let target = in_columns_mut(product, [count, columns], count);
            let w = in_columns(w, [count, columns], count);
            blas.gemm(target, triangle, w.into(), Product::Overwrite);
            let product = in_columns(product, [count, columns], count);
            let target = in_columns_mut(below, [height, columns], rows);
            blas.gemm(target, v.into(), product.into(), Product::Subtract);
        });
    }
}

/// Reflectors that reduced a matrix, and that bases are multiplied with.
pub(crate) struct HouseholderVectors<T> {
    /// See [`Reflectors`].
    pub vectors: AlignedColumns<T>,
    pub rows: usize,
    pub first: usize,
    pub tau: Vec<T>,
}

impl<T: Number + Lanes> HouseholderVectors<T> {
    /// Multiplies the columns of a basis with their product, from the left.
    pub(crate) fn apply(&self, blas: &dyn Blas<T>, basis: &mut [T]) {
        let Self { vectors, rows, first, tau } = self;
        let (columns, stride) = (&vectors.numbers[..], vectors.stride);
        let all = Reflectors { columns, stride, rows: *rows, first: *first, tau };
        let blocks: Vec<_> = all.blocks(false).map(|block| block.larft(blas)).collect();
        share(blas.runner(), basis.chunks_mut(rows * COLUMNS), |columns| {
            blocks.iter().for_each(|block| block.larfb(blas, columns, false));
        });
    }
}

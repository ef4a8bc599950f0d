//! The reduction of real symmetric matrices to tridiagonal ones by reflections, column by column.

use crate::divide::Number;
use faer::linalg::householder;
use faer::linalg::qr::no_pivoting::factor::recommended_block_size;
use faer::{ColMut, Mat};
use pulp::{Arch, Simd, WithSimd};

/// Numbers of a column that are computed at once.
pub(crate) const TOGETHER: usize = 8;

/// What is left of a matrix that was reduced.
pub(crate) struct Reduced<T> {
    pub diagonal: Vec<f64>,
    /// What is beside the diagonal.
    pub beside: Vec<f64>,
    /// The factors of the reflections, in blocks beside one another. Their vectors are in the columns of the
    /// matrix, below what is beside the diagonal.
    pub factors: Mat<T>,
}

/// Reduces a matrix of at least one row, from its lower triangle.
///
/// A reflection and the product it needs take one pass over what is left of the triangle: J. Dongarra,
/// D. Sorensen and S. Hammarling, "Block reduction of matrices to condensed forms for eigenvalue
/// computations", 1989, with blocks of one column, which are as fast where the triangle is in the cache.
pub(crate) fn to_tridiagonal<T: Number>(n: usize, a: &mut [T]) -> Reduced<T> {
    Arch::new().dispatch(Reduction { n, a })
}

struct Reduction<'a, T> {
    n: usize,
    a: &'a mut [T],
}

impl<T: Number> WithSimd for Reduction<'_, T> {
    type Output = Reduced<T>;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> Reduced<T> {
        let Reduction { n, a } = self;
        let zero = T::of(0.0);
        let (mut diagonal, mut beside) = (vec![0.0; n], vec![0.0; n - 1]);
        let mut factors = Mat::<T>::zeros(recommended_block_size::<T>(n, n), n - 1);
        // What is left is yet to be reflected: `v * w' + w * v'` is to be subtracted.
        let (mut v, mut w) = (vec![zero; n], vec![zero; n]);
        let (mut next_v, mut next_w) = (vec![zero; n], vec![zero; n]);
        for k in 0..n {
            let column = &mut a[k * n + k..][..n - k];
            subtract(column, [&v[k..], &w[k..]], [w[k], v[k]]);
            diagonal[k] = column[0].into();
            if k + 1 == n {
                break;
            }
            let (factor, value) = reflection(&mut column[1..], &mut next_v[k + 1..]);
            beside[k] = value.into();
            next_w[k + 1..].fill(zero);
            for j in k + 1..n {
                pass(j, &mut a[j * n..][..n], [&v, &w, &next_v], &mut next_w);
            }
            let (v_left, w_left) = (&next_v[k + 1..], &mut next_w[k + 1..]);
            let one = T::of(1.0) / factor;
            let along = dot(v_left, w_left) * one * one * T::of(0.5);
            for (w, v) in w_left.iter_mut().zip(v_left) {
                *w = *w * one - along * *v;
            }
            (v, next_v) = (next_v, v);
            (w, next_w) = (next_w, w);
            factors[(0, k)] = factor;
        }
        join_factors(n, a, &mut factors);
        Reduced { diagonal, beside, factors }
    }
}

/// Writes to `vector` that of the reflection that brings a column to its first number. Returns what the
/// vector's product with itself is divided by then, and the number.
#[inline(always)]
pub(crate) fn reflection<T: Number>(column: &mut [T], vector: &mut [T]) -> (T, T) {
    let (head, tail) = column.split_at_mut(1);
    let found = householder::make_householder_in_place(&mut head[0], ColMut::from_slice_mut(tail));
    vector[0] = T::of(1.0);
    vector[1..].copy_from_slice(tail);
    (found.tau, head[0])
}

/// Subtracts both vectors times their factors.
#[inline(always)]
pub(crate) fn subtract<T: Number>(column: &mut [T], [v, w]: [&[T]; 2], [of_v, of_w]: [T; 2]) {
    for ((x, v), w) in column.iter_mut().zip(v).zip(w) {
        *x = *x - *v * of_v - *w * of_w;
    }
}

/// Applies the reflection of `v` and `w` to column `j` from the diagonal on, and adds to `y` what that has in
/// the symmetric matrix's product with `x`.
#[inline(always)]
fn pass<T: Number>(j: usize, column: &mut [T], [v, w, x]: [&[T]; 3], y: &mut [T]) {
    let (of_v, of_w, of_x) = (w[j], v[j], x[j]);
    subtract(&mut column[j..=j], [&v[j..], &w[j..]], [of_v, of_w]);
    let mut total = column[j] * of_x;
    // Vectors of all columns begin at the same rows: those of `y` are read where they were just written.
    let whole = column.len().min((j + 1).next_multiple_of(TOGETHER));
    let end = column.len() - (column.len() - whole) % TOGETHER;
    let (columns, _) = column[whole..].as_chunks_mut::<TOGETHER>();
    let [vs, ws, xs] = [v, w, x].map(|all| all[whole..].as_chunks::<TOGETHER>().0);
    let (ys, _) = y[whole..].as_chunks_mut::<TOGETHER>();
    let mut sums = [T::of(0.0); TOGETHER];
    for ((((c, v), w), x), y) in columns.iter_mut().zip(vs).zip(ws).zip(xs).zip(ys) {
        // Written when all is read: the compiler does not see that the slices lie apart.
        let (mut values, mut added) = (*c, *y);
        for lane in 0..TOGETHER {
            values[lane] = values[lane] - v[lane] * of_v - w[lane] * of_w;
        }
        for lane in 0..TOGETHER {
            added[lane] += values[lane] * of_x;
        }
        for lane in 0..TOGETHER {
            sums[lane] += values[lane] * x[lane];
        }
        (*c, *y) = (values, added);
    }
    for rows in [j + 1..whole, end..column.len()] {
        subtract(&mut column[rows.clone()], [&v[rows.clone()], &w[rows.clone()]], [of_v, of_w]);
        for i in rows {
            y[i] += column[i] * of_x;
            total += column[i] * x[i];
        }
    }
    y[j] += total + sum(sums);
}

/// The sum of the lanes.
#[inline(always)]
pub(crate) fn sum<T: Number>(lanes: [T; TOGETHER]) -> T {
    let mut total = lanes[0];
    for &lane in &lanes[1..] {
        total += lane;
    }
    total
}

#[inline(always)]
pub(crate) fn dot<T: Number>(x: &[T], y: &[T]) -> T {
    let ((xs, x_left), (ys, y_left)) = (x.as_chunks::<TOGETHER>(), y.as_chunks::<TOGETHER>());
    let mut sums = [T::of(0.0); TOGETHER];
    for (x, y) in xs.iter().zip(ys) {
        for lane in 0..TOGETHER {
            sums[lane] += x[lane] * y[lane];
        }
    }
    let mut total = sum(sums);
    for (x, y) in x_left.iter().zip(y_left) {
        total += *x * *y;
    }
    total
}

/// Completes the factors of blocks of reflections: above the diagonal are the products of their vectors.
#[inline(always)]
fn join_factors<T: Number>(n: usize, a: &[T], factors: &mut Mat<T>) {
    let block = factors.nrows();
    for k in 0..factors.ncols() {
        let (first, row) = (k / block * block, k % block);
        factors[(row, k)] = factors[(0, k)];
        // The vector `k` begins with 1 in the row `k + 1`.
        let vector = &a[k * n + k + 2..(k + 1) * n];
        for before in first..k {
            let other = &a[before * n + k + 1..(before + 1) * n];
            factors[(before - first, k)] = other[0] + dot(&other[1..], vector);
        }
    }
}

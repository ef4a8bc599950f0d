//! Householder tridiagonalization of real symmetric matrices, LAPACK's `sytrd`, column by column.

use crate::blas::dot;
use crate::householder::{HouseholderVectors, larfg};
use crate::simd_columns::{
    AlignedBuffer, AlignedColumns, COLUMN_GROUP, group, subtract_and_multiply,
    subtract_and_multiply_both, subtract_two,
};
use crate::tridiagonal_dc::Real;
use pulp::{Arch, Simd, WithSimd};

/// What is left of a matrix that was reduced.
pub(crate) struct Reduced<T> {
    pub diagonal: Vec<f64>,
    /// What is beside the diagonal.
    pub beside: Vec<f64>,
    /// Those that reduced it, from its second row on.
    pub reflections: HouseholderVectors<T>,
}

/// Reduces a matrix of at least one row, from its lower triangle.
///
/// A reflector and the product it needs take one pass over what is left of the matrix: J. Dongarra,
/// D. Sorensen and S. Hammarling, "Block reduction of matrices to condensed forms for eigenvalue
/// computations", 1989, with blocks of one column, which are as fast where the triangle is in the cache.
/// Squares on the diagonal, of a line each, are kept whole, so that all loops are of whole vectors.
pub(crate) fn to_tridiagonal<T: Real>(n: usize, a: &[T]) -> Reduced<T> {
    let mut columns = AlignedColumns::zeros(n, n);
    for (j, column) in a.chunks_exact(n).enumerate() {
        columns.column(j)[j..n].copy_from_slice(&column[j..]);
        let end = (j + 1).next_multiple_of(T::LINE).min(n);
        for (i, &number) in column[..end].iter().enumerate().skip(j + 1) {
            columns.column(i)[j] = number;
        }
    }
    Arch::new().dispatch(Reduction { n, a: columns })
}

struct Reduction<T> {
    n: usize,
    a: AlignedColumns<T>,
}

impl<T: Real> WithSimd for Reduction<T> {
    type Output = Reduced<T>;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> Reduced<T> {
        let Reduction { n, mut a } = self;
        let (mut diagonal, mut beside) = (vec![0.0; n], vec![0.0; n - 1]);
        let mut tau = vec![T::ZERO; n - 1];
        // What is left is yet to be reflected: `v * w' + w * v'` is to be subtracted. Both are 0 in the rows
        // that are done.
        let [mut v, mut w, mut next_v, mut next_w] =
            [(); 4].map(|()| AlignedBuffer::zeros(n + COLUMN_GROUP));
        for k in 0..n {
            let column = &mut a.column(k)[k..n];
            subtract_two(column, [&v[k..], &w[k..]], [w[k], v[k]]);
            diagonal[k] = column[0].into();
            if k + 1 == n {
                break;
            }
            tau[k] = larfg(&mut column[1..]);
            beside[k] = column[1].into();
            next_v[k + 1..n].copy_from_slice(&column[1..]);
            next_v[k + 1] = T::of(1.0);
            for done in [&mut v, &mut w, &mut next_v] {
                done[k] = T::ZERO;
            }
            next_w.fill(T::ZERO);
            for first in (k + 1 - (k + 1) % COLUMN_GROUP..n).step_by(COLUMN_GROUP) {
                let reflected = [&v[..], &w[..], &next_v[..]];
                pass(simd, first, &mut a, reflected, &mut next_w);
            }
            next_w[..=k].fill(T::ZERO);
            let (v_left, w_left) = (&next_v[k + 1..n], &mut next_w[k + 1..n]);
            let tau = tau[k];
            let along = dot(v_left, w_left) * tau * tau * T::of(0.5);
            for (w, v) in w_left.iter_mut().zip(v_left) {
                *w = *w * tau - along * *v;
            }
            (v, next_v) = (next_v, v);
            (w, next_w) = (next_w, w);
        }
        let reflections = HouseholderVectors { vectors: a, rows: n, first: 1, tau };
        Reduced { diagonal, beside, reflections }
    }
}

/// Applies the reflector of `v` and `w` to the group of columns that begins with one, and adds to `y` what
/// that has in the symmetric matrix's product with `x`.
#[inline(always)]
fn pass<T: Real, S: Simd>(
    simd: S,
    first: usize,
    a: &mut AlignedColumns<T>,
    [v, w, x]: [&[T]; 3],
    y: &mut [T],
) {
    let row = first - first % T::LINE;
    let below = row + T::LINE;
    let [(a, a_below), (b, b_below), (c, c_below), (d, d_below)] = a.split_group(first, row, below);
    let (v_group, w_group, x_group) = (group(v, first), group(w, first), group(x, first));
    let on = subtract_and_multiply(
        simd,
        [a, b, c, d],
        [&v[row..below], &w[row..below], &x[row..below]],
        [w_group, v_group],
    );
    let y_below = &mut y[below..];
    let off = subtract_and_multiply_both(
        simd,
        [a_below, b_below, c_below, d_below],
        [&v[below..], &w[below..], &x[below..]],
        y_below,
        [w_group, v_group, x_group],
    );
    for (y, (on, off)) in y[first..].iter_mut().zip(on.into_iter().zip(off)) {
        *y += on + off;
    }
}

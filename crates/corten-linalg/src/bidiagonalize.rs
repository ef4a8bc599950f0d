//! Householder bidiagonalization of real matrices, LAPACK's `gebrd`, column by column.

use crate::blas::dot;
use crate::householder::{HouseholderVectors, larfg};
use crate::simd_columns::{
    AlignedBuffer, AlignedColumns, COLUMN_GROUP, add, group, subtract_and_multiply, subtract_two,
};
use crate::tridiagonal_dc::Real;
use pulp::{Arch, Simd, WithSimd};

/// What is left of a matrix that was reduced.
pub(crate) struct Bidiagonal<T> {
    pub diagonal: Vec<f64>,
    /// What is above the diagonal.
    pub above: Vec<f64>,
    /// Those from the left.
    pub left: HouseholderVectors<T>,
    /// Those from the right, from the second column on.
    pub right: HouseholderVectors<T>,
}

/// Reduces a matrix with `m` rows and at most as many columns `n`, but at least one.
///
/// A column and the row that follow one another are eliminated in two passes over what is left of
/// the matrix: G. Howell, J. Demmel, C. Fulton, S. Hammarling and K. Marmol, "Cache efficient
/// bidiagonalization using BLAS 2.5 operators", 2008.
pub(crate) fn to_bidiagonal<T: Real>([m, n]: [usize; 2], a: &[T]) -> Bidiagonal<T> {
    let mut columns = AlignedColumns::zeros(m, n);
    for (j, column) in a.chunks_exact(m).enumerate() {
        columns.column(j)[..m].copy_from_slice(column);
    }
    Arch::new().dispatch(Reduction { m, n, a: columns })
}

struct Reduction<T> {
    m: usize,
    n: usize,
    a: AlignedColumns<T>,
}

impl<T: Real> WithSimd for Reduction<T> {
    type Output = Bidiagonal<T>;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> Bidiagonal<T> {
        let Reduction { m, n, mut a } = self;
        let (mut diagonal, mut above) = (vec![0.0; n], vec![0.0; n - 1]);
        let (mut left, mut right) = (vec![T::ZERO; n], vec![T::ZERO; n - 1]);
        let mut rows = AlignedColumns::zeros(n, n - 1);
        // What is left is yet to be reflected: `u * w' + z * v'` is to be subtracted. All are 0 where the
        // matrix is done.
        let [mut u, mut z, mut next_u] = [(); 3].map(|()| AlignedBuffer::zeros(m));
        let [mut v, mut w, mut next_w] = [(); 3].map(|()| AlignedBuffer::zeros(n + COLUMN_GROUP));
        for k in 0..n {
            let column = &mut a.column(k)[k..m];
            subtract_two(column, [&u[k..], &z[k..]], [w[k], v[k]]);
            let tau = larfg(column);
            (left[k], diagonal[k]) = (tau, column[0].into());
            next_u[k..m].copy_from_slice(column);
            next_u[k] = T::of(1.0);
            let Some(next) = above.get_mut(k) else { break };
            (w[k], v[k]) = (T::ZERO, T::ZERO);
            next_u[..k].fill(T::ZERO);
            let first = k + 1 - (k + 1) % COLUMN_GROUP;
            let (line, row) = (k - k % T::LINE, &mut rows.column(k)[..n]);
            for first in (first..n).step_by(COLUMN_GROUP) {
                let vectors = [&u[line..], &z[line..], &next_u[line..]];
                let factors = [group(&w, first), group(&v, first)];
                let columns = a.group(first, line);
                let products = subtract_and_multiply(simd, columns, vectors, factors);
                next_w[first..][..COLUMN_GROUP].copy_from_slice(&products);
            }
            next_w[..=k].fill(T::ZERO);
            for j in k + 1..n {
                next_w[j] *= tau;
                row[j] = a.column(j)[k] - next_w[j];
            }
            (u, next_u) = (next_u, u);
            (w, next_w) = (next_w, w);
            let tau = larfg(&mut row[k + 1..]);
            (right[k], *next) = (tau, row[k + 1].into());
            v[k + 1..n].copy_from_slice(&row[k + 1..]);
            v[k + 1] = T::of(1.0);
            let line = k + 1 - (k + 1) % T::LINE;
            z[line..].fill(T::ZERO);
            for first in (first..n).step_by(COLUMN_GROUP) {
                add(simd, &mut z[line..], a.group(first, line), group(&v, first));
            }
            let along = dot(&w[k + 1..n], &v[k + 1..n]);
            for (z, u) in z[k + 1..m].iter_mut().zip(&u[k + 1..m]) {
                *z = tau * (*z - along * *u);
            }
            z[..=k].fill(T::ZERO);
        }
        let left = HouseholderVectors { vectors: a, rows: m, first: 0, tau: left };
        let right = HouseholderVectors { vectors: rows, rows: n, first: 1, tau: right };
        Bidiagonal { diagonal, above, left, right }
    }
}

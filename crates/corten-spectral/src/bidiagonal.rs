//! The reduction of real matrices to bidiagonal ones by reflections from both sides, column by column.

use crate::divide::Number;
use crate::reduce::{TOGETHER, dot, reflection, subtract, sum};
use pulp::{Arch, Simd, WithSimd};

/// Columns that are added at once.
const ABREAST: usize = 4;

/// The diagonal of the bidiagonal matrix with the singular values of one with `m` rows and at most as many
/// columns `n`, and what is beside it.
///
/// A column and the row that follow one another are eliminated in two passes over what is left of
/// the matrix: G. Howell, J. Demmel, C. Fulton, S. Hammarling and K. Marmol, "Cache efficient
/// bidiagonalization using BLAS 2.5 operators", 2008.
pub(crate) fn to_bidiagonal<T: Number>([m, n]: [usize; 2], a: &mut [T]) -> [Vec<f64>; 2] {
    Arch::new().dispatch(Reduction { m, n, a })
}

struct Reduction<'a, T> {
    m: usize,
    n: usize,
    a: &'a mut [T],
}

impl<T: Number> WithSimd for Reduction<'_, T> {
    type Output = [Vec<f64>; 2];

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> [Vec<f64>; 2] {
        let Reduction { m, n, a } = self;
        let (rows, cols) = (vec![T::of(0.0); m], vec![T::of(0.0); n]);
        let (mut diagonal, mut beside) = (vec![0.0; n], vec![0.0; n.saturating_sub(1)]);
        // What is left is yet to be reflected: `u * w' + z * v'` is to be subtracted.
        let (mut u, mut z, mut v, mut w) = (rows.clone(), rows.clone(), cols.clone(), cols.clone());
        let (mut next_u, mut next_w, mut row) = (rows, cols.clone(), cols);
        for k in 0..n {
            let column = &mut a[k * m + k..(k + 1) * m];
            subtract(column, [&u[k..], &z[k..]], [w[k], v[k]]);
            let (divisor, value) = reflection(column, &mut next_u[k..]);
            diagonal[k] = value.into();
            let Some(last) = beside.get_mut(k) else { break };
            let factor = T::of(1.0) / divisor;
            for j in k + 1..n {
                let column = &mut a[j * m + k..(j + 1) * m];
                next_w[j] = factor * pass(column, [&u[k..], &z[k..], &next_u[k..]], [w[j], v[j]]);
                row[j] = column[0] - next_w[j];
            }
            (u, next_u) = (next_u, u);
            (w, next_w) = (next_w, w);
            let (divisor, value) = reflection(&mut row[k + 1..], &mut v[k + 1..]);
            let factor = T::of(1.0) / divisor;
            *last = value.into();
            let below = &mut z[k + 1..];
            below.fill(T::of(0.0));
            let columns = a[(k + 1) * m..].chunks_exact(m).map(|column| &column[k + 1..]);
            add_columns(below, columns, &v[k + 1..]);
            let along = dot(&w[k + 1..], &v[k + 1..]);
            for (z, u) in below.iter_mut().zip(&u[k + 1..]) {
                *z = factor * (*z - along * *u);
            }
        }
        [diagonal, beside]
    }
}

/// Subtracts `u` and `z` times their factors from a column and returns its product with `x`.
#[inline(always)]
fn pass<T: Number>(column: &mut [T], [u, z, x]: [&[T]; 3], [of_u, of_z]: [T; 2]) -> T {
    let (columns, left) = column.as_chunks_mut::<TOGETHER>();
    let [(us, u), (zs, z), (xs, x)] = [u, z, x].map(|all| all.as_chunks::<TOGETHER>());
    let mut sums = [T::of(0.0); TOGETHER];
    for (((column, u), z), x) in columns.iter_mut().zip(us).zip(zs).zip(xs) {
        // Written when all is read: the compiler does not see that the slices lie apart.
        let mut values = *column;
        for lane in 0..TOGETHER {
            values[lane] = values[lane] - u[lane] * of_u - z[lane] * of_z;
        }
        for lane in 0..TOGETHER {
            sums[lane] += values[lane] * x[lane];
        }
        *column = values;
    }
    subtract(left, [u, z], [of_u, of_z]);
    sum(sums) + dot(left, x)
}

/// Adds columns times their factors, some at a time.
#[inline(always)]
fn add_columns<'a, T: Number + 'a>(
    to: &mut [T],
    mut columns: impl Iterator<Item = &'a [T]>,
    factors: &[T],
) {
    let (groups, left) = factors.as_chunks::<ABREAST>();
    for &[f, g, h, i] in groups {
        let [Some(a), Some(b), Some(c), Some(d)] = [(); ABREAST].map(|()| columns.next()) else {
            return;
        };
        for ((((to, a), b), c), d) in to.iter_mut().zip(a).zip(b).zip(c).zip(d) {
            *to += *a * f + *b * g + *c * h + *d * i;
        }
    }
    for (&factor, column) in left.iter().zip(columns) {
        for (to, x) in to.iter_mut().zip(column) {
            *to += *x * factor;
        }
    }
}

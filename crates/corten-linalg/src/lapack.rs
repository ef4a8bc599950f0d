//! The algorithms under LAPACK's names, compiled here for each type of numbers.

use crate::blas::Blas;
use crate::number::Number;
use crate::sytrf::PivotRows;
use crate::trtrs::{Triangle, trtrs_columns, trtrs_rows};
use crate::{geqrf, getrf, getri, potrf, sytrf};
use faer::MatRef;
use num_complex::Complex;

/// What of a triangular matrix is read.
#[derive(Clone, Copy, Debug)]
pub struct Triangular {
    /// The upper or the lower triangle.
    pub upper: bool,
    /// Whether its diagonal is taken as ones.
    pub unit: bool,
    /// Whether the triangle is that of the transpose.
    pub transposed: bool,
}

/// Right-hand sides of which columns, or the rows of so many columns, lie one behind the other.
pub enum RightHandSides<'a, T> {
    /// Columns.
    Columns(&'a mut [T]),
    /// Rows, of as many numbers.
    Rows(&'a mut [T], usize),
}

/// Factorisations of matrices that lie by columns without gaps, and what is solved with them. Slices have the
/// lengths that the shapes ask for.
pub trait Lapack: Number {
    /// `A = Q R`: `R` on and above the diagonal of a matrix by columns of `rows` numbers, below it the vectors of
    /// the Householder reflectors with `tau`, as many as there are rows or columns.
    fn geqrf(blas: &dyn Blas<Self>, a: &mut [Self], rows: usize, tau: &mut [Self]);

    /// Multiplies columns of `rows` numbers with `Q`, or its adjoint, from the left. The vectors of the reflectors
    /// are columns of as many numbers.
    fn ormqr(
        blas: &dyn Blas<Self>,
        vectors: &[Self],
        rows: usize,
        tau: &[Self],
        x: &mut [Self],
        adjoint: bool,
    );

    /// `P A = L U` of a matrix by rows, to one by columns; `pivots` are the rows that were exchanged, counted
    /// from 1. Gives the first zero of the diagonal of `U`, counted from 1, or 0.
    fn getrf(
        blas: &dyn Blas<Self>,
        source: &[Self],
        shape: [usize; 2],
        out: &mut [Self],
        pivots: &mut [i32],
    ) -> i32;

    /// Replaces columns of right-hand sides by the solution, given the factors and the pivots, which must be
    /// rows; with the transpose of the matrix, the conjugate, or the adjoint.
    fn getrs(
        blas: &dyn Blas<Self>,
        factors: &[Self],
        pivots: &[i32],
        x: &mut [Self],
        transposed: bool,
        conjugated: bool,
    );

    /// The inverse of a matrix by rows, to one by columns. Gives the first zero of the diagonal of `U`, counted
    /// from 1, or 0.
    fn getri(
        blas: &dyn Blas<Self>,
        n: usize,
        source: &[Self],
        out: &mut [Self],
        pivots: &mut [i32],
    ) -> i32;

    /// Replaces a matrix, of which the lower triangle is read, by its Cholesky factor. Gives the order of the
    /// first minor that is not positive, or 0.
    fn potrf(blas: &dyn Blas<Self>, n: usize, a: &mut [Self]) -> i32;

    /// Replaces right-hand sides by the solution with a triangle of a matrix of `n` columns.
    fn trtrs(
        blas: &dyn Blas<Self>,
        n: usize,
        a: &[Self],
        triangle: Triangular,
        x: RightHandSides<'_, Self>,
    );

    /// `A = L D Lᵀ`, or `L D Lᴴ`, of a matrix of which the lower triangle is read. Gives the first zero of the
    /// diagonal of `D`, counted from 1, or 0.
    fn sytrf(n: usize, a: &mut [Self], pivots: &mut [i32], hermitian: bool) -> i32;

    /// Replaces columns of right-hand sides by the solution, given the factors and the blocks of `D`.
    fn sytrs(
        blas: &dyn Blas<Self>,
        n: usize,
        factors: &[Self],
        blocks: &[PivotRows],
        x: &mut [Self],
        hermitian: bool,
    );
}

macro_rules! lapack {
    ($($t:ty)+) => {$(
        impl Lapack for $t {
            fn geqrf(blas: &dyn Blas<Self>, a: &mut [Self], rows: usize, tau: &mut [Self]) {
                geqrf::geqrf(blas, a, rows, tau);
            }

            fn ormqr(
                blas: &dyn Blas<Self>,
                vectors: &[Self],
                rows: usize,
                tau: &[Self],
                x: &mut [Self],
                adjoint: bool,
            ) {
                geqrf::ormqr(blas, (vectors, rows), tau, x, adjoint);
            }

            fn getrf(
                blas: &dyn Blas<Self>,
                source: &[Self],
                shape: [usize; 2],
                out: &mut [Self],
                pivots: &mut [i32],
            ) -> i32 {
                getrf::getrf(blas, source, shape, out, pivots)
            }

            fn getrs(
                blas: &dyn Blas<Self>,
                factors: &[Self],
                pivots: &[i32],
                x: &mut [Self],
                transposed: bool,
                conjugated: bool,
            ) {
                getrf::getrs(blas, (factors, pivots), x, transposed, conjugated);
            }

            fn getri(
                blas: &dyn Blas<Self>,
                n: usize,
                source: &[Self],
                out: &mut [Self],
                pivots: &mut [i32],
            ) -> i32 {
                getri::getri(blas, n, source, out, pivots)
            }

            fn potrf(blas: &dyn Blas<Self>, n: usize, a: &mut [Self]) -> i32 {
                potrf::potrf(blas, n, a)
            }

            fn trtrs(
                blas: &dyn Blas<Self>,
                n: usize,
                a: &[Self],
                triangle: Triangular,
                x: RightHandSides<'_, Self>,
            ) {
                let factors = MatRef::from_column_major_slice(a, n, n);
                let Triangular { upper, unit, transposed } = triangle;
                let factors = if transposed { factors.transpose() } else { factors };
                let triangle = Triangle { factors, upper, unit, conjugated: false };
                match x {
                    RightHandSides::Columns(x) => trtrs_columns(blas, &triangle, x),
                    RightHandSides::Rows(x, cols) => trtrs_rows(blas, &triangle, x, cols),
                }
            }

            fn sytrf(n: usize, a: &mut [Self], pivots: &mut [i32], hermitian: bool) -> i32 {
                sytrf::sytrf(n, a, pivots, hermitian)
            }

            fn sytrs(
                blas: &dyn Blas<Self>,
                n: usize,
                factors: &[Self],
                blocks: &[PivotRows],
                x: &mut [Self],
                hermitian: bool,
            ) {
                sytrf::sytrs(blas, n, (factors, blocks), x, hermitian);
            }
        }
    )+};
}

lapack! { f32 f64 Complex<f32> Complex<f64> }

#[cfg(test)]
mod tests {
    use super::{Lapack, RightHandSides, Triangular};
    use crate::sytrf::PivotRows;
    use crate::test_matrices::{ALONE, scattered_from};
    use num_complex::{Complex, ComplexFloat};

    type C = Complex<f64>;

    const SIZES: [usize; 7] = [1, 2, 7, 16, 33, 70, 130];

    fn complex(count: usize) -> Vec<C> {
        let parts = scattered_from(3, 2 * count);
        parts.chunks_exact(2).map(|parts| C::new(parts[0], parts[1])).collect()
    }

    /// The product of matrices by columns, of so many rows and steps.
    fn product(a: &[C], b: &[C], rows: usize, steps: usize) -> Vec<C> {
        let cols = b.len() / steps;
        let at = |i: usize, j: usize| (0..steps).map(|k| a[k * rows + i] * b[j * steps + k]).sum();
        (0..rows * cols).map(|place| at(place % rows, place / rows)).collect()
    }

    fn adjoint(a: &[C], rows: usize) -> Vec<C> {
        let cols = a.len() / rows;
        (0..a.len()).map(|at| a[at % cols * rows + at / cols].conj()).collect()
    }

    fn farthest(a: &[C], b: &[C]) -> f64 {
        assert_eq!(a.len(), b.len());
        a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
    }

    fn identity(n: usize) -> Vec<C> {
        (0..n * n).map(|at| C::new(f64::from(u8::from(at % (n + 1) == 0)), 0.0)).collect()
    }

    #[test]
    fn orthogonal_factors_of_every_shape() {
        for [rows, cols] in [[1, 1], [3, 2], [2, 3], [40, 40], [70, 20], [20, 70], [130, 90]] {
            let a = complex(rows * cols);
            let (mut factors, count) = (a.clone(), rows.min(cols));
            let mut tau = vec![C::default(); count];
            C::geqrf(&ALONE, &mut factors, rows, &mut tau);
            let upper = |at: usize| if at % rows <= at / rows { factors[at] } else { C::default() };
            let mut found: Vec<C> = (0..a.len()).map(upper).collect();
            let vectors = &factors[..rows * count];
            C::ormqr(&ALONE, vectors, rows, &tau, &mut found, false);
            assert!(farthest(&found, &a) < 1e-13 * rows as f64, "{rows} {cols}");
            let mut q = identity(rows);
            C::ormqr(&ALONE, vectors, rows, &tau, &mut q, false);
            C::ormqr(&ALONE, vectors, rows, &tau, &mut q, true);
            assert!(farthest(&q, &identity(rows)) < 1e-13 * rows as f64, "{rows} {cols}");
        }
    }

    #[test]
    fn reflectors_keep_the_largest_and_the_smallest_numbers() {
        for size in [1e300, 1e160, 1e-160, 1e-300, 5e-324] {
            let a: Vec<f64> = [3.0, 4.0, 12.0].iter().map(|x| x * size).collect();
            let (mut factors, mut tau) = (a.clone(), [0.0]);
            f64::geqrf(&ALONE, &mut factors, 3, &mut tau);
            assert!((factors[0] / (-13.0 * size) - 1.0).abs() < 1e-14, "{size:e}: {}", factors[0]);
        }
        let (mut zeros, mut tau) = ([2.0, 0.0, 0.0], [1.0]);
        f64::geqrf(&ALONE, &mut zeros, 3, &mut tau);
        assert_eq!((zeros, tau), ([2.0, 0.0, 0.0], [0.0]));
        let (mut nan, mut tau) = ([1.0, f64::NAN], [0.0]);
        f64::geqrf(&ALONE, &mut nan, 2, &mut tau);
        assert!(nan[0].is_nan());
    }

    #[test]
    fn systems_and_inverses_by_lu() {
        for n in SIZES {
            let a = complex(n * n);
            let rows: Vec<C> = (0..n * n).map(|at| a[at % n * n + at / n]).collect();
            let (mut factors, mut pivots) = (vec![C::default(); n * n], vec![0; n]);
            assert_eq!(C::getrf(&ALONE, &rows, [n, n], &mut factors, &mut pivots), 0);
            for cols in [1, 3, 40] {
                let b = complex(n * cols);
                for (transposed, conjugated) in [(false, false), (true, false), (true, true)] {
                    let mut x = b.clone();
                    C::getrs(&ALONE, &factors, &pivots, &mut x, transposed, conjugated);
                    let matrix = match (transposed, conjugated) {
                        (false, _) => a.clone(),
                        (true, true) => adjoint(&a, n),
                        _ => rows.clone(),
                    };
                    let size = x.iter().map(|x| x.abs()).fold(1.0, f64::max);
                    assert!(farthest(&product(&matrix, &x, n, n), &b) < 1e-12 * size, "{n}");
                }
            }
            let mut inverse = vec![C::default(); n * n];
            assert_eq!(C::getri(&ALONE, n, &rows, &mut inverse, &mut pivots), 0);
            assert!(farthest(&product(&a, &inverse, n, n), &identity(n)) < 1e-10, "{n}");
        }
    }

    #[test]
    fn zero_pivots_are_found() {
        let (mut factors, mut pivots) = ([0.0; 4], [0; 2]);
        assert_eq!(f64::getrf(&ALONE, &[1.0, 2.0, 2.0, 4.0], [2, 2], &mut factors, &mut pivots), 2);
        assert_eq!((factors, pivots), ([2.0, 0.5, 4.0, 0.0], [2, 2]));
        let mut a = [4.0, 2.0, 2.0, 1.0];
        assert_eq!(f64::potrf(&ALONE, 2, &mut a), 2);
    }

    #[test]
    fn positive_definite_and_indefinite_matrices() {
        for n in SIZES {
            let b = complex(n * n);
            let square = product(&b, &adjoint(&b, n), n, n);
            let a: Vec<C> = square.iter().zip(identity(n)).map(|(x, one)| x + one).collect();
            let mut lower = a.clone();
            assert_eq!(C::potrf(&ALONE, n, &mut lower), 0);
            assert!(farthest(&product(&lower, &adjoint(&lower, n), n, n), &a) < 1e-12 * n as f64);
            let hermitian: Vec<C> = b.iter().zip(adjoint(&b, n)).map(|(x, y)| x + y).collect();
            let (mut factors, mut pivots) = (hermitian.clone(), vec![0; n]);
            assert_eq!(C::sytrf(n, &mut factors, &mut pivots, true), 0);
            let (mut blocks, mut k) = (Vec::new(), 0);
            while k < n {
                let width = if pivots[k] > 0 { 1 } else { 2 };
                let row = pivots[k].unsigned_abs() as usize - 1;
                blocks.push(PivotRows { k, width, row });
                k += width;
            }
            let right = complex(n * 3);
            let mut x = right.clone();
            C::sytrs(&ALONE, n, &factors, &blocks, &mut x, true);
            let size = x.iter().map(|x| x.abs()).fold(1.0, f64::max);
            assert!(farthest(&product(&hermitian, &x, n, n), &right) < 1e-12 * size * n as f64);
        }
    }

    #[test]
    fn triangles_of_every_kind() {
        for n in SIZES {
            let mut a = complex(n * n);
            a.iter_mut().step_by(n + 1).for_each(|x| *x += C::new(n as f64, 0.0));
            for kind in 0..8 {
                let [upper, unit, transposed] = [1, 2, 4].map(|bit| kind & bit != 0);
                // What is seen after the transposition.
                let seen = |row: usize, col: usize| {
                    let value = if transposed { a[row * n + col] } else { a[col * n + row] };
                    match row.cmp(&col) {
                        std::cmp::Ordering::Equal if unit => C::new(n as f64, 0.0),
                        std::cmp::Ordering::Equal => value,
                        std::cmp::Ordering::Less if upper => value,
                        std::cmp::Ordering::Greater if !upper => value,
                        _ => C::default(),
                    }
                };
                let matrix: Vec<C> = (0..n * n).map(|at| seen(at % n, at / n)).collect();
                // A diagonal of ones is one of n for the scaled triangle.
                let scaled: Vec<C> = a.iter().map(|x| x / n as f64).collect();
                let held = if unit { &scaled } else { &a };
                for cols in [1, 2, 37] {
                    let b = complex(n * cols);
                    let triangle = Triangular { upper, unit, transposed };
                    let mut x = b.clone();
                    C::trtrs(&ALONE, n, held, triangle, RightHandSides::Columns(&mut x));
                    let factor = if unit { n as f64 } else { 1.0 };
                    let back: Vec<C> =
                        product(&matrix, &x, n, n).iter().map(|x| x / factor).collect();
                    assert!(farthest(&back, &b) < 1e-12 * n as f64, "{n} {kind} {cols}");
                    let mut rows: Vec<C> =
                        (0..n * cols).map(|at| b[at % cols * n + at / cols]).collect();
                    C::trtrs(&ALONE, n, held, triangle, RightHandSides::Rows(&mut rows, cols));
                    let columns: Vec<C> =
                        (0..n * cols).map(|at| rows[at % n * cols + at / n]).collect();
                    assert!(farthest(&columns, &x) < 1e-13, "{n} {kind} {cols}");
                }
            }
        }
    }
}

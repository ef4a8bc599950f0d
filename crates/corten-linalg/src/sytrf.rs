//! Factors `L D Lᵀ` or `L D Lᴴ` of indefinite matrices: LAPACK's `sytrf` and `hetrf`, and the systems solved with
//! them, `sytrs` and `hetrs`; J. Bunch and L. Kaufman, "Some stable methods for calculating inertia and solving
//! symmetric linear systems", 1977. The lower triangle is read, and blocks of two have negative pivots.

use crate::blas::{Blas, Kernel, vectorised};
use crate::number::Number;
use num_complex::ComplexFloat;

/// `sytrf` or `hetrf`: replaces a matrix by columns by its factors. Gives the first zero of the diagonal of `D`,
/// counted from 1, or 0.
pub(crate) fn sytrf<T: Number>(n: usize, a: &mut [T], pivots: &mut [i32], hermitian: bool) -> i32 {
    for col in 1..n {
        a[col * n..][..col].fill(T::default());
    }
    Factor { a, n, hermitian }.run(pivots)
}

/// A matrix that is being factored.
struct Factor<'a, T> {
    a: &'a mut [T],
    n: usize,
    hermitian: bool,
}

/// The rows of a step: a block of one or two, and the row that comes there.
struct PivotBlock {
    row: usize,
    width: usize,
}

impl<T: Number> Factor<'_, T> {
    fn at(&self, row: usize, col: usize) -> T {
        self.a[col * self.n + row]
    }

    fn put(&mut self, row: usize, col: usize, value: T) {
        self.a[col * self.n + row] = value;
    }

    /// The transpose or the adjoint of a number.
    fn turned(&self, value: T) -> T {
        if self.hermitian { value.conj() } else { value }
    }

    fn swap(&mut self, first: (usize, usize), second: (usize, usize)) {
        self.a.swap(first.1 * self.n + first.0, second.1 * self.n + second.0);
    }

    /// The size of a diagonal element, of which only the real part counts if Hermitian.
    fn diagonal_size(&self, k: usize) -> T::Real {
        let value = self.at(k, k);
        if self.hermitian { T::real(value.re()).size() } else { value.size() }
    }

    fn run(&mut self, pivots: &mut [i32]) -> i32 {
        let mut info = 0;
        let mut k = 0;
        while k < self.n {
            let Some(step) = self.choose(k) else {
                if info == 0 {
                    info = k as i32 + 1;
                }
                self.make_real(k);
                pivots[k] = k as i32 + 1;
                k += 1;
                continue;
            };
            self.exchange(k, &step);
            if step.width == 1 {
                self.eliminate_one(k);
                pivots[k] = step.row as i32 + 1;
            } else {
                self.eliminate_two(k);
                pivots[k] = -(step.row as i32 + 1);
                pivots[k + 1] = pivots[k];
            }
            k += step.width;
        }
        info
    }

    fn make_real(&mut self, k: usize) {
        if self.hermitian {
            let value = T::real(self.at(k, k).re());
            self.put(k, k, value);
        }
    }

    /// Row and size of the next block; `None` for a column of zeros.
    fn choose(&self, k: usize) -> Option<PivotBlock> {
        let zero = T::zero().re();
        let alpha = T::constant((1.0 + 17f64.sqrt()) / 8.0);
        let own = self.diagonal_size(k);
        let (mut largest, mut most) = (k, zero);
        for i in k + 1..self.n {
            if self.at(i, k).size() > most {
                (largest, most) = (i, self.at(i, k).size());
            }
        }
        if (own == zero && most == zero) || ComplexFloat::is_nan(own) {
            return None;
        }
        if own >= alpha * most {
            return Some(PivotBlock { row: k, width: 1 });
        }
        let mut in_row = zero;
        for j in k..largest {
            in_row = if self.at(largest, j).size() > in_row {
                self.at(largest, j).size()
            } else {
                in_row
            };
        }
        for i in largest + 1..self.n {
            in_row = if self.at(i, largest).size() > in_row {
                self.at(i, largest).size()
            } else {
                in_row
            };
        }
        Some(if own >= alpha * most * (most / in_row) {
            PivotBlock { row: k, width: 1 }
        } else if self.diagonal_size(largest) >= alpha * in_row {
            PivotBlock { row: largest, width: 1 }
        } else {
            PivotBlock { row: largest, width: 2 }
        })
    }

    /// Exchanges two rows and the same columns of what is left.
    fn exchange(&mut self, k: usize, step: &PivotBlock) {
        let (to, from) = (k + step.width - 1, step.row);
        if to != from {
            for i in from + 1..self.n {
                self.swap((i, to), (i, from));
            }
            for j in to + 1..from {
                let (column, row) = (self.at(j, to), self.at(from, j));
                let (column, row) = (self.turned(column), self.turned(row));
                self.put(j, to, row);
                self.put(from, j, column);
            }
            let corner = self.turned(self.at(from, to));
            self.put(from, to, corner);
            self.swap((to, to), (from, from));
            if step.width == 2 {
                self.swap((k + 1, k), (from, k));
            }
            self.make_real(from);
        }
        self.make_real(k);
        self.make_real(to);
    }

    fn eliminate_one(&mut self, k: usize) {
        let (n, hermitian, pivot) = (self.n, self.hermitian, self.at(k, k));
        let (done, rest) = self.a.split_at_mut((k + 1) * n);
        let column = &mut done[k * n + k + 1..];
        for (j, target) in rest.chunks_exact_mut(n).enumerate() {
            let of_row = if hermitian { column[j].conj() } else { column[j] };
            subtract_multiple(&mut target[k + 1 + j..], of_row.over(pivot), &column[j..]);
        }
        column.iter_mut().for_each(|value| *value = value.over(pivot));
        (k + 1..n).for_each(|j| self.make_real(j));
    }

    /// Eliminates with a block of two.
    fn eliminate_two(&mut self, k: usize) {
        let (n, hermitian, below) = (self.n, self.hermitian, self.at(k + 1, k));
        let turned = |value: T| if hermitian { value.conj() } else { value };
        let beside = turned(below);
        // Everything is scaled by the element off the diagonal, the largest one.
        let first = self.at(k, k).over(beside);
        let second = self.at(k + 1, k + 1).over(below);
        let determinant = first * second - T::one();
        let (done, rest) = self.a.split_at_mut((k + 2) * n);
        let (of_first, of_second) = done[k * n..].split_at_mut(n);
        for (j, target) in (k + 2..).zip(rest.chunks_exact_mut(n)) {
            let (x, y) = (of_first[j], of_second[j]);
            let left = (second * x - y).over(determinant).over(beside);
            let right = (first * y - x).over(determinant).over(below);
            let columns = [(&of_first[j..], turned(left)), (&of_second[j..], turned(right))];
            subtract_multiples(&mut target[j..], columns);
            (of_first[j], of_second[j]) = (left, right);
        }
        (k + 2..n).for_each(|j| self.make_real(j));
    }
}

/// Subtracts multiples of two columns, one after the other.
fn subtract_multiples<T: Number>(to: &mut [T], columns: [(&[T], T); 2]) {
    vectorised(TwoMultiples { to, columns });
}

struct TwoMultiples<'a, T> {
    to: &'a mut [T],
    columns: [(&'a [T], T); 2],
}

impl<T: Number> Kernel for TwoMultiples<'_, T> {
    type Out = ();

    #[inline(always)]
    fn run(self) {
        let [(x, left), (y, right)] = self.columns;
        for ((to, &x), &y) in self.to.iter_mut().zip(x).zip(y) {
            *to = *to - x * left - y * right;
        }
    }
}

/// `to -= factor * from`.
fn subtract_multiple<T: Number>(to: &mut [T], factor: T, from: &[T]) {
    vectorised(Multiple { to, factor, from });
}

struct Multiple<'a, T> {
    to: &'a mut [T],
    factor: T,
    from: &'a [T],
}

impl<T: Number> Kernel for Multiple<'_, T> {
    type Out = ();

    #[inline(always)]
    fn run(self) {
        self.to.iter_mut().zip(self.from).for_each(|(to, &from)| *to = *to - from * self.factor);
    }
}

/// A block of `D`.
#[derive(Clone, Copy, Debug)]
pub struct PivotRows {
    /// Its first row.
    pub k: usize,
    /// The number of its rows.
    pub width: usize,
    /// The row that was exchanged with its last one.
    pub row: usize,
}

/// `sytrs` or `hetrs`: replaces columns of `n` numbers by the solution, given the factors by columns.
pub(crate) fn sytrs<T: Number>(
    blas: &dyn Blas<T>,
    n: usize,
    (a, blocks): (&[T], &[PivotRows]),
    x: &mut [T],
    hermitian: bool,
) {
    let solver = Solver { a, blocks, hermitian };
    x.chunks_mut(n * WIDTH).for_each(|columns| solver.solve_columns(blas, n, columns));
}

/// The factors of one matrix.
struct Solver<'a, T> {
    a: &'a [T],
    blocks: &'a [PivotRows],
    hermitian: bool,
}

impl<T: Number> Solver<'_, T> {
    fn turned(&self, value: T) -> T {
        if self.hermitian { value.conj() } else { value }
    }

    /// Solves for up to `WIDTH` columns of `n` elements, row by row of all of them.
    fn solve_columns(&self, blas: &dyn Blas<T>, n: usize, columns: &mut [T]) {
        let mut rows = blas.zeros(n * WIDTH);
        let (rows, _) = rows.as_chunks_mut::<WIDTH>();
        for (place, column) in columns.chunks_exact(n).enumerate() {
            rows.iter_mut().zip(column).for_each(|(row, &x)| row[place] = x);
        }
        vectorised(Rows { solver: self, n, rows: &mut *rows });
        for (place, column) in columns.chunks_exact_mut(n).enumerate() {
            column.iter_mut().zip(&*rows).for_each(|(x, row)| *x = row[place]);
        }
    }

    #[inline(always)]
    fn solve(&self, n: usize, x: &mut [[T; WIDTH]]) {
        for &PivotRows { k, width, row } in self.blocks {
            x.swap(k + width - 1, row);
            for j in k..k + width {
                let value = x[j];
                let below = k + width..n;
                for (x, &l) in x[below.clone()].iter_mut().zip(&self.a[j * n..][below]) {
                    subtract(x, l, value);
                }
            }
            if width == 1 {
                let diagonal = self.a[k * n + k];
                x[k] = x[k].map(|x| x.over(diagonal));
            } else {
                self.solve_block(n, k, x);
            }
        }
        for &PivotRows { k, width, row } in self.blocks.iter().rev() {
            for j in k..k + width {
                let mut value = x[j];
                let below = k + width..n;
                for (&row, &l) in x[below.clone()].iter().zip(&self.a[j * n..][below]) {
                    subtract(&mut value, self.turned(l), row);
                }
                x[j] = value;
            }
            x.swap(k + width - 1, row);
        }
    }

    #[inline(always)]
    fn solve_block(&self, n: usize, k: usize, x: &mut [[T; WIDTH]]) {
        let below = self.a[k * n + k + 1];
        let beside = self.turned(below);
        let first = self.a[k * n + k].over(beside);
        let second = self.a[(k + 1) * n + k + 1].over(below);
        let determinant = first * second - T::one();
        let [upper, lower] = &mut x[k..k + 2] else { return };
        for (upper, lower) in upper.iter_mut().zip(lower) {
            let (top, bottom) = (upper.over(beside), lower.over(below));
            *upper = (second * top - bottom).over(determinant);
            *lower = (first * bottom - top).over(determinant);
        }
    }
}

/// The rows of right-hand sides.
struct Rows<'a, T> {
    solver: &'a Solver<'a, T>,
    n: usize,
    rows: &'a mut [[T; WIDTH]],
}

impl<T: Number> Kernel for Rows<'_, T> {
    type Out = ();

    #[inline(always)]
    fn run(self) {
        self.solver.solve(self.n, self.rows);
    }
}

/// Right-hand sides that are solved for at a time.
const WIDTH: usize = 8;

/// Subtracts a multiple of a row.
#[inline(always)]
fn subtract<T: Number>(row: &mut [T; WIDTH], factor: T, other: [T; WIDTH]) {
    row.iter_mut().zip(other).for_each(|(x, other)| *x = *x - factor * other);
}

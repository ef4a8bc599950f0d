//! Factors `L D Lᵀ` or `L D Lᴴ` of indefinite matrices, after Bunch and Kaufman, in LAPACK's
//! conventions: from the lower triangle, with negative pivots for blocks of two.

use super::matrices::{
    Number, each, each_with_two, fitted, fitted_vectors, in_columns, reading, reading_columns,
    shape,
};
use crate::kernels::support::contiguous;
use crate::rows::loops::{RowKernel, Vectorised, compiled};
use crate::vec::Lanes;
use corten_core::{Result, cast, ensure, match_dtype, unwinding};
use corten_ops::meta::linalg as shapes;
use corten_ops::{Tensor, op};
use num_complex::ComplexFloat;

/// The factors in one matrix, the pivots, and the first zero of the diagonal of `D`.
///
/// # Errors
/// Those of the shapes; `Runtime` where there is a zero, if that is checked; `NotImplemented` for
/// half precision.
pub fn linalg_ldl_factor_ex(
    self_: &Tensor,
    hermitian: bool,
    check_errors: bool,
) -> Result<(Tensor, Tensor, Tensor)> {
    let (out, pivots, info) = shapes::linalg_ldl_factor_ex(self_, hermitian, check_errors)?;
    op::copy_(&out, self_, false)?;
    op::zero_(&info)?;
    let n = shape(self_)?[0];
    let hermitian = hermitian && self_.dtype().is_complex();
    match_dtype!(self_.dtype(), "ldl_factor_kernel_cpu", Blas, T => {
        each_with_two::<T, i32, i32>(&out, (&pivots, n), (&info, 1), |_, a, pivots, info| {
            for col in 1..n {
                a[col * n..][..col].fill(T::default());
            }
            info[0] = Factor { a, n, hermitian }.run(pivots);
            Ok(())
        })
    })?;
    if check_errors {
        shapes::check_info(&info, "torch.linalg.ldl_factor_ex")?;
    }
    Ok((out, pivots, info))
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
        let alpha: T::Real = cast((1.0 + 17f64.sqrt()) / 8.0);
        let own = self.diagonal_size(k);
        let (mut largest, mut most) = (k, zero);
        for i in k + 1..self.n {
            if self.at(i, k).size() > most {
                (largest, most) = (i, self.at(i, k).size());
            }
        }
        if (own == zero && most == zero) || own.is_nan() {
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
fn subtract_multiples<T: Number>(to: &mut [T], [(x, left), (y, right)]: [(&[T], T); 2]) {
    compiled(|| {
        for ((to, &x), &y) in to.iter_mut().zip(x).zip(y) {
            *to = *to - x * left - y * right;
        }
    });
}

/// `to -= factor * from`.
fn subtract_multiple<T: Number>(to: &mut [T], factor: T, from: &[T]) {
    compiled(|| to.iter_mut().zip(from).for_each(|(to, &from)| *to = *to - from * factor));
}

/// Systems with matrices of which the factors are known.
///
/// # Errors
/// Those of the shapes; `Runtime` for pivots that are no rows.
pub fn linalg_ldl_solve(
    ld: &Tensor,
    pivots: &Tensor,
    b: &Tensor,
    hermitian: bool,
) -> Result<Tensor> {
    let out = shapes::linalg_ldl_solve(ld, pivots, b, hermitian)?;
    if out.numel() == 0 {
        return Ok(out);
    }
    op::copy_(&out, b, false)?;
    let sizes = out.sizes();
    let batch = &sizes[..sizes.len() - 2];
    let factors = in_columns(&fitted(ld, batch)?)?;
    let pivots = op::to_dtype(pivots, corten_core::DType::Int32, false, false, None)?;
    let pivots = contiguous(&fitted_vectors(&pivots, batch)?)?;
    let n = shape(&out)?[0];
    let hermitian = hermitian && out.dtype().is_complex();
    match_dtype!(out.dtype(), "ldl_solve_cpu", Blas, T => {
        reading::<i32, _>(&pivots, n, |pivots| reading_columns::<T, _>(&factors, |factors| {
            each::<T>(&out, |i, x| {
                let solver = Solver { a: factors.get(i), blocks: blocks(pivots.get(i))?, hermitian };
                x.chunks_mut(n * WIDTH).for_each(|columns| solver.solve_columns(n, columns));
                Ok(())
            })
        }))
    })?;
    Ok(out)
}

/// The blocks of `D`: first row, width, and the row that was exchanged with the last one.
fn blocks(pivots: &[i32]) -> Result<Vec<(usize, usize, usize)>> {
    let mut found = Vec::new();
    let mut k = 0;
    while k < pivots.len() {
        let width = if pivots[k] > 0 { 1 } else { 2 };
        let row = pivots[k].unsigned_abs() as usize;
        ensure!(
            (1..=pivots.len()).contains(&row) && k + width <= pivots.len(),
            Runtime,
            "Pivots given to ldl_solve must be those of ldl_factor."
        );
        found.push((k, width, row - 1));
        k += width;
    }
    Ok(found)
}

/// The factors of one matrix.
struct Solver<'a, T> {
    a: &'a [T],
    blocks: Vec<(usize, usize, usize)>,
    hermitian: bool,
}

impl<T: Number> Solver<'_, T> {
    fn turned(&self, value: T) -> T {
        if self.hermitian { value.conj() } else { value }
    }

    /// Solves for up to `WIDTH` columns of `n` elements, row by row of all of them.
    fn solve_columns(&self, n: usize, columns: &mut [T]) {
        let mut rows = unwinding::vec([T::zero(); WIDTH], n);
        for (place, column) in columns.chunks_exact(n).enumerate() {
            rows.iter_mut().zip(column).for_each(|(row, &x)| row[place] = x);
        }
        f32::run(Rows { solver: self, n, rows: &mut rows });
        for (place, column) in columns.chunks_exact_mut(n).enumerate() {
            column.iter_mut().zip(&rows).for_each(|(x, row)| *x = row[place]);
        }
    }

    #[inline(always)]
    fn solve(&self, n: usize, x: &mut [[T; WIDTH]]) {
        for &(k, width, row) in &self.blocks {
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
        for &(k, width, row) in self.blocks.iter().rev() {
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

impl<T: Number> RowKernel<f32> for Rows<'_, T> {
    type Out = ();

    #[inline(always)]
    fn run<V: Lanes<Elem = f32>>(self) {
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

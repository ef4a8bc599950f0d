//! The eigenvectors of symmetric tridiagonal matrices, which are divided, solved and joined again.

use crate::secular::{Roots, Secular};
use crate::share::{COLUMNS, alone, share};
use crate::values::SWEEPS;
use crate::{NoConvergence, Run, UNDIVIDED};
use faer::linalg::matmul::matmul;
use faer::traits::RealField;
use faer::{Accum, MatMut, MatRef, Par};
use std::ops::{Add, Div, Mul, Range, Sub};

/// What is off the diagonal is nothing below this, beside a matrix of size one.
const TINY: f64 = 1e-140;

/// Squares below this may have lost digits.
const SMALL_SQUARE: f64 = 1e-280;

/// The numbers of eigenvectors. What is not a product of matrices is computed in double precision.
pub(crate) trait Number:
    RealField
    + Copy
    + Into<f64>
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
{
    /// The distance from 1 to the next number.
    const PRECISION: f64;
    /// How far a root may be from one, relative to the terms of its equation.
    const TOLERANCE: f64;

    fn of(x: f64) -> Self;
}

impl Number for f32 {
    const PRECISION: f64 = f32::EPSILON as f64;
    const TOLERANCE: f64 = 1e-3 * Self::PRECISION;

    fn of(x: f64) -> Self {
        x as f32
    }
}

impl Number for f64 {
    const PRECISION: f64 = f64::EPSILON;
    const TOLERANCE: f64 = f64::EPSILON;

    fn of(x: f64) -> Self {
        x
    }
}

/// The eigenvalues of a symmetric tridiagonal matrix, the smallest first, and the eigenvectors as columns,
/// from its diagonal and what is beside that; of size one or so.
///
/// # Errors
/// Where the iteration does not converge.
pub(crate) fn tridiagonal<T: Number>(
    mut d: Vec<f64>,
    mut e: Vec<f64>,
    run: Run,
) -> Result<(Vec<f64>, Vec<T>), NoConvergence> {
    let n = d.len();
    let mut basis = vec![T::of(0.0); n * n];
    let mut next = basis.clone();
    let (basis_all, next) = (&mut basis[..], &mut next[..]);
    Block { n, first: 0, d: &mut d, e: &mut e, basis: basis_all, next, run }.solve()?;
    Ok((d, basis))
}

/// A block on the diagonal of a matrix of `n` rows.
struct Block<'a, T> {
    n: usize,
    /// The row of the matrix where it begins.
    first: usize,
    /// The diagonal, and the eigenvalues of the blocks in it that are solved.
    d: &'a mut [f64],
    e: &'a mut [f64],
    /// Its columns, which have `n` rows: on their diagonal the bases of the blocks that are solved.
    basis: &'a mut [T],
    /// Room for as much.
    next: &'a mut [T],
    run: Run,
}

/// The rows where a column of two bases side by side is not 0.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Upper,
    Both,
    Lower,
}

/// A column that takes part in a join.
struct Column {
    at: usize,
    pole: f64,
    element: f64,
    part: Part,
}

impl<T: Number> Block<'_, T> {
    fn solve(&mut self) -> Result<(), NoConvergence> {
        let size = self.d.len();
        if size < UNDIVIDED {
            return self.solve_undivided();
        }
        let cut = size / 2;
        let beside = self.e[cut - 1];
        self.d[cut - 1] -= beside.abs();
        self.d[cut] -= beside.abs();
        // Threads are worth it for blocks of some size.
        let run = if size > COLUMNS { self.run } else { alone };
        let mut found = [Ok(()), Ok(())];
        share(run, self.halves(cut).into_iter().zip(&mut found), |(mut block, found)| {
            *found = block.solve();
        });
        found.into_iter().collect::<Result<(), _>>()?;
        self.join(cut, beside);
        Ok(())
    }

    fn halves(&mut self, cut: usize) -> [Block<'_, T>; 2] {
        let (n, first, run) = (self.n, self.first, self.run);
        let (d, e) = (self.d.split_at_mut(cut), self.e.split_at_mut(cut));
        let basis = self.basis.split_at_mut(cut * n);
        let next = self.next.split_at_mut(cut * n);
        let e_upper = &mut e.0[..cut - 1];
        [
            Block { n, first, d: d.0, e: e_upper, basis: basis.0, next: next.0, run },
            Block { n, first: first + cut, d: d.1, e: e.1, basis: basis.1, next: next.1, run },
        ]
    }

    /// Where a column of the block lies in the basis, in its rows.
    fn place(&self, at: usize) -> Range<usize> {
        let start = at * self.n + self.first;
        start..start + self.d.len()
    }

    fn solve_undivided(&mut self) -> Result<(), NoConvergence> {
        let size = self.d.len();
        let mut turned = vec![0.0; size * size];
        turned.iter_mut().step_by(size + 1).for_each(|one| *one = 1.0);
        turn(self.d, self.e, &mut turned)?;
        let mut order: Vec<usize> = (0..size).collect();
        order.sort_unstable_by(|&i, &j| self.d[i].total_cmp(&self.d[j]));
        let values: Vec<f64> = order.iter().map(|&from| self.d[from]).collect();
        self.d.copy_from_slice(&values);
        for (to, from) in order.into_iter().enumerate() {
            let vector = &turned[from * size..][..size];
            let place = self.place(to);
            self.basis[place].iter_mut().zip(vector).for_each(|(to, &x)| *to = T::of(x));
        }
        Ok(())
    }

    /// Makes one solved block of two, with `beside` between them.
    fn join(&mut self, cut: usize, beside: f64) {
        let (mut columns, weight) = self.columns(cut, beside);
        columns.sort_unstable_by(|a, b| a.pole.total_cmp(&b.pole));
        let (kept, done) = self.deflate(columns, weight);
        let poles: Vec<f64> = kept.iter().map(|column| column.pole).collect();
        let squares: Vec<f64> = kept.iter().map(|column| column.element.powi(2)).collect();
        let secular = Secular { poles: &poles, squares: &squares, weight, tolerance: T::TOLERANCE };
        let roots = secular.roots(self.run);
        let size = self.d.len();
        self.multiply(&kept, &roots, cut);
        // The columns of the product, and those that were left out, by value.
        let of_roots = roots.values.iter().enumerate().map(|(j, &value)| (value, j));
        let left_out = done.iter().enumerate().map(|(j, column)| (column.pole, kept.len() + j));
        let mut found: Vec<(f64, usize)> = of_roots.chain(left_out).collect();
        found.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        for (j, column) in done.iter().enumerate() {
            let from = &self.basis[self.place(column.at)];
            self.next[(kept.len() + j) * size..][..size].copy_from_slice(from);
        }
        for (to, (value, from)) in found.into_iter().enumerate() {
            self.d[to] = value;
            let place = self.place(to);
            self.basis[place].copy_from_slice(&self.next[from * size..][..size]);
        }
    }

    /// The matrix that is left in the basis of both blocks: a diagonal, and a vector of length one times
    /// itself with the weight that is returned.
    fn columns(&self, cut: usize, beside: f64) -> (Vec<Column>, f64) {
        let sign = 1.0_f64.copysign(beside);
        let element = |at: usize| {
            let middle = at * self.n + self.first + cut;
            if at < cut { self.basis[middle - 1].into() } else { sign * self.basis[middle].into() }
        };
        let all = 0..self.d.len();
        let square: f64 = all.clone().map(|at| element(at).powi(2)).sum();
        let length = square.sqrt();
        let column = |at: usize| Column {
            at,
            pole: self.d[at],
            element: element(at) / length,
            part: if at < cut { Part::Upper } else { Part::Lower },
        };
        (all.map(column).collect(), beside.abs() * square)
    }

    /// Takes out the columns that are eigenvectors already, or are when they are turned a little: those
    /// with hardly any part in the vector, and all but one of nearly equal values. J. Dongarra and
    /// D. Sorensen, "A fully parallel algorithm for the symmetric eigenvalue problem", 1987.
    fn deflate(&mut self, columns: Vec<Column>, weight: f64) -> (Vec<Column>, Vec<Column>) {
        let largest = columns.iter().fold(0.0_f64, |largest, column| {
            largest.max(column.pole.abs()).max(column.element.abs())
        });
        let tolerance = 8.0 * T::PRECISION * largest;
        let (mut kept, mut done) = (Vec::<Column>::with_capacity(columns.len()), Vec::new());
        for mut column in columns {
            if weight * column.element.abs() <= tolerance {
                done.push(column);
                continue;
            }
            let Some(before) = kept.last_mut() else {
                kept.push(column);
                continue;
            };
            let length = root_of_squares(column.element, before.element);
            let (cosine, sine) = (column.element / length, before.element / length);
            if ((column.pole - before.pole) * cosine * sine).abs() > tolerance {
                kept.push(column);
                continue;
            }
            if before.part != column.part {
                (before.part, column.part) = (Part::Both, Part::Both);
            }
            let (a, b) = (before.pole, column.pole);
            before.pole = a * cosine * cosine + b * sine * sine;
            column.pole = a * sine * sine + b * cosine * cosine;
            column.element = length;
            let places = [before.at, column.at].map(|at| self.place(at));
            let Ok([left, right]) = self.basis.get_disjoint_mut(places) else {
                unreachable!("a column is met once")
            };
            turn_columns(left, right, [cosine, -sine]);
            done.push(std::mem::replace(before, column));
        }
        (kept, done)
    }

    /// Writes the columns that take part, combined to eigenvectors, to the first columns of `next`.
    fn multiply(&mut self, kept: &[Column], roots: &Roots, cut: usize) {
        let (count, size) = (kept.len(), self.d.len());
        if count == 0 {
            return;
        }
        // Without the zeros: upper parts of one kind beside those of both, lower parts likewise.
        let of = |part| kept.iter().enumerate().filter(move |(_, column)| column.part == part);
        let order: Vec<_> =
            [Part::Upper, Part::Both, Part::Lower].into_iter().flat_map(of).collect();
        let uppers = kept.iter().filter(|column| column.part != Part::Lower).count();
        let first_lower = kept.iter().filter(|column| column.part == Part::Upper).count();
        let (basis, n, first) = (&*self.basis, self.n, self.first);
        let gather = |chosen: &[(usize, &Column)], start: usize, height: usize| {
            let column =
                |&(_, column): &(usize, &Column)| &basis[column.at * n + start..][..height];
            chosen.iter().flat_map(column).copied().collect::<Vec<T>>()
        };
        let upper = gather(&order[..uppers], first, cut);
        let lower = gather(&order[first_lower..], first + cut, size - cut);
        let upper = MatRef::from_column_major_slice(&upper, cut, uppers);
        let lower = MatRef::from_column_major_slice(&lower, size - cut, count - first_lower);
        let to = self.next[..count * size].chunks_mut(COLUMNS * size);
        share(self.run, to.zip(roots.vectors.chunks(COLUMNS * count)), |(to, vectors)| {
            let mut factors = vec![T::of(0.0); vectors.len()];
            for (factors, vector) in
                factors.chunks_exact_mut(count).zip(vectors.chunks_exact(count))
            {
                for (factor, &(k, column)) in factors.iter_mut().zip(&order) {
                    *factor = T::of(vector[k] * 1.0_f64.copysign(column.element));
                }
            }
            let columns = vectors.len() / count;
            let factors = MatRef::from_column_major_slice(&factors, count, columns);
            let to = MatMut::from_column_major_slice_mut(to, size, columns);
            let (to_upper, to_lower) = to.split_at_row_mut(cut);
            for (to, gathered, skipped) in [(to_upper, upper, 0), (to_lower, lower, first_lower)] {
                let factors = factors.subrows(skipped, gathered.ncols());
                matmul(to, Accum::Replace, gathered, factors, T::of(1.0), Par::Seq);
            }
        });
    }
}

/// Turns two columns in their plane.
fn turn_columns<T: Number>(left: &mut [T], right: &mut [T], [cosine, sine]: [f64; 2]) {
    for (left, right) in left.iter_mut().zip(right) {
        let [x, y]: [f64; 2] = [(*left).into(), (*right).into()];
        *left = T::of(cosine * x + sine * y);
        *right = T::of(cosine * y - sine * x);
    }
}

/// The length of a vector of no large numbers.
fn root_of_squares(x: f64, y: f64) -> f64 {
    let squares = x * x + y * y;
    if squares > SMALL_SQUARE { squares.sqrt() } else { x.hypot(y) }
}

/// Turns a matrix to a diagonal one: implicit QR steps with the shifts of J. Wilkinson. The turns are put
/// to the columns of `vectors`.
fn turn(d: &mut [f64], e: &mut [f64], vectors: &mut [f64]) -> Result<(), NoConvergence> {
    let (size, mut end, mut left) = (d.len(), d.len(), SWEEPS * d.len());
    while end > 1 {
        let small =
            |k: usize| e[k - 1].abs() <= f64::EPSILON * (d[k - 1].abs() + d[k].abs()) + TINY;
        let start = (1..end).rev().find(|&k| small(k)).unwrap_or(0);
        if start + 1 == end {
            end -= 1;
            continue;
        }
        left = left.checked_sub(1).ok_or(NoConvergence)?;
        let beside = e[end - 2];
        let half = 0.5 * (d[end - 2] - d[end - 1]);
        let shift =
            d[end - 1] - beside * (beside / (half + root_of_squares(half, beside).copysign(half)));
        let (mut x, mut z) = (d[start] - shift, e[start]);
        for k in start..end - 1 {
            let length = root_of_squares(x, z);
            let (cosine, sine) = if length > 0.0 { (x / length, z / length) } else { (1.0, 0.0) };
            if k > start {
                e[k - 1] = length;
            }
            let (p, q, b) = (d[k], d[k + 1], e[k]);
            let (cc, ss, cs) = (cosine * cosine, sine * sine, cosine * sine);
            d[k] = cc * p + 2.0 * cs * b + ss * q;
            d[k + 1] = ss * p - 2.0 * cs * b + cc * q;
            e[k] = (cc - ss) * b + cs * (q - p);
            if k + 2 < end {
                (x, z) = (e[k], sine * e[k + 1]);
                e[k + 1] *= cosine;
            }
            let (left, right) = vectors[k * size..][..2 * size].split_at_mut(size);
            turn_columns(left, right, [cosine, sine]);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{Number, tridiagonal};
    use crate::share::alone;
    use crate::tests::scattered_from;

    /// Diagonals of so many rows with what is beside them: random, constant, with gaps, graded, with
    /// eigenvalues in pairs that differ in the last digit, and hardly coupled, down to
    /// the smallest numbers.
    fn matrices(n: usize) -> Vec<(Vec<f64>, Vec<f64>)> {
        let random = scattered_from(7, 2 * n);
        let (d, e) = (random[..n].to_vec(), random[n + 1..].to_vec());
        let powers = |base: f64, count: usize| -> Vec<f64> {
            (0..count).map(|k| base.powi(k as i32)).collect()
        };
        let middle = |k: usize| (k as f64 - 0.5 * (n - 1) as f64).abs() / n as f64;
        let every =
            |step: usize| (0..n - 1).map(move |k| f64::from(u8::from(k % step != step - 1)));
        vec![
            (d.clone(), e.clone()),
            (vec![0.5; n], vec![0.25; n - 1]),
            (vec![0.0; n], vec![1.0; n - 1]),
            (vec![1.0; n], vec![0.0; n - 1]),
            (d.clone(), vec![0.0; n - 1]),
            (d.clone(), every(5).collect()),
            (powers(0.7, n), powers(0.7, n - 1)),
            ((0..n).map(middle).collect(), vec![1.0 / n as f64; n - 1]),
            ((0..n).map(|k| middle(k % 21) * 4.0).collect(), every(21).map(|x| x + 1e-8).collect()),
            (d.clone(), e.iter().map(|x| x * 1e-9).collect()),
            (vec![1.0; n], e.iter().map(|x| x * 1e-15).collect()),
            (vec![0.0; n], e.iter().map(|x| x * x.abs().powi(400)).collect()),
            (d.iter().map(|x| (x * 4.0).round()).collect(), e.iter().map(|x| x * 1e-4).collect()),
        ]
    }

    fn holds<T: Number>(n: usize, which: usize, (d, e): (Vec<f64>, Vec<f64>)) {
        let (values, basis) = tridiagonal::<T>(d.clone(), e.clone(), alone).unwrap();
        let basis: Vec<f64> = basis.into_iter().map(T::into).collect();
        let largest = d.iter().chain(&e).fold(0.0_f64, |most, x| most.max(x.abs()));
        let bound = 4.0 * (n as f64).sqrt() * T::PRECISION;
        assert!(values.is_sorted(), "{which} of {n}");
        for j in 0..n {
            let vector = &basis[j * n..][..n];
            for i in 0..=j {
                let other = &basis[i * n..][..n];
                let product: f64 = vector.iter().zip(other).map(|(x, y)| x * y).sum();
                let off = product - f64::from(u8::from(i == j));
                assert!(off.abs() <= bound, "{which} of {n}: {i} and {j} {off:e}");
            }
            for i in 0..n {
                let below = if i > 0 { e[i - 1] * vector[i - 1] } else { 0.0 };
                let above = if i + 1 < n { e[i] * vector[i + 1] } else { 0.0 };
                let off = below + d[i] * vector[i] + above - values[j] * vector[i];
                assert!(off.abs() <= bound * largest, "{which} of {n}: value {j} {off:e}");
            }
        }
    }

    #[test]
    fn vectors_of_tridiagonal_matrices() {
        for n in [1, 2, 3, 24, 25, 26, 49, 63, 130, 257] {
            for (which, matrix) in matrices(n).into_iter().enumerate() {
                holds::<f64>(n, which, matrix.clone());
                holds::<f32>(n, which, matrix);
            }
        }
    }
}

//! The eigenvectors of symmetric tridiagonal matrices, which are divided, solved and joined again.

use crate::secular::{Roots, Secular};
use crate::values::SWEEPS;
use crate::{NoConvergence, UNDIVIDED};
use faer::linalg::matmul::matmul;
use faer::traits::ComplexField;
use faer::{Accum, MatMut, MatRef, Par};
use std::ops::Range;

/// What is off the diagonal is nothing below this, beside a matrix of size one.
const TINY: f64 = 1e-140;

/// Squares below this may have lost digits.
const SMALL_SQUARE: f64 = 1e-280;

/// The numbers of eigenvectors. What is not a product of matrices is computed in double precision.
pub(crate) trait Number: ComplexField + Copy + Into<f64> {
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
    d: Vec<f64>,
    e: Vec<f64>,
) -> Result<(Vec<f64>, Vec<T>), NoConvergence> {
    let n = d.len();
    let zeros = vec![T::of(0.0); n * n];
    let mut all = Division { n, d, e, basis: zeros.clone(), next: zeros };
    all.solve(0..n)?;
    Ok((all.d, all.basis))
}

struct Division<T> {
    n: usize,
    /// The diagonal, and the eigenvalues of the blocks that are solved.
    d: Vec<f64>,
    e: Vec<f64>,
    /// Columns: on its diagonal the bases of the blocks that are solved.
    basis: Vec<T>,
    /// Room for as much.
    next: Vec<T>,
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

impl<T: Number> Division<T> {
    /// Solves the block of these rows and columns.
    fn solve(&mut self, rows: Range<usize>) -> Result<(), NoConvergence> {
        if rows.len() < UNDIVIDED {
            return self.solve_undivided(rows);
        }
        let cut = rows.start + rows.len() / 2;
        let beside = self.e[cut - 1];
        self.d[cut - 1] -= beside.abs();
        self.d[cut] -= beside.abs();
        self.solve(rows.start..cut)?;
        self.solve(cut..rows.end)?;
        self.join(rows, cut, beside);
        Ok(())
    }

    /// The columns of a block that are in rows of it, and their rows.
    fn column(&mut self, at: usize, rows: &Range<usize>) -> &mut [T] {
        &mut self.basis[at * self.n..][rows.clone()]
    }

    fn solve_undivided(&mut self, rows: Range<usize>) -> Result<(), NoConvergence> {
        let (start, size) = (rows.start, rows.len());
        let mut turned = vec![0.0; size * size];
        turned.iter_mut().step_by(size + 1).for_each(|one| *one = 1.0);
        let d = &mut self.d[rows.clone()];
        turn(d, &mut self.e[start..][..size.saturating_sub(1)], &mut turned)?;
        let mut order: Vec<usize> = (0..size).collect();
        order.sort_unstable_by(|&i, &j| d[i].total_cmp(&d[j]));
        let values: Vec<f64> = order.iter().map(|&from| d[from]).collect();
        d.copy_from_slice(&values);
        for (to, from) in order.into_iter().enumerate() {
            let vector = &turned[from * size..][..size];
            let column = self.column(start + to, &rows);
            column.iter_mut().zip(vector).for_each(|(to, &x)| *to = T::of(x));
        }
        Ok(())
    }

    /// Makes one solved block of two, with `beside` between them.
    fn join(&mut self, rows: Range<usize>, cut: usize, beside: f64) {
        let (mut columns, weight) = self.columns(&rows, cut, beside);
        columns.sort_unstable_by(|a, b| a.pole.total_cmp(&b.pole));
        let (kept, done) = self.deflate(columns, &rows, weight);
        let poles: Vec<f64> = kept.iter().map(|column| column.pole).collect();
        let squares: Vec<f64> = kept.iter().map(|column| column.element.powi(2)).collect();
        let secular = Secular { poles: &poles, squares: &squares, weight, tolerance: T::TOLERANCE };
        let roots = secular.roots();
        let size = rows.len();
        let mut next = std::mem::take(&mut self.next);
        self.multiply(&kept, &roots, &rows, cut, &mut next[..size * size]);
        // The columns of the product, and those that were left out, by value.
        let of_roots = roots.values.iter().enumerate().map(|(j, &value)| (value, j));
        let left_out = done.iter().enumerate().map(|(j, column)| (column.pole, kept.len() + j));
        let mut found: Vec<(f64, usize)> = of_roots.chain(left_out).collect();
        found.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        for (j, column) in done.iter().enumerate() {
            let to = &mut next[(kept.len() + j) * size..][..size];
            to.copy_from_slice(self.column(column.at, &rows));
        }
        for (to, (value, from)) in rows.clone().zip(found) {
            self.d[to] = value;
            self.column(to, &rows).copy_from_slice(&next[from * size..][..size]);
        }
        self.next = next;
    }

    /// The matrix that is left in the basis of both blocks: a diagonal, and a vector of length one times
    /// itself with the weight that is returned.
    fn columns(&self, rows: &Range<usize>, cut: usize, beside: f64) -> (Vec<Column>, f64) {
        let sign = 1.0_f64.copysign(beside);
        let element = |at: usize| match at < cut {
            true => self.basis[at * self.n + cut - 1].into(),
            false => sign * self.basis[at * self.n + cut].into(),
        };
        let square: f64 = rows.clone().map(|at| element(at).powi(2)).sum();
        let length = square.sqrt();
        let column = |at: usize| Column {
            at,
            pole: self.d[at],
            element: element(at) / length,
            part: if at < cut { Part::Upper } else { Part::Lower },
        };
        (rows.clone().map(column).collect(), beside.abs() * square)
    }

    /// Takes out the columns that are eigenvectors already, or are when they are turned a little: those
    /// with hardly any part in the vector, and all but one of nearly equal values. J. Dongarra and
    /// D. Sorensen, "A fully parallel algorithm for the symmetric eigenvalue problem", 1987.
    fn deflate(
        &mut self,
        columns: Vec<Column>,
        rows: &Range<usize>,
        weight: f64,
    ) -> (Vec<Column>, Vec<Column>) {
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
            let places = [before.at, column.at].map(|at| at * self.n);
            let places = places.map(|first| first + rows.start..first + rows.end);
            let Ok([left, right]) = self.basis.get_disjoint_mut(places) else {
                unreachable!("a column is met once")
            };
            turn_columns(left, right, [cosine, -sine]);
            done.push(std::mem::replace(before, column));
        }
        (kept, done)
    }

    /// Writes the columns that take part, combined to eigenvectors, to the first columns of `to`.
    fn multiply(
        &self,
        kept: &[Column],
        roots: &Roots,
        rows: &Range<usize>,
        cut: usize,
        to: &mut [T],
    ) {
        let (count, size) = (kept.len(), rows.len());
        if count == 0 {
            return;
        }
        // Without the zeros: upper parts of one kind beside those of both, lower parts likewise.
        let of = |part| kept.iter().enumerate().filter(move |(_, column)| column.part == part);
        let order: Vec<_> =
            [Part::Upper, Part::Both, Part::Lower].into_iter().flat_map(of).collect();
        let uppers = kept.iter().filter(|column| column.part != Part::Lower).count();
        let first_lower = kept.iter().filter(|column| column.part == Part::Upper).count();
        let mut factors = vec![T::of(0.0); count * count];
        for (factors, vector) in
            factors.chunks_exact_mut(count).zip(roots.vectors.chunks_exact(count))
        {
            for (factor, &(k, column)) in factors.iter_mut().zip(&order) {
                *factor = T::of(vector[k] * 1.0_f64.copysign(column.element));
            }
        }
        let factors = MatRef::from_column_major_slice(&factors, count, count);
        let to = MatMut::from_column_major_slice_mut(&mut to[..count * size], size, count);
        let (upper, lower) = to.split_at_row_mut(cut - rows.start);
        for (to, chosen, rows) in
            [(upper, 0..uppers, rows.start..cut), (lower, first_lower..count, cut..rows.end)]
        {
            let (height, inner) = (rows.len(), chosen.len());
            let mut gathered = Vec::with_capacity(height * inner);
            for (_, column) in &order[chosen.clone()] {
                gathered.extend_from_slice(&self.basis[column.at * self.n..][rows.clone()]);
            }
            let gathered = MatRef::from_column_major_slice(&gathered, height, inner);
            let factors = factors.subrows(chosen.start, inner);
            matmul(to, Accum::Replace, gathered, factors, T::of(1.0), Par::Seq);
        }
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
        let (values, basis) = tridiagonal::<T>(d.clone(), e.clone()).unwrap();
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

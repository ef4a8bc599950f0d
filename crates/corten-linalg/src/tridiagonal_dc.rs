//! Divide and conquer for eigenvectors of symmetric tridiagonal matrices, LAPACK's `stedc`, after M. Gu and
//! S. Eisenstat, "A divide-and-conquer algorithm for the symmetric tridiagonal eigenproblem", 1995.

use crate::blas::Run;
use crate::dqds::SWEEPS;
use crate::merge::{
    Basis, Column, RowSupport, apply_givens_to_columns, by_part, deflate, ordered, root_of_squares,
    unit,
};
use crate::number::Number;
use crate::parallel::{COLUMNS, alone, share};
use crate::secular::Secular;
use crate::simd_columns::Lanes;
use crate::spectral::{NoConvergence, QR_SIZE};
use faer::traits::RealField;
use std::ops::{Add, Div, Mul, Sub};

/// What is off the diagonal is nothing below this, beside a matrix of size one.
const TINY: f64 = 1e-140;

/// The numbers of eigenvectors. What is not a product of matrices is computed in double precision.
pub(crate) trait Real:
    Number<Real = Self>
    + RealField
    + Lanes
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

impl Real for f32 {
    const PRECISION: f64 = f32::EPSILON as f64;
    const TOLERANCE: f64 = 1e-2 * Self::PRECISION;

    #[inline(always)]
    fn of(x: f64) -> Self {
        x as f32
    }
}

impl Real for f64 {
    const PRECISION: f64 = f64::EPSILON;
    const TOLERANCE: f64 = f64::EPSILON;

    #[inline(always)]
    fn of(x: f64) -> Self {
        x
    }
}

/// The eigenvalues of a symmetric tridiagonal matrix, the smallest first, and the eigenvectors as columns,
/// from its diagonal and what is beside that; of size one or so.
///
/// # Errors
/// Where the iteration does not converge.
pub(crate) fn tridiagonal<T: Real>(
    mut d: Vec<f64>,
    mut e: Vec<f64>,
    run: Run,
) -> Result<(Vec<f64>, Vec<T>), NoConvergence> {
    let n = d.len();
    let mut columns = vec![T::of(0.0); n * n];
    let mut next = columns.clone();
    let basis = Basis::new(n, &mut columns);
    TridiagonalBlock { d: &mut d, e: &mut e, basis, next: &mut next, run }.solve()?;
    Ok((d, columns))
}

/// A block on the diagonal of a matrix.
struct TridiagonalBlock<'a, T> {
    /// The diagonal, and the eigenvalues of the blocks in it that are solved.
    d: &'a mut [f64],
    e: &'a mut [f64],
    basis: Basis<'a, T>,
    /// Room for as many columns.
    next: &'a mut [T],
    run: Run,
}

impl<T: Real> TridiagonalBlock<'_, T> {
    fn solve(&mut self) -> Result<(), NoConvergence> {
        let size = self.d.len();
        if size < QR_SIZE {
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

    fn halves(&mut self, cut: usize) -> [TridiagonalBlock<'_, T>; 2] {
        let (d, e) = (self.d.split_at_mut(cut), self.e.split_at_mut(cut));
        let next = self.next.split_at_mut(self.next.len() / self.basis.size() * cut);
        let [upper, lower] = self.basis.reborrow().split(cut);
        let (run, e_upper) = (self.run, &mut e.0[..cut - 1]);
        [
            TridiagonalBlock { d: d.0, e: e_upper, basis: upper, next: next.0, run },
            TridiagonalBlock { d: d.1, e: e.1, basis: lower, next: next.1, run },
        ]
    }

    fn solve_undivided(&mut self) -> Result<(), NoConvergence> {
        let size = self.d.len();
        let mut turned = unit(size);
        turn(self.d, self.e, &mut turned)?;
        let (values, order) = ordered(self.d, &[], f64::total_cmp);
        self.d.copy_from_slice(&values);
        self.basis.write(&order, &turned);
        Ok(())
    }

    /// Makes one solved block of two, with `beside` between them.
    fn join(&mut self, cut: usize, beside: f64) {
        let (mut columns, weight) = self.columns(cut, beside);
        columns.sort_unstable_by(|a, b| a.pole.total_cmp(&b.pole));
        let (kept, done) = self.deflate(columns, weight);
        let order = by_part(&kept);
        let roots = Secular::<false>::new::<T>(&kept, &order, weight).roots(self.run);
        let chosen: Vec<&Column> = order.iter().map(|&k| &kept[k]).collect();
        let factors = |first, to: &mut [T]| roots.vectors(first, to);
        self.basis.combine(&chosen, cut, self.next, factors, self.run);
        let (values, order) = ordered(&roots.values, &done, f64::total_cmp);
        self.d.copy_from_slice(&values);
        self.basis.arrange(&order, &done, self.next);
    }

    /// The matrix that is left in the basis of both blocks: a diagonal, and a vector of length one times
    /// itself with the weight that is returned.
    fn columns(&self, cut: usize, beside: f64) -> (Vec<Column>, f64) {
        let sign = 1.0_f64.copysign(beside);
        let element = |at: usize| {
            let column = self.basis.column(at);
            if at < cut { column[cut - 1].into() } else { sign * column[cut].into() }
        };
        let all = 0..self.d.len();
        let square: f64 = all.clone().map(|at| element(at).powi(2)).sum();
        let length = square.sqrt();
        let column = |at: usize| Column {
            at,
            pole: self.d[at],
            element: element(at) / length,
            part: if at < cut { RowSupport::Upper } else { RowSupport::Lower },
        };
        (all.map(column).collect(), beside.abs() * square)
    }

    /// Takes out the columns that are eigenvectors already, or are when they are turned a little: those
    /// with hardly any part in the vector, and all but one of nearly equal values.
    fn deflate(&mut self, columns: Vec<Column>, weight: f64) -> (Vec<Column>, Vec<Column>) {
        let largest = columns.iter().fold(0.0_f64, |largest, column| {
            largest.max(column.pole.abs()).max(column.element.abs())
        });
        let tolerance = 8.0 * T::PRECISION * largest;
        let negligible = |element: f64| weight * element.abs() <= tolerance;
        deflate(Vec::new(), columns, negligible, |before, column| {
            let turn = before.merge(column, tolerance);
            turn.map(|turn| self.basis.turn([before.at, column.at], turn)).is_some()
        })
    }
}

/// GivensRotations a matrix to a diagonal one: implicit QR steps with the shifts of J. Wilkinson. The turns are put
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
            apply_givens_to_columns(left, right, [cosine, sine]);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{Real, tridiagonal};
    use crate::parallel::alone;
    use crate::test_matrices::{bands, farthest_from_orthogonal};

    fn holds<T: Real>(n: usize, which: usize, (d, e): (Vec<f64>, Vec<f64>)) {
        let (values, basis) = tridiagonal::<T>(d.clone(), e.clone(), alone).unwrap();
        let basis: Vec<f64> = basis.into_iter().map(T::into).collect();
        let largest = d.iter().chain(&e).fold(0.0_f64, |most, x| most.max(x.abs()));
        let bound = 4.0 * (n as f64).sqrt() * T::PRECISION;
        assert!(values.is_sorted(), "{which} of {n}");
        let off = farthest_from_orthogonal(n, &basis);
        assert!(off <= bound, "{which} of {n}: {off:e}");
        for j in 0..n {
            let vector = &basis[j * n..][..n];
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
            for (which, matrix) in bands(n).into_iter().enumerate() {
                holds::<f64>(n, which, matrix.clone());
                holds::<f32>(n, which, matrix);
            }
        }
    }
}

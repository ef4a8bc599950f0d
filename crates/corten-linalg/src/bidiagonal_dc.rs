//! Divide and conquer for singular vectors of bidiagonal matrices, LAPACK's `bdsdc`, after M. Gu and
//! S. Eisenstat, "A divide-and-conquer algorithm for the bidiagonal SVD", 1995.

use crate::bidiagonal_qr::BidiagonalQr;
use crate::blas::Run;
use crate::merge::{Basis, Column, RowSupport, by_part, deflate, ordered, root_of_squares};
use crate::parallel::{COLUMNS, alone, share};
use crate::secular::Secular;
use crate::spectral::{NoConvergence, Parts, QR_SIZE};
use crate::tridiagonal_dc::Real;

/// The singular values of an upper bidiagonal matrix, the largest first, and the left and right singular
/// vectors as columns, from its diagonal and what is above that; of size one or so.
///
/// # Errors
/// Where the iteration does not converge.
pub(crate) fn bidiagonal<T: Real>(
    mut d: Vec<f64>,
    mut e: Vec<f64>,
    run: Run,
) -> Result<Parts<T>, NoConvergence> {
    let n = d.len();
    let [mut u, mut v, mut next] = [(); 3].map(|()| vec![T::of(0.0); n * n]);
    if n > 0 {
        let (u, v) = (Basis::new(n, &mut u), Basis::new(n, &mut v));
        BidiagonalBlock { n, d: &mut d, e: &mut e, u, v, next: &mut next, run }.solve()?;
    }
    Ok((d, [u, v]))
}

/// A block on the diagonal of a matrix of `n` rows. Where others follow it, it has one column more than
/// rows.
struct BidiagonalBlock<'a, T> {
    n: usize,
    /// The diagonal, and the singular values of the blocks in it that are solved.
    d: &'a mut [f64],
    /// As long as the diagonal, or one shorter.
    e: &'a mut [f64],
    u: Basis<'a, T>,
    /// The right vectors, and behind those of a block with a column more what it maps to 0.
    v: Basis<'a, T>,
    /// Room for as many columns.
    next: &'a mut [T],
    run: Run,
}

impl<T: Real> BidiagonalBlock<'_, T> {
    fn solve(&mut self) -> Result<(), NoConvergence> {
        let size = self.d.len();
        if size < QR_SIZE {
            return self.solve_undivided();
        }
        let cut = size / 2;
        // Threads are worth it for blocks of some size.
        let run = if size > COLUMNS { self.run } else { alone };
        let mut found = [Ok(()), Ok(())];
        share(run, self.halves(cut).into_iter().zip(&mut found), |(mut block, found)| {
            *found = block.solve();
        });
        found.into_iter().collect::<Result<(), _>>()?;
        self.join(cut);
        Ok(())
    }

    /// The blocks above and below a row.
    fn halves(&mut self, cut: usize) -> [BidiagonalBlock<'_, T>; 2] {
        let (n, run) = (self.n, self.run);
        let (d_upper, d_lower) = self.d.split_at_mut(cut);
        let (e_upper, e_lower) = self.e.split_at_mut(cut);
        let [u_upper, u_lower] = self.u.reborrow().split(cut);
        let [_, u_lower] = u_lower.split(1);
        let [v_upper, v_lower] = self.v.reborrow().split(cut + 1);
        let next = self.next.split_at_mut((cut + 1) * n);
        let (d_lower, e_lower) = (&mut d_lower[1..], &mut e_lower[1..]);
        [
            BidiagonalBlock {
                n,
                d: d_upper,
                e: e_upper,
                u: u_upper,
                v: v_upper,
                next: next.0,
                run,
            },
            BidiagonalBlock {
                n,
                d: d_lower,
                e: e_lower,
                u: u_lower,
                v: v_lower,
                next: next.1,
                run,
            },
        ]
    }

    fn solve_undivided(&mut self) -> Result<(), NoConvergence> {
        let solved = BidiagonalQr::new(self.d, self.e, T::TOLERANCE)?;
        let (values, mut order) = ordered(&solved.d, &[], largest_first);
        self.d.copy_from_slice(&values);
        self.u.write(&order, &solved.u);
        order.extend(self.d.len()..self.v.size());
        self.v.write(&order, &solved.v);
        Ok(())
    }

    /// Makes one solved block of two and the row between them.
    fn join(&mut self, cut: usize) {
        let mut columns = self.columns(cut);
        let largest = columns.iter().fold(f64::MIN_POSITIVE, |largest, column| {
            largest.max(column.pole).max(column.element.abs())
        });
        for column in &mut columns {
            column.pole /= largest;
            column.element /= largest;
        }
        let (kept, done) = self.deflate(columns, cut);
        let order = by_part(&kept);
        let roots = Secular::<true>::new::<T>(&kept, &order, 1.0).roots(self.run);
        let chosen: Vec<&Column> = order.iter().map(|&k| &kept[k]).collect();
        let corner = order.iter().position(|&k| k == 0).unwrap_or(0);
        let (values, order) = ordered(&roots.values, &done, largest_first);
        for (to, value) in self.d.iter_mut().zip(values) {
            *to = value * largest;
        }
        let factors = |first, to: &mut [T]| roots.left_vectors(first, corner, to);
        self.u.combine(&chosen, cut + 1, self.next, factors, self.run);
        self.u.arrange(&order, &done, self.next);
        let factors = |first, to: &mut [T]| roots.vectors(first, to);
        self.v.combine(&chosen, cut + 1, self.next, factors, self.run);
        self.v.arrange(&order, &done, self.next);
    }

    /// The matrix that is left between the bases of both blocks: a diagonal, and the first row, which
    /// is the one between the blocks. The poles ascend, the one of the first row being 0.
    fn columns(&mut self, cut: usize) -> Vec<Column> {
        let size = self.d.len();
        let (on, beside) = (self.d[cut], self.e[cut]);
        // What both blocks map to 0 is turned so that the row maps one of two columns to 0 as well.
        let mut first = on * self.v.column(cut)[cut].into();
        let mut part = RowSupport::Upper;
        if self.v.size() > size {
            let other = beside * self.v.column(size)[cut + 1].into();
            let length = root_of_squares(first, other);
            // Quotients of smaller numbers are no cosines.
            if length > f64::MIN_POSITIVE {
                self.v.turn([cut, size], [first / length, other / length]);
            }
            (first, part) = (length, RowSupport::Both);
        }
        self.u.column_mut(cut)[cut] = T::of(1.0);
        let column = |at: usize| {
            let (part, factor) =
                if at < cut { (RowSupport::Upper, on) } else { (RowSupport::Lower, beside) };
            let row = if at < cut { cut } else { cut + 1 };
            Column { at, pole: self.d[at], element: factor * self.v.column(at)[row].into(), part }
        };
        let mut columns = vec![Column { at: cut, pole: 0.0, element: first, part }];
        columns.extend((0..cut).chain(cut + 1..size).map(column));
        columns[1..].sort_by(|a, b| a.pole.total_cmp(&b.pole));
        columns
    }

    /// Takes out the columns that are singular vectors already, or are when they are turned a little: those
    /// with hardly any part in the row, all but one of nearly equal values, and those of hardly any value
    /// but the first.
    fn deflate(&mut self, mut columns: Vec<Column>, cut: usize) -> (Vec<Column>, Vec<Column>) {
        let tolerance = 8.0 * T::PRECISION;
        let rest = columns.split_off(1);
        let negligible = |element: f64| element.abs() <= tolerance;
        let (mut kept, mut done) = deflate(columns, rest, negligible, |before, column| {
            if before.at == cut {
                return self.merge_with_first(before, column, tolerance);
            }
            let Some(turn) = before.merge(column, tolerance) else { return false };
            self.u.turn([before.at, column.at], turn);
            self.v.turn([before.at, column.at], turn);
            true
        });
        match &mut kept[..] {
            [only] => {
                self.u.column_mut(cut)[cut] = T::of(1.0_f64.copysign(only.element));
                only.pole = only.element.abs();
                done.append(&mut kept);
            }
            [first, ..] if negligible(first.element) => {
                first.element = tolerance.copysign(first.element);
            }
            _ => {}
        }
        (kept, done)
    }

    /// Moves the element of a column to the first one where its pole has hardly any part in that then. The
    /// two change places.
    fn merge_with_first(
        &mut self,
        first: &mut Column,
        column: &mut Column,
        tolerance: f64,
    ) -> bool {
        let length = root_of_squares(first.element, column.element).copysign(first.element);
        let (cosine, sine) = (first.element / length, column.element / length);
        if (column.pole * sine).abs() > tolerance {
            return false;
        }
        self.v.turn([first.at, column.at], [cosine, sine]);
        (first.element, first.part) = (length, RowSupport::Both);
        column.pole *= cosine;
        std::mem::swap(first, column);
        true
    }
}

fn largest_first(a: &f64, b: &f64) -> std::cmp::Ordering {
    b.total_cmp(a)
}

#[cfg(test)]
mod tests {
    use super::{Real, bidiagonal};
    use crate::dqds;
    use crate::parallel::alone;
    use crate::test_matrices::{abreast, bands, farthest_from_orthogonal, powers, scattered_band};

    /// Diagonals of so many rows with what is above them: those of other tests, and constant, graded up and
    /// down, with zeros, with singular values in pairs that differ in the last digit, and of the smallest
    /// numbers.
    fn matrices(n: usize) -> Vec<(Vec<f64>, Vec<f64>)> {
        let (d, e) = scattered_band(n);
        let back = |mut values: Vec<f64>| {
            values.reverse();
            values
        };
        let without = |of: &[f64], zeros: &[usize]| {
            let kept = |(k, x): (usize, &f64)| if zeros.contains(&k) { 0.0 } else { *x };
            of.iter().enumerate().map(kept).collect::<Vec<_>>()
        };
        let steep = 1e-300_f64.powf(1.0 / n as f64);
        let small = |by: f64| e.iter().map(|x| x * by).collect::<Vec<_>>();
        let evens: Vec<usize> = (0..n).step_by(2).collect();
        let others = vec![
            (vec![1.0; n], vec![1.0; n - 1]),
            (vec![1.0; n], vec![-1.0; n - 1]),
            (vec![0.0; n], e.clone()),
            (vec![-1.0; n], vec![0.0; n - 1]),
            (vec![0.0; n], vec![0.0; n - 1]),
            (back(powers(0.7, n)), back(powers(0.7, n - 1))),
            (powers(steep, n), powers(steep, n - 1)),
            (back(powers(steep, n)), back(powers(steep, n - 1))),
            (powers(0.9, n), small(1e-3)),
            (without(&d, &[0]), e.clone()),
            (without(&d, &[n / 2]), e.clone()),
            (without(&d, &[n - 1]), e.clone()),
            (without(&d, &evens), e.clone()),
            (without(&d, &[n / 2]), without(&e, &[n / 2])),
            (without(&d, &[n / 2]), without(&e, &[(n / 2).saturating_sub(1)])),
            (without(&d, &[0, n / 2, n - 1]), without(&e, &evens)),
            ((0..n).map(|k| 1.0 + f64::EPSILON * (k % 2) as f64).collect(), small(1e-16)),
            ((0..n).map(|k| 1.0 + f64::EPSILON * (k % 2) as f64).collect(), small(1e-8)),
            (vec![1e-9; n], small(1.0)),
            (vec![1e-200; n], small(1e-200)),
            (vec![1e-323; n], vec![1e-323; n - 1]),
            (small(1e-307).into_iter().chain([0.0]).collect(), small(1e-318)),
            (vec![1.0; n], e.iter().map(|x| x * x.abs().powi(400)).collect()),
            (d.iter().map(|x| x * x.abs().powi(400)).collect(), e.clone()),
        ];
        bands(n).into_iter().chain(others).collect()
    }

    fn holds<T: Real>(n: usize, which: usize, (d, e): (Vec<f64>, Vec<f64>)) {
        let (s, [u, v]) = bidiagonal::<T>(d.clone(), e.clone(), alone).unwrap();
        assert!(
            (s.clone(), [u.clone(), v.clone()])
                == bidiagonal(d.clone(), e.clone(), abreast).unwrap()
        );
        let [u, v] = [u, v].map(|basis| basis.into_iter().map(T::into).collect::<Vec<f64>>());
        let largest = d.iter().chain(&e).fold(0.0_f64, |most, x| most.max(x.abs()));
        let bound = 8.0 * (n as f64).sqrt() * T::PRECISION;
        assert!(s.is_sorted_by(|x, y| x >= y) && s[n - 1] >= 0.0, "{which} of {n}");
        let expected = dqds::singular_values(d.clone(), e.clone()).unwrap();
        // Those come from squares, which underflow.
        for (x, y) in s.iter().zip(&expected) {
            assert!((x - y).abs() <= bound * largest + 1e-138, "{which} of {n}: {x} and not {y}");
        }
        for basis in [&u, &v] {
            let off = farthest_from_orthogonal(n, basis);
            assert!(off <= bound, "{which} of {n}: {off:e}");
        }
        for (j, value) in s.iter().enumerate() {
            let (left, right) = (&u[j * n..][..n], &v[j * n..][..n]);
            for i in 0..n {
                let beside = if i + 1 < n { e[i] * right[i + 1] } else { 0.0 };
                let off = (d[i] * right[i] + beside - value * left[i]).abs();
                assert!(off <= bound * largest + 1e-300, "{which} of {n}: value {j} {off:e}");
            }
        }
    }

    #[test]
    fn vectors_of_bidiagonal_matrices() {
        for n in [1, 2, 3, 5, 23, 24, 25, 47, 64, 100, 255, 300] {
            for (which, matrix) in matrices(n).into_iter().enumerate() {
                holds::<f64>(n, which, matrix.clone());
                holds::<f32>(n, which, matrix);
            }
        }
    }
}

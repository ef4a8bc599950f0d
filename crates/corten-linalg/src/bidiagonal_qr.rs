//! Singular values and vectors of small bidiagonal matrices, by the implicit QR steps of G. Golub and
//! W. Kahan, "Calculating the singular values and pseudo-inverse of a matrix", 1965.

use crate::dqds::SWEEPS;
use crate::merge::{apply_givens_to_columns, root_of_squares, unit};
use crate::spectral::NoConvergence;
use pulp::{Arch, Simd, WithSimd};

/// A matrix whose rows and columns are turned until it is a diagonal.
pub(crate) struct BidiagonalQr {
    /// The diagonal, and at the end the singular values.
    pub d: Vec<f64>,
    /// The left singular vectors as columns.
    pub u: Vec<f64>,
    /// The right ones. Where the matrix has a column more than rows, the last one is what it maps to 0.
    pub v: Vec<f64>,
    e: Vec<f64>,
    /// The rows of `v`.
    height: usize,
    /// What is at most as large is taken for 0.
    negligible: f64,
}

impl BidiagonalQr {
    /// Takes apart the upper bidiagonal matrix with a diagonal and what is above that, of as many columns
    /// as rows or one more. The singular values are in no order, and as far from the true ones as what is
    /// negligible beside the largest element.
    pub(crate) fn new(d: &[f64], e: &[f64], negligible: f64) -> Result<Self, NoConvergence> {
        let largest = d.iter().chain(e).fold(0.0_f64, |most, x| most.max(x.abs()));
        let size = largest.max(f64::MIN_POSITIVE);
        let sized = |part: &[f64]| part.iter().map(|x| x / size).collect();
        let [u, v] = [d.len(), e.len() + 1].map(unit);
        let mut matrix = Self { d: sized(d), e: sized(e), u, v, height: e.len() + 1, negligible };
        Arch::new().dispatch(GivensRotations(&mut matrix))?;
        for (value, vector) in matrix.d.iter_mut().zip(matrix.v.chunks_exact_mut(e.len() + 1)) {
            if *value < 0.0 {
                vector.iter_mut().for_each(|element| *element = -*element);
            }
            *value = value.abs() * size;
        }
        Ok(matrix)
    }

    #[inline(always)]
    fn turn_to_diagonal(&mut self) -> Result<(), NoConvergence> {
        if self.e.len() == self.d.len() {
            self.clear_column(0, self.d.len());
            self.e.pop();
        }
        let (mut end, mut left) = (self.d.len(), SWEEPS * self.d.len());
        while end > 1 {
            let start = (1..end).rev().find(|&k| self.e[k - 1].abs() <= self.negligible);
            let start = start.unwrap_or(0);
            if start + 1 == end {
                end -= 1;
                continue;
            }
            left = left.checked_sub(1).ok_or(NoConvergence)?;
            match (start..end).rev().find(|&k| self.d[k].abs() <= self.negligible) {
                Some(last) if last + 1 == end => self.clear_column(start, last),
                Some(row) => self.clear_row(row, end),
                None => self.step(start, end),
            }
        }
        Ok(())
    }

    /// GivensRotations away what is above the diagonal in a column that has nothing on it, with those from `start`
    /// on.
    #[inline(always)]
    fn clear_column(&mut self, start: usize, column: usize) {
        if let Some(diagonal) = self.d.get_mut(column) {
            *diagonal = 0.0;
        }
        let mut above = std::mem::take(&mut self.e[column - 1]);
        for k in (start..column).rev() {
            let (length, [cosine, sine]) = givens(self.d[k], above);
            self.d[k] = length;
            if k > start {
                above = -sine * self.e[k - 1];
                self.e[k - 1] *= cosine;
            }
            self.turn_right([k, column], [cosine, sine]);
        }
    }

    /// GivensRotations away what is beside the diagonal in a row that has nothing on it, with those before `end`.
    #[inline(always)]
    fn clear_row(&mut self, row: usize, end: usize) {
        self.d[row] = 0.0;
        let mut beside = std::mem::take(&mut self.e[row]);
        for k in row + 1..end {
            let (length, [cosine, sine]) = givens(self.d[k], beside);
            self.d[k] = length;
            if k + 1 < end {
                beside = -sine * self.e[k];
                self.e[k] *= cosine;
            }
            self.turn_left([row, k], [cosine, -sine]);
        }
    }

    /// One step on the rows from `start` to `end`, with the shift of J. Wilkinson.
    #[inline(always)]
    fn step(&mut self, start: usize, end: usize) {
        let (mut x, mut z) =
            (self.d[start] - self.shift(start, end) / self.d[start], self.e[start]);
        for k in start..end - 1 {
            let (length, [cosine, sine]) = givens(x, z);
            if k > start {
                self.e[k - 1] = length;
            }
            x = cosine * self.d[k] + sine * self.e[k];
            let beside = cosine * self.e[k] - sine * self.d[k];
            z = sine * self.d[k + 1];
            let below = cosine * self.d[k + 1];
            self.turn_right([k, k + 1], [cosine, sine]);
            let (length, [cosine, sine]) = givens(x, z);
            self.d[k] = length;
            x = cosine * beside + sine * below;
            self.d[k + 1] = cosine * below - sine * beside;
            self.e[k] = x;
            if k + 2 < end {
                z = sine * self.e[k + 1];
                self.e[k + 1] *= cosine;
            }
            self.turn_left([k, k + 1], [cosine, sine]);
        }
    }

    /// The eigenvalue of the last two rows of the matrix' square that is nearer to its last element.
    #[inline(always)]
    fn shift(&self, start: usize, end: usize) -> f64 {
        let [p, q, r] = [self.d[end - 2], self.d[end - 1], self.e[end - 2]];
        let above = if end - 2 > start { self.e[end - 3] } else { 0.0 };
        let (last, beside) = (q * q + r * r, p * r);
        let half = 0.5 * (p * p + above * above - last);
        last - beside * (beside / (half + root_of_squares(half, beside).copysign(half)))
    }

    #[inline(always)]
    fn turn_left(&mut self, pair: [usize; 2], turn: [f64; 2]) {
        apply_givens(&mut self.u, self.d.len(), pair, turn);
    }

    #[inline(always)]
    fn turn_right(&mut self, pair: [usize; 2], turn: [f64; 2]) {
        apply_givens(&mut self.v, self.height, pair, turn);
    }
}

/// All turns, for the processor at hand.
struct GivensRotations<'a>(&'a mut BidiagonalQr);

impl WithSimd for GivensRotations<'_> {
    type Output = Result<(), NoConvergence>;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> Self::Output {
        self.0.turn_to_diagonal()
    }
}

/// The length of a vector, and the turn that takes it to the first axis, but for the smallest vectors, whose
/// quotients are no cosines.
#[inline(always)]
fn givens(x: f64, y: f64) -> (f64, [f64; 2]) {
    let length = root_of_squares(x, y);
    (length, if length > f64::MIN_POSITIVE { [x / length, y / length] } else { [1.0, 0.0] })
}

/// GivensRotations two columns, the first of which comes first, in their plane.
#[inline(always)]
fn apply_givens(columns: &mut [f64], height: usize, [i, j]: [usize; 2], turn: [f64; 2]) {
    let (before, behind) = columns.split_at_mut(j * height);
    apply_givens_to_columns(&mut before[i * height..][..height], &mut behind[..height], turn);
}

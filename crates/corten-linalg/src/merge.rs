//! The merge step of divide and conquer with its deflation, LAPACK's `laed2` and `laed3`, for tridiagonal and for
//! bidiagonal matrices: bases of solved blocks that are made one.

use crate::blas::Run;
use crate::number::Number;
use crate::parallel::{COLUMNS, share};
use crate::tridiagonal_dc::Real;
use faer::linalg::matmul::matmul;
use faer::{Accum, MatMut, MatRef, Par};
use std::ops::Range;

/// The rows where a column of two bases side by side is not 0.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum RowSupport {
    Upper,
    Both,
    Lower,
}

/// A column that takes part in a join.
pub(crate) struct Column {
    pub at: usize,
    pub pole: f64,
    pub element: f64,
    pub part: RowSupport,
}

impl Column {
    /// Moves the element of a column to the next one by a turn in their plane, which is returned, where
    /// that leaves hardly anything off the diagonal.
    pub(crate) fn merge(&mut self, next: &mut Self, tolerance: f64) -> Option<[f64; 2]> {
        let length = root_of_squares(next.element, self.element);
        let (cosine, sine) = (next.element / length, self.element / length);
        if ((next.pole - self.pole) * cosine * sine).abs() > tolerance {
            return None;
        }
        if self.part != next.part {
            (self.part, next.part) = (RowSupport::Both, RowSupport::Both);
        }
        let (a, b) = (self.pole, next.pole);
        self.pole = a * cosine * cosine + b * sine * sine;
        next.pole = a * sine * sine + b * cosine * cosine;
        next.element = length;
        Some([cosine, -sine])
    }
}

/// Takes out the columns that are vectors already, or are when they are turned a little: those with hardly
/// any part in the joining vector, and those that `merge` could merge with the next one. J. Dongarra and
/// D. Sorensen, "A fully parallel algorithm for the symmetric eigenvalue problem", 1987.
///
/// Returns the others, which come behind those that are `kept` anyhow, and the ones taken out.
pub(crate) fn deflate(
    mut kept: Vec<Column>,
    columns: impl IntoIterator<Item = Column>,
    negligible: impl Fn(f64) -> bool,
    mut merge: impl FnMut(&mut Column, &mut Column) -> bool,
) -> (Vec<Column>, Vec<Column>) {
    let mut done = Vec::new();
    for mut column in columns {
        if negligible(column.element) {
            done.push(column);
            continue;
        }
        if let Some(before) = kept.last_mut()
            && merge(before, &mut column)
        {
            done.push(std::mem::replace(before, column));
            continue;
        }
        kept.push(column);
    }
    (kept, done)
}

/// The order in which products need columns: by part.
pub(crate) fn by_part(columns: &[Column]) -> Vec<usize> {
    let of = |part| (0..columns.len()).filter(move |&k| columns[k].part == part);
    [RowSupport::Upper, RowSupport::Both, RowSupport::Lower].into_iter().flat_map(of).collect()
}

/// The columns of a block on the diagonal of a matrix of `n` rows: on their diagonal the bases of the
/// blocks that are solved.
pub(crate) struct Basis<'a, T> {
    n: usize,
    /// The row of the matrix where the block begins.
    first: usize,
    columns: &'a mut [T],
}

impl<'a, T: Real> Basis<'a, T> {
    pub(crate) fn new(n: usize, columns: &'a mut [T]) -> Self {
        Self { n, first: 0, columns }
    }

    pub(crate) fn reborrow(&mut self) -> Basis<'_, T> {
        Basis { n: self.n, first: self.first, columns: self.columns }
    }

    /// The blocks before and from a row on.
    pub(crate) fn split(self, at: usize) -> [Self; 2] {
        let Self { n, first, columns } = self;
        let (before, behind) = columns.split_at_mut(at * n);
        [Self { n, first, columns: before }, Self { n, first: first + at, columns: behind }]
    }

    /// The rows and columns of the block.
    pub(crate) fn size(&self) -> usize {
        self.columns.len() / self.n
    }

    /// Where the rows of the block lie in a column.
    fn place(&self, at: usize) -> Range<usize> {
        let start = at * self.n + self.first;
        start..start + self.size()
    }

    pub(crate) fn column(&self, at: usize) -> &[T] {
        &self.columns[self.place(at)]
    }

    pub(crate) fn column_mut(&mut self, at: usize) -> &mut [T] {
        let place = self.place(at);
        &mut self.columns[place]
    }

    /// Replaces the first columns by vectors in some order.
    pub(crate) fn write(&mut self, order: &[usize], vectors: &[f64]) {
        let size = self.size();
        for (to, from) in order.iter().enumerate() {
            let vector = &vectors[from * size..][..size];
            self.column_mut(to).iter_mut().zip(vector).for_each(|(to, &x)| *to = T::of(x));
        }
    }

    /// GivensRotations two columns in their plane.
    pub(crate) fn turn(&mut self, pair: [usize; 2], turn: [f64; 2]) {
        let places = pair.map(|at| self.place(at));
        let Ok([left, right]) = self.columns.get_disjoint_mut(places) else {
            unreachable!("a column is met once")
        };
        apply_givens_to_columns(left, right, turn);
    }

    /// Writes combinations of columns, whose bases meet before the row `cut`, to the front of `next`.
    /// They are in the order of their parts; `factors` gives a number of combinations from one on.
    pub(crate) fn combine(
        &self,
        columns: &[&Column],
        cut: usize,
        next: &mut [T],
        factors: impl Fn(usize, &mut [T]) + Sync,
        run: Run,
    ) {
        let (count, size) = (columns.len(), self.size());
        if count == 0 {
            return;
        }
        // Without the zeros: upper parts of one kind beside those of both, lower parts likewise.
        let uppers = columns.iter().filter(|column| column.part != RowSupport::Lower).count();
        let first_lower = columns.iter().filter(|column| column.part == RowSupport::Upper).count();
        let upper = self.gather(&columns[..uppers], 0..cut);
        let lower = self.gather(&columns[first_lower..], cut..size);
        let upper = MatRef::from_column_major_slice(&upper, cut, uppers);
        let lower = MatRef::from_column_major_slice(&lower, size - cut, count - first_lower);
        let parts = next[..count * size].chunks_mut(COLUMNS * size);
        share(run, parts.enumerate(), |(k, to)| {
            let columns = to.len() / size;
            let mut chosen = vec![T::of(0.0); count * columns];
            factors(k * COLUMNS, &mut chosen);
            let chosen = MatRef::from_column_major_slice(&chosen, count, columns);
            let to = MatMut::from_column_major_slice_mut(to, size, columns);
            let (to_upper, to_lower) = to.split_at_row_mut(cut);
            for (to, gathered, skipped) in [(to_upper, upper, 0), (to_lower, lower, first_lower)] {
                let chosen = chosen.subrows(skipped, gathered.ncols());
                matmul(to, Accum::Replace, gathered, chosen, T::of(1.0), Par::Seq);
            }
        });
    }

    /// Some rows of columns, one behind the other.
    fn gather(&self, columns: &[&Column], rows: Range<usize>) -> Vec<T> {
        let mut gathered = Vec::with_capacity(columns.len() * rows.len());
        for column in columns {
            gathered.extend_from_slice(&self.column(column.at)[rows.clone()]);
        }
        gathered
    }

    /// Replaces the first columns: by those at the front of `next` and the ones that are `done`, as
    /// numbered one after the other by `order`.
    pub(crate) fn arrange(&mut self, order: &[usize], done: &[Column], next: &mut [T]) {
        let size = self.size();
        let combined = order.len() - done.len();
        for (column, to) in done.iter().zip(next[combined * size..].chunks_exact_mut(size)) {
            to.copy_from_slice(self.column(column.at));
        }
        for (to, from) in order.iter().enumerate() {
            self.column_mut(to).copy_from_slice(&next[from * size..][..size]);
        }
    }
}

/// The values of combined columns and of those that are done, and the order that `sort` brings them to.
pub(crate) fn ordered(
    values: &[f64],
    done: &[Column],
    sort: impl Fn(&f64, &f64) -> std::cmp::Ordering,
) -> (Vec<f64>, Vec<usize>) {
    let all = values.iter().copied().chain(done.iter().map(|column| column.pole));
    let mut found: Vec<(f64, usize)> = all.zip(0..).collect();
    found.sort_by(|a, b| sort(&a.0, &b.0));
    found.into_iter().unzip()
}

/// GivensRotations two columns in their plane.
#[inline(always)]
pub(crate) fn apply_givens_to_columns<T: Real>(
    left: &mut [T],
    right: &mut [T],
    [cosine, sine]: [f64; 2],
) {
    for (left, right) in left.iter_mut().zip(right) {
        let [x, y]: [f64; 2] = [(*left).into(), (*right).into()];
        *left = T::of(cosine * x + sine * y);
        *right = T::of(cosine * y - sine * x);
    }
}

/// The length of a vector of no large numbers.
#[inline(always)]
pub(crate) fn root_of_squares(x: f64, y: f64) -> f64 {
    let squares = x * x + y * y;
    if squares > f64::small_square() { squares.sqrt() } else { x.hypot(y) }
}

/// The columns of a unit matrix.
pub(crate) fn unit(size: usize) -> Vec<f64> {
    let mut columns = vec![0.0; size * size];
    columns.iter_mut().step_by(size + 1).for_each(|one| *one = 1.0);
    columns
}

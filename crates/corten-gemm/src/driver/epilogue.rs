//! Where sums go: the result, and what it starts from.

use crate::kernel::micro_kernel::Sealed;
use crate::kernel::skinny::StoreTile;
use crate::pack::pack_kernels::{Lines, PackKernels, Scale};
use crate::types::view::View;
use std::ops::Range;

/// What the sums of a product are added to.
#[derive(Clone, Copy)]
pub enum Start<E> {
    /// Nothing: what the result holds is not read.
    Nothing,
    /// What the result holds, times a factor.
    Scaled(E),
    /// A value per row.
    PerRow(*const E),
    /// A value per column.
    PerColumn(*const E),
}

impl<E> Start<E> {
    /// That of the part of a result from a place on.
    #[inline]
    pub(crate) fn at(self, [row, col]: [usize; 2]) -> Self {
        match self {
            Self::PerRow(values) => Self::PerRow(values.wrapping_add(row)),
            Self::PerColumn(values) => Self::PerColumn(values.wrapping_add(col)),
            other => other,
        }
    }

    pub(crate) fn t(self) -> Self {
        match self {
            Self::PerRow(values) => Self::PerColumn(values),
            Self::PerColumn(values) => Self::PerRow(values),
            other => other,
        }
    }
}

impl<E: Sealed> Start<E> {
    /// Puts some sums of a row, added to what they start from.
    ///
    /// # Safety
    /// Their places must lie in the result, which must be writable there, and have values here.
    #[inline(always)]
    pub(crate) unsafe fn meet(&self, sums: &[E], [row, col]: [usize; 2], c: View<*mut E>) {
        let first =
            c.data.wrapping_offset(row as isize * c.strides[0] + col as isize * c.strides[1]);
        let place = |j: usize| first.wrapping_offset(j as isize * c.strides[1]);
        // SAFETY: the caller's, for every place and value below.
        unsafe {
            match *self {
                Self::Nothing => (0..).zip(sums).for_each(|(j, &sum)| *place(j) = sum),
                Self::Scaled(beta) => {
                    (0..).zip(sums).for_each(|(j, &sum)| *place(j) = beta * *place(j) + sum);
                }
                Self::PerRow(values) => {
                    let value = *values.add(row);
                    (0..).zip(sums).for_each(|(j, &sum)| *place(j) = value + sum);
                }
                Self::PerColumn(values) => {
                    let values = values.add(col);
                    (0..).zip(sums).for_each(|(j, &sum)| *place(j) = *values.add(j) + sum);
                }
            }
        }
    }
}

/// Where the columns of a result lie if not all of them are equally far apart: a matrix of so many
/// columns, and others so far behind each other.
#[derive(Clone, Copy)]
pub struct Apart {
    /// The columns of a matrix.
    pub columns: usize,
    /// From a matrix to the next.
    pub distance: isize,
}

/// The result of a product.
pub(crate) struct Output<'a, E: 'static> {
    c: View<*mut E>,
    pub alpha: E,
    pub start: Start<E>,
    apart: Option<Apart>,
    pack: &'static PackKernels<E>,
    /// What takes the sums elsewhere, once, and not to the view.
    bring: Option<&'a StoreTile<'a, E>>,
}

impl<'a, E: Sealed> Output<'a, E> {
    pub(crate) fn of(
        c: View<*mut E>,
        alpha: E,
        start: Start<E>,
        pack: &'static PackKernels<E>,
    ) -> Self {
        Self { c, alpha, start, apart: None, pack, bring: None }
    }

    /// One of this shape that has finished sums taken to their place. All of the depth must be summed at
    /// once.
    pub(crate) fn elsewhere(
        shape: [usize; 2],
        bring: &'a StoreTile<'a, E>,
        pack: &'static PackKernels<E>,
    ) -> Self {
        let c = View { data: std::ptr::null_mut(), shape, strides: [0, 0] };
        Self { bring: Some(bring), ..Self::of(c, E::ONE, Start::Nothing, pack) }
    }

    /// Whether tiles may write to the view.
    pub(crate) fn is_here(&self) -> bool {
        self.bring.is_none()
    }

    /// The same with its columns in several matrices.
    pub(crate) fn apart(self, apart: Option<Apart>) -> Self {
        Self { apart, ..self }
    }

    pub(crate) fn shape(&self) -> [usize; 2] {
        self.c.shape
    }

    pub(crate) fn strides(&self) -> [isize; 2] {
        self.c.strides
    }

    /// Whether all of some columns lie in one matrix.
    pub(crate) fn is_together(&self, cols: &Range<usize>) -> bool {
        self.apart.is_none_or(|Apart { columns, .. }| cols.start % columns + cols.len() <= columns)
    }

    /// Where an element lies.
    pub(crate) fn place(&self, [row, col]: [usize; 2]) -> *mut E {
        match self.apart {
            None => self.c.place([row, col]),
            Some(Apart { columns, distance }) => {
                assert!(col < self.c.shape[1]);
                let matrix = View { shape: [self.c.shape[0], columns], ..self.c };
                let start = (col / columns) as isize * distance;
                matrix.place([row, col % columns]).wrapping_offset(start)
            }
        }
    }

    /// Some columns, matrix by matrix.
    fn segments(&self, cols: Range<usize>) -> impl Iterator<Item = Range<usize>> {
        let columns = self.apart.map_or(usize::MAX, |apart| apart.columns);
        let mut start = cols.start;
        std::iter::from_fn(move || {
            let end = cols.end.min(start.saturating_add(columns - start % columns));
            let piece = start..end;
            start = end;
            (!piece.is_empty()).then_some(piece)
        })
    }

    /// Brings the sums of a part, in rows `width` apart, to the result.
    pub(crate) fn bring(&self, sums: &[E], width: usize, place: [usize; 2], size: [usize; 2]) {
        let beta = self.begin(place, size);
        self.store_tile(sums, width, place, size, beta);
    }

    /// Brings sums to the result, whose values have a factor.
    pub(crate) fn store_tile(
        &self,
        sums: &[E],
        width: usize,
        [row, col]: [usize; 2],
        [rows, cols]: [usize; 2],
        beta: Option<E>,
    ) {
        if let Some(bring) = self.bring {
            return bring(sums, width, [row, col], [rows, cols]);
        }
        let scale = Scale { alpha: self.alpha, beta };
        for piece in self.segments(col..col + cols) {
            let sums = &sums[piece.start - col..];
            self.store_segment(
                sums,
                width,
                [rows, piece.len()],
                self.place([row, piece.start]),
                scale,
            );
        }
    }

    fn store_segment(
        &self,
        sums: &[E],
        width: usize,
        [rows, cols]: [usize; 2],
        c: *mut E,
        scale: Scale<E>,
    ) {
        let [row, col] = self.c.strides;
        let from = Lines { first: sums.as_ptr(), stride: width as isize, count: rows, len: cols };
        let pack = self.pack;
        // SAFETY: there are sums for all rows and columns, and they are places of the result.
        unsafe {
            if col == 1 {
                let to = Lines { first: c, stride: row, count: rows, len: cols };
                return (pack.store_tile)(from, to, scale);
            }
            if row == 1 {
                let to = Lines { first: c, stride: col, count: cols, len: rows };
                return (pack.store_tile_transposed)(from, to, scale);
            }
            for i in 0..rows {
                for j in 0..cols {
                    let sum = scale.alpha * sums[i * width + j];
                    let to = c.wrapping_offset(i as isize * row + j as isize * col);
                    *to = scale.beta.map_or(sum, |beta| beta * *to + sum);
                }
            }
        }
    }

    /// Brings the values that the sums of a tile are added to, and returns their factor.
    pub(crate) fn begin(&self, [row, col]: [usize; 2], [rows, cols]: [usize; 2]) -> Option<E> {
        match self.start {
            Start::Nothing => return None,
            Start::Scaled(beta) => return Some(beta),
            Start::PerRow(_) | Start::PerColumn(_) => {}
        }
        for piece in self.segments(col..col + cols) {
            self.begin_piece([row, piece.start], [rows, piece.len()]);
        }
        Some(E::ONE)
    }

    fn begin_piece(&self, place: [usize; 2], size: [usize; 2]) {
        let (values, steps) = match self.start {
            Start::Nothing | Start::Scaled(_) => return,
            Start::PerRow(values) => (values.wrapping_add(place[0]), [1, 0]),
            Start::PerColumn(values) => (values.wrapping_add(place[1]), [0, 1]),
        };
        let first = self.place(place);
        // In the order in which the result lies.
        let row_major = self.c.strides[1].abs() <= self.c.strides[0].abs();
        let [outer, inner] = if row_major { [0, 1] } else { [1, 0] };
        for i in 0..size[outer] {
            let line = first.wrapping_offset(i as isize * self.c.strides[outer]);
            let values = values.wrapping_add(i * steps[outer]);
            if self.c.strides[inner] == 1 {
                // SAFETY: as below; the elements of the line lie side by side.
                unsafe {
                    if steps[inner] == 1 {
                        std::ptr::copy_nonoverlapping(values, line, size[inner]);
                    } else {
                        std::slice::from_raw_parts_mut(line, size[inner]).fill(*values);
                    }
                }
                continue;
            }
            for j in 0..size[inner] {
                // SAFETY: the tile lies in the result; a value per row or per column is readable.
                unsafe {
                    *line.wrapping_offset(j as isize * self.c.strides[inner]) =
                        *values.add(j * steps[inner]);
                }
            }
        }
    }
}

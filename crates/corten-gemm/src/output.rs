//! Where sums go: the result, and what it starts from.

use crate::moves::{Lines, Moves, Scale};
use crate::tile::Sealed;
use crate::view::View;

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
    pub(crate) fn t(self) -> Self {
        match self {
            Self::PerRow(values) => Self::PerColumn(values),
            Self::PerColumn(values) => Self::PerRow(values),
            other => other,
        }
    }
}

/// The result of a product.
pub(crate) struct Output<E: 'static> {
    pub c: View<*mut E>,
    pub alpha: E,
    pub start: Start<E>,
    pub moves: &'static Moves<E>,
}

impl<E: Sealed> Output<E> {
    /// Brings the sums of a part, in rows `width` apart, to the result.
    pub(crate) fn bring(&self, sums: &[E], width: usize, place: [usize; 2], size: [usize; 2]) {
        let beta = self.begin(place, size);
        let scale = Scale { alpha: self.alpha, beta };
        self.put(sums, width, size, self.c.place(place), scale);
    }

    /// Brings sums to the result.
    pub(crate) fn put(
        &self,
        sums: &[E],
        width: usize,
        [rows, cols]: [usize; 2],
        c: *mut E,
        scale: Scale<E>,
    ) {
        let [row, col] = self.c.strides;
        let from = Lines { first: sums.as_ptr(), stride: width as isize, count: rows, len: cols };
        let moves = self.moves;
        // SAFETY: there are sums for all rows and columns, and they are places of the result.
        unsafe {
            if col == 1 {
                let to = Lines { first: c, stride: row, count: rows, len: cols };
                return (moves.put)(from, to, scale);
            }
            if row == 1 {
                let to = Lines { first: c, stride: col, count: cols, len: rows };
                return (moves.put_turned)(from, to, scale);
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
    pub(crate) fn begin(&self, place: [usize; 2], size: [usize; 2]) -> Option<E> {
        let (values, steps) = match self.start {
            Start::Nothing => return None,
            Start::Scaled(beta) => return Some(beta),
            Start::PerRow(values) => (values.wrapping_add(place[0]), [1, 0]),
            Start::PerColumn(values) => (values.wrapping_add(place[1]), [0, 1]),
        };
        let first = self.c.place(place);
        // In the order in which the result lies.
        let by_rows = self.c.strides[1].abs() <= self.c.strides[0].abs();
        let [outer, inner] = if by_rows { [0, 1] } else { [1, 0] };
        for i in 0..size[outer] {
            let line = first.wrapping_offset(i as isize * self.c.strides[outer]);
            let values = values.wrapping_add(i * steps[outer]);
            for j in 0..size[inner] {
                // SAFETY: the tile lies in the result; a value per row or per column is readable.
                unsafe {
                    *line.wrapping_offset(j as isize * self.c.strides[inner]) =
                        *values.add(j * steps[inner]);
                }
            }
        }
        Some(E::ONE)
    }
}

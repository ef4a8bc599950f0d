//! What a product is accumulated into.

use crate::types::element::Scalar;
use crate::types::view::View;

/// What the sums of a product are added to.
#[derive(Clone, Copy)]
pub enum Accumulate<E> {
    /// Nothing: what the result holds is not read.
    Overwrite,
    /// What the result holds, times a factor.
    Beta(E),
    /// A value per row.
    RowBias(*const E),
    /// A value per column.
    ColumnBias(*const E),
}

impl<E> Accumulate<E> {
    /// That of the part of a result from a place on.
    #[inline]
    pub(crate) fn at(self, [row, col]: [usize; 2]) -> Self {
        match self {
            Self::RowBias(values) => Self::RowBias(values.wrapping_add(row)),
            Self::ColumnBias(values) => Self::ColumnBias(values.wrapping_add(col)),
            other => other,
        }
    }

    pub(crate) fn t(self) -> Self {
        match self {
            Self::RowBias(values) => Self::ColumnBias(values),
            Self::ColumnBias(values) => Self::RowBias(values),
            other => other,
        }
    }
}

impl<E: Scalar> Accumulate<E> {
    /// Puts some sums of a row, added to what they start from.
    ///
    /// # Safety
    /// Their places must lie in the result, which must be writable there, and have values here.
    #[inline(always)]
    pub(crate) unsafe fn store_row(&self, sums: &[E], [row, col]: [usize; 2], c: View<*mut E>) {
        let first =
            c.data.wrapping_offset(row as isize * c.strides[0] + col as isize * c.strides[1]);
        let place = |j: usize| first.wrapping_offset(j as isize * c.strides[1]);
        // SAFETY: the caller's, for every place and value below.
        unsafe {
            match *self {
                Self::Overwrite => (0..).zip(sums).for_each(|(j, &sum)| *place(j) = sum),
                Self::Beta(beta) => {
                    (0..).zip(sums).for_each(|(j, &sum)| *place(j) = beta * *place(j) + sum);
                }
                Self::RowBias(values) => {
                    let value = *values.add(row);
                    (0..).zip(sums).for_each(|(j, &sum)| *place(j) = value + sum);
                }
                Self::ColumnBias(values) => {
                    let values = values.add(col);
                    (0..).zip(sums).for_each(|(j, &sum)| *place(j) = *values.add(j) + sum);
                }
            }
        }
    }
}

/// The factors of sums, and of what they are added to; without one, that is not read.
#[derive(Clone, Copy)]
pub(crate) struct Scale<E> {
    pub alpha: E,
    pub beta: Option<E>,
}

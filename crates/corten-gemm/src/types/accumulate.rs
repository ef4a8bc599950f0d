//! What a product is accumulated into: the `beta` of BLAS, or a bias.

use crate::types::element::Scalar;
use crate::types::view::View;

/// What the product is added to, before it is stored to the result.
#[derive(Clone, Copy)]
pub enum Accumulate<E> {
    /// Nothing: the result is overwritten and not read.
    Overwrite,
    /// The result times a factor, the `beta` of BLAS.
    Beta(E),
    /// A bias per row.
    RowBias(*const E),
    /// A bias per column.
    ColumnBias(*const E),
}

impl<E> Accumulate<E> {
    /// The accumulation for the submatrix that begins at a row and column.
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
    /// Stores part of a row of the product.
    ///
    /// # Safety
    /// The result must be writable at these elements, and there must be biases for them.
    #[inline(always)]
    pub(crate) unsafe fn store_row(&self, sums: &[E], [row, col]: [usize; 2], c: View<*mut E>) {
        let first =
            c.data.wrapping_offset(row as isize * c.strides[0] + col as isize * c.strides[1]);
        let element = |j: usize| first.wrapping_offset(j as isize * c.strides[1]);
        // SAFETY: the caller's, for every element and bias below.
        unsafe {
            match *self {
                Self::Overwrite => (0..).zip(sums).for_each(|(j, &sum)| *element(j) = sum),
                Self::Beta(beta) => {
                    (0..).zip(sums).for_each(|(j, &sum)| *element(j) = beta * *element(j) + sum);
                }
                Self::RowBias(values) => {
                    let value = *values.add(row);
                    (0..).zip(sums).for_each(|(j, &sum)| *element(j) = value + sum);
                }
                Self::ColumnBias(values) => {
                    let values = values.add(col);
                    (0..).zip(sums).for_each(|(j, &sum)| *element(j) = *values.add(j) + sum);
                }
            }
        }
    }
}

/// The factors of the product and of the result, BLAS's `alpha` and `beta`; without `beta` the result is
/// not read.
#[derive(Clone, Copy)]
pub(crate) struct Scale<E> {
    pub alpha: E,
    pub beta: Option<E>,
}

//! Matrices by sizes and strides, and which of them BLAS takes as they lie in memory.

use corten_core::Result;
use corten_ops::{Tensor, op};

/// A matrix or a batch of them: batch, rows, columns. A vector is one column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Matrix {
    pub(super) sizes: [i64; 3],
    pub(super) strides: [i64; 3],
}

impl Matrix {
    pub(super) fn of(tensor: &Tensor) -> Self {
        if let Some(([rows, columns], [down, right])) = tensor.matrix_geometry() {
            return Self { sizes: [1, rows, columns], strides: [0, down, right] };
        }
        let (sizes, strides) = (tensor.sizes(), tensor.strides());
        let (sizes, strides) = match sizes.len() {
            3 => ([sizes[0], sizes[1], sizes[2]], [strides[0], strides[1], strides[2]]),
            2 => ([1, sizes[0], sizes[1]], [0, strides[0], strides[1]]),
            1 => ([1, sizes[0], 1], [0, strides[0], 0]),
            _ => ([1, 1, 1], [0, 0, 0]),
        };
        Self { sizes, strides }
    }

    /// A tensor broadcast to the shape of a result; where that has one dimension it is a column.
    pub(super) fn broadcast(tensor: &Tensor, out: &Tensor) -> Self {
        let (sizes, strides) = (tensor.sizes(), tensor.strides());
        let wanted = Self::of(out).sizes;
        let mut found = Self { sizes: wanted, strides: [0; 3] };
        let last = if out.dim() == 1 { 1 } else { 2 };
        for (back, (&size, &stride)) in sizes.iter().zip(&strides).rev().enumerate() {
            if size != 1 && back <= last {
                found.strides[last - back] = stride;
            }
        }
        found
    }

    /// The matrices with rows and columns exchanged.
    pub(super) fn transposed(self) -> Self {
        let ([b, m, n], [batch, down, right]) = (self.sizes, self.strides);
        Self { sizes: [b, n, m], strides: [batch, right, down] }
    }

    /// How BLAS takes the matrix, if it does: one of the strides must be 1 and the other one must be the
    /// distance of columns, or of rows, that do not overlap.
    pub(super) fn operand(self) -> Option<Operand> {
        let ([batches, rows, columns], [batch, down, right]) = (self.sizes, self.strides);
        let stride = if batches == 1 { 0 } else { batch };
        let normal = (down == 1 || rows == 1) && (columns == 1 || right >= rows.max(1));
        if normal {
            let leading = if columns == 1 { rows.max(1) } else { right };
            return Some(Operand { transposed: false, rows, columns, leading, stride });
        }
        let turned = (right == 1 || columns == 1) && (rows == 1 || down >= columns.max(1));
        let leading = if rows == 1 { columns.max(1) } else { down };
        let found = Operand { transposed: true, rows: columns, columns: rows, leading, stride };
        turned.then_some(found)
    }
}

/// A matrix in column-major order as BLAS is told of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Operand {
    /// Whether it is the transpose that is stored.
    pub(super) transposed: bool,
    /// The stored rows.
    pub(super) rows: i64,
    /// The stored columns.
    pub(super) columns: i64,
    /// The distance of stored columns.
    pub(super) leading: i64,
    /// The distance of the matrices of a batch.
    pub(super) stride: i64,
}

/// The tensor itself where BLAS takes it, or a contiguous copy.
pub(super) fn accepted(tensor: &Tensor) -> Result<Tensor> {
    match Matrix::of(tensor).operand() {
        Some(_) => Ok(tensor.clone()),
        None => op::clone(tensor, Some(corten_core::MemoryFormat::Contiguous)),
    }
}

#[cfg(test)]
mod tests {
    use super::{Matrix, Operand};

    /// Transposed, leading dimension.
    fn taken(rows: i64, columns: i64, down: i64, right: i64) -> Option<(bool, i64)> {
        let matrix = Matrix { sizes: [1, rows, columns], strides: [0, down, right] };
        matrix.operand().map(|operand| (operand.transposed, operand.leading))
    }

    #[test]
    fn blas_takes_matrices_with_a_unit_stride() {
        for (matrix, wanted) in [
            ((3, 4, 1, 3), Some((false, 3))),
            ((3, 4, 4, 1), Some((true, 4))),
            ((3, 4, 1, 10), Some((false, 10))),
            ((3, 4, 10, 1), Some((true, 10))),
            ((3, 4, 2, 6), None),
            ((3, 4, 0, 1), None),
            ((3, 4, 1, 0), None),
            ((3, 4, 1, 2), None),
            ((1, 4, 7, 5), Some((false, 5))),
            ((3, 1, 1, 9), Some((false, 3))),
            ((3, 1, 5, 9), Some((true, 5))),
            ((1, 1, 0, 0), Some((false, 1))),
        ] {
            let (rows, columns, down, right) = matrix;
            assert_eq!(taken(rows, columns, down, right), wanted, "{matrix:?}");
        }
    }

    #[test]
    fn a_transpose_is_taken_the_other_way_round() {
        let matrix = Matrix { sizes: [2, 3, 4], strides: [12, 4, 1] };
        let stored =
            |transposed| Operand { transposed, rows: 4, columns: 3, leading: 4, stride: 12 };
        assert_eq!(matrix.operand(), Some(stored(true)));
        assert_eq!(matrix.transposed().operand(), Some(stored(false)));
    }
}

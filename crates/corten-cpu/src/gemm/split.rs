//! Matrices taken apart.

use super::matrix::{Mat, MatMut};
use std::marker::PhantomData;

impl<T> MatMut<'_, T> {
    /// The first rows, and the others.
    pub(crate) fn split_rows(self, first: usize) -> [Self; 2] {
        let (rows, cols) = (self.rows, self.cols);
        // SAFETY: the two parts share no row, and the matrix is given up for them.
        unsafe { [self.part(0..first, 0..cols), self.part(first..rows, 0..cols)] }
    }

    /// The first columns, and the others.
    pub(crate) fn split_columns(self, first: usize) -> [Self; 2] {
        self.t().split_rows(first).map(Self::t)
    }

    /// The matrix as one that is read.
    pub(crate) fn read(&self) -> Mat<'_, T> {
        Mat {
            data: self.data,
            rows: self.rows,
            cols: self.cols,
            row_stride: self.row_stride,
            col_stride: self.col_stride,
            conj: false,
            memory: PhantomData,
        }
    }
}

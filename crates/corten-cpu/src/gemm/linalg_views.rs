//! The matrices of `corten-linalg` as those of products: borrows of the same elements.

use super::matrix::{Mat, MatMut};
use std::marker::PhantomData;

impl<'a, T> From<corten_linalg::MatRef<'a, T>> for Mat<'a, T> {
    fn from(matrix: corten_linalg::MatRef<'a, T>) -> Self {
        Self {
            data: matrix.as_ptr(),
            rows: matrix.nrows(),
            cols: matrix.ncols(),
            row_stride: matrix.row_stride(),
            col_stride: matrix.col_stride(),
            conj: false,
            memory: PhantomData,
        }
    }
}

impl<'a, T> From<corten_linalg::MatMut<'a, T>> for MatMut<'a, T> {
    fn from(matrix: corten_linalg::MatMut<'a, T>) -> Self {
        Self {
            data: matrix.as_ptr_mut(),
            rows: matrix.nrows(),
            cols: matrix.ncols(),
            row_stride: matrix.row_stride(),
            col_stride: matrix.col_stride(),
            memory: PhantomData,
        }
    }
}

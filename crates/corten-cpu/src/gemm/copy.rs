//! Copies of matrices.

use super::matrix::{Mat, MatMut};
use crate::copy::strided::Rows;
use crate::copy::transpose::copy_block;
use corten_core::{Element, Result, bug};

impl<T: Element> MatMut<'_, T> {
    /// Takes the values of a matrix of the same shape: in tiles that are turned in registers where its
    /// columns lie side by side and the rows of this one do.
    ///
    /// # Errors
    /// `Internal` when the shapes differ.
    pub(crate) fn copy_of(self, from: Mat<'_, T>) -> Result<()> {
        let shape = [self.rows, self.cols];
        if shape != from.shape() || from.conj {
            bug!("a {shape:?} matrix takes the values of one of shape {:?}", from.shape());
        }
        let size = size_of::<T>();
        let rows = |at: *mut T, strides: [isize; 2]| {
            let [outer, inner] = strides.map(|stride| stride as i64 * size as i64);
            Rows { at: at.cast(), inner, outer }
        };
        let source = rows(from.data.cast_mut(), [from.row_stride, from.col_stride]);
        let target = rows(self.data, [self.row_stride, self.col_stride]);
        // SAFETY: both matrices have these rows and columns; this one is borrowed as unique, and the
        // other one is not written.
        unsafe { copy_block(size, source, target, self.cols, self.rows) };
        Ok(())
    }
}

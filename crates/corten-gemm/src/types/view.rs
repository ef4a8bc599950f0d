//! Strided matrices in memory.

#[cfg(target_arch = "x86_64")]
use crate::types::element::Pod;
use std::marker::PhantomData;
use std::ops::Range;

/// A strided matrix, by address, shape and strides in elements. `P` is `*const E` or `*mut E`.
#[derive(Clone, Copy, Debug)]
pub struct View<P> {
    /// The element of row 0 and column 0.
    pub data: P,
    /// The number of rows and of columns.
    pub shape: [usize; 2],
    /// The distances of two rows and of two columns, in elements.
    pub strides: [isize; 2],
}

impl<P> View<P> {
    /// The transpose.
    #[must_use]
    pub fn t(self) -> Self {
        let ([rows, cols], [row, col]) = (self.shape, self.strides);
        Self { data: self.data, shape: [cols, rows], strides: [col, row] }
    }

    fn offset(&self, [row, col]: [usize; 2]) -> isize {
        assert!(row <= self.shape[0] && col <= self.shape[1]);
        row as isize * self.strides[0] + col as isize * self.strides[1]
    }
}

impl<E> View<*const E> {
    /// The same matrix with elements of another type of the same size.
    #[must_use]
    pub fn cast<T>(self) -> View<*const T> {
        const { assert!(size_of::<E>() == size_of::<T>()) };
        View { data: self.data.cast(), shape: self.shape, strides: self.strides }
    }
}

impl<E> View<*mut E> {
    /// The same matrix with elements of another type of the same size.
    #[must_use]
    pub fn cast<T>(self) -> View<*mut T> {
        const { assert!(size_of::<E>() == size_of::<T>()) };
        View { data: self.data.cast(), shape: self.shape, strides: self.strides }
    }

    /// The address of an element.
    pub(crate) fn ptr_at(&self, index: [usize; 2]) -> *mut E {
        self.data.wrapping_offset(self.offset(index))
    }
}

/// An operand: a matrix that may be read for `'a`.
pub struct MatrixRef<'a, E> {
    view: View<*const E>,
    memory: PhantomData<&'a [E]>,
}

impl<E> Clone for MatrixRef<'_, E> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<E> Copy for MatrixRef<'_, E> {}

impl<'a, E: Copy> MatrixRef<'a, E> {
    /// # Safety
    /// The matrix must be readable, and unchanged, for `'a`.
    pub unsafe fn new(view: View<*const E>) -> Self {
        Self { view, memory: PhantomData }
    }

    /// The same matrix with elements of another type of the same size.
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn cast<T: Pod>(self) -> MatrixRef<'a, T>
    where
        E: Pod,
    {
        MatrixRef { view: self.view.cast(), memory: PhantomData }
    }

    pub(crate) fn shape(&self) -> [usize; 2] {
        self.view.shape
    }

    pub(crate) fn strides(&self) -> [isize; 2] {
        self.view.strides
    }

    /// The address of the first element.
    pub(crate) fn first(&self) -> *const E {
        self.view.data
    }

    /// The transpose.
    pub(crate) fn t(self) -> Self {
        Self { view: self.view.t(), ..self }
    }

    /// A submatrix, which must lie within the matrix.
    pub(crate) fn part(self, rows: Range<usize>, cols: Range<usize>) -> Self {
        assert!(rows.end <= self.view.shape[0] && cols.end <= self.view.shape[1]);
        let data = self.view.data.wrapping_offset(self.view.offset([rows.start, cols.start]));
        let view = View { data, shape: [rows.len(), cols.len()], ..self.view };
        Self { view, ..self }
    }

    /// A range of rows.
    pub(crate) fn rows(self, rows: Range<usize>) -> Self {
        self.part(rows, 0..self.view.shape[1])
    }

    /// An element.
    pub(crate) fn at(&self, index: [usize; 2]) -> E {
        assert!(index[0] < self.view.shape[0] && index[1] < self.view.shape[1]);
        // SAFETY: readable, by the constructor; the index lies within the shape.
        unsafe { *self.view.data.wrapping_offset(self.view.offset(index)) }
    }
}

/// The distance of two rows in bytes. That of a single row may be any number.
pub(crate) fn stride_bytes<E>(stride: isize) -> usize {
    stride.unsigned_abs().saturating_mul(size_of::<E>())
}

//! Matrices in memory: a pointer, a shape and two strides, checked once when they are made.

use corten_core::{AccessSet, Element, Geometry, Result, bug};
use corten_gemm::View;
use corten_ops::Tensor;
use std::marker::PhantomData;
use std::ops::Range;

/// A matrix that is read. Strides count elements and may be zero or negative.
#[derive(Clone, Copy)]
pub(crate) struct Mat<'a, T> {
    pub(super) data: *const T,
    pub(super) rows: usize,
    pub(super) cols: usize,
    pub(super) row_stride: isize,
    pub(super) col_stride: isize,
    pub(super) conj: bool,
    pub(super) memory: PhantomData<&'a [T]>,
}

/// A matrix that is written. No two of its elements share memory.
pub(crate) struct MatMut<'a, T> {
    pub(super) data: *mut T,
    pub(super) rows: usize,
    pub(super) cols: usize,
    pub(super) row_stride: isize,
    pub(super) col_stride: isize,
    pub(super) memory: PhantomData<&'a mut [T]>,
}

// SAFETY: a `Mat` is a shared borrow of its elements.
unsafe impl<T: Sync> Send for Mat<'_, T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for Mat<'_, T> {}
// SAFETY: a `MatMut` is a unique borrow of its elements.
unsafe impl<T: Send> Send for MatMut<'_, T> {}
// SAFETY: a shared `MatMut` gives access to its elements through the unsafe `part` only.
unsafe impl<T: Send> Sync for MatMut<'_, T> {}

impl<'a, T> Mat<'a, T> {
    /// A matrix in a slice, from element 0 on.
    ///
    /// # Errors
    /// `Internal` when an element would lie outside the slice.
    pub(crate) fn strided(data: &'a [T], shape: [usize; 2], strides: [usize; 2]) -> Result<Self> {
        if span(shape, strides) > data.len() {
            bug!("a {shape:?} matrix with strides {strides:?} in {} elements", data.len());
        }
        Ok(Self {
            data: data.as_ptr(),
            rows: shape[0],
            cols: shape[1],
            row_stride: strides[0] as isize,
            col_stride: strides[1] as isize,
            conj: false,
            memory: PhantomData,
        })
    }

    /// A row-major matrix without gaps.
    ///
    /// # Errors
    /// `Internal` when the slice is too short.
    pub(crate) fn row_major(data: &'a [T], rows: usize, cols: usize) -> Result<Self> {
        Self::strided(data, [rows, cols], [cols, 1])
    }

    /// The transpose.
    #[must_use]
    pub(crate) fn t(self) -> Self {
        Self {
            rows: self.cols,
            cols: self.rows,
            row_stride: self.col_stride,
            col_stride: self.row_stride,
            ..self
        }
    }

    #[cfg(feature = "linalg")]
    /// The conjugate.
    #[must_use]
    pub(crate) fn conj(self) -> Self {
        Self { conj: !self.conj, ..self }
    }

    /// The matrix as `corten-gemm` takes it.
    pub(super) fn view(&self) -> View<*const T> {
        View { data: self.data, shape: self.shape(), strides: [self.row_stride, self.col_stride] }
    }

    /// The number of rows and of columns.
    pub(crate) fn shape(&self) -> [usize; 2] {
        [self.rows, self.cols]
    }

    /// Some of the rows. The range must lie within the matrix.
    pub(crate) fn rows(self, range: Range<usize>) -> Self {
        assert!(range.start <= range.end && range.end <= self.rows);
        let data = self.data.wrapping_offset(range.start as isize * self.row_stride);
        Self { data, rows: range.len(), ..self }
    }

    /// Some of the columns. The range must lie within the matrix.
    pub(crate) fn cols(self, range: Range<usize>) -> Self {
        self.t().rows(range).t()
    }

    /// The element at a place, which must lie within the matrix.
    #[inline]
    pub(super) fn at(&self, row: usize, col: usize) -> T
    where
        T: Copy,
    {
        debug_assert!(row < self.rows && col < self.cols);
        let offset = row as isize * self.row_stride + col as isize * self.col_stride;
        // SAFETY: every place of the matrix is readable, by the constructors.
        unsafe { *self.data.offset(offset) }
    }

    /// The element at a place.
    #[inline]
    pub(crate) fn get(&self, row: usize, col: usize) -> T
    where
        T: Copy,
    {
        assert!(row < self.rows && col < self.cols);
        self.at(row, col)
    }

    /// Row `row` as a slice, if its elements lie side by side.
    pub(crate) fn row_slice(&self, row: usize) -> Option<&'a [T]> {
        assert!(row < self.rows);
        if self.col_stride != 1 && self.cols > 1 {
            return None;
        }
        let start = self.data.wrapping_offset(row as isize * self.row_stride);
        // SAFETY: the row's elements are readable and adjacent.
        Some(unsafe { std::slice::from_raw_parts(start, self.cols) })
    }
}

impl<'a, T> MatMut<'a, T> {
    /// A matrix in a slice, from element 0 on.
    ///
    /// # Errors
    /// `Internal` when an element would lie outside the slice or two would share memory.
    pub(crate) fn strided(
        data: &'a mut [T],
        shape: [usize; 2],
        strides: [usize; 2],
    ) -> Result<Self> {
        if span(shape, strides) > data.len() || overlaps(shape, strides) {
            bug!("a {shape:?} matrix with strides {strides:?} in {} elements", data.len());
        }
        Ok(Self {
            data: data.as_mut_ptr(),
            rows: shape[0],
            cols: shape[1],
            row_stride: strides[0] as isize,
            col_stride: strides[1] as isize,
            memory: PhantomData,
        })
    }

    /// A row-major matrix without gaps.
    ///
    /// # Errors
    /// `Internal` when the slice is too short.
    pub(crate) fn row_major(data: &'a mut [T], rows: usize, cols: usize) -> Result<Self> {
        Self::strided(data, [rows, cols], [cols, 1])
    }

    /// The transpose.
    #[must_use]
    pub(crate) fn t(self) -> Self {
        Self {
            rows: self.cols,
            cols: self.rows,
            row_stride: self.col_stride,
            col_stride: self.row_stride,
            ..self
        }
    }

    /// The elements, row by row.
    ///
    /// # Errors
    /// `Internal` when they do not lie side by side.
    pub(crate) fn into_elements(self) -> Result<&'a mut [T]> {
        let [row, col] = [self.row_stride, self.col_stride];
        if (col != 1 && self.cols > 1) || (row != self.cols as isize && self.rows > 1) {
            bug!("the rows of a matrix with strides {:?} lie apart", [row, col]);
        }
        // SAFETY: the matrix is borrowed as unique, and its rows lie one behind the other.
        Ok(unsafe { std::slice::from_raw_parts_mut(self.data, self.rows * self.cols) })
    }

    /// The number of rows and of columns.
    pub(crate) fn shape(&self) -> [usize; 2] {
        [self.rows, self.cols]
    }

    /// Some of the rows. The range must lie within the matrix.
    pub(crate) fn row_range(&mut self, range: Range<usize>) -> MatMut<'_, T> {
        // SAFETY: the part borrows the whole matrix.
        unsafe { self.part(range, 0..self.cols) }
    }

    /// The matrix as `corten-gemm` takes it.
    pub(super) fn view(&self) -> View<*mut T> {
        View {
            data: self.data,
            shape: [self.rows, self.cols],
            strides: [self.row_stride, self.col_stride],
        }
    }

    /// The same matrix for a shorter time.
    pub(crate) fn reborrow(&mut self) -> MatMut<'_, T> {
        MatMut { memory: PhantomData, ..*self }
    }

    /// # Safety
    /// The caller owes that no two living parts overlap.
    pub(super) unsafe fn part(&self, rows: Range<usize>, cols: Range<usize>) -> MatMut<'a, T> {
        assert!(rows.end <= self.rows && cols.end <= self.cols);
        let offset = rows.start as isize * self.row_stride + cols.start as isize * self.col_stride;
        MatMut {
            data: self.data.wrapping_offset(offset),
            rows: rows.len(),
            cols: cols.len(),
            memory: PhantomData,
            ..*self
        }
    }

    /// Replaces every element by `f` of it and its place.
    pub(super) fn update(&mut self, f: impl Fn(usize, usize, T) -> T)
    where
        T: Copy,
    {
        for row in 0..self.rows {
            for col in 0..self.cols {
                let offset = row as isize * self.row_stride + col as isize * self.col_stride;
                // SAFETY: every place of the matrix is ours to read and write.
                unsafe {
                    let place = self.data.offset(offset);
                    *place = f(row, col, *place);
                }
            }
        }
    }
}

/// A matrix whose rows consist of as many pieces, one after the other at the same distance. The
/// elements of a piece lie side by side.
#[derive(Clone, Copy)]
pub(crate) struct Pieces<'a, T> {
    /// The first piece of every row.
    pub(super) first: Mat<'a, T>,
    pub(super) count: usize,
    pub(super) distance: usize,
}

impl<'a, T> Pieces<'a, T> {
    /// Rows of `count` pieces of `len` elements in a slice, from element 0 on.
    ///
    /// # Errors
    /// `Internal` when an element would lie outside the slice.
    pub(crate) fn new(
        data: &'a [T],
        [rows, row_stride]: [usize; 2],
        [count, distance]: [usize; 2],
        len: usize,
    ) -> Result<Self> {
        let last = count.saturating_sub(1) * distance;
        if count == 0 || last + span([rows, len], [row_stride, 1]) > data.len() {
            bug!("{rows} rows of {count} pieces of {len} in {} elements", data.len());
        }
        Ok(Self { first: Mat::strided(data, [rows, len], [row_stride, 1])?, count, distance })
    }

    /// The number of rows and of columns.
    pub(crate) fn shape(&self) -> [usize; 2] {
        [self.first.rows, self.first.cols * self.count]
    }

    /// The element at a place, which must lie within the matrix.
    pub(super) fn at(&self, row: usize, col: usize) -> T
    where
        T: Copy,
    {
        let (piece, col) = (col / self.first.cols, col % self.first.cols);
        assert!(piece < self.count && row < self.first.rows);
        let data = self.first.data.wrapping_add(piece * self.distance);
        Mat { data, ..self.first }.at(row, col)
    }
}

/// Matrices of one shape that are written, seen as one: the columns of a matrix follow those of the
/// one before.
pub(crate) struct SideBySide<'a, T> {
    pub(super) first: MatMut<'a, T>,
    pub(super) count: usize,
    pub(super) distance: usize,
}

impl<'a, T> SideBySide<'a, T> {
    /// The matrices that a slice consists of.
    ///
    /// # Errors
    /// `Internal` when one would overlap itself or the next one.
    pub(crate) fn new(data: &'a mut [T], shape: [usize; 2], strides: [usize; 2]) -> Result<Self> {
        let distance = shape[0] * shape[1];
        let count = data.len().checked_div(distance).unwrap_or(0);
        let all = MatricesMut::new(data, count, shape, strides)?;
        Ok(Self { first: all.first, count, distance })
    }

    /// Some of the rows of every matrix. The range must lie within them.
    pub(crate) fn row_range(&mut self, range: Range<usize>) -> SideBySide<'_, T> {
        SideBySide {
            first: self.first.row_range(range),
            count: self.count,
            distance: self.distance,
        }
    }

    /// The number of rows and of columns.
    pub(crate) fn shape(&self) -> [usize; 2] {
        [self.first.rows, self.first.cols * self.count]
    }

    /// A matrix.
    pub(super) fn get(&mut self, index: usize) -> MatMut<'_, T> {
        assert!(index < self.count);
        let data = self.first.data.wrapping_add(index * self.distance);
        MatMut { data, memory: PhantomData, ..self.first }
    }
}

impl<'a, T> From<MatMut<'a, T>> for SideBySide<'a, T> {
    fn from(first: MatMut<'a, T>) -> Self {
        Self { first, count: 1, distance: 0 }
    }
}

/// Matrices of one shape in a slice, one after the other.
pub(super) struct MatricesMut<'a, T> {
    first: MatMut<'a, T>,
    count: usize,
    stride: usize,
}

// SAFETY: only `get` reaches the elements, under its contract.
unsafe impl<T: Send> Sync for MatricesMut<'_, T> {}

impl<'a, T> MatricesMut<'a, T> {
    pub(super) fn new(
        data: &'a mut [T],
        count: usize,
        shape: [usize; 2],
        strides: [usize; 2],
    ) -> Result<Self> {
        let stride = shape[0] * shape[1];
        if stride * count > data.len() || span(shape, strides) > stride {
            bug!("{count} {shape:?} matrices with strides {strides:?} in {} elements", data.len());
        }
        Ok(Self { first: MatMut::strided(data, shape, strides)?, count, stride })
    }

    /// # Safety
    /// The caller owes that no two living matrices, or parts of them, overlap.
    pub(super) unsafe fn get(&self, index: usize) -> MatMut<'a, T> {
        assert!(index < self.count);
        let data = self.first.data.wrapping_add(index * self.stride);
        MatMut { data, memory: PhantomData, ..self.first }
    }
}

/// A batch of matrices of one shape, read from a tensor.
pub(crate) struct Batch<'a, T> {
    first: Mat<'a, T>,
    count: usize,
    stride: isize,
}

/// Matrices of one shape in two batch dimensions, read from a tensor of rank 4.
pub(crate) struct Heads<'a, T> {
    first: Mat<'a, T>,
    counts: [usize; 2],
    strides: [isize; 2],
}

impl<'a, T: Element> Heads<'a, T> {
    /// Operand `index` of an access set, a tensor of rank 4.
    ///
    /// # Errors
    /// Those of the access set; `Internal` for another rank.
    pub(crate) fn of(access: &'a AccessSet<'_>, index: usize, tensor: &Tensor) -> Result<Self> {
        let (sizes, strides) = (tensor.sizes(), tensor.strides());
        if sizes.len() != 4 {
            bug!("a batch of heads of rank {}", sizes.len());
        }
        let first = Mat {
            data: access.read_ptr::<T>(index)?,
            rows: sizes[2] as usize,
            cols: sizes[3] as usize,
            row_stride: strides[2] as isize,
            col_stride: strides[3] as isize,
            conj: false,
            memory: PhantomData,
        };
        let counts = [sizes[0] as usize, sizes[1] as usize];
        Ok(Self { first, counts, strides: [strides[0] as isize, strides[1] as isize] })
    }

    /// The matrix of a place; a batch dimension of one stands for all.
    pub(crate) fn get(&self, place: [usize; 2]) -> Mat<'a, T> {
        let mut offset = 0;
        for ((&count, &stride), place) in self.counts.iter().zip(&self.strides).zip(place) {
            let index = if count == 1 { 0 } else { place };
            assert!(index < count);
            offset += index as isize * stride;
        }
        Mat { data: self.first.data.wrapping_offset(offset), ..self.first }
    }
}

/// A batch of matrices of one shape that is written.
pub(crate) struct BatchMut<'a, T> {
    first: MatMut<'a, T>,
    count: usize,
    stride: isize,
}

// SAFETY: only `get` reads a `BatchMut` from another thread, under its contract.
unsafe impl<T: Send> Sync for BatchMut<'_, T> {}

impl<'a, T: Element> Mat<'a, T> {
    /// Operand `index` of an access set, a matrix. Complex tensors may be lazily conjugated.
    ///
    /// # Errors
    /// Those of the access set; `Internal` for another rank.
    #[inline]
    pub(crate) fn of(access: &'a AccessSet<'_>, index: usize, tensor: &Tensor) -> Result<Self> {
        let Some(([rows, cols], [row, col])) = tensor.matrix_geometry() else {
            bug!("a matrix of rank {}", tensor.dim());
        };
        Ok(Self {
            data: access.read_ptr::<T>(index)?,
            rows: rows as usize,
            cols: cols as usize,
            row_stride: row as isize,
            col_stride: col as isize,
            conj: tensor.is_conj(),
            memory: PhantomData,
        })
    }
}

impl<'a, T: Element> MatMut<'a, T> {
    /// Operand `index` of an access set, a matrix that must be declared as written and must not
    /// overlap itself.
    ///
    /// # Errors
    /// As for [`Mat::of`].
    #[inline]
    pub(crate) fn of(access: &'a AccessSet<'_>, index: usize, tensor: &Tensor) -> Result<Self> {
        let Some(([rows, cols], [row, col])) = tensor.matrix_geometry() else {
            bug!("a matrix of rank {}", tensor.dim());
        };
        Ok(Self {
            data: access.write_ptr::<T>(index)?,
            rows: rows as usize,
            cols: cols as usize,
            row_stride: row as isize,
            col_stride: col as isize,
            memory: PhantomData,
        })
    }
}

impl<'a, T: Element> Batch<'a, T> {
    /// Operand `index` of an access set as matrices: its last two dimensions, or a vector as one
    /// column; a dimension in front of them is the batch. Complex tensors may be lazily conjugated.
    ///
    /// # Errors
    /// Those of the access set.
    pub(crate) fn of(access: &'a AccessSet<'_>, index: usize, tensor: &Tensor) -> Result<Self> {
        let (sizes, strides) = three_dimensions(tensor);
        let first = Mat {
            data: access.read_ptr::<T>(index)?,
            rows: sizes[1],
            cols: sizes[2],
            row_stride: strides[1],
            col_stride: strides[2],
            conj: tensor.is_conj(),
            memory: PhantomData,
        };
        Ok(Self { first, count: sizes[0], stride: strides[0] })
    }

    /// The number of matrices.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// Matrix `index`; the only one stands for all.
    pub(crate) fn get(&self, index: usize) -> Mat<'a, T> {
        let index = if self.count == 1 { 0 } else { index };
        assert!(index < self.count);
        Mat { data: self.first.data.wrapping_offset(index as isize * self.stride), ..self.first }
    }
}

impl<'a, T: Element> BatchMut<'a, T> {
    /// Operand `index` of an access set, which must be declared as written and must not overlap
    /// itself. See [`Batch::of`].
    ///
    /// # Errors
    /// Those of the access set.
    pub(crate) fn of(access: &'a AccessSet<'_>, index: usize, tensor: &Tensor) -> Result<Self> {
        let (sizes, strides) = three_dimensions(tensor);
        let first = MatMut {
            data: access.write_ptr::<T>(index)?,
            rows: sizes[1],
            cols: sizes[2],
            row_stride: strides[1],
            col_stride: strides[2],
            memory: PhantomData,
        };
        Ok(Self { first, count: sizes[0], stride: strides[0] })
    }

    /// The number of matrices.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// The shape of each matrix.
    pub(crate) fn shape(&self) -> [usize; 2] {
        [self.first.rows, self.first.cols]
    }

    /// The only or first matrix.
    pub(crate) fn into_first(self) -> MatMut<'a, T> {
        self.first
    }

    /// # Safety
    /// The caller owes that every matrix is taken at most once at a time.
    pub(super) unsafe fn get(&self, index: usize) -> MatMut<'a, T> {
        assert!(index < self.count);
        let data = self.first.data.wrapping_offset(index as isize * self.stride);
        MatMut { data, memory: PhantomData, ..self.first }
    }
}

/// Sizes and strides as (batch, rows, columns).
#[inline]
fn three_dimensions(tensor: &Tensor) -> ([usize; 3], [isize; 3]) {
    if let Some(([rows, cols], [row, col])) = tensor.matrix_geometry() {
        return ([1, rows as usize, cols as usize], [0, row as isize, col as isize]);
    }
    three_of_any(tensor)
}

#[inline(never)]
fn three_of_any(tensor: &Tensor) -> ([usize; 3], [isize; 3]) {
    let mut geometry = Geometry::EMPTY;
    tensor.copy_geometry_to(&mut geometry);
    let Geometry { sizes, strides, .. } = &geometry;
    let size = |d: usize| sizes[d] as usize;
    let stride = |d: usize| strides[d] as isize;
    match sizes.len() {
        0 => ([1, 1, 1], [0, 1, 1]),
        1 => ([1, size(0), 1], [0, stride(0), 1]),
        2 => ([1, size(0), size(1)], [0, stride(0), stride(1)]),
        _ => ([size(0), size(1), size(2)], [stride(0), stride(1), stride(2)]),
    }
}

/// The number of elements from the first to the last, both included.
fn span(shape: [usize; 2], strides: [usize; 2]) -> usize {
    if shape.contains(&0) {
        return 0;
    }
    1 + (shape[0] - 1) * strides[0] + (shape[1] - 1) * strides[1]
}

/// Whether two elements may share memory.
fn overlaps(shape: [usize; 2], strides: [usize; 2]) -> bool {
    let (inner, outer) = if strides[0] < strides[1] { (0, 1) } else { (1, 0) };
    let inner_overlaps = shape[inner] > 1 && strides[inner] == 0;
    let inner_span = 1 + shape[inner].saturating_sub(1) * strides[inner];
    inner_overlaps || (shape[outer] > 1 && strides[outer] < inner_span)
}

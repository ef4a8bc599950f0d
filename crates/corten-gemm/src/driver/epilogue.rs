//! The epilogue: what happens to accumulators before they are stored, and where they are stored (as in
//! CUTLASS, Thakkar et al. 2017).

use crate::pack::pack_kernels::PackKernels;
use crate::types::accumulate::{Accumulate, Scale};
use crate::types::element::Scalar;
use crate::types::low_precision::LowPrecision;
use crate::types::strided_rows::StridedRows;
use crate::types::view::View;
use std::ops::Range;

/// The batch stride of a result whose columns are those of several matrices, side by side.
#[derive(Clone, Copy)]
pub struct BatchStride {
    /// The columns of a matrix.
    pub columns: usize,
    /// The distance of two matrices.
    pub distance: isize,
}

/// The result of a product, and how it is stored.
pub(crate) struct Epilogue<'a, E: 'static> {
    c: View<*mut E>,
    pub alpha: E,
    pub accumulate: Accumulate<E>,
    batch_stride: Option<BatchStride>,
    pack: &'static PackKernels<E>,
    /// Stores finished sums elsewhere, instead of to the view.
    store: Option<&'a StoreTile<'a, E>>,
}

impl<'a, E: Scalar> Epilogue<'a, E> {
    pub(crate) fn of(
        c: View<*mut E>,
        alpha: E,
        accumulate: Accumulate<E>,
        pack: &'static PackKernels<E>,
    ) -> Self {
        Self { c, alpha, accumulate, batch_stride: None, pack, store: None }
    }

    /// An epilogue that has finished sums stored by a function. All of the depth must be summed at
    /// once.
    pub(crate) fn through(
        shape: [usize; 2],
        store: &'a StoreTile<'a, E>,
        pack: &'static PackKernels<E>,
    ) -> Self {
        let c = View { data: std::ptr::null_mut(), shape, strides: [0, 0] };
        Self { store: Some(store), ..Self::of(c, E::ONE, Accumulate::Overwrite, pack) }
    }

    /// Whether micro-kernels may store to the view.
    pub(crate) fn is_direct(&self) -> bool {
        self.store.is_none()
    }

    /// The same with its columns in several matrices.
    pub(crate) fn batch_stride(self, batch_stride: Option<BatchStride>) -> Self {
        Self { batch_stride, ..self }
    }

    pub(crate) fn shape(&self) -> [usize; 2] {
        self.c.shape
    }

    pub(crate) fn strides(&self) -> [isize; 2] {
        self.c.strides
    }

    /// Whether a range of columns is that of one matrix.
    pub(crate) fn is_one_matrix(&self, cols: &Range<usize>) -> bool {
        self.batch_stride
            .is_none_or(|BatchStride { columns, .. }| cols.start % columns + cols.len() <= columns)
    }

    /// The address of an element.
    pub(crate) fn ptr_at(&self, [row, col]: [usize; 2]) -> *mut E {
        match self.batch_stride {
            None => self.c.ptr_at([row, col]),
            Some(BatchStride { columns, distance }) => {
                assert!(col < self.c.shape[1]);
                let matrix = View { shape: [self.c.shape[0], columns], ..self.c };
                let start = (col / columns) as isize * distance;
                matrix.ptr_at([row, col % columns]).wrapping_offset(start)
            }
        }
    }

    /// A range of columns, matrix by matrix.
    fn segments(&self, cols: Range<usize>) -> impl Iterator<Item = Range<usize>> {
        let columns = self.batch_stride.map_or(usize::MAX, |batch_stride| batch_stride.columns);
        let mut start = cols.start;
        std::iter::from_fn(move || {
            let end = cols.end.min(start.saturating_add(columns - start % columns));
            let segment = start..end;
            start = end;
            (!segment.is_empty()).then_some(segment)
        })
    }

    /// Stores a tile of sums, in rows `width` apart.
    pub(crate) fn store(&self, sums: &[E], width: usize, ptr_at: [usize; 2], size: [usize; 2]) {
        let beta = self.init_tile(ptr_at, size);
        self.store_tile(sums, width, ptr_at, size, beta);
    }

    /// Stores a tile of sums, given the `beta` of the result.
    pub(crate) fn store_tile(
        &self,
        sums: &[E],
        width: usize,
        [row, col]: [usize; 2],
        [rows, cols]: [usize; 2],
        beta: Option<E>,
    ) {
        if let Some(store) = self.store {
            return store(sums, width, [row, col], [rows, cols]);
        }
        let scale = Scale { alpha: self.alpha, beta };
        for segment in self.segments(col..col + cols) {
            let sums = &sums[segment.start - col..];
            self.store_segment(
                sums,
                width,
                [rows, segment.len()],
                self.ptr_at([row, segment.start]),
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
        let from =
            StridedRows { first: sums.as_ptr(), stride: width as isize, count: rows, len: cols };
        let pack = self.pack;
        // SAFETY: there are sums for all rows and columns, which lie in the result.
        unsafe {
            if col == 1 {
                let to = StridedRows { first: c, stride: row, count: rows, len: cols };
                return (pack.store_tile)(from, to, scale);
            }
            if row == 1 {
                let to = StridedRows { first: c, stride: col, count: cols, len: rows };
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

    /// Stores the biases of a tile, if there are any, and returns the `beta` of the result.
    pub(crate) fn init_tile(&self, [row, col]: [usize; 2], [rows, cols]: [usize; 2]) -> Option<E> {
        match self.accumulate {
            Accumulate::Overwrite => return None,
            Accumulate::Beta(beta) => return Some(beta),
            Accumulate::RowBias(_) | Accumulate::ColumnBias(_) => {}
        }
        for segment in self.segments(col..col + cols) {
            self.init_segment([row, segment.start], [rows, segment.len()]);
        }
        Some(E::ONE)
    }

    fn init_segment(&self, ptr_at: [usize; 2], size: [usize; 2]) {
        let (values, steps) = match self.accumulate {
            Accumulate::Overwrite | Accumulate::Beta(_) => return,
            Accumulate::RowBias(values) => (values.wrapping_add(ptr_at[0]), [1, 0]),
            Accumulate::ColumnBias(values) => (values.wrapping_add(ptr_at[1]), [0, 1]),
        };
        let first = self.ptr_at(ptr_at);
        // In memory order.
        let row_major = self.c.strides[1].abs() <= self.c.strides[0].abs();
        let [outer, inner] = if row_major { [0, 1] } else { [1, 0] };
        for i in 0..size[outer] {
            let row_ptr = first.wrapping_offset(i as isize * self.c.strides[outer]);
            let values = values.wrapping_add(i * steps[outer]);
            if self.c.strides[inner] == 1 {
                // SAFETY: as below; the elements of the row are contiguous.
                unsafe {
                    if steps[inner] == 1 {
                        std::ptr::copy_nonoverlapping(values, row_ptr, size[inner]);
                    } else {
                        std::slice::from_raw_parts_mut(row_ptr, size[inner]).fill(*values);
                    }
                }
                continue;
            }
            for j in 0..size[inner] {
                // SAFETY: the tile lies in the result; there is a bias for every row or
                // column.
                unsafe {
                    *row_ptr.wrapping_offset(j as isize * self.c.strides[inner]) =
                        *values.add(j * steps[inner]);
                }
            }
        }
    }
}

/// Stores a tile of sums in rows so far apart, given its first row and column and its size.
pub(crate) type StoreTile<'a, E> = dyn Fn(&[E], usize, [usize; 2], [usize; 2]) + 'a;

/// Where the sums of a low-precision product are stored.
pub enum SumsTo<'a, H: LowPrecision> {
    /// To a buffer.
    Buffer(View<*mut H::Accum>),
    /// Through an epilogue to this result, when all of the depth is summed at once.
    Epilogue(View<*mut H>, &'a StoreTile<'a, H::Accum>),
}

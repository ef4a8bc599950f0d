//! Operands: matrices in memory, prepacked ones, and those of implicit GEMM, which are generated while
//! they are packed.

use crate::pack::prepacked::PrepackedB;
use crate::types::view::MatrixRef;
use std::ops::Range;

/// An operand that is generated while it is packed, a few columns at a time: the implicit GEMM of
/// convolutions, where im2col is never stored.
pub trait ImplicitOperand<E> {
    /// Writes the element of row `rows.start + i` and column `cols.start + j` to element `j` of row
    /// `i`, for both ranges. Rows are `width` apart; their padding may hold anything, and so may
    /// [`PACK_PADDING`](crate::PACK_PADDING) elements behind the last one.
    fn pack(&self, rows: Range<usize>, cols: Range<usize>, to: &mut [E], width: usize);
}

/// An operand of a product.
#[derive(Clone, Copy)]
pub enum Operand<'a, E: 'static> {
    /// A matrix in memory.
    Matrix(MatrixRef<'a, E>),
    /// An operand that is generated. It is packed row by row: rows of `a` have contiguous steps of
    /// the depth, rows of `b` contiguous columns.
    Implicit(&'a dyn ImplicitOperand<E>),
    /// A prepacked `b`, from a column on that begins a micro-panel.
    Prepacked(&'a PrepackedB<E>, usize),
    /// A segmented `a`.
    Segments(Segments<'a, E>),
}

/// An `a` whose rows consist of segments at a fixed distance, each of contiguous steps: a convolution
/// reads the pixels of its window where they are.
#[derive(Clone, Copy)]
pub struct Segments<'a, E> {
    pub(crate) first: MatrixRef<'a, E>,
    pub(crate) count: usize,
    pub(crate) distance: isize,
}

impl<'a, E: Copy> Segments<'a, E> {
    /// Segments, given the first one of every row and the distance of the next.
    ///
    /// # Safety
    /// All segments must be readable, and unchanged, for `'a`.
    ///
    /// # Panics
    /// When the steps of a segment are not contiguous.
    pub unsafe fn new(first: MatrixRef<'a, E>, count: usize, distance: isize) -> Self {
        assert!(first.strides()[1] == 1, "the steps of a segment must be contiguous");
        Self { first, count, distance }
    }
}

impl<E: Copy> Operand<'_, E> {
    /// Whether it may have this shape.
    pub(crate) fn fits(&self, [rows, cols]: [usize; 2]) -> bool {
        match self {
            Self::Matrix(matrix) => matrix.shape() == [rows, cols],
            Self::Implicit(_) => true,
            Self::Prepacked(packed, start) => packed.has(rows, *start..start + cols),
            Self::Segments(segments) => {
                let [segment_rows, steps] = segments.first.shape();
                segment_rows == rows && steps * segments.count == cols
            }
        }
    }
}

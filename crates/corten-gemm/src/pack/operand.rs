//! Operands: matrices in memory, and those that are generated while they are packed.

use crate::pack::prepacked::PrepackedB;
use crate::types::view::MatrixRef;
use std::ops::Range;

/// A factor that is made as it is needed, a few columns at a time.
pub trait ImplicitOperand<E> {
    /// Writes the element of row `rows.start + i` and column `cols.start + j` to place `j` of line
    /// `i`, for both ranges. Lines are `width` apart; what is left of them may hold anything, and
    /// so may [`PACK_PADDING`] elements behind the last one.
    fn pack(&self, rows: Range<usize>, cols: Range<usize>, to: &mut [E], width: usize);
}

/// A factor of a product.
#[derive(Clone, Copy)]
pub enum Operand<'a, E: 'static> {
    /// One that lies in memory.
    Matrix(MatrixRef<'a, E>),
    /// One that is made as it is needed. The lines of a first factor are its rows, and the steps of
    /// the depth lie side by side; those of a second factor are the steps, and its columns do.
    Implicit(&'a dyn ImplicitOperand<E>),
    /// A second factor whose panels were made before, from a column on that begins a panel.
    Prepacked(&'a PrepackedB<E>, usize),
    /// A first factor in pieces.
    Segments(Segments<'a, E>),
}

/// A first factor whose rows consist of as many pieces, one after the other at the same distance.
/// The steps of a piece lie side by side.
#[derive(Clone, Copy)]
pub struct Segments<'a, E> {
    pub(crate) first: MatrixRef<'a, E>,
    pub(crate) count: usize,
    pub(crate) distance: isize,
}

impl<'a, E: Copy> Segments<'a, E> {
    /// So many pieces, given the first one of every row, and how far the next one lies from it.
    ///
    /// # Safety
    /// All pieces must be readable, and unchanged, for `'a`.
    ///
    /// # Panics
    /// When the steps of a piece do not lie side by side.
    pub unsafe fn new(first: MatrixRef<'a, E>, count: usize, distance: isize) -> Self {
        assert!(first.strides()[1] == 1, "the k_range lie side by side");
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
                let [strided, k_range] = segments.first.shape();
                strided == rows && k_range * segments.count == cols
            }
        }
    }
}

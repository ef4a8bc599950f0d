//! Tensors whose rows or columns are compressed: CSR, CSC, and blocks of both, BSR and BSC.
//!
//! The shape of such a tensor is batches, rows, columns, dense dimensions. Everything here is made of
//! dense operators on the parts, so that it is the same on every device.

mod arithmetic;
mod convert;
mod create;
mod dense;
mod forms;
mod invariants;
mod products;
mod reduce;
mod sampled;
mod select;
mod stored;
mod unary;

pub use arithmetic::*;
pub use convert::*;
pub use create::*;
pub use forms::*;
pub use invariants::*;
pub use products::*;
pub use reduce::*;
pub use sampled::*;
pub use select::*;
pub use stored::*;
pub(crate) use unary::register;
pub use unary::*;

use super::Compressed;
use crate::Tensor;
use corten_core::{Dims, Layout, Result, bail};

/// Whether a layout compresses rows, not columns.
pub(crate) const fn by_rows(layout: Layout) -> bool {
    matches!(layout, Layout::SparseCsr | Layout::SparseBsr)
}

/// Whether the entries of a layout are blocks.
pub(crate) const fn in_blocks(layout: Layout) -> bool {
    matches!(layout, Layout::SparseBsr | Layout::SparseBsc)
}

/// Whether a layout is one of the four compressed ones.
pub(crate) const fn is_compressed(layout: Layout) -> bool {
    matches!(layout, Layout::SparseCsr | Layout::SparseCsc | Layout::SparseBsr | Layout::SparseBsc)
}

/// The names of compressed and plain indices in messages.
pub(crate) const fn index_names(layout: Layout) -> (&'static str, &'static str) {
    match by_rows(layout) {
        true => ("crow_indices", "col_indices"),
        false => ("ccol_indices", "row_indices"),
    }
}

/// A compressed tensor taken apart.
#[derive(Clone)]
pub(crate) struct Matrices {
    pub(crate) parts: Compressed,
    pub(crate) sizes: Dims,
}

impl Matrices {
    /// The parts of a compressed tensor; `None` for other tensors.
    pub(crate) fn of(tensor: &Tensor) -> Option<Self> {
        Some(Self { parts: Compressed::of(tensor)?, sizes: tensor.sizes() })
    }

    /// The parts of an argument that must be compressed.
    pub(crate) fn expect(tensor: &Tensor, operator: &str) -> Result<Self> {
        match Self::of(tensor) {
            Some(found) => Ok(found),
            None => bail!(
                Runtime,
                "{operator} expected sparse compressed tensor layout but got {}",
                tensor.layout()
            ),
        }
    }

    /// The tensor of these parts.
    pub(crate) fn tensor(&self) -> Result<Tensor> {
        self.parts.tensor(&self.sizes)
    }

    pub(crate) fn layout(&self) -> Layout {
        self.parts.layout
    }

    pub(crate) fn by_rows(&self) -> bool {
        by_rows(self.parts.layout)
    }

    pub(crate) fn in_blocks(&self) -> bool {
        in_blocks(self.parts.layout)
    }

    /// The number of batch dimensions.
    pub(crate) fn start(&self) -> usize {
        self.parts.compressed_indices.dim().saturating_sub(1)
    }

    pub(crate) fn batches(&self) -> &[i64] {
        &self.sizes[..self.start()]
    }

    /// The number of matrices.
    pub(crate) fn count(&self) -> i64 {
        self.batches().iter().product()
    }

    /// The sizes behind rows and columns.
    pub(crate) fn dense_sizes(&self) -> &[i64] {
        &self.sizes[self.start() + 2..]
    }

    /// Rows and columns.
    pub(crate) fn matrix_sizes(&self) -> [i64; 2] {
        let start = self.start();
        [self.sizes[start], self.sizes[start + 1]]
    }

    /// The shape of an entry: one by one where entries are numbers.
    pub(crate) fn block(&self) -> [i64; 2] {
        let sizes = self.parts.values.sizes();
        match self.in_blocks() {
            true => [sizes[self.start() + 1], sizes[self.start() + 2]],
            false => [1, 1],
        }
    }

    /// Rows and columns of blocks.
    pub(crate) fn grid(&self) -> [i64; 2] {
        let ([rows, columns], [height, width]) = (self.matrix_sizes(), self.block());
        [rows / height.max(1), columns / width.max(1)]
    }

    /// How many entries each matrix has.
    pub(crate) fn nnz(&self) -> i64 {
        self.parts.plain_indices.sizes().last().copied().unwrap_or(0)
    }

    /// Other entries at the same places.
    pub(crate) fn with_values(&self, values: Tensor) -> Self {
        Self { parts: Compressed { values, ..self.parts.clone() }, sizes: self.sizes.clone() }
    }

    /// The entries of all batches one behind the other.
    pub(crate) fn flat_values(&self) -> Result<Tensor> {
        let values = &self.parts.values;
        match self.start() {
            0 => Ok(values.clone()),
            start => {
                let mut sizes = vec![self.count() * self.nnz()];
                sizes.extend_from_slice(&values.sizes()[start + 1..]);
                crate::op::reshape(values, &sizes)
            }
        }
    }
}

//! Tensors whose rows or columns are compressed, from their parts.

use crate::{Tensor, op};
use corten_core::Result;

/// Tensors whose rows or columns are compressed. The indices are of `int32` or `int64`; what has batches has them in
/// all parts. Whether the parts fit together is checked.
///
/// ```
/// use corten::prelude::*;
///
/// # fn main() -> Result<()> {
/// // [[0, 2, 0], [1, 0, 3]]
/// let (ends, columns) = (tensor![0, 1, 3]?, tensor![1, 0, 2]?);
/// let matrix = Tensor::sparse_csr(&ends, &columns, &tensor![2., 1., 3.]?, [2, 3])?;
/// assert_eq!((matrix.layout(), matrix.nnz()?), (corten::Layout::SparseCsr, 3));
/// let product = matrix.mv(&tensor![1., 10., 100.]?)?;
/// assert_eq!(product.to_vec::<f32>()?, [20.0, 301.0]);
/// assert_eq!(matrix.to_dense()?.to_vec::<f32>()?, [0.0, 2.0, 0.0, 1.0, 0.0, 3.0]);
/// assert_eq!(matrix.to_sparse_csc()?.row_indices()?.to_vec::<i64>()?, [1, 0, 1]);
/// assert!(Tensor::sparse_csr(&ends, &tensor![1, 0, 7]?, &tensor![2., 1., 3.]?, [2, 3]).is_err());
/// # Ok(())
/// # }
/// ```
impl Tensor {
    /// Compressed rows: where the entries of each end, after a zero, in which column each is, and the entries.
    ///
    /// # Errors
    /// `Runtime` where the parts do not fit together.
    pub fn sparse_csr(
        crow_indices: &Self,
        col_indices: &Self,
        values: &Self,
        sizes: impl AsRef<[i64]>,
    ) -> Result<Self> {
        let sizes = sizes.as_ref();
        op::_validate_sparse_csr_tensor_args(crow_indices, col_indices, values, sizes, None)?;
        op::_sparse_csr_tensor_unsafe(
            crow_indices,
            col_indices,
            values,
            sizes,
            None,
            None,
            None,
            None,
        )
    }

    /// Compressed columns: where the entries of each end, after a zero, in which row each is, and the entries.
    ///
    /// # Errors
    /// `Runtime` where the parts do not fit together.
    pub fn sparse_csc(
        ccol_indices: &Self,
        row_indices: &Self,
        values: &Self,
        sizes: impl AsRef<[i64]>,
    ) -> Result<Self> {
        let sizes = sizes.as_ref();
        op::_validate_sparse_csc_tensor_args(ccol_indices, row_indices, values, sizes, None)?;
        op::_sparse_csc_tensor_unsafe(
            ccol_indices,
            row_indices,
            values,
            sizes,
            None,
            None,
            None,
            None,
        )
    }

    /// Compressed rows of blocks: the values are blocks, (entries, rows of a block, columns of a block).
    ///
    /// # Errors
    /// `Runtime` where the parts do not fit together.
    pub fn sparse_bsr(
        crow_indices: &Self,
        col_indices: &Self,
        values: &Self,
        sizes: impl AsRef<[i64]>,
    ) -> Result<Self> {
        let sizes = sizes.as_ref();
        op::_validate_sparse_bsr_tensor_args(crow_indices, col_indices, values, sizes, None)?;
        op::_sparse_bsr_tensor_unsafe(
            crow_indices,
            col_indices,
            values,
            sizes,
            None,
            None,
            None,
            None,
        )
    }

    /// Compressed columns of blocks: the values are blocks, (entries, rows of a block, columns of a block).
    ///
    /// # Errors
    /// `Runtime` where the parts do not fit together.
    pub fn sparse_bsc(
        ccol_indices: &Self,
        row_indices: &Self,
        values: &Self,
        sizes: impl AsRef<[i64]>,
    ) -> Result<Self> {
        let sizes = sizes.as_ref();
        op::_validate_sparse_bsc_tensor_args(ccol_indices, row_indices, values, sizes, None)?;
        op::_sparse_bsc_tensor_unsafe(
            ccol_indices,
            row_indices,
            values,
            sizes,
            None,
            None,
            None,
            None,
        )
    }
}

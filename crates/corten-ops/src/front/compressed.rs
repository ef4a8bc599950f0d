//! Tensors whose rows or columns are compressed, from their parts.

use crate::{Tensor, op};
use corten_core::Result;

/// Declares a constructor: what it makes, its parts, the operator that checks them and the one that takes them.
macro_rules! constructor {
    ($(#[$doc:meta])* $name:ident($compressed:ident, $plain:ident), $check:ident, $make:ident) => {
        $(#[$doc])*
        ///
        /// # Errors
        /// `Runtime` where the parts do not fit together.
        pub fn $name(
            $compressed: &Self,
            $plain: &Self,
            values: &Self,
            sizes: impl AsRef<[i64]>,
        ) -> Result<Self> {
            let sizes = sizes.as_ref();
            op::$check($compressed, $plain, values, sizes, None)?;
            op::$make($compressed, $plain, values, sizes, None, None, None, None)
        }
    };
}

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
    constructor!(
        /// Compressed rows: where the entries of each end, after a zero, in which column each is, and the entries.
        sparse_csr(crow_indices, col_indices),
        _validate_sparse_csr_tensor_args, _sparse_csr_tensor_unsafe
    );
    constructor!(
        /// Compressed columns: where the entries of each end, after a zero, in which row each is, and the entries.
        sparse_csc(ccol_indices, row_indices),
        _validate_sparse_csc_tensor_args, _sparse_csc_tensor_unsafe
    );
    constructor!(
        /// Compressed rows of blocks: the values are blocks, (entries, rows of a block, columns of a block).
        sparse_bsr(crow_indices, col_indices),
        _validate_sparse_bsr_tensor_args, _sparse_bsr_tensor_unsafe
    );
    constructor!(
        /// Compressed columns of blocks: the values are blocks, (entries, rows of a block, columns of a block).
        sparse_bsc(ccol_indices, row_indices),
        _validate_sparse_bsc_tensor_args, _sparse_bsc_tensor_unsafe
    );
}

//! Tensors in coordinate format, from their parts.

use crate::{Tensor, op};
use corten_core::Result;

/// Tensors in coordinate format: one column of indices and one value for each entry.
///
/// ```
/// use corten::prelude::*;
///
/// # fn main() -> Result<()> {
/// // [[0, 2, 0], [1, 0, 3]], the last in two halves.
/// let places = tensor![[0, 1, 1, 1], [1, 0, 2, 2]]?;
/// let matrix = Tensor::sparse_coo(&places, &tensor![2., 1., 1., 2.]?, [2, 3])?;
/// assert_eq!((matrix.layout(), matrix.nnz()?), (corten::Layout::Sparse, 4));
/// let matrix = matrix.coalesce()?;
/// assert_eq!(matrix.values()?.to_vec::<f32>()?, [2.0, 1.0, 3.0]);
/// assert_eq!(matrix.mv(&tensor![1., 10., 100.]?)?.to_vec::<f32>()?, [20.0, 301.0]);
/// assert_eq!(matrix.to_dense()?.to_vec::<f32>()?, [0.0, 2.0, 0.0, 1.0, 0.0, 3.0]);
/// assert!(Tensor::sparse_coo(&places, &tensor![2., 1., 1., 2.]?, [2, 2]).is_err());
/// # Ok(())
/// # }
/// ```
impl Tensor {
    /// Entries at places: indices (dimensions, entries) and values (entries, dense dimensions…).
    ///
    /// # Errors
    /// `Runtime` where the parts do not fit together.
    pub fn sparse_coo(indices: &Self, values: &Self, sizes: impl AsRef<[i64]>) -> Result<Self> {
        let sizes = sizes.as_ref();
        op::sparse_coo_tensor_indices_size(indices, values, sizes, None, None, None, None, None)
    }
}

//! Matrices of 2:4 sparsity.

use corten_core::{DType, Result};
use corten_ops::{Tensor, op};

/// A matrix of which at most two of four neighbours in a row are not zero, in little more than half of
/// the memory: the elements that are kept, and two bits for each that say where it was.
///
/// The tensors are those of `torch.sparse.SparseSemiStructuredTensorCUTLASS`. The dtype is `float16`,
/// `bfloat16`, `int8` or `float32`, of which one of two neighbours is kept; the number of rows is a
/// multiple of 32 (`int8`: 16), that of columns of 32 (`int8`: 64, `float32`: 16).
///
/// ```
/// use corten::nn::SemiStructured;
/// use corten::prelude::*;
///
/// # fn main() -> Result<()> {
/// // Of every four elements of a row the last two are zero.
/// let kept = tensor![[1., 2., 0., 0.]]?.repeat(&[32, 16])?;
/// let weight = kept.to_dtype(DType::BFloat16)?;
/// let sparse = SemiStructured::from_dense(&weight)?;
/// assert_eq!(sparse.packed().sizes().as_slice(), [32, 32]);
/// assert!(op::equal(&sparse.to_dense()?, &weight)?);
/// let input = Tensor::ones([3, 64])?.to_dtype(DType::BFloat16)?;
/// let output = sparse.linear(&input, None)?;
/// assert_eq!(output.sizes().as_slice(), [3, 32]);
/// assert_eq!(output.to_vec::<f32>()?[0], 48.0);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct SemiStructured {
    packed: Tensor,
    meta: Tensor,
}

impl SemiStructured {
    /// The sparse form of a matrix.
    ///
    /// # Errors
    /// `Runtime` for another dtype, sizes that do not fit, and more elements that are not zero.
    pub fn from_dense(dense: &Tensor) -> Result<Self> {
        let (packed, meta) = op::_to_sparse_semi_structured(&dense.detach()?)?;
        Ok(Self { packed, meta })
    }

    /// The sparse form of its parts, as a file may hold them.
    pub fn from_parts(packed: Tensor, meta: Tensor) -> Self {
        Self { packed, meta }
    }

    /// The elements that are kept, half as many columns as the matrix has.
    pub fn packed(&self) -> &Tensor {
        &self.packed
    }

    /// Words that say where the elements were.
    pub fn meta(&self) -> &Tensor {
        &self.meta
    }

    /// The dense matrix.
    ///
    /// # Errors
    /// `Runtime` where the parts do not fit together.
    pub fn to_dense(&self) -> Result<Tensor> {
        op::semi_structured_to_dense(&self.packed, &self.meta)
    }

    /// The product with a dense matrix; of `int8` as `int8`, or as `int32` where that is asked for.
    ///
    /// # Errors
    /// `Runtime` where shapes or dtypes do not fit.
    pub fn mm(&self, dense: &Tensor, out_dtype: Option<DType>) -> Result<Tensor> {
        op::_sparse_semi_structured_mm(&self.packed, &self.meta, dense, out_dtype)
    }

    /// `input @ self.T + bias`, with any number of leading dimensions of `input`.
    ///
    /// # Errors
    /// `Runtime` where shapes or dtypes do not fit.
    pub fn linear(&self, input: &Tensor, bias: Option<&Tensor>) -> Result<Tensor> {
        op::_sparse_semi_structured_linear(input, &self.packed, &self.meta, bias, None, None)
    }
}

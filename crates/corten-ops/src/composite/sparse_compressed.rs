//! Operators of compressed tensors that are made of others.

use crate::{Tensor, op};
use corten_core::{Layout, Result};

pub use crate::sparse::compressed::{
    bsc_of_parts, bsc_of_size, bsc_unsafe, bsr_of_parts, bsr_of_size, bsr_unsafe,
    compressed_of_parts, compressed_of_size, compressed_with_dims, csc_of_parts, csc_of_size,
    csc_unsafe, csr_of_parts, csr_of_size, csr_unsafe,
};

macro_rules! conversions {
    ($($name:ident = $operator:ident to $layout:ident $(of $blocksize:ident)?;)*) => {$(
        #[doc = concat!("The entries in the layout `", stringify!($layout), "`.")]
        ///
        /// # Errors
        /// `Runtime` where there is no way between the layouts.
        pub fn $name(
            self_: &Tensor,
            $($blocksize: &[i64],)?
            dense_dim: Option<i64>,
        ) -> Result<Tensor> {
            let same = self_.layout() == Layout::$layout && dense_dim.is_none();
            if same $(&& block_of(self_).is_some_and(|block| block == $blocksize))? {
                return Ok(self_.clone());
            }
            op::$operator(self_, $($blocksize,)? dense_dim)
        }
    )*};
}

conversions! {
    to_csr = _to_sparse_csr to SparseCsr;
    to_csc = _to_sparse_csc to SparseCsc;
    to_bsr = _to_sparse_bsr to SparseBsr of blocksize;
    to_bsc = _to_sparse_bsc to SparseBsc of blocksize;
}

/// The shape of a compressed tensor's blocks.
fn block_of(tensor: &Tensor) -> Option<[i64; 2]> {
    Some(crate::sparse::compressed::Matrices::of(tensor)?.block())
}

/// The reduced products of rows, without where they came from.
///
/// # Errors
/// `Runtime` where layouts, shapes or dtypes do not fit.
pub fn mm_reduced(sparse: &Tensor, dense: &Tensor, reduce: &str) -> Result<Tensor> {
    Ok(op::_sparse_mm_reduce_impl(sparse, dense, reduce)?.0)
}

//! Operators that take the parts of compressed tensors, and conversions of tensors of any layout.

pub use crate::sparse::compressed::{
    ccol_indices, col_indices, compressed_unsafe, crow_indices, indices_from_coo_to_csr,
    indices_from_csr_to_coo, row_indices, to_bsc, to_bsr, to_csc, to_csr, validate, validate_bsc,
    validate_bsr, validate_csc, validate_csr, validate_indices,
};

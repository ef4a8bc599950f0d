//! Operators of sparse tensors that are made of others.

use crate::{Tensor, op};
use corten_core::{Layout, Result, ensure};

/// The entries with different places in order.
///
/// # Errors
/// `Runtime` for a tensor in another layout.
pub fn coalesce(self_: &Tensor) -> Result<Tensor> {
    ensure!(
        self_.layout() == Layout::Sparse,
        Runtime,
        "coalesce expected sparse coordinate tensor layout but got {}",
        self_.layout()
    );
    if op::is_coalesced(self_)? { Ok(self_.clone()) } else { op::_coalesce(self_) }
}

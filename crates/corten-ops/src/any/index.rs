//! Writing by index.

use crate::{Tensor, op};
use corten_core::Result;

/// Writes or adds values at the elements that index tensors select.
///
/// # Errors
/// Those of `index_put_`.
pub fn index_put_impl_(
    self_: &Tensor,
    indices: &[Option<Tensor>],
    values: &Tensor,
    accumulate: bool,
    _unsafe: bool,
) -> Result<Tensor> {
    op::index_put_(self_, indices, values, accumulate)
}

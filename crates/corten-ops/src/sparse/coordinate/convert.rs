//! To and from coordinate format.

use super::entries;
use crate::Tensor;
use crate::sparse::Coo;
use corten_core::Result;

/// The entries with different places in order, as a tensor of its own.
///
/// # Errors
/// Those of sorting and adding.
pub fn coalesce(self_: &Tensor) -> Result<Tensor> {
    let sizes = self_.sizes();
    entries::coalesced(&Coo::expect(self_, "_coalesce")?, &sizes)?.tensor(&sizes)
}

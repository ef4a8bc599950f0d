//! Histograms with their edges.

use crate::Tensor;
use crate::composite::histogram as rules;
use corten_core::Result;

/// Counts between given edges.
///
/// # Errors
/// `Runtime` for edges and weights that do not fit the elements.
pub fn bins_tensor(
    self_: &Tensor,
    bins: &Tensor,
    weight: Option<&Tensor>,
    density: bool,
) -> Result<(Tensor, Tensor)> {
    rules::histogram_bins_tensor(self_, bins, weight, density)
}

/// Counts in equal bins.
///
/// # Errors
/// `Runtime` for a number of bins, a range or weights that do not fit.
pub fn bin_ct(
    self_: &Tensor,
    bins: i64,
    range: Option<&[f64]>,
    weight: Option<&Tensor>,
    density: bool,
) -> Result<(Tensor, Tensor)> {
    rules::histogram_bin_ct(self_, bins, range, weight, density)
}

/// The edges of equal bins in each dimension.
///
/// # Errors
/// `Runtime` for a number of bins or a range that is none.
pub fn bin_edges(
    self_: &Tensor,
    bins: &[i64],
    range: Option<&[f64]>,
    _weight: Option<&Tensor>,
    _density: bool,
) -> Result<Vec<Tensor>> {
    rules::bin_edges(self_, bins, range)
}

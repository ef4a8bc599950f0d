//! Histograms with their edges.

use crate::Tensor;
use crate::composite::histogram as rules;
use crate::derived::write_exact_out;
use crate::meta::cpp_name;
use corten_core::{Result, ensure};

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

/// [`bins_tensor`] into given outputs.
///
/// # Errors
/// As there, and `Runtime` for outputs of another dtype than the input's.
pub fn bins_tensor_out(
    self_: &Tensor,
    bins: &Tensor,
    weight: Option<&Tensor>,
    density: bool,
    hist: &Tensor,
    bin_edges: &Tensor,
) -> Result<(Tensor, Tensor)> {
    check_outputs(self_, hist, bin_edges)?;
    let (counts, edges) = bins_tensor(self_, bins, weight, density)?;
    Ok((write_exact_out(hist, &counts)?, write_exact_out(bin_edges, &edges)?))
}

/// [`bin_ct`] into given outputs.
///
/// # Errors
/// As there, and `Runtime` for outputs of another dtype than the input's.
pub fn bin_ct_out(
    self_: &Tensor,
    bins: i64,
    range: Option<&[f64]>,
    weight: Option<&Tensor>,
    density: bool,
    hist: &Tensor,
    bin_edges: &Tensor,
) -> Result<(Tensor, Tensor)> {
    check_outputs(self_, hist, bin_edges)?;
    let (counts, edges) = bin_ct(self_, bins, range, weight, density)?;
    Ok((write_exact_out(hist, &counts)?, write_exact_out(bin_edges, &edges)?))
}

fn check_outputs(self_: &Tensor, hist: &Tensor, bin_edges: &Tensor) -> Result<()> {
    for (name, output, place) in [("hist", hist, ""), ("bin_edges", bin_edges, " for dimension 0")]
    {
        ensure!(
            output.dtype() == self_.dtype(),
            Runtime,
            "torch.histogram: input tensor and {name} tensor should have the same dtype, but got \
             input {} and {name} {}{place}",
            cpp_name(self_.dtype()),
            cpp_name(output.dtype())
        );
    }
    Ok(())
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

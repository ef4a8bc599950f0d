//! Edges of histograms, and histograms made of counts.

use super::support::along;
use crate::{Tensor, op};
use corten_core::{Result, Scalar, ensure, try_collect, try_vec, try_with_capacity};

/// The first and last edge of one dimension.
///
/// ```
/// use corten::ops::composite::histogram::Range;
/// use corten::prelude::*;
///
/// # fn main() -> Result<()> {
/// let x = tensor![1.0, 5.0]?;
/// let range = Range::of_histc(&x, 0.into(), 0.into())?;
/// assert_eq!((range.low, range.high), (1.0, 5.0));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Range {
    /// The first edge.
    pub low: f64,
    /// The last edge.
    pub high: f64,
}

impl Range {
    /// The range of `histc`: the given one, or that of the elements.
    ///
    /// # Errors
    /// `Runtime` for a range that is not finite or not ascending.
    pub fn of_histc(self_: &Tensor, min: Scalar, max: Scalar) -> Result<Self> {
        let (mut low, mut high) = (min.to_f64(), max.to_f64());
        if low == high && self_.numel() > 0 {
            let (least, greatest) = op::aminmax(self_, None, false)?;
            (low, high) = (least.to_element()?, greatest.to_element()?);
        }
        if low == high {
            (low, high) = (low - 1.0, high + 1.0);
        }
        ensure!(
            low.is_finite() && high.is_finite(),
            Runtime,
            "torch.histc: range of [{}, {}] is not finite",
            shown_bound(low),
            shown_bound(high)
        );
        ensure!(low < high, Runtime, "torch.histc: max must be larger than min");
        Ok(Self { low, high })
    }

    /// The edges of equal bins.
    ///
    /// # Errors
    /// Those of `linspace`.
    pub fn edges(self, bins: i64, like: &Tensor) -> Result<Tensor> {
        let (low, high) = (Scalar::Float(self.low), Scalar::Float(self.high));
        let (dtype, device) = (Some(like.dtype()), Some(like.device()));
        op::linspace(low, high, bins.saturating_add(1), dtype, None, device, None)
    }
}

fn shown_bound(x: f64) -> String {
    if x.is_nan() { "nan".to_owned() } else { format!("{x}") }
}

/// # Errors
/// `Runtime` for a number of bins that is not positive.
pub fn check_bins(bins: i64, dim: usize) -> Result<()> {
    ensure!(
        bins > 0,
        Runtime,
        "torch.histogram(): bins must be > 0, but got {bins} for dimension {dim}"
    );
    Ok(())
}

/// # Errors
/// `Runtime` for edges, points or weights that do not belong together.
pub fn check_points(self_: &Tensor, edges: &[Tensor], weight: Option<&Tensor>) -> Result<()> {
    let sizes = self_.sizes();
    ensure!(
        sizes.len() >= 2,
        Runtime,
        "torch.histogramdd: input tensor should have at least 2 dimensions"
    );
    let dims = sizes[sizes.len() - 1];
    ensure!(
        dims == edges.len() as i64,
        Runtime,
        "torch.histogramdd: expected {dims} sequences of bin edges for a {dims}-dimensional \
         histogram but got {}",
        edges.len()
    );
    for (dim, edges) in edges.iter().enumerate() {
        ensure!(
            edges.dtype() == self_.dtype(),
            Runtime,
            "torch.histogramdd: input tensor and bins tensors should have the same dtype, but got \
             input with dtype {} and bins for dimension {dim} with dtype {}",
            crate::meta::cpp_name(self_.dtype()),
            crate::meta::cpp_name(edges.dtype())
        );
        ensure!(
            edges.dim() == 1,
            Runtime,
            "torch.histogramdd: bins tensor should have one dimension, but got {} dimensions in \
             the bins tensor for dimension {dim}",
            edges.dim()
        );
        ensure!(
            edges.numel() > 0,
            Runtime,
            "torch.histogramdd: bins tensor should have at least 1 element, but got 0 elements in \
             the bins tensor for dimension {dim}"
        );
    }
    check_weight(self_, weight)
}

fn check_weight(self_: &Tensor, weight: Option<&Tensor>) -> Result<()> {
    let Some(weight) = weight.filter(|weight| weight.defined()) else { return Ok(()) };
    ensure!(
        weight.dtype() == self_.dtype(),
        Runtime,
        "torch.histogramdd: if weight tensor is provided, input tensor and weight tensor should \
         have the same dtype, but got input({}), and weight({})",
        crate::meta::cpp_name(self_.dtype()),
        crate::meta::cpp_name(weight.dtype())
    );
    let sizes = self_.sizes();
    ensure!(
        weight.sizes()[..] == sizes[..sizes.len() - 1],
        Runtime,
        "torch.histogramdd: if weight tensor is provided it should have the same shape as the \
         input tensor excluding its innermost dimension, but got input with shape {:?} and weight \
         with shape {:?}",
        sizes.as_slice(),
        weight.sizes().as_slice()
    );
    Ok(())
}

/// The edges of equal bins in each dimension: between the given limits, or those of the points.
///
/// # Errors
/// `Runtime` for numbers of bins and limits that are none.
pub fn bin_edges(self_: &Tensor, bins: &[i64], range: Option<&[f64]>) -> Result<Vec<Tensor>> {
    let sizes = self_.sizes();
    ensure!(
        sizes.len() >= 2,
        Runtime,
        "torch.histogramdd: input tensor should have at least 2 dimensions"
    );
    let dims = sizes[sizes.len() - 1];
    ensure!(
        dims == bins.len() as i64,
        Runtime,
        "torch.histogramdd: expected {dims} bin counts for a {dims}-dimensional histogram but got \
         {}",
        bins.len()
    );
    for (dim, &bins) in bins.iter().enumerate() {
        check_bins(bins, dim)?;
    }
    let ranges = ranges(self_, dims as usize, range)?;
    let mut edges = try_with_capacity(ranges.len())?;
    for (range, &bins) in ranges.into_iter().zip(bins) {
        edges.push(range.edges(bins, self_)?);
    }
    Ok(edges)
}

fn ranges(self_: &Tensor, dims: usize, given: Option<&[f64]>) -> Result<Vec<Range>> {
    let mut ranges = try_vec(Range { low: 0.0, high: 1.0 }, dims)?;
    if let Some(given) = given {
        ensure!(
            given.len() == 2 * dims,
            Runtime,
            "torch.histogramdd: for a {dims}-dimensional histogram range should have {} elements, \
             but got {}",
            2 * dims,
            given.len()
        );
        for (range, limits) in ranges.iter_mut().zip(given.chunks(2)) {
            *range = Range { low: limits[0], high: limits[1] };
        }
    } else if self_.numel() > 0 && !self_.device().is_meta() {
        let dtype = self_.dtype();
        ensure!(
            !dtype.is_complex(),
            NotImplemented,
            "\"histogramdd\" not implemented for '{}'",
            dtype.type_name()
        );
        let points = op::reshape(self_, &[-1, dims as i64])?;
        let (low, high) = op::aminmax(&points, Some(0), false)?;
        let limits = low.to_vec::<f64>()?.into_iter().zip(high.to_vec::<f64>()?);
        ranges = try_collect(limits.map(|(low, high)| Range { low, high }))?;
    }
    for (dim, range) in ranges.iter_mut().enumerate() {
        let Range { low, high } = *range;
        ensure!(
            low.is_finite() && high.is_finite(),
            Runtime,
            "torch.histogramdd: dimension {dim}'s range [{}, {}] is not finite",
            shown_bound(low),
            shown_bound(high)
        );
        ensure!(
            low <= high,
            Runtime,
            "torch.histogramdd: min should not exceed max, but got min {low} max {high} for \
             dimension {dim}"
        );
        if low == high {
            *range = Range { low: low - 0.5, high: high + 0.5 };
        }
    }
    Ok(ranges)
}

/// Counts over their sum and the sizes of the bins.
///
/// # Errors
/// Those of the operators.
pub fn density(hist: &Tensor, edges: &[Tensor]) -> Result<Tensor> {
    let mut density = op::div_tensor(hist, &op::sum(hist, None)?)?;
    for (dim, edges) in edges.iter().enumerate() {
        let lengths = op::sub_tensor(
            &op::slice_tensor(edges, 0, Some(1), None, 1)?,
            &op::slice_tensor(edges, 0, None, Some(-1), 1)?,
            Scalar::Int(1),
        )?;
        density = op::div_tensor(&density, &along(&lengths, hist.dim(), dim)?)?;
    }
    Ok(density)
}

/// A weight per element as one per point of one coordinate.
fn flat(self_: &Tensor, weight: Option<&Tensor>) -> Result<(Tensor, Option<Tensor>)> {
    let weight = weight.filter(|weight| weight.defined());
    let weight = weight.map(|weight| op::reshape(weight, &[weight.numel()])).transpose()?;
    Ok((op::reshape(self_, &[self_.numel(), 1])?, weight))
}

/// Counts between given edges.
///
/// # Errors
/// As for [`check_points`].
pub fn histogram_bins_tensor(
    self_: &Tensor,
    bins: &Tensor,
    weight: Option<&Tensor>,
    density: bool,
) -> Result<(Tensor, Tensor)> {
    let (points, weight) = flat(self_, weight)?;
    let edges = [bins.clone()];
    let hist = op::_histogramdd_from_bin_tensors(&points, &edges, weight.as_ref(), density)?;
    Ok((hist, op::clone(bins, None)?))
}

/// Counts in equal bins.
///
/// # Errors
/// As for [`bin_edges`].
pub fn histogram_bin_ct(
    self_: &Tensor,
    bins: i64,
    range: Option<&[f64]>,
    weight: Option<&Tensor>,
    density: bool,
) -> Result<(Tensor, Tensor)> {
    let (points, weight) = flat(self_, weight)?;
    let edges = bin_edges(&points, &[bins], range)?.swap_remove(0);
    let hist = op::_histogramdd_from_bin_cts(&points, &[bins], range, weight.as_ref(), density)?;
    Ok((hist, edges))
}

fn check_dims(self_: &Tensor, bins: usize) -> Result<()> {
    let dims = self_.sizes().last().copied().unwrap_or(0);
    ensure!(
        dims == bins as i64,
        Runtime,
        "histogramdd: The size of bins must be equal to the innermost dimension of the input."
    );
    Ok(())
}

/// Counts in a grid of equal bins.
///
/// # Errors
/// As for [`bin_edges`].
pub fn histogramdd(
    self_: &Tensor,
    bins: &[i64],
    range: Option<&[f64]>,
    weight: Option<&Tensor>,
    density: bool,
) -> Result<(Tensor, Vec<Tensor>)> {
    check_dims(self_, bins.len())?;
    let hist = op::_histogramdd_from_bin_cts(self_, bins, range, weight, density)?;
    Ok((hist, op::_histogramdd_bin_edges(self_, bins, range, weight, density)?))
}

/// Counts in a grid of equal bins, as many in each dimension.
///
/// # Errors
/// As for [`bin_edges`].
pub fn histogramdd_int_bins(
    self_: &Tensor,
    bins: i64,
    range: Option<&[f64]>,
    weight: Option<&Tensor>,
    density: bool,
) -> Result<(Tensor, Vec<Tensor>)> {
    let dims = self_.sizes().last().copied().unwrap_or(0);
    let bins = try_vec(bins, dims as usize)?;
    histogramdd(self_, &bins, range, weight, density)
}

/// Counts in a grid between given edges.
///
/// # Errors
/// As for [`check_points`].
pub fn histogramdd_tensorlist_bins(
    self_: &Tensor,
    bins: &[Tensor],
    _range: Option<&[f64]>,
    weight: Option<&Tensor>,
    density: bool,
) -> Result<(Tensor, Vec<Tensor>)> {
    check_dims(self_, bins.len())?;
    Ok((op::_histogramdd_from_bin_tensors(self_, bins, weight, density)?, bins.to_vec()))
}

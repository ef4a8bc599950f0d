//! Counting elements by bins.

use crate::kernels::support::{contiguous, contiguous_opt, empty, is_shape_only};
use crate::rows::loops::{RowKernel, Vectorised};
use crate::rows::{Float, Wide};
use crate::vec::Lanes;
use corten_core::{
    DType, Element, Reader, Result, Scalar, Writer, cast, ensure, match_dtype, try_vec,
};
use corten_ops::composite::histogram::{self as rules, Range};
use corten_ops::parallel::{GRAIN, parallel_for};
use corten_ops::{Tensor, derived, op};
use std::sync::{Mutex, PoisonError};

/// How the bin of an element is found.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Find {
    /// By its distance from the first edge, then among the neighbouring edges.
    Local,
    /// By bisection.
    Bisect,
}

/// `histc`.
///
/// # Errors
/// `Runtime` for a number of bins or a range that is none, `NotImplemented` for dtypes other than
/// floating point.
pub fn histc(self_: &Tensor, bins: i64, min: Scalar, max: Scalar) -> Result<Tensor> {
    rules::check_bins(bins, 0)?;
    let range = Range::of_histc(self_, min, max)?;
    let edges = range.edges(bins, self_)?;
    let hist = empty(&[bins], self_)?;
    if is_shape_only(&hist) {
        return Ok(hist);
    }
    let values = contiguous(self_)?;
    match_dtype!(values.dtype(), "histogram_cpu", Float, T => fill_counts::<T>(&hist, &values, &edges))?;
    Ok(hist)
}

/// Fills the numbers of values between one edge and the next.
fn fill_counts<T: Float>(hist: &Tensor, values: &Tensor, edges: &Tensor) -> Result<()> {
    let (values, edges) = (Reader::<T>::new(values)?, Reader::<T>::new(edges)?);
    let bins = edges.len() - 1;
    let counts = counts_of(&values, [edges[0], edges[bins]], bins)?;
    let most = most_of::<T>();
    for (hist, count) in Writer::<T>::new(hist)?.iter_mut().zip(counts) {
        *hist = T::narrow(T::Wide::of(count.min(most) as f64));
    }
    Ok(())
}

/// The largest number that counting up one by one reaches: one more rounds to it.
fn most_of<T: Float>() -> u64 {
    match T::DTYPE {
        DType::BFloat16 => 1 << 8,
        DType::Float16 => 1 << 11,
        DType::Float32 => 1 << 24,
        _ => 1 << 53,
    }
}

/// How many values lie in each of some bins of equal width, which reach from one edge to the other.
fn counts_of<T: Float>(values: &[T], edges: [T; 2], bins: usize) -> Result<Vec<u64>> {
    let edges = edges.map(T::widen);
    let all = Mutex::new(try_vec(0, bins)?);
    let grain = GRAIN.max(bins as i64);
    parallel_for(0..values.len() as i64, grain, |part| {
        let values = &values[part.start as usize..part.end as usize];
        let mut counts = try_vec(0, bins + 1)?;
        f32::run(Count { values, edges, counts: &mut counts });
        let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter_mut().zip(counts).for_each(|(all, count)| *all += count);
        Ok(())
    })?;
    Ok(all.into_inner().unwrap_or_else(PoisonError::into_inner))
}

/// Values on the way to the counts of their bins. One more counts those that lie in none.
struct Count<'a, T: Float> {
    values: &'a [T],
    edges: [T::Wide; 2],
    counts: &'a mut [u64],
}

/// Values whose places are found together.
const TOGETHER: usize = 256;

impl<T: Float> RowKernel<f32> for Count<'_, T> {
    type Out = ();

    #[inline(always)]
    fn run<V: Lanes<Elem = f32>>(self) {
        let Self { values, edges: [first, last], counts } = self;
        let outside = counts.len() - 1;
        let round = |x| T::narrow(x).widen();
        let (bins, span) = (T::Wide::of(outside as f64), round(last - first));
        let mut places = [0; TOGETHER];
        for values in values.chunks(TOGETHER) {
            for (place, value) in places.iter_mut().zip(values) {
                let x = value.widen();
                let share = round(round(round(x - first) * bins) / span);
                let bin = (share.as_f64() as usize).min(outside - 1);
                *place = if (first <= x) & (x <= last) { bin } else { outside };
            }
            for &place in &places[..values.len()] {
                counts[place] += 1;
            }
        }
    }
}

/// As [`histc`], into `out`.
///
/// # Errors
/// As for [`histc`]; `Runtime` for an output of another dtype.
pub fn histc_out(
    self_: &Tensor,
    bins: i64,
    min: Scalar,
    max: Scalar,
    out: &Tensor,
) -> Result<Tensor> {
    rules::check_bins(bins, 0)?;
    ensure!(
        out.dtype() == self_.dtype(),
        Runtime,
        "torch.histogram: input tensor and hist tensor should have the same dtype, but got input \
         {} and hist {}",
        corten_ops::meta::cpp_name(self_.dtype()),
        corten_ops::meta::cpp_name(out.dtype())
    );
    derived::write_out(out, &histc(self_, bins, min, max)?)
}

/// `_histogramdd_from_bin_tensors`.
///
/// # Errors
/// `Runtime` for edges and weights that do not fit the points, `NotImplemented` for dtypes other
/// than float and double.
pub fn from_bin_tensors(
    self_: &Tensor,
    bins: &[Tensor],
    weight: Option<&Tensor>,
    density: bool,
) -> Result<Tensor> {
    rules::check_points(self_, bins, weight)?;
    let hist = counted(self_, bins, weight, Find::Bisect)?;
    if density { rules::density(&hist, bins) } else { Ok(hist) }
}

/// `_histogramdd_from_bin_cts`.
///
/// # Errors
/// As for [`from_bin_tensors`]; `Runtime` for a range that is none.
pub fn from_bin_counts(
    self_: &Tensor,
    bins: &[i64],
    range: Option<&[f64]>,
    weight: Option<&Tensor>,
    density: bool,
) -> Result<Tensor> {
    let edges = rules::bin_edges(self_, bins, range)?;
    rules::check_points(self_, &edges, weight)?;
    let hist = counted(self_, &edges, weight, Find::Local)?;
    if density { rules::density(&hist, &edges) } else { Ok(hist) }
}

/// Adds up the points of a batch by the bins that they lie in.
fn counted(
    points: &Tensor,
    edges: &[Tensor],
    weight: Option<&Tensor>,
    find: Find,
) -> Result<Tensor> {
    let shape: Vec<i64> = edges.iter().map(|edges| edges.numel() - 1).collect();
    let hist = empty(&shape, points)?;
    if is_shape_only(&hist) {
        return Ok(hist);
    }
    let dims = edges.len();
    let points = contiguous(&op::reshape(points, &[-1, dims.max(1) as i64])?)?;
    let weight = contiguous_opt(weight)?;
    let edges: Vec<Vec<f64>> = edges.iter().map(Tensor::to_vec::<f64>).collect::<Result<_>>()?;
    match_dtype!(points.dtype(), "histogramdd", SingleDouble, T => {
        let points = Reader::<T>::new(&points)?;
        let weight = weight.as_ref().map(|weight| Reader::<T>::new(weight)).transpose()?;
        let mut sums = try_vec(0f64, shape.iter().product::<i64>().max(0) as usize)?;
        for (i, point) in points.chunks(dims.max(1)).enumerate() {
            if let Some(bin) = bin_of::<T>(point, &edges, find) {
                let share = weight.as_ref().map_or(1.0, |weight| cast::<T, f64>(weight[i]));
                sums[bin] = rounded::<T>(sums[bin] + share);
            }
        }
        let mut hist = Writer::<T>::new(&hist)?;
        hist.iter_mut().zip(sums).for_each(|(hist, sum)| *hist = cast(sum));
        Ok(())
    })?;
    Ok(hist)
}

/// A number as the dtype can hold it.
fn rounded<T: Element>(value: f64) -> f64 {
    if T::DTYPE == DType::Float64 { value } else { cast::<T, f64>(cast(value)) }
}

/// The bin of a point in the row-major histogram; nothing for points outside.
fn bin_of<T: Element>(point: &[T], edges: &[Vec<f64>], find: Find) -> Option<usize> {
    let mut bin = 0;
    for (&x, edges) in point.iter().zip(edges) {
        let x: f64 = cast(x);
        let (&first, &last) = (edges.first()?, edges.last()?);
        if !(first <= x && x <= last) {
            return None;
        }
        let bins = edges.len() - 1;
        let upper = |part: &[f64]| part.partition_point(|&edge| edge <= x);
        let place = match find {
            Find::Bisect => upper(edges).saturating_sub(1),
            Find::Local => {
                let part = rounded::<T>(rounded::<T>(x - first) * bins as f64);
                let guess = rounded::<T>(rounded::<T>(part) / rounded::<T>(last - first)) as usize;
                let start = guess.min(bins).saturating_sub(1);
                let end = (guess + 2).min(bins + 1);
                (start + upper(&edges[start..end])).saturating_sub(1)
            }
        };
        bin = bin * bins + place.min(bins.checked_sub(1)?);
    }
    Some(bin)
}

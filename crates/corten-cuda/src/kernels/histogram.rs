//! Counting elements by bins.

use crate::flat_launch::Flat;
use crate::kernel::{Argument, Template, parameters};
use crate::launch::{Shape, THREADS};
use crate::operands::{contiguous, on_meta, zeros};
use crate::text;
use corten_core::{Access, DType, Result, Scalar, ensure, not_implemented_for};
use corten_ops::composite::histogram::{self as rules, Range};
use corten_ops::{Tensor, derived, op};

static HISTOGRAM: Template = Template { name: "histogram", text: &[text::INDEX, text::HISTOGRAM] };
static COUNT_POINTS: Template =
    Template { name: "count_points", text: &[text::INDEX, text::HISTOGRAM] };

/// The most axes; as in `histogram.cuh`.
const MAX_AXES: usize = 32;
/// Blocks that fill a large GPU.
const MANY_BLOCKS: u64 = 512;

/// `Axes` of `histogram.cuh`.
#[repr(C)]
struct Axes {
    count: u32,
    bins: [u64; MAX_AXES],
    start: [u64; MAX_AXES],
}

/// `histc`.
///
/// # Errors
/// Those of the CPU's checks; for the functions below likewise.
pub fn histc(self_: &Tensor, bins: i64, min: Scalar, max: Scalar) -> Result<Tensor> {
    op::histc(&on_meta(self_)?, bins, min, max)?;
    let dtype = self_.dtype();
    let floats = dtype.is_floating_point() && dtype.itemsize() > 1;
    if !floats && (!dtype.is_integral(false) || dtype.is_barebones_unsigned()) {
        return Err(not_implemented_for("histc", dtype));
    }
    // Integers are counted as doubles.
    let wide = if floats { dtype } else { DType::Float64 };
    let edges = Range::of_histc(self_, min, max)?;
    let values = contiguous(&op::to_dtype(self_, wide, false, false, None)?)?;
    let edges = edges.edges(bins, &values)?;
    let counts = zeros(&[bins], DType::Int64, self_)?;
    let (mut n, mut number) = (values.numel() as u64, bins as u64);
    if n > 0 {
        let blocks = n.div_ceil(u64::from(THREADS) * 4).clamp(1, MANY_BLOCKS);
        let shape = Shape { grid: [blocks as u32, 1, 1], block: [THREADS, 1, 1], shared: 0 };
        let tensors = [(&values, Access::Read), (&edges, Access::Read), (&counts, Access::Write)];
        let of = [Argument::Storage(wide), Argument::Value(wide)];
        let call = Flat { template: &HISTOGRAM, of: &of, tensors: &tensors };
        // SAFETY: the tensors are contiguous; there is an edge more than bins, and a count for each bin.
        unsafe { call.launch(shape, parameters!(n), parameters!(number))? };
    }
    let counts = op::clamp_max(&counts, Scalar::Int(most_of(dtype)))?;
    op::to_dtype(&counts, dtype, false, false, None)
}

/// The largest number that counting up one by one reaches: one more rounds to it.
fn most_of(dtype: DType) -> i64 {
    match dtype {
        DType::BFloat16 => 1 << 8,
        DType::Float16 => 1 << 11,
        DType::Float32 => 1 << 24,
        DType::Float64 => 1 << 53,
        _ => i64::MAX,
    }
}

/// As [`histc`], into `out`.
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
pub fn from_bin_tensors(
    self_: &Tensor,
    bins: &[Tensor],
    weight: Option<&Tensor>,
    density: bool,
) -> Result<Tensor> {
    rules::check_points(self_, bins, weight)?;
    let hist = counted(self_, bins, weight, 0)?;
    if density { rules::density(&hist, bins) } else { Ok(hist) }
}

/// `_histogramdd_from_bin_cts`.
pub fn from_bin_counts(
    self_: &Tensor,
    bins: &[i64],
    range: Option<&[f64]>,
    weight: Option<&Tensor>,
    density: bool,
) -> Result<Tensor> {
    let edges = rules::bin_edges(self_, bins, range)?;
    rules::check_points(self_, &edges, weight)?;
    let hist = counted(self_, &edges, weight, 1)?;
    if density { rules::density(&hist, &edges) } else { Ok(hist) }
}

/// Adds up points by the bins that they lie in; `local` where bins are equal.
fn counted(
    points: &Tensor,
    edges: &[Tensor],
    weight: Option<&Tensor>,
    local: u32,
) -> Result<Tensor> {
    let dtype = points.dtype();
    if !matches!(dtype, DType::Float32 | DType::Float64) {
        return Err(not_implemented_for("histogramdd", dtype));
    }
    ensure!(
        edges.len() <= MAX_AXES,
        Runtime,
        "histogramdd takes at most {MAX_AXES} dimensions on CUDA"
    );
    let shape: Vec<i64> = edges.iter().map(|edges| edges.numel() - 1).collect();
    let hist = zeros(&shape, dtype, points)?;
    let mut axes = Axes { count: edges.len() as u32, bins: [0; MAX_AXES], start: [0; MAX_AXES] };
    let mut start = 0;
    for (axis, edges) in edges.iter().enumerate() {
        (axes.bins[axis], axes.start[axis]) = (shape[axis] as u64, start);
        start += edges.numel() as u64;
    }
    if edges.is_empty() || points.numel() == 0 {
        return Ok(hist);
    }
    let points = contiguous(&op::reshape(points, &[-1, edges.len() as i64])?)?;
    let edges = contiguous(&op::cat(edges, 0)?)?;
    let weight = weight.filter(|own| own.defined()).map(contiguous).transpose()?;
    let undefined = Tensor::default();
    let tensors = [
        (&points, Access::Read),
        (&edges, Access::Read),
        (weight.as_ref().unwrap_or(&undefined), Access::Read),
        (&hist, Access::Write),
    ];
    let of = [Argument::Storage(dtype), Argument::Value(dtype), Argument::Number(local)];
    let call = Flat { template: &COUNT_POINTS, of: &of, tensors: &tensors };
    // SAFETY: the tensors are contiguous; the axes tell the bins of the histogram and where edges begin.
    unsafe { call.over(points.size(0)?, parameters!(axes))? };
    Ok(hist)
}

//! Running sums, products and extrema along a dimension.

use crate::kernel::{Argument, Template, parameters};
use crate::launch::Shape;
use crate::operands::{Operands, contiguous, empty, on_meta};
use crate::stream::Stream;
use crate::text;
use corten_core::geometry::{self, wrap_dim};
use corten_core::{Access, DType, Result, ensure, not_implemented_for};
use corten_ops::meta::check_out_dtype;
use corten_ops::{Tensor, derived, op};

static BLOCKS: Template = Template { name: "scan_blocks", text: &[text::SCAN] };
static STARTS: Template = Template { name: "scan_starts", text: &[text::SCAN] };
static LINES: Template = Template { name: "scan_lines", text: &[text::SCAN] };

/// What a scan combines; the numbers of `scan.cuh`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
enum Scanned {
    Sums = 0,
    Products = 1,
    LogSums = 2,
    Maxima = 3,
    Minima = 4,
}

/// Lines that are enough for a thread each.
const MANY_LINES: u64 = 1 << 13;
/// Elements that a block has at least of a line.
const LEAST_CHUNK: u64 = 1 << 12;
/// Blocks that fill a large GPU.
const MANY_BLOCKS: u64 = 512;
/// The most bytes of a state: a number of 16 bytes, or a number and a position.
const STATE_BYTES: u64 = 16;

/// Scans a contiguous tensor along `dim` into others of its sizes.
fn scan(
    input: &Tensor,
    out: &Tensor,
    places: Option<&Tensor>,
    dim: i64,
    kind: Scanned,
) -> Result<()> {
    if input.numel() == 0 {
        return Ok(());
    }
    let (sizes, dim) = (input.sizes(), wrap_dim(dim, input.dim())?);
    let mut length = sizes.get(dim).copied().unwrap_or(1) as u64;
    let mut inner = sizes.iter().skip(dim + 1).product::<i64>() as u64;
    let mut lines = input.numel() as u64 / length;
    let mut wanted = vec![(input, Access::Read), (out, Access::Write)];
    wanted.extend(places.map(|places| (places, Access::Write)));
    let held = Operands::hold(&wanted)?;
    let (mut from, mut to) = (held.at(0), held.at(1));
    let mut at = if places.is_some() { held.at(2) } else { std::ptr::null_mut() };
    let stream = Stream::current(input.device().index);
    let dtype = input.dtype();
    let of = [Argument::Storage(dtype), Argument::Value(dtype), Argument::Number(kind as u32)];
    if length <= 16 || inner > 1 && lines >= MANY_LINES {
        let parameters = parameters!(from, to, at, lines, length, inner);
        // SAFETY: the tensors are contiguous, of the same sizes, and held.
        return unsafe { LINES.launch(&of, Shape::over(lines as i64), stream, parameters) };
    }
    ensure!(lines <= i32::MAX as u64, Runtime, "{lines} lines are too many for one launch");
    let parts = (MANY_BLOCKS / lines).clamp(1, length.div_ceil(LEAST_CHUNK));
    let mut chunk = length.div_ceil(parts).next_multiple_of(1024);
    let mut parts = length.div_ceil(chunk) as u32;
    let grid = Shape { grid: [lines as u32, parts, 1], block: [256, 1, 1], shared: 0 };
    let (mut totals, mut writes) = (std::ptr::null_mut::<u8>(), 0_u32);
    let scratch = match parts {
        1 => None,
        _ => Some(empty(&[(lines * u64::from(parts) * STATE_BYTES) as i64], DType::UInt8, input)?),
    };
    let scratch_held =
        scratch.as_ref().map(|own| Operands::hold(&[(own, Access::Write)])).transpose()?;
    if let Some(own) = &scratch_held {
        totals = own.at(0);
        // SAFETY: as above; the scratch has a state for each chunk, and is given back in the stream's
        // order.
        unsafe {
            let parameters = parameters!(from, to, at, totals, length, inner, chunk, writes);
            BLOCKS.launch(&of, grid, stream, parameters)?;
            STARTS.launch(
                &of[1..],
                Shape::over(lines as i64),
                stream,
                parameters!(totals, lines, parts),
            )?;
        }
    }
    writes = 1;
    let parameters = parameters!(from, to, at, totals, length, inner, chunk, writes);
    // SAFETY: as above.
    unsafe { BLOCKS.launch(&of, grid, stream, parameters)? };
    drop((held, scratch_held));
    Ok(())
}

fn accumulate(
    self_: &Tensor,
    dim: i64,
    planned: &Tensor,
    kind: Scanned,
    name: &'static str,
) -> Result<Tensor> {
    let dtype = planned.dtype();
    let stored_only = dtype.is_barebones_unsigned()
        || dtype == DType::Bool
        || dtype.itemsize() == 1 && dtype.is_floating_point();
    if stored_only || matches!(dtype, DType::Complex32 | DType::BComplex32) {
        return Err(not_implemented_for(name, dtype));
    }
    let input = contiguous(&op::to_dtype(self_, dtype, false, false, None)?)?;
    let out = empty(&planned.sizes(), dtype, self_)?;
    scan(&input, &out, None, dim, kind)?;
    Ok(out)
}

/// `cumsum`.
///
/// # Errors
/// `Index` for a dimension out of range, `NotImplemented` for dtypes that are only stored; for
/// the functions below likewise.
pub fn cumsum(self_: &Tensor, dim: i64, dtype: Option<DType>) -> Result<Tensor> {
    let planned = op::cumsum(&on_meta(self_)?, dim, dtype)?;
    accumulate(self_, dim, &planned, Scanned::Sums, "cumsum_cuda")
}

/// `cumprod`.
pub fn cumprod(self_: &Tensor, dim: i64, dtype: Option<DType>) -> Result<Tensor> {
    let planned = op::cumprod(&on_meta(self_)?, dim, dtype)?;
    accumulate(self_, dim, &planned, Scanned::Products, "cumprod_cuda")
}

/// The dtype that a result is computed in, for an output that does not overlap its input partially.
fn dtype_for(out: &Tensor, self_: &Tensor, dtype: Option<DType>) -> Result<DType> {
    if out.sizes() == self_.sizes() {
        geometry::assert_no_partial_overlap(out, self_)?;
    }
    let dtype = dtype.unwrap_or(out.dtype());
    check_out_dtype(Some(out), dtype)?;
    Ok(dtype)
}

/// As [`cumsum`] into `out`, whose dtype is the one summed in where none is given.
pub fn cumsum_out(self_: &Tensor, dim: i64, dtype: Option<DType>, out: &Tensor) -> Result<Tensor> {
    let dtype = dtype_for(out, self_, dtype)?;
    derived::write_out(out, &cumsum(self_, dim, Some(dtype))?)
}

/// As [`cumprod`] into `out`, whose dtype is the one multiplied in where none is given.
pub fn cumprod_out(self_: &Tensor, dim: i64, dtype: Option<DType>, out: &Tensor) -> Result<Tensor> {
    let dtype = dtype_for(out, self_, dtype)?;
    derived::write_out(out, &cumprod(self_, dim, Some(dtype))?)
}

/// `logcumsumexp`.
pub fn logcumsumexp(self_: &Tensor, dim: i64) -> Result<Tensor> {
    let planned = op::logcumsumexp(&on_meta(self_)?, dim)?;
    if planned.dtype().is_integral(true) {
        return Err(not_implemented_for("logcumsumexp_out_cuda", planned.dtype()));
    }
    accumulate(self_, dim, &planned, Scanned::LogSums, "logcumsumexp_out_cuda")
}

fn extremum(
    self_: &Tensor,
    dim: i64,
    kind: Scanned,
    name: &'static str,
) -> Result<(Tensor, Tensor)> {
    let dtype = self_.dtype();
    let unordered = dtype.is_complex()
        || dtype.is_barebones_unsigned()
        || dtype.itemsize() == 1 && dtype.is_floating_point();
    if unordered {
        return Err(not_implemented_for(name, dtype));
    }
    let input = contiguous(self_)?;
    let values = empty(&self_.sizes(), dtype, self_)?;
    let places = empty(&self_.sizes(), DType::Int64, self_)?;
    scan(&input, &values, Some(&places), dim, kind)?;
    Ok((values, places))
}

/// `cummax`.
pub fn cummax(self_: &Tensor, dim: i64) -> Result<(Tensor, Tensor)> {
    op::cummax(&on_meta(self_)?, dim)?;
    extremum(self_, dim, Scanned::Maxima, "cummax_cuda")
}

/// `cummin`.
pub fn cummin(self_: &Tensor, dim: i64) -> Result<(Tensor, Tensor)> {
    op::cummin(&on_meta(self_)?, dim)?;
    extremum(self_, dim, Scanned::Minima, "cummin_cuda")
}

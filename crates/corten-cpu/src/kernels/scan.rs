//! Running sums, products and extrema along a dimension.

use crate::kernels::support::empty_as;
use crate::reduce::folds::Ordered;
use crate::vec;
use corten_core::{
    Access, AccessSet, Complex, DType, Element, MemoryFormat, Result, bf16, cast, f16, geometry,
    not_implemented_for, try_vec, unwinding,
};
use corten_ops::meta::{check_out_dtype, reduce as shapes};
use corten_ops::parallel::{self, GRAIN};
use corten_ops::{Tensor, derived, op};

/// A shape as seen from one of its dimensions.
#[derive(Clone, Copy)]
struct DimView {
    outer: usize,
    length: usize,
    inner: usize,
}

impl DimView {
    fn of(tensor: &Tensor, dim: i64) -> Result<Self> {
        let dim = geometry::wrap_dim(dim, tensor.dim())?;
        let sizes = tensor.sizes();
        let product = |sizes: &[i64]| sizes.iter().product::<i64>() as usize;
        Ok(match sizes.is_empty() {
            true => Self { outer: 1, length: 1, inner: 1 },
            false => Self {
                outer: product(&sizes[..dim]),
                length: sizes[dim] as usize,
                inner: product(&sizes[dim + 1..]),
            },
        })
    }
}

/// An output that several threads write, each its own slabs.
struct Slabs<T>(*mut T);

// SAFETY: `scan` gives every thread different slabs.
unsafe impl<T: Send> Sync for Slabs<T> {}

impl<T> Slabs<T> {
    /// # Safety
    /// The slab must lie within the output and be used by one thread only.
    #[allow(clippy::mut_from_ref, reason = "slabs are disjoint")]
    unsafe fn slab(&self, start: usize, length: usize) -> &mut [T] {
        // SAFETY: the caller's.
        unsafe { std::slice::from_raw_parts_mut(self.0.add(start), length) }
    }
}

/// Runs `step` along every line: it gets a state and an element, and returns the next state. `result`
/// makes the elements of the outputs from the state.
fn scan<T: Element, A: Copy + Send + Sync, O: Copy + Send, P: Copy + Send>(
    input: &[T],
    outputs: (&mut [O], &mut [P]),
    lines: DimView,
    start: A,
    step: impl Fn(A, T, i64) -> A + Sync,
    result: impl Fn(A) -> (O, P) + Sync,
) -> Result<()> {
    let (values, extras) = (Slabs(outputs.0.as_mut_ptr()), Slabs(outputs.1.as_mut_ptr()));
    let slab = lines.length * lines.inner;
    let grain = (GRAIN / slab.max(1) as i64).max(1);
    parallel::parallel_for(0..lines.outer as i64, grain, |range| {
        let mut range = range.start as usize..range.end as usize;
        while !range.is_empty() {
            let abreast = lines.inner == 1 && range.len() >= ABREAST;
            let count = if abreast { ABREAST } else { 1 };
            let (at, size) = (range.start * slab, count * slab);
            // SAFETY: these slabs of both outputs belong to this range alone.
            let outputs = unsafe { (values.slab(at, size), extras.slab(at, size)) };
            let input = &input[at..][..size];
            match (lines.inner, abreast) {
                (1, true) => along::<ABREAST, _, _, _, _>(input, outputs, start, &step, &result),
                (1, false) => along::<1, _, _, _, _>(input, outputs, start, &step, &result),
                (inner, _) => across(input, outputs, inner, start, &step, &result),
            }
            range.start += count;
        }
        Ok(())
    })
}

/// DimView that are run along at a time: each step waits for the one before it in its line only.
const ABREAST: usize = 4;

/// Runs along `N` lines that lie one after the other.
fn along<const N: usize, T: Element, A: Copy, O, P>(
    input: &[T],
    (values, extras): (&mut [O], &mut [P]),
    start: A,
    step: &impl Fn(A, T, i64) -> A,
    result: &impl Fn(A) -> (O, P),
) {
    let length = input.len() / N;
    let lines: [&[T]; N] = std::array::from_fn(|line| &input[line * length..][..length]);
    let (values, extras) = (lines_of::<N, _>(values), lines_of::<N, _>(extras));
    let mut states = [start; N];
    for i in 0..length {
        for (line, state) in states.iter_mut().enumerate() {
            *state = step(*state, lines[line][i], i as i64);
            (values[line][i], extras[line][i]) = result(*state);
        }
    }
}

/// The `N` lines of a slab.
fn lines_of<const N: usize, T>(slab: &mut [T]) -> [&mut [T]; N] {
    let length = slab.len() / N;
    let mut rest = slab;
    std::array::from_fn(|_| {
        let (line, others) = std::mem::take(&mut rest).split_at_mut(length);
        rest = others;
        line
    })
}

/// Runs along the lines of a slab all together, row by row.
fn across<T: Element, A: Copy, O, P>(
    input: &[T],
    (values, extras): (&mut [O], &mut [P]),
    inner: usize,
    start: A,
    step: &impl Fn(A, T, i64) -> A,
    result: &impl Fn(A) -> (O, P),
) {
    let (mut states, width) = (unwinding::vec(start, inner), inner.max(1));
    let outputs = values.chunks_exact_mut(width).zip(extras.chunks_exact_mut(width));
    for ((i, row), (values, extras)) in (0i64..).zip(input.chunks_exact(width)).zip(outputs) {
        let outputs = values.iter_mut().zip(extras);
        for ((state, &x), (value, extra)) in states.iter_mut().zip(row).zip(outputs) {
            *state = step(*state, x, i);
            (*value, *extra) = result(*state);
        }
    }
}

/// Runs a scan from a tensor into a fresh one of the same dtype.
fn scan_one<T: Element, A: Copy + Send + Sync>(
    self_: &Tensor,
    out: &Tensor,
    dim: i64,
    start: A,
    step: impl Fn(A, T, i64) -> A + Sync,
    result: impl Fn(A) -> T + Sync,
) -> Result<()> {
    let lines = DimView::of(self_, dim)?;
    let set = AccessSet::acquire(&[(self_.base(), Access::Read), (out.base(), Access::Write)])?;
    let (input, output) = (set.read::<T>(0)?, set.write::<T>(1)?);
    // Nothing, once for every element.
    let mut nothing = try_vec((), output.len())?;
    scan(input, (output, &mut nothing), lines, start, step, |state| (result(state), ()))
}

/// Sums or products along a dimension, in the precision `A`.
fn accumulate<T: Element, A: Element>(
    self_: &Tensor,
    out: &Tensor,
    dim: i64,
    start: A,
    operator: impl Fn(A, A) -> A + Sync,
) -> Result<()> {
    let step = |state: A, x: T, _: i64| operator(state, cast(x));
    scan_one::<T, A>(self_, out, dim, start, step, cast)
}

/// A scan of numbers of 16 bits as one of `f32`, through which they are rounded anyway: rows are
/// converted by vectors, single numbers slowly.
fn in_single(
    input: &Tensor,
    out: &Tensor,
    scan: impl FnOnce(&Tensor, &Tensor) -> Result<()>,
) -> Result<()> {
    let wide = op::to_dtype(input, DType::Float32, false, false, None)?;
    let results = empty_as(&wide.sizes(), &wide, DType::Float32)?;
    scan(&wide, &results)?;
    op::copy_(out, &results, false)?;
    Ok(())
}

/// Calls `accumulate` in the precision that belongs to a dtype.
macro_rules! accumulated {
    ($name:literal, $self_:ident, $dim:ident, $dtype:ident, $one:literal, $op:tt, $wrapping:ident) => {{
        let out = shapes::cumulative($self_, $dim, $dtype)?;
        let input = op::contiguous(&op::to_dtype($self_, out.dtype(), false, false, None)?, MemoryFormat::Contiguous)?;
        let integer = |a: i64, b: i64| a.$wrapping(b);
        let double = |a: f64, b: f64| a $op b;
        let complex = |a: Complex<f64>, b: Complex<f64>| a $op b;
        let (i, d, c) = ($one as i64, f64::from($one), Complex::new(f64::from($one), 0.0));
        match out.dtype() {
            DType::Float32 => accumulate::<f32, f64>(&input, &out, $dim, d, double),
            DType::Float64 => accumulate::<f64, f64>(&input, &out, $dim, d, double),
            DType::Float16 => in_single(&input, &out, |x, to| accumulate::<f32, f64>(x, to, $dim, d, double)),
            DType::BFloat16 => accumulate::<bf16, f64>(&input, &out, $dim, d, double),
            DType::Complex64 => accumulate::<Complex<f32>, _>(&input, &out, $dim, c, complex),
            DType::Complex128 => accumulate::<Complex<f64>, _>(&input, &out, $dim, c, complex),
            DType::UInt8 => accumulate::<u8, i64>(&input, &out, $dim, i, integer),
            DType::Int8 => accumulate::<i8, i64>(&input, &out, $dim, i, integer),
            DType::Int16 => accumulate::<i16, i64>(&input, &out, $dim, i, integer),
            DType::Int32 => accumulate::<i32, i64>(&input, &out, $dim, i, integer),
            DType::Int64 => accumulate::<i64, i64>(&input, &out, $dim, i, integer),
            other => Err(not_implemented_for($name, other)),
        }?;
        Ok(out)
    }};
}

/// `cumsum`.
///
/// # Errors
/// `Index` for a dimension out of range, `NotImplemented` for dtypes that are only stored; for
/// the functions below likewise.
pub fn cumsum(self_: &Tensor, dim: i64, dtype: Option<DType>) -> Result<Tensor> {
    accumulated!("cumsum_out_cpu", self_, dim, dtype, 0u8, +, wrapping_add)
}

/// `cumprod`.
pub fn cumprod(self_: &Tensor, dim: i64, dtype: Option<DType>) -> Result<Tensor> {
    accumulated!("cumprod_out_cpu", self_, dim, dtype, 1u8, *, wrapping_mul)
}

/// As [`cumsum`] into `out`, whose dtype is the one summed in where none is given.
pub fn cumsum_out(self_: &Tensor, dim: i64, dtype: Option<DType>, out: &Tensor) -> Result<Tensor> {
    check_overlap(out, self_)?;
    let dtype = scan_dtype(dtype, out)?;
    derived::write_out(out, &cumsum(self_, dim, Some(dtype))?)
}

/// As [`cumprod`] into `out`, whose dtype is the one multiplied in where none is given.
pub fn cumprod_out(self_: &Tensor, dim: i64, dtype: Option<DType>, out: &Tensor) -> Result<Tensor> {
    check_overlap(out, self_)?;
    let dtype = scan_dtype(dtype, out)?;
    derived::write_out(out, &cumprod(self_, dim, Some(dtype))?)
}

/// An output of another size is given other memory first.
fn check_overlap(out: &Tensor, self_: &Tensor) -> Result<()> {
    if out.sizes() != self_.sizes() {
        return Ok(());
    }
    geometry::assert_no_partial_overlap(out, self_)
}

fn scan_dtype(dtype: Option<DType>, out: &Tensor) -> Result<DType> {
    let dtype = dtype.unwrap_or(out.dtype());
    check_out_dtype(Some(out), dtype)?;
    Ok(dtype)
}

/// The logarithm of the sum of two exponentials.
fn log_add_exp(a: f64, b: f64) -> f64 {
    let (low, high) = if a < b || a.is_nan() { (a, b) } else { (b, a) };
    if low.is_nan() || high.is_nan() {
        return low + high;
    }
    if low == high && low.is_infinite() { low } else { high + (low - high).exp().ln_1p() }
}

/// `logcumsumexp`.
pub fn logcumsumexp(self_: &Tensor, dim: i64) -> Result<Tensor> {
    let out = shapes::logcumsumexp(self_, dim)?;
    let input = op::contiguous(self_, MemoryFormat::Contiguous)?;
    let least = f64::NEG_INFINITY;
    let none = Complex::new(least, 0.0);
    match out.dtype() {
        DType::Float32 => accumulate::<f32, f64>(&input, &out, dim, least, log_add_exp),
        DType::Float64 => accumulate::<f64, f64>(&input, &out, dim, least, log_add_exp),
        DType::Float16 => {
            let scan = |x: &_, to: &_| accumulate::<f32, f64>(x, to, dim, least, log_add_exp);
            in_single(&input, &out, scan)
        }
        DType::BFloat16 => accumulate::<bf16, f64>(&input, &out, dim, least, log_add_exp),
        DType::Complex64 => {
            accumulate::<Complex<f32>, _>(&input, &out, dim, none, vec::log_add_exp)
        }
        DType::Complex128 => {
            accumulate::<Complex<f64>, _>(&input, &out, dim, none, vec::log_add_exp)
        }
        other => Err(not_implemented_for("logcumsumexp_out_cpu", other)),
    }?;
    Ok(out)
}

/// Running extrema: of equal elements the last one counts, and NaN from the first one on. No element
/// is beyond `start`.
fn extremum_of<T: Element, W: Ordered>(
    input: &Tensor,
    (values, indices): (&Tensor, &Tensor),
    dim: i64,
    start: W,
    at_least: impl Fn(W, W) -> bool + Sync,
) -> Result<()> {
    let lines = DimView::of(input, dim)?;
    let set = AccessSet::acquire(&[
        (input.base(), Access::Read),
        (values.base(), Access::Write),
        (indices.base(), Access::Write),
    ])?;
    let outputs = (set.write::<T>(1)?, set.write::<i64>(2)?);
    let step = |(best, at): (W, i64), x: T, index: i64| {
        let new = cast::<T, W>(x);
        // Nothing is at least NaN.
        if new.is_nan() || at_least(new, best) { (new, index) } else { (best, at) }
    };
    let result = |(best, at)| (cast::<W, T>(best), at);
    scan(set.read::<T>(0)?, outputs, lines, (start, 0), step, result)
}

/// Calls `extremum_of` in the type in which a dtype's values are ordered.
macro_rules! extremum {
    ($name:literal, $self_:ident, $dim:ident, $start:ident, $op:tt) => {{
        let (values, indices) = shapes::cumulative_extremum($self_, $dim)?;
        let input = op::contiguous($self_, MemoryFormat::Contiguous)?;
        let outputs = (&values, &indices);
        match input.dtype() {
            DType::Float32 => extremum_of::<f32, f32>(&input, outputs, $dim, f32::$start, |a, b| a $op b),
            DType::Float64 => extremum_of::<f64, f64>(&input, outputs, $dim, f64::$start, |a, b| a $op b),
            DType::Float16 => extremum_of::<f16, f32>(&input, outputs, $dim, f32::$start, |a, b| a $op b),
            DType::BFloat16 => extremum_of::<bf16, f32>(&input, outputs, $dim, f32::$start, |a, b| a $op b),
            DType::Bool => extremum_of::<bool, u8>(&input, outputs, $dim, u8::$start, |a, b| a $op b),
            DType::UInt8 => extremum_of::<u8, u8>(&input, outputs, $dim, u8::$start, |a, b| a $op b),
            DType::Int8 => extremum_of::<i8, i8>(&input, outputs, $dim, i8::$start, |a, b| a $op b),
            DType::Int16 => extremum_of::<i16, i16>(&input, outputs, $dim, i16::$start, |a, b| a $op b),
            DType::Int32 => extremum_of::<i32, i32>(&input, outputs, $dim, i32::$start, |a, b| a $op b),
            DType::Int64 => extremum_of::<i64, i64>(&input, outputs, $dim, i64::$start, |a, b| a $op b),
            other => Err(not_implemented_for($name, other)),
        }?;
        Ok((values, indices))
    }};
}

/// `cummax`.
pub fn cummax(self_: &Tensor, dim: i64) -> Result<(Tensor, Tensor)> {
    extremum!("cummax_cpu", self_, dim, LEAST, >=)
}

/// `cummin`.
pub fn cummin(self_: &Tensor, dim: i64) -> Result<(Tensor, Tensor)> {
    extremum!("cummin_cpu", self_, dim, GREATEST, <=)
}

//! Fourier transforms, one line at a time: real transforms along the last dimension named, complex
//! ones in place along the others.

mod real;

use super::support::contiguous;
use crate::kernels::along_dim::DimView;
use crate::parallel::chunks::{ColumnBlock, for_each_column_block, for_each_run, grain_of};
use crate::parallel::scratch::{MOST_BYTES, with_buffer};
use corten_core::cast;
use corten_core::{
    Access, AccessSet, Complex, DType, Dims, Element, Result, check_memory, not_implemented_for,
};
use corten_ops::meta::fft::{Transform, plan_c2c, plan_c2r, plan_r2c};
use corten_ops::parallel::GRAIN;
use corten_ops::{Tensor, op};
use real::RealPlan;
use rustfft::{Fft, FftDirection, FftNum, FftPlanner};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Columns that are gathered into lines at a time.
const COLUMNS: usize = 16;

/// Rows of which columns are gathered at a time: a line's elements of so many fill a line of the cache.
const STRIP: usize = 8;

/// Points that are transformed at once: they stay in the first cache.
const POINTS: usize = 256;

/// More tables than this are not kept.
const KEPT_PLANS: usize = 128;

/// The tables of the lengths seen so far.
struct Plans<T: FftNum> {
    complex: FftPlanner<T>,
    /// By length, and whether forward.
    real: HashMap<(usize, bool), Arc<RealPlan<T>>>,
    made: usize,
}

/// The parts of the complex numbers that are transformed.
trait RealPart: FftNum + Element {
    fn plans() -> &'static Mutex<Option<Plans<Self>>>;

    /// Calls `f` with room for so many numbers, whatever they are.
    fn with_room<R>(count: usize, f: impl FnOnce(&mut [Complex<Self>]) -> R) -> R;
}

macro_rules! part {
    ($($t:ty)*) => {$(
        impl RealPart for $t {
            fn plans() -> &'static Mutex<Option<Plans<Self>>> {
                static PLANS: Mutex<Option<Plans<$t>>> = Mutex::new(None);
                &PLANS
            }

            fn with_room<R>(count: usize, f: impl FnOnce(&mut [Complex<Self>]) -> R) -> R {
                with_buffer(count, f)
            }
        }
    )*};
}

part!(f32 f64);

fn planned<T: RealPart, P>(make: impl FnOnce(&mut Plans<T>) -> P) -> P {
    let mut plans = T::plans().lock().unwrap_or_else(PoisonError::into_inner);
    if plans.as_ref().is_some_and(|plans| plans.made >= KEPT_PLANS) {
        *plans = None;
    }
    let plans = plans.get_or_insert_with(|| Plans {
        complex: FftPlanner::new(),
        real: HashMap::new(),
        made: 0,
    });
    plans.made += 1;
    make(plans)
}

fn complex_plan<T: RealPart>(length: usize, forward: bool) -> Result<Arc<dyn Fft<T>>> {
    check_plan::<T>(length)?;
    let direction = if forward { FftDirection::Forward } else { FftDirection::Inverse };
    Ok(planned(|plans: &mut Plans<T>| plans.complex.plan_fft(length, direction)))
}

fn real_plan<T: RealPart>(length: usize, forward: bool) -> Result<Arc<RealPlan<T>>> {
    check_plan::<T>(length)?;
    Ok(planned(|plans: &mut Plans<T>| {
        let make = || Arc::new(RealPlan::new(length, forward, &mut plans.complex));
        plans.real.entry((length, forward)).or_insert_with(make).clone()
    }))
}

/// Long plans are refused where there is no memory for them, as they are made without asking: lengths
/// with large factors take several times as many numbers as points.
fn check_plan<T>(length: usize) -> Result<()> {
    const LONG: usize = 1 << 16;
    if length <= LONG {
        return Ok(());
    }
    check_memory(length.saturating_mul(8 * size_of::<Complex<T>>()))
}

/// Calls `body` with room for the points of a long line, whatever they are: a buffer that a thread keeps
/// would be cleared each time.
fn with_points<T: RealPart, R>(
    count: usize,
    body: impl FnOnce(&mut [Complex<T>]) -> Result<R>,
) -> Result<R>
where
    Complex<T>: Element,
{
    let dtype = Some(<Complex<T> as Element>::DTYPE);
    let points = op::empty_memory_format(&[count as i64], dtype, None, None, None, None)?;
    let set = AccessSet::acquire(&[(points.base(), Access::Write)])?;
    body(set.write(0)?)
}

/// The factor of a normalisation for a number of points.
fn factor<T: Element>(normalization: i64, points: f64) -> T {
    cast(match normalization {
        1 => 1.0 / points.sqrt(),
        2 => 1.0 / points,
        _ => 1.0,
    })
}

fn points(sizes: &[i64], dim: &[i64]) -> f64 {
    dim.iter()
        .map(|&d| sizes[(if d < 0 { d + sizes.len() as i64 } else { d }) as usize] as f64)
        .product()
}

/// The Fourier transform of complex numbers over some dimensions.
///
/// # Errors
/// Those of the shapes; `NotImplemented` for half precision.
pub fn _fft_c2c(self_: &Tensor, dim: &[i64], normalization: i64, forward: bool) -> Result<Tensor> {
    let Transform { out, order } = plan_c2c(self_, dim)?;
    op::copy_(&out, self_, false)?;
    let total = points(&self_.sizes(), dim);
    match out.dtype() {
        DType::Complex64 => {
            in_place::<f32>(&out, &order, dim.len(), forward, factor(normalization, total))
        }
        DType::Complex128 => {
            in_place::<f64>(&out, &order, dim.len(), forward, factor(normalization, total))
        }
        other => Err(not_implemented_for("_fft_c2c", other)),
    }?;
    Ok(out)
}

/// Transforms the last `count` dimensions of a tensor that is contiguous in an order.
fn in_place<T: RealPart>(
    out: &Tensor,
    order: &[i64],
    count: usize,
    forward: bool,
    scale: T,
) -> Result<()>
where
    Complex<T>: Element,
{
    let view = op::permute(out, order)?;
    let sizes = view.sizes();
    let set = AccessSet::acquire(&[(view.base(), Access::Write)])?;
    let data = set.write::<Complex<T>>(0)?;
    if data.is_empty() {
        return Ok(());
    }
    let mut scale = scale;
    for dim in (sizes.len() - count)..sizes.len() {
        transform_lines(data, DimView::of(&sizes, dim), forward, scale)?;
        scale = T::one();
    }
    Ok(())
}

fn transform_lines<T: RealPart>(
    data: &mut [Complex<T>],
    lines: DimView,
    forward: bool,
    scale: T,
) -> Result<()>
where
    Complex<T>: Element,
{
    let DimView { outer, len, inner } = lines;
    let plan = complex_plan::<T>(len, forward)?;
    let (own, grain) = (plan.get_inplace_scratch_len(), grain_of(len * 8));
    if outer * inner == 1 && own * size_of::<Complex<T>>() > MOST_BYTES {
        return with_points(own, |room| {
            if scale != T::one() {
                for_each_run(data, 1, GRAIN as usize, |_, part| {
                    scaled(part, scale);
                    Ok(())
                })?;
            }
            plan.process_with_scratch(data, room);
            Ok(())
        });
    }
    if inner == 1 {
        return for_each_run(data, len, grain, |_, run| {
            T::with_room(own, |room| {
                for lines in run.chunks_mut(at_once(len) * len) {
                    scaled(lines, scale);
                    plan.process_with_scratch(lines, room);
                }
            });
            Ok(())
        });
    }
    for_each_column_block(data, [outer, len, inner], COLUMNS, grain, |_, columns, block| {
        T::with_room(columns.len() * len + own, |room| {
            let (lines, room) = room.split_at_mut(columns.len() * len);
            gather(block, lines, len);
            scaled(lines, scale);
            plan.process_with_scratch(lines, room);
            scatter(lines, block, len);
        });
        Ok(())
    })
}

/// How many lines of some points are transformed at once: as many as stay in the first cache.
fn at_once(points: usize) -> usize {
    (POINTS / points).max(1)
}

/// Some elements of the columns of a block.
type Strip<T> = [[Complex<T>; COLUMNS]; STRIP];

fn empty_strip<T: RealPart>() -> Strip<T> {
    [[Complex::new(T::zero(), T::zero()); COLUMNS]; STRIP]
}

/// The columns of a block as lines of `len` points, a strip of rows at a time: single elements of lines
/// that lie far apart are slow to write.
fn gather<T: RealPart>(
    block: &mut ColumnBlock<'_, Complex<T>>,
    lines: &mut [Complex<T>],
    len: usize,
) {
    let mut strip = empty_strip();
    for first in (0..len).step_by(STRIP) {
        let rows = STRIP.min(len - first);
        for (at, kept) in strip[..rows].iter_mut().enumerate() {
            let row = block.row(first + at);
            kept[..row.len()].copy_from_slice(row);
        }
        for (column, line) in lines.chunks_exact_mut(len).enumerate() {
            match line[first..].first_chunk_mut::<STRIP>() {
                Some(part) => *part = std::array::from_fn(|at| strip[at][column]),
                None => {
                    let part = line[first..].iter_mut().zip(&strip);
                    part.for_each(|(value, row)| *value = row[column]);
                }
            }
        }
    }
}

/// The opposite of [`gather`].
fn scatter<T: RealPart>(lines: &[Complex<T>], block: &mut ColumnBlock<'_, Complex<T>>, len: usize) {
    let mut strip = empty_strip();
    for first in (0..len).step_by(STRIP) {
        let rows = STRIP.min(len - first);
        for (column, line) in lines.chunks_exact(len).enumerate() {
            let part = line[first..].iter().zip(&mut strip);
            part.for_each(|(&value, row)| row[column] = value);
        }
        for (at, kept) in strip[..rows].iter().enumerate() {
            let row = block.row(first + at);
            row.copy_from_slice(&kept[..row.len()]);
        }
    }
}

fn scaled<T: RealPart>(line: &mut [Complex<T>], scale: T) {
    if scale != T::one() {
        line.iter_mut().for_each(|value| *value = *value * scale);
    }
}

/// The Fourier transform of real numbers over some dimensions.
///
/// # Errors
/// Those of the shapes; `NotImplemented` for half precision.
pub fn _fft_r2c(self_: &Tensor, dim: &[i64], normalization: i64, onesided: bool) -> Result<Tensor> {
    let Transform { out, order } = plan_r2c(self_, dim, onesided)?;
    let total = points(&self_.sizes(), dim);
    let input = contiguous(&op::permute(self_, &order)?)?;
    match input.dtype() {
        DType::Float32 => {
            from_real::<f32>(&input, &out, &order, dim.len(), factor(normalization, total))
        }
        DType::Float64 => {
            from_real::<f64>(&input, &out, &order, dim.len(), factor(normalization, total))
        }
        other => Err(not_implemented_for("_fft_r2c", other)),
    }?;
    Ok(out)
}

fn from_real<T: RealPart>(
    input: &Tensor,
    out: &Tensor,
    order: &[i64],
    count: usize,
    scale: T,
) -> Result<()>
where
    Complex<T>: Element,
{
    let view = op::permute(out, order)?;
    let (length, row) = (input.size(-1)? as usize, view.size(-1)? as usize);
    if length == 0 {
        return op::fill__scalar(out, corten_core::Scalar::Int(0)).map(drop);
    }
    let set = AccessSet::acquire(&[(input.base(), Access::Read), (view.base(), Access::Write)])?;
    let (source, data) = (set.read::<T>(0)?, set.write::<Complex<T>>(1)?);
    if data.is_empty() {
        return Ok(());
    }
    let plan = real_plan::<T>(length, true)?;
    if plan.is_long() && data.len() == row {
        return plan.forward_long(source, data, scale);
    }
    for_each_run(data, row, grain_of(length * 8), |lines, spectra| {
        plan.forward(&source[lines.start * length..lines.end * length], spectra, row, scale);
        Ok(())
    })?;
    let sizes = view.sizes();
    for dim in (sizes.len() - count)..sizes.len() - 1 {
        transform_lines(data, DimView::of(&sizes, dim), true, T::one())?;
    }
    Ok(())
}

/// The real numbers whose spectrum this is.
///
/// # Errors
/// Those of the shapes; `NotImplemented` for half precision.
pub fn _fft_c2r(
    self_: &Tensor,
    dim: &[i64],
    normalization: i64,
    last_dim_size: i64,
) -> Result<Tensor> {
    let Some((&last, others)) = dim.split_last() else {
        return corten_ops::meta::fft::_fft_c2r(self_, dim, normalization, last_dim_size);
    };
    let spectrum = match others.is_empty() {
        true => self_.clone(),
        false => op::_fft_c2c(self_, others, 0, false)?,
    };
    let Transform { out, order } = plan_c2r(&spectrum, last, last_dim_size)?;
    let total = points(&out.sizes(), dim);
    let input = contiguous(&op::resolve_conj(&op::permute(&spectrum, &order)?)?)?;
    match input.dtype() {
        DType::Complex64 => to_real::<f32>(&input, &out, &order, factor(normalization, total)),
        DType::Complex128 => to_real::<f64>(&input, &out, &order, factor(normalization, total)),
        other => Err(not_implemented_for("_fft_c2r", other)),
    }?;
    Ok(out)
}

fn to_real<T: RealPart>(input: &Tensor, out: &Tensor, order: &Dims, scale: T) -> Result<()>
where
    Complex<T>: Element,
{
    let view = op::permute(out, order)?;
    let (length, row) = (view.size(-1)? as usize, input.size(-1)? as usize);
    let set = AccessSet::acquire(&[(input.base(), Access::Read), (view.base(), Access::Write)])?;
    let (source, data) = (set.read::<Complex<T>>(0)?, set.write::<T>(1)?);
    if data.is_empty() {
        return Ok(());
    }
    let plan = real_plan::<T>(length, false)?;
    if plan.is_long() && data.len() == length && row > length / 2 {
        return plan.inverse_long(source, data, scale);
    }
    for_each_run(data, length, grain_of(length * 8), |range, lines| {
        plan.inverse(&source[range.start * row..range.end * row], lines, row, scale);
        Ok(())
    })
}

//! Factories that compute their elements from the position, and triangles of matrices.

use crate::copy::strided::{Rows, scatter};
use crate::kernels::index::{as_bits, match_bits};
use crate::parallel::chunks::{for_each_run, grain_of};
use crate::rows::loops::{RowKernel, Vectorised};
use crate::vec::Lanes;
use crate::vec::convert::Conversion;
use corten_core::{
    Access, AccessSet, Complex, DType, Element, MemoryFormat, Result, Scalar, bf16, bug, cast,
    ensure, f16, match_dtype, not_implemented_for,
};
use corten_ops::iter::TensorIterator;
use corten_ops::parallel::GRAIN;
use corten_ops::{Tensor, op};
use std::mem::MaybeUninit;

/// Calls `value` with each position of a linear walk and stores what it returns.
fn fill_by_position<T: Element>(
    iter: &mut TensorIterator,
    value: impl Fn(i64) -> T + Sync + Copy,
) -> Result<()> {
    iter.for_each_position(
        |position, first, stride, length| {
            // Where the processor multiplies and adds at once, so do the instructions for it.
            f32::run(FillByPosition { position, first, stride, length, value });
        },
        GRAIN,
    )
}

/// Elements that are computed at a time before they are converted.
const BLOCK: usize = 256;

/// As [`fill_by_position`], of values that are computed as `W` and rounded to the operand's dtype.
fn fill_converted<W: Element>(
    iter: &mut TensorIterator,
    value: impl Fn(i64) -> W + Sync + Copy,
) -> Result<()> {
    let dtype = iter.dtype(0);
    if dtype == W::DTYPE {
        return fill_by_position(iter, value);
    }
    let (conversion, size) = (Conversion::new(W::DTYPE, dtype), dtype.itemsize());
    iter.for_each_position(
        |position, first, stride, length| {
            let mut wide = [const { MaybeUninit::<W>::uninit() }; BLOCK];
            let mut raw = [const { MaybeUninit::<[u64; 2]>::uninit() }; BLOCK];
            for start in (0..length).step_by(BLOCK) {
                let length = (BLOCK as i64).min(length - start);
                let (position, block) = (position + start, wide.as_mut_ptr().cast::<u8>());
                let dense = size_of::<W>() as i64;
                f32::run(FillByPosition { position, first: block, stride: dense, length, value });
                let at = first.wrapping_offset((stride * start) as isize);
                let to = if stride == size as i64 { at } else { raw.as_mut_ptr().cast() };
                // SAFETY: a block of values was written, and there is room for as many elements; the
                // iterator vouches for those of its operand, and holds it for writing.
                unsafe {
                    conversion.run(block, to, length as usize);
                    if to != at {
                        let row = Rows { at, inner: stride, outer: 0 };
                        scatter(size, to, row, length as usize, 1);
                    }
                }
            }
        },
        GRAIN,
    )
}

/// One walk of [`fill_by_position`]: the first position and its address, the bytes between
/// elements and their number.
struct FillByPosition<F> {
    position: i64,
    first: *mut u8,
    stride: i64,
    length: i64,
    value: F,
}

impl<T: Element, F: Fn(i64) -> T> RowKernel<f32> for FillByPosition<F> {
    type Out = ();

    #[inline(always)]
    fn run<V: Lanes<Elem = f32>>(self) {
        let fill = |stride: i64| {
            for i in 0..self.length {
                let place = self.first.wrapping_offset((i * stride) as isize).cast::<T>();
                // SAFETY: the iterator vouches for `length` elements of its operand's dtype at
                // this address and stride, and holds it for writing.
                unsafe { place.write_unaligned((self.value)(self.position + i)) };
            }
        };
        // A stride that the compiler knows becomes stores of vectors.
        let dense = size_of::<T>() as i64;
        if self.stride == dense { fill(dense) } else { fill(self.stride) }
    }
}

/// Numbers that a range is counted in, from a start and by a step of double precision.
trait Counted: Element {
    /// Elements that are computed from one rounded base: the lanes of PyTorch's vectors of 32 bytes.
    const LANES: i64;
    /// `start + step * position`.
    fn at(start: f64, step: f64, position: i64) -> Self;
    /// `base + step * lane`.
    fn lane(base: Self, step: f64, lane: i64) -> Self;
}

macro_rules! counted_floats {
    ($($type:ty, $lanes:literal);+) => {$(
        impl Counted for $type {
            const LANES: i64 = $lanes;

            fn at(start: f64, step: f64, position: i64) -> Self {
                cast(step.mul_add(position as f64, start))
            }

            fn lane(base: Self, step: f64, lane: i64) -> Self {
                cast(step.mul_add(lane as f64, cast::<Self, f64>(base)))
            }
        }
    )+};
}

counted_floats!(f32, 8; f64, 4; f16, 16; bf16, 16);

/// `arange`: `start + step * position`.
///
/// Floating-point ranges that lie densely are computed as PyTorch's vectors do: pairs of vectors
/// whose first lane is rounded and the others counted from there; what is left at the end is
/// computed one by one.
pub fn arange(iter: &mut TensorIterator, scalars: &[Scalar]) -> Result<()> {
    let &[start, _, step] = scalars else { bug!("arange needs start, end and step") };
    match iter.dtype(0) {
        DType::Int32 => {
            let (start, step) = (start.to_i64(), step.to_i64());
            fill_by_position(iter, move |position| {
                cast::<i64, i32>(start.wrapping_add(step.wrapping_mul(position)))
            })
        }
        DType::UInt8 | DType::Int8 | DType::Int16 | DType::Int64 => {
            let (start, step) = (start.to_i64(), step.to_i64());
            fill_converted(iter, move |position| start.wrapping_add(step.wrapping_mul(position)))
        }
        DType::Float16 => count::<f16>(iter, start, step),
        DType::BFloat16 => count::<bf16>(iter, start, step),
        DType::Float32 => count::<f32>(iter, start, step),
        DType::Float64 => count::<f64>(iter, start, step),
        dtype => Err(not_implemented_for("arange_cpu", dtype)),
    }
}

fn count<T: Counted>(iter: &mut TensorIterator, start: Scalar, step: Scalar) -> Result<()> {
    let (start, step) = (start.to_f64(), step.to_f64());
    if !iter.is_contiguous() {
        return fill_converted(iter, move |position| step.mul_add(position as f64, start));
    }
    let in_vectors = iter.numel() / (2 * T::LANES) * (2 * T::LANES);
    iter.for_each_position(
        |position, first, _, length| {
            f32::run(Count { start, step, position, in_vectors, first: first.cast::<T>(), length });
        },
        GRAIN,
    )
}

/// `length` elements of a dense range, from `position` and its address on; positions from
/// `in_vectors` on are computed one by one.
struct Count<T: Counted> {
    start: f64,
    step: f64,
    position: i64,
    in_vectors: i64,
    first: *mut T,
    length: i64,
}

impl<T: Counted> Count<T> {
    #[inline(always)]
    fn store(&self, i: i64, value: T) {
        // SAFETY: `i` is below `length`; the iterator vouches for so many elements of its operand's
        // dtype at the address, and holds them for writing.
        unsafe { self.first.wrapping_offset(i as isize).write_unaligned(value) };
    }

    /// The element `i`, whatever its place in a vector.
    #[inline(always)]
    fn one(&self, i: i64) -> T {
        let position = self.position + i;
        let lane = position % T::LANES;
        match position < self.in_vectors {
            true => T::lane(T::at(self.start, self.step, position - lane), self.step, lane),
            false => T::at(self.start, self.step, position),
        }
    }
}

impl<T: Counted> RowKernel<f32> for Count<T> {
    type Out = ();

    #[inline(always)]
    fn run<V: Lanes<Elem = f32>>(self) {
        let lanes = T::LANES;
        // A part may begin within a vector.
        let first = (-self.position).rem_euclid(lanes).min(self.length);
        (0..first).for_each(|i| self.store(i, self.one(i)));
        let end = (self.in_vectors - self.position).min(self.length);
        let mut i = first;
        while i + lanes <= end {
            let base = T::at(self.start, self.step, self.position + i);
            for lane in 0..lanes {
                self.store(i + lane, T::lane(base, self.step, lane));
            }
            i += lanes;
        }
        (i..self.length).for_each(|i| self.store(i, self.one(i)));
    }
}

/// `linspace`: the first half counted from the start, the second half back from the end.
pub fn linspace(iter: &mut TensorIterator, scalars: &[Scalar]) -> Result<()> {
    let &[start, end, steps] = scalars else { bug!("linspace needs start, end and steps") };
    let steps = steps.to_i64();
    let dtype = iter.dtype(0);
    match dtype {
        DType::Float64 => {
            let line = Line::new(start.to_f64(), end.to_f64(), steps);
            fill_by_position(iter, move |position| line.fused(position))
        }
        DType::Float32 => linspace_f32(iter, start, end, steps),
        _ if dtype.is_complex() => linspace_complex(iter, start, end, steps),
        _ => match_dtype!(dtype, "linspace_cpu", AllNoComplex, T => {
            let (start, end) = (start.checked_to::<T>("linspace")?, end.checked_to::<T>("linspace")?);
            let wide = [cast::<T, f64>(start), cast::<T, f64>(end)];
            linspace_rounded(iter, wide, steps)
        }),
    }
}

fn linspace_f32(iter: &mut TensorIterator, start: Scalar, end: Scalar, steps: i64) -> Result<()> {
    let (start, end): (f32, f32) = (start.checked_to("linspace")?, end.checked_to("linspace")?);
    let step = if steps > 1 { (end - start) / (steps - 1) as f32 } else { 0.0 };
    let half = if steps == 1 { 1 } else { steps / 2 };
    let at = move |position: i64, before: f32, behind: f32| match position < half {
        true => step.mul_add(before, start),
        false => (-step).mul_add(behind, end),
    };
    // Vectors of 32-bit integers are converted at once.
    if steps <= i64::from(i32::MAX) {
        return fill_by_position(iter, move |position| {
            at(position, position as i32 as f32, (steps - 1 - position) as i32 as f32)
        });
    }
    fill_by_position(iter, move |position| {
        at(position, position as f32, (steps - 1 - position) as f32)
    })
}

/// Integers and half precisions: counted wider, each element rounded once.
fn linspace_rounded(iter: &mut TensorIterator, [start, end]: [f64; 2], steps: i64) -> Result<()> {
    if iter.dtype(0).is_integral(true) {
        let line = Line::new(start, end, steps);
        return fill_converted(iter, move |position| line.fused(position));
    }
    let (start, end) = (start as f32, end as f32);
    let step = if steps > 1 { (end - start) / (steps - 1) as f32 } else { 0.0 };
    fill_converted(iter, move |position| {
        if steps == 1 || position < steps / 2 {
            start + step * position as f32
        } else {
            end - step * (steps - 1 - position) as f32
        }
    })
}

fn linspace_complex(
    iter: &mut TensorIterator,
    start: Scalar,
    end: Scalar,
    steps: i64,
) -> Result<()> {
    let (start, end) = (start.to_complex(), end.to_complex());
    let parts = [Line::new(start.re, end.re, steps), Line::new(start.im, end.im, steps)];
    fill_converted(iter, move |position| {
        Complex::new(parts[0].fused(position), parts[1].fused(position))
    })
}

/// Equal steps between two numbers.
#[derive(Clone, Copy)]
struct Line {
    start: f64,
    end: f64,
    step: f64,
    steps: i64,
}

impl Line {
    fn new(start: f64, end: f64, steps: i64) -> Self {
        let step = if steps > 1 { (end - start) / (steps - 1) as f64 } else { 0.0 };
        Self { start, end, step, steps }
    }

    /// The number at a position, rounded once.
    fn fused(&self, position: i64) -> f64 {
        if self.steps == 1 || position < self.steps / 2 {
            self.step.mul_add(position as f64, self.start)
        } else {
            (-self.step).mul_add((self.steps - 1 - position) as f64, self.end)
        }
    }
}

/// `logspace`: powers of the base with exponents as in [`linspace`].
pub fn logspace(iter: &mut TensorIterator, scalars: &[Scalar]) -> Result<()> {
    let &[start, end, steps, base] = scalars else {
        bug!("logspace needs start, end, steps and base")
    };
    let (base, steps) = (base.to_f64(), steps.to_i64());
    let dtype = iter.dtype(0);
    if dtype.is_complex() {
        let (start, end) = (start.to_complex(), end.to_complex());
        let (re, im) = (Line::new(start.re, end.re, steps), Line::new(start.im, end.im, steps));
        return fill_converted(iter, move |position| {
            let exponent = Complex::new(re.fused(position), im.fused(position));
            (exponent * base.ln()).exp()
        });
    }
    let integral = dtype.is_integral(true);
    let whole = |value: f64| if integral { value.trunc() } else { value };
    let line = Line::new(whole(start.to_f64()), whole(end.to_f64()), steps);
    fill_converted(iter, move |position| base.powf(line.fused(position)))
}

/// The lower triangle of each matrix: columns up to `row + diagonal`.
///
/// # Errors
/// `Runtime` below rank 2.
pub fn tril(self_: &Tensor, diagonal: i64) -> Result<Tensor> {
    triangle("tril", self_, |row, columns| {
        0..row.saturating_add(diagonal).saturating_add(1).clamp(0, columns)
    })
}

/// The upper triangle of each matrix: columns from `row + diagonal`.
///
/// # Errors
/// `Runtime` below rank 2.
pub fn triu(self_: &Tensor, diagonal: i64) -> Result<Tensor> {
    triangle("triu", self_, |row, columns| row.saturating_add(diagonal).clamp(0, columns)..columns)
}

fn triangle(
    name: &'static str,
    self_: &Tensor,
    kept: impl Fn(i64, i64) -> std::ops::Range<i64> + Sync,
) -> Result<Tensor> {
    ensure!(self_.dim() >= 2, Runtime, "{name}: input tensor must have at least 2 dimensions");
    let source = op::contiguous(self_, MemoryFormat::Contiguous)?;
    let (dtype, device) = (Some(self_.dtype()), Some(self_.device()));
    let result = op::empty_memory_format(&self_.sizes(), dtype, None, device, None, None)?;
    if self_.numel() == 0 {
        return Ok(result);
    }
    let (rows, columns) = (self_.size(-2)?, self_.size(-1)?);
    let (from, to) = (as_bits(&source)?, as_bits(&result)?);
    match_bits!(self_.itemsize(), T => {
        let set = AccessSet::acquire(&[(from.base(), Access::Read), (to.base(), Access::Write)])?;
        let (from, to) = (set.read::<T>(0)?, set.write::<T>(1)?);
        let width = columns as usize;
        for_each_run(to, width, grain_of(width), |lines, to| {
            let from = from[lines.start * width..].chunks_exact(width);
            for ((line, to), from) in lines.zip(to.chunks_exact_mut(width)).zip(from) {
                let part = kept(line as i64 % rows, columns);
                keep_part(from, to, part.start as usize..part.end as usize);
            }
            Ok(())
        })
    })?;
    Ok(result)
}

/// Copies a part of a line; the rest of the other one becomes zero.
fn keep_part<T: Element + Default>(from: &[T], to: &mut [T], part: std::ops::Range<usize>) {
    to[..part.start].fill(T::default());
    to[part.clone()].copy_from_slice(&from[part.clone()]);
    to[part.end..].fill(T::default());
}

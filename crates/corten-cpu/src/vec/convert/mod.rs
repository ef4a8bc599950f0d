//! Conversion of rows of elements from one dtype to another, as `corten_core::cast` does.
//!
//! Most of the 24 × 24 pairs go through the wide type of the source's kind (`i64`, `u64`, `f32`,
//! `f64` or complex), in a buffer that stays in the first-level cache: `cast` itself is defined
//! that way, so the values are the same. What is common has a loop of its own, or takes two that
//! are vectors (`vectors.rs`).

#[cfg(target_arch = "x86_64")]
mod vectors;

#[cfg(target_arch = "x86_64")]
use super::level::{Level, level};
use corten_core::{Complex, DType, Element, F8E4M3FN, F8E4M3FNUZ, F8E5M2, F8E5M2FNUZ, F8E8M0FNU};
use corten_core::{bf16, cast, f16};
use std::mem::MaybeUninit;

/// Converts `n` elements from one address to another.
///
/// # Safety
/// `from` must be readable and `to` writable for `n` elements of the dtypes the function was
/// chosen for, and they must not overlap.
type Convert = unsafe fn(from: *const u8, to: *mut u8, n: usize);

/// Elements per step of a conversion in two steps.
const STEP: usize = 256;

/// How rows of one dtype become rows of another.
#[derive(Clone, Copy)]
pub(crate) enum Conversion {
    /// One loop.
    Direct(Convert),
    /// Through the wide type of the source, with the sizes of source and target.
    Through(Convert, Convert, usize, usize),
}

impl Conversion {
    /// The conversion of `from` into `to`, which are both defined.
    pub(crate) fn new(from: DType, to: DType) -> Self {
        if from == to {
            return Self::Direct(same_size(from.itemsize()));
        }
        if let Some(direct) = direct(from, to) {
            return Self::Direct(direct);
        }
        let through = |first, second| Self::Through(first, second, from.itemsize(), to.itemsize());
        let middle = middle(from, to);
        if middle != from
            && middle != to
            && let (Some(first), Some(second)) = (step(from, middle), step(middle, to))
        {
            return through(first, second);
        }
        match step(from, to) {
            Some(step) => Self::Direct(step),
            None => through(widening(from), narrowing(kind(from), to)),
        }
    }

    /// Converts `n` elements.
    ///
    /// # Safety
    /// `from` must be readable and `to` writable for `n` elements of the two dtypes, and they
    /// must not overlap.
    pub(crate) unsafe fn run(&self, from: *const u8, to: *mut u8, n: usize) {
        match *self {
            // SAFETY: the caller's.
            Self::Direct(convert) => unsafe { convert(from, to, n) },
            Self::Through(first, second, from_size, to_size) => {
                let mut wide = [const { MaybeUninit::<Complex<f64>>::uninit() }; STEP];
                let wide = wide.as_mut_ptr().cast::<u8>();
                for start in (0..n).step_by(STEP) {
                    let length = STEP.min(n - start);
                    // SAFETY: `start + length <= n`; the buffer holds the widest type.
                    unsafe {
                        first(from.add(start * from_size), wide, length);
                        second(wide, to.add(start * to_size), length);
                    }
                }
            }
        }
    }
}

/// Converts a row of elements, as far as both go.
pub(crate) fn convert_row<A: Element, B: Element>(from: &[A], to: &mut [B]) {
    let count = from.len().min(to.len());
    // SAFETY: both have that many elements, and one of them is borrowed mutably.
    unsafe {
        Conversion::new(A::DTYPE, B::DTYPE).run(
            from.as_ptr().cast(),
            to.as_mut_ptr().cast(),
            count,
        );
    }
}

/// The loop from one dtype to a different one, where it takes one.
fn step(from: DType, to: DType) -> Option<Convert> {
    let kind = kind(from);
    direct(from, to)
        .or_else(|| (kind.dtype() == from).then(|| narrowing(kind, to)))
        .or_else(|| (kind.dtype() == to).then(|| widening(from)))
}

/// The wide type that `cast` takes a dtype's values through.
#[derive(Clone, Copy)]
enum WideType {
    Int,
    UInt,
    Single,
    Double,
    ComplexSingle,
    ComplexDouble,
}

impl WideType {
    fn dtype(self) -> DType {
        match self {
            Self::Int => i64::DTYPE,
            Self::UInt => u64::DTYPE,
            Self::Single => f32::DTYPE,
            Self::Double => f64::DTYPE,
            Self::ComplexSingle => Complex::<f32>::DTYPE,
            Self::ComplexDouble => Complex::<f64>::DTYPE,
        }
    }
}

fn kind(dtype: DType) -> WideType {
    match (dtype.is_complex(), dtype.is_floating_point(), dtype.itemsize()) {
        (true, _, 16) => WideType::ComplexDouble,
        (true, ..) => WideType::ComplexSingle,
        (_, true, 8) => WideType::Double,
        (_, true, _) => WideType::Single,
        _ if dtype == u64::DTYPE => WideType::UInt,
        _ => WideType::Int,
    }
}

/// The loop for `A` to `B` at this processor's level.
fn loop_of<A: Element, B: Element>() -> Convert {
    #[cfg(target_arch = "x86_64")]
    if level() >= Level::Avx2 {
        return convert_avx2::<A, B>;
    }
    convert::<A, B>
}

/// # Safety
/// As for [`Convert`].
#[inline(always)]
unsafe fn convert<A: Element, B: Element>(from: *const u8, to: *mut u8, n: usize) {
    let (from, to) = (from.cast::<A>(), to.cast::<B>());
    for i in 0..n {
        // SAFETY: the caller vouches for `n` elements.
        unsafe { to.add(i).write_unaligned(cast(from.add(i).read_unaligned())) };
    }
}

/// # Safety
/// As for [`Convert`], and the processor must have AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn convert_avx2<A: Element, B: Element>(from: *const u8, to: *mut u8, n: usize) {
    // SAFETY: the caller's.
    unsafe { convert::<A, B>(from, to, n) }
}

/// A copy of elements of this size.
fn same_size(itemsize: usize) -> Convert {
    /// # Safety
    /// As for [`Convert`].
    unsafe fn copy<const SIZE: usize>(from: *const u8, to: *mut u8, n: usize) {
        // SAFETY: the caller vouches for `n` elements.
        unsafe { std::ptr::copy_nonoverlapping(from, to, n * SIZE) };
    }
    match itemsize {
        1 => copy::<1>,
        2 => copy::<2>,
        4 => copy::<4>,
        8 => copy::<8>,
        _ => copy::<16>,
    }
}

/// Loops for pairs that are frequent and would take two steps, or that have instructions of their
/// own.
fn direct(from: DType, to: DType) -> Option<Convert> {
    #[cfg(target_arch = "x86_64")]
    if let Some(found) = vectors::pick(from, to) {
        return Some(found);
    }
    match from {
        DType::Bool => short::<bool>(to),
        DType::UInt8 => short::<u8>(to),
        DType::Int8 => short::<i8>(to),
        DType::Int16 => short::<i16>(to),
        DType::Int32 => short::<i32>(to),
        DType::Int64 => short::<i64>(to),
        DType::UInt16 => short::<u16>(to),
        DType::UInt32 => short::<u32>(to),
        _ => None,
    }
}

/// One loop from an integer to the dtypes that programs use most; of integers of one size the bits are
/// the same.
fn short<A: Element>(to: DType) -> Option<Convert> {
    Some(match to {
        DType::Bool => loop_of::<A, bool>(),
        DType::UInt8 => loop_of::<A, u8>(),
        DType::Int8 => loop_of::<A, i8>(),
        DType::Int16 | DType::UInt16 => loop_of::<A, i16>(),
        DType::Int32 | DType::UInt32 => loop_of::<A, i32>(),
        DType::Int64 => loop_of::<A, i64>(),
        DType::Float32 => loop_of::<A, f32>(),
        DType::Float64 => loop_of::<A, f64>(),
        _ => return None,
    })
}

/// The dtype between two dtypes that has the better loops. The values are the same: what is defined
/// (see Note [Casts]) goes through it, or keeps the low bits of what does.
fn middle(from: DType, to: DType) -> DType {
    let narrow_float = to.is_floating_point() && to.itemsize() < 4;
    let narrow_int = matches!(to, DType::Int16 | DType::UInt16 | DType::Int8 | DType::UInt8);
    match from {
        _ if narrow_float => DType::Float32,
        DType::Float64 if narrow_int => DType::Int32,
        _ => kind(from).dtype(),
    }
}

/// From a dtype to its wide type.
fn widening(from: DType) -> Convert {
    use DType::*;
    match from {
        Bool => loop_of::<bool, i64>(),
        UInt8 => loop_of::<u8, i64>(),
        Int8 => loop_of::<i8, i64>(),
        UInt16 => loop_of::<u16, i64>(),
        Int16 => loop_of::<i16, i64>(),
        UInt32 => loop_of::<u32, i64>(),
        Int32 => loop_of::<i32, i64>(),
        Float16 => loop_of::<f16, f32>(),
        BFloat16 => loop_of::<bf16, f32>(),
        Float8E5m2 => loop_of::<F8E5M2, f32>(),
        Float8E4m3fn => loop_of::<F8E4M3FN, f32>(),
        Float8E5m2fnuz => loop_of::<F8E5M2FNUZ, f32>(),
        Float8E4m3fnuz => loop_of::<F8E4M3FNUZ, f32>(),
        Float8E8m0fnu => loop_of::<F8E8M0FNU, f32>(),
        Complex32 => loop_of::<Complex<f16>, Complex<f32>>(),
        BComplex32 => loop_of::<Complex<bf16>, Complex<f32>>(),
        wide => same_size(wide.itemsize()),
    }
}

/// From a wide type to a dtype.
fn narrowing(from: WideType, to: DType) -> Convert {
    match from {
        WideType::Int => narrowing_of::<i64>(to),
        WideType::UInt => narrowing_of::<u64>(to),
        WideType::Single => narrowing_of::<f32>(to),
        WideType::Double => narrowing_of::<f64>(to),
        WideType::ComplexSingle => narrowing_of::<Complex<f32>>(to),
        WideType::ComplexDouble => narrowing_of::<Complex<f64>>(to),
    }
}

fn narrowing_of<A: Element>(to: DType) -> Convert {
    use DType::*;
    match to {
        Bool => loop_of::<A, bool>(),
        UInt8 => loop_of::<A, u8>(),
        Int8 => loop_of::<A, i8>(),
        UInt16 => loop_of::<A, u16>(),
        Int16 => loop_of::<A, i16>(),
        UInt32 => loop_of::<A, u32>(),
        Int32 => loop_of::<A, i32>(),
        UInt64 => loop_of::<A, u64>(),
        Int64 => loop_of::<A, i64>(),
        Float16 => loop_of::<A, f16>(),
        BFloat16 => loop_of::<A, bf16>(),
        Float64 => loop_of::<A, f64>(),
        Float8E5m2 => loop_of::<A, F8E5M2>(),
        Float8E4m3fn => loop_of::<A, F8E4M3FN>(),
        Float8E5m2fnuz => loop_of::<A, F8E5M2FNUZ>(),
        Float8E4m3fnuz => loop_of::<A, F8E4M3FNUZ>(),
        Float8E8m0fnu => loop_of::<A, F8E8M0FNU>(),
        Complex32 => loop_of::<A, Complex<f16>>(),
        BComplex32 => loop_of::<A, Complex<bf16>>(),
        Complex64 => loop_of::<A, Complex<f32>>(),
        Complex128 => loop_of::<A, Complex<f64>>(),
        Float32 => loop_of::<A, f32>(),
        // The others are no numbers; callers convert those that are.
        stored_only => same_size(stored_only.itemsize()),
    }
}

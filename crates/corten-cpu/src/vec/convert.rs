//! Conversion of rows of elements from one dtype to another, as `corten_core::cast` does.
//!
//! Most of the 24 × 24 pairs go through the wide type of the source's kind (`i64`, `u64`, `f32`,
//! `f64` or complex), in a buffer that stays in the first-level cache: `cast` itself is defined
//! that way, so the values are the same. What is common has a loop of its own.

use super::level::{Level, level};
use corten_core::{Complex, DType, Element, F8E4M3FN, F8E4M3FNUZ, F8E5M2, F8E5M2FNUZ, F8E8M0FNU};
use corten_core::{bf16, cast, f16};

/// Converts `n` elements from one address to another.
///
/// # Safety
/// `from` must be readable and `to` writable for `n` elements of the dtypes the function was
/// chosen for, both aligned for them, and they must not overlap.
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
        let (wide, second) = (kind(from), narrowing(kind(from), to));
        if wide.dtype() == from {
            return Self::Direct(second);
        }
        let first = widening(from);
        if wide.dtype() == to {
            return Self::Direct(first);
        }
        Self::Through(first, second, from.itemsize(), to.itemsize())
    }

    /// Converts `n` elements.
    ///
    /// # Safety
    /// `from` must be readable and `to` writable for `n` elements of the two dtypes, both aligned
    /// for them, and they must not overlap.
    pub(crate) unsafe fn run(&self, from: *const u8, to: *mut u8, n: usize) {
        match *self {
            // SAFETY: the caller's.
            Self::Direct(convert) => unsafe { convert(from, to, n) },
            Self::Through(first, second, from_size, to_size) => {
                let mut wide = [Complex::<f64>::new(0.0, 0.0); STEP];
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

/// The wide type that `cast` takes a dtype's values through.
#[derive(Clone, Copy)]
enum Kind {
    Int,
    UInt,
    Single,
    Double,
    ComplexSingle,
    ComplexDouble,
}

impl Kind {
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

fn kind(dtype: DType) -> Kind {
    match (dtype.is_complex(), dtype.is_floating_point(), dtype.itemsize()) {
        (true, _, 16) => Kind::ComplexDouble,
        (true, ..) => Kind::ComplexSingle,
        (_, true, 8) => Kind::Double,
        (_, true, _) => Kind::Single,
        _ if dtype == u64::DTYPE => Kind::UInt,
        _ => Kind::Int,
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
        unsafe { to.add(i).write(cast(from.add(i).read())) };
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
    Some(match (from, to) {
        (DType::Bool, DType::Float32) => loop_of::<bool, f32>(),
        (DType::UInt8, DType::Float32) => loop_of::<u8, f32>(),
        (DType::Int32, DType::Float32) => loop_of::<i32, f32>(),
        (DType::Int32, DType::Float64) => loop_of::<i32, f64>(),
        (DType::Bool, DType::UInt8) | (DType::UInt8, DType::Int8) => same_size(1),
        #[cfg(target_arch = "x86_64")]
        (DType::Float16, DType::Float32) if level() >= Level::Avx2 => half_to_single,
        #[cfg(target_arch = "x86_64")]
        (DType::Float32, DType::Float16) if level() >= Level::Avx2 => single_to_half,
        #[cfg(target_arch = "x86_64")]
        (DType::BFloat16, DType::Float32) if level() >= Level::Avx2 => bfloat_to_single,
        #[cfg(target_arch = "x86_64")]
        (DType::Float32, DType::BFloat16) if level() >= Level::Avx2 => single_to_bfloat,
        _ => return None,
    })
}

/// # Safety
/// As for [`Convert`], and the processor must have F16C.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn half_to_single(from: *const u8, to: *mut u8, n: usize) {
    use core::arch::x86_64::*;
    let (from, to) = (from.cast::<f16>(), to.cast::<f32>());
    let whole = n / 8 * 8;
    for i in (0..whole).step_by(8) {
        // SAFETY: eight elements are left at `i`.
        unsafe {
            _mm256_storeu_ps(to.add(i), _mm256_cvtph_ps(_mm_loadu_si128(from.add(i).cast())))
        };
    }
    for i in whole..n {
        // SAFETY: `i < n`.
        unsafe { to.add(i).write(from.add(i).read().to_f32()) };
    }
}

/// # Safety
/// As for [`Convert`], and the processor must have F16C.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn single_to_half(from: *const u8, to: *mut u8, n: usize) {
    use core::arch::x86_64::*;
    let (from, to) = (from.cast::<f32>(), to.cast::<f16>());
    let whole = n / 8 * 8;
    for i in (0..whole).step_by(8) {
        // SAFETY: eight elements are left at `i`.
        unsafe {
            let halves = _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(_mm256_loadu_ps(from.add(i)));
            _mm_storeu_si128(to.add(i).cast(), halves);
        }
    }
    for i in whole..n {
        // SAFETY: `i < n`.
        unsafe { to.add(i).write(f16::from_f32(from.add(i).read())) };
    }
}

/// # Safety
/// As for [`Convert`], and the processor must have AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn bfloat_to_single(from: *const u8, to: *mut u8, n: usize) {
    let (from, to) = (from.cast::<u16>(), to.cast::<u32>());
    for i in 0..n {
        // SAFETY: `i < n`.
        unsafe { to.add(i).write(u32::from(from.add(i).read()) << 16) };
    }
}

/// Rounds to nearest, ties to even, without a branch: `bf16::from_f32` of every element.
///
/// # Safety
/// As for [`Convert`], and the processor must have AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn single_to_bfloat(from: *const u8, to: *mut u8, n: usize) {
    let (from, to) = (from.cast::<u32>(), to.cast::<u16>());
    for i in 0..n {
        // SAFETY: `i < n`.
        let bits = unsafe { from.add(i).read() };
        let is_nan = bits & 0x7fff_ffff > 0x7f80_0000;
        let rounded = bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16;
        let value = if is_nan { bits >> 16 | 0x40 } else { rounded };
        // SAFETY: `i < n`.
        unsafe { to.add(i).write(value as u16) };
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
fn narrowing(from: Kind, to: DType) -> Convert {
    match from {
        Kind::Int => narrowing_of::<i64>(to),
        Kind::UInt => narrowing_of::<u64>(to),
        Kind::Single => narrowing_of::<f32>(to),
        Kind::Double => narrowing_of::<f64>(to),
        Kind::ComplexSingle => narrowing_of::<Complex<f32>>(to),
        Kind::ComplexDouble => narrowing_of::<Complex<f64>>(to),
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
        // An undefined dtype has no elements; callers convert defined ones.
        Float32 | Undefined => loop_of::<A, f32>(),
    }
}

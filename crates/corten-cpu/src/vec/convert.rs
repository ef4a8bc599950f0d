//! Conversion of rows of elements from one dtype to another, as `corten_core::cast` does.
//!
//! Most of the 24 × 24 pairs go through the wide type of the source's kind (`i64`, `u64`, `f32`,
//! `f64` or complex), in a buffer that stays in the first-level cache: `cast` itself is defined
//! that way, so the values are the same. What is common has a loop of its own.

use super::level::{Level, level};
#[cfg(target_arch = "x86_64")]
use super::memory;
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
        (DType::Float16, DType::Float32) => half_to_single::pick()?,
        #[cfg(target_arch = "x86_64")]
        (DType::Float32, DType::Float16) => single_to_half::pick()?,
        #[cfg(target_arch = "x86_64")]
        (DType::BFloat16, DType::Float32) => bfloat_to_single::pick()?,
        #[cfg(target_arch = "x86_64")]
        (DType::Float32, DType::BFloat16) => single_to_bfloat::pick()?,
        #[cfg(target_arch = "x86_64")]
        (DType::Float32, DType::Int8 | DType::UInt8) => single_to_byte::pick()?,
        #[cfg(target_arch = "x86_64")]
        (DType::Float32, DType::Int16 | DType::UInt16) => single_to_short::pick()?,
        #[cfg(target_arch = "x86_64")]
        (DType::Float32, DType::Int32) => single_to_int::pick()?,
        #[cfg(target_arch = "x86_64")]
        (DType::Float32, DType::Int64) => single_to_long::pick()?,
        _ => return None,
    })
}

/// The same loop for the levels above the lowest: vectors of 8 and of 16 `f32`.
#[cfg(target_arch = "x86_64")]
macro_rules! half_conversions {
    ($($(#[$doc:meta])* $name:ident($from:ident: $a:ty, $to:ident: $b:ty) {
        8 => $eight:expr, 16 => $sixteen:expr, 1 => |$x:ident| $one:expr
    })+) => {$(
        $(#[$doc])*
        mod $name {
            use super::{Convert, Level, level};
            use core::arch::x86_64::*;

            pub(super) fn pick() -> Option<Convert> {
                match level() {
                    Level::Avx512 => Some(avx512),
                    Level::Avx2 => Some(avx2),
                    Level::Baseline => None,
                }
            }

            half_conversions!(@loop avx512 "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c"
                $from: $a, $to: $b, 16 => $sixteen, |$x| $one);
            half_conversions!(@loop avx2 "avx2,fma,f16c"
                $from: $a, $to: $b, 8 => $eight, |$x| $one);
        }
    )+};
    (@loop $level:ident $features:literal $from:ident: $a:ty, $to:ident: $b:ty,
        $lanes:literal => $vector:expr, |$x:ident| $one:expr) => {
        /// # Safety
        /// As for [`Convert`], and the processor must have the features.
        #[target_feature(enable = $features)]
        unsafe fn $level(from: *const u8, to: *mut u8, n: usize) {
            let (from, to) = (from.cast::<$a>(), to.cast::<$b>());
            let whole = n / $lanes * $lanes;
            for i in (0..whole).step_by($lanes) {
                // SAFETY: a vector is left at `i`.
                unsafe {
                    let ($from, $to) = (from.add(i), to.add(i));
                    $vector
                };
            }
            for i in whole..n {
                // SAFETY: `i < n`.
                unsafe {
                    let $x = from.add(i).read();
                    to.add(i).write($one);
                }
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
half_conversions! {
    half_to_single(from: super::f16, to: f32) {
        8 => _mm256_storeu_ps(to, _mm256_cvtph_ps(_mm_loadu_si128(from.cast()))),
        16 => _mm512_storeu_ps(to, _mm512_cvtph_ps(_mm256_loadu_si256(from.cast()))),
        1 => |x| x.to_f32()
    }
    single_to_half(from: f32, to: super::f16) {
        8 => _mm_storeu_si128(
            to.cast(),
            _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(_mm256_loadu_ps(from)),
        ),
        16 => _mm256_storeu_si256(
            to.cast(),
            _mm512_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(_mm512_loadu_ps(from)),
        ),
        1 => |x| super::f16::from_f32(x)
    }
    bfloat_to_single(from: u16, to: u32) {
        8 => {
            let wide = _mm256_cvtepu16_epi32(_mm_loadu_si128(from.cast()));
            _mm256_storeu_si256(to.cast(), _mm256_slli_epi32::<16>(wide));
        },
        16 => {
            let wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(from.cast()));
            _mm512_storeu_si512(to.cast(), _mm512_slli_epi32::<16>(wide));
        },
        1 => |x| u32::from(x) << 16
    }
    /// Rounds to nearest, ties to even: `bf16::from_f32` of every element.
    single_to_bfloat(from: u32, to: u16) {
        8 => {
            let single = crate::vec::avx2::F32(_mm256_loadu_ps(from.cast()));
            _mm_storeu_si128(to.cast(), super::memory::narrow::bfloat_of_single(single));
        },
        16 => {
            let single = crate::vec::avx512::F32(_mm512_loadu_ps(from.cast()));
            _mm256_storeu_si256(to.cast(), super::memory::wide::bfloat_of_single(single));
        },
        1 => |x| super::rounded_to_bfloat(x)
    }
    /// The instructions give the numbers of Note [Casts]; of narrower integers the low bits remain.
    single_to_int(from: f32, to: i32) {
        8 => _mm256_storeu_si256(to.cast(), _mm256_cvttps_epi32(_mm256_loadu_ps(from))),
        16 => _mm512_storeu_si512(to.cast(), _mm512_cvttps_epi32(_mm512_loadu_ps(from))),
        1 => |x| super::cast(x)
    }
    single_to_short(from: f32, to: i16) {
        8 => {
            let wide = _mm256_cvttps_epi32(_mm256_loadu_ps(from));
            let low = _mm256_and_si256(wide, _mm256_set1_epi32(0xffff));
            // Each half of the register is packed into each half of the result.
            let packed = _mm256_permute4x64_epi64::<0b1000>(_mm256_packus_epi32(low, low));
            _mm_storeu_si128(to.cast(), _mm256_castsi256_si128(packed));
        },
        16 => {
            let wide = _mm512_cvttps_epi32(_mm512_loadu_ps(from));
            _mm256_storeu_si256(to.cast(), _mm512_cvtepi32_epi16(wide));
        },
        1 => |x| super::cast(x)
    }
    single_to_byte(from: f32, to: i8) {
        8 => {
            let wide = _mm256_cvttps_epi32(_mm256_loadu_ps(from));
            let low = _mm256_and_si256(wide, _mm256_set1_epi32(0xff));
            let shorts = _mm256_permute4x64_epi64::<0b1000>(_mm256_packus_epi32(low, low));
            let shorts = _mm256_castsi256_si128(shorts);
            _mm_storel_epi64(to.cast(), _mm_packus_epi16(shorts, shorts));
        },
        16 => {
            let wide = _mm512_cvttps_epi32(_mm512_loadu_ps(from));
            _mm_storeu_si128(to.cast(), _mm512_cvtepi32_epi8(wide));
        },
        1 => |x| super::cast(x)
    }
    single_to_long(from: f32, to: i64) {
        8 => for k in 0..8 {
            to.add(k).write(super::cast(from.add(k).read()));
        },
        16 => {
            let low = _mm512_cvttps_epi64(_mm256_loadu_ps(from));
            let high = _mm512_cvttps_epi64(_mm256_loadu_ps(from.add(8)));
            _mm512_storeu_si512(to.cast(), low);
            _mm512_storeu_si512(to.add(8).cast(), high);
        },
        1 => |x| super::cast(x)
    }
}

/// The bits of a single rounded to bfloat16, without a branch.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn rounded_to_bfloat(bits: u32) -> u16 {
    let is_nan = bits & 0x7fff_ffff > 0x7f80_0000;
    let rounded = bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16;
    (if is_nan { bits >> 16 | 0x40 } else { rounded }) as u16
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

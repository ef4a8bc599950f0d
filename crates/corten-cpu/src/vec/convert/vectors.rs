//! Conversions that have instructions of their own.

use super::Convert;
use corten_core::DType;

/// The loop for these dtypes at the level in use, if there is one.
pub(super) fn pick(from: DType, to: DType) -> Option<Convert> {
    match (from, to) {
        (DType::Float16, DType::Float32) => half_to_single::pick(),
        (DType::Float32, DType::Float16) => single_to_half::pick(),
        (DType::BFloat16, DType::Float32) => bfloat_to_single::pick(),
        (DType::Float32, DType::BFloat16) => single_to_bfloat::pick(),
        (DType::Float32, DType::Int8 | DType::UInt8) => single_to_byte::pick(),
        (DType::Float32, DType::Int16 | DType::UInt16) => single_to_short::pick(),
        (DType::Float32, DType::Int32) => single_to_int::pick(),
        (DType::Float32, DType::Int64) => single_to_long::pick(),
        (DType::Float64, DType::Float32) => double_to_single::pick(),
        (DType::Float64, DType::Int32) => double_to_int::pick(),
        (DType::Float64, DType::Int64) => double_to_long::pick(),
        _ => None,
    }
}

/// The same loop for the levels above the lowest: vectors of 8 and of 16 `f32`.
macro_rules! conversions {
    ($($(#[$doc:meta])* $name:ident($from:ident: $a:ty, $to:ident: $b:ty) {
        8 => $eight:expr, 16 => $sixteen:expr, 1 => |$x:ident| $one:expr
    })+) => {$(
        $(#[$doc])*
        mod $name {
            use super::super::{Convert, Level, level};
            use core::arch::x86_64::*;

            pub(super) fn pick() -> Option<Convert> {
                match level() {
                    Level::Avx512 => Some(avx512),
                    Level::Avx2 => Some(avx2),
                    Level::Baseline => None,
                }
            }

            conversions!(@loop avx512 "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c"
                $from: $a, $to: $b, 16 => $sixteen, |$x| $one);
            conversions!(@loop avx2 "avx2,fma,f16c"
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
                    let $x = from.add(i).read_unaligned();
                    to.add(i).write_unaligned($one);
                }
            }
        }
    };
}

conversions! {
    half_to_single(from: super::super::f16, to: f32) {
        8 => _mm256_storeu_ps(to, _mm256_cvtph_ps(_mm_loadu_si128(from.cast()))),
        16 => _mm512_storeu_ps(to, _mm512_cvtph_ps(_mm256_loadu_si256(from.cast()))),
        1 => |x| x.to_f32()
    }
    single_to_half(from: f32, to: super::super::f16) {
        8 => _mm_storeu_si128(
            to.cast(),
            _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(_mm256_loadu_ps(from)),
        ),
        16 => _mm256_storeu_si256(
            to.cast(),
            _mm512_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(_mm512_loadu_ps(from)),
        ),
        1 => |x| super::super::f16::from_f32(x)
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
            _mm_storeu_si128(to.cast(), crate::vec::memory::narrow::bfloat_of_single(single));
        },
        16 => {
            let single = crate::vec::avx512::F32(_mm512_loadu_ps(from.cast()));
            _mm256_storeu_si256(to.cast(), crate::vec::memory::wide::bfloat_of_single(single));
        },
        1 => |x| super::rounded_to_bfloat(x)
    }
    /// The instructions give the numbers of Note [Casts]; of narrower integers the low bits remain.
    single_to_int(from: f32, to: i32) {
        8 => _mm256_storeu_si256(to.cast(), _mm256_cvttps_epi32(_mm256_loadu_ps(from))),
        16 => _mm512_storeu_si512(to.cast(), _mm512_cvttps_epi32(_mm512_loadu_ps(from))),
        1 => |x| super::super::cast(x)
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
        1 => |x| super::super::cast(x)
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
        1 => |x| super::super::cast(x)
    }
    single_to_long(from: f32, to: i64) {
        8 => {
            let values = _mm256_loadu_ps(from);
            let ints = _mm256_cvttps_epi32(values);
            let missed = _mm256_cmpeq_epi32(ints, _mm256_set1_epi32(i32::MIN));
            if _mm256_testz_si256(missed, missed) == 1 {
                let low = _mm256_cvtepi32_epi64(_mm256_castsi256_si128(ints));
                let high = _mm256_cvtepi32_epi64(_mm256_extracti128_si256::<1>(ints));
                _mm256_storeu_si256(to.cast(), low);
                _mm256_storeu_si256(to.add(4).cast(), high);
            } else {
                (0..8).for_each(|k| to.add(k).write_unaligned(super::super::cast(from.add(k).read_unaligned())));
            }
        },
        16 => {
            let low = _mm512_cvttps_epi64(_mm256_loadu_ps(from));
            let high = _mm512_cvttps_epi64(_mm256_loadu_ps(from.add(8)));
            _mm512_storeu_si512(to.cast(), low);
            _mm512_storeu_si512(to.add(8).cast(), high);
        },
        1 => |x| super::super::cast(x)
    }
    double_to_single(from: f64, to: f32) {
        8 => {
            _mm_storeu_ps(to, _mm256_cvtpd_ps(_mm256_loadu_pd(from)));
            _mm_storeu_ps(to.add(4), _mm256_cvtpd_ps(_mm256_loadu_pd(from.add(4))));
        },
        16 => {
            _mm256_storeu_ps(to, _mm512_cvtpd_ps(_mm512_loadu_pd(from)));
            _mm256_storeu_ps(to.add(8), _mm512_cvtpd_ps(_mm512_loadu_pd(from.add(8))));
        },
        1 => |x| x as f32
    }
    double_to_int(from: f64, to: i32) {
        8 => {
            _mm_storeu_si128(to.cast(), _mm256_cvttpd_epi32(_mm256_loadu_pd(from)));
            _mm_storeu_si128(to.add(4).cast(), _mm256_cvttpd_epi32(_mm256_loadu_pd(from.add(4))));
        },
        16 => {
            _mm256_storeu_si256(to.cast(), _mm512_cvttpd_epi32(_mm512_loadu_pd(from)));
            _mm256_storeu_si256(to.add(8).cast(), _mm512_cvttpd_epi32(_mm512_loadu_pd(from.add(8))));
        },
        1 => |x| super::super::cast(x)
    }
    double_to_long(from: f64, to: i64) {
        8 => {
            let low = _mm256_cvttpd_epi32(_mm256_loadu_pd(from));
            let high = _mm256_cvttpd_epi32(_mm256_loadu_pd(from.add(4)));
            let least = _mm_set1_epi32(i32::MIN);
            let missed = _mm_or_si128(_mm_cmpeq_epi32(low, least), _mm_cmpeq_epi32(high, least));
            if _mm_testz_si128(missed, missed) == 1 {
                _mm256_storeu_si256(to.cast(), _mm256_cvtepi32_epi64(low));
                _mm256_storeu_si256(to.add(4).cast(), _mm256_cvtepi32_epi64(high));
            } else {
                (0..8).for_each(|k| to.add(k).write_unaligned(super::super::cast(from.add(k).read_unaligned())));
            }
        },
        16 => {
            let low = _mm512_cvttpd_epi64(_mm512_loadu_pd(from));
            let high = _mm512_cvttpd_epi64(_mm512_loadu_pd(from.add(8)));
            _mm512_storeu_si512(to.cast(), low);
            _mm512_storeu_si512(to.add(8).cast(), high);
        },
        1 => |x| super::super::cast(x)
    }
}

/// The bits of a single rounded to bfloat16, without a branch.
#[inline(always)]
fn rounded_to_bfloat(bits: u32) -> u16 {
    let is_nan = bits & 0x7fff_ffff > 0x7f80_0000;
    let rounded = bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16;
    (if is_nan { bits >> 16 | 0x40 } else { rounded }) as u16
}

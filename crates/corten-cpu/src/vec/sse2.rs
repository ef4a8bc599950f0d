//! SSE2, which every x86-64 processor has: 4 lanes of `f32`, 2 of `f64`. No fused multiply-add, no
//! rounding instruction.

#![allow(unused_unsafe, reason = "its arithmetic is safe everywhere, its loads and stores are not")]

use super::compact::one_at_a_time;
use super::real::{MaskBits, Real, Single};
use core::arch::x86_64::*;

register! {
    F32(__m128): [f32; 4] as u32, mask Mask4, mantissa 23, bias 127.0, fused false;
    splat _mm_set1_ps, load load_singles, store _mm_storeu_ps,
    add _mm_add_ps, sub _mm_sub_ps, mul _mm_mul_ps, div _mm_div_ps, sqrt _mm_sqrt_ps,
    min _mm_min_ps, max _mm_max_ps, and _mm_and_ps, or _mm_or_ps, xor _mm_xor_ps;
    mul_add(a, b, c) -> Vector = _mm_add_ps(_mm_mul_ps(a, b), c);
    neg_mul_add(a, b, c) -> Vector = _mm_sub_ps(c, _mm_mul_ps(a, b));
    lt(a, b) -> Mask = _mm_cmplt_ps(a, b);
    le(a, b) -> Mask = _mm_cmple_ps(a, b);
    eq(a, b) -> Mask = _mm_cmpeq_ps(a, b);
    ne(a, b) -> Mask = _mm_cmpneq_ps(a, b);
    select(m, a, b) -> Select = _mm_or_ps(_mm_and_ps(m, a), _mm_andnot_ps(m, b));
    bits_to_exponent(a) -> Vector = _mm_castsi128_ps(_mm_slli_epi32::<23>(_mm_castps_si128(a)));
    exponent_to_bits(a) -> Vector = _mm_castsi128_ps(_mm_srli_epi32::<23>(_mm_castps_si128(a)));
    add_bits(a, b) -> Vector =
        _mm_castsi128_ps(_mm_add_epi32(_mm_castps_si128(a), _mm_castps_si128(b)));
    sign_bit(a) -> Mask = _mm_castsi128_ps(_mm_srai_epi32::<31>(_mm_castps_si128(a)));
    round(a) -> Vector = round::<F32>(F32(a)).0;
    floor(a) -> Vector = floor::<F32>(F32(a)).0;
    trunc(a) -> Vector = trunc::<F32>(F32(a)).0;
    exchanged(a, distance) -> Exchange = match distance {
        2 => _mm_shuffle_ps::<0b01_00_11_10>(a, a),
        _ => _mm_shuffle_ps::<0b10_11_00_01>(a, a),
    };
    load_partial(from, n) -> LoadPartial = load_partial::<F32, 4>(from, n).0;
    store_partial(value, to, n) -> StorePartial = store_partial::<F32, 4>(F32(value), to, n);
}

register! {
    F64(__m128d): [f64; 2] as u64, mask Mask2, mantissa 52, bias 1023.0, fused false;
    splat _mm_set1_pd, load load_doubles, store _mm_storeu_pd,
    add _mm_add_pd, sub _mm_sub_pd, mul _mm_mul_pd, div _mm_div_pd, sqrt _mm_sqrt_pd,
    min _mm_min_pd, max _mm_max_pd, and _mm_and_pd, or _mm_or_pd, xor _mm_xor_pd;
    mul_add(a, b, c) -> Vector = _mm_add_pd(_mm_mul_pd(a, b), c);
    neg_mul_add(a, b, c) -> Vector = _mm_sub_pd(c, _mm_mul_pd(a, b));
    lt(a, b) -> Mask = _mm_cmplt_pd(a, b);
    le(a, b) -> Mask = _mm_cmple_pd(a, b);
    eq(a, b) -> Mask = _mm_cmpeq_pd(a, b);
    ne(a, b) -> Mask = _mm_cmpneq_pd(a, b);
    select(m, a, b) -> Select = _mm_or_pd(_mm_and_pd(m, a), _mm_andnot_pd(m, b));
    bits_to_exponent(a) -> Vector = _mm_castsi128_pd(_mm_slli_epi64::<52>(_mm_castpd_si128(a)));
    exponent_to_bits(a) -> Vector = _mm_castsi128_pd(_mm_srli_epi64::<52>(_mm_castpd_si128(a)));
    add_bits(a, b) -> Vector =
        _mm_castsi128_pd(_mm_add_epi64(_mm_castpd_si128(a), _mm_castpd_si128(b)));
    sign_bit(a) -> Mask =
        _mm_castsi128_pd(_mm_shuffle_epi32::<0xF5>(_mm_srai_epi32::<31>(_mm_castpd_si128(a))));
    round(a) -> Vector = round::<F64>(F64(a)).0;
    floor(a) -> Vector = floor::<F64>(F64(a)).0;
    trunc(a) -> Vector = trunc::<F64>(F64(a)).0;
    exchanged(a, _distance) -> Exchange = _mm_shuffle_pd::<0b01>(a, a);
    load_partial(from, n) -> LoadPartial = load_partial::<F64, 2>(from, n).0;
    store_partial(value, to, n) -> StorePartial = store_partial::<F64, 2>(F64(value), to, n);
}

/// Loads, the loops around which are not unrolled: the baseline is for processors that are seldom met.
///
/// # Safety
/// `from` must be readable for 4 elements.
#[inline(always)]
unsafe fn load_singles(from: *const f32) -> __m128 {
    one_at_a_time();
    // SAFETY: the caller's.
    unsafe { _mm_loadu_ps(from) }
}

/// # Safety
/// `from` must be readable for 2 elements.
#[inline(always)]
unsafe fn load_doubles(from: *const f64) -> __m128d {
    one_at_a_time();
    // SAFETY: the caller's.
    unsafe { _mm_loadu_pd(from) }
}

/// Adding and taking away 2^MANTISSA rounds to integers; larger numbers are integers already.
#[inline(always)]
fn round<V: Real>(x: V) -> V {
    let large = V::of((1u64 << V::MANTISSA) as f64).copysign(x);
    let rounded = ((x + large) - large).copysign(x);
    V::select(x.abs().lt(large.abs()), rounded, x)
}

#[inline(always)]
fn floor<V: Real>(x: V) -> V {
    let rounded = round(x);
    V::select(x.lt(rounded), rounded - V::of(1.0), rounded)
}

#[inline(always)]
fn trunc<V: Real>(x: V) -> V {
    floor(x.abs()).copysign(x)
}

/// # Safety
/// `from` must be readable for `n < LANES` elements.
#[inline(always)]
unsafe fn load_partial<V: Real, const LANES: usize>(from: *const V::Elem, n: usize) -> V {
    let mut lanes = [std::mem::MaybeUninit::<V::Elem>::zeroed(); LANES];
    // SAFETY: the caller vouches for `from`; the array is longer than `n` and zero is a number.
    unsafe {
        // Bytes, which lie anywhere.
        let (from, nbytes) = (from.cast::<u8>(), n * size_of::<V::Elem>());
        std::ptr::copy_nonoverlapping(from, lanes.as_mut_ptr().cast(), nbytes);
        V::load(lanes.as_ptr().cast())
    }
}

/// # Safety
/// `to` must be writable for `n < LANES` elements.
#[inline(always)]
unsafe fn store_partial<V: Real, const LANES: usize>(value: V, to: *mut V::Elem, n: usize) {
    let mut lanes = [std::mem::MaybeUninit::<V::Elem>::uninit(); LANES];
    // SAFETY: the array holds a whole vector; the caller vouches for `to`.
    unsafe {
        value.store(lanes.as_mut_ptr().cast());
        let nbytes = n * size_of::<V::Elem>();
        std::ptr::copy_nonoverlapping(lanes.as_ptr().cast(), to.cast::<u8>(), nbytes);
    }
}

impl Single for F32 {
    type Double = F64;

    #[inline(always)]
    fn widen(self) -> [F64; 2] {
        let high = isa!(_mm_movehl_ps(self.0, self.0));
        [F64(isa!(_mm_cvtps_pd(self.0))), F64(isa!(_mm_cvtps_pd(high)))]
    }

    #[inline(always)]
    fn narrow([low, high]: [F64; 2]) -> Self {
        Self(isa!(_mm_movelh_ps(_mm_cvtpd_ps(low.0), _mm_cvtpd_ps(high.0))))
    }
}

/// Defines the truth values of one width: all bits of a lane set or none.
macro_rules! mask {
    ($name:ident($register:ty): $cast:ident, $back:ident, $movemask:ident) => {
        /// All bits of a lane set, or none.
        #[derive(Clone, Copy)]
        pub(crate) struct $name($register);

        mask!(@operator $name $cast $back
            BitAnd bitand _mm_and_si128, BitOr bitor _mm_or_si128, BitXor bitxor _mm_xor_si128);

        impl std::ops::Not for $name {
            type Output = Self;
            #[inline(always)]
            fn not(self) -> Self {
                self ^ Self::splat(true)
            }
        }

        impl From<$register> for $name {
            #[inline(always)]
            fn from(mask: $register) -> Self {
                Self(mask)
            }
        }

        impl MaskBits for $name {
            #[inline(always)]
            fn bits(self) -> u32 {
                isa!($movemask(self.0)) as u32
            }
            #[inline(always)]
            fn splat(value: bool) -> Self {
                Self(isa!($back(_mm_set1_epi32(-i32::from(value)))))
            }
        }
    };
    (@operator $name:ident $cast:ident $back:ident $($trait:ident $method:ident $op:ident),+) => {$(
        impl std::ops::$trait for $name {
            type Output = Self;
            #[inline(always)]
            fn $method(self, other: Self) -> Self {
                Self(isa!($back($op($cast(self.0), $cast(other.0)))))
            }
        }
    )+};
}

mask!(Mask4(__m128): _mm_castps_si128, _mm_castsi128_ps, _mm_movemask_ps);
mask!(Mask2(__m128d): _mm_castpd_si128, _mm_castsi128_pd, _mm_movemask_pd);

//! AVX-512 (F, BW, DQ, VL): 16 lanes of `f32`, 8 of `f64`, masks in mask registers.

use super::real::{MaskBits, Real, Single};
use core::arch::x86_64::*;

const NEAREST: i32 = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
const DOWN: i32 = _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC;
const TO_ZERO: i32 = _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC;

register! {
    F32(__m512): [f32; 16] as u32, mask Mask16, mantissa 23, bias 127.0, fused true;
    splat _mm512_set1_ps, load _mm512_loadu_ps, store _mm512_storeu_ps,
    add _mm512_add_ps, sub _mm512_sub_ps, mul _mm512_mul_ps, div _mm512_div_ps, sqrt square_roots,
    min _mm512_min_ps, max _mm512_max_ps, and _mm512_and_ps, or _mm512_or_ps, xor _mm512_xor_ps;
    mul_add(a, b, c) -> Vector = _mm512_fmadd_ps(a, b, c);
    neg_mul_add(a, b, c) -> Vector = _mm512_fnmadd_ps(a, b, c);
    lt(a, b) -> Mask = _mm512_cmp_ps_mask::<_CMP_LT_OQ>(a, b);
    not_lt(a, b) -> Mask = _mm512_cmp_ps_mask::<_CMP_NLT_UQ>(a, b);
    le(a, b) -> Mask = _mm512_cmp_ps_mask::<_CMP_LE_OQ>(a, b);
    eq(a, b) -> Mask = _mm512_cmp_ps_mask::<_CMP_EQ_OQ>(a, b);
    ne(a, b) -> Mask = _mm512_cmp_ps_mask::<_CMP_NEQ_UQ>(a, b);
    select(m, a, b) -> Select = _mm512_mask_blend_ps(m, b, a);
    bits_to_exponent(a) -> Vector = _mm512_castsi512_ps(_mm512_slli_epi32::<23>(_mm512_castps_si512(a)));
    exponent_to_bits(a) -> Vector = _mm512_castsi512_ps(_mm512_srli_epi32::<23>(_mm512_castps_si512(a)));
    add_bits(a, b) -> Vector =
        _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(a), _mm512_castps_si512(b)));
    sign_bit(a) -> Mask = _mm512_movepi32_mask(_mm512_castps_si512(a));
    round(a) -> Vector = _mm512_roundscale_ps::<NEAREST>(a);
    floor(a) -> Vector = _mm512_roundscale_ps::<DOWN>(a);
    trunc(a) -> Vector = _mm512_roundscale_ps::<TO_ZERO>(a);
    scale2(a, k) -> Vector = _mm512_scalef_ps(a, k);
    split_around_one(a) -> Pair = around_one(
        F32(_mm512_getmant_ps::<_MM_MANT_NORM_1_2, _MM_MANT_SIGN_SRC>(a)), F32(_mm512_getexp_ps(a))
    );
    exchanged(a, distance) -> Exchange = match distance {
        8 => _mm512_shuffle_f32x4::<0b01_00_11_10>(a, a),
        4 => _mm512_shuffle_f32x4::<0b10_11_00_01>(a, a),
        2 => _mm512_permute_ps::<0b01_00_11_10>(a),
        _ => _mm512_permute_ps::<0b10_11_00_01>(a),
    };
    load_partial(from, n) -> LoadPartial = _mm512_maskz_loadu_ps(((1u32 << n) - 1) as u16, from);
    store_partial(value, to, n) -> StorePartial =
        _mm512_mask_storeu_ps(to, ((1u32 << n) - 1) as u16, value);
}

register! {
    F64(__m512d): [f64; 8] as u64, mask Mask8, mantissa 52, bias 1023.0, fused true;
    splat _mm512_set1_pd, load _mm512_loadu_pd, store _mm512_storeu_pd,
    add _mm512_add_pd, sub _mm512_sub_pd, mul _mm512_mul_pd, div _mm512_div_pd, sqrt _mm512_sqrt_pd,
    min _mm512_min_pd, max _mm512_max_pd, and _mm512_and_pd, or _mm512_or_pd, xor _mm512_xor_pd;
    mul_add(a, b, c) -> Vector = _mm512_fmadd_pd(a, b, c);
    neg_mul_add(a, b, c) -> Vector = _mm512_fnmadd_pd(a, b, c);
    lt(a, b) -> Mask = _mm512_cmp_pd_mask::<_CMP_LT_OQ>(a, b);
    not_lt(a, b) -> Mask = _mm512_cmp_pd_mask::<_CMP_NLT_UQ>(a, b);
    le(a, b) -> Mask = _mm512_cmp_pd_mask::<_CMP_LE_OQ>(a, b);
    eq(a, b) -> Mask = _mm512_cmp_pd_mask::<_CMP_EQ_OQ>(a, b);
    ne(a, b) -> Mask = _mm512_cmp_pd_mask::<_CMP_NEQ_UQ>(a, b);
    select(m, a, b) -> Select = _mm512_mask_blend_pd(m, b, a);
    bits_to_exponent(a) -> Vector = _mm512_castsi512_pd(_mm512_slli_epi64::<52>(_mm512_castpd_si512(a)));
    exponent_to_bits(a) -> Vector = _mm512_castsi512_pd(_mm512_srli_epi64::<52>(_mm512_castpd_si512(a)));
    add_bits(a, b) -> Vector =
        _mm512_castsi512_pd(_mm512_add_epi64(_mm512_castpd_si512(a), _mm512_castpd_si512(b)));
    sign_bit(a) -> Mask = _mm512_movepi64_mask(_mm512_castpd_si512(a));
    round(a) -> Vector = _mm512_roundscale_pd::<NEAREST>(a);
    floor(a) -> Vector = _mm512_roundscale_pd::<DOWN>(a);
    trunc(a) -> Vector = _mm512_roundscale_pd::<TO_ZERO>(a);
    scale2(a, k) -> Vector = _mm512_scalef_pd(a, k);
    split_around_one(a) -> Pair = around_one(
        F64(_mm512_getmant_pd::<_MM_MANT_NORM_1_2, _MM_MANT_SIGN_SRC>(a)), F64(_mm512_getexp_pd(a))
    );
    exchanged(a, distance) -> Exchange = match distance {
        4 => _mm512_shuffle_f64x2::<0b01_00_11_10>(a, a),
        2 => _mm512_shuffle_f64x2::<0b10_11_00_01>(a, a),
        _ => _mm512_permute_pd::<0b0101_0101>(a),
    };
    load_partial(from, n) -> LoadPartial = _mm512_maskz_loadu_pd(((1u32 << n) - 1) as u8, from);
    store_partial(value, to, n) -> StorePartial =
        _mm512_mask_storeu_pd(to, ((1u32 << n) - 1) as u8, value);
}

/// Square roots, in half the time of the instruction where all numbers are ordinary: one step of
/// Newton's method for √x and for 1 / 2√x, and a last one with the exact remainder (P. Markstein,
/// "Computation of elementary functions on the IBM RISC System/6000 processor", 1990). They are
/// rounded correctly for any first estimate of 1/√x that is within 2⁻¹³: tried for all
/// mantissas, with nine such errors.
#[inline(always)]
unsafe fn square_roots(x: __m512) -> __m512 {
    let (least, most) = (isa!(_mm512_set1_epi32(27 << 23)), isa!(_mm512_set1_epi32(226 << 23)));
    let above = isa!(_mm512_sub_epi32(_mm512_castps_si512(x), least));
    if isa!(_mm512_cmp_epu32_mask::<_MM_CMPINT_LE>(above, most)) != __mmask16::MAX {
        return isa!(_mm512_sqrt_ps(x));
    }
    let half = isa!(_mm512_set1_ps(0.5));
    let estimate = isa!(_mm512_rsqrt14_ps(x));
    let root = isa!(_mm512_mul_ps(x, estimate));
    let inverse = isa!(_mm512_mul_ps(estimate, half));
    let error = isa!(_mm512_fnmadd_ps(root, inverse, half));
    let root = isa!(_mm512_fmadd_ps(root, error, root));
    let inverse = isa!(_mm512_fmadd_ps(inverse, error, inverse));
    let remainder = isa!(_mm512_fnmadd_ps(root, root, x));
    isa!(_mm512_fmadd_ps(remainder, inverse, root))
}

/// The mantissa m in [1, 2) and its exponent n, with m moved to where √½ ≤ m < √2.
#[inline(always)]
fn around_one<V: Real>(m: V, n: V) -> (V, V) {
    let large = m.gt(V::of(std::f64::consts::SQRT_2));
    (V::select(large, m * V::of(0.5), m), V::select(large, n + V::of(1.0), n))
}

impl Single for F32 {
    type Double = F64;
    const CHOOSES: bool = true;
    const CHOOSES_AT_ONCE: bool = true;

    #[inline(always)]
    fn chosen(self, from: &[f32; 16]) -> Self {
        let from = isa!(_mm512_loadu_ps(from.as_ptr()));
        Self(isa!(_mm512_permutexvar_ps(_mm512_castps_si512(self.0), from)))
    }

    #[inline(always)]
    fn split(self) -> (Self, Self) {
        let m = isa!(_mm512_getmant_ps::<_MM_MANT_NORM_1_2, _MM_MANT_SIGN_SRC>(self.0));
        (Self(m), Self(isa!(_mm512_getexp_ps(self.0))))
    }

    #[inline(always)]
    fn sixteenth(self) -> Self {
        let bits = isa!(_mm512_castps_si512(self.0));
        Self(isa!(_mm512_castsi512_ps(_mm512_srli_epi32::<19>(bits))))
    }

    #[inline(always)]
    fn widen(self) -> [F64; 2] {
        let low = isa!(_mm512_castps512_ps256(self.0));
        let high = isa!(_mm512_extractf32x8_ps::<1>(self.0));
        [F64(isa!(_mm512_cvtps_pd(low))), F64(isa!(_mm512_cvtps_pd(high)))]
    }

    #[inline(always)]
    fn narrow([low, high]: [F64; 2]) -> Self {
        let low = isa!(_mm512_castps256_ps512(_mm512_cvtpd_ps(low.0)));
        Self(isa!(_mm512_insertf32x8::<1>(low, _mm512_cvtpd_ps(high.0))))
    }
}

/// Defines the truth values of one width.
macro_rules! mask {
    ($name:ident($register:ty)) => {
        /// One bit per lane.
        #[derive(Clone, Copy)]
        pub(crate) struct $name($register);

        mask!(@operator $name BitAnd bitand &, BitOr bitor |, BitXor bitxor ^);

        impl std::ops::Not for $name {
            type Output = Self;
            #[inline(always)]
            fn not(self) -> Self {
                Self(!self.0)
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
                u32::from(self.0)
            }
            #[inline(always)]
            fn splat(value: bool) -> Self {
                Self(if value { <$register>::MAX } else { 0 })
            }
        }
    };
    (@operator $name:ident $($trait:ident $method:ident $op:tt),+) => {$(
        impl std::ops::$trait for $name {
            type Output = Self;
            #[inline(always)]
            fn $method(self, other: Self) -> Self {
                Self(self.0 $op other.0)
            }
        }
    )+};
}

mask!(Mask16(__mmask16));
mask!(Mask8(__mmask8));

//! AVX2 with FMA: 8 lanes of `f32`, 4 of `f64`.

use super::real::{MaskBits, Real, Single};
use core::arch::x86_64::*;

const NEAREST: i32 = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
const DOWN: i32 = _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC;
const TO_ZERO: i32 = _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC;

register! {
    F32(__m256): [f32; 8] as u32, mask Mask8, mantissa 23, bias 127.0, fused true;
    splat _mm256_set1_ps, load _mm256_loadu_ps, store _mm256_storeu_ps,
    add _mm256_add_ps, sub _mm256_sub_ps, mul _mm256_mul_ps, div _mm256_div_ps, sqrt _mm256_sqrt_ps,
    min _mm256_min_ps, max _mm256_max_ps, and _mm256_and_ps, or _mm256_or_ps, xor _mm256_xor_ps;
    mul_add(a, b, c) -> Vector = _mm256_fmadd_ps(a, b, c);
    neg_mul_add(a, b, c) -> Vector = _mm256_fnmadd_ps(a, b, c);
    lt(a, b) -> Mask = _mm256_cmp_ps::<_CMP_LT_OQ>(a, b);
    le(a, b) -> Mask = _mm256_cmp_ps::<_CMP_LE_OQ>(a, b);
    eq(a, b) -> Mask = _mm256_cmp_ps::<_CMP_EQ_OQ>(a, b);
    ne(a, b) -> Mask = _mm256_cmp_ps::<_CMP_NEQ_UQ>(a, b);
    select(m, a, b) -> Select = _mm256_blendv_ps(b, a, m);
    bits_to_exponent(a) -> Vector = _mm256_castsi256_ps(_mm256_slli_epi32::<23>(_mm256_castps_si256(a)));
    exponent_to_bits(a) -> Vector = _mm256_castsi256_ps(_mm256_srli_epi32::<23>(_mm256_castps_si256(a)));
    add_bits(a, b) -> Vector =
        _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(a), _mm256_castps_si256(b)));
    sign_bit(a) -> Mask = _mm256_castsi256_ps(_mm256_srai_epi32::<31>(_mm256_castps_si256(a)));
    round(a) -> Vector = _mm256_round_ps::<NEAREST>(a);
    floor(a) -> Vector = _mm256_round_ps::<DOWN>(a);
    trunc(a) -> Vector = _mm256_round_ps::<TO_ZERO>(a);
    exchanged(a, distance) -> Exchange = match distance {
        4 => _mm256_permute2f128_ps::<1>(a, a),
        2 => _mm256_permute_ps::<0b01_00_11_10>(a),
        _ => _mm256_permute_ps::<0b10_11_00_01>(a),
    };
    load_partial(from, n) -> LoadPartial = _mm256_maskload_ps(from, first32(n));
    store_partial(value, to, n) -> StorePartial = _mm256_maskstore_ps(to, first32(n), value);
}

register! {
    F64(__m256d): [f64; 4] as u64, mask Mask4, mantissa 52, bias 1023.0, fused true;
    splat _mm256_set1_pd, load _mm256_loadu_pd, store _mm256_storeu_pd,
    add _mm256_add_pd, sub _mm256_sub_pd, mul _mm256_mul_pd, div _mm256_div_pd, sqrt _mm256_sqrt_pd,
    min _mm256_min_pd, max _mm256_max_pd, and _mm256_and_pd, or _mm256_or_pd, xor _mm256_xor_pd;
    mul_add(a, b, c) -> Vector = _mm256_fmadd_pd(a, b, c);
    neg_mul_add(a, b, c) -> Vector = _mm256_fnmadd_pd(a, b, c);
    lt(a, b) -> Mask = _mm256_cmp_pd::<_CMP_LT_OQ>(a, b);
    le(a, b) -> Mask = _mm256_cmp_pd::<_CMP_LE_OQ>(a, b);
    eq(a, b) -> Mask = _mm256_cmp_pd::<_CMP_EQ_OQ>(a, b);
    ne(a, b) -> Mask = _mm256_cmp_pd::<_CMP_NEQ_UQ>(a, b);
    select(m, a, b) -> Select = _mm256_blendv_pd(b, a, m);
    bits_to_exponent(a) -> Vector = _mm256_castsi256_pd(_mm256_slli_epi64::<52>(_mm256_castpd_si256(a)));
    exponent_to_bits(a) -> Vector = _mm256_castsi256_pd(_mm256_srli_epi64::<52>(_mm256_castpd_si256(a)));
    add_bits(a, b) -> Vector =
        _mm256_castsi256_pd(_mm256_add_epi64(_mm256_castpd_si256(a), _mm256_castpd_si256(b)));
    sign_bit(a) -> Mask =
        _mm256_castsi256_pd(_mm256_cmpgt_epi64(_mm256_setzero_si256(), _mm256_castpd_si256(a)));
    round(a) -> Vector = _mm256_round_pd::<NEAREST>(a);
    floor(a) -> Vector = _mm256_round_pd::<DOWN>(a);
    trunc(a) -> Vector = _mm256_round_pd::<TO_ZERO>(a);
    exchanged(a, distance) -> Exchange = match distance {
        2 => _mm256_permute2f128_pd::<1>(a, a),
        _ => _mm256_permute_pd::<0b0101>(a),
    };
    load_partial(from, n) -> LoadPartial = _mm256_maskload_pd(from, first64(n));
    store_partial(value, to, n) -> StorePartial = _mm256_maskstore_pd(to, first64(n), value);
}

/// All ones in the first `n` lanes.
#[inline(always)]
fn first32(n: usize) -> __m256i {
    isa!(_mm256_cmpgt_epi32(_mm256_set1_epi32(n as i32), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)))
}

#[inline(always)]
fn first64(n: usize) -> __m256i {
    isa!(_mm256_cmpgt_epi64(_mm256_set1_epi64x(n as i64), _mm256_setr_epi64x(0, 1, 2, 3)))
}

impl Single for F32 {
    type Double = F64;
    const CHOOSES: bool = true;

    #[inline(always)]
    fn chosen(self, from: &[f32; 16]) -> Self {
        let (low, high) = from.split_at(8);
        let index = isa!(_mm256_castps_si256(self.0));
        let low = isa!(_mm256_permutevar8x32_ps(_mm256_loadu_ps(low.as_ptr()), index));
        let high = isa!(_mm256_permutevar8x32_ps(_mm256_loadu_ps(high.as_ptr()), index));
        // The fourth bit of the number, where a choice looks for a sign.
        let half = isa!(_mm256_castsi256_ps(_mm256_slli_epi32::<28>(index)));
        Self(isa!(_mm256_blendv_ps(low, high, half)))
    }

    #[inline(always)]
    fn widen(self) -> [F64; 2] {
        let low = isa!(_mm256_castps256_ps128(self.0));
        let high = isa!(_mm256_extractf128_ps::<1>(self.0));
        [F64(isa!(_mm256_cvtps_pd(low))), F64(isa!(_mm256_cvtps_pd(high)))]
    }

    #[inline(always)]
    fn narrow([low, high]: [F64; 2]) -> Self {
        Self(isa!(_mm256_set_m128(_mm256_cvtpd_ps(high.0), _mm256_cvtpd_ps(low.0))))
    }
}

/// Defines the truth values of one width: all bits of a lane set or none.
macro_rules! mask {
    ($name:ident($register:ty): $cast:ident, $back:ident, $movemask:ident) => {
        /// All bits of a lane set, or none.
        #[derive(Clone, Copy)]
        pub(crate) struct $name($register);

        mask!(@operator $name $cast $back
            BitAnd bitand _mm256_and_si256, BitOr bitor _mm256_or_si256, BitXor bitxor _mm256_xor_si256);

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
                Self(isa!($back(_mm256_set1_epi32(-i32::from(value)))))
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

mask!(Mask8(__m256): _mm256_castps_si256, _mm256_castsi256_ps, _mm256_movemask_ps);
mask!(Mask4(__m256d): _mm256_castpd_si256, _mm256_castsi256_pd, _mm256_movemask_pd);

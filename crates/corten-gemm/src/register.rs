//! The few vector operations of a product, for each instruction set.

use crate::tile::Sealed;

/// The lanes of the longest register.
pub(crate) const MOST_LANES: usize = 16;

/// The most columns that rows are turned into at a time.
pub(crate) const MOST_TURNED: usize = 4;

/// A vector of floats.
pub(crate) trait Register: Copy {
    type Elem: Sealed;
    const LANES: usize;
    /// Elements of a row that [`turn`](Self::turn) takes at a time.
    const TURNED: usize;
    /// From one step of a copied strip to the next: whole registers for the rows of a tile.
    const STRIP: usize;

    fn splat(value: Self::Elem) -> Self;
    /// # Safety
    /// `from` must be readable for `LANES` elements.
    unsafe fn load(from: *const Self::Elem) -> Self;
    /// # Safety
    /// `to` must be writable for `LANES` elements.
    unsafe fn store(self, to: *mut Self::Elem);
    /// Loads `n` elements; the other lanes are zero.
    /// # Safety
    /// `from` must be readable for `n < LANES` elements.
    unsafe fn load_some(from: *const Self::Elem, n: usize) -> Self;
    /// # Safety
    /// `to` must be writable for `n < LANES` elements.
    unsafe fn store_some(self, to: *mut Self::Elem, n: usize);
    /// `TURNED` columns of the elements from `at` on of `LANES` rows, and others after them.
    /// # Safety
    /// The rows must be readable there.
    unsafe fn turn(rows: &[*const Self::Elem; MOST_LANES], at: usize) -> [Self; MOST_TURNED];
    /// Asks for the cache line of an address, which need not be readable.
    #[inline(always)]
    fn prefetch(_: *const Self::Elem) {}
    /// `self * other`.
    fn mul(self, other: Self) -> Self;
    /// `self + other`.
    fn add(self, other: Self) -> Self;
    /// `self * factor + sum`, rounded once where the instruction set has it.
    fn mul_add(self, factor: Self, sum: Self) -> Self;
}

/// What every processor has: an array that the compiler puts into registers.
#[derive(Clone, Copy)]
pub(crate) struct Portable<E, const N: usize>([E; N]);

macro_rules! portable {
    ($($element:ty),+) => {$(
        impl<const N: usize> Register for Portable<$element, N> {
            type Elem = $element;
            const LANES: usize = N;
            const TURNED: usize = 1;
            const STRIP: usize = 4;

            #[inline(always)]
            fn splat(value: $element) -> Self {
                Self([value; N])
            }
            #[inline(always)]
            unsafe fn load(from: *const $element) -> Self {
                // SAFETY: the caller's; an array needs no more alignment than its elements.
                Self(unsafe { from.cast::<[$element; N]>().read() })
            }
            #[inline(always)]
            unsafe fn store(self, to: *mut $element) {
                // SAFETY: as for `load`.
                unsafe { to.cast::<[$element; N]>().write(self.0) }
            }
            #[inline(always)]
            unsafe fn load_some(from: *const $element, n: usize) -> Self {
                // SAFETY: the caller's, for the first `n`.
                let lane = |i: usize| if i < n { unsafe { *from.add(i) } } else { 0.0 };
                Self(std::array::from_fn(lane))
            }
            #[inline(always)]
            unsafe fn store_some(self, to: *mut $element, n: usize) {
                for (i, &lane) in self.0.iter().enumerate().take(n) {
                    // SAFETY: the caller's, for the first `n`.
                    unsafe { *to.add(i) = lane };
                }
            }
            #[inline(always)]
            unsafe fn turn(rows: &[*const $element; MOST_LANES], at: usize) -> [Self; MOST_TURNED] {
                // SAFETY: the caller's.
                [Self(std::array::from_fn(|i| unsafe { *rows[i].add(at) })); MOST_TURNED]
            }
            #[inline(always)]
            fn mul(self, other: Self) -> Self {
                Self(std::array::from_fn(|i| self.0[i] * other.0[i]))
            }
            #[inline(always)]
            fn add(self, other: Self) -> Self {
                Self(std::array::from_fn(|i| self.0[i] + other.0[i]))
            }
            #[inline(always)]
            fn mul_add(self, factor: Self, sum: Self) -> Self {
                Self(std::array::from_fn(|i| self.0[i] * factor.0[i] + sum.0[i]))
            }
        }
    )+};
}

portable!(f32, f64);

#[cfg(target_arch = "x86_64")]
pub(crate) use x86::{Avx2F32, Avx2F64, Avx512F32, Avx512F64};

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{MOST_LANES, MOST_TURNED, Register};
    use std::arch::x86_64::*;

    /// Calls an intrinsic.
    macro_rules! isa {
        ($call:expr) => {
            // SAFETY: registers exist only below a loop that its caller chose because the
            // processor has the features.
            unsafe { $call }
        };
    }

    macro_rules! register {
        (
            $name:ident($register:ty): [$element:ty; $lanes:literal];
            $splat:ident, $load:ident, $store:ident, $mul:ident, $add:ident, $fused:ident;
            some |$n:ident| $mask:expr, $load_some:ident, $store_some:ident;
            turn $turned:literal by $turn:ident
        ) => {
            #[derive(Clone, Copy)]
            pub(crate) struct $name($register);

            impl Register for $name {
                type Elem = $element;
                const LANES: usize = $lanes;
                const TURNED: usize = $turned;
                const STRIP: usize = 8;
    
                #[inline(always)]
                fn splat(value: $element) -> Self {
                    Self(isa!($splat(value)))
                }
                #[inline(always)]
                unsafe fn load(from: *const $element) -> Self {
                    // SAFETY: the caller's; the features as everywhere here.
                    Self(unsafe { $load(from) })
                }
                #[inline(always)]
                unsafe fn store(self, to: *mut $element) {
                    // SAFETY: the caller's; the features as everywhere here.
                    unsafe { $store(to, self.0) }
                }
                #[inline(always)]
                unsafe fn load_some(from: *const $element, $n: usize) -> Self {
                    // SAFETY: the mask has the first `n` lanes; the features as everywhere here.
                    Self(unsafe { $load_some!(from, $mask) })
                }
                #[inline(always)]
                unsafe fn store_some(self, to: *mut $element, $n: usize) {
                    // SAFETY: as for `load_some`.
                    unsafe { $store_some!(to, $mask, self.0) }
                }
                #[inline(always)]
                unsafe fn turn(
                    rows: &[*const $element; MOST_LANES],
                    at: usize,
                ) -> [Self; MOST_TURNED] {
                    // SAFETY: the caller's; the features as everywhere here.
                    unsafe { $turn!(rows, at) }
                }
                #[inline(always)]
                fn prefetch(address: *const $element) {
                    isa!(_mm_prefetch::<_MM_HINT_T0>(address.cast()));
                }
                #[inline(always)]
                fn mul(self, other: Self) -> Self {
                    Self(isa!($mul(self.0, other.0)))
                }
                #[inline(always)]
                fn add(self, other: Self) -> Self {
                    Self(isa!($add(self.0, other.0)))
                }
                #[inline(always)]
                fn mul_add(self, factor: Self, sum: Self) -> Self {
                    Self(isa!($fused(self.0, factor.0, sum.0)))
                }
            }
        };
    }

    /// Eight lanes set, then eight that are not: from `8 - n` on, `n` are set.
    static LANES32: [i32; 16] = [-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0];
    static LANES64: [i64; 8] = [-1, -1, -1, -1, 0, 0, 0, 0];

    macro_rules! avx2_load_f32 {
        ($from:expr, $mask:expr) => {
            _mm256_maskload_ps($from, _mm256_loadu_si256($mask.cast()))
        };
    }
    macro_rules! avx2_store_f32 {
        ($to:expr, $mask:expr, $value:expr) => {
            _mm256_maskstore_ps($to, _mm256_loadu_si256($mask.cast()), $value)
        };
    }
    macro_rules! avx2_load_f64 {
        ($from:expr, $mask:expr) => {
            _mm256_maskload_pd($from, _mm256_loadu_si256($mask.cast()))
        };
    }
    macro_rules! avx2_store_f64 {
        ($to:expr, $mask:expr, $value:expr) => {
            _mm256_maskstore_pd($to, _mm256_loadu_si256($mask.cast()), $value)
        };
    }
    macro_rules! avx512_load_f32 {
        ($from:expr, $mask:expr) => {
            _mm512_maskz_loadu_ps($mask, $from)
        };
    }
    macro_rules! avx512_store_f32 {
        ($to:expr, $mask:expr, $value:expr) => {
            _mm512_mask_storeu_ps($to, $mask, $value)
        };
    }
    macro_rules! avx512_load_f64 {
        ($from:expr, $mask:expr) => {
            _mm512_maskz_loadu_pd($mask, $from)
        };
    }
    macro_rules! avx512_store_f64 {
        ($to:expr, $mask:expr, $value:expr) => {
            _mm512_mask_storeu_pd($to, $mask, $value)
        };
    }

    // Sixteen bytes of a row fill a quarter of a register, or half of one for AVX2. Rows whose
    // elements are to be neighbours are loaded to the same quarter of different registers: then
    // columns are made without crossing quarters.

    /// The registers of the rows `4 * quarter + i`.
    macro_rules! quarters_f32 {
        ($rows:ident, $at:ident, $i:literal) => {{
            let first = _mm512_castps128_ps512(_mm_loadu_ps($rows[$i].add($at)));
            let two = _mm512_insertf32x4::<1>(first, _mm_loadu_ps($rows[4 + $i].add($at)));
            let three = _mm512_insertf32x4::<2>(two, _mm_loadu_ps($rows[8 + $i].add($at)));
            _mm512_insertf32x4::<3>(three, _mm_loadu_ps($rows[12 + $i].add($at)))
        }};
    }
    macro_rules! halves_f32 {
        ($rows:ident, $at:ident, $i:literal) => {{
            let first = _mm256_castps128_ps256(_mm_loadu_ps($rows[$i].add($at)));
            _mm256_insertf128_ps::<1>(first, _mm_loadu_ps($rows[4 + $i].add($at)))
        }};
    }
    macro_rules! quarters_f64 {
        ($rows:ident, $at:ident, $i:literal) => {{
            let first = _mm512_castpd128_pd512(_mm_loadu_pd($rows[$i].add($at)));
            let two = _mm512_insertf64x2::<1>(first, _mm_loadu_pd($rows[2 + $i].add($at)));
            let three = _mm512_insertf64x2::<2>(two, _mm_loadu_pd($rows[4 + $i].add($at)));
            _mm512_insertf64x2::<3>(three, _mm_loadu_pd($rows[6 + $i].add($at)))
        }};
    }
    macro_rules! halves_f64 {
        ($rows:ident, $at:ident, $i:literal) => {{
            let first = _mm256_castpd128_pd256(_mm_loadu_pd($rows[$i].add($at)));
            _mm256_insertf128_pd::<1>(first, _mm_loadu_pd($rows[2 + $i].add($at)))
        }};
    }

    /// Columns of single precision: pairs of neighbours, then fours.
    macro_rules! columns_f32 {
        (
            $rows:ident, $at:ident, $load:ident, $low:ident, $high:ident, $low_pair:ident,
            $high_pair:ident, $pairs:ident, $singles:ident
        ) => {{
            let (a, b) = ($load!($rows, $at, 0), $load!($rows, $at, 1));
            let (c, d) = ($load!($rows, $at, 2), $load!($rows, $at, 3));
            let (ab0, ab2) = ($pairs($low(a, b)), $pairs($high(a, b)));
            let (cd0, cd2) = ($pairs($low(c, d)), $pairs($high(c, d)));
            [
                Self($singles($low_pair(ab0, cd0))),
                Self($singles($high_pair(ab0, cd0))),
                Self($singles($low_pair(ab2, cd2))),
                Self($singles($high_pair(ab2, cd2))),
            ]
        }};
    }
    macro_rules! turn_avx512_f32 {
        ($rows:ident, $at:ident) => {
            columns_f32!(
                $rows, $at, quarters_f32, _mm512_unpacklo_ps, _mm512_unpackhi_ps,
                _mm512_unpacklo_pd, _mm512_unpackhi_pd, _mm512_castps_pd, _mm512_castpd_ps
            )
        };
    }
    macro_rules! turn_avx2_f32 {
        ($rows:ident, $at:ident) => {
            columns_f32!(
                $rows, $at, halves_f32, _mm256_unpacklo_ps, _mm256_unpackhi_ps,
                _mm256_unpacklo_pd, _mm256_unpackhi_pd, _mm256_castps_pd, _mm256_castpd_ps
            )
        };
    }
    macro_rules! turn_avx512_f64 {
        ($rows:ident, $at:ident) => {{
            let (a, b) = (quarters_f64!($rows, $at, 0), quarters_f64!($rows, $at, 1));
            let (low, high) = (Self(_mm512_unpacklo_pd(a, b)), Self(_mm512_unpackhi_pd(a, b)));
            [low, high, low, high]
        }};
    }
    macro_rules! turn_avx2_f64 {
        ($rows:ident, $at:ident) => {{
            let (a, b) = (halves_f64!($rows, $at, 0), halves_f64!($rows, $at, 1));
            let (low, high) = (Self(_mm256_unpacklo_pd(a, b)), Self(_mm256_unpackhi_pd(a, b)));
            [low, high, low, high]
        }};
    }

    register! {
        Avx2F32(__m256): [f32; 8];
        _mm256_set1_ps, _mm256_loadu_ps, _mm256_storeu_ps, _mm256_mul_ps, _mm256_add_ps, _mm256_fmadd_ps;
        some |n| LANES32[8 - n.min(8)..].as_ptr(), avx2_load_f32, avx2_store_f32;
        turn 4 by turn_avx2_f32
    }
    register! {
        Avx2F64(__m256d): [f64; 4];
        _mm256_set1_pd, _mm256_loadu_pd, _mm256_storeu_pd, _mm256_mul_pd, _mm256_add_pd, _mm256_fmadd_pd;
        some |n| LANES64[4 - n.min(4)..].as_ptr(), avx2_load_f64, avx2_store_f64;
        turn 2 by turn_avx2_f64
    }
    register! {
        Avx512F32(__m512): [f32; 16];
        _mm512_set1_ps, _mm512_loadu_ps, _mm512_storeu_ps, _mm512_mul_ps, _mm512_add_ps, _mm512_fmadd_ps;
        some |n| (1u16 << n) - 1, avx512_load_f32, avx512_store_f32;
        turn 4 by turn_avx512_f32
    }
    register! {
        Avx512F64(__m512d): [f64; 8];
        _mm512_set1_pd, _mm512_loadu_pd, _mm512_storeu_pd, _mm512_mul_pd, _mm512_add_pd, _mm512_fmadd_pd;
        some |n| (1u8 << n) - 1, avx512_load_f64, avx512_store_f64;
        turn 2 by turn_avx512_f64
    }
}

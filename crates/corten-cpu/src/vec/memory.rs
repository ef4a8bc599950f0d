//! How the vectors of a loop lie in memory: as they are, or as 16-bit floats.

use super::lanes::Lanes;

/// The elements in memory that a loop reads into vectors `L` and writes from them.
pub(crate) trait Memory<L: Lanes> {
    /// An element in memory.
    type Elem;

    /// # Safety
    /// `from` must be readable for `LANES` elements.
    unsafe fn load(from: *const Self::Elem) -> L;
    /// # Safety
    /// `to` must be writable for `LANES` elements, and aligned as the implementor says.
    unsafe fn store(value: L, to: *mut Self::Elem);
    /// Two vectors of the elements from there on, in the order that suits the level:
    /// [`store_two`](Self::store_two) brings them back to where they were.
    ///
    /// # Safety
    /// `from` must be readable for `2 * LANES` elements.
    #[inline(always)]
    unsafe fn load_two(from: *const Self::Elem) -> [L; 2] {
        // SAFETY: the caller's.
        unsafe { [Self::load(from), Self::load(from.add(L::LANES))] }
    }
    /// # Safety
    /// As for [`store`](Self::store), for `2 * LANES` elements.
    #[inline(always)]
    unsafe fn store_two(values: [L; 2], to: *mut Self::Elem) {
        let [first, second] = values;
        // SAFETY: the caller's.
        unsafe {
            Self::store(first, to);
            Self::store(second, to.add(L::LANES));
        }
    }
    /// # Safety
    /// `from` must be readable for `n < LANES` elements.
    unsafe fn load_partial(from: *const Self::Elem, n: usize) -> L;
    /// # Safety
    /// `to` must be writable for `n < LANES` elements.
    unsafe fn store_partial(value: L, to: *mut Self::Elem, n: usize);
    /// One element in every lane.
    ///
    /// # Safety
    /// `from` must be readable for one element.
    unsafe fn load_one(from: *const Self::Elem) -> L;
}

/// The vectors' own elements.
pub(crate) struct Plain;

impl<L: Lanes> Memory<L> for Plain {
    type Elem = L::Elem;

    #[inline(always)]
    unsafe fn load(from: *const L::Elem) -> L {
        // SAFETY: the caller's.
        unsafe { L::load(from) }
    }
    #[inline(always)]
    unsafe fn store(value: L, to: *mut L::Elem) {
        // SAFETY: the caller's.
        unsafe { value.store(to) }
    }
    #[inline(always)]
    unsafe fn load_partial(from: *const L::Elem, n: usize) -> L {
        // SAFETY: the caller's.
        unsafe { L::load_partial(from, n) }
    }
    #[inline(always)]
    unsafe fn store_partial(value: L, to: *mut L::Elem, n: usize) {
        // SAFETY: the caller's.
        unsafe { value.store_partial(to, n) }
    }
    #[inline(always)]
    unsafe fn load_one(from: *const L::Elem) -> L {
        // SAFETY: the caller's.
        L::splat(unsafe { from.read_unaligned() })
    }
}

/// The vectors' own elements, written with non-temporal stores: see Note [Streaming]. [`Memory::store`] takes
/// addresses that the size of a register divides. Before anything else accesses what was written, a
/// [`Stream`](super::stream::Stream) must be dropped.
#[cfg(all(target_arch = "x86_64", feature = "avx2"))]
pub(crate) struct NonTemporal;

/// As [`NonTemporal`], of `bfloat16`: pairs of vectors are stored non-temporally.
#[cfg(all(target_arch = "x86_64", feature = "avx2"))]
pub(crate) struct NonTemporalBf16;

/// What reads, and writes less than a vector, as another memory does.
#[cfg(all(target_arch = "x86_64", feature = "avx2"))]
macro_rules! rest_as {
    ($memory:ty, $vector:ty) => {
        type Elem = <$memory as Memory<$vector>>::Elem;

        #[inline(always)]
        unsafe fn load(from: *const Self::Elem) -> $vector {
            // SAFETY: the caller's.
            unsafe { <$memory>::load(from) }
        }
        #[inline(always)]
        unsafe fn load_two(from: *const Self::Elem) -> [$vector; 2] {
            // SAFETY: the caller's.
            unsafe { <$memory>::load_two(from) }
        }
        #[inline(always)]
        unsafe fn load_partial(from: *const Self::Elem, n: usize) -> $vector {
            // SAFETY: the caller's.
            unsafe { <$memory>::load_partial(from, n) }
        }
        #[inline(always)]
        unsafe fn store_partial(value: $vector, to: *mut Self::Elem, n: usize) {
            // SAFETY: the caller's.
            unsafe { <$memory>::store_partial(value, to, n) }
        }
        #[inline(always)]
        unsafe fn load_one(from: *const Self::Elem) -> $vector {
            // SAFETY: the caller's.
            unsafe { <$memory>::load_one(from) }
        }
    };
}

#[cfg(all(target_arch = "x86_64", feature = "avx2"))]
macro_rules! past {
    ($($vector:ty: $store:ident;)+) => {$(
        impl Memory<$vector> for NonTemporal {
            rest_as!(Plain, $vector);

            #[inline(always)]
            unsafe fn store(value: $vector, to: *mut Self::Elem) {
                // SAFETY: the caller's; the features as everywhere in this folder.
                unsafe { core::arch::x86_64::$store(to, value.0) }
            }
        }
    )+};
}

#[cfg(all(target_arch = "x86_64", feature = "avx2"))]
past! {
    super::avx2::F32: _mm256_stream_ps;
    super::avx2::F64: _mm256_stream_pd;
}

#[cfg(all(target_arch = "x86_64", feature = "avx2"))]
impl Memory<super::avx2::F32> for NonTemporalBf16 {
    rest_as!(corten_core::bf16, super::avx2::F32);

    #[inline(always)]
    unsafe fn store(value: super::avx2::F32, to: *mut Self::Elem) {
        // SAFETY: the caller's.
        unsafe { Self::Elem::store(value, to) }
    }
    #[inline(always)]
    unsafe fn store_two(values: [super::avx2::F32; 2], to: *mut Self::Elem) {
        // SAFETY: the caller's; the features as everywhere in this folder.
        unsafe { narrow::bfloats_past_caches(values, to.cast()) }
    }
}

/// `Memory` of a vector of `f32` that a 16-bit type widens to, from what turns a register of the
/// one into a register of the other. `$memory` has the register's own loads and stores.
#[cfg(target_arch = "x86_64")]
macro_rules! halves {
    ($($half:ty => $vector:ty: widen $widen:path, narrow $narrow:path, $memory:ident
        $(, two $widen_two:path, $narrow_two:path)?;)+) => {$(
        impl Memory<$vector> for $half {
            type Elem = $half;

            #[inline(always)]
            unsafe fn load(from: *const $half) -> $vector {
                // SAFETY: the caller's; the features as everywhere in this folder.
                unsafe { $widen($memory::load(from.cast())) }
            }
            #[inline(always)]
            unsafe fn store(value: $vector, to: *mut $half) {
                // SAFETY: as above.
                unsafe { $memory::store(to.cast(), $narrow(value)) }
            }
            $(
                #[inline(always)]
                unsafe fn load_two(from: *const $half) -> [$vector; 2] {
                    // SAFETY: as above.
                    unsafe { $widen_two(from.cast()) }
                }
                #[inline(always)]
                unsafe fn store_two(values: [$vector; 2], to: *mut $half) {
                    // SAFETY: as above.
                    unsafe { $narrow_two(values, to.cast()) }
                }
            )?
            #[inline(always)]
            unsafe fn load_partial(from: *const $half, n: usize) -> $vector {
                // SAFETY: as above.
                unsafe { $widen($memory::load_partial(from.cast(), n)) }
            }
            #[inline(always)]
            unsafe fn store_partial(value: $vector, to: *mut $half, n: usize) {
                // SAFETY: as above.
                unsafe { $memory::store_partial(to.cast(), $narrow(value), n) }
            }
            #[inline(always)]
            unsafe fn load_one(from: *const $half) -> $vector {
                // SAFETY: the caller's.
                <$vector as Lanes>::splat(unsafe { from.read_unaligned() }.to_f32())
            }
        }
    )+};
}

#[cfg(target_arch = "x86_64")]
halves! {
    corten_core::f16 => super::avx512::F32: widen wide::single_of_half,
        narrow wide::half_of_single, wide;
    corten_core::bf16 => super::avx512::F32: widen wide::single_of_bfloat,
        narrow wide::bfloat_of_single, wide;
    corten_core::f16 => super::avx2::F32: widen narrow::single_of_half,
        narrow narrow::half_of_single, narrow;
    corten_core::bf16 => super::avx2::F32: widen narrow::single_of_bfloat,
        narrow narrow::bfloat_of_single, narrow,
        two narrow::singles_of_bfloats, narrow::bfloats_of_singles;
}

/// Sixteen 16-bit floats at a time. The processor must have AVX-512; see Note [Vector inlining].
#[cfg(target_arch = "x86_64")]
pub(super) mod wide {
    use super::super::avx512::F32;
    use core::arch::x86_64::*;

    /// # Safety
    /// `from` must be readable for 16 elements, and the processor must have AVX-512; likewise for
    /// the functions below.
    #[inline(always)]
    pub(super) unsafe fn load(from: *const i16) -> __m256i {
        // SAFETY: the caller's.
        unsafe { _mm256_loadu_si256(from.cast()) }
    }

    /// # Safety
    /// As for [`load`], of writing.
    #[inline(always)]
    pub(super) unsafe fn store(to: *mut i16, value: __m256i) {
        // SAFETY: the caller's.
        unsafe { _mm256_storeu_si256(to.cast(), value) }
    }

    /// # Safety
    /// As for [`load`], of `n` elements.
    #[inline(always)]
    pub(super) unsafe fn load_partial(from: *const i16, n: usize) -> __m256i {
        // SAFETY: the caller's.
        unsafe { _mm256_maskz_loadu_epi16(((1u32 << n) - 1) as u16, from) }
    }

    /// # Safety
    /// As for [`load`], of writing `n` elements.
    #[inline(always)]
    pub(super) unsafe fn store_partial(to: *mut i16, value: __m256i, n: usize) {
        // SAFETY: the caller's.
        unsafe { _mm256_mask_storeu_epi16(to, ((1u32 << n) - 1) as u16, value) }
    }

    /// # Safety
    /// The processor must have AVX-512.
    #[inline(always)]
    pub(super) unsafe fn single_of_half(value: __m256i) -> F32 {
        // SAFETY: the caller's.
        F32(unsafe { _mm512_cvtph_ps(value) })
    }

    /// # Safety
    /// The processor must have AVX-512.
    #[inline(always)]
    pub(super) unsafe fn half_of_single(value: F32) -> __m256i {
        // SAFETY: the caller's.
        unsafe { _mm512_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(value.0) }
    }

    /// # Safety
    /// The processor must have AVX-512.
    #[inline(always)]
    pub(super) unsafe fn single_of_bfloat(value: __m256i) -> F32 {
        // SAFETY: the caller's.
        unsafe {
            let bits = _mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(value));
            F32(_mm512_castsi512_ps(bits))
        }
    }

    /// Rounds to nearest, ties to even, as `bf16::from_f32` does.
    ///
    /// # Safety
    /// The processor must have AVX-512.
    #[inline(always)]
    pub(crate) unsafe fn bfloat_of_single(value: F32) -> __m256i {
        // SAFETY: the caller's.
        unsafe {
            let bits = _mm512_castps_si512(value.0);
            let is_nan = _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(value.0, value.0);
            let high = _mm512_srli_epi32::<16>(bits);
            let half = _mm512_and_si512(high, _mm512_set1_epi32(1));
            let half = _mm512_add_epi32(half, _mm512_set1_epi32(0x7fff));
            let rounded = _mm512_srli_epi32::<16>(_mm512_add_epi32(bits, half));
            let quiet = _mm512_set1_epi32(0x40);
            let value = _mm512_mask_or_epi32(rounded, is_nan, high, quiet);
            _mm512_cvtepi32_epi16(value)
        }
    }
}

/// Eight 16-bit floats at a time. The processor must have AVX2 and F16C.
#[cfg(target_arch = "x86_64")]
pub(super) mod narrow {
    use super::super::avx2::F32;
    use core::arch::x86_64::*;

    /// # Safety
    /// `from` must be readable for 8 elements, and the processor must have AVX2 and F16C; likewise
    /// for the functions below.
    #[inline(always)]
    pub(super) unsafe fn load(from: *const i16) -> __m128i {
        // SAFETY: the caller's.
        unsafe { _mm_loadu_si128(from.cast()) }
    }

    /// # Safety
    /// As for [`load`], of writing.
    #[inline(always)]
    pub(super) unsafe fn store(to: *mut i16, value: __m128i) {
        // SAFETY: the caller's.
        unsafe { _mm_storeu_si128(to.cast(), value) }
    }

    /// # Safety
    /// As for [`load`], of `n` elements.
    #[inline(always)]
    pub(super) unsafe fn load_partial(from: *const i16, n: usize) -> __m128i {
        let mut elements = [0; 8];
        // SAFETY: the caller's; `n` is less than 8.
        unsafe {
            std::ptr::copy_nonoverlapping(from.cast::<u8>(), elements.as_mut_ptr().cast(), 2 * n);
            load(elements.as_ptr())
        }
    }

    /// # Safety
    /// As for [`load`], of writing `n` elements.
    #[inline(always)]
    pub(super) unsafe fn store_partial(to: *mut i16, value: __m128i, n: usize) {
        let mut elements = [0; 8];
        // SAFETY: the caller's; `n` is less than 8.
        unsafe {
            store(elements.as_mut_ptr(), value);
            std::ptr::copy_nonoverlapping(elements.as_ptr().cast(), to.cast::<u8>(), 2 * n);
        }
    }

    /// # Safety
    /// The processor must have F16C.
    #[inline(always)]
    pub(super) unsafe fn single_of_half(value: __m128i) -> F32 {
        // SAFETY: the caller's.
        F32(unsafe { _mm256_cvtph_ps(value) })
    }

    /// # Safety
    /// The processor must have F16C.
    #[inline(always)]
    pub(super) unsafe fn half_of_single(value: F32) -> __m128i {
        // SAFETY: the caller's.
        unsafe { _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(value.0) }
    }

    /// # Safety
    /// The processor must have AVX2.
    #[inline(always)]
    pub(super) unsafe fn single_of_bfloat(value: __m128i) -> F32 {
        // SAFETY: the caller's.
        unsafe {
            let bits = _mm256_slli_epi32::<16>(_mm256_cvtepu16_epi32(value));
            F32(_mm256_castsi256_ps(bits))
        }
    }

    /// Rounds to nearest, ties to even, as `bf16::from_f32` does.
    ///
    /// # Safety
    /// The processor must have AVX2.
    #[inline(always)]
    pub(crate) unsafe fn bfloat_of_single(value: F32) -> __m128i {
        // SAFETY: the caller's.
        unsafe {
            let value = _mm256_srli_epi32::<16>(rounded(value));
            // Each half of the register is packed into each half of the result.
            let packed = _mm256_permute4x64_epi64::<0b1000>(_mm256_packus_epi32(value, value));
            _mm256_castsi256_si128(packed)
        }
    }

    /// The bits of every element rounded to bfloat16, with anything in the low halves.
    ///
    /// # Safety
    /// The processor must have AVX2.
    #[inline(always)]
    unsafe fn rounded(value: F32) -> __m256i {
        // SAFETY: the caller's.
        unsafe {
            let bits = _mm256_castps_si256(value.0);
            let is_nan = _mm256_castps_si256(_mm256_cmp_ps::<_CMP_UNORD_Q>(value.0, value.0));
            let last = _mm256_and_si256(_mm256_srli_epi32::<16>(bits), _mm256_set1_epi32(1));
            let half = _mm256_add_epi32(last, _mm256_set1_epi32(0x7fff));
            let quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x40_0000));
            _mm256_blendv_epi8(_mm256_add_epi32(bits, half), quiet, is_nan)
        }
    }

    /// Sixteen elements: those at even places, and those at odd ones. So none changes its lane.
    ///
    /// # Safety
    /// `from` must be readable for 16 elements, and the processor must have AVX2.
    #[inline(always)]
    pub(super) unsafe fn singles_of_bfloats(from: *const i16) -> [F32; 2] {
        // SAFETY: the caller's.
        unsafe {
            let pairs = _mm256_loadu_si256(from.cast());
            let even = _mm256_slli_epi32::<16>(pairs);
            let odd = _mm256_and_si256(pairs, _mm256_set1_epi32(-0x1_0000));
            [F32(_mm256_castsi256_ps(even)), F32(_mm256_castsi256_ps(odd))]
        }
    }

    /// What [`singles_of_bfloats`] takes apart, rounded as [`bfloat_of_single`] does.
    ///
    /// # Safety
    /// The processor must have AVX2.
    #[inline(always)]
    unsafe fn pairs_of_singles([even, odd]: [F32; 2]) -> __m256i {
        // SAFETY: the caller's.
        unsafe {
            let even = _mm256_srli_epi32::<16>(rounded(even));
            _mm256_blend_epi16::<0b1010_1010>(even, rounded(odd))
        }
    }

    /// # Safety
    /// As for [`pairs_of_singles`], and `to` must be writable for 16 elements.
    #[inline(always)]
    pub(super) unsafe fn bfloats_of_singles(values: [F32; 2], to: *mut i16) {
        // SAFETY: the caller's.
        unsafe { _mm256_storeu_si256(to.cast(), pairs_of_singles(values)) }
    }

    /// As [`bfloats_of_singles`], with non-temporal stores.
    ///
    /// # Safety
    /// As there, with an address that 32 divides.
    #[cfg(feature = "avx2")]
    #[inline(always)]
    pub(super) unsafe fn bfloats_past_caches(values: [F32; 2], to: *mut i16) {
        // SAFETY: the caller's.
        unsafe { _mm256_stream_si256(to.cast(), pairs_of_singles(values)) }
    }
}

// Note [Prefetching]
// A processor fetches ahead what is read in order, but not far enough for a loop that computes about as
// long as memory takes, which then waits for every line: powers, `tan` and `erfinv` took twice as long
// per element from memory as from a cache, softmax a third longer. Such loops ask for what lies a few
// lines ahead of what they read and write; between one and four KiB made no difference.

/// The prefetch distance in bytes.
const AHEAD: usize = 2 << 10;

/// Prefetches the line that lies the prefetch distance behind an address; see Note [Prefetching]. Any address will do.
#[inline(always)]
pub(crate) fn prefetch_ahead<T>(of: *const T) {
    fetch(of.cast::<u8>().wrapping_add(AHEAD));
}

/// Brings a line of memory into the first-level cache. Any address will do.
#[inline(always)]
pub(crate) fn fetch(line: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every processor of this kind has the instruction, which accesses nothing.
    unsafe {
        core::arch::x86_64::_mm_prefetch::<{ core::arch::x86_64::_MM_HINT_T0 }>(line.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = line;
}

/// Brings memory that will be read soon into the second-level cache. Any address will do.
#[inline(always)]
pub(crate) fn prefetch_early(first: *const u8, bytes: usize) {
    #[cfg(target_arch = "x86_64")]
    for line in (0..bytes).step_by(64) {
        use core::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        // SAFETY: every processor of this kind has the instruction, which accesses nothing.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(first.wrapping_add(line).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (first, bytes);
}

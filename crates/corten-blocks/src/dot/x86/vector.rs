//! Vectors of 32 bytes, eight integers or eight floats.

use std::arch::x86_64::*;

/// How four products of bytes are added up to an integer of 32 bits.
pub(super) const MADDUBS: u8 = 0;
pub(super) const AVX_VNNI: u8 = 1;
pub(super) const AVX512_VNNI: u8 = 2;

/// Proof that the processor has AVX2, FMA and F16C, and the instructions of `DOT`.
///
/// Note [Proof of instructions]: whoever has a `Dot` may run the instructions, so that each block below is sound for
/// the same reason: a value of the type is made only under the features.
#[derive(Clone, Copy)]
pub(super) struct Dot<const DOT: u8>(());

/// Sums of products, and eight of what minimums take away. There are two chains of additions, as each waits for the
/// one before.
#[derive(Clone, Copy)]
pub(super) struct Sums {
    products: [__m256; 2],
    minimums: __m256,
}

impl<const DOT: u8> Dot<DOT> {
    /// # Safety
    /// The processor has AVX2, FMA and F16C, and the instructions of `DOT`.
    pub(super) unsafe fn new() -> Self {
        Self(())
    }

    #[inline(always)]
    pub(super) fn no_sums(self) -> Sums {
        // SAFETY: see Note [Proof of instructions].
        let zero = unsafe { _mm256_setzero_ps() };
        Sums { products: [zero, zero], minimums: zero }
    }

    /// The products less the minimums, of two sums.
    #[inline(always)]
    pub(super) fn total(self, a: Sums, b: Sums) -> f32 {
        // SAFETY: see Note [Proof of instructions].
        unsafe {
            let first = _mm256_add_ps(a.products[0], a.products[1]);
            let second = _mm256_add_ps(b.products[0], b.products[1]);
            let minimums = _mm256_add_ps(a.minimums, b.minimums);
            let eight = _mm256_sub_ps(_mm256_add_ps(first, second), minimums);
            let four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps::<1>(eight));
            let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
            _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)))
        }
    }

    /// Asks for the cache lines that lie as far behind these bytes as kernels read ahead.
    ///
    /// The processor's own prefetching ends at pages, which rows of blocks cross all the time.
    #[inline(always)]
    pub(super) fn prefetch_behind(self, bytes: &[u8]) {
        /// Memory answers within the time that as many bytes take.
        const AHEAD: usize = 4096;
        for place in (0..bytes.len()).step_by(64) {
            // SAFETY: any address may be prefetched.
            unsafe {
                _mm_prefetch::<_MM_HINT_T0>(bytes.as_ptr().wrapping_add(AHEAD + place).cast())
            };
        }
    }

    #[inline(always)]
    pub(super) fn load(self, bytes: &[u8; 32]) -> __m256i {
        // SAFETY: see Note [Proof of instructions]; the bytes are there.
        unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) }
    }

    #[inline(always)]
    fn load_signed(self, integers: &[i8; 32]) -> __m256i {
        // SAFETY: see Note [Proof of instructions]; the bytes are there.
        unsafe { _mm256_loadu_si256(integers.as_ptr().cast()) }
    }

    #[inline(always)]
    pub(super) fn load_floats(self, floats: &[f32; 8]) -> __m256 {
        // SAFETY: see Note [Proof of instructions]; the floats are there.
        unsafe { _mm256_loadu_ps(floats.as_ptr()) }
    }

    /// 16 bytes as two vectors of nibbles in one: the low ones, then the high ones.
    #[inline(always)]
    pub(super) fn nibbles(self, bytes: &[u8; 16]) -> __m256i {
        // SAFETY: see Note [Proof of instructions]; the bytes are there.
        unsafe {
            let low = _mm_loadu_si128(bytes.as_ptr().cast());
            let both = _mm256_set_m128i(_mm_srli_epi16::<4>(low), low);
            _mm256_and_si256(both, _mm256_set1_epi8(15))
        }
    }

    /// Bits from `SHIFT` on of each byte, under a mask.
    #[inline(always)]
    pub(super) fn bits<const SHIFT: i32>(self, bytes: __m256i, mask: u8) -> __m256i {
        // SAFETY: see Note [Proof of instructions].
        unsafe { _mm256_and_si256(_mm256_srli_epi16::<SHIFT>(bytes), _mm256_set1_epi8(mask as i8)) }
    }

    /// Bits moved up, out of their bytes too.
    #[inline(always)]
    pub(super) fn left<const SHIFT: i32>(self, bytes: __m256i) -> __m256i {
        // SAFETY: see Note [Proof of instructions].
        unsafe { _mm256_slli_epi16::<SHIFT>(bytes) }
    }

    /// `value` in the bytes that have a bit of `mask`, 0 in the others.
    #[inline(always)]
    pub(super) fn where_set(self, bytes: __m256i, mask: u8, value: u8) -> __m256i {
        // SAFETY: see Note [Proof of instructions].
        unsafe {
            let mask = _mm256_set1_epi8(mask as i8);
            let is_set = _mm256_cmpeq_epi8(_mm256_and_si256(bytes, mask), mask);
            _mm256_and_si256(is_set, _mm256_set1_epi8(value as i8))
        }
    }

    /// `value` in the bytes whose bit of a word of 32 bits is set.
    #[inline(always)]
    pub(super) fn of_bits(self, bits: u32, value: u8) -> __m256i {
        // SAFETY: see Note [Proof of instructions].
        unsafe {
            let spread = _mm256_set_epi64x(
                0x0303_0303_0303_0303,
                0x0202_0202_0202_0202,
                0x0101_0101_0101_0101,
                0,
            );
            let bytes = _mm256_shuffle_epi8(_mm256_set1_epi32(bits as i32), spread);
            let masks = _mm256_set1_epi64x(0x8040_2010_0804_0201_u64 as i64);
            let is_set = _mm256_cmpeq_epi8(_mm256_and_si256(bytes, masks), masks);
            _mm256_and_si256(is_set, _mm256_set1_epi8(value as i8))
        }
    }

    #[inline(always)]
    pub(super) fn or(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: see Note [Proof of instructions].
        unsafe { _mm256_or_si256(a, b) }
    }

    /// The entries of a table at nibbles.
    #[inline(always)]
    pub(super) fn look_up(self, table: &[i8; 16], nibbles: __m256i) -> __m256i {
        // SAFETY: see Note [Proof of instructions]; the table is there.
        unsafe {
            let table = _mm_loadu_si128(table.as_ptr().cast());
            _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(table), nibbles)
        }
    }

    /// Two bytes, and zeros.
    ///
    /// The compiler would insert them into a register whose other bytes stay, so that each block waited for the one
    /// before.
    #[inline(always)]
    pub(super) fn low_word(self, bytes: [u8; 2]) -> __m128i {
        let word: __m128i;
        // SAFETY: see Note [Proof of instructions]; it moves one register to another.
        unsafe {
            std::arch::asm!(
                "vmovd {word}, {bits:e}",
                word = lateout(xmm_reg) word,
                bits = in(reg) u32::from(u16::from_le_bytes(bytes)),
                options(pure, nomem, nostack, preserves_flags),
            );
        }
        word
    }

    /// A number in half precision.
    #[inline(always)]
    pub(super) fn half(self, bytes: [u8; 2]) -> f32 {
        // SAFETY: see Note [Proof of instructions].
        unsafe { _mm_cvtss_f32(_mm_cvtph_ps(self.low_word(bytes))) }
    }

    /// Eight unsigned bytes times a number.
    #[inline(always)]
    pub(super) fn scaled(self, bytes: u64, scale: f32) -> __m256 {
        // SAFETY: see Note [Proof of instructions].
        unsafe {
            let integers = _mm256_cvtepu8_epi32(_mm_cvtsi64_si128(bytes as i64));
            _mm256_mul_ps(_mm256_cvtepi32_ps(integers), _mm256_set1_ps(scale))
        }
    }

    /// Eight signed bytes times a number.
    #[inline(always)]
    pub(super) fn scaled_signed(self, bytes: u64, scale: f32) -> __m256 {
        // SAFETY: see Note [Proof of instructions].
        unsafe {
            let integers = _mm256_cvtepi8_epi32(_mm_cvtsi64_si128(bytes as i64));
            _mm256_mul_ps(_mm256_cvtepi32_ps(integers), _mm256_set1_ps(scale))
        }
    }

    #[inline(always)]
    pub(super) fn times(self, a: __m256, b: __m256) -> __m256 {
        // SAFETY: see Note [Proof of instructions].
        unsafe { _mm256_mul_ps(a, b) }
    }

    #[inline(always)]
    pub(super) fn splat(self, value: f32) -> __m256 {
        // SAFETY: see Note [Proof of instructions].
        unsafe { _mm256_set1_ps(value) }
    }

    /// One of eight numbers in all places.
    #[inline(always)]
    pub(super) fn lane(self, numbers: __m256, place: usize) -> __m256 {
        // SAFETY: see Note [Proof of instructions].
        unsafe { _mm256_permutevar8x32_ps(numbers, _mm256_set1_epi32(place as i32)) }
    }

    /// Two neighbours of eight numbers, each in four places.
    #[inline(always)]
    pub(super) fn pair(self, numbers: __m256, place: usize) -> __m256 {
        let (low, high) = (place as i32, place as i32 + 1);
        // SAFETY: see Note [Proof of instructions].
        unsafe {
            let places = _mm256_set_epi32(high, high, high, high, low, low, low, low);
            _mm256_permutevar8x32_ps(numbers, places)
        }
    }

    /// Sums of four products each of levels below 64 with activations.
    #[inline(always)]
    pub(super) fn dot(self, levels: __m256i, activations: &[i8; 32]) -> __m256i {
        let activations = self.load_signed(activations);
        // SAFETY: see Note [Proof of instructions]. Two products of at most 63 and 127 fit 16 bits.
        unsafe {
            let zero = _mm256_setzero_si256();
            match DOT {
                AVX512_VNNI => _mm256_dpbusd_epi32(zero, levels, activations),
                AVX_VNNI => _mm256_dpbusd_avx_epi32(zero, levels, activations),
                _ => {
                    let pairs = _mm256_maddubs_epi16(levels, activations);
                    _mm256_madd_epi16(pairs, _mm256_set1_epi16(1))
                }
            }
        }
    }

    /// [`dot`](Self::dot) of levels less a zero point: 0, a power of two up to 32 of levels below 64, or 128.
    #[inline(always)]
    pub(super) fn dot_above(
        self,
        zero: u8,
        levels: __m256i,
        activations: &[i8; 32],
        sums: &[i32; 8],
    ) -> __m256i {
        if zero == 128 && DOT == MADDUBS {
            return self.dot_signed(self.flip_signs(levels), activations);
        }
        let products = self.dot(levels, activations);
        // SAFETY: see Note [Proof of instructions]; the sums are there.
        unsafe {
            let sums = _mm256_loadu_si256(sums.as_ptr().cast());
            let times_zero = match zero {
                0 => return products,
                4 => _mm256_slli_epi32::<2>(sums),
                8 => _mm256_slli_epi32::<3>(sums),
                16 => _mm256_slli_epi32::<4>(sums),
                32 => _mm256_slli_epi32::<5>(sums),
                _ => _mm256_slli_epi32::<7>(sums),
            };
            _mm256_sub_epi32(products, times_zero)
        }
    }

    /// The bytes, four to a word.
    #[inline(always)]
    pub(super) fn fours(self, bytes: __m256i) -> [u32; 8] {
        let mut words = [0; 8];
        // SAFETY: see Note [Proof of instructions]; the words have as many bytes.
        unsafe { _mm256_storeu_si256(words.as_mut_ptr().cast(), bytes) };
        words
    }

    /// Signed bytes above 128, or back.
    #[inline(always)]
    pub(super) fn flip_signs(self, bytes: __m256i) -> __m256i {
        // SAFETY: see Note [Proof of instructions].
        unsafe { _mm256_xor_si256(bytes, _mm256_set1_epi8(-128)) }
    }

    /// Sums of four products each of signed bytes with activations.
    #[inline(always)]
    fn dot_signed(self, weights: __m256i, activations: &[i8; 32]) -> __m256i {
        let activations = self.load_signed(activations);
        // SAFETY: see Note [Proof of instructions]. Two products of at most 128 and 127 fit 16 bits.
        unsafe {
            let signed = _mm256_sign_epi8(activations, weights);
            let pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(weights), signed);
            _mm256_madd_epi16(pairs, _mm256_set1_epi16(1))
        }
    }

    /// Adds integers times scales to the products, in one of two chains.
    #[inline(always)]
    pub(super) fn add(self, sums: &mut Sums, chain: usize, integers: __m256i, scales: __m256) {
        let sum = &mut sums.products[chain % 2];
        // SAFETY: see Note [Proof of instructions].
        *sum = unsafe { _mm256_fmadd_ps(_mm256_cvtepi32_ps(integers), scales, *sum) };
    }

    /// Adds eight minimums times the sums of their activations.
    #[inline(always)]
    pub(super) fn add_minimums(self, sums: &mut Sums, minimums: __m256, totals: __m256) {
        // SAFETY: see Note [Proof of instructions].
        sums.minimums = unsafe { _mm256_fmadd_ps(minimums, totals, sums.minimums) };
    }

    /// Adds one minimum times the sum of its activations.
    #[inline(always)]
    pub(super) fn add_minimum(self, sums: &mut Sums, minimum: f32, total: f32) {
        // SAFETY: see Note [Proof of instructions].
        sums.minimums = unsafe {
            let product = _mm256_castps128_ps256(_mm_set_ss(minimum * total));
            _mm256_add_ps(sums.minimums, _mm256_blend_ps::<1>(_mm256_setzero_ps(), product))
        };
    }
}

//! Products of 256 weights at a time with AVX-512: a block of 256, or eight of 32.

use super::gemm::Product;
use super::group32::{self, part};
use super::k_quants::{self, scales_and_minimums};
use super::vector::{AVX512_VNNI, Dot};
use super::{Kernel, rows as rows_of_groups};
use crate::Activations;
use crate::k_quants::scales_of_q3k;
use crate::table::{E2M1, UNEQUAL, scales_of_iq4xs};
use std::arch::x86_64::*;

type Wide = Dot<AVX512_VNNI>;

/// Elements of a super-block.
const ELEMENTS: usize = 256;
/// Bytes of the largest one.
const MOST_BYTES: usize = 8 * 34;

/// Scales or minimums: of eight groups of 32, in the first eight places, or of 16 groups of 16.
type Numbers = __m512;

/// The super-blocks of a format.
///
/// Note [Products above zero]: levels are multiplied as unsigned numbers, the zero point of symmetric formats included;
/// scale times zero point is a minimum that is taken away with the sums of the activations, for all groups at once.
pub(super) trait SuperBlock: Kernel {
    /// Bytes of a super-block.
    const BYTES: usize = Self::NBYTES * 8 / Self::GROUPS;
    /// Whether one row of activations is multiplied by vectors of a group each: where levels are ready in a step, that
    /// needs fewer instructions.
    const ONE_BY_GROUPS: bool = false;
    /// Whether groups have 16 elements.
    const HALVES: bool = false;

    /// The scales.
    fn scales(v: Wide, bytes: &[u8]) -> Numbers;

    /// The minimums.
    fn minimums(v: Wide, _bytes: &[u8], scales: Numbers) -> Numbers {
        v.multiplied(scales, f32::from(Self::ZERO))
    }

    /// The levels of two groups of 32.
    fn two_levels(v: Wide, bytes: &[u8], pair: usize) -> __m512i;
}

/// The products of rows with activations.
#[inline(always)]
pub(super) fn rows<K: SuperBlock>(v: Wide, rows: &[u8], x: &Activations, out: &mut [f32]) {
    if K::ONE_BY_GROUPS {
        rows_of_groups::<K, AVX512_VNNI>(v, rows, x, out);
    } else {
        let count = out.len();
        multiply_rows::<K, 1>(v, rows, std::slice::from_ref(x), out, count, count);
    }
}

/// The products of rows with a few activations, of which each has results at a distance from those before.
#[inline(always)]
pub(super) fn skinny<K: SuperBlock>(v: Wide, product: Product<'_>, out: &mut [f32]) {
    let Product { bytes, columns, x, stride } = product;
    for (number, x) in x.chunks(4).enumerate() {
        let out = &mut out[4 * number * stride..];
        match x.len() {
            4 => multiply_rows::<K, 4>(v, bytes, x, out, columns, stride),
            3 => multiply_rows::<K, 3>(v, bytes, x, out, columns, stride),
            2 => multiply_rows::<K, 2>(v, bytes, x, out, columns, stride),
            _ => rows::<K>(v, bytes, &x[0], &mut out[..columns]),
        }
    }
}

/// The products of `columns` rows with `N` activations.
#[inline(always)]
fn multiply_rows<K: SuperBlock, const N: usize>(
    v: Wide,
    rows: &[u8],
    x: &[Activations],
    out: &mut [f32],
    columns: usize,
    stride: usize,
) {
    let each = rows.len() / columns;
    let groups = (each / K::NBYTES * K::GROUPS).next_multiple_of(8);
    let x: [&Activations; N] = std::array::from_fn(|i| &x[i]);
    assert!(x.iter().all(|x| groups <= x.groups()), "a group for each of the blocks");
    for (place, row) in rows.chunks_exact(each).enumerate() {
        let mut sums = [Sums::none(v); N];
        let whole = row.chunks_exact(K::BYTES);
        let (count, rest) = (whole.len(), whole.remainder());
        for (number, bytes) in whole.enumerate() {
            // Formats of 8 bits keep the memory busy by themselves.
            if K::BYTES < ELEMENTS {
                v.prefetch_behind(bytes);
            }
            // SAFETY: the activations of whole super-blocks are there, as was asserted.
            unsafe { add::<K, N>(v, bytes, x, number, &mut sums) };
        }
        if !rest.is_empty() {
            // Blocks of zeros add nothing.
            let mut padded = [0; MOST_BYTES];
            padded[..rest.len()].copy_from_slice(rest);
            // SAFETY: as above; activations are padded to whole super-blocks.
            unsafe { add::<K, N>(v, &padded[..K::BYTES], x, count, &mut sums) };
        }
        for i in 0..N {
            out[i * stride + place] = sums[i].total(v);
        }
    }
}

/// Sums of products in two chains, as each addition waits for the one before, and what minimums take away.
#[derive(Clone, Copy)]
struct Sums {
    products: [__m512; 2],
    minimums: __m512,
}

impl Sums {
    #[inline(always)]
    fn none(v: Wide) -> Self {
        let zero = v.zeros();
        Self { products: [zero, zero], minimums: zero }
    }

    #[inline(always)]
    fn total(&self, _: Wide) -> f32 {
        // SAFETY: see Note [Proof of instructions].
        unsafe {
            let products = _mm512_add_ps(self.products[0], self.products[1]);
            _mm512_reduce_add_ps(_mm512_sub_ps(products, self.minimums))
        }
    }
}

/// Adds the products of a super-block.
///
/// # Safety
/// The activations have the elements of super-block `number`.
#[inline(always)]
unsafe fn add<K: SuperBlock, const N: usize>(
    v: Wide,
    bytes: &[u8],
    x: [&Activations; N],
    number: usize,
    sums: &mut [Sums; N],
) {
    let of_weights = K::scales(v, bytes);
    let minimums = K::minimums(v, bytes, of_weights);
    let mut scales = [v.zeros(); N];
    for i in 0..N {
        // SAFETY: the caller's, and `Activations` has a scale and a sum for each 32 elements, and two halves.
        let (of_x, totals, halves) = unsafe {
            (
                x[i].scales.get_unchecked(8 * number..8 * number + 8),
                x[i].totals.get_unchecked(8 * number..8 * number + 8),
                x[i].halves.get_unchecked(16 * number..16 * number + 16),
            )
        };
        let of_x = v.eight(of_x);
        let (totals, of_x) =
            if K::HALVES { (v.sixteen(halves), v.doubled(of_x)) } else { (v.eight(totals), of_x) };
        sums[i].minimums = v.multiply_add(minimums, totals, sums[i].minimums);
        scales[i] = v.product(of_weights, of_x);
    }
    for pair in 0..4 {
        let levels = K::two_levels(v, bytes, pair);
        for i in 0..N {
            let start = number * ELEMENTS + 64 * pair;
            // SAFETY: the caller's.
            let integers = unsafe { x[i].integers().get_unchecked(start..start + 64) };
            let products = v.dot_levels(levels, integers);
            let scales = if K::HALVES {
                v.four_halves(scales[i], pair)
            } else {
                v.two_groups(scales[i], pair)
            };
            let sum = &mut sums[i].products[pair % 2];
            *sum = v.multiply_add(products, scales, *sum);
        }
    }
}

impl Wide {
    #[inline(always)]
    fn zeros(self) -> __m512 {
        // SAFETY: see Note [Proof of instructions].
        unsafe { _mm512_setzero_ps() }
    }

    /// Eight numbers and eight zeros.
    #[inline(always)]
    fn eight(self, numbers: &[f32]) -> __m512 {
        let numbers = &numbers[..8];
        // SAFETY: see Note [Proof of instructions]; the numbers are there.
        unsafe { _mm512_zextps256_ps512(_mm256_loadu_ps(numbers.as_ptr())) }
    }

    #[inline(always)]
    fn sixteen(self, numbers: &[f32]) -> __m512 {
        let numbers = &numbers[..16];
        // SAFETY: see Note [Proof of instructions]; the numbers are there.
        unsafe { _mm512_loadu_ps(numbers.as_ptr()) }
    }

    /// Each of eight numbers twice.
    #[inline(always)]
    fn doubled(self, numbers: __m512) -> __m512 {
        // SAFETY: see Note [Proof of instructions].
        unsafe {
            let places = _mm512_set_epi32(7, 7, 6, 6, 5, 5, 4, 4, 3, 3, 2, 2, 1, 1, 0, 0);
            _mm512_permutexvar_ps(places, numbers)
        }
    }

    /// The numbers of two groups of 32, each in eight places.
    #[inline(always)]
    fn two_groups(self, numbers: __m512, pair: usize) -> __m512 {
        let (a, b) = (2 * pair as i32, 2 * pair as i32 + 1);
        // SAFETY: see Note [Proof of instructions].
        unsafe {
            let places = _mm512_set_epi32(b, b, b, b, b, b, b, b, a, a, a, a, a, a, a, a);
            _mm512_permutexvar_ps(places, numbers)
        }
    }

    /// The numbers of four groups of 16, each in four places.
    #[inline(always)]
    fn four_halves(self, numbers: __m512, pair: usize) -> __m512 {
        let a = 4 * pair as i32;
        let (b, c, d) = (a + 1, a + 2, a + 3);
        // SAFETY: see Note [Proof of instructions].
        unsafe {
            let places = _mm512_set_epi32(d, d, d, d, c, c, c, c, b, b, b, b, a, a, a, a);
            _mm512_permutexvar_ps(places, numbers)
        }
    }

    #[inline(always)]
    fn product(self, a: __m512, b: __m512) -> __m512 {
        // SAFETY: see Note [Proof of instructions].
        unsafe { _mm512_mul_ps(a, b) }
    }

    #[inline(always)]
    fn multiplied(self, numbers: __m512, by: f32) -> __m512 {
        // SAFETY: see Note [Proof of instructions].
        unsafe { _mm512_mul_ps(numbers, _mm512_set1_ps(by)) }
    }

    #[inline(always)]
    fn multiply_add(self, a: __m512, b: __m512, sum: __m512) -> __m512 {
        // SAFETY: see Note [Proof of instructions].
        unsafe { _mm512_fmadd_ps(a, b, sum) }
    }

    /// Sums of four products each of unsigned levels with activations.
    #[inline(always)]
    fn dot_levels(self, levels: __m512i, integers: &[i8]) -> __m512 {
        let integers = &integers[..64];
        // SAFETY: see Note [Proof of instructions]; the integers are there.
        unsafe {
            let integers = _mm512_loadu_si512(integers.as_ptr().cast());
            _mm512_cvtepi32_ps(_mm512_dpbusd_epi32(_mm512_setzero_si512(), levels, integers))
        }
    }

    /// Eight numbers in half precision, from a place on at a distance.
    #[inline(always)]
    fn eight_halves<const DISTANCE: usize>(self, bytes: &[u8], start: usize) -> __m512 {
        let at =
            |block: usize| i32::from(u16::from_le_bytes(*part(bytes, start + block * DISTANCE)));
        // SAFETY: see Note [Proof of instructions].
        unsafe {
            let halves = self.low_word(*part(bytes, start));
            let halves = _mm_insert_epi16::<1>(halves, at(1));
            let halves = _mm_insert_epi16::<2>(halves, at(2));
            let halves = _mm_insert_epi16::<3>(halves, at(3));
            let halves = _mm_insert_epi16::<4>(halves, at(4));
            let halves = _mm_insert_epi16::<5>(halves, at(5));
            let halves = _mm_insert_epi16::<6>(halves, at(6));
            let halves = _mm_insert_epi16::<7>(halves, at(7));
            _mm512_zextps256_ps512(_mm256_cvtph_ps(halves))
        }
    }

    /// Eight unsigned bytes times a number in half precision.
    #[inline(always)]
    fn eight_bytes(self, bytes: u64, scale: [u8; 2]) -> __m512 {
        // SAFETY: see Note [Proof of instructions].
        unsafe { _mm512_zextps256_ps512(self.scaled(bytes, self.half(scale))) }
    }

    /// Eight signed bytes times a number in half precision.
    #[inline(always)]
    fn eight_signed(self, bytes: u64, scale: [u8; 2]) -> __m512 {
        // SAFETY: see Note [Proof of instructions].
        unsafe { _mm512_zextps256_ps512(self.scaled_signed(bytes, self.half(scale))) }
    }

    /// 16 signed bytes times a number in half precision.
    #[inline(always)]
    fn sixteen_signed(self, bytes: &[u8; 16], scale: [u8; 2]) -> __m512 {
        // SAFETY: see Note [Proof of instructions]; the bytes are there.
        unsafe {
            let integers = _mm512_cvtepi8_epi32(_mm_loadu_si128(bytes.as_ptr().cast()));
            _mm512_mul_ps(_mm512_cvtepi32_ps(integers), _mm512_set1_ps(self.half(scale)))
        }
    }

    /// 32 bytes twice.
    #[inline(always)]
    fn twice(self, bytes: &[u8; 32]) -> __m512i {
        // SAFETY: see Note [Proof of instructions].
        unsafe { _mm512_broadcast_i64x4(self.load(bytes)) }
    }

    /// Two vectors of 32 bytes, one after the other.
    #[inline(always)]
    fn joined(self, low: __m256i, high: __m256i) -> __m512i {
        // SAFETY: see Note [Proof of instructions].
        unsafe { _mm512_inserti64x4::<1>(_mm512_castsi256_si512(low), high) }
    }

    /// The nibbles of twice 16 bytes: of each first the low ones, then the high ones.
    #[inline(always)]
    fn two_nibbles(self, first: &[u8; 16], second: &[u8; 16]) -> __m512i {
        // SAFETY: see Note [Proof of instructions]; the bytes are there.
        unsafe {
            let twice = |bytes: &[u8; 16]| {
                _mm256_broadcastsi128_si256(_mm_loadu_si128(bytes.as_ptr().cast()))
            };
            let both = self.joined(twice(first), twice(second));
            let shifts = _mm512_set_epi64(
                0x0004_0004_0004_0004,
                0x0004_0004_0004_0004,
                0,
                0,
                0x0004_0004_0004_0004,
                0x0004_0004_0004_0004,
                0,
                0,
            );
            _mm512_and_si512(_mm512_srlv_epi16(both, shifts), _mm512_set1_epi8(15))
        }
    }

    /// The bits from `low` on of the first 32 bytes, and from `high` on of the others, under a mask.
    #[inline(always)]
    fn shifted(self, bytes: __m512i, low: i16, high: i16, mask: u8) -> __m512i {
        // SAFETY: see Note [Proof of instructions].
        unsafe {
            let shifts = self.joined(_mm256_set1_epi16(low), _mm256_set1_epi16(high));
            _mm512_and_si512(_mm512_srlv_epi16(bytes, shifts), _mm512_set1_epi8(mask as i8))
        }
    }

    /// The bits of `high` rotated left by so many in the first 32 bytes and in the others, under 0x30, beside `low`.
    #[inline(always)]
    fn with_upper_bits(self, low: __m512i, high: __m512i, first: i32, second: i32) -> __m512i {
        /// `(a & c) | b`.
        const AND_OR: i32 = 0xec;
        // SAFETY: see Note [Proof of instructions].
        unsafe {
            let rotations = self.joined(_mm256_set1_epi32(first), _mm256_set1_epi32(second));
            let high = _mm512_rolv_epi32(high, rotations);
            _mm512_ternarylogic_epi64::<AND_OR>(high, low, _mm512_set1_epi8(0x30))
        }
    }

    /// Adds a value where bytes have a bit: one of a mask for the first 32 of them, and the next one for the others.
    #[inline(always)]
    fn add_where_set(self, levels: __m512i, bytes: __m512i, pair: usize, value: i8) -> __m512i {
        let (low, high) = (1u8 << (2 * pair), 2u8 << (2 * pair));
        // SAFETY: see Note [Proof of instructions].
        unsafe {
            let masks = self.joined(_mm256_set1_epi8(low as i8), _mm256_set1_epi8(high as i8));
            let is_set = _mm512_test_epi8_mask(bytes, masks);
            _mm512_mask_add_epi8(levels, is_set, levels, _mm512_set1_epi8(value))
        }
    }

    /// Adds 16 where a bit of 64 is set.
    #[inline(always)]
    fn add_fifth(self, levels: __m512i, bits: u64) -> __m512i {
        // SAFETY: see Note [Proof of instructions].
        unsafe { _mm512_mask_add_epi8(levels, bits, levels, _mm512_set1_epi8(16)) }
    }

    /// The entries of a table of signed bytes at nibbles, above 128.
    #[inline(always)]
    fn looked_up(self, table: &[i8; 16], nibbles: __m512i) -> __m512i {
        // SAFETY: see Note [Proof of instructions]; the table is there.
        unsafe {
            let table = _mm_loadu_si128(table.as_ptr().cast());
            let table = _mm_xor_si128(table, _mm_set1_epi8(-128));
            _mm512_shuffle_epi8(_mm512_broadcast_i32x4(table), nibbles)
        }
    }
}

/// The nibbles of two blocks of 32 of a format, from a place of each on.
#[inline(always)]
fn nibbles_of<K: Kernel>(v: Wide, bytes: &[u8], pair: usize, start: usize) -> __m512i {
    let first = 2 * pair * K::NBYTES + start;
    v.two_nibbles(part(bytes, first), part(bytes, first + K::NBYTES))
}

/// The fifth bits of two blocks of 32 of a format, from a place of each on.
#[inline(always)]
fn fifth_of<K: Kernel>(bytes: &[u8], pair: usize, start: usize) -> u64 {
    let bits = |at: usize| u64::from(u32::from_le_bytes(*part(bytes, at)));
    let first = 2 * pair * K::NBYTES + start;
    bits(first) | bits(first + K::NBYTES) << 32
}

/// Declares a format of blocks of 32: where its levels are, its scales, and its minimums if it has any.
macro_rules! of_eight {
    ($format:ident, |$v:ident, $bytes:ident, $pair:ident| $levels:expr) => {
        of_eight!(@ $format, |$v, $bytes, $pair| $levels, );
    };
    ($format:ident, affine, |$v:ident, $bytes:ident, $pair:ident| $levels:expr) => {
        of_eight!(@ $format, |$v, $bytes, $pair| $levels,
            #[inline(always)]
            fn minimums(v: Wide, bytes: &[u8], _: Numbers) -> Numbers {
                v.multiplied(v.eight_halves::<{ <group32::$format as Kernel>::NBYTES }>(bytes, 2), -1.0)
            }
        );
    };
    (@ $format:ident, |$v:ident, $bytes:ident, $pair:ident| $levels:expr, $($minimums:item)?) => {
        impl SuperBlock for group32::$format {
            #[inline(always)]
            fn scales(v: Wide, bytes: &[u8]) -> Numbers {
                v.eight_halves::<{ <group32::$format as Kernel>::NBYTES }>(bytes, 0)
            }

            $($minimums)?

            #[inline(always)]
            fn two_levels($v: Wide, $bytes: &[u8], $pair: usize) -> __m512i {
                $levels
            }
        }
    };
}

of_eight!(Q4_0, |v, bytes, pair| nibbles_of::<Self>(v, bytes, pair, 2));
of_eight!(Q4_1, affine, |v, bytes, pair| nibbles_of::<Self>(v, bytes, pair, 4));
of_eight!(Q5_0, |v, bytes, pair| {
    v.add_fifth(nibbles_of::<Self>(v, bytes, pair, 6), fifth_of::<Self>(bytes, pair, 2))
});
of_eight!(Q5_1, affine, |v, bytes, pair| {
    v.add_fifth(nibbles_of::<Self>(v, bytes, pair, 8), fifth_of::<Self>(bytes, pair, 4))
});
of_eight!(Q8_0, |v, bytes, pair| {
    let first = 68 * pair + 2;
    let both = v.joined(v.load(part(bytes, first)), v.load(part(bytes, first + 34)));
    // SAFETY: see Note [Proof of instructions].
    unsafe { _mm512_xor_si512(both, _mm512_set1_epi8(-128)) }
});
of_eight!(Iq4Nl, |v, bytes, pair| v.looked_up(&UNEQUAL, nibbles_of::<Self>(v, bytes, pair, 2)));

impl SuperBlock for group32::Mxfp4 {
    #[inline(always)]
    fn scales(_: Wide, bytes: &[u8]) -> Numbers {
        let at = |block: usize| bytes[17 * block] as i8;
        // SAFETY: see Note [Proof of instructions].
        unsafe {
            let (low, high) = ([at(0), at(1), at(2), at(3)], [at(4), at(5), at(6), at(7)]);
            let word = |four: [i8; 4]| i32::from_le_bytes(four.map(|byte| byte as u8));
            let eight = _mm_set_epi32(0, 0, word(high), word(low));
            // Half of a power of two has an exponent less by one; those below the normal numbers are zero.
            let exponents = _mm256_cvtepu8_epi32(_mm_subs_epu8(eight, _mm_set1_epi8(1)));
            _mm512_zextps256_ps512(_mm256_castsi256_ps(_mm256_slli_epi32::<23>(exponents)))
        }
    }

    #[inline(always)]
    fn two_levels(v: Wide, bytes: &[u8], pair: usize) -> __m512i {
        v.looked_up(&E2M1, nibbles_of::<Self>(v, bytes, pair, 1))
    }
}

/// Declares a format with the scales and minimums of `Q4_K`.
macro_rules! affine_of_256 {
    ($format:ident, |$v:ident, $bytes:ident, $pair:ident| $levels:expr) => {
        impl SuperBlock for k_quants::$format {
            const ONE_BY_GROUPS: bool = true;

            #[inline(always)]
            fn scales(v: Wide, bytes: &[u8]) -> Numbers {
                v.eight_bytes(scales_and_minimums(bytes).0, *part(bytes, 0))
            }

            #[inline(always)]
            fn minimums(v: Wide, bytes: &[u8], _: Numbers) -> Numbers {
                v.eight_bytes(scales_and_minimums(bytes).1, *part(bytes, 2))
            }

            #[inline(always)]
            fn two_levels($v: Wide, $bytes: &[u8], $pair: usize) -> __m512i {
                $levels
            }
        }
    };
}

affine_of_256!(Q4K, |v, bytes, pair| v.shifted(v.twice(part(bytes, 16 + 32 * pair)), 0, 4, 15));
affine_of_256!(Q5K, |v, bytes, pair| {
    let levels = v.shifted(v.twice(part(bytes, 48 + 32 * pair)), 0, 4, 15);
    v.add_where_set(levels, v.twice(part(bytes, 16)), pair, 16)
});

impl SuperBlock for k_quants::Q2K {
    const HALVES: bool = true;

    #[inline(always)]
    fn scales(v: Wide, bytes: &[u8]) -> Numbers {
        let low = part::<16>(bytes, 0).map(|byte| byte & 15);
        v.sixteen_signed(&low, *part(bytes, 80))
    }

    #[inline(always)]
    fn minimums(v: Wide, bytes: &[u8], _: Numbers) -> Numbers {
        let high = part::<16>(bytes, 0).map(|byte| byte >> 4);
        v.sixteen_signed(&high, *part(bytes, 82))
    }

    #[inline(always)]
    fn two_levels(v: Wide, bytes: &[u8], pair: usize) -> __m512i {
        let first = 4 * (pair % 2) as i16;
        v.shifted(v.twice(part(bytes, 16 + 32 * (pair / 2))), first, first + 2, 3)
    }
}

impl SuperBlock for k_quants::Q3K {
    const HALVES: bool = true;

    #[inline(always)]
    fn scales(v: Wide, bytes: &[u8]) -> Numbers {
        v.sixteen_signed(&scales_of_q3k(part(bytes, 96)), *part(bytes, 108))
    }

    #[inline(always)]
    fn two_levels(v: Wide, bytes: &[u8], pair: usize) -> __m512i {
        let first = 4 * (pair % 2) as i16;
        let levels = v.shifted(v.twice(part(bytes, 32 + 32 * (pair / 2))), first, first + 2, 3);
        v.add_where_set(levels, v.twice(part(bytes, 0)), pair, 4)
    }
}

impl SuperBlock for k_quants::Q6K {
    const HALVES: bool = true;

    #[inline(always)]
    fn scales(v: Wide, bytes: &[u8]) -> Numbers {
        v.sixteen_signed(part(bytes, 192), *part(bytes, 208))
    }

    #[inline(always)]
    fn two_levels(v: Wide, bytes: &[u8], pair: usize) -> __m512i {
        let start = 64 * (pair / 2);
        let low = v.joined(v.load(part(bytes, start)), v.load(part(bytes, start + 32)));
        let high = v.twice(part(bytes, 128 + 32 * (pair / 2)));
        if pair.is_multiple_of(2) {
            v.with_upper_bits(v.shifted(low, 0, 0, 15), high, 4, 2)
        } else {
            v.with_upper_bits(v.shifted(low, 4, 4, 15), high, 0, 30)
        }
    }
}

impl SuperBlock for k_quants::Iq4Xs {
    #[inline(always)]
    fn scales(v: Wide, bytes: &[u8]) -> Numbers {
        v.eight_signed(u64::from_le_bytes(scales_of_iq4xs(part(bytes, 2))), *part(bytes, 0))
    }

    #[inline(always)]
    fn two_levels(v: Wide, bytes: &[u8], pair: usize) -> __m512i {
        let start = 8 + 32 * pair;
        v.looked_up(&UNEQUAL, v.two_nibbles(part(bytes, start), part(bytes, start + 16)))
    }
}

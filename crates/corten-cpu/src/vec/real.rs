//! What an instruction set has to offer: the operations the mathematics is written in.

use std::ops::{Add, BitAnd, BitOr, BitXor, Div, Mul, Neg, Not, Sub};

/// The truth values of one vector.
pub trait MaskBits:
    Copy + BitAnd<Output = Self> + BitOr<Output = Self> + BitXor<Output = Self> + Not<Output = Self>
{
    /// One bit per lane, lane 0 in the lowest.
    fn bits(self) -> u32;

    /// All lanes true or all false.
    fn splat(value: bool) -> Self;

    /// Whether any lane is true.
    #[inline(always)]
    fn any(self) -> bool {
        self.bits() != 0
    }
}

impl MaskBits for bool {
    #[inline(always)]
    fn bits(self) -> u32 {
        u32::from(self)
    }

    #[inline(always)]
    fn splat(value: bool) -> Self {
        value
    }
}

/// A vector of floating-point numbers.
///
/// Comparisons are false for NaN, `ne` is true. `min` and `max` are the machine's: the second
/// operand where one of them is NaN.
pub(crate) trait Real:
    Copy
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
    + 'static
{
    /// The element.
    type Elem: Copy + 'static;
    /// Its truth values.
    type Mask: MaskBits;
    /// The number of lanes.
    const LANES: usize;
    /// The number of explicit mantissa bits.
    const MANTISSA: u32;
    /// The exponent's bias.
    const BIAS: f64;
    /// Whether [`mul_add`](Self::mul_add) rounds once.
    const FUSED: bool;

    /// Whether [`scale2`](Self::scale2) is one instruction, as in AVX-512.
    const SCALES: bool = size_of::<Self>() == 64;

    fn splat(value: Self::Elem) -> Self;
    /// All lanes `value`, rounded to the element.
    fn of(value: f64) -> Self;
    /// All lanes the element with these bits.
    fn of_bits(bits: u64) -> Self;
    /// # Safety
    /// `from` must be readable for `LANES` elements.
    unsafe fn load(from: *const Self::Elem) -> Self;
    /// # Safety
    /// `to` must be writable for `LANES` elements.
    unsafe fn store(self, to: *mut Self::Elem);
    /// Loads `n` elements; the other lanes are zero.
    /// # Safety
    /// `from` must be readable for `n < LANES` elements.
    unsafe fn load_partial(from: *const Self::Elem, n: usize) -> Self;
    /// # Safety
    /// `to` must be writable for `n < LANES` elements.
    unsafe fn store_partial(self, to: *mut Self::Elem, n: usize);

    fn sqrt(self) -> Self;
    fn min(self, other: Self) -> Self;
    fn max(self, other: Self) -> Self;
    /// `self * a + b`, rounded once where the instruction set has it.
    fn mul_add(self, a: Self, b: Self) -> Self;
    /// `b - self * a`.
    fn neg_mul_add(self, a: Self, b: Self) -> Self;
    fn lt(self, other: Self) -> Self::Mask;
    /// Not less, or NaN.
    #[inline(always)]
    fn not_lt(self, other: Self) -> Self::Mask {
        !self.lt(other)
    }
    fn le(self, other: Self) -> Self::Mask;
    fn eq(self, other: Self) -> Self::Mask;
    fn ne(self, other: Self) -> Self::Mask;
    fn select(mask: Self::Mask, yes: Self, no: Self) -> Self;

    fn bit_and(self, other: Self) -> Self;
    fn bit_or(self, other: Self) -> Self;
    fn bit_xor(self, other: Self) -> Self;
    /// Bits shifted left by the mantissa's width.
    fn bits_to_exponent(self) -> Self;
    /// Bits shifted right by the mantissa's width.
    fn exponent_to_bits(self) -> Self;
    /// The sum of the bits as integers, which wraps around.
    fn add_bits(self, other: Self) -> Self;
    /// Whether the sign bit is set, NaN included.
    fn sign_bit(self) -> Self::Mask;
    /// To the nearest integer, ties to even.
    fn round(self) -> Self;
    fn floor(self) -> Self;
    fn trunc(self) -> Self;
    /// As [`Lanes::exchanged`](crate::vec::Lanes::exchanged).
    fn exchanged(self, distance: usize) -> Self;
    /// `f` of each lane.
    fn map(self, f: impl Fn(Self::Elem) -> Self::Elem) -> Self;
    /// `f` of each pair of lanes.
    fn zip(self, other: Self, f: impl Fn(Self::Elem, Self::Elem) -> Self::Elem) -> Self;

    #[inline(always)]
    fn gt(self, other: Self) -> Self::Mask {
        other.lt(self)
    }

    #[inline(always)]
    fn ge(self, other: Self) -> Self::Mask {
        other.le(self)
    }

    #[inline(always)]
    fn is_nan(self) -> Self::Mask {
        self.ne(self)
    }

    /// Only the sign bit.
    #[inline(always)]
    fn sign(self) -> Self {
        self.bit_and(Self::of(-0.0))
    }

    #[inline(always)]
    fn abs(self) -> Self {
        self.bit_xor(self.sign())
    }

    #[inline(always)]
    fn copysign(self, sign: Self) -> Self {
        self.abs().bit_or(sign.sign())
    }

    /// The sign flipped where `sign` is negative.
    #[inline(always)]
    fn flip(self, sign: Self) -> Self {
        self.bit_xor(sign.sign())
    }

    #[inline(always)]
    fn ceil(self) -> Self {
        -(-self).floor()
    }

    /// What leaves a number's integer and the bias of exponents in the low bits when it is added.
    #[inline(always)]
    fn magic() -> f64 {
        1.5 * (1u64 << Self::MANTISSA) as f64 + Self::BIAS
    }

    /// 2^k for integral k in the normal range.
    #[inline(always)]
    fn pow2(k: Self) -> Self {
        // The shift drops the rest of the sum.
        (k + Self::of(Self::magic())).bits_to_exponent()
    }

    /// n, the integer next to `self * factor`, and 2^(n + k) for integral k, which must be in the
    /// normal range.
    #[inline(always)]
    fn round_to_power(self, factor: f64, k: f64) -> (Self, Self) {
        let magic = Self::of(Self::magic() + k);
        // Its last digit is 1, so that the sum is rounded to an integer.
        let sum = self.mul_add(Self::of(factor), magic);
        (sum - magic, sum.bits_to_exponent())
    }

    /// Whether any lane is larger than `most`, or NaN; taken for unlikely.
    #[inline(always)]
    fn any_beyond(self, most: f64) -> bool {
        let beyond = (!self.abs().le(Self::of(most))).any();
        if beyond {
            unlikely();
        }
        beyond
    }

    /// self * 2^k for integral k, right for results that overflow or are denormal.
    #[inline(always)]
    fn scale2(self, k: Self) -> Self {
        let half = (k * Self::of(0.5)).floor();
        self * Self::pow2(half) * Self::pow2(k - half)
    }

    /// The mantissa from √½ to √2 and the exponent of positive numbers that are not denormal;
    /// infinities and NaN give anything.
    #[inline(always)]
    fn split_normal(self) -> (Self, Self) {
        // With what is between √½ and 1 added, mantissas from √2 on carry into the exponent.
        let root = Self::root_half_bits();
        let one = (Self::BIAS as u64) << Self::MANTISSA;
        let moved = self.add_bits(Self::of_bits(one - root));
        let magic = (1u64 << Self::MANTISSA) as f64;
        let biased = moved.exponent_to_bits().bit_or(Self::of(magic));
        let fraction = moved.bit_and(Self::of_bits((1u64 << Self::MANTISSA) - 1));
        (fraction.add_bits(Self::of_bits(root)), biased - Self::of(magic + Self::BIAS))
    }

    /// As [`split_normal`](Self::split_normal), denormal numbers included.
    #[inline(always)]
    fn split_around_one(self) -> (Self, Self) {
        let tiny = self.lt(Self::of_bits(1 << Self::MANTISSA));
        if !tiny.any() {
            return self.split_normal();
        }
        let shift = Self::MANTISSA as f64 + 2.0;
        let normal = Self::select(tiny, self * Self::pow2(Self::of(shift)), self);
        let (m, n) = normal.split_normal();
        (m, n - Self::select(tiny, Self::of(shift), Self::of(0.0)))
    }

    /// The bits of √½.
    #[inline(always)]
    fn root_half_bits() -> u64 {
        match Self::MANTISSA {
            23 => std::f32::consts::FRAC_1_SQRT_2.to_bits().into(),
            _ => std::f64::consts::FRAC_1_SQRT_2.to_bits(),
        }
    }

    /// c[0] + c[1] x + c[2] x² + …, by Horner's rule.
    #[inline(always)]
    fn poly<const N: usize>(self, c: &[f64; N]) -> Self {
        let mut sum = Self::of(c[N - 1]);
        for i in (0..N - 1).rev() {
            sum = sum.mul_add(self, Self::of(c[i]));
        }
        sum
    }

    /// [`poly`](Self::poly) of pairs of terms in powers of x²: half as many steps that wait for each
    /// other, for long polynomials.
    #[inline(always)]
    fn long_poly<const N: usize>(self, c: &[f64; N]) -> Self {
        let square = self * self;
        let last = (N - 1) / 2;
        let mut sum = self.pair(c, last);
        for i in (0..last).rev() {
            sum = sum.mul_add(square, self.pair(c, i));
        }
        sum
    }

    /// c[2i] + c[2i + 1] x, where the second may be missing.
    #[inline(always)]
    fn pair<const N: usize>(self, c: &[f64; N], i: usize) -> Self {
        let even = Self::of(c[2 * i]);
        if 2 * i + 1 < N { Self::of(c[2 * i + 1]).mul_add(self, even) } else { even }
    }
}

/// `f32` vectors that can be computed with in double precision.
pub(crate) trait Single: Real<Elem = f32> {
    /// Vectors of half as many `f64`.
    type Double: Real<Elem = f64>;
    /// Whether [`chosen`](Self::chosen) is a few instructions.
    const CHOOSES: bool = false;
    /// Whether it is a single one.
    const CHOOSES_AT_ONCE: bool = false;

    /// The mantissa m in [1, 2) and its exponent.
    #[inline(always)]
    fn split(self) -> (Self, Self) {
        let (m, n) = self.split_around_one();
        let one = Self::of(1.0);
        let small = m.lt(one);
        (Self::select(small, m + m, m), Self::select(small, n - one, n))
    }

    /// For each mantissa in [1, 2) the sixteenth of that range that it lies in, as [`chosen`] takes it.
    ///
    /// [`chosen`]: Self::chosen
    #[inline(always)]
    fn sixteenth(self) -> Self {
        self.map(|mantissa| f32::from_bits(mantissa.to_bits() >> 19))
    }

    fn widen(self) -> [Self::Double; 2];
    fn narrow(halves: [Self::Double; 2]) -> Self;

    /// For each lane the element that the low four of its bits number.
    #[inline(always)]
    fn chosen(self, from: &[f32; 16]) -> Self {
        self.map(|lane| from[lane.to_bits() as usize % from.len()])
    }
}

/// Tells the compiler that what calls it is seldom reached.
#[cold]
#[inline(always)]
fn unlikely() {}

//! Pointwise operators as expressions.
//!
//! An operator of the registry with a `pointwise` expression becomes a zero-sized type with a
//! generic `eval`; [`crate::pointwise::pointwise1`] and its siblings run it over an iterator. `eval` is instantiated
//! for one vector type per instruction set and for the lanes of integers, bool and complex
//! numbers, as far as the operator's domain goes. Everything around it is not generic: the
//! conversion of 16-bit and 8-bit floats, strides and broadcasting live in [`crate::pointwise::loops`].

use crate::special;
pub use crate::vec::MaskBits;
use std::f64::consts::FRAC_1_SQRT_2;
use std::ops::{Add, Div, Mul, Neg, Sub};

/// What pointwise expressions are written in: numbers, vectors of numbers, or anything else that
/// can stand for a number.
///
/// On integers arithmetic wraps and `/` truncates; a division by zero is reported by the loop. On
/// bool `+` is "or" and `*` is "and". Functions that integers or complex numbers do not have give
/// zero or NaN there; the operator's domain keeps them from being asked.
pub trait Expr:
    Copy
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
{
    /// The truth values of comparisons.
    type Mask: MaskBits;

    /// The number `value`.
    fn lit(value: f64) -> Self;
    /// `yes` where the mask is true, `no` elsewhere.
    fn select(mask: Self::Mask, yes: Self, no: Self) -> Self;

    /// Less than; false for NaN.
    fn lt(self, other: Self) -> Self::Mask;
    /// At most; false for NaN.
    fn le(self, other: Self) -> Self::Mask;
    /// Equal; false for NaN.
    fn eq(self, other: Self) -> Self::Mask;
    /// Not equal; true for NaN.
    fn ne(self, other: Self) -> Self::Mask;
    /// Greater than; false for NaN.
    #[inline(always)]
    fn gt(self, other: Self) -> Self::Mask {
        other.lt(self)
    }
    /// At least; false for NaN.
    #[inline(always)]
    fn ge(self, other: Self) -> Self::Mask {
        other.le(self)
    }
    /// Whether the number, or a part of it, is NaN.
    #[inline(always)]
    fn is_nan(self) -> Self::Mask {
        self.ne(self)
    }
    /// Whether the number is infinite.
    #[inline(always)]
    fn is_inf(self) -> Self::Mask {
        self.abs().eq(Self::lit(f64::INFINITY))
    }
    /// Neither infinite nor NaN.
    #[inline(always)]
    #[allow(clippy::eq_op, reason = "the difference is NaN for infinities and NaN")]
    fn is_finite(self) -> Self::Mask {
        (self - self).eq(Self::lit(0.0))
    }
    /// Whether the sign bit is set.
    fn sign_bit(self) -> Self::Mask;

    /// `self * a + b`, rounded once where the hardware does.
    #[inline(always)]
    fn mul_add(self, a: Self, b: Self) -> Self {
        self * a + b
    }
    /// The negative.
    #[inline(always)]
    fn neg(self) -> Self {
        -self
    }
    /// `self * self`.
    #[inline(always)]
    fn square(self) -> Self {
        self * self
    }
    /// `1 / self`.
    #[inline(always)]
    fn reciprocal(self) -> Self {
        Self::lit(1.0) / self
    }
    /// The magnitude.
    fn abs(self) -> Self;
    /// -1, 0 or 1 (0 for NaN).
    #[inline(always)]
    fn sign(self) -> Self {
        let (zero, one) = (Self::lit(0.0), Self::lit(1.0));
        Self::select(zero.lt(self), one, zero) - Self::select(self.lt(zero), one, zero)
    }
    /// The complex conjugate; a real number itself.
    #[inline(always)]
    fn conj(self) -> Self {
        self
    }
    /// The angle in the complex plane: 0 or π for real numbers.
    #[inline(always)]
    fn angle(self) -> Self {
        let zero = Self::lit(0.0);
        let angle = Self::select(self.lt(zero), Self::lit(std::f64::consts::PI), zero);
        Self::select(self.is_nan(), self, angle)
    }
    /// The magnitude of `self` with the sign of `sign`.
    fn copysign(self, sign: Self) -> Self;
    /// The larger; NaN if one of them is.
    #[inline(always)]
    fn max(self, other: Self) -> Self {
        let larger = Self::select(other.lt(self), self, other);
        Self::select(self.is_nan(), self, larger)
    }
    /// The smaller; NaN if one of them is.
    #[inline(always)]
    fn min(self, other: Self) -> Self {
        let smaller = Self::select(self.lt(other), self, other);
        Self::select(self.is_nan(), self, smaller)
    }
    /// The nearest number from `low` to `high`, `high` where that is the smaller; NaN if one of them is.
    #[inline(always)]
    fn clamp(self, low: Self, high: Self) -> Self {
        self.max(low).min(high)
    }
    /// The larger; a NaN loses.
    #[inline(always)]
    fn fmax(self, other: Self) -> Self {
        Self::select(other.lt(self) | other.is_nan(), self, other)
    }
    /// The smaller; a NaN loses.
    #[inline(always)]
    fn fmin(self, other: Self) -> Self {
        Self::select(self.lt(other) | other.is_nan(), self, other)
    }

    /// To the integer below.
    fn floor(self) -> Self;
    /// To the integer above.
    fn ceil(self) -> Self;
    /// To the integer nearer to zero.
    fn trunc(self) -> Self;
    /// To the nearest integer, ties to even.
    fn round(self) -> Self;
    /// The fraction, with the sign of `self`.
    #[inline(always)]
    fn frac(self) -> Self {
        self - self.trunc()
    }
    /// The remainder of the truncated quotient; it has the sign of `self`.
    fn fmod(self, other: Self) -> Self;
    /// The remainder of the floored quotient; it has the sign of `other`.
    #[inline(always)]
    fn remainder(self, other: Self) -> Self {
        let zero = Self::lit(0.0);
        let rest = self.fmod(other);
        let apart = rest.ne(zero) & (rest.lt(zero) ^ other.lt(zero));
        Self::select(apart, rest + other, rest)
    }
    /// The floored quotient, as Python's `//`.
    fn floor_divide(self, other: Self) -> Self;
    /// The truncated quotient.
    #[inline(always)]
    fn trunc_divide(self, other: Self) -> Self {
        (self / other).trunc()
    }

    /// Square root.
    fn sqrt(self) -> Self;
    /// `1 / √self`.
    #[inline(always)]
    fn rsqrt(self) -> Self {
        Self::lit(1.0) / self.sqrt()
    }
    /// e to the power `self`.
    fn exp(self) -> Self;
    /// 2 to the power `self`.
    fn exp2(self) -> Self;
    /// `exp(self) - 1`, accurate near zero.
    fn expm1(self) -> Self;
    /// Natural logarithm.
    fn log(self) -> Self;
    /// Logarithm to the base 2.
    fn log2(self) -> Self;
    /// Logarithm to the base 10.
    fn log10(self) -> Self;
    /// `log(1 + self)`, accurate near zero.
    fn log1p(self) -> Self;
    /// Sine.
    fn sin(self) -> Self;
    /// Sine of `self` times π.
    #[inline(always)]
    fn sinpi(self) -> Self {
        (self * Self::lit(std::f64::consts::PI)).sin()
    }
    /// Cosine.
    fn cos(self) -> Self;
    /// Tangent.
    fn tan(self) -> Self;
    /// Inverse sine.
    fn asin(self) -> Self;
    /// Inverse cosine.
    fn acos(self) -> Self;
    /// Inverse tangent.
    fn atan(self) -> Self;
    /// The angle of the point (`x`, `self`).
    fn atan2(self, x: Self) -> Self;
    /// Hyperbolic sine.
    fn sinh(self) -> Self;
    /// Hyperbolic cosine.
    fn cosh(self) -> Self;
    /// Hyperbolic tangent.
    fn tanh(self) -> Self;
    /// Inverse hyperbolic sine.
    fn asinh(self) -> Self;
    /// Inverse hyperbolic cosine.
    fn acosh(self) -> Self;
    /// Inverse hyperbolic tangent.
    fn atanh(self) -> Self;
    /// `self` to the power `exponent`.
    fn pow(self, exponent: Self) -> Self;
    /// `√(self² + other²)`.
    fn hypot(self, other: Self) -> Self;
    /// The logarithm of the sum of the exponentials, of which the larger one alone is not computed.
    #[inline(always)]
    fn log_add_exp(self, other: Self) -> Self {
        let (low, high) = (self.min(other), self.max(other));
        let sum = high + (low - high).exp().log1p();
        Self::select(self.is_inf() & self.eq(other), self, sum)
    }
    /// The error function.
    fn erf(self) -> Self;
    /// `1 - erf(self)`, accurate far out.
    fn erfc(self) -> Self;
    /// `1 / (1 + exp(-self))`.
    #[inline(always)]
    fn sigmoid(self) -> Self {
        let one = Self::lit(1.0);
        one / (one + (-self).exp())
    }

    /// Bitwise "and".
    fn bitwise_and(self, other: Self) -> Self;
    /// Bitwise "or".
    fn bitwise_or(self, other: Self) -> Self;
    /// Bitwise "exclusive or".
    fn bitwise_xor(self, other: Self) -> Self;
    /// Bitwise complement; logical for bool.
    fn bitwise_not(self) -> Self;
    /// Shifted left; 0 for shifts that leave no bit or are negative.
    fn shift_left(self, by: Self) -> Self;
    /// Shifted right; filled with the sign where the shift leaves no bit or is negative.
    fn shift_right(self, by: Self) -> Self;

    /// The greatest common divisor of integers.
    #[inline(always)]
    fn gcd(self, _other: Self) -> Self {
        self
    }
    /// The least common multiple of integers.
    #[inline(always)]
    fn lcm(self, _other: Self) -> Self {
        self
    }

    /// A function of floating-point numbers, one at a time.
    #[inline(always)]
    fn each(self, _function: fn(f64) -> f64) -> Self {
        self
    }
    /// A function of two floating-point numbers, one pair at a time.
    #[inline(always)]
    fn each2(self, _other: Self, _function: fn(f64, f64) -> f64) -> Self {
        self
    }
    /// The number next to it on the way to `other`.
    #[inline(always)]
    fn nextafter(self, other: Self) -> Self {
        self.each2(other, libm::nextafter)
    }
    /// The logarithm of the magnitude of the gamma function.
    #[inline(always)]
    fn lgamma(self) -> Self {
        self.each(special::gamma::lgamma)
    }
    /// The logarithmic derivative of the gamma function.
    #[inline(always)]
    fn digamma(self) -> Self {
        self.each(special::gamma::digamma)
    }
    /// `exp(self²) erfc(self)`.
    #[inline(always)]
    fn erfcx(self) -> Self {
        self.each(special::error::erfcx)
    }
    /// The inverse of the error function.
    #[inline(always)]
    fn erfinv(self) -> Self {
        self.each(special::error::erfinv)
    }
    /// The normal distribution function, with a small absolute error.
    #[inline(always)]
    fn normal_cdf(self) -> Self {
        Self::lit(0.5) * (Self::lit(1.0) + (self * Self::lit(FRAC_1_SQRT_2)).erf())
    }
    /// The normal distribution function, and `exp(-self² / 2)`.
    #[inline(always)]
    fn normal(self) -> [Self; 2] {
        [self.normal_cdf(), (self * self * Self::lit(-0.5)).exp()]
    }
    /// The normal distribution function, accurate far out.
    #[inline(always)]
    fn ndtr(self) -> Self {
        Self::lit(0.5) * (self * Self::lit(-FRAC_1_SQRT_2)).erfc()
    }
    /// The quantile of the normal distribution.
    #[inline(always)]
    fn ndtri(self) -> Self {
        self.each(special::error::ndtri)
    }
    /// The logarithm of the normal distribution function.
    #[inline(always)]
    fn log_ndtr(self) -> Self {
        self.each(special::error::log_ndtr)
    }
    /// The modified Bessel function I₀.
    #[inline(always)]
    fn i0(self) -> Self {
        self.each(special::bessel::i0)
    }
    /// I₀ times `exp(-|self|)`.
    #[inline(always)]
    fn i0e(self) -> Self {
        self.each(special::bessel::i0e)
    }
    /// The modified Bessel function I₁.
    #[inline(always)]
    fn i1(self) -> Self {
        self.each(special::bessel::i1)
    }
    /// I₁ times `exp(-|self|)`.
    #[inline(always)]
    fn i1e(self) -> Self {
        self.each(special::bessel::i1e)
    }
    /// The modified Bessel function K₀.
    #[inline(always)]
    fn k0(self) -> Self {
        self.each(special::bessel::k0)
    }
    /// K₀ times `exp(self)`.
    #[inline(always)]
    fn k0e(self) -> Self {
        self.each(special::bessel::k0e)
    }
    /// The modified Bessel function K₁.
    #[inline(always)]
    fn k1(self) -> Self {
        self.each(special::bessel::k1)
    }
    /// K₁ times `exp(self)`.
    #[inline(always)]
    fn k1e(self) -> Self {
        self.each(special::bessel::k1e)
    }
    /// The Bessel function J₀.
    #[inline(always)]
    fn j0(self) -> Self {
        self.each(special::bessel::j0)
    }
    /// The Bessel function J₁.
    #[inline(always)]
    fn j1(self) -> Self {
        self.each(special::bessel::j1)
    }
    /// The Bessel function Y₀.
    #[inline(always)]
    fn y0(self) -> Self {
        self.each(special::bessel::y0)
    }
    /// The Bessel function Y₁.
    #[inline(always)]
    fn y1(self) -> Self {
        self.each(special::bessel::y1)
    }
    /// The spherical Bessel function j₀.
    #[inline(always)]
    fn spherical_j0(self) -> Self {
        self.each(special::bessel::spherical_j0)
    }
    /// Airy's function Ai.
    #[inline(always)]
    fn airy(self) -> Self {
        self.each(special::airy::airy)
    }
    /// The derivative of order `self` of [`digamma`](Self::digamma).
    #[inline(always)]
    fn polygamma(self, other: Self) -> Self {
        self.each2(other, special::zeta::polygamma)
    }
    /// Hurwitz' zeta function.
    #[inline(always)]
    fn zeta(self, other: Self) -> Self {
        self.each2(other, special::zeta::zeta)
    }
    /// The regularised lower incomplete gamma function.
    #[inline(always)]
    fn igamma(self, other: Self) -> Self {
        self.each2(other, special::incomplete::igamma)
    }
    /// The regularised upper incomplete gamma function.
    #[inline(always)]
    fn igammac(self, other: Self) -> Self {
        self.each2(other, special::incomplete::igammac)
    }
    /// Chebyshev's polynomial T of degree `other`.
    #[inline(always)]
    fn chebyshev_t(self, other: Self) -> Self {
        self.each2(other, special::polynomials::chebyshev_t)
    }
    /// Chebyshev's polynomial U of degree `other`.
    #[inline(always)]
    fn chebyshev_u(self, other: Self) -> Self {
        self.each2(other, special::polynomials::chebyshev_u)
    }
    /// Chebyshev's polynomial V of degree `other`.
    #[inline(always)]
    fn chebyshev_v(self, other: Self) -> Self {
        self.each2(other, special::polynomials::chebyshev_v)
    }
    /// Chebyshev's polynomial W of degree `other`.
    #[inline(always)]
    fn chebyshev_w(self, other: Self) -> Self {
        self.each2(other, special::polynomials::chebyshev_w)
    }
    /// Chebyshev's polynomial T on [0, 1].
    #[inline(always)]
    fn shifted_chebyshev_t(self, other: Self) -> Self {
        self.each2(other, special::polynomials::shifted_chebyshev_t)
    }
    /// Chebyshev's polynomial U on [0, 1].
    #[inline(always)]
    fn shifted_chebyshev_u(self, other: Self) -> Self {
        self.each2(other, special::polynomials::shifted_chebyshev_u)
    }
    /// Chebyshev's polynomial V on [0, 1].
    #[inline(always)]
    fn shifted_chebyshev_v(self, other: Self) -> Self {
        self.each2(other, special::polynomials::shifted_chebyshev_v)
    }
    /// Chebyshev's polynomial W on [0, 1].
    #[inline(always)]
    fn shifted_chebyshev_w(self, other: Self) -> Self {
        self.each2(other, special::polynomials::shifted_chebyshev_w)
    }
    /// The physicists' Hermite polynomial of degree `other`.
    #[inline(always)]
    fn hermite_h(self, other: Self) -> Self {
        self.each2(other, special::polynomials::hermite_h)
    }
    /// The probabilists' Hermite polynomial of degree `other`.
    #[inline(always)]
    fn hermite_he(self, other: Self) -> Self {
        self.each2(other, special::polynomials::hermite_he)
    }
    /// Laguerre's polynomial of degree `other`.
    #[inline(always)]
    fn laguerre_l(self, other: Self) -> Self {
        self.each2(other, special::polynomials::laguerre_l)
    }
    /// Legendre's polynomial of degree `other`.
    #[inline(always)]
    fn legendre_p(self, other: Self) -> Self {
        self.each2(other, special::polynomials::legendre_p)
    }
}

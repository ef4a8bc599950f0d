//! The numbers of matrices.

use num_complex::{Complex, ComplexFloat};

/// A real or complex number of single or double precision.
pub trait Number:
    ComplexFloat<Real: Default + Send + Sync> + Default + Send + Sync + 'static
{
    /// `|re| + |im|`, by which LAPACK compares pivots.
    #[inline(always)]
    fn size(self) -> Self::Real {
        num_complex::ComplexFloat::abs(self.re()) + num_complex::ComplexFloat::abs(self.im())
    }

    /// A real number.
    fn real(value: Self::Real) -> Self;

    /// A constant.
    fn constant(value: f64) -> Self::Real;

    /// `re² + im²`.
    fn square(self) -> Self::Real;

    /// The quotient, without squares of the divisor's parts, which may leave the range.
    fn over(self, divisor: Self) -> Self;

    /// A sum of squares that is at most as large may have lost digits.
    fn small_square() -> Self::Real;

    /// The largest power of two that is not above a positive number, or one of its neighbours.
    fn power_of_two_below(x: Self::Real) -> Self::Real;
}

macro_rules! numbers {
    ($($part:ty: $small:expr;)+) => {$(
        impl Number for $part {
            #[inline(always)]
            fn real(value: $part) -> Self {
                value
            }

            #[inline(always)]
            fn constant(value: f64) -> $part {
                value as $part
            }

            #[inline(always)]
            fn square(self) -> $part {
                self * self
            }

            #[inline(always)]
            fn over(self, divisor: Self) -> Self {
                self / divisor
            }

            #[inline(always)]
            fn small_square() -> $part {
                $small
            }

            fn power_of_two_below(x: $part) -> $part {
                x.log2().floor().exp2()
            }
        }

        impl Number for Complex<$part> {
            #[inline(always)]
            fn real(value: $part) -> Self {
                Self::new(value, 0.0)
            }

            #[inline(always)]
            fn constant(value: f64) -> $part {
                value as $part
            }

            #[inline(always)]
            fn square(self) -> $part {
                self.norm_sqr()
            }

            /// After R. L. Smith, "Algorithm 116: complex division" (1962).
            #[inline(always)]
            fn over(self, divisor: Self) -> Self {
                let (c, d) = (divisor.re, divisor.im);
                if c.abs() >= d.abs() {
                    let ratio = d / c;
                    let scale = c + d * ratio;
                    Self::new((self.re + self.im * ratio) / scale, (self.im - self.re * ratio) / scale)
                } else {
                    let ratio = c / d;
                    let scale = c * ratio + d;
                    Self::new((self.re * ratio + self.im) / scale, (self.im * ratio - self.re) / scale)
                }
            }

            #[inline(always)]
            fn small_square() -> $part {
                $small
            }

            fn power_of_two_below(x: $part) -> $part {
                x.log2().floor().exp2()
            }
        }
    )+};
}

numbers! {
    f32: 1e-24;
    f64: 1e-280;
}

//! A number without a tensor: an operator's `alpha`, a fill value, the result of `item()`.

use std::fmt;

use crate::{Complex, DType, Element, Result, bail, cast, match_dtype};

/// A number of the widest type of its category.
///
/// ```
/// use corten_core::{DType, Scalar};
///
/// assert_eq!(Scalar::from(2.5), Scalar::Float(2.5));
/// assert_eq!(Scalar::from(3).dtype(), DType::Int64);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scalar {
    /// A truth value.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// An integer above `i64::MAX`.
    UInt(u64),
    /// A real number.
    Float(f64),
    /// A complex number.
    Complex(Complex<f64>),
}

impl Scalar {
    /// The value as `f64`; the real part of a complex number.
    #[inline]
    pub fn to_f64(self) -> f64 {
        self.to()
    }

    /// The value as `i64`, truncated. See Note [Casts].
    #[inline]
    pub fn to_i64(self) -> i64 {
        self.to()
    }

    /// Whether the value is not zero.
    #[inline]
    pub fn to_bool(self) -> bool {
        self.to()
    }

    /// The value as a complex number.
    #[inline]
    pub fn to_complex(self) -> Complex<f64> {
        self.to()
    }

    /// The value as an element of a tensor, converted as [`cast`] does.
    #[inline]
    pub fn to<T: Element>(self) -> T {
        T::from_scalar(self)
    }

    /// Whether this is a real number.
    pub const fn is_floating_point(self) -> bool {
        matches!(self, Self::Float(_))
    }

    /// Whether this is a complex number.
    pub const fn is_complex(self) -> bool {
        matches!(self, Self::Complex(_))
    }

    /// Whether this is an integer; a truth value counts if `include_bool`.
    pub const fn is_integral(self, include_bool: bool) -> bool {
        match self {
            Self::Int(_) | Self::UInt(_) => true,
            Self::Bool(_) => include_bool,
            _ => false,
        }
    }

    /// Whether this is a truth value.
    pub const fn is_bool(self) -> bool {
        matches!(self, Self::Bool(_))
    }

    /// The dtype of a tensor that holds this number exactly.
    pub const fn dtype(self) -> DType {
        match self {
            Self::Bool(_) => DType::Bool,
            Self::Int(_) => DType::Int64,
            Self::UInt(_) => DType::UInt64,
            Self::Float(_) => DType::Float64,
            Self::Complex(_) => DType::Complex128,
        }
    }

    /// The negated value; a truth value counts as an integer.
    #[must_use]
    pub fn negated(self) -> Self {
        match self {
            Self::Bool(value) => Self::Int(-i64::from(value)),
            Self::Int(value) => Self::Int(value.wrapping_neg()),
            Self::UInt(value) => Self::Int((value as i64).wrapping_neg()),
            Self::Float(value) => Self::Float(-value),
            Self::Complex(value) => Self::Complex(-value),
        }
    }

    /// The value as `T`, or an error if it is out of `T`'s range; `op` is named in the error.
    ///
    /// Negative integers may be given for unsigned types and wrap, as in PyTorch.
    pub fn checked_to<T: Element>(self, op: &'static str) -> Result<T> {
        if self.overflows(T::DTYPE) {
            let error = crate::err!(
                Runtime,
                "value cannot be converted to type {} without overflow",
                cpp_name(T::DTYPE)
            );
            return Err(error.with_operator(op));
        }
        Ok(self.to())
    }

    /// The check of [`checked_to`](Self::checked_to) for a dtype known at run time only.
    pub fn check_fits(self, dtype: DType, op: &'static str) -> Result<()> {
        match_dtype!(dtype, op, All, T => self.checked_to::<T>(op).map(drop))
    }

    /// The number nearest to this one that a real dtype can hold.
    #[must_use]
    pub fn rounded_to(self, dtype: DType) -> Self {
        let rounded: Result<f64> =
            match_dtype!(dtype, "rounded_to", All, T => Ok(cast::<T, f64>(T::from_scalar(self))));
        rounded.map_or(self, Self::Float)
    }

    fn overflows(self, to: DType) -> bool {
        if to == DType::Bool {
            return false;
        }
        if to.is_integral(false) {
            return self.overflows_integer(to);
        }
        let finite_max = match to.to_real() {
            DType::Float16 => 65504.0,
            DType::Float32 | DType::BFloat16 => f64::from(f32::MAX),
            _ => f64::INFINITY,
        };
        // The 8-bit formats and f64 take every number.
        let too_large = |value: f64| value.is_finite() && value.abs() > finite_max;
        match self {
            Self::Complex(z) if to.is_complex() => too_large(z.re) || too_large(z.im),
            Self::Complex(z) => z.im != 0.0 || too_large(z.re),
            other => too_large(other.to_f64()),
        }
    }

    fn overflows_integer(self, to: DType) -> bool {
        let bits = 8 * to.itemsize() as u32;
        let (min, max) = match to.is_signed() {
            true => (-(1_i128 << (bits - 1)), (1_i128 << (bits - 1)) - 1),
            // Values down to -max wrap around.
            false => (-((1_i128 << bits) - 1), (1_i128 << bits) - 1),
        };
        match self {
            Self::Bool(_) => false,
            Self::Int(value) => !(min..=max).contains(&i128::from(value)),
            Self::UInt(value) => i128::from(value) > max,
            // The fraction is cut off before the check above, not below; nothing negative wraps.
            Self::Float(value) => {
                let min = if to.is_signed() { min as f64 } else { 0.0 };
                !(value >= min && value < (max + 1) as f64)
            }
            Self::Complex(z) => z.im != 0.0 || Self::Float(z.re).overflows_integer(to),
        }
    }
}

/// The C++ spelling of a dtype, which PyTorch's overflow message uses.
fn cpp_name(dtype: DType) -> &'static str {
    match dtype {
        DType::UInt8 => "uint8_t",
        DType::Int8 => "int8_t",
        DType::Int16 => "int16_t",
        DType::Int32 => "int",
        DType::Int64 => "int64_t",
        DType::UInt16 => "uint16_t",
        DType::UInt32 => "uint32_t",
        DType::UInt64 => "uint64_t",
        DType::Float16 => "c10::Half",
        DType::BFloat16 => "c10::BFloat16",
        DType::Float32 => "float",
        DType::Float64 => "double",
        DType::Complex32 => "c10::complex<c10::Half>",
        DType::Complex64 => "c10::complex<float>",
        DType::Complex128 => "c10::complex<double>",
        other => other.name(),
    }
}

macro_rules! from {
    ($($rust:ty: |$value:ident| $scalar:expr;)*) => {$(
        impl From<$rust> for Scalar {
            #[inline]
            fn from($value: $rust) -> Self { $scalar }
        }
    )*};
}

from! {
    bool: |v| Self::Bool(v);
    u8: |v| Self::Int(v.into());
    i8: |v| Self::Int(v.into());
    i16: |v| Self::Int(v.into());
    i32: |v| Self::Int(v.into());
    u32: |v| Self::Int(v.into());
    i64: |v| Self::Int(v);
    u64: |v| v.to_scalar();
    usize: |v| (v as u64).to_scalar();
    f32: |v| Self::Float(v.into());
    f64: |v| Self::Float(v);
    Complex<f32>: |v| Self::Complex(cast(v));
    Complex<f64>: |v| Self::Complex(v);
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool(value) => write!(f, "{}", if *value { "True" } else { "False" }),
            Self::Int(value) => value.fmt(f),
            Self::UInt(value) => value.fmt(f),
            Self::Float(value) => value.fmt(f),
            Self::Complex(value) => write!(f, "({}{:+}j)", value.re, value.im),
        }
    }
}

impl Scalar {
    /// The integer, or an error if this is not an integer or truth value.
    pub fn expect_integer(self) -> Result<i64> {
        match self {
            Self::Bool(_) | Self::Int(_) => Ok(self.to_i64()),
            Self::UInt(_) => {
                bail!(Runtime, "value cannot be converted to type int64_t without overflow")
            }
            _ => bail!(Type, "expected an integer, but got {self}"),
        }
    }
}

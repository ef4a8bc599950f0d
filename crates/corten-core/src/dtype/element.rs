//! The Rust types that can be the elements of a tensor.

use std::fmt::Debug;

use super::cast::CastFrom;
use crate::{Complex, DType, F8E4M3FN, F8E4M3FNUZ, F8E5M2, F8E5M2FNUZ, F8E8M0FNU};
use crate::{Scalar, bf16, cast, f16};

/// A Rust type that is the in-memory form of a dtype.
///
/// # Safety
/// `DTYPE.itemsize()` must equal `size_of::<Self>()`, and the bytes of a tensor of that dtype must
/// be valid values of the type.
pub unsafe trait Element:
    CastFrom + Copy + Send + Sync + PartialEq + Debug + 'static
{
    /// The dtype that this type stands for.
    const DTYPE: DType;

    /// The value as a scalar of the widest type of its category.
    fn to_scalar(self) -> Scalar;

    /// The value of a scalar, converted as [`cast`] does.
    fn from_scalar(scalar: Scalar) -> Self {
        match scalar {
            Scalar::Bool(value) => cast(value),
            Scalar::Int(value) => cast(value),
            Scalar::UInt(value) => cast(value),
            Scalar::Float(value) => cast(value),
            Scalar::Complex(value) => cast(value),
        }
    }
}

macro_rules! elements {
    ($($rust:ty => $dtype:ident, |$value:ident| $scalar:expr;)*) => {$(
        const _: () = assert!(size_of::<$rust>() == DType::$dtype.itemsize());
        // SAFETY: the sizes are asserted equal above. Every bit pattern is a valid value, except for
        // `bool`, whose tensors hold 0 and 1 only; typed slices of bools are checked on the way out.
        unsafe impl Element for $rust {
            const DTYPE: DType = DType::$dtype;
            #[inline]
            fn to_scalar(self) -> Scalar {
                let $value = self;
                $scalar
            }
        }
    )*};
}

elements! {
    bool => Bool, |v| Scalar::Bool(v);
    u8 => UInt8, |v| Scalar::Int(i64::from(v));
    i8 => Int8, |v| Scalar::Int(i64::from(v));
    i16 => Int16, |v| Scalar::Int(i64::from(v));
    i32 => Int32, |v| Scalar::Int(i64::from(v));
    i64 => Int64, |v| Scalar::Int(v);
    u16 => UInt16, |v| Scalar::Int(i64::from(v));
    u32 => UInt32, |v| Scalar::Int(i64::from(v));
    u64 => UInt64, |v| i64::try_from(v).map_or(Scalar::UInt(v), Scalar::Int);
    f16 => Float16, |v| Scalar::Float(v.to_f64());
    bf16 => BFloat16, |v| Scalar::Float(v.to_f64());
    f32 => Float32, |v| Scalar::Float(f64::from(v));
    f64 => Float64, |v| Scalar::Float(v);
    Complex<f16> => Complex32, |v| Scalar::Complex(cast(v));
    Complex<bf16> => BComplex32, |v| Scalar::Complex(cast(v));
    Complex<f32> => Complex64, |v| Scalar::Complex(cast(v));
    Complex<f64> => Complex128, |v| Scalar::Complex(v);
    F8E5M2 => Float8E5m2, |v| Scalar::Float(f64::from(v.to_f32()));
    F8E4M3FN => Float8E4m3fn, |v| Scalar::Float(f64::from(v.to_f32()));
    F8E5M2FNUZ => Float8E5m2fnuz, |v| Scalar::Float(f64::from(v.to_f32()));
    F8E4M3FNUZ => Float8E4m3fnuz, |v| Scalar::Float(f64::from(v.to_f32()));
    F8E8M0FNU => Float8E8m0fnu, |v| Scalar::Float(f64::from(v.to_f32()));
}

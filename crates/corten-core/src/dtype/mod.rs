//! Element types: the list, their properties, the Rust types behind them and the dtype switch.

mod cast;
mod element;
mod float8;
mod limits;
mod promotion;

use std::fmt;
use std::sync::atomic::{AtomicU16, Ordering};

pub use cast::cast;
pub use element::Element;
pub use float8::{F8E4M3FN, F8E4M3FNUZ, F8E5M2, F8E5M2FNUZ, F8E8M0FNU};
pub use half::{bf16, f16};
pub use limits::FloatLimits;
pub use num_complex::Complex;
pub use promotion::{ResultTypeState, can_cast, casts_by_category, promote_types};

use crate::{Result, ensure};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Category {
    Bool,
    Signed,
    Unsigned,
    Float,
    Float8,
    Complex,
    Quantized,
    Bits,
    NarrowSigned,
    NarrowUnsigned,
    Float4,
    None,
}

macro_rules! dtypes {
    ($($(#[$doc:meta])* $variant:ident = $number:literal,
       $name:literal, $alias:literal, $type_name:literal, $size:literal, $category:ident,
       $short:literal, $dlpack:expr, $file:literal;)*) => {
        /// The type of a tensor's elements. The numbers are those of the serialised format.
        #[repr(u16)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum DType { $($(#[$doc])* $variant = $number,)* }

        impl DType {
            /// Every dtype that can be stored, in the order of its number.
            pub const ALL: &[DType] = {
                const WITH_UNDEFINED: &[DType] = &[$(DType::$variant,)*];
                WITH_UNDEFINED.split_at(WITH_UNDEFINED.len() - 1).0
            };

            /// Bytes per element; 0 for `Undefined`.
            #[inline]
            pub const fn itemsize(self) -> usize {
                match self { $(DType::$variant => $size,)* }
            }

            /// The name as in `torch.float32`.
            pub const fn name(self) -> &'static str {
                match self { $(DType::$variant => $name,)* }
            }

            /// The second name, as in `torch.half`, or "" if there is none.
            pub const fn alias(self) -> &'static str {
                match self { $(DType::$variant => $alias,)* }
            }

            /// The name in error messages, as in `"exp" not implemented for 'Long'`.
            pub const fn type_name(self) -> &'static str {
                match self { $(DType::$variant => $type_name,)* }
            }

            /// The short name, as graphs are printed with.
            pub const fn abbreviation(self) -> &'static str {
                match self { $(DType::$variant => $short,)* }
            }

            /// The type code of DLPack, beside the number of bits.
            pub const fn dlpack_code(self) -> Option<u8> {
                match self { $(DType::$variant => $dlpack,)* }
            }

            /// The name in safetensors files, or "" if the format has none.
            pub const fn file_name(self) -> &'static str {
                match self { $(DType::$variant => $file,)* }
            }

            const fn category(self) -> Category {
                match self { $(DType::$variant => Category::$category,)* }
            }

            /// The dtype with this number.
            #[inline]
            pub const fn from_number(number: u16) -> Option<DType> {
                match number { $($number => Some(DType::$variant),)* _ => None }
            }
        }
    };
}

// Number, name, alias, name in messages, bytes, category; short name, code in DLPack, name in safetensors.
dtypes! {
    /// Unsigned 8-bit integer.
    UInt8 = 0, "uint8", "", "Byte", 1, Unsigned,
        "u8", Some(1), "U8";
    /// Signed 8-bit integer.
    Int8 = 1, "int8", "", "Char", 1, Signed,
        "i8", Some(0), "I8";
    /// Signed 16-bit integer.
    Int16 = 2, "int16", "short", "Short", 2, Signed,
        "i16", Some(0), "I16";
    /// Signed 32-bit integer.
    Int32 = 3, "int32", "int", "Int", 4, Signed,
        "i32", Some(0), "I32";
    /// Signed 64-bit integer.
    Int64 = 4, "int64", "long", "Long", 8, Signed,
        "i64", Some(0), "I64";
    /// IEEE 754 binary16.
    Float16 = 5, "float16", "half", "Half", 2, Float,
        "f16", Some(2), "F16";
    /// IEEE 754 binary32.
    Float32 = 6, "float32", "float", "Float", 4, Float,
        "f32", Some(2), "F32";
    /// IEEE 754 binary64.
    Float64 = 7, "float64", "double", "Double", 8, Float,
        "f64", Some(2), "F64";
    /// A pair of binary16.
    Complex32 = 8, "complex32", "chalf", "ComplexHalf", 4, Complex,
        "c32", Some(5), "";
    /// A pair of binary32.
    Complex64 = 9, "complex64", "cfloat", "ComplexFloat", 8, Complex,
        "c64", Some(5), "C64";
    /// A pair of binary64.
    Complex128 = 10, "complex128", "cdouble", "ComplexDouble", 16, Complex,
        "c128", Some(5), "";
    /// One byte, 0 or 1.
    Bool = 11, "bool", "", "Bool", 1, Bool,
        "b8", Some(6), "BOOL";
    /// Signed 8-bit integer with a quantizer.
    QInt8 = 12, "qint8", "", "QInt8", 1, Quantized,
        "qint8", None, "";
    /// Unsigned 8-bit integer with a quantizer.
    QUInt8 = 13, "quint8", "", "QUInt8", 1, Quantized,
        "quint8", None, "";
    /// Signed 32-bit integer with a quantizer.
    QInt32 = 14, "qint32", "", "QInt32", 4, Quantized,
        "qint32", None, "";
    /// The upper half of binary32.
    BFloat16 = 15, "bfloat16", "", "BFloat16", 2, Float,
        "bf16", Some(4), "BF16";
    /// Two unsigned 4-bit integers with a quantizer.
    QUInt4x2 = 16, "quint4x2", "", "QUInt4x2", 1, Quantized,
        "quint4x2", None, "";
    /// Four unsigned 2-bit integers with a quantizer.
    QUInt2x4 = 17, "quint2x4", "", "QUInt2x4", 1, Quantized,
        "quint2x4", None, "";
    /// Eight single bits without a meaning.
    Bits1x8 = 18, "bits1x8", "", "Bits1x8", 1, Bits,
        "b1x8", None, "";
    /// Four pairs of bits without a meaning.
    Bits2x4 = 19, "bits2x4", "", "Bits2x4", 1, Bits,
        "b2x4", None, "";
    /// Two groups of four bits without a meaning.
    Bits4x2 = 20, "bits4x2", "", "Bits4x2", 1, Bits,
        "b4x2", None, "";
    /// Eight bits without a meaning.
    Bits8 = 21, "bits8", "", "Bits8", 1, Bits,
        "b8x1", None, "";
    /// Sixteen bits without a meaning.
    Bits16 = 22, "bits16", "", "Bits16", 2, Bits,
        "b16x1", None, "";
    /// 5 exponent bits, 2 mantissa bits, infinities.
    Float8E5m2 = 23, "float8_e5m2", "", "Float8_e5m2", 1, Float8,
        "f8e5m2", Some(12), "F8_E5M2";
    /// 4 exponent bits, 3 mantissa bits, no infinity.
    Float8E4m3fn = 24, "float8_e4m3fn", "", "Float8_e4m3fn", 1, Float8,
        "f8e4m3fn", Some(10), "F8_E4M3";
    /// 5 exponent bits, 2 mantissa bits, no infinity, no negative zero.
    Float8E5m2fnuz = 25, "float8_e5m2fnuz", "", "Float8_e5m2fnuz", 1, Float8,
        "f8e5m2fnuz", Some(13), "";
    /// 4 exponent bits, 3 mantissa bits, no infinity, no negative zero.
    Float8E4m3fnuz = 26, "float8_e4m3fnuz", "", "Float8_e4m3fnuz", 1, Float8,
        "f8e4m3fnuz", Some(11), "";
    /// Unsigned 16-bit integer.
    UInt16 = 27, "uint16", "", "UInt16", 2, Unsigned,
        "u16", Some(1), "U16";
    /// Unsigned 32-bit integer.
    UInt32 = 28, "uint32", "", "UInt32", 4, Unsigned,
        "u32", Some(1), "U32";
    /// Unsigned 64-bit integer.
    UInt64 = 29, "uint64", "", "UInt64", 8, Unsigned,
        "u64", Some(1), "U64";
    /// Unsigned integer of 1 bit in a byte; stored only.
    UInt1 = 30, "uint1", "bit", "UInt1", 1, NarrowUnsigned,
        "uint1", None, "";
    /// Unsigned integer of 2 bits in a byte; stored only.
    UInt2 = 31, "uint2", "", "UInt2", 1, NarrowUnsigned,
        "uint2", None, "";
    /// Unsigned integer of 3 bits in a byte; stored only.
    UInt3 = 32, "uint3", "", "UInt3", 1, NarrowUnsigned,
        "uint3", None, "";
    /// Unsigned integer of 4 bits in a byte; stored only.
    UInt4 = 33, "uint4", "", "UInt4", 1, NarrowUnsigned,
        "uint4", None, "";
    /// Unsigned integer of 5 bits in a byte; stored only.
    UInt5 = 34, "uint5", "", "UInt5", 1, NarrowUnsigned,
        "uint5", None, "";
    /// Unsigned integer of 6 bits in a byte; stored only.
    UInt6 = 35, "uint6", "", "UInt6", 1, NarrowUnsigned,
        "uint6", None, "";
    /// Unsigned integer of 7 bits in a byte; stored only.
    UInt7 = 36, "uint7", "", "UInt7", 1, NarrowUnsigned,
        "uint7", None, "";
    /// Signed integer of 1 bit in a byte; stored only.
    Int1 = 37, "int1", "", "Int1", 1, NarrowSigned,
        "int1", None, "";
    /// Signed integer of 2 bits in a byte; stored only.
    Int2 = 38, "int2", "", "Int2", 1, NarrowSigned,
        "int2", None, "";
    /// Signed integer of 3 bits in a byte; stored only.
    Int3 = 39, "int3", "", "Int3", 1, NarrowSigned,
        "int3", None, "";
    /// Signed integer of 4 bits in a byte; stored only.
    Int4 = 40, "int4", "", "Int4", 1, NarrowSigned,
        "int4", None, "";
    /// Signed integer of 5 bits in a byte; stored only.
    Int5 = 41, "int5", "", "Int5", 1, NarrowSigned,
        "int5", None, "";
    /// Signed integer of 6 bits in a byte; stored only.
    Int6 = 42, "int6", "", "Int6", 1, NarrowSigned,
        "int6", None, "";
    /// Signed integer of 7 bits in a byte; stored only.
    Int7 = 43, "int7", "", "Int7", 1, NarrowSigned,
        "int7", None, "";
    /// 8 exponent bits and nothing else: powers of two.
    Float8E8m0fnu = 44, "float8_e8m0fnu", "", "Float8_e8m0fnu", 1, Float8,
        "f8e8m0fnu", Some(14), "F8_E8M0";
    /// Two floats of 2 exponent bits and 1 mantissa bit; stored only.
    Float4E2m1fnX2 = 45, "float4_e2m1fn_x2", "", "Float4_e2m1fn_x2", 1, Float4,
        "f4e2m1fnx2", None, "";
    /// A pair of bfloat16.
    BComplex32 = 46, "bcomplex32", "", "BComplex32", 4, Complex,
        "bcomplex32", None, "";
    /// No dtype yet.
    Undefined = 47, "undefined", "", "Undefined", 0, None,
        "undefined", None, "";
}

impl DType {
    /// Every dtype whose elements are numbers or truth values that kernels compute with, in the order
    /// of its number. The others are stored, viewed and copied only, or have a quantizer.
    pub const NUMERIC: &[DType] = &{
        let (mut list, mut found, mut index) = ([DType::UInt8; count_numeric()], 0, 0);
        while index < DType::ALL.len() {
            if DType::ALL[index].is_numeric() {
                list[found] = DType::ALL[index];
                found += 1;
            }
            index += 1;
        }
        list
    };

    /// Whether the elements are numbers or truth values that kernels compute with.
    #[inline]
    pub const fn is_numeric(self) -> bool {
        use Category::{Bool, Complex, Float, Float8, Signed, Unsigned};
        matches!(self.category(), Bool | Signed | Unsigned | Float | Float8 | Complex)
    }

    /// Whether the elements are integers that a quantizer gives a meaning.
    #[inline]
    pub const fn is_quantized(self) -> bool {
        matches!(self.category(), Category::Quantized)
    }

    /// Whether the elements are bits without a meaning.
    pub const fn is_bits(self) -> bool {
        matches!(self.category(), Category::Bits)
    }

    /// The integers that a quantised dtype is stored as; the dtype itself where it is not quantised.
    pub const fn underlying(self) -> Self {
        match self {
            Self::QInt8 => Self::Int8,
            Self::QUInt8 | Self::QUInt4x2 | Self::QUInt2x4 => Self::UInt8,
            Self::QInt32 => Self::Int32,
            other => other,
        }
    }

    /// Real floating point, the formats of 8 and 4 bits included.
    #[inline]
    pub const fn is_floating_point(self) -> bool {
        matches!(self.category(), Category::Float | Category::Float8 | Category::Float4)
    }

    /// Complex.
    #[inline]
    pub const fn is_complex(self) -> bool {
        matches!(self.category(), Category::Complex)
    }

    /// Integer; `Bool` counts if `include_bool`.
    pub const fn is_integral(self, include_bool: bool) -> bool {
        match self.category() {
            Category::Signed | Category::Unsigned => true,
            Category::Bool => include_bool,
            _ => false,
        }
    }

    /// Whether negative values can be represented.
    pub const fn is_signed(self) -> bool {
        matches!(
            self.category(),
            Category::Signed
                | Category::NarrowSigned
                | Category::Float
                | Category::Float8
                | Category::Float4
                | Category::Complex
        ) && !matches!(self, Self::Float8E8m0fnu)
    }

    /// Floating point narrower than 32 bits: computed in `f32`, rounded once.
    pub const fn is_reduced_float(self) -> bool {
        matches!(self, Self::Float16 | Self::BFloat16) || self.is_float8()
    }

    /// One of the 8-bit floating point formats.
    pub const fn is_float8(self) -> bool {
        matches!(self.category(), Category::Float8)
    }

    /// `UInt16`, `UInt32` or `UInt64`, which do not promote with other integers.
    pub const fn is_barebones_unsigned(self) -> bool {
        matches!(self, Self::UInt16 | Self::UInt32 | Self::UInt64)
    }

    /// The dtype of the real part; the dtype itself if it is not complex.
    pub const fn to_real(self) -> Self {
        match self {
            Self::Complex32 => Self::Float16,
            Self::BComplex32 => Self::BFloat16,
            Self::Complex64 => Self::Float32,
            Self::Complex128 => Self::Float64,
            other => other,
        }
    }

    /// The complex dtype whose parts are of this floating dtype; `Undefined` if there is none.
    pub const fn to_complex(self) -> Self {
        match self {
            Self::Float16 => Self::Complex32,
            Self::BFloat16 => Self::BComplex32,
            Self::Float32 => Self::Complex64,
            Self::Float64 => Self::Complex128,
            other if other.is_complex() => other,
            _ => Self::Undefined,
        }
    }

    /// The dtype in which arithmetic on this one is done.
    pub const fn opmath(self) -> Self {
        match self {
            Self::Complex32 | Self::BComplex32 => Self::Complex64,
            other if other.is_reduced_float() => Self::Float32,
            other => other,
        }
    }

    /// The least finite number of a floating or complex dtype's real part.
    pub const fn lowest(self) -> f64 {
        match self.to_real() {
            Self::Float64 => f64::MIN,
            Self::Float16 => -65504.0,
            Self::BFloat16 => -3.389_531_389_251_535_5e38,
            _ => f32::MIN as f64,
        }
    }

    /// Looks a dtype up by either of its names: `"float32"` or `"float"`.
    pub fn from_name(name: &str) -> Option<Self> {
        let mut all = Self::ALL.iter().copied();
        all.find(|dtype| dtype.name() == name || (!name.is_empty() && dtype.alias() == name))
    }
}

const fn count_numeric() -> usize {
    let (mut count, mut index) = (0, 0);
    while index < DType::ALL.len() {
        count += DType::ALL[index].is_numeric() as usize;
        index += 1;
    }
    count
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.type_name())
    }
}

static DEFAULT_DTYPE: AtomicU16 = AtomicU16::new(DType::Float32 as u16);

/// The dtype of new floating-point tensors for which none is given.
pub fn default_dtype() -> DType {
    DType::from_number(DEFAULT_DTYPE.load(Ordering::Relaxed)).unwrap_or(DType::Float32)
}

/// Sets the default dtype: one of the four real floating dtypes of at least 16 bits.
pub fn set_default_dtype(dtype: DType) -> Result<()> {
    ensure!(
        dtype.is_floating_point() && !dtype.is_float8() && dtype.is_numeric(),
        Type,
        "only floating-point types are supported as the default type"
    );
    DEFAULT_DTYPE.store(dtype as u16, Ordering::Relaxed);
    Ok(())
}

/// The complex dtype that goes with the default dtype.
pub fn default_complex_dtype() -> DType {
    match default_dtype() {
        DType::Float64 => DType::Complex128,
        DType::Float16 => DType::Complex32,
        _ => DType::Complex64,
    }
}

/// The dtype switch: runs an expression with `T` standing for the Rust type of a dtype.
///
/// `match_dtype!(dtype, "exp", Float, T => kernel::<T>(it))`. The expression is a `Result`; a
/// dtype outside the named set gives `"exp" not implemented for 'Long'`. Sets:
///
/// | set | dtypes |
/// |---|---|
/// | `All`, `AllNoF8`, `AllNoComplex` | every [numeric](DType::NUMERIC) dtype, without float8, without complex |
/// | `Real`, `RealBool` | all integers, f16, bf16, f32, f64; and bool |
/// | `Ordered`, `OrderedBool` | u8, i8 to i64, f16, bf16, f32, f64; and bool |
/// | `Summable` | `Ordered`, c64, c128 |
/// | `Product` | u8, i8 to i64, f32, f64, c64, c128 |
/// | `Float`, `FloatComplex`, `FloatBlas` | f16, bf16, f32, f64; and c32, c64, c128; and c64, c128 |
/// | `Blas`, `SingleDouble` | f32, f64, c64, c128; f32, f64 |
/// | `Complex` | c32, c64, c128 |
/// | `Integral`, `IntegralBool` | all integers; and bool |
/// | `Counts` | u8, i8 to i64 |
#[macro_export]
macro_rules! match_dtype {
    ($dtype:expr, $op:expr, All, $t:ident => $body:expr) => {
        $crate::__match_dtype!($dtype, $op, $t => $body, [bool int uint half full chalf complex bcomplex float8])
    };
    ($dtype:expr, $op:expr, AllNoF8, $t:ident => $body:expr) => {
        $crate::__match_dtype!($dtype, $op, $t => $body, [bool int uint half full chalf complex])
    };
    ($dtype:expr, $op:expr, AllNoComplex, $t:ident => $body:expr) => {
        $crate::__match_dtype!($dtype, $op, $t => $body, [bool int uint half full float8])
    };
    ($dtype:expr, $op:expr, RealBool, $t:ident => $body:expr) => {
        $crate::__match_dtype!($dtype, $op, $t => $body, [bool int uint half full])
    };
    ($dtype:expr, $op:expr, Real, $t:ident => $body:expr) => {
        $crate::__match_dtype!($dtype, $op, $t => $body, [int uint half full])
    };
    ($dtype:expr, $op:expr, Ordered, $t:ident => $body:expr) => {
        $crate::__match_dtype!($dtype, $op, $t => $body, [int half full])
    };
    ($dtype:expr, $op:expr, OrderedBool, $t:ident => $body:expr) => {
        $crate::__match_dtype!($dtype, $op, $t => $body, [bool int half full])
    };
    ($dtype:expr, $op:expr, Summable, $t:ident => $body:expr) => {
        $crate::__match_dtype!($dtype, $op, $t => $body, [int half full complex])
    };
    ($dtype:expr, $op:expr, Product, $t:ident => $body:expr) => {
        $crate::__match_dtype!($dtype, $op, $t => $body, [int full complex])
    };
    ($dtype:expr, $op:expr, Float, $t:ident => $body:expr) => {
        $crate::__match_dtype!($dtype, $op, $t => $body, [half full])
    };
    ($dtype:expr, $op:expr, FloatComplex, $t:ident => $body:expr) => {
        $crate::__match_dtype!($dtype, $op, $t => $body, [half full chalf complex])
    };
    ($dtype:expr, $op:expr, FloatBlas, $t:ident => $body:expr) => {
        $crate::__match_dtype!($dtype, $op, $t => $body, [half full complex])
    };
    ($dtype:expr, $op:expr, Blas, $t:ident => $body:expr) => {
        $crate::__match_dtype!($dtype, $op, $t => $body, [full complex])
    };
    ($dtype:expr, $op:expr, SingleDouble, $t:ident => $body:expr) => {
        $crate::__match_dtype!($dtype, $op, $t => $body, [full])
    };
    ($dtype:expr, $op:expr, Complex, $t:ident => $body:expr) => {
        $crate::__match_dtype!($dtype, $op, $t => $body, [chalf complex])
    };
    ($dtype:expr, $op:expr, Counts, $t:ident => $body:expr) => {
        $crate::__match_dtype!($dtype, $op, $t => $body, [int])
    };
    ($dtype:expr, $op:expr, Integral, $t:ident => $body:expr) => {
        $crate::__match_dtype!($dtype, $op, $t => $body, [int uint])
    };
    ($dtype:expr, $op:expr, IntegralBool, $t:ident => $body:expr) => {
        $crate::__match_dtype!($dtype, $op, $t => $body, [bool int uint])
    };
}

/// The arms of [`match_dtype!`], gathered class by class.
#[doc(hidden)]
#[macro_export]
macro_rules! __match_dtype {
    ($d:expr, $op:expr, $t:ident => $body:expr, [$($class:ident)*]) => {
        $crate::__match_dtype!(@gather $d, $op, $t => $body, [$($class)*], [])
    };
    (@gather $d:expr, $op:expr, $t:ident => $body:expr, [bool $($c:ident)*], [$($arms:tt)*]) => {
        $crate::__match_dtype!(@gather $d, $op, $t => $body, [$($c)*], [$($arms)* Bool bool,])
    };
    (@gather $d:expr, $op:expr, $t:ident => $body:expr, [int $($c:ident)*], [$($arms:tt)*]) => {
        $crate::__match_dtype!(@gather $d, $op, $t => $body, [$($c)*], [$($arms)*
            UInt8 u8, Int8 i8, Int16 i16, Int32 i32, Int64 i64,])
    };
    (@gather $d:expr, $op:expr, $t:ident => $body:expr, [uint $($c:ident)*], [$($arms:tt)*]) => {
        $crate::__match_dtype!(@gather $d, $op, $t => $body, [$($c)*], [$($arms)*
            UInt16 u16, UInt32 u32, UInt64 u64,])
    };
    (@gather $d:expr, $op:expr, $t:ident => $body:expr, [half $($c:ident)*], [$($arms:tt)*]) => {
        $crate::__match_dtype!(@gather $d, $op, $t => $body, [$($c)*], [$($arms)*
            Float16 $crate::f16, BFloat16 $crate::bf16,])
    };
    (@gather $d:expr, $op:expr, $t:ident => $body:expr, [full $($c:ident)*], [$($arms:tt)*]) => {
        $crate::__match_dtype!(@gather $d, $op, $t => $body, [$($c)*], [$($arms)* Float32 f32, Float64 f64,])
    };
    (@gather $d:expr, $op:expr, $t:ident => $body:expr, [chalf $($c:ident)*], [$($arms:tt)*]) => {
        $crate::__match_dtype!(@gather $d, $op, $t => $body, [$($c)*], [$($arms)*
            Complex32 $crate::Complex<$crate::f16>,])
    };
    (@gather $d:expr, $op:expr, $t:ident => $body:expr, [complex $($c:ident)*], [$($arms:tt)*]) => {
        $crate::__match_dtype!(@gather $d, $op, $t => $body, [$($c)*], [$($arms)*
            Complex64 $crate::Complex<f32>, Complex128 $crate::Complex<f64>,])
    };
    (@gather $d:expr, $op:expr, $t:ident => $body:expr, [bcomplex $($c:ident)*], [$($arms:tt)*]) => {
        $crate::__match_dtype!(@gather $d, $op, $t => $body, [$($c)*], [$($arms)*
            BComplex32 $crate::Complex<$crate::bf16>,])
    };
    (@gather $d:expr, $op:expr, $t:ident => $body:expr, [float8 $($c:ident)*], [$($arms:tt)*]) => {
        $crate::__match_dtype!(@gather $d, $op, $t => $body, [$($c)*], [$($arms)*
            Float8E5m2 $crate::F8E5M2, Float8E4m3fn $crate::F8E4M3FN,
            Float8E5m2fnuz $crate::F8E5M2FNUZ, Float8E4m3fnuz $crate::F8E4M3FNUZ,
            Float8E8m0fnu $crate::F8E8M0FNU,])
    };
    (@gather $d:expr, $op:expr, $t:ident => $body:expr, [], [$($variant:ident $rust:ty,)*]) => {
        match $d {
            $($crate::DType::$variant => {
                #[allow(dead_code)]
                type $t = $rust;
                $body
            })*
            #[allow(unreachable_patterns)]
            other => ::std::result::Result::Err($crate::not_implemented_for($op, other)),
        }
    };
}

/// The error of a kernel that has no instance for a dtype.
#[cold]
#[track_caller]
pub fn not_implemented_for(op: &str, dtype: DType) -> crate::Error {
    crate::err!(NotImplemented, "\"{op}\" not implemented for '{}'", dtype.type_name())
}

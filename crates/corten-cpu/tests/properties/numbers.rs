//! What a number becomes in a dtype, and the dtype of a result.

use crate::formats::{Value, decode, encode};
use crate::sample::Number;
use corten_core::DType;

/// Dtypes that arithmetic knows.
pub(crate) const DTYPES: [DType; 12] = [
    DType::Float32,
    DType::Float64,
    DType::Float16,
    DType::BFloat16,
    DType::Int64,
    DType::Int32,
    DType::Int16,
    DType::Int8,
    DType::UInt8,
    DType::Bool,
    DType::Complex64,
    DType::Complex128,
];

/// Small numbers by position: sums and products of a few are exact in every dtype.
pub(crate) fn small(dtype: DType) -> impl Fn(i64) -> Number {
    move |at| match dtype {
        DType::Bool => Number::new((at % 3 % 2) as f64, 0.0),
        _ if dtype.is_complex() => quarters(at % 13 - 6, at % 11 - 5),
        _ if dtype.is_floating_point() => quarters(at % 13 - 6, 0),
        _ if dtype.is_signed() => Number::new((at % 7 - 3) as f64, 0.0),
        _ => Number::new((at % 5) as f64, 0.0),
    }
}

fn quarters(re: i64, im: i64) -> Number {
    Number::new(re as f64 / 4.0, im as f64 / 4.0)
}

/// The number that is stored when `value` is written to an element of a dtype.
pub(crate) fn stored(value: Number, dtype: DType) -> Number {
    match decode(dtype, encode(dtype, Value::Complex(value.re, value.im))) {
        Value::Int(value) => Number::new(value as f64, 0.0),
        Value::Real(value) => Number::new(value, 0.0),
        Value::Complex(re, im) => Number::new(re, im),
    }
}

/// Bool, integer, floating point, complex.
pub(crate) fn category(dtype: DType) -> u8 {
    use DType::*;
    match dtype {
        Bool => 0,
        UInt8 | Int8 | Int16 | Int32 | Int64 | UInt16 | UInt32 | UInt64 => 1,
        Complex32 | BComplex32 | Complex64 | Complex128 => 3,
        _ => 2,
    }
}

/// PyTorch's table of `promote_types`; `--` is an error.
const TABLE: &str = "
       u1  i1  i2  i4  i8  f2  f4  f8  c2  c4  c8  b1  bf  u2  u4  u8
   u1  u1  i2  i2  i4  i8  f2  f4  f8  c2  c4  c8  u1  bf  --  --  --
   i1  i2  i1  i2  i4  i8  f2  f4  f8  c2  c4  c8  i1  bf  --  --  --
   i2  i2  i2  i2  i4  i8  f2  f4  f8  c2  c4  c8  i2  bf  --  --  --
   i4  i4  i4  i4  i4  i8  f2  f4  f8  c2  c4  c8  i4  bf  --  --  --
   i8  i8  i8  i8  i8  i8  f2  f4  f8  c2  c4  c8  i8  bf  --  --  --
   f2  f2  f2  f2  f2  f2  f2  f4  f8  c2  c4  c8  f2  f4  f2  f2  f2
   f4  f4  f4  f4  f4  f4  f4  f4  f8  c4  c4  c8  f4  f4  f4  f4  f4
   f8  f8  f8  f8  f8  f8  f8  f8  f8  c8  c8  c8  f8  f8  f8  f8  f8
   c2  c2  c2  c2  c2  c2  c2  c4  c8  c2  c4  c8  c2  c4  --  --  --
   c4  c4  c4  c4  c4  c4  c4  c4  c8  c4  c4  c8  c4  c4  --  --  --
   c8  c8  c8  c8  c8  c8  c8  c8  c8  c8  c8  c8  c8  c8  --  --  --
   b1  u1  i1  i2  i4  i8  f2  f4  f8  c2  c4  c8  b1  bf  --  --  --
   bf  bf  bf  bf  bf  bf  f4  f4  f8  c4  c4  c8  bf  bf  bf  bf  bf
   u2  --  --  --  --  --  f2  f4  f8  --  --  --  --  bf  u2  --  --
   u4  --  --  --  --  --  f2  f4  f8  --  --  --  --  bf  --  u4  --
   u8  --  --  --  --  --  f2  f4  f8  --  --  --  --  bf  --  --  u8";

/// The dtypes of the table, in its order.
pub(crate) const TABLED: [(&str, DType); 16] = [
    ("u1", DType::UInt8),
    ("i1", DType::Int8),
    ("i2", DType::Int16),
    ("i4", DType::Int32),
    ("i8", DType::Int64),
    ("f2", DType::Float16),
    ("f4", DType::Float32),
    ("f8", DType::Float64),
    ("c2", DType::Complex32),
    ("c4", DType::Complex64),
    ("c8", DType::Complex128),
    ("b1", DType::Bool),
    ("bf", DType::BFloat16),
    ("u2", DType::UInt16),
    ("u4", DType::UInt32),
    ("u8", DType::UInt64),
];

/// The entry of the table; `None` for an error.
pub(crate) fn promoted(a: DType, b: DType) -> Option<DType> {
    let place = |dtype| TABLED.iter().position(|(_, tabled)| *tabled == dtype).unwrap();
    let row = TABLE.lines().nth(place(a) + 2).unwrap();
    let entry = row.split_whitespace().nth(place(b) + 1).unwrap();
    TABLED.iter().find(|(name, _)| *name == entry).map(|(_, dtype)| *dtype)
}

/// How much an operand says about the dtype of the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    Dimensional,
    RankZero,
    /// A number of the language.
    Wrapped,
}

/// The dtype of the result: a class counts only if its category is higher than that of the
/// classes before. `None` for an error.
pub(crate) fn result_type(operands: &[(DType, Class)]) -> Option<DType> {
    let mut result = None;
    for class in [Class::Wrapped, Class::RankZero, Class::Dimensional] {
        let own = operands.iter().filter(|(_, of)| *of == class).map(|(dtype, _)| *dtype);
        let own = match class {
            Class::Wrapped => join(own.map(as_default))?,
            _ => join(own)?,
        };
        result = match (own, result) {
            (Some(high), Some(low)) => Some(combined(high, low)?),
            (own, below) => own.or(below),
        };
    }
    result
}

/// The promotion of all; the outer `None` is an error.
fn join(dtypes: impl Iterator<Item = DType>) -> Option<Option<DType>> {
    let mut all = None;
    for dtype in dtypes {
        all = Some(match all {
            Some(before) => promoted(before, dtype)?,
            None => dtype,
        });
    }
    Some(all)
}

fn as_default(dtype: DType) -> DType {
    match category(dtype) {
        3 => DType::Complex64,
        2 => DType::Float32,
        _ => dtype,
    }
}

fn combined(high: DType, low: DType) -> Option<DType> {
    match (category(high), category(low)) {
        (3, _) | (2, 0..3) => Some(high),
        (2, _) => Some(complex_of(high)),
        // A complex number of a lower class is taken as it is: integers have no precision.
        (_, 3) => Some(low),
        (0, _) | (_, 2) => promoted(high, low),
        _ => Some(high),
    }
}

fn complex_of(dtype: DType) -> DType {
    match dtype {
        DType::Float16 => DType::Complex32,
        DType::BFloat16 => DType::BComplex32,
        DType::Float32 => DType::Complex64,
        _ => DType::Complex128,
    }
}

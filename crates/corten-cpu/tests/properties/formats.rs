//! The twin of `cast`: exact values, and rounding by looking for the nearest code.

use corten_core::DType;

/// The value of an element, exact.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Value {
    Int(i128),
    Real(f64),
    Complex(f64, f64),
}

/// A floating-point format narrower than `f32`: sign, exponent, mantissa.
struct Narrow {
    mantissa: i32,
    bias: i32,
    /// The code of the largest finite value.
    max: u32,
    /// The code of what is too large, and whether the sign is put on it.
    overflow: (u32, bool),
    infinite: bool,
    /// Whether the code of negative zero is NaN.
    one_zero: bool,
    sign: u32,
}

fn narrow(dtype: DType) -> Option<Narrow> {
    let of = |mantissa, bias, max, overflow, infinite, one_zero, sign| {
        Some(Narrow { mantissa, bias, max, overflow, infinite, one_zero, sign })
    };
    match dtype {
        DType::Float16 => of(10, 15, 0x7BFF, (0x7C00, true), true, false, 0x8000),
        DType::BFloat16 => of(7, 127, 0x7F7F, (0x7F80, true), true, false, 0x8000),
        DType::Float8E5m2 => of(2, 15, 0x7B, (0x7C, true), true, false, 0x80),
        DType::Float8E4m3fn => of(3, 7, 0x7E, (0x7E, true), false, false, 0x80),
        DType::Float8E5m2fnuz => of(2, 16, 0x7F, (0x80, false), false, true, 0x80),
        DType::Float8E4m3fnuz => of(3, 8, 0x7F, (0x80, false), false, true, 0x80),
        _ => None,
    }
}

impl Narrow {
    /// The value of a code without sign, if exponents had no end.
    fn magnitude(&self, code: u32) -> f64 {
        let unit = 2_f64.powi(-self.mantissa);
        let (exponent, mantissa) = (code >> self.mantissa, code & ((1 << self.mantissa) - 1));
        match exponent {
            0 => f64::from(mantissa) * unit * 2_f64.powi(1 - self.bias),
            _ => (1.0 + f64::from(mantissa) * unit) * 2_f64.powi(exponent as i32 - self.bias),
        }
    }

    fn decode(&self, code: u32) -> f64 {
        let sign = if code & self.sign != 0 { -1.0 } else { 1.0 };
        match code & !self.sign {
            0 if self.one_zero && code != 0 => f64::NAN,
            magnitude if magnitude <= self.max => sign * self.magnitude(magnitude),
            magnitude if self.infinite && magnitude == self.max + 1 => sign * f64::INFINITY,
            _ => f64::NAN,
        }
    }

    fn encode(&self, value: f32) -> u32 {
        let sign = if value.is_sign_negative() { self.sign } else { 0 };
        if value.is_nan() {
            // A mantissa of ones, except where there is one NaN.
            return if self.one_zero { self.sign } else { self.sign - 1 };
        }
        match self.nearest(f64::from(value.abs())) {
            0 if self.one_zero => 0,
            code if code > self.max => self.overflow.0 | if self.overflow.1 { sign } else { 0 },
            code => sign | code,
        }
    }

    /// The code whose value is nearest, of two the even one. The code after the largest stands for
    /// all that is too large.
    fn nearest(&self, value: f64) -> u32 {
        let (mut below, mut above) = (0, self.max + 1);
        if value >= self.magnitude(above) {
            return above;
        }
        while above - below > 1 {
            let middle = below.midpoint(above);
            match self.magnitude(middle) <= value {
                true => below = middle,
                false => above = middle,
            }
        }
        let (down, up) = (value - self.magnitude(below), self.magnitude(above) - value);
        if down < up || (down == up && below % 2 == 0) { below } else { above }
    }
}

/// Powers of two: the significand of the `f32` is rounded to an integer, 2 being the next power.
fn encode_power(value: f32) -> u32 {
    if !value.is_finite() {
        return 0xFF;
    }
    let magnitude = f64::from(value.abs());
    let exponent = (-126..128).rev().find(|k| 2_f64.powi(*k) <= magnitude).unwrap_or(-126);
    let significand = (magnitude / 2_f64.powi(exponent)).round_ties_even();
    (exponent + 126 + significand as i32) as u32
}

fn decode_power(code: u32) -> f64 {
    if code == 0xFF { f64::NAN } else { 2_f64.powi(code as i32 - 127) }
}

/// The value of an element's bytes.
pub(crate) fn decode(dtype: DType, bits: u128) -> Value {
    use DType::*;
    if dtype.is_complex() {
        let (part, width) = (dtype.to_real(), dtype.itemsize() * 4);
        let low = bits & ((1 << width) - 1);
        return Value::Complex(decode_real(part, low), decode_real(part, bits >> width));
    }
    Value::Int(match dtype {
        Bool | UInt8 | UInt16 | UInt32 | UInt64 => bits as i128,
        Int8 => i128::from(bits as i8),
        Int16 => i128::from(bits as i16),
        Int32 => i128::from(bits as i32),
        Int64 => i128::from(bits as i64),
        _ => return Value::Real(decode_real(dtype, bits)),
    })
}

fn decode_real(dtype: DType, bits: u128) -> f64 {
    match dtype {
        DType::Float64 => f64::from_bits(bits as u64),
        DType::Float32 => f64::from(f32::from_bits(bits as u32)),
        DType::Float8E8m0fnu => decode_power(bits as u32),
        _ => narrow(dtype).unwrap().decode(bits as u32),
    }
}

/// The bytes of an element that `value` was cast to.
pub(crate) fn encode(dtype: DType, value: Value) -> u128 {
    match (value, category(dtype)) {
        (Value::Complex(re, im), Family::Complex) => {
            let part = dtype.to_real();
            let high = encode_real(part, Value::Real(im)) << (dtype.itemsize() * 4);
            high | encode_real(part, Value::Real(re))
        }
        (Value::Complex(re, im), Family::Bool) => u128::from(re != 0.0 || im != 0.0),
        (Value::Complex(re, _), _) => encode(dtype, Value::Real(re)),
        (_, Family::Complex) => encode_real(dtype.to_real(), value),
        (Value::Int(value), Family::Bool) => u128::from(value != 0),
        (Value::Real(value), Family::Bool) => u128::from(value != 0.0),
        (Value::Int(value), Family::Int) => low_bits(dtype, value),
        (Value::Real(value), Family::Int) => low_bits(dtype, truncated(dtype, value)),
        (_, Family::Real) => encode_real(dtype, value),
    }
}

enum Family {
    Bool,
    Int,
    Real,
    Complex,
}

fn category(dtype: DType) -> Family {
    match crate::numbers::category(dtype) {
        0 => Family::Bool,
        1 => Family::Int,
        2 => Family::Real,
        _ => Family::Complex,
    }
}

/// Narrow formats are reached through `f32`.
fn encode_real(dtype: DType, value: Value) -> u128 {
    let (single, double) = match value {
        Value::Int(value) => (value as f32, value as f64),
        Value::Real(value) | Value::Complex(value, _) => (value as f32, value),
    };
    match dtype {
        DType::Float64 => u128::from(double.to_bits()),
        DType::Float32 => u128::from(single.to_bits()),
        DType::Float8E8m0fnu => u128::from(encode_power(single)),
        _ => u128::from(narrow(dtype).unwrap().encode(single)),
    }
}

fn low_bits(dtype: DType, value: i128) -> u128 {
    value as u128 & ((1 << (dtype.itemsize() * 8)) - 1)
}

/// The integer part. What does not fit `i32` (for types up to 32 bits) or `i64` becomes the
/// minimum of that; the upper half of the wide unsigned types is moved down and back.
fn truncated(dtype: DType, value: f64) -> i128 {
    let width = if dtype.itemsize() < 8 { 32 } else { 64 };
    let half = 1_i128 << (width - 1);
    let moved = matches!(dtype, DType::UInt32 | DType::UInt64) && value >= half as f64;
    // 2^100 stands for all that is further out, NaN included.
    let whole = if value.abs() < 2_f64.powi(100) { value.trunc() as i128 } else { 1 << 100 };
    let shift = if moved { half } else { 0 };
    let signed = if (-half..half).contains(&(whole - shift)) { whole - shift } else { -half };
    signed + shift
}

/// Whether two elements have the same bytes, or are both NaN, of which there are many.
pub(crate) fn same(dtype: DType, a: u128, b: u128) -> bool {
    let part = |x: f64, y: f64| x.to_bits() == y.to_bits() || (x.is_nan() && y.is_nan());
    match (decode(dtype, a), decode(dtype, b)) {
        (Value::Real(x), Value::Real(y)) => part(x, y),
        (Value::Complex(x, i), Value::Complex(y, j)) => part(x, y) && part(i, j),
        _ => a == b,
    }
}

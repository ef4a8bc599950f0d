//! Addition and multiplication of one element in its own dtype, for accumulating writes.

use corten_core::{Complex, Element, bf16, f16};

/// A dtype whose elements can be added and multiplied: integers wrap, truth values are "or" and
/// "and", 16-bit floats are rounded once per operation.
pub(crate) trait Arithmetic: Element {
    fn plus(self, other: Self) -> Self;
    fn times(self, other: Self) -> Self;
}

macro_rules! arithmetic {
    ($($type:ty),+ => $plus:expr, $times:expr) => {$(
        impl Arithmetic for $type {
            fn plus(self, other: Self) -> Self {
                let plus: fn(Self, Self) -> Self = $plus;
                plus(self, other)
            }

            fn times(self, other: Self) -> Self {
                let times: fn(Self, Self) -> Self = $times;
                times(self, other)
            }
        }
    )+};
}

arithmetic!(u8, u16, u32, u64, i8, i16, i32, i64 => Self::wrapping_add, Self::wrapping_mul);
arithmetic!(f32, f64, Complex<f32>, Complex<f64> => |a, b| a + b, |a, b| a * b);
arithmetic!(bool => |a, b| a | b, |a, b| a & b);
arithmetic!(f16 => |a, b| f16::from_f32(a.to_f32() + b.to_f32()),
    |a, b| f16::from_f32(a.to_f32() * b.to_f32()));
arithmetic!(bf16 => |a, b| bf16::from_f32(a.to_f32() + b.to_f32()),
    |a, b| bf16::from_f32(a.to_f32() * b.to_f32()));
arithmetic!(Complex<f16> => |a, b| narrow(wide(a) + wide(b)), |a, b| narrow(wide(a) * wide(b)));

fn wide(value: Complex<f16>) -> Complex<f32> {
    Complex::new(value.re.to_f32(), value.im.to_f32())
}

fn narrow(value: Complex<f32>) -> Complex<f16> {
    Complex::new(f16::from_f32(value.re), f16::from_f32(value.im))
}

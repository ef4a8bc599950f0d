//! Arithmetic and order of single elements in their own dtype, for accumulating writes.

use corten_core::{Complex, Element, bf16, f16};

/// A dtype whose elements can be added and multiplied: integers wrap, truth values are "or" and
/// "and", 16-bit floats are rounded once per operation.
pub(crate) trait Arithmetic: Element {
    fn plus(self, other: Self) -> Self;
    fn times(self, other: Self) -> Self;
}

/// Adds to an element. Ways to combine are functions with a name, so that the walks are compiled
/// once for each.
pub(super) fn add_to<T: Arithmetic>(slot: &mut T, value: T) {
    *slot = slot.plus(value);
}

/// Multiplies an element.
pub(super) fn multiply_by<T: Arithmetic>(slot: &mut T, value: T) {
    *slot = slot.times(value);
}

/// Replaces an element.
pub(super) fn put_in<T>(slot: &mut T, value: T) {
    *slot = value;
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

/// A dtype whose elements have an order; NaN is beyond both ends.
pub(crate) trait Ordered: Element {
    /// No element is larger: infinity where there is one.
    const HIGHEST: Self;
    /// No element is smaller.
    const LOWEST: Self;

    fn larger(self, other: Self) -> Self;
    fn smaller(self, other: Self) -> Self;
}

macro_rules! ordered {
    ($($type:ty),+ => $low:ident, $high:ident) => {$(
        impl Ordered for $type {
            const HIGHEST: Self = <$type>::$high;
            const LOWEST: Self = <$type>::$low;

            // Not equal to itself: NaN.
            #[allow(clippy::eq_op)]
            fn larger(self, other: Self) -> Self {
                if other > self || other != other { other } else { self }
            }

            #[allow(clippy::eq_op)]
            fn smaller(self, other: Self) -> Self {
                if other < self || other != other { other } else { self }
            }
        }
    )+};
}

ordered!(u8, i8, i16, i32, i64 => MIN, MAX);
ordered!(f32, f64, f16, bf16 => NEG_INFINITY, INFINITY);

impl Ordered for bool {
    const HIGHEST: Self = true;
    const LOWEST: Self = false;

    fn larger(self, other: Self) -> Self {
        self | other
    }

    fn smaller(self, other: Self) -> Self {
        self & other
    }
}

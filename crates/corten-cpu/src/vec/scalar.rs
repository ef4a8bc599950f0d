//! Integers and bool as expressions of one lane. LLVM vectorises the loops over them.

use super::lanes::Lanes;
use crate::vec::expr::Expr;
use std::cell::Cell;
use std::ops::{Add, Div, Mul, Neg, Sub};

/// An integer whose arithmetic wraps. A division by zero gives zero and is reported by
/// [`report_division_by_zero`].
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Int<T>(T);

/// Bool with "or" as addition and "and" as multiplication.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Truth(bool);

/// `Lanes` for a type of one lane that wraps its element.
macro_rules! one_lane {
    ($lane:ty, $elem:ty, $make:path) => {
        impl Lanes for $lane {
            type Elem = $elem;
            const LANES: usize = 1;

            #[inline(always)]
            fn splat(value: $elem) -> Self {
                $make(value)
            }
            #[inline(always)]
            unsafe fn load(from: *const $elem) -> Self {
                // SAFETY: the caller vouches for one element.
                $make(unsafe { from.read_unaligned() })
            }
            #[inline(always)]
            unsafe fn store(self, to: *mut $elem) {
                // SAFETY: the caller vouches for one element.
                unsafe { to.write_unaligned(self.0) }
            }
            #[inline(always)]
            unsafe fn load_partial(from: *const $elem, _: usize) -> Self {
                // SAFETY: the caller vouches for one element.
                unsafe { Self::load(from) }
            }
            #[inline(always)]
            unsafe fn store_partial(self, to: *mut $elem, _: usize) {
                // SAFETY: the caller vouches for one element.
                unsafe { self.store(to) }
            }
            #[inline(always)]
            fn exchanged(self, _: usize) -> Self {
                self
            }
        }
    };
}
pub(super) use one_lane;

/// Functions that go through `f64`: truncated back.
macro_rules! through_double {
    (|$x:ident| $widen:expr, |$y:ident| $narrow:expr; $($method:ident = $call:expr;)+) => {$(
        #[inline(always)]
        fn $method(self) -> Self {
            let $x = self;
            let call: fn(f64) -> f64 = $call;
            let $y = call($widen);
            $narrow
        }
    )+};
}

macro_rules! integers {
    ($($int:ty: $signed:literal, $abs:expr, $sign:expr;)+) => {$(
        one_lane!(Int<$int>, $int, Int);

        integers!(@operators $int: Add add wrapping_add, Sub sub wrapping_sub, Mul mul wrapping_mul);

        impl Div for Int<$int> {
            type Output = Self;
            #[inline(always)]
            fn div(self, other: Self) -> Self {
                if other.0 == 0 {
                    report_division_by_zero();
                    return Int(0);
                }
                Int(self.0.wrapping_div(other.0))
            }
        }

        impl Neg for Int<$int> {
            type Output = Self;
            #[inline(always)]
            fn neg(self) -> Self {
                Int(self.0.wrapping_neg())
            }
        }

        impl Expr for Int<$int> {
            type Mask = bool;

            #[inline(always)]
            fn lit(value: f64) -> Self {
                Int(value as $int)
            }
            #[inline(always)]
            fn select(mask: bool, yes: Self, no: Self) -> Self {
                if mask { yes } else { no }
            }
            integers!(@compare lt <, le <=, eq ==, ne !=);
            integers!(@same floor ceil trunc round);
            #[inline(always)]
            fn is_inf(self) -> bool {
                false
            }
            #[inline(always)]
            fn sign_bit(self) -> bool {
                $signed && self.0 < (0 as $int)
            }
            #[inline(always)]
            fn abs(self) -> Self {
                let abs: fn($int) -> $int = $abs;
                Int(abs(self.0))
            }
            #[inline(always)]
            fn sign(self) -> Self {
                let sign: fn($int) -> $int = $sign;
                Int(sign(self.0))
            }
            #[inline(always)]
            fn copysign(self, sign: Self) -> Self {
                if self.sign_bit() == sign.sign_bit() { self } else { -self }
            }
            #[inline(always)]
            fn fmod(self, other: Self) -> Self {
                if other.0 == 0 {
                    report_division_by_zero();
                    return Int(0);
                }
                Int(self.0.wrapping_rem(other.0))
            }
            #[inline(always)]
            fn gcd(self, other: Self) -> Self {
                let (mut a, mut b) = (self.abs(), other.abs());
                while a.0 != 0 {
                    (a, b) = (Int(b.0.wrapping_rem(a.0)), a);
                }
                b
            }
            #[inline(always)]
            fn lcm(self, other: Self) -> Self {
                let divisor = self.gcd(other);
                if divisor.0 == 0 {
                    return divisor;
                }
                let part = self.0.wrapping_div(divisor.0);
                if size_of::<$int>() < 4 {
                    // Small integers are multiplied as wider ones, and wrap around at the end.
                    return Int((part as i64 * other.0 as i64).unsigned_abs() as $int);
                }
                (Int(part) * other).abs()
            }
            #[inline(always)]
            fn floor_divide(self, other: Self) -> Self {
                let quotient = self / other;
                let rest = self - quotient * other;
                let apart = rest.0 != 0 && rest.sign_bit() != other.sign_bit();
                if apart { quotient - Int(1) } else { quotient }
            }
            #[inline(always)]
            fn pow(self, exponent: Self) -> Self {
                integer_power(self, exponent)
            }
            through_double! { |x| x.0 as f64, |y| Int(y as $int);
                sqrt = f64::sqrt; exp = f64::exp; exp2 = f64::exp2; expm1 = f64::exp_m1;
                log = f64::ln; log2 = f64::log2; log10 = f64::log10; log1p = f64::ln_1p;
                sin = f64::sin; cos = f64::cos; tan = f64::tan; asin = f64::asin; acos = f64::acos;
                atan = f64::atan; sinh = f64::sinh; cosh = f64::cosh; tanh = f64::tanh;
                asinh = f64::asinh; acosh = f64::acosh; atanh = f64::atanh;
                erf = |_| 0.0; erfc = |x| f64::from(u8::from(x <= 0.0));
            }
            #[inline(always)]
            fn atan2(self, x: Self) -> Self {
                Int((self.0 as f64).atan2(x.0 as f64) as $int)
            }
            #[inline(always)]
            fn hypot(self, other: Self) -> Self {
                Int((self.0 as f64).hypot(other.0 as f64) as $int)
            }
            integers!(@bits bitwise_and &, bitwise_or |, bitwise_xor ^);
            #[inline(always)]
            fn bitwise_not(self) -> Self {
                Int(!self.0)
            }
            #[inline(always)]
            fn shift_left(self, by: Self) -> Self {
                let fits = !by.sign_bit() && (by.0 as u64) < <$int>::BITS as u64;
                if fits { Int(self.0.wrapping_shl(by.0 as u32)) } else { Int(0) }
            }
            #[inline(always)]
            fn shift_right(self, by: Self) -> Self {
                let most = <$int>::BITS - $signed as u32;
                let fits = !by.sign_bit() && (by.0 as u64) < u64::from(most);
                let by = if fits { by.0 as u32 } else { most };
                Int(self.0.checked_shr(by).unwrap_or(0))
            }
        }
    )+};
    (@operators $int:ty: $($trait:ident $method:ident $call:ident),+) => {$(
        impl $trait for Int<$int> {
            type Output = Self;
            #[inline(always)]
            fn $method(self, other: Self) -> Self {
                Int(self.0.$call(other.0))
            }
        }
    )+};
    (@compare $($method:ident $op:tt),+) => {$(
        #[inline(always)]
        fn $method(self, other: Self) -> bool {
            self.0 $op other.0
        }
    )+};
    (@bits $($method:ident $op:tt),+) => {$(
        #[inline(always)]
        fn $method(self, other: Self) -> Self {
            Int(self.0 $op other.0)
        }
    )+};
    (@same $($method:ident)+) => {$(
        #[inline(always)]
        fn $method(self) -> Self {
            self
        }
    )+};
}

integers! {
    u8: false, |x| x, |x| u8::from(x != 0);
    u16: false, |x| x, |x| u16::from(x != 0);
    u32: false, |x| x, |x| u32::from(x != 0);
    u64: false, |x| x, |x| u64::from(x != 0);
    i8: true, i8::wrapping_abs, i8::signum;
    i16: true, i16::wrapping_abs, i16::signum;
    i32: true, i32::wrapping_abs, i32::signum;
    i64: true, i64::wrapping_abs, i64::signum;
}

/// Wrapping power; a negative exponent gives the truncated inverse: 0, or ±1 for bases ±1.
#[inline(always)]
fn integer_power<E: Expr<Mask = bool>>(base: E, exponent: E) -> E {
    let (zero, one) = (E::lit(0.0), E::lit(1.0));
    let odd = |x: E| x.bitwise_and(one).ne(zero);
    if exponent.sign_bit() {
        return match () {
            () if base.eq(one) => one,
            () if base.eq(-one) => E::select(odd(exponent), -one, one),
            () => zero,
        };
    }
    let (mut result, mut square, mut rest) = (one, base, exponent);
    while rest.ne(zero) {
        if odd(rest) {
            result = result * square;
        }
        square = square * square;
        rest = rest.shift_right(one);
    }
    result
}

one_lane!(Truth, bool, Truth);

macro_rules! truth_operators {
    ($($trait:ident $method:ident $op:tt),+) => {$(
        impl $trait for Truth {
            type Output = Self;
            #[inline(always)]
            #[allow(clippy::suspicious_arithmetic_impl, reason = "bits are added without carry")]
            fn $method(self, other: Self) -> Self {
                Truth(self.0 $op other.0)
            }
        }
    )+};
}

truth_operators!(Add add |, Sub sub ^, Mul mul &);

impl Div for Truth {
    type Output = Self;
    #[inline(always)]
    fn div(self, other: Self) -> Self {
        if !other.0 {
            report_division_by_zero();
        }
        self * other
    }
}

impl Neg for Truth {
    type Output = Self;
    #[inline(always)]
    fn neg(self) -> Self {
        self
    }
}

/// Methods of bool that return the value itself.
macro_rules! truth_same {
    ($($method:ident)+) => {$(
        #[inline(always)]
        fn $method(self) -> Self {
            self
        }
    )+};
}

/// Binary methods of bool.
macro_rules! truth_binary {
    ($($method:ident = |$a:ident, $b:ident| $body:expr;)+) => {$(
        #[inline(always)]
        fn $method(self, other: Self) -> Self {
            let ($a, $b) = (self.0, other.0);
            Truth($body)
        }
    )+};
}

impl Expr for Truth {
    type Mask = bool;

    #[inline(always)]
    fn lit(value: f64) -> Self {
        Truth(value != 0.0)
    }
    #[inline(always)]
    fn select(mask: bool, yes: Self, no: Self) -> Self {
        if mask { yes } else { no }
    }
    integers!(@compare lt <, le <=, eq ==, ne !=);
    truth_same!(abs sign floor ceil trunc round sqrt exp2 log2 log10 log1p asin atan sinh tanh asinh
        atanh sin tan erf expm1);
    // Zero becomes one and one becomes something truncated.
    through_double! { |x| f64::from(u8::from(x.0)), |y| Truth(y as i64 != 0);
        exp = f64::exp; log = f64::ln; cos = f64::cos; acos = f64::acos; cosh = f64::cosh;
        acosh = f64::acosh; erfc = |x| 1.0 - x;
    }
    #[inline(always)]
    fn is_inf(self) -> bool {
        false
    }
    #[inline(always)]
    fn sign_bit(self) -> bool {
        false
    }
    #[inline(always)]
    fn bitwise_not(self) -> Self {
        Truth(!self.0)
    }
    #[inline(always)]
    fn fmod(self, other: Self) -> Self {
        if !other.0 {
            report_division_by_zero();
        }
        Truth(false)
    }
    #[inline(always)]
    fn floor_divide(self, other: Self) -> Self {
        self / other
    }
    truth_binary! {
        copysign = |a, _b| a;
        pow = |a, b| a | !b;
        atan2 = |a, _b| a;
        hypot = |a, b| a | b;
        bitwise_and = |a, b| a & b;
        bitwise_or = |a, b| a | b;
        bitwise_xor = |a, b| a ^ b;
        shift_left = |a, b| a & !b;
        shift_right = |a, b| a & !b;
    }
}

thread_local! {
    static DIVISION_BY_ZERO: Cell<bool> = const { Cell::new(false) };
}

/// Notes that a loop of this thread divided an integer by zero.
#[inline]
pub(crate) fn report_division_by_zero() {
    DIVISION_BY_ZERO.set(true);
}

/// Whether a loop of this thread divided an integer by zero since this was last asked.
#[inline]
pub(crate) fn take_division_by_zero() -> bool {
    DIVISION_BY_ZERO.get() && DIVISION_BY_ZERO.replace(false)
}

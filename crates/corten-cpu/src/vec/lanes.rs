//! Vectors as expressions, and how they meet memory.

use super::real::Real;
use super::{math32, math64, trig};
use crate::special::incomplete;
use crate::vec::expr::Expr;
use corten_core::{Element, cast};

/// An expression type that is read from and written to memory: a vector, or a single element.
pub(crate) trait Lanes: Expr {
    /// The element in memory.
    type Elem: Element;
    /// How many of them.
    const LANES: usize;

    fn splat(value: Self::Elem) -> Self;
    /// # Safety
    /// `from` must be readable for `LANES` elements.
    unsafe fn load(from: *const Self::Elem) -> Self;
    /// # Safety
    /// `to` must be writable for `LANES` elements.
    unsafe fn store(self, to: *mut Self::Elem);
    /// # Safety
    /// `from` must be readable for `n < LANES` elements.
    unsafe fn load_partial(from: *const Self::Elem, n: usize) -> Self;
    /// # Safety
    /// `to` must be writable for `n < LANES` elements.
    unsafe fn store_partial(self, to: *mut Self::Elem, n: usize);
    /// Each lane from the one `distance` away: pairs of blocks of so many lanes, a power of two, change
    /// their places. A single lane has no other.
    fn exchanged(self, distance: usize) -> Self;
}

/// `Expr` and `Lanes` for a vector of floating-point numbers.
macro_rules! vector_expr {
    ($($vector:ty: $math:ident $inverse:ident;)+) => {$(
        impl Lanes for $vector {
            type Elem = <$vector as Real>::Elem;
            const LANES: usize = <$vector as Real>::LANES;

            #[inline(always)]
            fn splat(value: Self::Elem) -> Self {
                Real::splat(value)
            }
            #[inline(always)]
            unsafe fn load(from: *const Self::Elem) -> Self {
                // SAFETY: the caller's.
                unsafe { <$vector as Real>::load(from) }
            }
            #[inline(always)]
            unsafe fn store(self, to: *mut Self::Elem) {
                // SAFETY: the caller's.
                unsafe { Real::store(self, to) }
            }
            #[inline(always)]
            unsafe fn load_partial(from: *const Self::Elem, n: usize) -> Self {
                // SAFETY: the caller's.
                unsafe { <$vector as Real>::load_partial(from, n) }
            }
            #[inline(always)]
            unsafe fn store_partial(self, to: *mut Self::Elem, n: usize) {
                // SAFETY: the caller's.
                unsafe { Real::store_partial(self, to, n) }
            }
            #[inline(always)]
            fn exchanged(self, distance: usize) -> Self {
                Real::exchanged(self, distance)
            }
        }

        impl Expr for $vector {
            type Mask = <$vector as Real>::Mask;

            #[inline(always)]
            fn lit(value: f64) -> Self {
                Real::of(value)
            }
            #[inline(always)]
            fn select(mask: Self::Mask, yes: Self, no: Self) -> Self {
                Real::select(mask, yes, no)
            }
            #[inline(always)]
            fn max(self, other: Self) -> Self {
                Real::select(Real::is_nan(self), self, Real::max(self, other))
            }
            #[inline(always)]
            fn min(self, other: Self) -> Self {
                Real::select(Real::is_nan(self), self, Real::min(self, other))
            }
            /// The machine's functions give the second number if one is NaN.
            #[inline(always)]
            fn clamp(self, low: Self, high: Self) -> Self {
                let unbounded = Real::is_nan(low) | Real::is_nan(high);
                let nearest = Real::min(high, Real::max(low, self));
                Real::select(unbounded, low + high, nearest)
            }
            #[inline(always)]
            fn mul_add(self, a: Self, b: Self) -> Self {
                Real::mul_add(self, a, b)
            }
            #[inline(always)]
            fn fmod(self, other: Self) -> Self {
                $math::fmod(self, other)
            }
            #[inline(always)]
            fn floor_divide(self, other: Self) -> Self {
                floor_divide(self, other)
            }
            vector_expr!(@compare lt le eq ne);
            vector_expr!(@unary abs floor trunc round sqrt ceil);
            vector_expr!(@math $vector, $math exp exp2 expm1 log log2 log10 log1p sinh cosh tanh asinh acosh
                atanh erf erfc erfinv i0 i0e i1 i1e j0 j1 y0 y1
                lgamma digamma ndtr ndtri normal_cdf);
            vector_expr!(@math $vector, $inverse sin cos tan sinpi asin acos atan);
            vector_expr!(@math2 $vector, $inverse atan2);
            vector_expr!(@math2 $vector, $math pow hypot zeta chebyshev_t chebyshev_u chebyshev_v chebyshev_w
                shifted_chebyshev_t shifted_chebyshev_u shifted_chebyshev_v shifted_chebyshev_w
                hermite_h hermite_he laguerre_l legendre_p);

            #[inline(always)]
            fn normal(self) -> [Self; 2] {
                $math::normal(self)
            }
            #[inline(always)]
            fn each(self, function: fn(f64) -> f64) -> Self {
                self.map(|x| cast(function(cast(x))))
            }
            #[inline(always)]
            fn each2(self, other: Self, function: fn(f64, f64) -> f64) -> Self {
                self.zip(other, |x, y| cast(function(cast(x), cast(y))))
            }
            #[inline(always)]
            fn nextafter(self, other: Self) -> Self {
                nextafter(self, other)
            }
            vector_expr!(@single igamma igamma_single, igammac igammac_single);
            #[inline(always)]
            fn sign_bit(self) -> Self::Mask {
                Real::sign_bit(self)
            }
            #[inline(always)]
            fn copysign(self, sign: Self) -> Self {
                Real::copysign(self, sign)
            }
            no_bits!();
        }
    )+};
    // Functions with a form of their own for single precision.
    (@single $($method:ident $single:ident),+) => {$(
        #[inline(always)]
        fn $method(self, other: Self) -> Self {
            let single = size_of::<<Self as Real>::Elem>() == 4;
            self.each2(other, if single { incomplete::$single } else { incomplete::$method })
        }
    )+};
    (@compare $($method:ident)+) => {$(
        #[inline(always)]
        fn $method(self, other: Self) -> Self::Mask {
            Real::$method(self, other)
        }
    )+};
    (@unary $($method:ident)+) => {$(
        #[inline(always)]
        fn $method(self) -> Self {
            Real::$method(self)
        }
    )+};
    (@math $vector:ty, $math:ident $($method:ident)+) => {$(
        #[inline(always)]
        fn $method(self) -> Self {
            #[inline(never)]
            fn shared(x: $vector) -> $vector {
                $math::$method(x)
            }
            if const { is_shared::<$vector>() } { shared(self) } else { $math::$method(self) }
        }
    )+};
    (@math2 $vector:ty, $math:ident $($method:ident)+) => {$(
        #[inline(always)]
        fn $method(self, other: Self) -> Self {
            #[inline(never)]
            fn shared(x: $vector, y: $vector) -> $vector {
                $math::$method(x, y)
            }
            match const { is_shared::<$vector>() } {
                true => shared(self, other),
                false => $math::$method(self, other),
            }
        }
    )+};
}

/// Whether functions of a vector are called and not inlined: those of the baseline of x86-64, which need
/// no instructions beside those of every function, and are for processors that are seldom met.
const fn is_shared<V: Real>() -> bool {
    cfg!(target_arch = "x86_64") && size_of::<V>() == 16
}

/// The bit operations of numbers that have none: zero.
macro_rules! no_bits {
    () => {
        #[inline(always)]
        fn bitwise_not(self) -> Self {
            Self::lit(0.0)
        }
        no_bits!(@binary bitwise_and bitwise_or bitwise_xor shift_left shift_right);
    };
    (@binary $($method:ident)+) => {$(
        #[inline(always)]
        fn $method(self, _: Self) -> Self {
            Self::lit(0.0)
        }
    )+};
}
pub(super) use no_bits;

/// The number next to `x` on the way to `y`.
#[inline(always)]
fn nextafter<V: Real>(x: V, y: V) -> V {
    let zero = V::of(0.0);
    // Numbers of one sign lie in the order of their bits, taken as integers.
    let away = x.lt(y) ^ x.lt(zero);
    let stepped = x.add_bits(V::select(away, V::of_bits(1), V::of_bits(u64::MAX)));
    let result = V::select(x.eq(zero), V::of_bits(1).copysign(y), stepped);
    let result = V::select(x.eq(y), y, result);
    V::select(x.is_nan() | y.is_nan(), x + y, result)
}

/// Python's `//` on floating-point numbers, after CPython's float_divmod.
#[inline(always)]
pub(super) fn floor_divide<E: Expr>(a: E, b: E) -> E {
    let (zero, one) = (E::lit(0.0), E::lit(1.0));
    let rest = a.fmod(b);
    let quotient = (a - rest) / b;
    let apart = rest.ne(zero) & (b.lt(zero) ^ rest.lt(zero));
    let quotient = E::select(apart, quotient - one, quotient);
    let floor = quotient.floor();
    let floor = E::select((quotient - floor).gt(E::lit(0.5)), floor + one, floor);
    let result = E::select(quotient.ne(zero), floor, zero.copysign(a / b));
    E::select(b.eq(zero), a / b, result)
}

#[cfg(target_arch = "x86_64")]
vector_expr! {
    super::sse2::F32: math32 math32;
    super::sse2::F64: math64 trig;
    super::avx2::F32: math32 math32;
    super::avx2::F64: math64 trig;
    super::avx512::F32: math32 math32;
    super::avx512::F64: math64 trig;
}

#[cfg(any(test, not(target_arch = "x86_64")))]
vector_expr! {
    super::portable::F32: math32 math32;
    super::portable::F64: math64 trig;
}

//! The macro that makes a [`Real`](super::Real) from a table of intrinsics.

/// Calls an intrinsic. See Note [Vector inlining].
macro_rules! isa {
    ($call:expr) => {
        // SAFETY: vectors of this file exist only below a loop that was chosen because the
        // processor has the features.
        unsafe { $call }
    };
}

/// Implements `Real` for `$name($register)`.
macro_rules! register {
    (
        $name:ident($register:ty): [$elem:ty; $lanes:literal] as $bits:ty, mask $mask:ty,
        mantissa $mantissa:literal, bias $bias:literal, fused $fused:literal;
        splat $splat:ident, load $load:ident, store $store:ident,
        add $add:ident, sub $sub:ident, mul $mul:ident, div $div:ident, sqrt $sqrt:ident,
        min $min:ident, max $max:ident, and $and:ident, or $or:ident, xor $xor:ident;
        $($method:ident($($arg:ident),+) -> $kind:ident = $body:expr;)+
    ) => {
        /// One register.
        #[derive(Clone, Copy)]
        pub(crate) struct $name(pub(crate) $register);

        register!(@operator $name Add add $add, Sub sub $sub, Mul mul $mul, Div div $div);

        impl std::ops::Neg for $name {
            type Output = Self;
            #[inline(always)]
            fn neg(self) -> Self {
                self.bit_xor(Self::of(-0.0))
            }
        }

        impl $crate::vec::real::Real for $name {
            type Elem = $elem;
            type Mask = $mask;
            const LANES: usize = $lanes;
            const MANTISSA: u32 = $mantissa;
            const BIAS: f64 = $bias;
            const FUSED: bool = $fused;

            #[inline(always)]
            fn splat(value: $elem) -> Self {
                Self(isa!($splat(value)))
            }
            #[inline(always)]
            fn of(value: f64) -> Self {
                Self::splat(value as $elem)
            }
            #[inline(always)]
            fn of_bits(bits: u64) -> Self {
                Self::splat(<$elem>::from_bits(bits as $bits))
            }
            #[inline(always)]
            unsafe fn load(from: *const $elem) -> Self {
                // SAFETY: the caller vouches for the memory; the features as everywhere here.
                Self(unsafe { $load(from) })
            }
            #[inline(always)]
            unsafe fn store(self, to: *mut $elem) {
                // SAFETY: the caller vouches for the memory; the features as everywhere here.
                unsafe { $store(to, self.0) }
            }
            #[inline(always)]
            fn sqrt(self) -> Self {
                Self(isa!($sqrt(self.0)))
            }
            #[inline(always)]
            fn map(self, f: impl Fn($elem) -> $elem) -> Self {
                let mut lanes = [0.0; $lanes];
                // SAFETY: the array has as many elements as the register.
                unsafe { self.store(lanes.as_mut_ptr()) };
                lanes.iter_mut().for_each(|lane| *lane = f(*lane));
                // SAFETY: as above.
                unsafe { Self::load(lanes.as_ptr()) }
            }
            #[inline(always)]
            fn zip(self, other: Self, f: impl Fn($elem, $elem) -> $elem) -> Self {
                let (mut a, mut b) = ([0.0; $lanes], [0.0; $lanes]);
                // SAFETY: the arrays have as many elements as the registers.
                unsafe { self.store(a.as_mut_ptr()) };
                // SAFETY: as above.
                unsafe { other.store(b.as_mut_ptr()) };
                a.iter_mut().zip(b).for_each(|(a, b)| *a = f(*a, b));
                // SAFETY: as above.
                unsafe { Self::load(a.as_ptr()) }
            }
            register!(@binary min $min, max $max, bit_and $and, bit_or $or, bit_xor $xor);
            $(register!{@method $method($($arg),+) -> $kind = $body})+
        }
    };
    (@operator $name:ident $($trait:ident $method:ident $intrinsic:ident),+) => {$(
        impl std::ops::$trait for $name {
            type Output = Self;
            #[inline(always)]
            fn $method(self, other: Self) -> Self {
                Self(isa!($intrinsic(self.0, other.0)))
            }
        }
    )+};
    (@binary $($method:ident $intrinsic:ident),+) => {$(
        #[inline(always)]
        fn $method(self, other: Self) -> Self {
            Self(isa!($intrinsic(self.0, other.0)))
        }
    )+};
    (@method $method:ident($a:ident) -> Vector = $body:expr) => {
        #[inline(always)]
        fn $method(self) -> Self {
            let $a = self.0;
            Self(isa!($body))
        }
    };
    (@method $method:ident($a:ident) -> Pair = $body:expr) => {
        #[inline(always)]
        fn $method(self) -> (Self, Self) {
            let $a = self.0;
            isa!($body)
        }
    };
    (@method $method:ident($a:ident) -> Mask = $body:expr) => {
        #[inline(always)]
        fn $method(self) -> Self::Mask {
            let $a = self.0;
            isa!($body).into()
        }
    };
    (@method $method:ident($a:ident, $b:ident) -> Vector = $body:expr) => {
        #[inline(always)]
        fn $method(self, other: Self) -> Self {
            let ($a, $b) = (self.0, other.0);
            Self(isa!($body))
        }
    };
    (@method $method:ident($a:ident, $b:ident) -> Mask = $body:expr) => {
        #[inline(always)]
        fn $method(self, other: Self) -> Self::Mask {
            let ($a, $b) = (self.0, other.0);
            isa!($body).into()
        }
    };
    (@method $method:ident($a:ident, $b:ident, $c:ident) -> Vector = $body:expr) => {
        #[inline(always)]
        fn $method(self, second: Self, third: Self) -> Self {
            let ($a, $b, $c) = (self.0, second.0, third.0);
            Self(isa!($body))
        }
    };
    (@method $method:ident($m:ident, $a:ident, $b:ident) -> Select = $body:expr) => {
        #[inline(always)]
        fn $method(mask: Self::Mask, yes: Self, no: Self) -> Self {
            let ($m, $a, $b) = (mask.0, yes.0, no.0);
            Self(isa!($body))
        }
    };
    (@method $method:ident($a:ident, $distance:ident) -> Exchange = $body:expr) => {
        #[inline(always)]
        fn $method(self, $distance: usize) -> Self {
            let $a = self.0;
            Self(isa!($body))
        }
    };
    (@method $method:ident($from:ident, $n:ident) -> LoadPartial = $body:expr) => {
        #[inline(always)]
        unsafe fn $method($from: *const Self::Elem, $n: usize) -> Self {
            // SAFETY: the caller vouches for the memory; the features as everywhere here.
            Self(unsafe { $body })
        }
    };
    (@method $method:ident($value:ident, $to:ident, $n:ident) -> StorePartial = $body:expr) => {
        #[inline(always)]
        unsafe fn $method(self, $to: *mut Self::Elem, $n: usize) {
            let $value = self.0;
            // SAFETY: the caller vouches for the memory; the features as everywhere here.
            unsafe { $body }
        }
    };
}

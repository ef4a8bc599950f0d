//! What dtypes add up, and in which vectors.

#[cfg(target_arch = "x86_64")]
use crate::vec::expr::Expr;
#[cfg(target_arch = "x86_64")]
use crate::vec::{Lanes, avx2};
use corten_core::{Complex, bf16, f16};

/// What is added up: a vector, or one element of it.
pub(super) trait Term: Copy {
    /// The zero.
    fn zero() -> Self;
    fn add(self, other: Self) -> Self;
}

/// How a dtype is read and added.
pub(super) trait Summand: Copy + 'static {
    /// The same with vectors that stay in AVX2's registers, where there is such a form: of arrays
    /// the compiler puts some together element by element.
    type InRegisters: Summand;
    /// An element in the precision of the sum.
    type Wide: Term;
    /// Several of them.
    type Vector: Term;
    /// Elements that a vector of a dense slice takes; twice the lanes for 16-bit elements.
    const INNER: usize;
    /// Elements that a vector of columns takes.
    const LANES: usize;

    fn widen(self) -> Self::Wide;
    /// What an output holds so far.
    #[inline(always)]
    fn so_far(self) -> Self::Wide {
        self.widen()
    }
    fn narrow(wide: Self::Wide) -> Self;
    /// # Safety
    /// `from` must be readable for `INNER` elements.
    unsafe fn load_inner(from: *const Self) -> Self::Vector;
    /// # Safety
    /// `from` must be readable for `LANES` elements.
    unsafe fn load_outer(from: *const Self) -> Self::Vector;
    fn lane(vector: &Self::Vector, i: usize) -> Self::Wide;
    /// What a slice comes to.
    #[inline(always)]
    fn total(slice: &Parts<Self::Wide, Self::Vector>) -> Self::Wide {
        (0..Self::LANES).fold(slice.rest, |sum, i| sum.add(Self::lane(&slice.lanes, i)))
    }
    /// What the first slices come to, as many of them as there are lanes.
    fn totals(slices: &[Parts<Self::Wide, Self::Vector>; MOST_LANES]) -> Self::Vector;
    /// Adds the lanes to dense elements of the output.
    ///
    /// # Safety
    /// `to` must be readable and writable for `LANES` elements.
    #[inline(always)]
    unsafe fn add_to(to: *mut Self, vector: &Self::Vector) {
        for i in 0..Self::LANES {
            // SAFETY: the caller's.
            unsafe {
                let sum = to.add(i).read().so_far().add(Self::lane(vector, i));
                to.add(i).write(Self::narrow(sum));
            }
        }
    }
}

/// Lanes of the widest vector.
pub(super) const MOST_LANES: usize = 8;

/// The elements of a dense slice that fill no vector, and the lanes of the others, summed.
#[derive(Clone, Copy)]
pub(super) struct Parts<W, V> {
    pub(super) rest: W,
    pub(super) lanes: V,
}

impl<W: Term, V: Term> Parts<W, V> {
    #[inline(always)]
    pub(super) fn zero() -> Self {
        Self { rest: W::zero(), lanes: V::zero() }
    }
}

macro_rules! terms {
    ($($number:ty, $zero:expr;)+) => {$(
        impl Term for $number {
            #[inline(always)]
            fn zero() -> Self {
                $zero
            }
            #[inline(always)]
            fn add(self, other: Self) -> Self {
                self + other
            }
        }
    )+};
}

terms! {
    f32, 0.0;
    f64, 0.0;
    Complex<f32>, Complex::new(0.0, 0.0);
    Complex<f64>, Complex::new(0.0, 0.0);
}

impl<T: Term, const N: usize> Term for [T; N] {
    #[inline(always)]
    fn zero() -> Self {
        [T::zero(); N]
    }
    #[inline(always)]
    fn add(mut self, other: Self) -> Self {
        for (a, b) in self.iter_mut().zip(other) {
            *a = a.add(b);
        }
        self
    }
}

/// Summands that are added in their own precision.
macro_rules! plain_summands {
    ($($number:ty, $lanes:literal, $in_registers:ty;)+) => {$(
        impl Summand for $number {
            type InRegisters = $in_registers;
            type Wide = Self;
            type Vector = [Self; $lanes];
            const INNER: usize = $lanes;
            const LANES: usize = $lanes;

            #[inline(always)]
            fn widen(self) -> Self {
                self
            }
            #[inline(always)]
            fn narrow(wide: Self) -> Self {
                wide
            }
            #[inline(always)]
            unsafe fn load_inner(from: *const Self) -> Self::Vector {
                // SAFETY: the caller vouches for that many elements.
                unsafe { from.cast::<Self::Vector>().read_unaligned() }
            }
            #[inline(always)]
            unsafe fn load_outer(from: *const Self) -> Self::Vector {
                // SAFETY: as above.
                unsafe { Self::load_inner(from) }
            }
            #[inline(always)]
            fn lane(vector: &Self::Vector, i: usize) -> Self {
                vector[i]
            }
            #[inline(always)]
            fn totals(slices: &[Parts<Self, Self::Vector>; MOST_LANES]) -> Self::Vector {
                let mut totals = Self::Vector::zero();
                totals.iter_mut().zip(slices).for_each(|(to, slice)| *to = Self::total(slice));
                totals
            }
        }
    )+};
}

#[cfg(target_arch = "x86_64")]
type Registers<T> = InRegisters<T>;
#[cfg(not(target_arch = "x86_64"))]
type Registers<T> = T;

plain_summands! {
    f32, 8, Registers<f32>;
    f64, 4, Registers<f64>;
    Complex<f32>, 4, Self;
    Complex<f64>, 2, Self;
}

/// A number of which several are added in one register.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(super) struct InRegisters<T>(T);

#[cfg(target_arch = "x86_64")]
macro_rules! register_summands {
    ($($number:ty, $vector:ty;)+) => {$(
        impl Term for $vector {
            #[inline(always)]
            fn zero() -> Self {
                <$vector as Lanes>::splat(0.0)
            }
            #[inline(always)]
            fn add(self, other: Self) -> Self {
                self + other
            }
        }

        impl Summand for InRegisters<$number> {
            type InRegisters = Self;
            type Wide = $number;
            type Vector = $vector;
            const INNER: usize = <$vector as Lanes>::LANES;
            const LANES: usize = <$vector as Lanes>::LANES;

            #[inline(always)]
            fn widen(self) -> $number {
                self.0
            }
            #[inline(always)]
            fn narrow(wide: $number) -> Self {
                Self(wide)
            }
            #[inline(always)]
            unsafe fn load_inner(from: *const Self) -> $vector {
                // SAFETY: the caller vouches for that many elements.
                unsafe { <$vector as Lanes>::load(from.cast()) }
            }
            #[inline(always)]
            unsafe fn load_outer(from: *const Self) -> $vector {
                // SAFETY: as above.
                unsafe { Self::load_inner(from) }
            }
            #[inline(always)]
            fn lane(vector: &$vector, i: usize) -> $number {
                let mut lanes = [0.0; <$vector as Lanes>::LANES];
                // SAFETY: there is room for all lanes.
                unsafe { Lanes::store(*vector, lanes.as_mut_ptr()) };
                lanes[i]
            }
            #[inline(always)]
            fn totals(slices: &[Parts<$number, $vector>; MOST_LANES]) -> $vector {
                let mut rests = [0.0; <$vector as Lanes>::LANES];
                let mut rows = [<$vector>::zero(); <$vector as Lanes>::LANES];
                for ((rest, row), slice) in rests.iter_mut().zip(&mut rows).zip(slices) {
                    (*rest, *row) = (slice.rest, slice.lanes);
                }
                // SAFETY: there are as many lanes.
                let mut sum = unsafe { <$vector as Lanes>::load(rests.as_ptr()) };
                for lanes in <$vector>::turned(rows) {
                    sum = sum + lanes;
                }
                sum
            }
            #[inline(always)]
            unsafe fn add_to(to: *mut Self, vector: &$vector) {
                // SAFETY: the caller's.
                unsafe {
                    let so_far = <$vector as Lanes>::load(to.cast_const().cast());
                    Lanes::store(so_far + *vector, to.cast());
                }
            }
        }
    )+};
}

#[cfg(target_arch = "x86_64")]
register_summands! {
    f32, avx2::F32;
    f64, avx2::F64;
}

/// 16-bit summands, whose conversion is one or two instructions.
#[cfg(target_arch = "x86_64")]
macro_rules! register_halves {
    ($($half:ty, |$bits:ident| $wide:expr;)+) => {$(
        impl Summand for InRegisters<$half> {
            type InRegisters = Self;
            type Wide = f32;
            type Vector = avx2::F32;
            const INNER: usize = 16;
            const LANES: usize = 8;

            #[inline(always)]
            fn widen(self) -> f32 {
                self.0.to_f32()
            }
            #[inline(always)]
            fn narrow(wide: f32) -> Self {
                Self(<$half>::from_f32(wide))
            }
            #[inline(always)]
            unsafe fn load_inner(from: *const Self) -> avx2::F32 {
                // SAFETY: the caller vouches for sixteen elements.
                unsafe { Self::load_outer(from) + Self::load_outer(from.add(8)) }
            }
            #[inline(always)]
            unsafe fn load_outer(from: *const Self) -> avx2::F32 {
                use core::arch::x86_64::*;
                // SAFETY: the caller vouches for eight elements; these summands are used below
                // `run_avx2` alone.
                unsafe {
                    let $bits = _mm_loadu_si128(from.cast());
                    avx2::F32($wide)
                }
            }
            #[inline(always)]
            fn lane(vector: &avx2::F32, i: usize) -> f32 {
                InRegisters::<f32>::lane(vector, i)
            }
            #[inline(always)]
            fn totals(slices: &[Parts<f32, avx2::F32>; MOST_LANES]) -> avx2::F32 {
                InRegisters::<f32>::totals(slices)
            }
        }
    )+};
}

#[cfg(target_arch = "x86_64")]
register_halves! {
    f16, |bits| _mm256_cvtph_ps(bits);
    bf16, |bits| _mm256_castsi256_ps(_mm256_slli_epi32::<16>(_mm256_cvtepu16_epi32(bits)));
}

/// 16-bit summands, added in `f32`; a vector of a dense slice is the sum of its two halves.
macro_rules! half_summands {
    ($($number:ty)+) => {$(
        impl Summand for $number {
            type InRegisters = Registers<$number>;
            type Wide = f32;
            type Vector = [f32; 8];
            const INNER: usize = 16;
            const LANES: usize = 8;

            #[inline(always)]
            fn widen(self) -> f32 {
                self.to_f32()
            }
            #[inline(always)]
            fn narrow(wide: f32) -> Self {
                Self::from_f32(wide)
            }
            #[inline(always)]
            unsafe fn load_inner(from: *const Self) -> [f32; 8] {
                // SAFETY: the caller vouches for sixteen elements.
                unsafe { Self::load_outer(from).add(Self::load_outer(from.add(8))) }
            }
            #[inline(always)]
            unsafe fn load_outer(from: *const Self) -> [f32; 8] {
                // SAFETY: the caller vouches for eight elements.
                let halves = unsafe { from.cast::<[Self; 8]>().read_unaligned() };
                halves.map(|half| half.to_f32())
            }
            #[inline(always)]
            fn lane(vector: &[f32; 8], i: usize) -> f32 {
                vector[i]
            }
            #[inline(always)]
            fn totals(slices: &[Parts<f32, [f32; 8]>; MOST_LANES]) -> [f32; 8] {
                f32::totals(slices)
            }
        }
    )+};
}

half_summands! { f16 bf16 }

/// A summand that counts as zero where it is NaN. Sums may be NaN nonetheless.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(super) struct Present<T>(T);

/// Summands that may be NaN.
pub(super) trait Absent: Summand {
    /// As [`Summand::InRegisters`].
    type Fast: Absent;
    /// Zero where a number is NaN.
    fn present(wide: Self::Wide) -> Self::Wide;
    /// Zero in the lanes that are NaN.
    fn present_lanes(vector: Self::Vector) -> Self::Vector;
}

impl<T: Absent> Summand for Present<T> {
    type InRegisters = Present<T::Fast>;
    type Wide = T::Wide;
    type Vector = T::Vector;
    const INNER: usize = T::INNER;
    const LANES: usize = T::LANES;

    #[inline(always)]
    fn widen(self) -> T::Wide {
        T::present(self.0.widen())
    }
    #[inline(always)]
    fn so_far(self) -> T::Wide {
        self.0.so_far()
    }
    #[inline(always)]
    fn narrow(wide: T::Wide) -> Self {
        Self(T::narrow(wide))
    }
    #[inline(always)]
    unsafe fn load_inner(from: *const Self) -> T::Vector {
        // SAFETY: the caller's.
        unsafe {
            let first = Self::load_outer(from);
            match T::INNER > T::LANES {
                true => first.add(Self::load_outer(from.add(T::LANES))),
                false => first,
            }
        }
    }
    #[inline(always)]
    unsafe fn load_outer(from: *const Self) -> T::Vector {
        // SAFETY: the caller's.
        T::present_lanes(unsafe { T::load_outer(from.cast()) })
    }
    #[inline(always)]
    fn lane(vector: &T::Vector, i: usize) -> T::Wide {
        T::lane(vector, i)
    }
    #[inline(always)]
    fn totals(slices: &[Parts<T::Wide, T::Vector>; MOST_LANES]) -> T::Vector {
        T::totals(slices)
    }
    #[inline(always)]
    unsafe fn add_to(to: *mut Self, vector: &T::Vector) {
        // SAFETY: the caller's.
        unsafe { T::add_to(to.cast(), vector) }
    }
}

macro_rules! absent_numbers {
    ($($number:ty: $wide:ty;)+) => {$(
        impl Absent for $number {
            type Fast = Registers<$number>;

            #[inline(always)]
            fn present(wide: $wide) -> $wide {
                if wide.is_nan() { 0.0 } else { wide }
            }
            #[inline(always)]
            fn present_lanes(vector: Self::Vector) -> Self::Vector {
                vector.map(Self::present)
            }
        }

        #[cfg(target_arch = "x86_64")]
        impl Absent for InRegisters<$number> {
            type Fast = Self;

            #[inline(always)]
            fn present(wide: $wide) -> $wide {
                <$number>::present(wide)
            }
            #[inline(always)]
            fn present_lanes(vector: Self::Vector) -> Self::Vector {
                Expr::select(Expr::is_nan(vector), Lanes::splat(0.0), vector)
            }
        }
    )+};
}

absent_numbers! {
    f32: f32;
    f64: f64;
    f16: f32;
    bf16: f32;
}

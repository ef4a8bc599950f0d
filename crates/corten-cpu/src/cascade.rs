//! The sum of floating-point numbers, in an order that keeps the error small and that is the
//! same, bit for bit, as PyTorch's.
//!
//! See Note [Cascade sum].

#[cfg(target_arch = "x86_64")]
use crate::vec::{Lanes, avx2};
use crate::vec::{Level, level};
use corten_core::{Complex, DType, Result, bf16, f16};
use corten_ops::iter::TensorIterator;

// Note [Cascade sum]
// `n` rows are added to an accumulator of level 0. After every 2^p rows, with p growing with n, it
// is flushed into level 1, that after as many flushes into level 2, and that into level 3; at the
// end the levels are added from the lowest up. So every sum is one of few numbers of like size.
//
// A dense slice is read as vectors of 8 lanes (4 for f64), whatever the processor has, which are
// dealt to four such cascades in turn; then come the elements that fill no vector, then the lanes.
// Rows to be added to each other are summed in blocks of four vectors, one cascade each. Any
// change of these numbers changes the last bits of sums.

/// What is added up: a vector, or one element of it.
trait Term: Copy {
    /// The zero.
    fn zero() -> Self;
    fn add(self, other: Self) -> Self;
}

/// How a dtype is read and added.
trait Summand: Copy + 'static {
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
struct InRegisters<T>(T);

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
        }
    )+};
}

#[cfg(target_arch = "x86_64")]
register_summands! {
    f32, avx2::F32;
    f64, avx2::F64;
}

/// 16-bit summands, added in `f32`; a vector of a dense slice is the sum of its two halves.
macro_rules! half_summands {
    ($($number:ty)+) => {$(
        impl Summand for $number {
            type InRegisters = Self;
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
        }
    )+};
}

half_summands! { f16 bf16 }

/// A number that counts as zero where it is NaN. Sums may be NaN nonetheless.
#[derive(Clone, Copy)]
#[repr(transparent)]
struct Present<T>(T);

macro_rules! present_summands {
    ($($number:ty, $lanes:literal;)+) => {$(
        impl Summand for Present<$number> {
            type InRegisters = Self;
            type Wide = $number;
            type Vector = [$number; $lanes];
            const INNER: usize = $lanes;
            const LANES: usize = $lanes;

            #[inline(always)]
            fn widen(self) -> $number {
                if self.0.is_nan() { 0.0 } else { self.0 }
            }
            #[inline(always)]
            fn so_far(self) -> $number {
                self.0
            }
            #[inline(always)]
            fn narrow(wide: $number) -> Self {
                Self(wide)
            }
            #[inline(always)]
            unsafe fn load_inner(from: *const Self) -> Self::Vector {
                // SAFETY: the caller vouches for that many elements.
                unsafe { from.cast::<[Self; $lanes]>().read_unaligned() }.map(Self::widen)
            }
            #[inline(always)]
            unsafe fn load_outer(from: *const Self) -> Self::Vector {
                // SAFETY: as above.
                unsafe { Self::load_inner(from) }
            }
            #[inline(always)]
            fn lane(vector: &Self::Vector, i: usize) -> $number {
                vector[i]
            }
        }
    )+};
}

present_summands! {
    f32, 8;
    f64, 4;
}

/// As [`sum`], of numbers that are not NaN, in single and double precision.
pub(crate) fn sum_present(iter: &mut TensorIterator) -> Result<bool> {
    match iter.dtype(0) {
        DType::Float32 => sum_into::<Present<f32>>(iter)?,
        DType::Float64 => sum_into::<Present<f64>>(iter)?,
        _ => return Ok(false),
    }
    Ok(true)
}

/// Adds the input of a reduction to its output, which holds zeros. Both must have the dtype of `T`.
fn sum_into<T: Summand>(iter: &mut TensorIterator) -> Result<()> {
    iter.parallel_reduce(|at, strides, n0, n1| {
        let block = Block::new(at, strides, n0, n1);
        // SAFETY: the iterator vouches for the operands of this block, of type `T`.
        unsafe { block.run::<T>() };
        Ok(())
    })
}

/// Sums over an iterator whose input and output have the same floating-point or complex dtype.
/// Returns whether the dtype is one of them.
pub(crate) fn sum(iter: &mut TensorIterator) -> Result<bool> {
    match iter.dtype(0) {
        DType::Float32 => sum_into::<f32>(iter)?,
        DType::Float64 => sum_into::<f64>(iter)?,
        DType::Float16 => sum_into::<f16>(iter)?,
        DType::BFloat16 => sum_into::<bf16>(iter)?,
        DType::Complex64 => sum_into::<Complex<f32>>(iter)?,
        DType::Complex128 => sum_into::<Complex<f64>>(iter)?,
        _ => return Ok(false),
    }
    Ok(true)
}

/// A block of the walk, turned so that the first dimension is the reduced one.
#[derive(Clone, Copy)]
struct Block {
    to: *mut u8,
    from: *const u8,
    /// Input strides along the reduced and the kept dimension.
    along: i64,
    across: i64,
    /// Output strides along both.
    out_along: i64,
    out_across: i64,
    length: i64,
    count: i64,
}

impl Block {
    fn new(at: &[*mut u8], strides: &[i64], n0: i64, n1: i64) -> Self {
        let straight = Self {
            to: at[0],
            from: at[1],
            out_along: strides[0],
            along: strides[1],
            out_across: strides[2],
            across: strides[3],
            length: n0,
            count: n1,
        };
        if straight.out_along == 0 || straight.out_across != 0 {
            return straight;
        }
        Self {
            along: straight.across,
            across: straight.along,
            out_along: straight.out_across,
            out_across: straight.out_along,
            length: n1,
            count: n0,
            ..straight
        }
    }

    /// # Safety
    /// The operands must be those of a block of an iterator, of type `T`.
    unsafe fn run<T: Summand>(self) {
        // SAFETY: the caller's; AVX2 was detected where it is used.
        unsafe {
            match level() >= Level::Avx2 {
                #[cfg(target_arch = "x86_64")]
                true => self.run_avx2::<T::InRegisters>(),
                _ => self.run_here::<T>(),
            }
        }
    }

    /// # Safety
    /// As for [`run`](Self::run), and the processor must have AVX2.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,f16c")]
    unsafe fn run_avx2<T: Summand>(self) {
        // SAFETY: the caller's.
        unsafe { self.run_here::<T>() }
    }

    /// # Safety
    /// As for [`run`](Self::run).
    #[inline(always)]
    unsafe fn run_here<T: Summand>(self) {
        let dense = size_of::<T>() as i64;
        // SAFETY: the caller's.
        unsafe {
            if self.out_along != 0 && self.out_across != 0 {
                self.elementwise::<T>();
            } else if self.along == dense && self.length >= T::INNER as i64 {
                self.dense_slices::<T>();
            } else if self.across == dense && self.count >= T::LANES as i64 {
                self.dense_columns::<T>();
            } else if self.along < self.across {
                self.slices::<T>();
            } else {
                self.columns::<T>();
            }
        }
    }

    /// The input element at a position.
    fn source<T>(&self, along: i64, across: i64) -> *const T {
        self.from.wrapping_offset((self.along * along + self.across * across) as isize).cast()
    }

    /// Adds a sum to an element of the output.
    ///
    /// # Safety
    /// As for [`run`](Self::run).
    #[inline(always)]
    unsafe fn add_to<T: Summand>(&self, across: i64, sum: T::Wide) {
        let place = self.to.wrapping_offset((self.out_across * across) as isize).cast::<T>();
        // SAFETY: the caller's.
        unsafe { place.write(T::narrow(place.read().so_far().add(sum))) };
    }

    /// Nothing is reduced in this block.
    ///
    /// # Safety
    /// As for [`run`](Self::run).
    #[inline(always)]
    unsafe fn elementwise<T: Summand>(self) {
        for i in 0..self.length {
            let moved = Self {
                to: self.to.wrapping_offset((self.out_along * i) as isize),
                from: self.from.wrapping_offset((self.along * i) as isize),
                ..self
            };
            for j in 0..self.count {
                // SAFETY: the caller's.
                unsafe { moved.add_to::<T>(j, moved.source::<T>(0, j).read().widen()) };
            }
        }
    }

    /// # Safety
    /// As for [`run`](Self::run), with dense slices.
    #[inline(always)]
    unsafe fn dense_slices<T: Summand>(self) {
        let vectors = self.length / T::INNER as i64;
        for j in 0..self.count {
            // SAFETY: there are that many vectors in the slice, and elements behind them.
            unsafe {
                let load = |i: i64| T::load_inner(self.source::<T>(i * T::INNER as i64, j));
                let lanes = row_sum(vectors, load);
                let mut sum = T::Wide::zero();
                for k in vectors * T::INNER as i64..self.length {
                    sum = sum.add(self.source::<T>(k, j).read().widen());
                }
                for lane in 0..T::LANES {
                    sum = sum.add(T::lane(&lanes, lane));
                }
                self.add_to::<T>(j, sum);
            }
        }
    }

    /// # Safety
    /// As for [`run`](Self::run).
    #[inline(always)]
    unsafe fn slices<T: Summand>(self) {
        for j in 0..self.count {
            // SAFETY: the caller's.
            unsafe {
                let sum = row_sum(self.length, |i| self.source::<T>(i, j).read().widen());
                self.add_to::<T>(j, sum);
            }
        }
    }

    /// # Safety
    /// As for [`run`](Self::run), with rows of dense columns.
    #[inline(always)]
    unsafe fn dense_columns<T: Summand>(self) {
        let lanes = T::LANES as i64;
        let mut j = 0;
        // SAFETY: the loads stay within the columns left at `j`.
        unsafe {
            while j + 4 * lanes <= self.count {
                let load = |i: i64, k: i64| T::load_outer(self.source::<T>(i, j + k * lanes));
                let sums: [T::Vector; 4] = cascade(self.length, load);
                for (k, sum) in sums.iter().enumerate() {
                    self.add_lanes::<T>(j + k as i64 * lanes, sum);
                }
                j += 4 * lanes;
            }
            while j + lanes <= self.count {
                let sum = row_sum(self.length, |i| T::load_outer(self.source::<T>(i, j)));
                self.add_lanes::<T>(j, &sum);
                j += lanes;
            }
            while j < self.count {
                let sum = row_sum(self.length, |i| self.source::<T>(i, j).read().widen());
                self.add_to::<T>(j, sum);
                j += 1;
            }
        }
    }

    /// # Safety
    /// As for [`run`](Self::run).
    #[inline(always)]
    unsafe fn add_lanes<T: Summand>(&self, across: i64, sum: &T::Vector) {
        for lane in 0..T::LANES {
            // SAFETY: the caller's.
            unsafe { self.add_to::<T>(across + lane as i64, T::lane(sum, lane)) };
        }
    }

    /// # Safety
    /// As for [`run`](Self::run).
    #[inline(always)]
    unsafe fn columns<T: Summand>(self) {
        let mut j = 0;
        // SAFETY: the caller's.
        unsafe {
            while j + 4 <= self.count {
                let load = |i: i64, k: i64| self.source::<T>(i, j + k).read().widen();
                let sums: [T::Wide; 4] = cascade(self.length, load);
                for (k, &sum) in sums.iter().enumerate() {
                    self.add_to::<T>(j + k as i64, sum);
                }
                j += 4;
            }
            while j < self.count {
                let sum = row_sum(self.length, |i| self.source::<T>(i, j).read().widen());
                self.add_to::<T>(j, sum);
                j += 1;
            }
        }
    }
}

/// Sums `n` terms: dealt to four cascades in turn.
#[inline(always)]
fn row_sum<V: Term>(n: i64, load: impl Fn(i64) -> V) -> V {
    let rounds = n / 4;
    let mut sums: [V; 4] = cascade(rounds, |i, k| load(4 * i + k));
    for i in 4 * rounds..n {
        sums[0] = sums[0].add(load(i));
    }
    sums[0].add(sums[1]).add(sums[2]).add(sums[3])
}

/// Sums `n` rows of four terms.
#[inline(always)]
fn cascade<V: Term>(n: i64, load: impl Fn(i64, i64) -> V) -> [V; 4] {
    let power = 4.max(ceil_log2(n) / 4);
    let (step, mask) = (1i64 << power, (1i64 << power) - 1);
    let mut sums = [[V::zero(); 4]; 4];
    let mut i = 0;
    while i + step <= n {
        let mut lowest = sums[0];
        for row in i..i + step {
            for (k, sum) in lowest.iter_mut().enumerate() {
                *sum = sum.add(load(row, k as i64));
            }
        }
        sums[0] = lowest;
        i += step;
        for level in 1..4 {
            sums[level] = sums[level].add(sums[level - 1]);
            sums[level - 1] = [V::zero(); 4];
            if i & (mask << (level as u32 * power)) != 0 {
                break;
            }
        }
    }
    let mut lowest = sums[0];
    for row in i..n {
        for (k, sum) in lowest.iter_mut().enumerate() {
            *sum = sum.add(load(row, k as i64));
        }
    }
    lowest.add(sums[1]).add(sums[2]).add(sums[3])
}

fn ceil_log2(n: i64) -> u32 {
    if n <= 2 { 1 } else { 64 - (n as u64 - 1).leading_zeros() }
}

//! The sum of floating-point numbers, in an order that keeps the error small and that is the
//! same, bit for bit, as PyTorch's.
//!
//! See Note [Cascade sum].

mod columns;
mod summand;

use crate::vec::{Level, level};
use corten_core::{Complex, DType, Result, bf16, f16};
use corten_ops::iter::TensorIterator;
use std::ops::Range;
use summand::{MOST_LANES, Parts, Present, Summand, Term};

// Note [Cascade sum]
// `n` rows are added to an accumulator of level 0. After every 2^p rows, with p growing with n, it
// is flushed into level 1, that after as many flushes into level 2, and that into level 3; at the
// end the levels are added from the lowest up. So every sum is one of few numbers of like size.
//
// A dense slice is read as vectors of 8 lanes (4 for f64), whatever the processor has, which are
// dealt to four such cascades in turn; then come the elements that fill no vector, then the lanes.
// Rows to be added to each other are summed in blocks of four vectors, one cascade each. Any
// change of these numbers changes the last bits of sums.

/// As [`sum`], of numbers that are not NaN and not complex.
pub(crate) fn sum_present(iter: &mut TensorIterator) -> Result<bool> {
    match iter.dtype(0) {
        DType::Float32 => sum_into::<Present<f32>>(iter)?,
        DType::Float64 => sum_into::<Present<f64>>(iter)?,
        DType::Float16 => sum_into::<Present<f16>>(iter)?,
        DType::BFloat16 => sum_into::<Present<bf16>>(iter)?,
        _ => return Ok(false),
    }
    Ok(true)
}

/// Adds the input of a reduction to its output, which holds zeros. Both must have the dtype of `T`.
fn sum_into<T: Summand>(iter: &mut TensorIterator) -> Result<()> {
    iter.parallel_reduce(|at, strides, n0, n1| {
        let block = ReducedBlock::new(at, strides, n0, n1);
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
struct ReducedBlock {
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

impl ReducedBlock {
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
        let lanes = T::LANES as i64;
        let mut j = 0;
        // SAFETY: the caller's; so many slices are left at `j`.
        unsafe {
            while j + lanes <= self.count {
                let mut parts = [Parts::zero(); MOST_LANES];
                for (parts, j) in parts.iter_mut().zip(j..j + lanes) {
                    *parts = self.parts_of::<T>(j);
                }
                self.add_lanes::<T>(j, &T::totals(&parts));
                j += lanes;
            }
            while j < self.count {
                self.add_to::<T>(j, T::total(&self.parts_of::<T>(j)));
                j += 1;
            }
        }
    }

    /// # Safety
    /// As for [`run`](Self::run), with dense slices.
    #[inline(always)]
    unsafe fn parts_of<T: Summand>(&self, slice: i64) -> Parts<T::Wide, T::Vector> {
        let vectors = self.length / T::INNER as i64;
        // SAFETY: there are that many vectors in the slice, and elements behind them.
        unsafe {
            let load = |i: i64| T::load_inner(self.source::<T>(i * T::INNER as i64, slice));
            let lanes = row_sum(vectors, load);
            let mut rest = T::Wide::zero();
            for k in vectors * T::INNER as i64..self.length {
                rest = rest.add(self.source::<T>(k, slice).read().widen());
            }
            Parts { rest, lanes }
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
                let groups = columns::MOST.min((self.count - j) / (4 * lanes));
                self.groups_of_columns::<T>(j, groups);
                j += groups * 4 * lanes;
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
        if self.out_across == size_of::<T>() as i64 {
            let place = self.to.wrapping_offset((self.out_across * across) as isize);
            // SAFETY: the caller's.
            return unsafe { T::add_to(place.cast(), sum) };
        }
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
    let levels = Levels::of(n);
    if n < levels.step() {
        // Sums begin with a zero that has no sign, so that other zeros would not change them.
        return rows(0..n, &load);
    }
    let mut higher = Higher::zero();
    let mut i = 0;
    while i + levels.step() <= n {
        let lowest = rows(i..i + levels.step(), &load);
        i += levels.step();
        higher.flush(lowest, i, levels);
    }
    higher.total(rows(i..n, &load))
}

/// How many rows a level has.
#[derive(Clone, Copy)]
struct Levels {
    power: u32,
}

impl Levels {
    /// Those of so many rows.
    #[inline(always)]
    fn of(n: i64) -> Self {
        Self { power: 4.max(ceil_log2(n) / 4) }
    }

    /// The rows of level 0.
    #[inline(always)]
    fn step(self) -> i64 {
        1 << self.power
    }

    /// Whether a level goes on after so many rows.
    #[inline(always)]
    fn goes_on(self, level: u32, rows: i64) -> bool {
        rows & ((self.step() - 1) << (level * self.power)) != 0
    }
}

/// The sums of the levels above level 0.
#[derive(Clone, Copy)]
struct Higher<V>([[V; 4]; 3]);

impl<V: Term> Higher<V> {
    #[inline(always)]
    fn zero() -> Self {
        Self([[V::zero(); 4]; 3])
    }

    /// With the sums of level 0, which end after so many rows.
    #[inline(always)]
    fn flush(&mut self, lowest: [V; 4], rows: i64, levels: Levels) {
        self.0[0] = self.0[0].add(lowest);
        for level in 1..3 {
            if levels.goes_on(level as u32, rows) {
                return;
            }
            self.0[level] = self.0[level].add(self.0[level - 1]);
            self.0[level - 1] = [V::zero(); 4];
        }
    }

    #[inline(always)]
    fn total(self, lowest: [V; 4]) -> [V; 4] {
        lowest.add(self.0[0]).add(self.0[1]).add(self.0[2])
    }
}

/// Sums rows of four terms, which are few.
#[inline(always)]
fn rows<V: Term>(rows: Range<i64>, load: &impl Fn(i64, i64) -> V) -> [V; 4] {
    let mut sums = [V::zero(); 4];
    for row in rows {
        for (k, sum) in sums.iter_mut().enumerate() {
            *sum = sum.add(load(row, k as i64));
        }
    }
    sums
}

fn ceil_log2(n: i64) -> u32 {
    if n <= 2 { 1 } else { 64 - (n as u64 - 1).leading_zeros() }
}

//! Arithmetic on rows of `f32` and `f64`: what softmax, normalisation, attention and the losses
//! are made of. Half precisions are widened into a buffer first; see [`Float`].

use crate::row_loops::{ExpMinus, Vectorised, compiled, map, map_in_place};
use corten_core::{Element, bf16, cast, f16};
use std::fmt::Debug;
use std::ops::{Add, AddAssign, Div, Mul, Neg, Sub};

/// Partial sums are kept in this many lanes, whatever the instruction set, so that results do not
/// depend on it.
const LANES: usize = 16;

/// A number that rows are computed in.
pub(crate) trait Wide:
    Vectorised
    + Float<Wide = Self>
    + Default
    + PartialOrd
    + Debug
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
    + AddAssign
{
    /// Zero.
    const ZERO: Self;
    /// One.
    const ONE: Self;
    /// Minus infinity.
    const NEG_INFINITY: Self;

    /// The nearest number of this type.
    fn of(value: f64) -> Self;
    /// The number as `f64`.
    fn as_f64(self) -> f64;
    /// $e^x$.
    fn exp(self) -> Self;
    /// Natural logarithm.
    fn ln(self) -> Self;
    /// Whether this is NaN.
    fn is_nan(self) -> bool;

    /// The largest element, NaN if there is one; minus infinity for an empty row.
    fn max_of(row: &[Self]) -> Self {
        let lanes = compiled(|| {
            let mut lanes = [Self::NEG_INFINITY; LANES];
            for_lanes(row, |lane, value| {
                let best = lanes[lane];
                lanes[lane] = if value > best || value.is_nan() { value } else { best };
            });
            lanes
        });
        let pick = |a: Self, b: Self| if a.is_nan() || a > b { a } else { b };
        lanes.into_iter().fold(Self::NEG_INFINITY, |best, value| pick(value, best))
    }

    /// The sum of the elements.
    fn sum_of(row: &[Self]) -> Self {
        compiled(|| {
            let mut lanes = [Self::ZERO; LANES];
            for_lanes(row, |lane, value| lanes[lane] += value);
            fold_lanes(lanes)
        })
    }

    /// The sum of the products of two rows of the same length.
    fn dot(a: &[Self], b: &[Self]) -> Self {
        compiled(|| {
            let mut lanes = [Self::ZERO; LANES];
            for_lanes2(a, b, |lane, x, y| lanes[lane] += x * y);
            fold_lanes(lanes)
        })
    }

    /// `out = exp(row - shift)`; returns the sum of `out`.
    fn exp_minus(out: &mut [Self], row: &[Self], shift: Self) -> Self {
        map(out, row, ExpMinus(shift));
        Self::sum_of(out)
    }

    /// `row = exp(row - shift)`; returns the sum of `row`.
    fn exp_minus_in_place(row: &mut [Self], shift: Self) -> Self {
        map_in_place(row, ExpMinus(shift));
        Self::sum_of(row)
    }

    /// The sum of `exp(row - shift)`.
    fn sum_exp_minus(row: &[Self], shift: Self) -> Self {
        let (mut lanes, mut powers) = ([Self::ZERO; LANES], [Self::ZERO; EXP_BLOCK]);
        for block in row.chunks(EXP_BLOCK) {
            let powers = &mut powers[..block.len()];
            map(powers, block, ExpMinus(shift));
            for_lanes(powers, |lane, value| lanes[lane] += value);
        }
        fold_lanes(lanes)
    }

    /// `row *= factor`.
    fn scale(row: &mut [Self], factor: Self) {
        compiled(|| row.iter_mut().for_each(|value| *value = *value * factor));
    }

    /// `out = row * factor + shift`.
    fn affine(out: &mut [Self], row: &[Self], factor: Self, shift: Self) {
        compiled(|| {
            for (out, &value) in out.iter_mut().zip(row) {
                *out = value * factor + shift;
            }
        });
    }

    /// Count, mean and squared distances of a row.
    fn moments(row: &[Self]) -> Moments {
        let mut total = Moments::default();
        compiled(|| row.chunks(MOMENTS_BLOCK).for_each(|block| total.merge(block_moments(block))));
        total
    }
}

/// Exponentials that are only summed are computed this many at a time, a multiple of the lanes.
const EXP_BLOCK: usize = 256;

/// Rows longer than this are combined from blocks in `f64`, so that long sums stay exact.
const MOMENTS_BLOCK: usize = 1024;

/// The first two moments of some numbers.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Moments {
    /// How many there are.
    pub count: f64,
    /// Their mean.
    pub mean: f64,
    /// The sum of the squared distances from the mean.
    pub squares: f64,
}

impl Moments {
    /// Takes in the moments of other numbers (Chan's rule).
    pub(crate) fn merge(&mut self, other: Self) {
        let count = self.count + other.count;
        if other.count == 0.0 {
            return;
        }
        let distance = other.mean - self.mean;
        self.mean += distance * (other.count / count);
        self.squares += other.squares + distance * distance * self.count * other.count / count;
        self.count = count;
    }

    /// The biased variance; NaN of nothing.
    pub(crate) fn variance(&self) -> f64 {
        self.squares / self.count
    }
}

#[inline(always)]
fn block_moments<W: Wide>(row: &[W]) -> Moments {
    let count = row.len() as f64;
    let mut sums = [W::ZERO; LANES];
    for_lanes(row, |lane, value| sums[lane] += value);
    let mean = W::of(fold_lanes(sums).as_f64() / count);
    let (mut squares, mut errors) = ([W::ZERO; LANES], [W::ZERO; LANES]);
    for_lanes(row, |lane, value| {
        let distance = value - mean;
        squares[lane] += distance * distance;
        errors[lane] += distance;
    });
    // The second sum corrects for the rounding of the mean.
    let error = fold_lanes(errors).as_f64();
    let squares = fold_lanes(squares).as_f64() - error * error / count;
    Moments { count, mean: mean.as_f64() + error / count, squares: squares.max(0.0) }
}

/// Calls `f(lane, value)` for every element.
#[inline(always)]
fn for_lanes<T: Copy>(row: &[T], mut f: impl FnMut(usize, T)) {
    let (blocks, rest) = row.as_chunks::<LANES>();
    for block in blocks {
        (0..LANES).for_each(|lane| f(lane, block[lane]));
    }
    rest.iter().enumerate().for_each(|(lane, &value)| f(lane, value));
}

/// Calls `f(lane, a, b)` for every pair of elements.
#[inline(always)]
fn for_lanes2<T: Copy>(a: &[T], b: &[T], mut f: impl FnMut(usize, T, T)) {
    let ((a_blocks, a_rest), (b_blocks, b_rest)) = (a.as_chunks::<LANES>(), b.as_chunks::<LANES>());
    for (x, y) in a_blocks.iter().zip(b_blocks) {
        (0..LANES).for_each(|lane| f(lane, x[lane], y[lane]));
    }
    a_rest.iter().zip(b_rest).enumerate().for_each(|(lane, (&x, &y))| f(lane, x, y));
}

/// The sum of the lanes, halving.
#[inline(always)]
fn fold_lanes<T: Copy + Add<Output = T>>(mut lanes: [T; LANES]) -> T {
    let mut width = LANES / 2;
    while width > 0 {
        for lane in 0..width {
            lanes[lane] = lanes[lane] + lanes[lane + width];
        }
        width /= 2;
    }
    lanes[0]
}

macro_rules! wide {
    ($t:ident) => {
        impl Wide for $t {
            const ZERO: Self = 0.0;
            const ONE: Self = 1.0;
            const NEG_INFINITY: Self = $t::NEG_INFINITY;

            #[inline(always)]
            fn of(value: f64) -> Self {
                value as $t
            }
            #[inline(always)]
            fn as_f64(self) -> f64 {
                f64::from(self)
            }
            #[inline(always)]
            fn exp(self) -> Self {
                $t::exp(self)
            }
            #[inline(always)]
            fn ln(self) -> Self {
                $t::ln(self)
            }
            #[inline(always)]
            fn is_nan(self) -> bool {
                $t::is_nan(self)
            }
        }

        impl Float for $t {
            type Wide = $t;

            #[inline(always)]
            fn widen(self) -> $t {
                self
            }
            #[inline(always)]
            fn narrow(value: $t) -> Self {
                value
            }
            fn wide_row<'a>(row: &'a [Self], _: &'a mut Vec<$t>) -> &'a [$t] {
                row
            }
            fn fill(out: &mut [Self], _: &mut Vec<$t>, compute: impl FnOnce(&mut [$t])) {
                compute(out);
            }
        }
    };
}

wide!(f32);
wide!(f64);

/// A floating-point element type and the type it is computed in.
pub(crate) trait Float: Element {
    /// `f32` for the half precisions, else the type itself.
    type Wide: Wide;

    /// The number in the wider type.
    fn widen(self) -> Self::Wide;
    /// The nearest number of this type.
    fn narrow(value: Self::Wide) -> Self;
    /// The row in the wider type: itself, or converted into the buffer.
    fn wide_row<'a>(row: &'a [Self], buffer: &'a mut Vec<Self::Wide>) -> &'a [Self::Wide];
    /// Lets `compute` fill `out`, by way of the buffer where the types differ. What `compute` finds
    /// there is not specified.
    fn fill(
        out: &mut [Self],
        buffer: &mut Vec<Self::Wide>,
        compute: impl FnOnce(&mut [Self::Wide]),
    );
}

macro_rules! half {
    ($($t:ty),*) => {$(
        impl Float for $t {
            type Wide = f32;

            #[inline(always)]
            fn widen(self) -> f32 {
                cast(self)
            }
            #[inline(always)]
            fn narrow(value: f32) -> Self {
                Self::from_f32(value)
            }
            fn wide_row<'a>(row: &'a [Self], buffer: &'a mut Vec<f32>) -> &'a [f32] {
                buffer.clear();
                buffer.extend(row.iter().map(|&value| cast::<Self, f32>(value)));
                buffer
            }
            fn fill(
                out: &mut [Self],
                buffer: &mut Vec<f32>,
                compute: impl FnOnce(&mut [f32]),
            ) {
                buffer.clear();
                buffer.resize(out.len(), 0.0);
                compute(buffer);
                for (out, &value) in out.iter_mut().zip(buffer.iter()) {
                    *out = Self::from_f32(value);
                }
            }
        }
    )*};
}

half!(f16, bf16);

/// Runs the expression with `T` as a floating-point element type.
macro_rules! match_float {
    ($dtype:expr, $name:expr, $t:ident => $body:expr) => {
        $crate::kernels::support::match_types!($dtype, $name, $t => $body, [
            Float16 ::corten_core::f16, BFloat16 ::corten_core::bf16, Float32 f32, Float64 f64,
        ])
    };
}

/// Runs the expression with `T` as `f32` or `f64`.
macro_rules! match_wide {
    ($dtype:expr, $name:expr, $t:ident => $body:expr) => {
        $crate::kernels::support::match_types!($dtype, $name, $t => $body, [
            Float32 f32, Float64 f64,
        ])
    };
}

pub(crate) use {match_float, match_wide};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_every_length_are_reduced_wholly() {
        for length in 0..70 {
            let row: Vec<f32> = (0..length).map(|i| (i as f32 * 7.3) % 5.0 - 2.0).collect();
            let sum: f64 = row.iter().map(|&x| f64::from(x)).sum();
            assert!((f64::from(f32::sum_of(&row)) - sum).abs() < 1e-4);
            let max = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            assert_eq!(f32::max_of(&row), max);
            let Moments { mean, squares, .. } = f32::moments(&row);
            let count = f64::from(length).max(1.0);
            let exact: f64 = row.iter().map(|&x| (f64::from(x) - sum / count).powi(2)).sum();
            assert!((mean - sum / count).abs() < 1e-5);
            assert!((squares - exact).abs() < 1e-3);
        }
    }

    #[test]
    fn the_largest_of_a_row_with_nan_is_nan() {
        for place in 0..40 {
            let mut row = vec![1.0f64; 40];
            row[place] = f64::NAN;
            assert!(f64::max_of(&row).is_nan());
        }
        assert_eq!(f64::max_of(&[f64::NEG_INFINITY; 3]), f64::NEG_INFINITY);
    }
}

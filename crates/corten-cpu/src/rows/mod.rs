//! Arithmetic on rows of `f32` and `f64`: what softmax, normalisation, attention and the losses
//! are made of. Half precisions are widened into a buffer first; see [`Float`].

pub(crate) mod folds;
pub(crate) mod loops;
pub(crate) mod macros;

use crate::rows::loops::{
    MultiplyAdd, RowFold, Vectorised, folded, map, map_in_place, map_in_place_and_fold, map_over,
    row_folds, row_functions,
};
use crate::vec::Lanes;
use crate::vec::convert::convert_row;
use corten_core::{Element, bf16, cast, f16, unwinding};
use std::fmt::Debug;
use std::ops::{Add, AddAssign, Div, Mul, Neg, Sub};

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
        let [most] = folded([row], Largest);
        most
    }

    /// The sum of the elements.
    fn sum_of(row: &[Self]) -> Self {
        let [sum] = folded([row], Sum);
        sum
    }

    /// The sum of the products of two rows of the same length.
    fn dot(a: &[Self], b: &[Self]) -> Self {
        let [sum] = folded([a, b], Products);
        sum
    }

    /// `row = exp(row - shift)`; returns the sum of `row`.
    fn exp_minus_in_place(row: &mut [Self], shift: Self) -> Self {
        map_in_place_and_fold(row, ExpMinus { shift }, Sum)
    }

    /// The sum of `exp(row - shift)`.
    fn sum_exp_minus(row: &[Self], shift: Self) -> Self {
        let [sum] = folded([row], Powers { shift });
        sum
    }

    /// `row *= factor`.
    fn scale(row: &mut [Self], factor: Self) {
        map_in_place(row, Times { factor });
    }

    /// `row += other`.
    fn add_row(row: &mut [Self], other: &[Self]) {
        map_over(row, other, Plus);
    }

    /// `row = (row - shift) * other`.
    fn shift_and_multiply(row: &mut [Self], shift: Self, other: &[Self]) {
        map_over(row, other, Shifted { shift });
    }

    /// `out = row * factor + shift`.
    fn affine(out: &mut [Self], row: &[Self], factor: Self, shift: Self) {
        map(out, [row], MultiplyAdd { factor, shift });
    }

    /// Count, mean and squared distances of a row.
    fn moments(row: &[Self]) -> Moments {
        let mut all = Moments::default();
        row.chunks(BLOCK).for_each(|block| all.merge(block_moments(block)));
        all
    }

    /// The sums of `grad` and of `grad * (row - mean)`, from which gradients of normalised rows are
    /// made.
    fn gradient_sums(grad: &[Self], row: &[Self], mean: Self) -> (f64, f64) {
        let blocks = grad.chunks(BLOCK).zip(row.chunks(BLOCK));
        sums_of_blocks(blocks, |(grad, row)| folded([grad, row], GradientSums { mean }))
    }

    /// [`gradient_sums`](Self::gradient_sums) with `grad` times `weight`.
    fn weighted_gradient_sums(
        grad: &[Self],
        weight: &[Self],
        row: &[Self],
        mean: Self,
    ) -> (f64, f64) {
        let blocks = grad.chunks(BLOCK).zip(weight.chunks(BLOCK)).zip(row.chunks(BLOCK));
        sums_of_blocks(blocks, |((grad, weight), row)| {
            folded([grad, weight, row], WeightedGradientSums { mean })
        })
    }
}

row_folds! {
    Sum: 1 to 1 |sum; x| sum + x;
    Products: 2 to 1 |sum; x, y| x.mul_add(y, sum);
    Powers { shift }: 1 to 1 |sum; x| sum + (x - shift).exp();
    /// Squared distances from a number, and the distances, which correct for its rounding.
    Distances { mean }: 1 to 2 |squares, errors; x|
        (x - mean).mul_add(x - mean, squares), errors + (x - mean);
    GradientSums { mean }: 2 to 2 |plain, along; g, x| plain + g, g.mul_add(x - mean, along);
    WeightedGradientSums { mean }: 3 to 2 |plain, along; g, w, x|
        g.mul_add(w, plain), (g * w).mul_add(x - mean, along);
}

row_functions! {
    /// e to the power of the distance from a number.
    ExpMinus { shift }: 1 |x| (x - shift).exp();
    Times { factor }: 1 |x| x * factor;
    Plus: 2 |x, y| x + y;
    Shifted { shift }: 2 |x, y| (x - shift) * y;
}

/// The largest element; NaN if there is one.
#[derive(Clone, Copy)]
pub(crate) struct Largest;

impl<T: Wide> RowFold<T, 1, 1> for Largest {
    const START: [f64; 1] = [f64::NEG_INFINITY];

    #[inline(always)]
    fn step<V: Lanes<Elem = T>>(self, [best]: [V; 1], [x]: [V; 1]) -> [V; 1] {
        [x.max(best)]
    }
    #[inline(always)]
    fn combine<V: Lanes<Elem = T>>(self, [x]: [V; 1], [y]: [V; 1]) -> [V; 1] {
        [x.max(y)]
    }
}

/// Longer rows are put together from blocks in `f64`, so that long sums stay exact.
const BLOCK: usize = 1024;

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
        if self.count == 0.0 {
            *self = other;
            return;
        }
        if other.count == 0.0 {
            return;
        }
        let count = self.count + other.count;
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

fn block_moments<W: Wide>(row: &[W]) -> Moments {
    let count = row.len() as f64;
    let mean = W::of(W::sum_of(row).as_f64() / count);
    let [squares, error] = folded([row], Distances { mean }).map(W::as_f64);
    let squares = squares - error * error / count;
    Moments { count, mean: mean.as_f64() + error / count, squares: squares.max(0.0) }
}

/// Two sums over blocks, put together in `f64`.
fn sums_of_blocks<W: Wide, B>(
    blocks: impl Iterator<Item = B>,
    sums_of: impl Fn(B) -> [W; 2],
) -> (f64, f64) {
    blocks.map(sums_of).fold((0.0, 0.0), |sums, [first, second]| {
        (sums.0 + first.as_f64(), sums.1 + second.as_f64())
    })
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
                unwinding::resize(buffer, row.len(), 0.0);
                convert_row(row, buffer);
                buffer
            }
            fn fill(
                out: &mut [Self],
                buffer: &mut Vec<f32>,
                compute: impl FnOnce(&mut [f32]),
            ) {
                unwinding::resize(buffer, out.len(), 0.0);
                compute(buffer);
                convert_row(buffer, out);
            }
        }
    )*};
}

half!(f16, bf16);

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

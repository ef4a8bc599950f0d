//! Norms, means and variances as folds.

use crate::reduce::folds::{larger, smaller};
use crate::reduce::loops::Fold;
use crate::rows::loops::{RowKernel, Vectorised, map_in_place, row_functions};
use crate::vec::{Lanes, prefetch_early};
use corten_core::{Complex, Element};
use std::marker::PhantomData;

/// Numbers with a magnitude.
pub(crate) trait Magnitude: Element {
    fn magnitude(self) -> f64;
    fn square(self) -> f64;

    /// The sum of the squares of a run.
    #[inline(always)]
    fn sum_of_squares(run: &[Self]) -> f64 {
        sum_of(run, Self::square)
    }
}

impl Magnitude for f64 {
    #[inline(always)]
    fn magnitude(self) -> f64 {
        self.abs()
    }
    #[inline(always)]
    fn square(self) -> f64 {
        self * self
    }
}

impl Magnitude for f32 {
    #[inline(always)]
    fn magnitude(self) -> f64 {
        f64::from(self.abs())
    }
    #[inline(always)]
    fn square(self) -> f64 {
        f64::from(self) * f64::from(self)
    }

    fn sum_of_squares(run: &[Self]) -> f64 {
        Self::run(Squares { run })
    }
}

/// Elements that are asked for before they are squared: the sums are faster than what the processor
/// foresees by itself.
const AHEAD: usize = 1024;

/// The sum of the squares of a run.
struct Squares<'a> {
    run: &'a [f32],
}

impl RowKernel<f32> for Squares<'_> {
    type Out = f64;

    /// The square is exact in double precision, so that one rounding gives what two do; vectors of fewer
    /// than eight lanes may have no instruction for that.
    #[inline(always)]
    fn run<V: Lanes<Elem = f32>>(self) -> f64 {
        if V::LANES < 8 {
            return sum_of(self.run, f32::square);
        }
        let fused = |sum: f64, x: f32| f64::from(x).mul_add(f64::from(x), sum);
        let ask = |chunk: &[f32]| {
            prefetch_early(chunk.as_ptr().wrapping_add(AHEAD).cast(), size_of_val(chunk));
        };
        lanes_asking::<32, _, _>(self.run, 0.0, ask, fused, |a, b| a + b)
    }
}

impl Magnitude for Complex<f64> {
    #[inline(always)]
    fn magnitude(self) -> f64 {
        self.re.hypot(self.im)
    }
    #[inline(always)]
    fn square(self) -> f64 {
        self.norm_sqr()
    }
}

/// The order of a vector norm.
#[derive(Clone, Copy)]
pub(crate) enum NormOrder {
    /// The number of elements that are not zero.
    Zero,
    One,
    Two,
    /// The greatest magnitude.
    Infinite,
    /// The least magnitude.
    NegativeInfinite,
    Other(f64),
}

impl NormOrder {
    pub(crate) fn new(order: f64) -> Self {
        match order {
            0.0 => Self::Zero,
            1.0 => Self::One,
            2.0 => Self::Two,
            f64::INFINITY => Self::Infinite,
            f64::NEG_INFINITY => Self::NegativeInfinite,
            other => Self::Other(other),
        }
    }
}

/// A vector norm, in double precision.
pub(crate) struct Norm<T> {
    order: NormOrder,
    of: PhantomData<fn(T)>,
}

impl<T> Norm<T> {
    pub(crate) fn new(order: NormOrder) -> Self {
        Self { order, of: PhantomData }
    }
}

impl<T: Magnitude> Fold for Norm<T> {
    type In = T;
    type Acc = f64;
    type Out = (f64,);

    #[inline(always)]
    fn start(&self) -> f64 {
        if matches!(self.order, NormOrder::NegativeInfinite) { f64::INFINITY } else { 0.0 }
    }
    #[inline(always)]
    fn step(&self, acc: f64, x: T, _: i64) -> f64 {
        match self.order {
            NormOrder::Zero => acc + f64::from(u8::from(x.magnitude() != 0.0)),
            NormOrder::One => acc + x.magnitude(),
            NormOrder::Two => acc + x.square(),
            NormOrder::Infinite => larger(acc, x.magnitude()),
            NormOrder::NegativeInfinite => smaller(acc, x.magnitude()),
            NormOrder::Other(p) => acc + x.magnitude().powf(p),
        }
    }
    #[inline(always)]
    fn combine(&self, a: f64, b: f64) -> f64 {
        match self.order {
            NormOrder::Infinite => larger(a, b),
            NormOrder::NegativeInfinite => smaller(a, b),
            _ => a + b,
        }
    }
    /// Decided once for a run, not for every element.
    #[inline(always)]
    fn run(&self, acc: f64, row: &[T], _: i64) -> f64 {
        match self.order {
            NormOrder::One => acc + sum_of(row, T::magnitude),
            NormOrder::Two => acc + T::sum_of_squares(row),
            NormOrder::Infinite => {
                lanes::<32, _, _>(row, acc, |best, x| larger(best, x.magnitude()), larger)
            }
            NormOrder::Other(p) => row.chunks(POWERS).fold(acc, |acc, part| {
                with_powers(part, p, |powers| acc + sum_of(powers, |power| power))
            }),
            _ => row.iter().fold(acc, |acc, &x| self.step(acc, x, 0)),
        }
    }
    /// Decided once for a row.
    #[inline(always)]
    fn step_each(&self, states: &[f64], next: &mut [f64], row: &[T], _: i64) {
        let all = next.iter_mut().zip(states).zip(row);
        match self.order {
            NormOrder::One => all.for_each(|((next, sum), x)| *next = sum + x.magnitude()),
            NormOrder::Two => all.for_each(|((next, sum), x)| *next = sum + x.square()),
            NormOrder::Other(p) => {
                let sums = next.chunks_mut(POWERS).zip(states.chunks(POWERS));
                for ((next, sums), part) in sums.zip(row.chunks(POWERS)) {
                    with_powers(part, p, |powers| {
                        let all = next.iter_mut().zip(sums).zip(powers);
                        all.for_each(|((next, sum), power)| *next = sum + power);
                    });
                }
            }
            _ => all.for_each(|((next, &acc), &x)| *next = self.step(acc, x, 0)),
        }
    }
    #[inline(always)]
    fn finish(&self, acc: f64, _: i64) -> (f64,) {
        (match self.order {
            NormOrder::Two => acc.sqrt(),
            NormOrder::Other(p) => acc.powf(1.0 / p),
            _ => acc,
        },)
    }
}

/// Numbers with a mean.
pub(crate) trait Averaged: Magnitude {
    fn zero() -> Self;
    fn not_a_number() -> Self;
    fn plus(self, other: Self) -> Self;
    fn minus(self, other: Self) -> Self;
    fn times(self, factor: f64) -> Self;
}

macro_rules! averaged {
    ($($number:ty: $zero:expr, $nan:expr;)+) => {$(
        impl Averaged for $number {
            #[inline(always)]
            fn zero() -> Self {
                $zero
            }
            fn not_a_number() -> Self {
                $nan
            }
            #[inline(always)]
            fn plus(self, other: Self) -> Self {
                self + other
            }
            #[inline(always)]
            fn minus(self, other: Self) -> Self {
                self - other
            }
            #[inline(always)]
            fn times(self, factor: f64) -> Self {
                self * factor
            }
        }
    )+};
}

averaged! {
    f64: 0.0, f64::NAN;
    Complex<f64>: Complex::new(0.0, 0.0), Complex::new(f64::NAN, f64::NAN);
}

/// Count, mean and sum of squared deviations.
#[derive(Clone, Copy)]
pub(crate) struct Moments<T> {
    count: f64,
    mean: T,
    squares: f64,
}

/// The variance or its root, and with `MEAN` the mean.
///
/// Runs are summed twice, for the mean and for the deviations from it, and put together by the
/// formula of Chan, Golub and LeVeque; so neither large means nor many elements cost accuracy.
pub(crate) struct Variance<T, const MEAN: bool> {
    correction: f64,
    root: bool,
    of: PhantomData<fn(T)>,
}

/// Elements of a run that is summed twice: it stays in the first-level cache.
const RUN: usize = 512;

impl<T: Averaged, const MEAN: bool> Variance<T, MEAN> {
    pub(crate) fn new(correction: f64, root: bool) -> Self {
        Self { correction, root, of: PhantomData }
    }

    #[inline(always)]
    fn moments(run: &[T]) -> Moments<T> {
        let count = run.len() as f64;
        let sum = lanes::<8, _, _>(run, T::zero(), |acc, x| acc.plus(x), T::plus);
        let mean = sum.times(1.0 / count);
        let squares =
            lanes::<8, _, _>(run, 0.0, |acc, x| acc + x.minus(mean).square(), |a, b| a + b);
        Moments { count, mean, squares }
    }

    #[inline(always)]
    fn spread(&self, acc: &Moments<T>) -> f64 {
        let freedom = (acc.count - self.correction).max(0.0);
        // NaN where the mean is not finite: there is no deviation from it.
        let undefined = acc.mean.minus(acc.mean).square();
        let variance = (acc.squares + undefined) / freedom;
        if self.root { variance.sqrt() } else { variance }
    }

    #[inline(always)]
    fn mean(acc: &Moments<T>) -> T {
        if acc.count == 0.0 { T::not_a_number() } else { acc.mean }
    }
}

/// Elements whose powers are computed at a time.
const POWERS: usize = 128;

row_functions! {
    Power { exponent }: 1 |x| x.pow(exponent);
}

/// The powers of the magnitudes of up to [`POWERS`] elements, in the vectors of the machine.
#[inline(always)]
fn with_powers<T: Magnitude, R>(part: &[T], p: f64, then: impl FnOnce(&[f64]) -> R) -> R {
    let mut powers = [0.0; POWERS];
    let powers = &mut powers[..part.len()];
    for (power, x) in powers.iter_mut().zip(part) {
        *power = x.magnitude();
    }
    map_in_place(powers, Power { exponent: p });
    then(powers)
}

/// The sum of a term over a run.
#[inline(always)]
fn sum_of<T: Copy>(run: &[T], term: impl Fn(T) -> f64) -> f64 {
    lanes::<32, _, _>(run, 0.0, |sum, x| sum + term(x), |a, b| a + b)
}

/// Puts a run together in some lanes, so that no step waits for the one before.
#[inline(always)]
fn lanes<const LANES: usize, T: Copy, A: Copy>(
    run: &[T],
    start: A,
    step: impl Fn(A, T) -> A,
    combine: impl Fn(A, A) -> A,
) -> A {
    lanes_asking::<LANES, T, A>(run, start, |_| (), step, combine)
}

/// [`lanes`], where every part of the run is shown to `ask` before it is put in.
#[inline(always)]
fn lanes_asking<const LANES: usize, T: Copy, A: Copy>(
    run: &[T],
    start: A,
    ask: impl Fn(&[T]),
    step: impl Fn(A, T) -> A,
    combine: impl Fn(A, A) -> A,
) -> A {
    let mut lanes = [start; LANES];
    let chunks = run.chunks_exact(LANES);
    let rest = chunks.remainder();
    for chunk in chunks {
        ask(chunk);
        for (lane, &x) in lanes.iter_mut().zip(chunk) {
            *lane = step(*lane, x);
        }
    }
    let sum = lanes.into_iter().fold(start, combine);
    rest.iter().fold(sum, |acc, &x| step(acc, x))
}

/// The part of `Fold` that does not depend on the results.
macro_rules! variance_fold {
    ($mean:literal, $out:ty, |$this:ident, $acc:ident| $finish:expr) => {
        impl<T: Averaged> Fold for Variance<T, $mean> {
            type In = T;
            type Acc = Moments<T>;
            type Out = $out;

            #[inline(always)]
            fn start(&self) -> Moments<T> {
                Moments { count: 0.0, mean: T::zero(), squares: 0.0 }
            }
            #[inline(always)]
            fn step(&self, acc: Moments<T>, x: T, _: i64) -> Moments<T> {
                let count = acc.count + 1.0;
                let away = x.minus(acc.mean);
                let mean = acc.mean.plus(away.times(1.0 / count));
                let squares = acc.squares + away.square() * (acc.count / count);
                Moments { count, mean, squares }
            }
            #[inline(always)]
            fn combine(&self, a: Moments<T>, b: Moments<T>) -> Moments<T> {
                if a.count == 0.0 {
                    return b;
                }
                let count = a.count + b.count;
                let share = b.count / count;
                let away = b.mean.minus(a.mean);
                let squares = a.squares + b.squares + away.square() * (a.count * share);
                Moments { count, mean: a.mean.plus(away.times(share)), squares }
            }
            #[inline(always)]
            fn finish(&self, $acc: Moments<T>, _: i64) -> $out {
                let $this = self;
                $finish
            }
            #[inline(always)]
            fn run(&self, acc: Moments<T>, row: &[T], _: i64) -> Moments<T> {
                row.chunks(RUN).fold(acc, |acc, run| self.combine(acc, Self::moments(run)))
            }
        }
    };
}

variance_fold!(false, (f64,), |this, acc| (this.spread(&acc),));
variance_fold!(true, (f64, T), |this, acc| (this.spread(&acc), Self::mean(&acc)));

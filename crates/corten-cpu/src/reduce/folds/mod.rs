//! What reductions put together, and how.

mod extrema;

pub(crate) use extrema::{Extrema, Extremum, Order, Ordered, Select, larger, smaller};

use crate::reduce::loops::Fold;
use crate::rows::loops::{self, RowFold};
use crate::vec::Lanes;
use corten_core::{Complex, Element};
use std::marker::PhantomData;

/// The sum of integers.
pub(crate) struct IntSum;

impl Fold for IntSum {
    type In = i64;
    type Acc = i64;
    type Out = (i64,);
    const IN_TURN: bool = false;

    #[inline(always)]
    fn start(&self) -> i64 {
        0
    }
    #[inline(always)]
    fn step(&self, acc: i64, x: i64, _: i64) -> i64 {
        acc.wrapping_add(x)
    }
    #[inline(always)]
    fn step_rows<'a>(
        &self,
        states: &mut [i64],
        _: &mut [i64],
        rows: impl DoubleEndedIterator<Item = &'a [i64]> + ExactSizeIterator + Clone,
        _: i64,
    ) {
        rows_of(states, rows, i64::wrapping_add);
    }
    #[inline(always)]
    fn combine(&self, a: i64, b: i64) -> i64 {
        a.wrapping_add(b)
    }
    #[inline(always)]
    fn finish(&self, acc: i64, _: i64) -> (i64,) {
        (acc,)
    }
}

/// The product, of floats in their own precision.
pub(crate) struct Product<T>(PhantomData<fn(T)>);

impl<T> Default for Product<T> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

/// What a product is made of.
pub(crate) trait Factor: Element {
    const ONE: Self;
    fn times(self, other: Self) -> Self;
    /// The product of a row. Enough states that no product waits for the one before it.
    #[inline(always)]
    fn of_row(row: &[Self]) -> Self {
        let mut lanes = [Self::ONE; 16];
        let (chunks, rest) = row.as_chunks::<16>();
        for chunk in chunks {
            for (lane, &x) in lanes.iter_mut().zip(chunk) {
                *lane = lane.times(x);
            }
        }
        lanes.iter().chain(rest).fold(Self::ONE, |product, &x| product.times(x))
    }
}

impl Factor for i64 {
    const ONE: Self = 1;
    #[inline(always)]
    fn times(self, other: Self) -> Self {
        self.wrapping_mul(other)
    }
}

impl Factor for Complex<f64> {
    const ONE: Self = Complex::new(1.0, 0.0);
    #[inline(always)]
    fn times(self, other: Self) -> Self {
        self * other
    }
}

macro_rules! float_factors {
    ($($float:ty)+) => {$(
        impl Factor for $float {
            const ONE: Self = 1.0;
            #[inline(always)]
            fn times(self, other: Self) -> Self {
                self * other
            }
            #[inline(always)]
            fn of_row(row: &[Self]) -> Self {
                let [product] = loops::folded([row], Factors);
                product
            }
        }
    )+};
}

float_factors! { f32 f64 }

impl<T: Factor> Fold for Product<T> {
    type In = T;
    type Acc = T;
    type Out = (T,);
    const IN_TURN: bool = false;

    #[inline(always)]
    fn start(&self) -> T {
        T::ONE
    }
    #[inline(always)]
    fn step(&self, acc: T, x: T, _: i64) -> T {
        acc.times(x)
    }
    #[inline(always)]
    fn run(&self, acc: T, row: &[T], _: i64) -> T {
        acc.times(T::of_row(row))
    }
    #[inline(always)]
    fn step_rows<'a>(
        &self,
        states: &mut [T],
        _: &mut [T],
        rows: impl DoubleEndedIterator<Item = &'a [T]> + ExactSizeIterator + Clone,
        _: i64,
    ) {
        rows_of(states, rows, T::times);
    }
    #[inline(always)]
    fn combine(&self, a: T, b: T) -> T {
        a.times(b)
    }
    #[inline(always)]
    fn finish(&self, acc: T, _: i64) -> (T,) {
        (acc,)
    }
}

/// The product of a row.
#[derive(Clone, Copy)]
struct Factors;

impl<T: Element> RowFold<T, 1, 1> for Factors {
    const START: [f64; 1] = [1.0];
    #[inline(always)]
    fn step<V: Lanes<Elem = T>>(self, [product]: [V; 1], [x]: [V; 1]) -> [V; 1] {
        [product * x]
    }
    #[inline(always)]
    fn combine<V: Lanes<Elem = T>>(self, [x]: [V; 1], [y]: [V; 1]) -> [V; 1] {
        [x * y]
    }
}

/// The states of some columns, which stay in registers over all rows.
#[inline(always)]
fn rows_of<'a, T: Copy + 'a>(
    states: &mut [T],
    rows: impl Iterator<Item = &'a [T]> + Clone,
    step: impl Fn(T, T) -> T,
) {
    let mut first = 0;
    while first + 32 <= states.len() {
        few_of::<32, T>(&mut states[first..], rows.clone(), first, &step);
        first += 32;
    }
    while first + 8 <= states.len() {
        few_of::<8, T>(&mut states[first..], rows.clone(), first, &step);
        first += 8;
    }
    while first < states.len() {
        few_of::<1, T>(&mut states[first..], rows.clone(), first, &step);
        first += 1;
    }
}

#[inline(always)]
fn few_of<'a, const N: usize, T: Copy + 'a>(
    states: &mut [T],
    rows: impl Iterator<Item = &'a [T]>,
    first: usize,
    step: &impl Fn(T, T) -> T,
) {
    let Some((states, _)) = states.split_first_chunk_mut::<N>() else { return };
    let mut now = *states;
    for row in rows {
        let Some((row, _)) = row[first..].split_first_chunk::<N>() else { return };
        for (now, &x) in now.iter_mut().zip(row) {
            *now = step(*now, x);
        }
    }
    *states = now;
}

/// Halves are put together, so that few steps wait for each other.
#[inline(always)]
fn all_of<T: Copy, const N: usize>(mut lanes: [T; N], choose: impl Fn(T, T) -> T) -> T {
    const { assert!(N.is_power_of_two()) };
    let mut half = N / 2;
    while half > 0 {
        let (low, high) = lanes.split_at_mut(half);
        for (low, &high) in low.iter_mut().zip(&*high) {
            *low = choose(*low, high);
        }
        half /= 2;
    }
    lanes[0]
}

/// Whether any element is true.
pub(crate) struct Any;

/// Whether all elements are true.
pub(crate) struct All;

macro_rules! logical_folds {
    ($($fold:ident $start:literal $op:tt;)+) => {$(
        impl Fold for $fold {
            type In = bool;
            type Acc = bool;
            type Out = (bool,);

            #[inline(always)]
            fn start(&self) -> bool {
                $start
            }
            #[inline(always)]
            fn step(&self, acc: bool, x: bool, _: i64) -> bool {
                acc $op x
            }
            #[inline(always)]
            fn combine(&self, a: bool, b: bool) -> bool {
                a $op b
            }
            #[inline(always)]
            fn finish(&self, acc: bool, _: i64) -> (bool,) {
                (acc,)
            }
            #[inline(always)]
            fn run(&self, acc: bool, row: &[bool], _: i64) -> bool {
                // Once decided, the rest does not matter.
                let decided = |acc: bool| acc != $start;
                let mut acc = acc;
                for chunk in row.chunks(1024) {
                    if decided(acc) {
                        break;
                    }
                    acc = chunk.iter().fold(acc, |acc, &x| acc $op x);
                }
                acc
            }
        }
    )+};
}

logical_folds! {
    Any false |;
    All true &;
}

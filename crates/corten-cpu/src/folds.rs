//! What reductions put together, and how.

use crate::reduce_loops::Fold;
use crate::reduce_results::COLUMNS;
use crate::row_loops::{self, RowFold};
use crate::vec::Lanes;
use corten_core::{Complex, Element};
use std::marker::PhantomData;

/// The sum of integers.
pub(crate) struct IntSum;

impl Fold for IntSum {
    type In = i64;
    type Acc = i64;
    type Out = (i64,);

    #[inline(always)]
    fn start(&self) -> i64 {
        0
    }
    #[inline(always)]
    fn step(&self, acc: i64, x: i64, _: i64) -> i64 {
        acc.wrapping_add(x)
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
            #[inline]
            fn of_row(row: &[Self]) -> Self {
                let [parts] = row_loops::fold([row], Factors);
                all_of(parts, Self::times)
            }
        }
    )+};
}

float_factors! { f32 f64 }

impl<T: Factor> Fold for Product<T> {
    type In = T;
    type Acc = T;
    type Out = (T,);

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
    fn step_rows(&self, states: &mut [T], _: &mut [T], rows: &[&[T]], _: i64) {
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
    const START: f64 = 1.0;
    #[inline(always)]
    fn step<V: Lanes<Elem = T>>(self, [product]: [V; 1], [x]: [V; 1]) -> [V; 1] {
        [product * x]
    }
    #[inline(always)]
    fn combine<V: Lanes<Elem = T>>(self, x: V, y: V) -> V {
        x * y
    }
}

/// Which end of the order is looked for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    Max,
    Min,
}

/// Numbers with an order in which NaN comes first at either end.
pub(crate) trait Ordered: Element + PartialOrd {
    const LEAST: Self;
    const GREATEST: Self;
    fn is_nan(self) -> bool;
    /// The first in order of `acc` and a row.
    fn extreme(acc: Self, row: &[Self], order: Order) -> Self;
}

macro_rules! ordered_integers {
    ($($int:ty)+) => {$(
        impl Ordered for $int {
            const LEAST: Self = <$int>::MIN;
            const GREATEST: Self = <$int>::MAX;
            #[inline(always)]
            fn is_nan(self) -> bool {
                false
            }
            #[inline(always)]
            fn extreme(acc: Self, row: &[Self], order: Order) -> Self {
                match order {
                    Order::Max => run_of(acc, row, larger),
                    Order::Min => run_of(acc, row, smaller),
                }
            }
        }
    )+};
}

ordered_integers! { u8 i8 i16 i32 i64 }

macro_rules! ordered_floats {
    ($($float:ty)+) => {$(
        impl Ordered for $float {
            const LEAST: Self = <$float>::NEG_INFINITY;
            const GREATEST: Self = <$float>::INFINITY;
            #[inline(always)]
            fn is_nan(self) -> bool {
                self.is_nan()
            }
            #[inline]
            fn extreme(acc: Self, row: &[Self], order: Order) -> Self {
                match order {
                    Order::Max => {
                        let [parts] = row_loops::fold([row], Greatest);
                        larger(acc, all_of(parts, larger))
                    }
                    Order::Min => {
                        let [parts] = row_loops::fold([row], Least);
                        smaller(acc, all_of(parts, smaller))
                    }
                }
            }
        }
    )+};
}

ordered_floats! { f32 f64 }

/// The larger; NaN if one is.
#[inline(always)]
pub(crate) fn larger<T: Ordered>(a: T, b: T) -> T {
    if a > b || a.is_nan() { a } else { b }
}

/// The smaller; NaN if one is.
#[inline(always)]
pub(crate) fn smaller<T: Ordered>(a: T, b: T) -> T {
    if a < b || a.is_nan() { a } else { b }
}

/// The greatest or the least element.
pub(crate) struct Extremum<T> {
    order: Order,
    of: PhantomData<fn(T)>,
}

impl<T: Ordered> Extremum<T> {
    pub(crate) fn new(order: Order) -> Self {
        Self { order, of: PhantomData }
    }

    /// Whether `x` comes before what was found so far.
    #[inline(always)]
    fn before(&self, x: T, found: T) -> bool {
        let better = match self.order {
            Order::Max => x > found,
            Order::Min => x < found,
        };
        better || (x.is_nan() && !found.is_nan())
    }
}

impl<T: Ordered> Fold for Extremum<T> {
    type In = T;
    type Acc = T;
    type Out = (T,);

    #[inline(always)]
    fn start(&self) -> T {
        match self.order {
            Order::Max => T::LEAST,
            Order::Min => T::GREATEST,
        }
    }
    #[inline(always)]
    fn step(&self, acc: T, x: T, _: i64) -> T {
        match self.order {
            Order::Max => larger(acc, x),
            Order::Min => smaller(acc, x),
        }
    }
    #[inline(always)]
    fn combine(&self, a: T, b: T) -> T {
        self.step(a, b, 0)
    }
    #[inline(always)]
    fn finish(&self, acc: T, _: i64) -> (T,) {
        (acc,)
    }
    /// The order is looked at once per row.
    #[inline(always)]
    fn step_each(&self, states: &[T], next: &mut [T], row: &[T], _: i64) {
        let all = next.iter_mut().zip(states).zip(row);
        match self.order {
            Order::Max => all.for_each(|((next, &acc), &x)| *next = larger(acc, x)),
            Order::Min => all.for_each(|((next, &acc), &x)| *next = smaller(acc, x)),
        }
    }
    #[inline(always)]
    fn step_rows(&self, states: &mut [T], _: &mut [T], rows: &[&[T]], _: i64) {
        match self.order {
            Order::Max => rows_of(states, rows, larger),
            Order::Min => rows_of(states, rows, smaller),
        }
    }
    #[inline(always)]
    fn run(&self, acc: T, row: &[T], _: i64) -> T {
        T::extreme(acc, row, self.order)
    }
}

/// Defines the extremum of a row of floating-point numbers, in which a NaN stays.
macro_rules! row_extrema {
    ($($name:ident from $start:ident by $choose:ident;)+) => {$(
        #[derive(Clone, Copy)]
        struct $name;

        impl<T: Element> RowFold<T, 1, 1> for $name {
            const START: f64 = f64::$start;
            #[inline(always)]
            fn step<V: Lanes<Elem = T>>(self, [found]: [V; 1], [x]: [V; 1]) -> [V; 1] {
                [x.$choose(found)]
            }
            #[inline(always)]
            fn combine<V: Lanes<Elem = T>>(self, x: V, y: V) -> V {
                x.$choose(y)
            }
        }
    )+};
}

row_extrema! {
    Greatest from NEG_INFINITY by max;
    Least from INFINITY by min;
}

/// The states of some columns, which stay in registers over all rows.
#[inline(always)]
fn rows_of<T: Copy>(states: &mut [T], rows: &[&[T]], step: impl Fn(T, T) -> T) {
    let mut first = 0;
    while first + 32 <= states.len() {
        few_of::<32, T>(&mut states[first..], rows, first, &step);
        first += 32;
    }
    while first + 8 <= states.len() {
        few_of::<8, T>(&mut states[first..], rows, first, &step);
        first += 8;
    }
    while first < states.len() {
        few_of::<1, T>(&mut states[first..], rows, first, &step);
        first += 1;
    }
}

#[inline(always)]
fn few_of<const N: usize, T: Copy>(
    states: &mut [T],
    rows: &[&[T]],
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

/// Thirty-two states in turn, so that a step waits for none before it.
#[inline(always)]
fn run_of<T: Copy>(acc: T, row: &[T], choose: impl Fn(T, T) -> T) -> T {
    let mut lanes = [acc; 32];
    let (chunks, rest) = row.as_chunks::<32>();
    for chunk in chunks {
        for (lane, &x) in lanes.iter_mut().zip(chunk) {
            *lane = choose(*lane, x);
        }
    }
    let acc = choose(acc, all_of(lanes, &choose));
    rest.iter().fold(acc, |acc, &x| choose(acc, x))
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

/// The greatest or the least element and the index of the first such.
pub(crate) struct Select<T>(Extremum<T>);

/// The index of an element that has not been found.
const NONE: i64 = -1;

impl<T: Ordered> Select<T> {
    pub(crate) fn new(order: Order) -> Self {
        Self(Extremum::new(order))
    }
}

impl<T: Ordered> Fold for Select<T> {
    type In = T;
    type Acc = (T, i64);
    type Out = (T, i64);

    #[inline(always)]
    fn start(&self) -> (T, i64) {
        (self.0.start(), NONE)
    }
    #[inline(always)]
    fn step(&self, acc: (T, i64), x: T, index: i64) -> (T, i64) {
        if acc.1 == NONE || self.0.before(x, acc.0) { (x, index) } else { acc }
    }
    #[inline(always)]
    fn combine(&self, a: (T, i64), b: (T, i64)) -> (T, i64) {
        if a.1 == NONE || (b.1 != NONE && self.0.before(b.0, a.0)) { b } else { a }
    }
    #[inline(always)]
    fn finish(&self, acc: (T, i64), _: i64) -> (T, i64) {
        acc
    }
    /// Finds the values first, then where they are.
    #[inline(always)]
    fn whole(&self, states: &mut [(T, i64)], _: &mut [(T, i64)], matrix: &[T]) {
        let width = states.len();
        let [mut now, mut next] = [[self.0.start(); COLUMNS]; 2];
        self.0.whole(&mut now[..width], &mut next[..width], matrix);
        let mut places = [0i32; COLUMNS];
        for (index, row) in matrix.chunks_exact(width).enumerate().rev() {
            for ((place, &best), &x) in places.iter_mut().zip(&now).zip(row) {
                let same = (x == best) | (best.is_nan() & x.is_nan());
                *place = if same { index as i32 } else { *place };
            }
        }
        for ((state, &best), &place) in states.iter_mut().zip(&now).zip(&places) {
            *state = (best, i64::from(place));
        }
    }
    /// Finds the value first, then where it is.
    #[inline(always)]
    fn run(&self, acc: (T, i64), row: &[T], index: i64) -> (T, i64) {
        let best = self.0.run(self.0.start(), row, index);
        if row.is_empty() || (acc.1 != NONE && !self.0.before(best, acc.0)) {
            return acc;
        }
        let same = |x: &T| *x == best || (best.is_nan() && x.is_nan());
        let position = row.iter().position(same).unwrap_or(0);
        (best, index + position as i64)
    }
}

/// As `Select`, with the index alone as the result.
pub(crate) struct Arg<T>(Select<T>);

impl<T: Ordered> Arg<T> {
    pub(crate) fn new(order: Order) -> Self {
        Self(Select::new(order))
    }
}

impl<T: Ordered> Fold for Arg<T> {
    type In = T;
    type Acc = (T, i64);
    type Out = (i64,);

    #[inline(always)]
    fn start(&self) -> (T, i64) {
        self.0.start()
    }
    #[inline(always)]
    fn step(&self, acc: (T, i64), x: T, index: i64) -> (T, i64) {
        self.0.step(acc, x, index)
    }
    #[inline(always)]
    fn combine(&self, a: (T, i64), b: (T, i64)) -> (T, i64) {
        self.0.combine(a, b)
    }
    #[inline(always)]
    fn finish(&self, acc: (T, i64), _: i64) -> (i64,) {
        (acc.1,)
    }
    #[inline(always)]
    fn whole(&self, states: &mut [(T, i64)], next: &mut [(T, i64)], matrix: &[T]) {
        self.0.whole(states, next, matrix);
    }
    #[inline(always)]
    fn run(&self, acc: (T, i64), row: &[T], index: i64) -> (T, i64) {
        self.0.run(acc, row, index)
    }
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

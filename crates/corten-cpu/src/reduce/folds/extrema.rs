//! The ends of an order: the least and the greatest elements, and where they are.

use super::{all_of, rows_of};
use crate::reduce::loops::Fold;
use crate::reduce::results::{COLUMNS, Found};
use crate::rows::loops::{self, RowFold};
use crate::vec::Lanes;
use corten_core::Element;
use std::marker::PhantomData;

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
    /// The least and the greatest of those found so far and a row.
    fn extremes(acc: (Self, Self), row: &[Self]) -> (Self, Self);
}

/// Elements of a row that stay in a first-level cache from one end of the order to the other.
const NEAR: usize = 1024;

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
            #[inline(always)]
            fn extremes(acc: (Self, Self), row: &[Self]) -> (Self, Self) {
                row.chunks(NEAR).fold(acc, |(least, greatest), part| {
                    (run_of(least, part, smaller), run_of(greatest, part, larger))
                })
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
            #[inline(always)]
            fn extreme(acc: Self, row: &[Self], order: Order) -> Self {
                match order {
                    Order::Max => {
                        let [most] = loops::folded([row], Greatest);
                        larger(acc, most)
                    }
                    Order::Min => {
                        let [least] = loops::folded([row], Least);
                        smaller(acc, least)
                    }
                }
            }
            #[inline(always)]
            fn extremes((least, greatest): (Self, Self), row: &[Self]) -> (Self, Self) {
                let [low, high] = loops::folded([row], Ends);
                (smaller(least, low), larger(greatest, high))
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
    const IN_TURN: bool = false;

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
    #[inline(always)]
    fn step_rows<'a>(
        &self,
        states: &mut [T],
        _: &mut [T],
        rows: impl DoubleEndedIterator<Item = &'a [T]> + ExactSizeIterator + Clone,
        _: i64,
    ) {
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

/// The least and the greatest element.
pub(crate) struct Extrema<T>(PhantomData<fn(T)>);

impl<T> Default for Extrema<T> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<T: Ordered> Fold for Extrema<T> {
    type In = T;
    type Acc = (T, T);
    type Out = (T, T);

    #[inline(always)]
    fn start(&self) -> (T, T) {
        (T::GREATEST, T::LEAST)
    }
    #[inline(always)]
    fn step(&self, acc: (T, T), x: T, _: i64) -> (T, T) {
        (smaller(acc.0, x), larger(acc.1, x))
    }
    #[inline(always)]
    fn combine(&self, a: (T, T), b: (T, T)) -> (T, T) {
        (smaller(a.0, b.0), larger(a.1, b.1))
    }
    #[inline(always)]
    fn finish(&self, acc: (T, T), _: i64) -> (T, T) {
        acc
    }
    #[inline(always)]
    fn run(&self, acc: (T, T), row: &[T], _: i64) -> (T, T) {
        T::extremes(acc, row)
    }
}

/// Defines the extremum of a row of floating-point numbers, in which a NaN stays.
macro_rules! row_extrema {
    ($($name:ident from $start:ident by $choose:ident;)+) => {$(
        #[derive(Clone, Copy)]
        struct $name;

        impl<T: Element> RowFold<T, 1, 1> for $name {
            const START: [f64; 1] = [f64::$start];
            #[inline(always)]
            fn step<V: Lanes<Elem = T>>(self, [found]: [V; 1], [x]: [V; 1]) -> [V; 1] {
                [x.$choose(found)]
            }
            #[inline(always)]
            fn combine<V: Lanes<Elem = T>>(self, [x]: [V; 1], [y]: [V; 1]) -> [V; 1] {
                [x.$choose(y)]
            }
        }
    )+};
}

row_extrema! {
    Greatest from NEG_INFINITY by max;
    Least from INFINITY by min;
}

/// Both ends of a row of floating-point numbers.
#[derive(Clone, Copy)]
struct Ends;

impl<T: Element> RowFold<T, 1, 2> for Ends {
    const START: [f64; 2] = [f64::INFINITY, f64::NEG_INFINITY];
    #[inline(always)]
    fn step<V: Lanes<Elem = T>>(self, [least, greatest]: [V; 2], [x]: [V; 1]) -> [V; 2] {
        [x.min(least), x.max(greatest)]
    }
    #[inline(always)]
    fn combine<V: Lanes<Elem = T>>(self, x: [V; 2], y: [V; 2]) -> [V; 2] {
        [x[0].min(y[0]), x[1].max(y[1])]
    }
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

/// The greatest or the least element and the index of the first such, or the index alone where a
/// reduction has one output.
pub(crate) struct Select<T>(Extremum<T>);

/// The index of an element that has not been found.
const NONE: i64 = -1;

impl<T: Ordered> Select<T> {
    pub(crate) fn new(order: Order) -> Self {
        Self(Extremum::new(order))
    }

    /// The first in order of some columns, at most [`COLUMNS`], and in which of the rows each is:
    /// finds the values first, then where they are.
    #[inline(always)]
    fn found<'a>(
        &self,
        rows: impl DoubleEndedIterator<Item = &'a [T]> + ExactSizeIterator + Clone,
        columns: usize,
    ) -> ([T; COLUMNS], [i32; COLUMNS]) {
        let (mut best, mut places) = ([self.0.start(); COLUMNS], [0; COLUMNS]);
        self.0.step_rows(&mut best[..columns], &mut [], rows.clone(), 0);
        for (index, row) in rows.enumerate().rev() {
            for ((place, &best), &x) in places.iter_mut().zip(&best).zip(row) {
                let same = (x == best) | (best.is_nan() & x.is_nan());
                *place = if same { index as i32 } else { *place };
            }
        }
        (best, places)
    }
}

impl<T: Ordered> Fold for Select<T> {
    type In = T;
    type Acc = (T, i64);
    type Out = Found<T>;
    const IN_TURN: bool = false;

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
    fn finish(&self, acc: (T, i64), _: i64) -> Found<T> {
        Found(acc.0, acc.1)
    }
    #[inline(always)]
    fn step_rows<'a>(
        &self,
        states: &mut [(T, i64)],
        _: &mut [(T, i64)],
        rows: impl DoubleEndedIterator<Item = &'a [T]> + ExactSizeIterator + Clone,
        index: i64,
    ) {
        for (i, states) in states.chunks_mut(COLUMNS).enumerate() {
            let [first, count] = [i * COLUMNS, states.len()];
            let parts = rows.clone().map(|row| &row[first..][..count]);
            let found = self.found(parts, count);
            for ((state, best), place) in states.iter_mut().zip(found.0).zip(found.1) {
                let better = state.1 == NONE || self.0.before(best, state.0);
                *state = if better { (best, index + i64::from(place)) } else { *state };
            }
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

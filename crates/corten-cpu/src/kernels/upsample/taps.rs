//! Which points of the source a point of the result is made of.

use corten_core::{Element, cast, unwinding};
use std::f64::consts::PI;

/// How points between those of the source are found.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    Nearest,
    Exact,
    Linear,
    Cubic,
    WideLinear,
    WideCubic,
    WideSine,
}

/// The places and weights for every point of the result along one dimension.
pub(super) struct Taps {
    /// The number of points of the source.
    pub(super) source: usize,
    starts: Vec<usize>,
    places: Vec<usize>,
    weights: Vec<f64>,
}

/// A number as single precision can hold it: there the places follow from single precision.
fn round(x: f64, double: bool) -> f64 {
    if double { x } else { f64::from(x as f32) }
}

impl Taps {
    pub(super) fn of(
        mode: Mode,
        align: bool,
        scale: Option<f64>,
        (source, count): (usize, usize),
        double: bool,
    ) -> Self {
        let mut taps = Self {
            source,
            starts: unwinding::with_capacity(count.saturating_add(1)),
            places: Vec::new(),
            weights: Vec::new(),
        };
        taps.starts.push(0);
        let nearest = matches!(mode, Mode::Nearest | Mode::Exact);
        let double = double && !nearest;
        let step = match align {
            true if count > 1 => round((source - 1) as f64 / (count - 1) as f64, double),
            true => 0.0,
            false => match scale.filter(|&scale| scale > 0.0) {
                Some(scale) => round(1.0 / scale, double),
                None => round(source as f64 / count as f64, double),
            },
        };
        for o in 0..count {
            match mode {
                Mode::Nearest => taps.one(round(o as f64 * step, double)),
                Mode::Exact => taps.one(round(round(o as f64 + 0.5, double) * step, double)),
                Mode::Linear if source == count => taps.push(o, 1.0),
                Mode::Linear | Mode::Cubic => {
                    let at = match align {
                        true => round(step * o as f64, double),
                        false => round(round(step * (o as f64 + 0.5), double) - 0.5, double),
                    };
                    if mode == Mode::Linear { taps.two(at.max(0.0)) } else { taps.four(at) }
                }
                _ => taps.wide(mode, step, step * (o as f64 + 0.5)),
            }
            unwinding::push(&mut taps.starts, taps.places.len());
        }
        taps
    }

    /// Makes the weights integers of 16 bits, with as many binary digits behind the point as fit: sums of
    /// bytes fit into 32 bits then. Returns the number of these digits.
    pub(super) fn make_integers(&mut self) -> u32 {
        self.merge();
        let most = self.weights.iter().copied().fold(0.0, f64::max);
        let (mut unit, mut digits) = (1.0, 0);
        while digits < 22 && (0.5 + most * unit * 2.0).trunc() < f64::from(1 << 15) {
            unit *= 2.0;
            digits += 1;
        }
        self.weights.iter_mut().for_each(|weight| *weight = (*weight * unit).round());
        digits
    }

    /// Makes one tap of those that the border led to one place, so that they are rounded together.
    fn merge(&mut self) {
        let (starts, places) = (std::mem::replace(&mut self.starts, vec![0]), &self.places);
        let (mut merged, mut weights) =
            (unwinding::with_capacity(places.len()), unwinding::with_capacity(self.weights.len()));
        for ends in starts.windows(2) {
            let first = merged.len();
            let own = ends[0]..ends[1];
            for (&place, &weight) in places[own.clone()].iter().zip(&self.weights[own]) {
                match weights.last_mut().filter(|_| merged[first..].last() == Some(&place)) {
                    Some(last) => *last += weight,
                    None => {
                        merged.push(place);
                        weights.push(weight);
                    }
                }
            }
            unwinding::push(&mut self.starts, merged.len());
        }
        (self.places, self.weights) = (merged, weights);
    }

    /// The first place of a point of the result: the only one of the nearest modes.
    pub(super) fn place(&self, o: usize) -> usize {
        self.places[self.starts[o]]
    }

    /// The number of points of the result.
    pub(super) fn count(&self) -> usize {
        self.starts.len() - 1
    }

    /// What a point of the source takes part in, with the same weights: the taps of the gradient.
    pub(super) fn transposed(&self) -> Self {
        let mut starts = unwinding::vec(0, self.source + 1);
        self.places.iter().for_each(|&place| starts[place + 1] += 1);
        (0..self.source).for_each(|place| starts[place + 1] += starts[place]);
        let mut next = unwinding::to_vec(&starts);
        let mut places = unwinding::vec(0, self.places.len());
        let mut weights = unwinding::to_vec(&self.weights);
        for (o, (own, shares)) in self.of_points(&self.weights).enumerate() {
            for (&place, &share) in own.iter().zip(shares) {
                (places[next[place]], weights[next[place]]) = (o, share);
                next[place] += 1;
            }
        }
        Self { source: self.count(), starts, places, weights }
    }

    /// The weights of all places, as numbers of the type that sums are made of.
    pub(super) fn weights<S: Element>(&self) -> Vec<S> {
        unwinding::collect(self.weights.iter().map(|&weight| cast(weight)))
    }

    /// StridedLoads and weights for every point of the result; `weights` are those of [`Self::weights`].
    #[inline(always)]
    pub(super) fn of_points<'a, S: Copy>(
        &'a self,
        weights: &'a [S],
    ) -> impl Iterator<Item = (&'a [usize], &'a [S])> {
        self.starts
            .windows(2)
            .map(move |ends| (&self.places[ends[0]..ends[1]], &weights[ends[0]..ends[1]]))
    }

    fn push(&mut self, place: usize, weight: f64) {
        unwinding::push(&mut self.places, place);
        unwinding::push(&mut self.weights, weight);
    }

    fn clamped(&self, place: f64) -> usize {
        // A negative or enormous number saturates.
        (place as i64).clamp(0, self.source as i64 - 1) as usize
    }

    fn one(&mut self, at: f64) {
        let place = self.clamped(at.floor());
        self.push(place, 1.0);
    }

    fn two(&mut self, at: f64) {
        let first = self.clamped(at.floor());
        let share = (at - first as f64).clamp(0.0, 1.0);
        self.push(first, 1.0 - share);
        self.push((first + 1).min(self.source - 1), share);
    }

    fn four(&mut self, at: f64) {
        let first = at.floor();
        let t = at - first;
        for (k, offset) in [t + 1.0, t, 1.0 - t, 2.0 - t].into_iter().enumerate() {
            let place = self.clamped(first - 1.0 + k as f64);
            self.push(place, cubic(offset, -0.75));
        }
    }

    /// A filter stretched to the distance between the result's points, where that is larger.
    fn wide(&mut self, mode: Mode, step: f64, centre: f64) {
        let stretch = step.max(1.0);
        let reach = match mode {
            Mode::WideLinear => 1.0,
            Mode::WideCubic => 2.0,
            _ => 3.0,
        } * stretch;
        let first = ((centre - reach + 0.5) as i64).clamp(0, self.source as i64) as usize;
        let end = ((centre + reach + 0.5) as i64).clamp(0, self.source as i64) as usize;
        let weight = |place: usize| {
            let x = ((place as f64 - centre + 0.5) / stretch).abs();
            match mode {
                Mode::WideLinear => (1.0 - x).max(0.0),
                Mode::WideCubic => cubic(x, -0.5),
                _ if x < 3.0 => sine(x) * sine(x / 3.0),
                _ => 0.0,
            }
        };
        let total: f64 = (first..end).map(weight).sum();
        for place in first..end {
            let weight = weight(place);
            self.push(place, if total == 0.0 { weight } else { weight / total });
        }
    }
}

/// Keys' cubic with slope `a` at 1.
fn cubic(x: f64, a: f64) -> f64 {
    match x {
        _ if x <= 1.0 => ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0,
        _ if x < 2.0 => ((x - 5.0) * a * x + 8.0 * a) * x - 4.0 * a,
        _ => 0.0,
    }
}

fn sine(x: f64) -> f64 {
    if x == 0.0 { 1.0 } else { (PI * x).sin() / (PI * x) }
}

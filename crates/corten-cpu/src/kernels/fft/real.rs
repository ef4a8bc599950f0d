//! Transforms of lines of real numbers. An even number of them is taken for half as many complex
//! numbers: one pass over pairs of points tells the two spectra apart, or puts them together.

use super::{RealPart, at_once, with_points};
use crate::parallel::chunks::{for_each_chunk, for_each_run};
use crate::rows::loops::{RowKernel, Vectorised, compiled};
use crate::vec::Lanes;
use corten_core::{Complex, Element, Result, cast, unwinding};
use corten_ops::parallel::GRAIN;
use rustfft::{Fft, FftNum, FftPlanner};
use std::array::from_fn;
use std::ops::Range;
use std::sync::Arc;

/// Pairs of points that are computed together.
const PAIRS: usize = 8;

/// Pairs that a thread computes at least.
const PIECE: usize = 1 << 13;

/// Points of a single line from which on threads share what is done before and after its transform.
const LONG: usize = 1 << 15;

/// The tables for lines of one length and one direction.
pub(super) struct RealPlan<T: FftNum> {
    length: usize,
    fft: Arc<dyn Fft<T>>,
    /// What pairs of points are turned by; none where the length is odd.
    turns: Vec<Complex<T>>,
    /// What sums and differences of pairs are multiplied by.
    weight: T,
}

impl<T: RealPart> RealPlan<T> {
    pub(super) fn new(length: usize, forward: bool, planner: &mut FftPlanner<T>) -> Self {
        let even = length.is_multiple_of(2);
        let points = if even { length / 2 } else { length };
        let fft = match forward {
            true => planner.plan_fft_forward(points),
            false => planner.plan_fft_inverse(points),
        };
        // The inverse turns by the conjugates, and subtracts what this adds.
        let (weight, sign) = if forward { (0.5, 1.0) } else { (1.0, -1.0) };
        let turn = |k: usize| {
            let angle = -2.0 * std::f64::consts::PI / length as f64 * k as f64;
            Complex::new(cast(angle.cos() * weight * sign), cast(angle.sin() * weight))
        };
        let turns = if even { 1..points.div_ceil(2) } else { 0..0 };
        Self { length, fft, turns: unwinding::collect(turns.map(turn)), weight: cast(weight) }
    }

    fn is_even(&self) -> bool {
        self.length.is_multiple_of(2)
    }

    /// Calls `body(lines, points, other points, room)` with as many lines as fit into the first cache:
    /// room for the points of so many, twice, and what the transform itself needs.
    fn with_room(
        &self,
        body: impl FnOnce(usize, &mut [Complex<T>], &mut [Complex<T>], &mut [Complex<T>]),
    ) {
        let points = self.fft.len();
        let lines = at_once(points);
        let own = self.fft.get_outofplace_scratch_len().max(self.fft.get_inplace_scratch_len());
        T::with_room(2 * lines * points + own, |buffer| {
            let (first, rest) = buffer.split_at_mut(lines * points);
            let (second, room) = rest.split_at_mut(lines * points);
            body(lines, first, second, room);
        });
    }

    /// Transforms the points, which end up in the second slice or, for odd lengths, stay in the first.
    fn transform<'a>(
        &self,
        points: &'a mut [Complex<T>],
        other: &'a mut [Complex<T>],
        room: &mut [Complex<T>],
    ) -> &'a [Complex<T>] {
        if !self.is_even() {
            self.fft.process_with_scratch(points, &mut room[..self.fft.get_inplace_scratch_len()]);
            return points;
        }
        let room = &mut room[..self.fft.get_outofplace_scratch_len()];
        self.fft.process_outofplace_with_scratch(points, other, room);
        other
    }

    /// The spectra of lines that are multiplied by `scale`: of each the first `length / 2 + 1` points, or
    /// all `row` of them.
    pub(super) fn forward(&self, lines: &[T], spectra: &mut [Complex<T>], row: usize, scale: T) {
        let (points, half) = (self.fft.len(), self.length / 2 + 1);
        self.with_room(|count, buffer, other, room| {
            let blocks = lines.chunks(count * self.length).zip(spectra.chunks_mut(count * row));
            for (lines, spectra) in blocks {
                let used = lines.len() / self.length * points;
                let (buffer, other) = (&mut buffer[..used], &mut other[..used]);
                compiled(|| self.load(lines, buffer, scale));
                let found = self.transform(buffer, other, room);
                for (found, spectrum) in found.chunks(points).zip(spectra.chunks_mut(row)) {
                    let (first, mirrored) = spectrum.split_at_mut(half);
                    match self.is_even() {
                        true => self.part(found, first),
                        false => first.copy_from_slice(&found[..half]),
                    }
                    mirror(first, mirrored, self.is_even());
                }
            }
        });
    }

    #[inline(always)]
    fn load(&self, lines: &[T], points: &mut [Complex<T>], scale: T) {
        if self.is_even() {
            for (point, pair) in points.iter_mut().zip(lines.as_chunks::<2>().0) {
                *point = Complex::new(pair[0] * scale, pair[1] * scale);
            }
        } else {
            for (point, &value) in points.iter_mut().zip(lines) {
                *point = Complex::new(value * scale, T::zero());
            }
        }
    }

    /// The spectrum of a line from that of its pairs.
    fn part(&self, found: &[Complex<T>], spectrum: &mut [Complex<T>]) {
        self.part_ends(found, spectrum);
        self.exchange(found, &mut spectrum[..found.len()]);
    }

    /// The first point of such a spectrum, and the last one of its first half.
    fn part_ends(&self, found: &[Complex<T>], spectrum: &mut [Complex<T>]) {
        spectrum[0] = Complex::new(found[0].re + found[0].im, T::zero());
        spectrum[found.len()] = Complex::new(found[0].re - found[0].im, T::zero());
    }

    /// Computes all points but the first from pairs of points that lie equally far from both ends.
    fn exchange(&self, from: &[Complex<T>], to: &mut [Complex<T>]) {
        let (left, right) = self.sides(from, to);
        f32::run(Exchange { plan: self, from, pairs: 0..self.turns.len(), left, right });
    }

    /// The points on both sides of the middle one, which is computed.
    fn sides<'a>(
        &self,
        from: &[Complex<T>],
        to: &'a mut [Complex<T>],
    ) -> (&'a mut [Complex<T>], &'a mut [Complex<T>]) {
        let points = from.len();
        if points.is_multiple_of(2) {
            let twice = self.weight + self.weight;
            to[points / 2] = (from[points / 2] * twice).conj();
        }
        let (left, right) = to.split_at_mut(points - self.turns.len());
        (&mut left[1..=self.turns.len()], right)
    }

    /// [`exchange`](Self::exchange) on several threads.
    fn exchange_long(&self, from: &[Complex<T>], to: &mut [Complex<T>]) -> Result<()> {
        let (left, right) = self.sides(from, to);
        let sides = left.chunks_mut(PIECE).zip(right.rchunks_mut(PIECE));
        // Bounded: parts of a line, a few.
        let mut sides: Vec<_> = sides.collect();
        for_each_chunk(&mut sides, 1, 1, |piece, sides| {
            let (left, right) = &mut sides[0];
            let pairs = piece * PIECE..piece * PIECE + left.len();
            f32::run(Exchange { plan: self, from, pairs, left, right });
            Ok(())
        })
    }

    /// Whether all but the transform itself is worth several threads where there is a single line.
    pub(super) fn is_long(&self) -> bool {
        self.is_even() && self.fft.len() >= LONG
    }

    /// [`forward`](Self::forward) for one long line.
    ///
    /// # Errors
    /// Those of memory.
    pub(super) fn forward_long(
        &self,
        line: &[T],
        spectrum: &mut [Complex<T>],
        scale: T,
    ) -> Result<()>
    where
        Complex<T>: Element,
    {
        let points = self.fft.len();
        let (first, mirrored) = spectrum.split_at_mut(points + 1);
        self.with_long_room(|[found, room]| {
            // The spectrum is room enough for the points.
            for_each_run(&mut first[..points], 1, GRAIN as usize, |places, part| {
                compiled(|| self.load(&line[2 * places.start..2 * places.end], part, scale));
                Ok(())
            })?;
            self.transform(&mut first[..points], found, room);
            self.part_ends(found, first);
            self.exchange_long(found, &mut first[..points])
        })?;
        for_each_run(mirrored, 1, GRAIN as usize, |places, part| {
            mirror(&first[..=points - places.start], part, true);
            Ok(())
        })
    }

    /// [`inverse`](Self::inverse) for one long line.
    ///
    /// # Errors
    /// Those of memory.
    pub(super) fn inverse_long(
        &self,
        spectrum: &[Complex<T>],
        line: &mut [T],
        scale: T,
    ) -> Result<()>
    where
        Complex<T>: Element,
    {
        let points = self.fft.len();
        let (start, end) = (spectrum[0].re * scale, spectrum[points].re * scale);
        self.with_long_room(|[first, room]| {
            with_points(points, |second| {
                for_each_run(first, 1, GRAIN as usize, |places, part| {
                    compiled(|| {
                        let values = part.iter_mut().zip(&spectrum[places]);
                        values.for_each(|(to, &value)| *to = value * scale);
                    });
                    Ok(())
                })?;
                self.exchange_long(first, second)?;
                second[0] = Complex::new(start + end, start - end);
                let found = self.transform(second, first, room);
                for_each_run(line, 2, GRAIN as usize, |pairs, part| {
                    compiled(|| self.store(&found[pairs], part));
                    Ok(())
                })
            })
        })
    }

    /// Calls `body` with room for the points of a long line, and with what the transform needs.
    fn with_long_room(&self, body: impl FnOnce([&mut [Complex<T>]; 2]) -> Result<()>) -> Result<()>
    where
        Complex<T>: Element,
    {
        let points = self.fft.len();
        with_points(points + self.fft.get_outofplace_scratch_len(), |buffer| {
            let (found, room) = buffer.split_at_mut(points);
            body([found, room])
        })
    }

    /// The lines of spectra that are multiplied by `scale`, of each the first `length / 2 + 1` points of
    /// `row`.
    pub(super) fn inverse(&self, spectra: &[Complex<T>], lines: &mut [T], row: usize, scale: T) {
        let (points, half) = (self.fft.len(), self.length / 2 + 1);
        let mut scaled = unwinding::vec(Complex::new(T::zero(), T::zero()), half);
        self.with_room(|count, buffer, other, room| {
            let blocks = spectra.chunks(count * row).zip(lines.chunks_mut(count * self.length));
            for (spectra, lines) in blocks {
                let used = lines.len() / self.length * points;
                let (buffer, other) = (&mut buffer[..used], &mut other[..used]);
                for (spectrum, points) in spectra.chunks(row).zip(buffer.chunks_mut(points)) {
                    compiled(|| {
                        let values = scaled.iter_mut().zip(spectrum);
                        values.for_each(|(to, &value)| *to = value * scale);
                    });
                    self.join(&mut scaled, points);
                }
                let found = self.transform(buffer, other, room);
                compiled(|| self.store(found, lines));
            }
        });
    }

    /// The points whose transform has the line in pairs, from the line's spectrum.
    fn join(&self, spectrum: &mut [Complex<T>], points: &mut [Complex<T>]) {
        // What is left of these parts in a spectrum of real numbers is noise.
        spectrum[0].im = T::zero();
        if !self.is_even() {
            points[..spectrum.len()].copy_from_slice(spectrum);
            return mirror(spectrum, &mut points[spectrum.len()..], false);
        }
        let (first, last) = (spectrum[0].re, spectrum[points.len()].re);
        points[0] = Complex::new(first + last, first - last);
        self.exchange(&spectrum[..points.len()], points);
    }

    #[inline(always)]
    fn store(&self, points: &[Complex<T>], lines: &mut [T]) {
        if self.is_even() {
            for (pair, point) in lines.as_chunks_mut::<2>().0.iter_mut().zip(points) {
                *pair = [point.re, point.im];
            }
        } else {
            lines.iter_mut().zip(points).for_each(|(value, point)| *value = point.re);
        }
    }
}

/// Computes both points of some pairs, which lie in order on the left, backwards on the right.
struct Exchange<'a, T: FftNum> {
    plan: &'a RealPlan<T>,
    from: &'a [Complex<T>],
    pairs: Range<usize>,
    left: &'a mut [Complex<T>],
    right: &'a mut [Complex<T>],
}

impl<T: RealPart> RowKernel<f32> for Exchange<'_, T> {
    type Out = ();

    #[inline(always)]
    fn run<V: Lanes<Elem = f32>>(mut self) {
        let Range { start, end } = self.pairs;
        let whole = start + (end - start) / PAIRS * PAIRS;
        self.some::<PAIRS, { 2 * PAIRS }>(start..whole);
        self.some::<1, 2>(whole..end);
    }
}

impl<T: RealPart> Exchange<'_, T> {
    /// A range of pairs, `N` at a time.
    #[inline(always)]
    fn some<const N: usize, const LANES: usize>(&mut self, range: Range<usize>) {
        let (points, Range { start, end }) = (self.from.len(), self.pairs.clone());
        let first = range.start + 1..range.end + 1;
        let last = points - range.end..points - range.start;
        let lefts = self.from[first].as_chunks::<N>().0;
        let rights = self.from[last].as_chunks::<N>().0;
        let to_lefts = self.left[range.start - start..range.end - start].as_chunks_mut::<N>().0;
        let to_rights = self.right[end - range.end..end - range.start].as_chunks_mut::<N>().0;
        let turns = self.plan.turns[range].as_chunks::<N>().0;
        let inputs = turns.iter().zip(lefts).zip(rights.iter().rev());
        let outputs = to_lefts.iter_mut().zip(to_rights.iter_mut().rev());
        for (((turns, left), right), output) in inputs.zip(outputs) {
            turned::<T, N, LANES>(self.plan.weight, turns, [left, right], output);
        }
    }
}

/// `N` pairs of points, the right ones backwards. Parts lie side by side in arrays of `2 * N` lanes,
/// which the compiler keeps in vectors.
#[inline(always)]
fn turned<T: FftNum, const N: usize, const LANES: usize>(
    weight: T,
    turns: &[Complex<T>; N],
    [left, right]: [&[Complex<T>; N]; 2],
    (to_left, to_right): (&mut [Complex<T>; N], &mut [Complex<T>; N]),
) {
    let part = |z: &Complex<T>, lane: usize| if lane.is_multiple_of(2) { z.re } else { z.im };
    let a: [T; LANES] = from_fn(|lane| part(&left[lane / 2], lane));
    let b: [T; LANES] = from_fn(|lane| part(&right[N - 1 - lane / 2], lane));
    let kept: [T; LANES] =
        from_fn(|lane| if lane % 2 == 0 { a[lane] + b[lane] } else { a[lane] - b[lane] });
    let mixed: [T; LANES] =
        from_fn(|lane| if lane % 2 == 0 { a[lane] - b[lane] } else { a[lane] + b[lane] });
    let moved: [T; LANES] = from_fn(|lane| {
        let turn = turns[lane / 2];
        match lane % 2 == 0 {
            true => mixed[lane + 1] * turn.re + mixed[lane] * turn.im,
            false => mixed[lane] * turn.im - mixed[lane - 1] * turn.re,
        }
    });
    let sums: [T; LANES] = from_fn(|lane| weight * kept[lane] + moved[lane]);
    let differences: [T; LANES] = from_fn(|lane| match lane % 2 == 0 {
        true => weight * kept[lane] - moved[lane],
        false => moved[lane] - weight * kept[lane],
    });
    let backwards: [T; LANES] = from_fn(|lane| differences[(LANES - 2 - lane / 2 * 2) + lane % 2]);
    for (to, pair) in to_left.iter_mut().zip(sums.as_chunks::<2>().0) {
        *to = Complex::new(pair[0], pair[1]);
    }
    for (to, pair) in to_right.iter_mut().zip(backwards.as_chunks::<2>().0) {
        *to = Complex::new(pair[0], pair[1]);
    }
}

/// The second half of a spectrum of real numbers from the first one, which an even length ends with a
/// point that has no partner.
fn mirror<T: FftNum>(first: &[Complex<T>], rest: &mut [Complex<T>], even: bool) {
    for (value, partner) in rest.iter_mut().zip(first.iter().rev().skip(usize::from(even))) {
        *value = partner.conj();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spectra_are_those_of_the_definition() {
        for length in [1, 2, 3, 4, 5, 6, 7, 16, 33, 34, 36, 70, 130, 1000, 2050] {
            let line: Vec<f64> = (0..3 * length).map(|i| f64::from((i * i % 37) as u32)).collect();
            let mut planner = FftPlanner::new();
            let plan = RealPlan::new(length, true, &mut planner);
            let mut spectra = vec![Complex::default(); 3 * length];
            plan.forward(&line, &mut spectra, length, 0.5);
            for (line, spectrum) in line.chunks(length).zip(spectra.chunks(length)) {
                for (k, value) in spectrum.iter().enumerate() {
                    let term = |(i, x): (usize, &f64)| {
                        let turn = (i * k % length) as f64 / length as f64;
                        Complex::from_polar(0.5 * x, -std::f64::consts::TAU * turn)
                    };
                    let expected: Complex<f64> = line.iter().enumerate().map(term).sum();
                    assert!((expected - value).norm() < 1e-8, "{length} {k}");
                }
            }
            let back = RealPlan::new(length, false, &mut planner);
            let mut again = vec![0.0; 3 * length];
            back.inverse(&spectra, &mut again, length, 2.0 / length as f64);
            assert!(line.iter().zip(&again).all(|(x, y)| (x - y).abs() < 1e-11), "{length}");
        }
    }
}

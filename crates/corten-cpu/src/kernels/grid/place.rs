//! Where the points of a grid lie in their image.

use crate::rows::Wide;
use corten_core::unwinding;

/// A number that coordinates and weights are computed in.
pub(super) trait Coordinate: Wide {
    fn abs(self) -> Self;
    fn floor(self) -> Self;
    fn is_finite(self) -> bool;
    /// `self * factor + term`, rounded once.
    fn mul_add(self, factor: Self, term: Self) -> Self;
    /// The rest of a division, with the sign of the dividend.
    fn rest(self, divisor: Self) -> Self;
    fn round_ties_even(self) -> Self;
    /// The integer that this is, of 32 bits; anything for other numbers.
    #[inline(always)]
    fn whole(self) -> usize {
        // A sum from 2^52 on has its integer for bits: a conversion would ask about every lane.
        const FAR: f64 = (1u64 << (f64::MANTISSA_DIGITS - 1)) as f64;
        (self.as_f64() + FAR).to_bits() as u32 as usize
    }
}

macro_rules! coordinate {
    ($t:ident) => {
        impl Coordinate for $t {
            #[inline(always)]
            fn abs(self) -> Self {
                self.abs()
            }
            #[inline(always)]
            fn floor(self) -> Self {
                self.floor()
            }
            #[inline(always)]
            fn is_finite(self) -> bool {
                self.is_finite()
            }
            #[inline(always)]
            fn mul_add(self, factor: Self, term: Self) -> Self {
                self.mul_add(factor, term)
            }
            #[inline(always)]
            fn rest(self, divisor: Self) -> Self {
                self % divisor
            }
            #[inline(always)]
            fn round_ties_even(self) -> Self {
                self.round_ties_even()
            }
        }
    };
}

coordinate!(f32);
coordinate!(f64);

/// The points of one dimension of an image that take part in the values at some points of a grid:
/// those with number 0 for each of these, then those with number 1, and so on.
pub(super) struct Taps<C> {
    /// How many points of the grid there are.
    points: usize,
    /// Where they lie; those outside are [`OUTSIDE`].
    places: Vec<usize>,
    weights: Vec<C>,
    /// The slopes of the weights, where they are asked for.
    slopes: Vec<C>,
}

/// The place of what lies outside of an image and stands for nothing.
pub(super) const OUTSIDE: usize = usize::MAX;

impl<C: Coordinate> Taps<C> {
    /// So many with every number, not found yet.
    #[inline(always)]
    fn of(points: usize, numbers: usize, slopes: bool) -> Self {
        let count = points * numbers;
        Self {
            points,
            places: unwinding::vec(0, count),
            weights: unwinding::vec(C::ZERO, count),
            slopes: unwinding::vec(C::ZERO, if slopes { count } else { 0 }),
        }
    }

    /// Those with one number.
    #[inline(always)]
    pub(super) fn numbered(&self, k: usize) -> (&[usize], &[C]) {
        let range = k * self.points..(k + 1) * self.points;
        (&self.places[range.clone()], &self.weights[range])
    }

    /// The slopes of the weights of those with one number.
    #[inline(always)]
    pub(super) fn slopes(&self, k: usize) -> &[C] {
        &self.slopes[k * self.points..][..self.points]
    }

    /// The places, weights and slopes of those with one number, to be found.
    #[inline(always)]
    fn numbered_mut(&mut self, k: usize) -> (&mut [usize], &mut [C], &mut [C]) {
        let range = k * self.points..(k + 1) * self.points;
        let slopes = if self.slopes.is_empty() { 0..0 } else { range.clone() };
        let Self { places, weights, slopes: all, .. } = self;
        (&mut places[range.clone()], &mut weights[range], &mut all[slopes])
    }
}

/// What lies beyond the border.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Padding {
    Zeros,
    Border,
    Reflection,
}

/// How values between points are found.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    Linear,
    Nearest,
    Cubic,
}

impl Mode {
    /// How many points of one dimension take part.
    pub(super) fn taps(self) -> usize {
        match self {
            Self::Nearest => 1,
            Self::Linear => 2,
            Self::Cubic => 4,
        }
    }
}

/// One dimension of an image.
#[derive(Clone, Copy)]
pub(super) struct Axis<C> {
    pub(super) size: usize,
    pub(super) align: bool,
    pub(super) padding: Padding,
    /// To a number that a half precision can hold: coordinates are computed in it.
    pub(super) round: Option<fn(C) -> C>,
    /// Whether this is one of two dimensions, which PyTorch computes otherwise than three: see
    /// [`Axis::scale`], [`Axis::linear`], [`Axis::reflected`] and [`Axis::clipped`].
    pub(super) flat: bool,
}

/// The steps go through all points before the next one does, so that each is a loop over vectors.
/// They are loops and no closures that the standard library calls: it has no vectors as long.
impl<C: Coordinate> Axis<C> {
    /// The points that take part in the values at coordinates between -1 and 1, which are
    /// overwritten.
    #[inline(always)]
    pub(super) fn taps(self, at: &mut [C], mode: Mode, slopes: bool) -> Taps<C> {
        let mut taps = Taps::of(at.len(), mode.taps(), slopes);
        self.scale(at);
        if mode == Mode::Cubic {
            self.cubic(at, &mut taps);
            return taps;
        }
        let mut signs = unwinding::vec(C::ONE, at.len());
        self.pad(at, &mut signs);
        match mode {
            Mode::Nearest => self.nearest(at, &mut taps),
            _ => self.linear(at, &signs, &mut taps),
        }
        taps
    }

    /// From coordinates between -1 and 1 to those in the image: in two dimensions scaled and moved at
    /// once, rounded once, which the nearest point depends on.
    #[inline(always)]
    fn scale(self, at: &mut [C]) {
        let (growth, half) = (self.growth(), C::of(0.5));
        match self.round {
            None if self.flat && !self.align => {
                for x in at {
                    *x = (*x + C::ONE).mul_add(growth, -half);
                }
            }
            None => {
                for x in at {
                    *x = self.scaled(*x, |x| x);
                }
            }
            Some(round) => {
                for x in at {
                    *x = self.scaled(*x, round);
                }
            }
        }
    }

    /// The coordinate in the image for one between -1 and 1.
    #[inline(always)]
    fn scaled(self, x: C, round: impl Fn(C) -> C) -> C {
        let (size, half) = (self.size(), C::of(0.5));
        let moved = round(x + C::ONE);
        match self.align {
            true => round(round(moved * half) * (size - C::ONE)),
            false => round(round(round(moved * size) - C::ONE) * half),
        }
    }

    #[inline(always)]
    fn size(self) -> C {
        C::of(self.size as f64)
    }

    /// How fast coordinates in the image grow with those between -1 and 1.
    #[inline(always)]
    fn growth(self) -> C {
        let size = self.size();
        C::of(0.5) * if self.align { size - C::ONE } else { size }
    }

    #[inline(always)]
    fn nearest(self, at: &[C], taps: &mut Taps<C>) {
        let (places, weights, _) = taps.numbered_mut(0);
        for (place, &at) in places.iter_mut().zip(at) {
            *place = self.inside(in_range(at).round_ties_even());
        }
        weights.fill(C::ONE);
    }

    /// The weights of what has no place are those of its coordinate in two dimensions: NaN for one that
    /// is no finite number.
    #[inline(always)]
    fn linear(self, at: &[C], signs: &[C], taps: &mut Taps<C>) {
        let growth = self.growth();
        for (k, growth) in [-growth, growth].into_iter().enumerate() {
            let (places, weights, slopes) = taps.numbered_mut(k);
            for ((place, weight), &at) in places.iter_mut().zip(weights).zip(at) {
                let low = in_range(at).floor();
                let (at, below) = if self.flat { (at, at.floor()) } else { (in_range(at), low) };
                *place = self.inside(low + C::of(k as f64));
                *weight = if k == 0 { below + C::ONE - at } else { at - below };
            }
            for (slope, &sign) in slopes.iter_mut().zip(signs) {
                *slope = growth * sign;
            }
        }
    }

    #[inline(always)]
    fn cubic(self, at: &[C], taps: &mut Taps<C>) {
        let (growth, two) = (self.growth(), C::of(2.0));
        let (mut moved, mut signs) =
            (unwinding::vec(C::ZERO, at.len()), unwinding::vec(C::ONE, at.len()));
        for k in 0..4 {
            let (places, weights, slopes) = taps.numbered_mut(k);
            let distance = |at: C| {
                let t = at - at.floor();
                match k {
                    0 => t + C::ONE,
                    1 => t,
                    2 => C::ONE - t,
                    _ => two - t,
                }
            };
            for (weight, &at) in weights.iter_mut().zip(at) {
                *weight = keys(distance(at)).0;
            }
            let sign = if k < 2 { growth } else { -growth };
            for (slope, &at) in slopes.iter_mut().zip(at) {
                *slope = keys(distance(at)).1 * sign;
            }
            for (moved, &at) in moved.iter_mut().zip(at) {
                *moved = at.floor() + C::of(k as f64 - 1.0);
            }
            self.pad(&mut moved, &mut signs);
            for (place, &at) in places.iter_mut().zip(&moved) {
                *place = self.inside(in_range(at));
            }
        }
    }

    #[inline(always)]
    fn inside(self, place: C) -> usize {
        let inside = (C::ZERO <= place) & (place < self.size());
        if inside { place.whole() } else { OUTSIDE }
    }

    /// Moves coordinates into the image; `signs` are multiplied by the slopes of that.
    #[inline(always)]
    fn pad(self, at: &mut [C], signs: &mut [C]) {
        let last = self.size() - C::ONE;
        if self.padding == Padding::Reflection {
            let twice = C::of(2.0) * self.size();
            let (low, high) = match self.align {
                true => (C::ZERO, twice - C::of(2.0)),
                false => (-C::ONE, twice - C::ONE),
            };
            for (at, sign) in at.iter_mut().zip(&mut *signs) {
                let (moved, turned) = self.reflected(*at, low, high);
                (*at, *sign) = (moved, *sign * turned);
            }
        }
        if self.padding != Padding::Zeros {
            for (at, sign) in at.iter_mut().zip(signs) {
                let (moved, kept) = self.clipped(*at, last);
                (*at, *sign) = (moved, *sign * kept);
            }
        }
    }

    /// Reflection at both borders, given as twice their coordinates, as often as needed, and the slope of
    /// that. In two dimensions the way there and back is taken away, in three the way there.
    #[inline(always)]
    fn reflected(self, at: C, low: C, high: C) -> (C, C) {
        if low == high {
            return (C::ZERO, C::ZERO);
        }
        let (start, span) = (C::of(0.5) * low, C::of(0.5) * (high - low));
        let (distance, sign) = ((at - start).abs(), if at < start { -C::ONE } else { C::ONE });
        let (rest, turns) = if self.flat {
            let twice = high - low;
            let rest = distance - (distance / twice).floor() * twice;
            (if rest > span { twice - rest } else { rest }, rest > span)
        } else {
            let (rest, flips) = (distance.rest(span), (distance / span).floor());
            let odd = flips.rest(C::of(2.0)) != C::ZERO;
            (if odd { span - rest } else { rest }, odd)
        };
        (rest + start, if turns { -sign } else { sign })
    }

    /// A coordinate moved between 0 and `last`, and the slope of that. NaN goes to 0 in two dimensions,
    /// and to `last` in three.
    #[inline(always)]
    fn clipped(self, at: C, last: C) -> (C, C) {
        let within = (at > C::ZERO) & (at < last);
        let beyond = if self.flat { at >= last } else { (at > C::ZERO) | at.is_nan() };
        let border = if beyond { last } else { C::ZERO };
        if within { (at, C::ONE) } else { (border, C::ZERO) }
    }
}

/// A coordinate that no integer can hold lies outside.
#[inline(always)]
fn in_range<C: Coordinate>(at: C) -> C {
    let limit = C::of(f64::from(i32::MAX - 1));
    if at.is_finite() & (at.abs() <= limit) { at } else { C::of(-100.0) }
}

/// Keys' cubic with slope -3/4 at 1, at a distance, and its slope there.
#[inline(always)]
fn keys<C: Coordinate>(x: C) -> (C, C) {
    let of = C::of;
    let a = of(-0.75);
    let near = (
        ((a + of(2.0)) * x - (a + of(3.0))) * x * x + C::ONE,
        (of(3.0) * (a + of(2.0)) * x - of(2.0) * (a + of(3.0))) * x,
    );
    let far = (
        ((x - of(5.0)) * a * x + of(8.0) * a) * x - of(4.0) * a,
        (of(3.0) * a * x - of(10.0) * a) * x + of(8.0) * a,
    );
    if x <= C::ONE { near } else { far }
}

//! Where a point of a grid lies in its image.

/// The points of one dimension that take part.
#[derive(Clone, Copy)]
pub(super) struct Taps {
    taps: [Tap; 4],
    count: usize,
}

impl Taps {
    pub(super) const NONE: Self =
        Self { taps: [Tap { place: None, weight: 0.0, slope: 0.0 }; 4], count: 0 };

    #[inline(always)]
    fn push(&mut self, tap: Tap) {
        self.taps[self.count] = tap;
        self.count += 1;
    }

    #[inline(always)]
    pub(super) fn as_slice(&self) -> &[Tap] {
        &self.taps[..self.count]
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
pub(super) struct Axis {
    pub(super) size: usize,
    pub(super) align: bool,
    pub(super) padding: Padding,
    /// To a number that a half precision can hold: coordinates are computed in it.
    pub(super) round: Option<fn(f64) -> f64>,
}

/// A point that takes part: its place, its weight, and the slope of that.
#[derive(Clone, Copy)]
pub(super) struct Tap {
    pub(super) place: Option<usize>,
    pub(super) weight: f64,
    pub(super) slope: f64,
}

impl Axis {
    /// The points that take part in the value at a coordinate between -1 and 1.
    #[inline(always)]
    pub(super) fn taps(self, x: f64, mode: Mode) -> Taps {
        let size = self.size as f64;
        let round = |x: f64| self.round.map_or(x, |round| round(x));
        let moved = round(x + 1.0);
        let (at, scale) = match self.align {
            true => (round(round(moved / 2.0) * (size - 1.0)), (size - 1.0) / 2.0),
            false => (round(round(round(moved * size) - 1.0) / 2.0), size / 2.0),
        };
        if mode == Mode::Cubic {
            return self.cubic(at, scale);
        }
        let (at, sign) = self.padded(at);
        let at = in_range(at);
        let tap = |place: f64, weight: f64, slope: f64| Tap {
            place: self.inside(place),
            weight,
            slope: slope * scale * sign,
        };
        let mut taps = Taps::NONE;
        if mode == Mode::Nearest {
            taps.push(tap(at.round_ties_even(), 1.0, 0.0));
            return taps;
        }
        let first = at.floor();
        taps.push(tap(first, first + 1.0 - at, -1.0));
        taps.push(tap(first + 1.0, at - first, 1.0));
        taps
    }

    #[inline(always)]
    fn cubic(self, at: f64, scale: f64) -> Taps {
        let mut taps = Taps::NONE;
        let first = at.floor();
        let t = at - first;
        for (k, x) in [t + 1.0, t, 1.0 - t, 2.0 - t].into_iter().enumerate() {
            let place = in_range(self.padded(first - 1.0 + k as f64).0);
            let sign = if k < 2 { 1.0 } else { -1.0 };
            let (weight, slope) = keys(x);
            taps.push(Tap { place: self.inside(place), weight, slope: slope * sign * scale });
        }
        taps
    }

    #[inline(always)]
    fn inside(self, place: f64) -> Option<usize> {
        (0.0 <= place && place < self.size as f64).then_some(place as usize)
    }

    /// The coordinate moved into the image, and the slope of that.
    #[inline(always)]
    fn padded(self, at: f64) -> (f64, f64) {
        match self.padding {
            Padding::Zeros => (at, 1.0),
            Padding::Border => self.clipped(at),
            Padding::Reflection => {
                let twice = 2.0 * self.size as f64;
                let (low, high) = if self.align { (0.0, twice - 2.0) } else { (-1.0, twice - 1.0) };
                let (at, sign) = reflected(at, low, high);
                let (at, clipped) = self.clipped(at);
                (at, sign * clipped)
            }
        }
    }

    #[inline(always)]
    fn clipped(self, at: f64) -> (f64, f64) {
        let last = self.size as f64 - 1.0;
        match at {
            _ if at > 0.0 && at < last => (at, 1.0),
            _ if at >= last => (last, 0.0),
            _ => (0.0, 0.0),
        }
    }
}

/// Reflection at both borders, given as twice their coordinates, as often as needed.
#[inline(always)]
fn reflected(at: f64, low: f64, high: f64) -> (f64, f64) {
    if low == high {
        return (0.0, 0.0);
    }
    let (start, span) = (low / 2.0, (high - low) / 2.0);
    let (distance, sign) = ((at - start).abs(), if at < start { -1.0 } else { 1.0 });
    let (rest, flips) = (distance % span, (distance / span).floor());
    if flips % 2.0 == 0.0 { (rest + start, sign) } else { (span - rest + start, -sign) }
}

/// A coordinate that no integer can hold lies outside.
#[inline(always)]
fn in_range(at: f64) -> f64 {
    let limit = f64::from(i32::MAX - 1);
    if at.is_finite() && at.abs() <= limit { at } else { -100.0 }
}

/// Keys' cubic with slope -3/4 at 1, at a distance, and its slope there.
#[inline(always)]
fn keys(x: f64) -> (f64, f64) {
    const A: f64 = -0.75;
    if x <= 1.0 {
        let value = ((A + 2.0) * x - (A + 3.0)) * x * x + 1.0;
        return (value, (3.0 * (A + 2.0) * x - 2.0 * (A + 3.0)) * x);
    }
    let value = ((x - 5.0) * A * x + 8.0 * A) * x - 4.0 * A;
    (value, (3.0 * A * x - 10.0 * A) * x + 8.0 * A)
}

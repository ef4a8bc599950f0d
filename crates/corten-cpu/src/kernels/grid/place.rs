//! Where the points of a grid lie in their image.

/// The points of one dimension of an image that take part in the values at some points of a grid:
/// those with number 0 for each of these, then those with number 1, and so on.
pub(super) struct Taps {
    /// How many points of the grid there are.
    points: usize,
    /// Where they lie; those outside are [`OUTSIDE`].
    places: Vec<usize>,
    weights: Vec<f64>,
    /// The slopes of the weights, where they are asked for.
    slopes: Vec<f64>,
}

/// The place of what lies outside of an image and stands for nothing.
pub(super) const OUTSIDE: usize = usize::MAX;

impl Taps {
    /// Those with one number.
    #[inline(always)]
    pub(super) fn numbered(&self, k: usize) -> (&[usize], &[f64]) {
        let range = k * self.points..(k + 1) * self.points;
        (&self.places[range.clone()], &self.weights[range])
    }

    /// The slopes of the weights of those with one number.
    #[inline(always)]
    pub(super) fn slopes(&self, k: usize) -> &[f64] {
        &self.slopes[k * self.points..][..self.points]
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

/// The steps go through all points before the next one does, so that each is a loop over vectors.
impl Axis {
    /// The points that take part in the values at coordinates between -1 and 1, which are
    /// overwritten.
    #[inline(always)]
    pub(super) fn taps(self, at: &mut [f64], mode: Mode, slopes: bool) -> Taps {
        let points = at.len();
        let room = |wanted| Vec::with_capacity(if wanted { points * mode.taps() } else { 0 });
        let (mut places, mut weights, mut along) = (Vec::new(), room(true), room(slopes));
        places.reserve_exact(points * mode.taps());
        match self.round {
            None => at.iter_mut().for_each(|x| *x = self.scaled(*x, |x| x)),
            Some(round) => at.iter_mut().for_each(|x| *x = self.scaled(*x, round)),
        }
        let size = self.size as f64;
        let scale = if self.align { (size - 1.0) / 2.0 } else { size / 2.0 };
        let mut signs = vec![1.0; points];
        if mode == Mode::Cubic {
            self.cubic(at, scale, [&mut weights, &mut along], slopes);
            for k in 0..4 {
                let mut moved: Vec<f64> = at.iter().map(|at| at.floor() - 1.0 + k as f64).collect();
                self.pad(&mut moved, &mut signs);
                places.extend(moved.iter().map(|&at| self.inside(in_range(at))));
            }
            return Taps { points, places, weights, slopes: along };
        }
        self.pad(at, &mut signs);
        at.iter_mut().for_each(|at| *at = in_range(*at));
        if mode == Mode::Nearest {
            places.extend(at.iter().map(|at| self.inside(at.round_ties_even())));
            weights.resize(points, 1.0);
            along.resize(if slopes { points } else { 0 }, 0.0);
            return Taps { points, places, weights, slopes: along };
        }
        for (k, scale) in [-scale, scale].into_iter().enumerate() {
            places.extend(at.iter().map(|at| self.inside(at.floor() + k as f64)));
            weights.extend(at.iter().map(|at| match k {
                0 => at.floor() + 1.0 - at,
                _ => at - at.floor(),
            }));
            if slopes {
                along.extend(signs.iter().map(|sign| scale * sign));
            }
        }
        Taps { points, places, weights, slopes: along }
    }

    /// The coordinate in the image for one between -1 and 1.
    #[inline(always)]
    fn scaled(self, x: f64, round: impl Fn(f64) -> f64) -> f64 {
        let size = self.size as f64;
        let moved = round(x + 1.0);
        match self.align {
            true => round(round(moved / 2.0) * (size - 1.0)),
            false => round(round(round(moved * size) - 1.0) / 2.0),
        }
    }

    /// The weights of the cubic mode, and their slopes.
    #[inline(always)]
    fn cubic(self, at: &[f64], scale: f64, [weights, along]: [&mut Vec<f64>; 2], slopes: bool) {
        for k in 0..4 {
            let distance = |at: &f64| {
                let t = at - at.floor();
                match k {
                    0 => t + 1.0,
                    1 => t,
                    2 => 1.0 - t,
                    _ => 2.0 - t,
                }
            };
            weights.extend(at.iter().map(|at| keys(distance(at)).0));
            if slopes {
                let sign = if k < 2 { 1.0 } else { -1.0 };
                along.extend(at.iter().map(|at| keys(distance(at)).1 * sign * scale));
            }
        }
    }

    #[inline(always)]
    fn inside(self, place: f64) -> usize {
        // Coordinates in range fit 32 bits, from which there are conversions of vectors.
        let inside = (0.0 <= place) & (place < self.size as f64);
        if inside { place as u32 as usize } else { OUTSIDE }
    }

    /// Moves coordinates into the image; `signs` are multiplied by the slopes of that.
    #[inline(always)]
    fn pad(self, at: &mut [f64], signs: &mut [f64]) {
        let last = self.size as f64 - 1.0;
        if self.padding == Padding::Reflection {
            let twice = 2.0 * self.size as f64;
            let (low, high) = if self.align { (0.0, twice - 2.0) } else { (-1.0, twice - 1.0) };
            for (at, sign) in at.iter_mut().zip(&mut *signs) {
                let (moved, turned) = reflected(*at, low, high);
                (*at, *sign) = (moved, *sign * turned);
            }
        }
        if self.padding != Padding::Zeros {
            for (at, sign) in at.iter_mut().zip(signs) {
                let (moved, kept) = clipped(*at, last);
                (*at, *sign) = (moved, *sign * kept);
            }
        }
    }
}

/// A coordinate moved between 0 and `last`, and the slope of that.
#[inline(always)]
fn clipped(at: f64, last: f64) -> (f64, f64) {
    match at {
        _ if at > 0.0 && at < last => (at, 1.0),
        _ if at >= last => (last, 0.0),
        _ => (0.0, 0.0),
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

//! Rotary positions: the angles of each pair, and tables of their cosines and sines.

use corten::{Result, Tensor};
use std::f64::consts::PI;

/// The angles by which pairs of elements are turned: position times `theta^(-2i / dims)` for pair `i`, scaled.
///
/// ```
/// use corten_lm::{Rope, RopeScaling};
///
/// let rope = Rope { theta: 10_000.0, dims: 4, scaling: RopeScaling::Linear(2.0) };
/// assert_eq!(rope.frequencies(), [0.5, 0.005]);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Rope {
    /// The base.
    pub theta: f64,
    /// Elements that are turned, an even number.
    pub dims: usize,
    /// How frequencies are changed for longer texts.
    pub scaling: RopeScaling,
}

/// How the frequencies of [`Rope`] are changed for texts longer than those of the training.
///
/// ```
/// use corten_lm::RopeScaling;
///
/// assert_ne!(RopeScaling::None, RopeScaling::Linear(8.0));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum RopeScaling {
    /// Not at all.
    None,
    /// All are divided by a number.
    Linear(f64),
    /// Each is divided by a number of its own.
    Divided(Vec<f64>),
    /// Low ones are divided, as for Llama 3.1.
    Llama3(Llama3),
    /// YaRN: low ones are divided, and scores grow.
    Yarn(Yarn),
}

/// The settings of Llama 3.1: frequencies whose waves are longer than `original / low` tokens are divided by `factor`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Llama3 {
    /// What low frequencies are divided by.
    pub factor: f64,
    /// Below so many waves in the original context a frequency is low.
    pub low: f64,
    /// Above so many waves it stays as it is.
    pub high: f64,
    /// Tokens of the training.
    pub original: f64,
}

/// The settings of YaRN.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Yarn {
    /// What low frequencies are divided by.
    pub factor: f64,
    /// Tokens of the training.
    pub original: f64,
    /// Pairs with more turns than this in the original context stay as they are.
    pub fast: f64,
    /// Pairs with fewer turns than this are divided wholly.
    pub slow: f64,
    /// What cosines and sines are multiplied with; `0.1 ln(factor) + 1` unless given.
    pub attention: Option<f64>,
}

impl Rope {
    /// The angle of each pair at position 1.
    pub fn frequencies(&self) -> Vec<f64> {
        let pairs = self.dims / 2;
        let bases = (0..pairs).map(|i| self.theta.powf(-((2 * i) as f64) / self.dims as f64));
        match &self.scaling {
            RopeScaling::None => bases.collect(),
            RopeScaling::Linear(factor) => bases.map(|base| base / factor).collect(),
            RopeScaling::Divided(by) => {
                bases.enumerate().map(|(i, base)| base / by.get(i).unwrap_or(&1.0)).collect()
            }
            RopeScaling::Llama3(known) => bases.map(|base| known.scaled(base)).collect(),
            RopeScaling::Yarn(known) => {
                let [low, high] = known.borders(self.theta, self.dims);
                let ramp = |i: usize| ((i as f64 - low) / (high - low)).clamp(0.0, 1.0);
                let mixed = |(i, base): (usize, f64)| {
                    base / known.factor * ramp(i) + base * (1.0 - ramp(i))
                };
                bases.enumerate().map(mixed).collect()
            }
        }
    }

    pub(crate) fn angles(&self) -> Angles {
        Angles { frequencies: self.frequencies(), size: self.magnitude() }
    }

    fn magnitude(&self) -> f64 {
        match self.scaling {
            RopeScaling::Yarn(Yarn { attention: Some(size), .. }) => size,
            RopeScaling::Yarn(Yarn { factor, .. }) if factor > 1.0 => 0.1 * factor.ln() + 1.0,
            _ => 1.0,
        }
    }
}

/// The frequencies of pairs, and what cosines and sines are multiplied with.
pub(crate) struct Angles {
    frequencies: Vec<f64>,
    size: f64,
}

impl Angles {
    /// Cosines and sines at some positions: two tensors of a shape whose last dimension is that of the pairs.
    pub(crate) fn at(&self, positions: &[i64], leading: &[i64]) -> Result<[Tensor; 2]> {
        let count = positions.len() * self.frequencies.len();
        let (mut cos, mut sin) = (Vec::with_capacity(count), Vec::with_capacity(count));
        for &position in positions {
            for frequency in &self.frequencies {
                let (s, c) = (position as f64 * frequency).sin_cos();
                cos.push((c * self.size) as f32);
                sin.push((s * self.size) as f32);
            }
        }
        let mut shape = leading.to_vec();
        shape.push(self.frequencies.len() as i64);
        Ok([Tensor::from_vec(cos, &shape)?, Tensor::from_vec(sin, &shape)?])
    }
}

impl Llama3 {
    fn scaled(&self, base: f64) -> f64 {
        let waves = self.original * base / (2.0 * PI);
        if waves < self.low {
            return base / self.factor;
        }
        if waves > self.high {
            return base;
        }
        let smooth = (waves - self.low) / (self.high - self.low);
        (1.0 - smooth) * base / self.factor + smooth * base
    }
}

impl Yarn {
    /// The first pair that is mixed, and the first that is divided wholly.
    fn borders(&self, theta: f64, dims: usize) -> [f64; 2] {
        let border = |turns: f64| {
            dims as f64 * (self.original / (turns * 2.0 * PI)).ln() / (2.0 * theta.ln())
        };
        let low = border(self.fast).floor().max(0.0);
        let high = border(self.slow).ceil().min(dims as f64 - 1.0);
        [low, if high > low { high } else { low + 0.001 }]
    }
}

//! The choice of a token among logits.

use corten::core::ensure;
use corten::{DType, Result, Tensor, op};

/// How tokens are chosen. Logits are penalised and divided by the temperature; then `top_k`, `top_p` and `min_p` leave
/// out the less likely tokens, in this order.
///
/// ```
/// use corten_lm::Sampling;
///
/// let sampling = Sampling { temperature: 0.8, top_k: 40, ..Sampling::default() };
/// assert_eq!(Sampling::greedy().temperature, 0.0);
/// assert_eq!(sampling.top_p, 1.0);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampling {
    /// What logits are divided by; 0 takes the most likely token.
    pub temperature: f64,
    /// The number of most likely tokens that are left; 0 for all.
    pub top_k: usize,
    /// The most likely tokens that together have this probability are left; 1 for all.
    pub top_p: f64,
    /// Tokens with less than this part of the largest probability are left out.
    pub min_p: f64,
    /// What positive logits of tokens that were seen are divided by, and negative ones multiplied with; 1 for none.
    pub repetition_penalty: f64,
    /// How many of the last tokens count as seen.
    pub repetition_window: usize,
    /// The seed of the random numbers.
    pub seed: u64,
}

impl Default for Sampling {
    fn default() -> Self {
        Self {
            temperature: 1.0,
            top_k: 0,
            top_p: 1.0,
            min_p: 0.0,
            repetition_penalty: 1.0,
            repetition_window: 64,
            seed: 0,
        }
    }
}

impl Sampling {
    /// Always the most likely token.
    pub fn greedy() -> Self {
        Self { temperature: 0.0, ..Self::default() }
    }
}

/// Chooses tokens, with random numbers that a seed decides.
///
/// ```
/// use corten::prelude::*;
/// use corten_lm::{Sampler, Sampling};
///
/// let logits = tensor![0.5, 3., -1., 2.]?;
/// assert_eq!(Sampler::new(Sampling::greedy()).pick(&logits, &[])?, 1);
/// let mut sampler = Sampler::new(Sampling { top_k: 2, seed: 7, ..Sampling::default() });
/// assert!([1, 3].contains(&sampler.pick(&logits, &[])?));
/// # Ok::<(), corten::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Sampler {
    sampling: Sampling,
    state: u64,
}

impl Sampler {
    /// A sampler at the beginning of its random numbers.
    pub fn new(sampling: Sampling) -> Self {
        Self { state: sampling.seed, sampling }
    }

    /// The token for logits of one position, after the tokens of `history`.
    ///
    /// # Errors
    /// `Value` for no logits.
    pub fn pick(&mut self, logits: &Tensor, history: &[u32]) -> Result<u32> {
        ensure!(logits.numel() > 0, Value, "there are no logits to choose from");
        let penalises = self.sampling.repetition_penalty != 1.0;
        if self.sampling.temperature <= 0.0 && !penalises {
            return Ok(op::argmax(logits, None, false)?.to_element::<i64>()? as u32);
        }
        let mut logits = logits.to(DType::Float32)?.to_vec::<f32>()?;
        if penalises {
            self.penalise(&mut logits, history);
        }
        if self.sampling.temperature <= 0.0 {
            let best = logits.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1));
            return Ok(best.map_or(0, |(token, _)| token as u32));
        }
        let kept = self.candidates(&logits);
        Ok(self.draw(&kept))
    }

    fn penalise(&self, logits: &mut [f32], history: &[u32]) {
        let penalty = self.sampling.repetition_penalty as f32;
        let start = history.len().saturating_sub(self.sampling.repetition_window);
        let mut seen = history[start..].to_vec();
        seen.sort_unstable();
        seen.dedup();
        for token in seen {
            if let Some(logit) = logits.get_mut(token as usize) {
                *logit = if *logit > 0.0 { *logit / penalty } else { *logit * penalty };
            }
        }
    }

    /// The tokens that are left, most likely first, and their weights relative to the first.
    fn candidates(&self, logits: &[f32]) -> Vec<(u32, f64)> {
        let Sampling { temperature, top_k, top_p, min_p, .. } = self.sampling;
        let mut order: Vec<u32> = (0..logits.len() as u32).collect();
        let falling =
            |a: &u32, b: &u32| logits[*b as usize].total_cmp(&logits[*a as usize]).then(a.cmp(b));
        if (1..order.len()).contains(&top_k) {
            order.select_nth_unstable_by(top_k - 1, falling);
            order.truncate(top_k);
        }
        let largest = order.iter().map(|&i| logits[i as usize]).fold(f32::NEG_INFINITY, f32::max);
        let weight = |i: u32| (f64::from(logits[i as usize] - largest) / temperature).exp();
        let weighted = |i: u32| Some((i, weight(i))).filter(|&(_, weight)| weight >= min_p);
        if top_p >= 1.0 {
            return order.into_iter().filter_map(weighted).collect();
        }
        order.sort_unstable_by(falling);
        let total: f64 = order.iter().map(|&i| weight(i)).sum();
        let (mut kept, mut sum) = (Vec::new(), 0.0);
        for i in order {
            // The token that passes the border is kept, and the first always.
            if sum >= top_p * total && sum > 0.0 {
                break;
            }
            sum += weight(i);
            kept.extend(weighted(i));
        }
        kept
    }

    fn draw(&mut self, kept: &[(u32, f64)]) -> u32 {
        let total: f64 = kept.iter().map(|(_, weight)| weight).sum();
        let mut left = self.uniform() * total;
        for &(token, weight) in kept {
            left -= weight;
            if left < 0.0 {
                return token;
            }
        }
        kept.last().map_or(0, |&(token, _)| token)
    }

    /// The next number in [0, 1), by SplitMix64.
    fn uniform(&mut self) -> f64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }
}

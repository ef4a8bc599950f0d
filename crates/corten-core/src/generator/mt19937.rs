//! The Mersenne twister of Matsumoto and Nishimura (1998).

use std::fmt;

const N: usize = 624;
const M: usize = 397;
const MATRIX_A: u32 = 0x9908_B0DF;
const UPPER: u32 = 0x8000_0000;
const LOWER: u32 = 0x7FFF_FFFF;

/// The engine of the host generator: period 2^19937 - 1, 32 bits per step.
///
/// ```
/// use corten_core::generator::Mt19937;
///
/// assert_eq!(Mt19937::new(5489).next_u32(), 3_499_211_612);
/// ```
#[derive(Clone)]
pub struct Mt19937 {
    seed: u64,
    left: i32,
    next: u32,
    words: [u32; N],
}

impl Mt19937 {
    /// The stream of a seed, of which only the low 32 bits matter.
    pub fn new(seed: u64) -> Self {
        let mut words = [0_u32; N];
        words[0] = seed as u32;
        for index in 1..N {
            let previous = words[index - 1];
            words[index] = 1_812_433_253_u32
                .wrapping_mul(previous ^ (previous >> 30))
                .wrapping_add(index as u32);
        }
        Self { seed, left: 1, next: 0, words }
    }

    pub(super) fn from_parts(seed: u64, left: i32, next: u32, words: [u32; N]) -> Self {
        Self { seed, left, next, words }
    }

    /// The whole seed.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    pub(super) fn left(&self) -> i32 {
        self.left
    }

    pub(super) fn next(&self) -> u32 {
        self.next
    }

    pub(super) fn words(&self) -> &[u32; N] {
        &self.words
    }

    /// The next 32 bits.
    #[inline]
    pub fn next_u32(&mut self) -> u32 {
        self.left -= 1;
        if self.left == 0 {
            self.refill();
        }
        let word = self.words[self.next as usize % N];
        self.next += 1;
        tempered(word)
    }

    /// Fills with what as many calls of [`next_u32`](Self::next_u32) would give.
    pub fn fill(&mut self, mut out: &mut [u32]) {
        while let Some(first) = out.first_mut() {
            let next = self.next as usize;
            let ready = (self.left as usize).saturating_sub(1).min(N.saturating_sub(next));
            if ready == 0 {
                *first = self.next_u32();
                out = &mut out[1..];
                continue;
            }
            let count = ready.min(out.len());
            let (now, later) = out.split_at_mut(count);
            for (slot, &word) in now.iter_mut().zip(&self.words[next..next + count]) {
                *slot = tempered(word);
            }
            self.left -= count as i32;
            self.next += count as u32;
            out = later;
        }
    }

    /// Moves on all words, in parts in which the compiler sees how far apart they are.
    #[cold]
    fn refill(&mut self) {
        let words = &mut self.words;
        for index in 0..N - M {
            words[index] = words[index + M] ^ twisted(words[index], words[index + 1]);
        }
        for index in N - M..N - 1 {
            words[index] = words[index + M - N] ^ twisted(words[index], words[index + 1]);
        }
        words[N - 1] = words[M - 1] ^ twisted(words[N - 1], words[0]);
        self.left = N as i32;
        self.next = 0;
    }
}

#[inline(always)]
fn tempered(mut word: u32) -> u32 {
    word ^= word >> 11;
    word ^= (word << 7) & 0x9D2C_5680;
    word ^= (word << 15) & 0xEFC6_0000;
    word ^ (word >> 18)
}

#[inline(always)]
fn twisted(word: u32, next: u32) -> u32 {
    let mixed = (word & UPPER) | (next & LOWER);
    (mixed >> 1) ^ ((mixed & 1).wrapping_neg() & MATRIX_A)
}

impl fmt::Debug for Mt19937 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Mt19937(seed {}, next {})", self.seed, self.next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_are_drawn_as_one_by_one() {
        let (mut many, mut single) = (Mt19937::new(42), Mt19937::new(42));
        for count in [0, 1, 3, 622, 1, 624, 2000, 623, 5] {
            let mut out = vec![0; count];
            many.fill(&mut out);
            assert!(out.iter().all(|&word| word == single.next_u32()));
            assert_eq!((many.left, many.next), (single.left, single.next));
        }
        // What the engine of this seed gives at its ten thousandth step, as published.
        let mut published = Mt19937::new(5489);
        let mut out = vec![0; 10_000];
        published.fill(&mut out);
        assert_eq!(out.last(), Some(&4_123_659_995));
    }
}

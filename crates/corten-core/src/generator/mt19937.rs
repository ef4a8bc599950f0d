//! The Mersenne twister of Matsumoto and Nishimura (1998).

use std::fmt;

const N: usize = 624;
const M: usize = 397;
const MATRIX_A: u32 = 0x9908_B0DF;
const UPPER: u32 = 0x8000_0000;
const LOWER: u32 = 0x7FFF_FFFF;

/// The engine of the host generator: period 2^19937 - 1, 32 bits per step.
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
        let mut y = self.words[self.next as usize % N];
        self.next += 1;
        y ^= y >> 11;
        y ^= (y << 7) & 0x9D2C_5680;
        y ^= (y << 15) & 0xEFC6_0000;
        y ^ (y >> 18)
    }

    #[cold]
    fn refill(&mut self) {
        let words = &mut self.words;
        for index in 0..N {
            let mixed = (words[index] & UPPER) | (words[(index + 1) % N] & LOWER);
            let twist = (mixed >> 1) ^ if mixed & 1 == 1 { MATRIX_A } else { 0 };
            words[index] = words[(index + M) % N] ^ twist;
        }
        self.left = N as i32;
        self.next = 0;
    }
}

impl fmt::Debug for Mt19937 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Mt19937(seed {}, next {})", self.seed, self.next)
    }
}

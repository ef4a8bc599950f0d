//! Philox4x32-10, a counter-based generator (Salmon et al. 2011): any element of the stream is
//! reached without the ones before it, so that parallel kernels agree on their numbers.

/// One stream: a key and a 128-bit counter of blocks of four numbers.
///
/// ```
/// use corten_core::generator::philox::Philox4x32;
///
/// // The known answer of Salmon et al. for a key and a counter of zeros.
/// assert_eq!(Philox4x32::block([0, 0], [0; 4])[0], 0x6627_e8d5);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Philox4x32 {
    key: [u32; 2],
    counter: [u32; 4],
    block: [u32; 4],
    used: usize,
}

const ROUNDS: usize = 10;
const MULTIPLIERS: [u32; 2] = [0xD251_1F53, 0xCD9E_8D57];
const WEYL: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];

impl Philox4x32 {
    /// The stream `subsequence` of `seed`, `offset` blocks from its start.
    pub fn new(seed: u64, subsequence: u64, offset: u64) -> Self {
        let counter =
            [offset as u32, (offset >> 32) as u32, subsequence as u32, (subsequence >> 32) as u32];
        Self { key: [seed as u32, (seed >> 32) as u32], counter, block: [0; 4], used: 4 }
    }

    /// The block of four numbers for a key and a counter.
    pub fn block(mut key: [u32; 2], mut counter: [u32; 4]) -> [u32; 4] {
        for _ in 0..ROUNDS {
            let a = u64::from(MULTIPLIERS[0]) * u64::from(counter[0]);
            let b = u64::from(MULTIPLIERS[1]) * u64::from(counter[2]);
            counter = [
                (b >> 32) as u32 ^ counter[1] ^ key[0],
                b as u32,
                (a >> 32) as u32 ^ counter[3] ^ key[1],
                a as u32,
            ];
            key = [key[0].wrapping_add(WEYL[0]), key[1].wrapping_add(WEYL[1])];
        }
        counter
    }

    /// The next 32 bits.
    #[inline]
    pub fn next_u32(&mut self) -> u32 {
        if self.used == 4 {
            self.block = Self::block(self.key, self.counter);
            self.skip_blocks(1);
            self.used = 0;
        }
        self.used += 1;
        self.block[self.used - 1]
    }

    /// The next 64 bits: the first draw in the upper half.
    pub fn next_u64(&mut self) -> u64 {
        let high = u64::from(self.next_u32());
        (high << 32) | u64::from(self.next_u32())
    }

    /// Moves the counter; numbers of the present block are still returned first.
    pub fn skip_blocks(&mut self, blocks: u64) {
        let low = u64::from(self.counter[0]) | (u64::from(self.counter[1]) << 32);
        let (low, carry) = low.overflowing_add(blocks);
        let high = u64::from(self.counter[2]) | (u64::from(self.counter[3]) << 32);
        let high = high.wrapping_add(u64::from(carry));
        self.counter = [low as u32, (low >> 32) as u32, high as u32, (high >> 32) as u32];
    }
}

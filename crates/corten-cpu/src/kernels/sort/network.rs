//! Sorting of a few keys without branches.

/// How many keys are sorted: `N`, in so many steps.
pub(super) struct Network<const N: usize, const STEPS: usize>;

pub(super) const NETWORK_8: Network<8, 19> = Network;
pub(super) const NETWORK_16: Network<16, 63> = Network;
pub(super) const NETWORK_32: Network<32, 191> = Network;

impl<const N: usize, const STEPS: usize> Network<N, STEPS> {
    /// Pairs of places: keys are in order once, pair by pair, the smaller one was put first. By
    /// K. E. Batcher's odd-even merge sort ("Sorting networks and their applications", 1968).
    const PAIRS: [(u8, u8); STEPS] = Self::pairs();

    const fn pairs() -> [(u8, u8); STEPS] {
        assert!(N.is_power_of_two() && N <= 128);
        let (mut pairs, mut count) = ([(0, 0); STEPS], 0);
        // Runs of `run` keys are merged in pairs.
        let mut run = 1;
        while run < N {
            let mut apart = run;
            while apart > 0 {
                let mut low = apart % run;
                while low + apart < N {
                    let mut i = low;
                    while i < low + apart && i + apart < N {
                        if i / (2 * run) == (i + apart) / (2 * run) {
                            pairs[count] = (i as u8, (i + apart) as u8);
                            count += 1;
                        }
                        i += 1;
                    }
                    low += 2 * apart;
                }
                apart /= 2;
            }
            run *= 2;
        }
        assert!(count == STEPS);
        pairs
    }

    /// Sorts keys.
    pub(super) fn sort<K: Ord + Copy>(&self, keys: &mut [K; N]) {
        if let (8, Some(eight)) = (N, keys.first_chunk_mut()) {
            return sort_eight(eight);
        }
        for &(low, high) in &Self::PAIRS {
            put_in_order(keys, low as usize % N, high as usize % N);
        }
    }
}

/// Both are written whether they change places or not: no processor foresees which do.
#[inline(always)]
fn put_in_order<K: Ord + Copy, const N: usize>(keys: &mut [K; N], low: usize, high: usize) {
    let (a, b) = (keys[low], keys[high]);
    (keys[low], keys[high]) = if b < a { (b, a) } else { (a, b) };
}

/// The pairs of eight keys one after the other, so that keys stay in registers.
fn sort_eight<K: Ord + Copy>(keys: &mut [K; 8]) {
    macro_rules! in_order {
        ($($low:literal $high:literal),+) => {$( put_in_order(keys, $low, $high); )+};
    }
    in_order!(0 1, 2 3, 4 5, 6 7, 0 2, 1 3, 4 6, 5 7, 1 2, 5 6);
    in_order!(0 4, 1 5, 2 6, 3 7, 2 4, 3 5, 1 2, 3 4, 5 6);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sorts<const N: usize, const STEPS: usize>(network: &Network<N, STEPS>, keys: [u32; N]) {
        let (mut sorted, mut expected) = (keys, keys);
        network.sort(&mut sorted);
        expected.sort_unstable();
        assert_eq!(sorted, expected, "{keys:?}");
    }

    /// A network that sorts all zeros and ones sorts everything.
    #[test]
    fn all_zeros_and_ones_are_sorted() {
        for bits in 0..1u32 << 16 {
            sorts(&NETWORK_8, std::array::from_fn(|i| bits >> i & 1));
            sorts(&NETWORK_16, std::array::from_fn(|i| bits >> i & 1));
        }
    }

    /// As many runs of ones as there are, and others.
    #[test]
    fn thirty_two_keys_are_sorted() {
        for start in 0..32 {
            for end in start..=32 {
                sorts(&NETWORK_32, std::array::from_fn(|i| u32::from((start..end).contains(&i))));
            }
        }
        let mut seed = 1u32;
        for _ in 0..20_000 {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            sorts(&NETWORK_32, std::array::from_fn(|i| seed >> i & 1));
            sorts(&NETWORK_32, std::array::from_fn(|i| seed.rotate_left(i as u32) % 97));
        }
    }
}

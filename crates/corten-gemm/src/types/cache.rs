//! The sizes of the processor's data caches.

use std::sync::OnceLock;

/// Bytes of the data caches that one core uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheSizes {
    /// The first-level data cache.
    pub l1: usize,
    /// The second-level cache.
    pub l2: usize,
    /// The last-level cache, which other cores may share.
    pub l3: usize,
}

impl CacheSizes {
    /// The sizes that are assumed of a processor which does not report them.
    pub const DEFAULT: Self = Self { l1: 32 << 10, l2: 512 << 10, l3: 16 << 20 };

    /// The sizes of this processor, which are read once.
    #[must_use]
    pub fn get() -> Self {
        static SIZES: OnceLock<CacheSizes> = OnceLock::new();
        *SIZES.get_or_init(Self::detect)
    }

    /// CPUID lists the caches in the same format in one leaf of Intel's processors and another of AMD's.
    #[cfg(target_arch = "x86_64")]
    fn detect() -> Self {
        use std::arch::x86_64::{__cpuid, __cpuid_count};
        const INTEL: u32 = 4;
        const AMD: u32 = 0x8000_001d;
        const INTEL_VENDOR: u32 = u32::from_le_bytes(*b"Genu");
        const MAX_CACHES: u32 = 8;
        let intel = __cpuid(0).ebx == INTEL_VENDOR;
        let (leaf, last) = match intel {
            true => (INTEL, __cpuid(0).eax),
            false => (AMD, __cpuid(0x8000_0000).eax),
        };
        let mut sizes = [0; 3];
        for index in (0..MAX_CACHES).take_while(|_| leaf <= last) {
            let cache = __cpuid_count(leaf, index);
            let (kind, level) = (cache.eax & 0x1f, (cache.eax >> 5 & 7) as usize);
            if kind == 0 {
                break;
            }
            const INSTRUCTIONS: u32 = 2;
            if kind != INSTRUCTIONS && (1..=3).contains(&level) {
                let field = |word: u32, shift: u32, bits: u32| {
                    (word >> shift & ((1 << bits) - 1)) as usize + 1
                };
                let [line, partitions, ways] =
                    [field(cache.ebx, 0, 12), field(cache.ebx, 12, 10), field(cache.ebx, 22, 10)];
                sizes[level - 1] = line * partitions * ways * (cache.ecx as usize + 1);
            }
        }
        let [l1, l2, l3] = sizes;
        Self { l1, l2, l3 }.plausible()
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn detect() -> Self {
        Self::DEFAULT
    }

    /// Replaces sizes that are missing, as hypervisors may hide them, and bounds the others, so that every
    /// share of a cache has room for a block.
    #[cfg(target_arch = "x86_64")]
    fn plausible(self) -> Self {
        let or = |size: usize, other: usize| if size > 0 { size } else { other };
        Self {
            l1: or(self.l1, Self::DEFAULT.l1).clamp(8 << 10, 1 << 20),
            l2: or(self.l2, Self::DEFAULT.l2).clamp(64 << 10, 64 << 20),
            l3: or(self.l3, Self::DEFAULT.l3).clamp(1 << 20, 4 << 30),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::CacheSizes;

    #[test]
    fn sizes_are_plausible() {
        let CacheSizes { l1, l2, l3 } = CacheSizes::get();
        assert!((8 << 10..=1 << 20).contains(&l1), "{l1}");
        assert!((64 << 10..=64 << 20).contains(&l2), "{l2}");
        assert!((1 << 20..=4 << 30).contains(&l3), "{l3}");
        assert_eq!(CacheSizes::get(), CacheSizes::get());
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn missing_sizes_are_replaced() {
        assert_eq!(CacheSizes { l1: 0, l2: 0, l3: 0 }.plausible(), CacheSizes::DEFAULT);
        let sizes = CacheSizes { l1: 1, l2: 1 << 10, l3: 1 << 40 }.plausible();
        assert_eq!(sizes, CacheSizes { l1: 8 << 10, l2: 64 << 10, l3: 4 << 30 });
    }
}

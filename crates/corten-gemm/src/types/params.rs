//! Block sizes: from the sizes of the caches, as in "Analytical Modeling Is Enough for High-Performance BLIS"
//! (Low et al. 2016).

use crate::types::cache::CacheSizes;
use crate::types::isa::Isa;
use std::sync::OnceLock;

/// Bytes of a cache line.
pub(crate) const CACHE_LINE: usize = 64;

/// The rows of the register block of vector registers. Six rows by four vectors are 24 multiplications and
/// 10 loads a step; 14 rows by two vectors would be 28 and 16, and some processors sustain one load a cycle
/// beside two multiplications.
pub(crate) const MR: usize = 6;

/// The most steps of the depth that are summed in registers. A micro-panel of `b` of so many fills an eighth
/// of a second-level cache of 1 MiB. It is the same on every processor, since the rounding of sums depends
/// on it, and so does the layout of prepacked operands.
pub(crate) const KC: usize = 512;

/// Rows at multiples of this many bytes map to the same sets of a first-level cache, which evict each other:
/// they are packed where many micro-panels read them.
pub const L1_ALIAS_STRIDE: usize = 4096;

/// The bytes that the first-level TLB maps with pages of 4 KiB.
pub(crate) const TLB_REACH: usize = 256 << 10;

/// Bytes of a page, at whose end hardware prefetchers stop.
pub(crate) const PAGE_BYTES: usize = 4096;

/// Elements that packing may write behind the last row.
pub const PACK_PADDING: usize = 16;

/// The block sizes of an instruction set on a processor, in bytes.
///
/// Each is a share of a cache, up to the largest value that was measured to gain anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Params {
    /// A block of `a`, which every micro-panel of `b` passes: it stays in the second-level cache beside
    /// one of these.
    pub mc_bytes: usize,
    /// An `a` of no more bytes is one block. Each micro-panel of `b` is then used once, and needs no
    /// buffer of its own.
    pub single_mc_bytes: usize,
    /// A block of `b` that several blocks of `a` use: it stays in the last-level cache.
    pub nc_bytes: usize,
    /// Blocks of `a` for which all of the depth is summed before the next ones. More of them pack `b` less
    /// often, fewer keep the sums nearer.
    pub blocks_per_group: usize,
    /// A packed block of `b` of no more bytes is near enough without prefetching.
    pub b_resident_bytes: usize,
    /// A `b` that reaches over no more bytes stays in the first-level cache unpacked.
    pub unpacked_b_bytes: usize,
    /// Sums of GEMV in axpy form: a part of the first-level cache.
    pub axpy_bytes: usize,
    /// Sums of a single row in axpy form: a part of the second-level cache, so that longer pieces of rows
    /// are streamed from memory.
    pub axpy_row_bytes: usize,
    /// A large operand of more bytes comes from memory and is prefetched.
    pub streamed_bytes: usize,
    /// The rows of `a` that are summed for the compensation of int8 products before they are multiplied: a
    /// part of the second-level cache.
    #[cfg(target_arch = "x86_64")]
    pub compensated_bytes: usize,
    /// Micro-panels of `b` that AMX multiplies at a time: half of the second-level cache.
    #[cfg(target_arch = "x86_64")]
    pub amx_b_bytes: usize,
}

impl Params {
    /// The block sizes for an instruction set and caches.
    pub(crate) fn auto(isa: Isa, CacheSizes { l1, l2, l3 }: CacheSizes) -> Self {
        let (mc_bytes, nc_bytes, blocks_per_group) = match is_wide(isa) {
            true => ((l2 / 8 * 3).min(384 << 10), (l3 / 4).min(4 << 20), 8),
            false => ((l2 / 2).min(128 << 10), (l3 / 4).min(2 << 20), 24),
        };
        Self {
            mc_bytes,
            single_mc_bytes: (l2 / 2 * 3).min(384 << 10),
            nc_bytes,
            blocks_per_group,
            b_resident_bytes: (4 * l2).min(1 << 20),
            unpacked_b_bytes: l1.min(32 << 10),
            axpy_bytes: (l1 / 2).min(16 << 10),
            axpy_row_bytes: (l2 / 4).min(64 << 10),
            streamed_bytes: (l3 / 8 * 3).min(12 << 20),
            #[cfg(target_arch = "x86_64")]
            compensated_bytes: (l2 / 4).min(256 << 10),
            #[cfg(target_arch = "x86_64")]
            amx_b_bytes: (l2 / 2).min(1 << 20),
        }
    }

    /// Those of this processor, computed once.
    pub(crate) fn get(isa: Isa) -> &'static Self {
        static WIDE: OnceLock<Params> = OnceLock::new();
        static NARROW: OnceLock<Params> = OnceLock::new();
        let params = if is_wide(isa) { &WIDE } else { &NARROW };
        params.get_or_init(|| Self::auto(isa, CacheSizes::get()))
    }
}

/// Whether vectors have 64 bytes: processors that have them have second-level caches of 1 MiB and more,
/// others as little as 256 KiB.
fn is_wide(isa: Isa) -> bool {
    isa >= Isa::Avx512
}

#[cfg(test)]
mod tests {
    use super::{CacheSizes, Params};
    use crate::types::isa::Isa;

    #[test]
    fn blocks_are_shares_of_the_caches() {
        let server = CacheSizes { l1: 48 << 10, l2: 2 << 20, l3: 64 << 20 };
        let params = Params::auto(Isa::Avx512, server);
        assert_eq!((params.mc_bytes, params.nc_bytes), (384 << 10, 4 << 20));
        assert_eq!((params.axpy_bytes, params.streamed_bytes), (16 << 10, 12 << 20));
        let desktop = CacheSizes { l1: 32 << 10, l2: 256 << 10, l3: 8 << 20 };
        let params = Params::auto(Isa::Avx2, desktop);
        assert_eq!((params.mc_bytes, params.nc_bytes), (128 << 10, 2 << 20));
        let small = CacheSizes { l1: 16 << 10, l2: 128 << 10, l3: 2 << 20 };
        let params = Params::auto(Isa::Avx2, small);
        assert_eq!((params.mc_bytes, params.nc_bytes), (64 << 10, 512 << 10));
        assert_eq!((params.unpacked_b_bytes, params.axpy_bytes), (16 << 10, 8 << 10));
    }
}

//! Block sizes.

/// Bytes of a cache line.
pub(crate) const CACHE_LINE: usize = 64;

/// The rows of the largest tile in vector registers.
pub(crate) const MR: usize = 6;

/// Lines at multiples of this many bytes share their places in the first-level cache: where many tiles
/// read them, a product copies them first.
pub const L1_ALIAS_STRIDE: usize = 4096;

/// A block that reaches over more bytes than this lies on more pages than a processor remembers.
pub(crate) const TLB_REACH: usize = 256 << 10;

/// Bytes of a page, at whose end processors cease to foresee what comes.
pub(crate) const PAGE_BYTES: usize = 4096;

/// Most steps of the depth at a time: the more there are, the less often the result is read and
/// written. A panel of `b` of so many fills an eighth of a second-level cache of 1 MiB, from which it
/// comes as fast as it is used.
pub(crate) const KC: usize = 512;

/// Elements that [`ImplicitOperand::fill`] may write behind its last line.
pub const PACK_PADDING: usize = 16;

//! The register block that operands are packed for, and when packing pays.

use crate::pack::pack_kernels::PackKernels;
use crate::types::element::Scalar;
use crate::types::isa::Isa;
use crate::types::params::{L1_ALIAS_STRIDE, MR, TLB_REACH};
use crate::types::view::{MatrixRef, stride_bytes};

/// The register block of the largest micro-kernel of an instruction set, and its pack kernels.
pub(crate) struct Packing<E: 'static> {
    /// The lanes of a vector.
    pub lanes: usize,
    /// The instruction set.
    pub isa: Isa,
    /// The vectors of a row of the register block: NR in vectors.
    pub nr_vectors: usize,
    /// The rows of the register block.
    pub mr: usize,
    /// The kernels that pack `b` and store tiles.
    pub pack_b: PackKernels<E>,
    /// The kernels that pack `a`.
    pub pack_a: PackKernels<E>,
}

impl<E> Packing<E> {
    /// The columns of the register block.
    pub(crate) fn nr(&self) -> usize {
        self.nr_vectors * self.lanes
    }

    /// Whether its vectors have 64 bytes.
    pub(crate) fn is_wide(&self) -> bool {
        self.lanes * size_of::<E>() >= 64
    }
}

/// A micro-panel of `a` that at most so many micro-panels of `b` use is read in place.
pub(crate) const MAX_UNPACKED_PANELS: usize = 2;

/// [`MAX_UNPACKED_PANELS`] of rows that alias, on processors with 64-byte vectors: most of their
/// first-level caches hold the lines of MR rows in one set, so that packing for a few micro-panels does
/// not pay.
const MAX_UNPACKED_PANELS_WIDE: usize = 8;

/// Up to so many micro-panels of `b` use aliasing rows of `a` in place.
pub(crate) fn max_unpacked_panels<E>(packing: &Packing<E>) -> usize {
    if packing.is_wide() { MAX_UNPACKED_PANELS_WIDE } else { MAX_UNPACKED_PANELS }
}

/// Whether rows of `a` that alias in the cache are packed for so many micro-panels of `b`.
pub(crate) fn packs_aliasing_a<E: Copy>(
    packing: &Packing<E>,
    a: &MatrixRef<'_, E>,
    panels: usize,
) -> bool {
    panels > max_unpacked_panels(packing)
        && stride_bytes::<E>(a.strides()[0]).is_multiple_of(L1_ALIAS_STRIDE)
}

/// Whether a row-major `b` is used by enough rows of `a` for packing to pay.
pub(crate) fn packing_pays<E: Scalar>(b: &MatrixRef<'_, E>, depth: usize, rows: usize) -> bool {
    let row_bytes = stride_bytes::<E>(b.strides()[0]);
    let far =
        row_bytes.is_multiple_of(L1_ALIAS_STRIDE) || row_bytes.saturating_mul(depth) > TLB_REACH;
    rows > if far { 2 * MR } else { 8 * MR }
}

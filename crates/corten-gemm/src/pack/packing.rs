//! The register block that operands are packed for, and when packing pays.

use crate::pack::pack_kernels::PackKernels;
use crate::types::element::Scalar;
use crate::types::isa::Isa;
use crate::types::params::{L1_ALIAS_STRIDE, MR, TLB_REACH};
use crate::types::view::{MatrixRef, stride_bytes};

/// The register block of the largest micro-kernel of an instruction set, and what packs for it.
pub(crate) struct Packing<E: 'static> {
    /// The lanes of a vector.
    pub lanes: usize,
    /// The instruction set.
    pub isa: Isa,
    /// The vectors of a row of the register block: NR in vectors.
    pub nr_vectors: usize,
    /// The rows of the register block.
    pub mr: usize,
    /// What packs micro-panels of `b`, and stores tiles.
    pub pack_b: PackKernels<E>,
    /// What packs micro-panels of `a`.
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

/// A strip that up to so many panels use is read as it lies.
pub(crate) const MAX_UNPACKED_PANELS: usize = 2;

/// [`MAX_UNPACKED_PANELS`] of rows at a multiple of [`L1_ALIAS_STRIDE`] on processors with 64-byte registers: the lines of
/// as many rows as a tile has find room in most of their first-level caches, where no copy is worth while
/// for a few panels.
const MAX_UNPACKED_PANELS_WIDE: usize = 8;

/// Up to so many panels use rows at a multiple of [`L1_ALIAS_STRIDE`] as they lie.
pub(crate) fn max_unpacked_panels<E>(packing: &Packing<E>) -> usize {
    if packing.is_wide() { MAX_UNPACKED_PANELS_WIDE } else { MAX_UNPACKED_PANELS }
}

/// Whether rows whose steps lie side by side are copied for so many panels.
pub(crate) fn packs_aliasing_a<E: Copy>(
    packing: &Packing<E>,
    a: &MatrixRef<'_, E>,
    panels: usize,
) -> bool {
    panels > max_unpacked_panels(packing)
        && stride_bytes::<E>(a.strides()[0]).is_multiple_of(L1_ALIAS_STRIDE)
}

/// Whether a second factor with columns side by side is copied for so many rows.
pub(crate) fn packing_pays<E: Scalar>(b: &MatrixRef<'_, E>, depth: usize, rows: usize) -> bool {
    let batch_stride = stride_bytes::<E>(b.strides()[0]);
    let far = batch_stride.is_multiple_of(L1_ALIAS_STRIDE)
        || batch_stride.saturating_mul(depth) > TLB_REACH;
    rows > if far { 2 * MR } else { 8 * MR }
}

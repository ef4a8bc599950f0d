//! Sizes, strides and what follows from them. Strides may have any sign.

mod flags;
mod foreign;
mod overlap;
mod shape;

use smallvec::SmallVec;

pub(crate) use flags::{ContiguityFlags, is_contiguous};
pub use foreign::{ForeignError, ForeignGeometry, ForeignMemory, ForeignStrides, MAX_FOREIGN_DIMS};
pub use overlap::{
    Overlap, OverlapBetween, assert_no_internal_overlap, assert_no_overlap,
    assert_no_partial_overlap, get_overlap_status, has_internal_overlap,
};
pub(crate) use shape::fill_in_strides;
pub use shape::{
    ascending, channels_last_strides, check_in_bounds, checked_numel, compute_view_strides,
    contiguous_strides, contiguous_strides_wrapping, infer_broadcast, infer_size,
    memory_format_strides, storage_bytes_contiguous, storage_bytes_needed, wrap_dim,
    wrap_dim_strict,
};

/// Sizes or strides by value; up to six dimensions without the heap.
pub type Dims = SmallVec<[i64; DIMS_IN_PLACE]>;

/// Lists of up to this many dimensions need no heap block.
pub(crate) const DIMS_IN_PLACE: usize = 6;

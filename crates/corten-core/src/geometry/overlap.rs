//! Whether elements of a tensor, or of two tensors, share memory.

use crate::{Result, TensorBase, bail};

/// Whether two indices of one tensor can mean the same element.
///
/// ```
/// use corten_core::geometry::{Overlap, has_internal_overlap};
/// use corten_core::{TensorBase, TensorOptions};
///
/// let x = TensorBase::empty(&[1], TensorOptions::default())?;
/// let repeated = x.as_view_of(&[3], &[0], 0)?;
/// assert_eq!(has_internal_overlap(&repeated), Overlap::Yes);
/// # Ok::<(), corten_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overlap {
    /// They cannot.
    No,
    /// They do.
    Yes,
    /// Finding out is too hard.
    TooHard,
}

/// How the memory of two tensors relates.
///
/// ```
/// use corten_core::geometry::{OverlapBetween, get_overlap_status};
/// use corten_core::{TensorBase, TensorOptions};
///
/// let x = TensorBase::empty(&[4], TensorOptions::default())?;
/// let (first, last) = (x.as_view_of(&[2], &[1], 0)?, x.as_view_of(&[2], &[1], 2)?);
/// assert_eq!(get_overlap_status(&first, &last), OverlapBetween::No);
/// assert_eq!(get_overlap_status(&x, &x), OverlapBetween::Full);
/// # Ok::<(), corten_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OverlapBetween {
    /// The same elements in the same order.
    Full,
    /// Some elements in common.
    Partial,
    /// No element in common.
    No,
    /// Finding out is too hard.
    TooHard,
}

/// Looks for indices of one tensor that mean the same element.
pub fn has_internal_overlap(tensor: &TensorBase) -> Overlap {
    if tensor.is_non_overlapping_and_dense() {
        return Overlap::No;
    }
    let geometry = tensor.geometry();
    let repeats = geometry
        .sizes
        .iter()
        .zip(&geometry.strides)
        .any(|(&size, &stride)| size > 1 && stride == 0);
    if repeats { Overlap::Yes } else { Overlap::TooHard }
}

/// Refuses a tensor that is about to be written if its elements share memory.
pub fn assert_no_internal_overlap(tensor: &TensorBase) -> Result<()> {
    if has_internal_overlap(tensor) == Overlap::Yes {
        bail!(
            Runtime,
            "unsupported operation: more than one element of the written-to tensor refers to a \
             single memory location. Please clone() the tensor before performing the operation."
        );
    }
    Ok(())
}

/// How the memory of two tensors relates. Only dense tensors are compared exactly.
pub fn get_overlap_status(a: &TensorBase, b: &TensorBase) -> OverlapBetween {
    if a.is_same(b) {
        return OverlapBetween::Full;
    }
    if a.numel() == 0 || b.numel() == 0 || !a.has_storage() || !b.has_storage() {
        return OverlapBetween::No;
    }
    if !a.is_non_overlapping_and_dense() || !b.is_non_overlapping_and_dense() {
        return OverlapBetween::TooHard;
    }
    if !a.is_alias_of(b) {
        return OverlapBetween::No;
    }
    let range = |tensor: &TensorBase| {
        let itemsize = tensor.itemsize() as i64;
        let begin = tensor.storage_offset().saturating_mul(itemsize);
        (begin, begin.saturating_add(tensor.numel().saturating_mul(itemsize)))
    };
    let ((a_begin, a_end), (b_begin, b_end)) = (range(a), range(b));
    if (a_begin, a_end) == (b_begin, b_end) {
        let same_order = a.strides() == b.strides();
        return if same_order { OverlapBetween::Full } else { OverlapBetween::Partial };
    }
    if a_begin < b_end && b_begin < a_end { OverlapBetween::Partial } else { OverlapBetween::No }
}

const PARTIAL: &str = "unsupported operation: some elements of the input tensor and the written-to \
    tensor refer to a single memory location. Please clone() the tensor before performing the \
    operation.";

/// Refuses a written tensor that shares some, but not all, elements with an input.
pub fn assert_no_partial_overlap(written: &TensorBase, input: &TensorBase) -> Result<()> {
    if get_overlap_status(written, input) == OverlapBetween::Partial {
        bail!(Runtime, "{PARTIAL}");
    }
    Ok(())
}

/// Refuses a written tensor that shares any element with an input.
pub fn assert_no_overlap(written: &TensorBase, input: &TensorBase) -> Result<()> {
    if matches!(get_overlap_status(written, input), OverlapBetween::Partial | OverlapBetween::Full)
    {
        bail!(Runtime, "{PARTIAL}");
    }
    Ok(())
}

//! Algorithms over bare sizes and strides.

use smallvec::smallvec;

use super::Dims;
use crate::{MemoryFormat, Result, bail, ensure, err};

/// The strides of a tensor whose last dimension varies fastest. Empty dimensions count as one.
pub fn contiguous_strides(sizes: &[i64]) -> Result<Dims> {
    let mut strides: Dims = smallvec![1; sizes.len()];
    for d in (1..sizes.len()).rev() {
        strides[d - 1] = strides[d]
            .checked_mul(sizes[d].max(1))
            .ok_or_else(|| err!(Runtime, "Stride calculation overflowed"))?;
    }
    Ok(strides)
}

/// Strides of which negative ones are those of a contiguous tensor before the dimensions that follow.
pub(crate) fn fill_in_strides(sizes: &[i64], strides: &[i64]) -> Result<Dims> {
    let mut filled = Dims::from_slice(strides);
    for d in (0..filled.len()).rev().filter(|&d| strides[d] < 0) {
        let next = filled.get(d + 1).copied().zip(sizes.get(d + 1).copied());
        filled[d] = match next {
            None => 1,
            Some((stride, size)) => stride
                .checked_mul(size.max(1))
                .ok_or_else(|| err!(Runtime, "Stride calculation overflowed"))?,
        };
    }
    Ok(filled)
}

/// The geometry of the same elements without negative strides, and the dimensions whose order it reverses:
/// strides, offset, dimensions.
pub fn ascending(sizes: &[i64], strides: &[i64], offset: i64) -> (Dims, i64, Dims) {
    let mut ascending = (Dims::from_slice(strides), offset, Dims::new());
    for (dim, &stride) in strides.iter().enumerate().filter(|&(_, &stride)| stride < 0) {
        ascending.0[dim] = stride.wrapping_neg();
        let length = sizes.get(dim).map_or(0, |&size| (size - 1).max(0));
        ascending.1 = ascending.1.wrapping_add(length.wrapping_mul(stride));
        ascending.2.push(dim as i64);
    }
    ascending
}

/// As [`contiguous_strides`], for sizes whose product is known to fit.
pub fn contiguous_strides_wrapping(sizes: &[i64]) -> Dims {
    let mut strides: Dims = smallvec![1; sizes.len()];
    for d in (1..sizes.len()).rev() {
        strides[d - 1] = strides[d].wrapping_mul(sizes[d].max(1));
    }
    strides
}

/// The strides of a tensor whose dimension 1 varies fastest: ranks 3 (CHW), 4 and 5.
pub fn channels_last_strides(sizes: &[i64]) -> Result<Dims> {
    let order: &[usize] = match sizes.len() {
        3 => &[0, 2, 1],
        4 => &[1, 3, 2, 0],
        5 => &[1, 4, 3, 2, 0],
        rank => bail!(Internal, "ChannelsLast doesn't support size {rank}"),
    };
    let mut strides: Dims = smallvec![0; sizes.len()];
    let mut stride = 1_i64;
    for &d in order {
        strides[d] = stride;
        stride = stride
            .checked_mul(sizes[d])
            .ok_or_else(|| err!(Runtime, "Stride calculation overflowed"))?;
    }
    Ok(strides)
}

/// The strides of a dense tensor in a memory format other than `Preserve`.
pub fn memory_format_strides(sizes: &[i64], format: MemoryFormat) -> Result<Dims> {
    match format {
        MemoryFormat::Contiguous => contiguous_strides(sizes),
        MemoryFormat::ChannelsLast => {
            ensure!(
                sizes.len() == 4,
                Runtime,
                "required rank 4 tensor to use channels_last format"
            );
            channels_last_strides(sizes)
        }
        MemoryFormat::ChannelsLast3d => {
            ensure!(
                sizes.len() == 5,
                Runtime,
                "required rank 5 tensor to use channels_last_3d format"
            );
            channels_last_strides(sizes)
        }
        MemoryFormat::Preserve => bail!(Runtime, "unsupported memory format Preserve"),
    }
}

/// The number of elements, or an error if it does not fit.
pub fn checked_numel(sizes: &[i64]) -> Result<i64> {
    let mut numel = 1_i64;
    let mut overflowed = false;
    for &size in sizes {
        let (product, overflow) = numel.overflowing_mul(size);
        numel = product;
        overflowed |= overflow;
    }
    if overflowed {
        // A later zero makes the product fit after all.
        ensure!(sizes.contains(&0), Runtime, "numel: integer multiplication overflow");
        return Ok(0);
    }
    // Kernels count elements in words: more of them, which expanded tensors could have, are refused.
    #[cfg(not(target_pointer_width = "64"))]
    ensure!(isize::try_from(numel).is_ok(), Runtime, "numel: {numel} elements are too many");
    Ok(numel)
}

/// Bytes from the start of a storage to the end of a contiguous tensor in it.
pub fn storage_bytes_contiguous(sizes: &[i64], itemsize: usize, offset: i64) -> Result<usize> {
    let elements = || -> Option<i64> {
        let numel = sizes.iter().try_fold(1_i64, |product, &size| product.checked_mul(size))?;
        let numel = if sizes.contains(&0) { 0 } else { numel };
        offset.checked_add(numel)?.checked_mul(itemsize as i64)
    };
    elements()
        .and_then(|bytes| usize::try_from(bytes).ok())
        .ok_or_else(|| err!(Runtime, "Storage size calculation overflowed with sizes={sizes:?}"))
}

/// Bytes from the start of a storage to the end of a tensor in it; 0 if the tensor is empty.
///
/// Dimensions with negative strides reach down from the offset and do not count.
pub fn storage_bytes_needed(
    sizes: &[i64],
    strides: &[i64],
    itemsize: usize,
    offset: i64,
) -> Result<usize> {
    if sizes.contains(&0) && sizes.iter().all(|&size| size >= 0) {
        return Ok(0);
    }
    let bytes = || -> Option<i64> {
        let mut elements = offset.checked_add(1)?;
        for (&size, &stride) in sizes.iter().zip(strides) {
            if size < 0 {
                return None;
            }
            elements = elements.checked_add(stride.max(0).checked_mul(size - 1)?)?;
        }
        elements.checked_mul(itemsize as i64)
    };
    bytes().and_then(|bytes| usize::try_from(bytes).ok()).ok_or_else(|| {
        err!(
            Runtime,
            "Storage size calculation overflowed with sizes={sizes:?} and strides={strides:?}"
        )
    })
}

/// Refuses a geometry that reaches outside a storage of `nbytes` bytes.
pub fn check_in_bounds(
    sizes: &[i64],
    strides: &[i64],
    offset: i64,
    itemsize: usize,
    nbytes: usize,
) -> Result<()> {
    ensure!(offset >= 0, Runtime, "Tensor: invalid storage offset {offset}");
    let needed = storage_bytes_needed(sizes, strides, itemsize, offset)?;
    let lowest = sizes.iter().zip(strides).try_fold(offset, |lowest, (&size, &stride)| {
        lowest.checked_add(stride.min(0).checked_mul((size - 1).max(0))?)
    });
    let reaches_below = !sizes.contains(&0) && lowest.is_none_or(|lowest| lowest < 0);
    ensure!(
        needed <= nbytes && !reaches_below,
        Runtime,
        "setStorage: sizes {sizes:?}, strides {strides:?}, storage offset {offset}, and itemsize \
         {itemsize} requiring a storage size of {needed} are out of bounds for storage of size \
         {nbytes}"
    );
    Ok(())
}

/// A dimension in `[-rank, rank)` as a place in `[0, rank)`. A rank of 0 counts as 1.
#[inline]
pub fn wrap_dim(dim: i64, rank: usize) -> Result<usize> {
    wrap(dim, rank.max(1) as i64)
}

/// As [`wrap_dim`], but a tensor of rank 0 has no dimension at all.
#[inline]
pub fn wrap_dim_strict(dim: i64, rank: usize) -> Result<usize> {
    ensure!(rank > 0, Index, "Dimension specified as {dim} but tensor has no dimensions");
    wrap(dim, rank as i64)
}

#[inline]
fn wrap(dim: i64, rank: i64) -> Result<usize> {
    let place = if dim < 0 { dim.wrapping_add(rank) } else { dim };
    ensure!(
        (0..rank).contains(&place),
        Index,
        "Dimension out of range (expected to be in range of [{}, {}], but got {dim})",
        -rank,
        rank - 1
    );
    Ok(place as usize)
}

/// Replaces at most one -1 in `shape` so that the product is `numel`.
pub fn infer_size(shape: &[i64], numel: i64) -> Result<Dims> {
    let mut known = 1_i64;
    let mut unknown = None;
    for (index, &size) in shape.iter().enumerate() {
        match size {
            -1 if unknown.is_some() => bail!(Runtime, "only one dimension can be inferred"),
            -1 => unknown = Some(index),
            0.. => known = known.wrapping_mul(size),
            _ => {
                bail!(Runtime, "invalid shape dimension {size} at index {index} of shape {shape:?}")
            }
        }
    }
    let mut sizes = Dims::from_slice(shape);
    let fits = match unknown {
        None => numel == known,
        Some(index) => {
            ensure!(
                known != 0 || numel != 0,
                Runtime,
                "cannot reshape tensor of 0 elements into shape {shape:?} because the unspecified \
                 dimension size -1 can be any value and is ambiguous"
            );
            let divides = known > 0 && numel % known == 0;
            sizes[index] = if divides { numel / known } else { 0 };
            divides
        }
    };
    ensure!(fits, Runtime, "shape '{shape:?}' is invalid for input of size {numel}");
    Ok(sizes)
}

/// The shape to which both operands broadcast.
pub fn infer_broadcast(a: &[i64], b: &[i64]) -> Result<Dims> {
    let rank = a.len().max(b.len());
    let mut sizes: Dims = smallvec![1; rank];
    for place in (0..rank).rev() {
        let from_right = rank - place;
        let size = |dims: &[i64]| match dims.len().checked_sub(from_right) {
            Some(index) => dims[index],
            None => 1,
        };
        let (x, y) = (size(a), size(b));
        ensure!(
            x == y || x == 1 || y == 1,
            Runtime,
            "The size of tensor a ({x}) must match the size of tensor b ({y}) at non-singleton \
             dimension {place}"
        );
        sizes[place] = if x == 1 { y } else { x };
    }
    Ok(sizes)
}

/// The strides of a view of shape `new` of a tensor, or `None` if it cannot be a view. The number
/// of elements must agree.
pub fn compute_view_strides(sizes: &[i64], strides: &[i64], new: &[i64]) -> Option<Dims> {
    if sizes.contains(&0) {
        return Some(if sizes == new {
            Dims::from_slice(strides)
        } else {
            contiguous_strides_wrapping(new)
        });
    }
    if sizes.is_empty() {
        // One element: any stride will do, as long as every new size is 1.
        return Some(smallvec![1; new.len()]);
    }
    let mut result: Dims = smallvec![0; new.len()];
    // The new dimensions that are not placed yet are `new[..open]`.
    let mut open = new.len();
    let mut base = strides[sizes.len() - 1];
    let mut group = 1_i64;
    for d in (0..sizes.len()).rev() {
        group *= sizes[d];
        let group_ends = d == 0 || (sizes[d - 1] != 1 && strides[d - 1] != group * base);
        if !group_ends {
            continue;
        }
        let mut taken = 1_i64;
        while open > 0 && (taken < group || new[open - 1] == 1) {
            open -= 1;
            result[open] = taken * base;
            taken *= new[open];
        }
        if taken != group {
            return None;
        }
        if d > 0 {
            base = strides[d - 1];
            group = 1;
        }
    }
    (open == 0).then_some(result)
}

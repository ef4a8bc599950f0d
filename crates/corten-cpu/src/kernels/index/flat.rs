//! Strided access through a flat alias: everything a tensor's geometry reaches as one slice, so
//! that strided loops are ordinary, bounds-checked indexing.

use corten_core::{DType, Dims, MemoryFormat, Result, ensure};
use corten_ops::{Tensor, op};

/// A one-dimensional alias of a tensor's memory and the tensor's geometry within it.
pub(crate) struct Flat {
    /// The alias: contiguous, as long as the reach of the geometry.
    pub(crate) tensor: Tensor,
    /// Where the first element is: 0 unless strides are negative.
    pub(crate) base: i64,
    /// Strides in elements.
    pub(crate) strides: Dims,
}

/// The flat alias of a tensor, seen as integers of its element size.
pub(crate) fn flat_bits(tensor: &Tensor) -> Result<Flat> {
    flat(&as_bits(tensor)?)
}

/// The flat alias of a tensor.
pub(crate) fn flat(tensor: &Tensor) -> Result<Flat> {
    let (sizes, strides) = (tensor.sizes(), tensor.strides());
    let (mut low, mut high) = (0, 0);
    for (size, stride) in sizes.iter().zip(strides.iter()) {
        let reach = (size - 1).max(0) * stride;
        low += reach.min(0);
        high += reach.max(0);
    }
    let length = if tensor.numel() == 0 { 0 } else { high - low + 1 };
    let alias = op::as_strided(tensor, &[length], &[1], Some(tensor.storage_offset() + low))?;
    Ok(Flat { tensor: alias, base: -low, strides })
}

/// The tensor seen as an integer dtype of the same size (complex128 stays itself).
pub(crate) fn as_bits(tensor: &Tensor) -> Result<Tensor> {
    let dtype = bits_dtype(tensor.itemsize());
    if dtype == tensor.dtype() { Ok(tensor.clone()) } else { op::view_dtype(tensor, dtype) }
}

fn bits_dtype(itemsize: usize) -> DType {
    match itemsize {
        1 => DType::UInt8,
        2 => DType::Int16,
        4 => DType::Int32,
        8 => DType::Int64,
        _ => DType::Complex128,
    }
}

/// Runs an expression with the element type that [`as_bits`] gives for an item size.
macro_rules! match_bits {
    ($itemsize:expr, $type:ident => $body:expr) => {
        match $itemsize {
            1 => {
                type $type = u8;
                $body
            }
            2 => {
                type $type = i16;
                $body
            }
            4 => {
                type $type = i32;
                $body
            }
            8 => {
                type $type = i64;
                $body
            }
            _ => {
                type $type = corten_core::Complex<f64>;
                $body
            }
        }
    };
}
pub(crate) use match_bits;

/// Calls `visit` with the offsets of `N` strided operands at every position of a shape, row-major.
pub(crate) fn for_each_offset<const N: usize>(
    shape: &[i64],
    strides: [&[i64]; N],
    base: [i64; N],
    mut visit: impl FnMut([i64; N]) -> Result<()>,
) -> Result<()> {
    let mut rows = OffsetRows::new(shape, strides, base);
    while let Some(mut offsets) = rows.next() {
        for _ in 0..rows.inner {
            visit(offsets)?;
            for (offset, step) in offsets.iter_mut().zip(rows.step) {
                *offset += step;
            }
        }
    }
    Ok(())
}

/// The rows of [`for_each_offset`], which are compiled once for all that is done along them.
struct OffsetRows<'a, const N: usize> {
    outer: &'a [i64],
    strides: [&'a [i64]; N],
    /// The elements of a row, and how far the operands go from one to the next.
    inner: i64,
    step: [i64; N],
    position: Dims,
    /// The offsets of the row that comes next.
    start: Option<[i64; N]>,
}

impl<'a, const N: usize> OffsetRows<'a, N> {
    fn new(shape: &'a [i64], strides: [&'a [i64]; N], base: [i64; N]) -> Self {
        let (inner, outer) = match shape.split_last() {
            Some((&inner, outer)) => (inner, outer),
            None => (1, shape),
        };
        let step = strides.map(|strides| strides.get(outer.len()).copied().unwrap_or(0));
        // Bounded: dimensions.
        let position = Dims::from_elem(0, outer.len());
        let start = (!shape.contains(&0)).then_some(base);
        Self { outer, strides, inner, step, position, start }
    }

    #[inline(never)]
    fn next(&mut self) -> Option<[i64; N]> {
        let start = self.start?;
        let outer = self.outer;
        let dim = (0..outer.len()).rev().find(|&dim| self.position[dim] + 1 < outer[dim]);
        self.start = dim.map(|dim| {
            let mut next = start;
            for (next, strides) in next.iter_mut().zip(self.strides) {
                *next += strides[dim];
                for (stride, position) in strides[dim + 1..].iter().zip(&self.position[dim + 1..]) {
                    *next -= stride * position;
                }
            }
            self.position[dim] += 1;
            self.position[dim + 1..].fill(0);
            next
        });
        Some(start)
    }
}

/// An index tensor as contiguous i64.
///
/// # Errors
/// `Runtime` for another dtype than i32 and i64, in the words given.
pub(crate) fn long_index(index: &Tensor, message: &str) -> Result<Tensor> {
    op::contiguous(&strided_long_index(index, message)?, MemoryFormat::Contiguous)
}

/// The index with 64 bits, at its own strides.
pub(super) fn strided_long_index(index: &Tensor, message: &str) -> Result<Tensor> {
    ensure!(matches!(index.dtype(), DType::Int32 | DType::Int64), Runtime, "{message}");
    match index.dtype() {
        DType::Int64 => Ok(index.clone()),
        _ => op::to_dtype(index, DType::Int64, false, false, None),
    }
}

/// Row-major strides of a shape that is known not to overflow.
pub(crate) fn row_major(shape: &[i64]) -> Dims {
    let mut strides: Dims = Dims::from_elem(1, shape.len());
    for dim in (1..shape.len()).rev() {
        strides[dim - 1] = strides[dim] * shape[dim].max(1);
    }
    strides
}

/// A fresh copy of a tensor in row-major order.
pub(crate) fn contiguous_copy(tensor: &Tensor) -> Result<Tensor> {
    op::clone(tensor, Some(MemoryFormat::Contiguous))
}

/// What is read while `target` is written: a copy in row-major order where both lie in one storage, beside
/// each other, since a storage is accessed in one way at a time.
pub(super) fn apart_from(target: &Tensor, tensor: &Tensor) -> Result<Tensor> {
    if tensor.is_alias_of(target) { contiguous_copy(tensor) } else { Ok(tensor.clone()) }
}

/// A fresh copy of a tensor in its own memory order.
pub(crate) fn fresh_copy(tensor: &Tensor) -> Result<Tensor> {
    op::clone(tensor, Some(MemoryFormat::Preserve))
}

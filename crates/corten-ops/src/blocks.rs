//! Block-quantised tensors: weights in the formats of GGML.

// Note [Block-quantised tensors]
// A block-quantised tensor is an opaque tensor of dtype float32 whose rows, along the last dimension, are blocks of a
// format of `corten-blocks`. Linear maps, look-ups of rows and views of rows run on the blocks; all other operators run
// on the dequantised weights and give dense results. The transpose of a matrix keeps the blocks, so that `x @ w.T` is
// a linear map too. Only `copy_` writes to such tensors: it quantises.

use crate::opaque::{self, Prepared};
use crate::{Tensor, op};
use corten_blocks::Format;
use corten_core::{
    Access, AccessSet, DType, Dims, Layout, MemoryFormat, Result, TensorBase, bail, ensure, err,
};
use std::any::Any;
use std::sync::Arc;

/// The blocks of a tensor: rows of bytes.
///
/// ```
/// use corten::blocks::Format;
/// use corten::ops::blocks;
/// use corten::prelude::*;
///
/// # fn main() -> Result<()> {
/// let weight = blocks::quantize(&Tensor::ones([2, 32])?, Format::Q8_0)?;
/// let rows = blocks::of(&weight);
/// assert_eq!(rows.map(|rows| (rows.format(), rows.columns())), Some((Format::Q8_0, 32)));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct BlockRows {
    format: Format,
    /// Bytes, of shape (rows, bytes of a row), contiguous.
    bytes: Tensor,
    columns: usize,
    /// Those of the tensor, before a matrix is transposed.
    sizes: Dims,
    is_transposed: bool,
}

impl BlockRows {
    /// The format.
    pub fn format(&self) -> Format {
        self.format
    }

    /// The bytes, of shape (rows, bytes of a row), contiguous.
    pub fn bytes(&self) -> &Tensor {
        &self.bytes
    }

    /// The elements of a row.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// The shape of the tensor.
    pub fn sizes(&self) -> &[i64] {
        &self.sizes
    }

    /// The bytes of a row.
    pub fn row_bytes(&self) -> usize {
        self.format.row_bytes(self.columns).unwrap_or(0)
    }

    /// Some rows as a block-quantised tensor of a shape, over the same memory.
    ///
    /// # Errors
    /// Those of views.
    pub fn rows(&self, start: i64, count: i64, sizes: &[i64]) -> Result<Tensor> {
        let bytes = op::narrow(&self.bytes, 0, start, count)?;
        let (format, columns) = (self.format, self.columns);
        let rows = Self { format, bytes, columns, sizes: sizes.into(), is_transposed: false };
        opaque::of_prepared(Arc::new(rows), DType::Float32, sizes)
    }

    /// The same blocks, or copies of them, as a tensor.
    fn into_tensor(self) -> Result<Tensor> {
        let mut sizes = self.sizes.clone();
        if self.is_transposed {
            sizes.reverse();
        }
        opaque::of_prepared(Arc::new(self), DType::Float32, &sizes)
    }
}

impl Prepared for BlockRows {
    fn to_dense(&self) -> Result<Tensor> {
        let out = Tensor::empty(&self.sizes)?;
        let set = AccessSet::acquire(&[(&self.bytes, Access::Read), (&out, Access::Write)])?;
        self.format.dequantize(set.read::<u8>(0)?, set.write::<f32>(1)?).map_err(lengths)?;
        drop(set);
        if self.is_transposed { op::t(&out) } else { Ok(out) }
    }

    fn is_quantised(&self) -> bool {
        true
    }
}

fn lengths(error: corten_blocks::LengthError) -> corten_core::Error {
    err!(Runtime, "{error}")
}

/// The blocks of a tensor; `None` for tensors that are not block-quantised, or whose rows are not those of the blocks.
pub fn of(tensor: &TensorBase) -> Option<BlockRows> {
    kept(tensor).filter(|rows| !rows.is_transposed)
}

/// The blocks of the transpose of a matrix; `None` for other tensors.
///
/// ```
/// use corten::blocks::Format;
/// use corten::ops::blocks;
/// use corten::prelude::*;
///
/// # fn main() -> Result<()> {
/// let weight = blocks::quantize(&Tensor::ones([2, 32])?, Format::Q8_0)?;
/// let transpose = weight.t()?;
/// assert!(blocks::of(&transpose).is_none());
/// assert_eq!(blocks::of_transpose(&transpose).map(|rows| rows.columns()), Some(32));
/// # Ok(())
/// # }
/// ```
pub fn of_transpose(tensor: &TensorBase) -> Option<BlockRows> {
    kept(tensor).filter(|rows| rows.is_transposed)
}

/// The format of a block-quantised tensor, or of the one that it is the transpose of.
pub fn format_of(tensor: &TensorBase) -> Option<Format> {
    kept(tensor).map(|rows| rows.format)
}

/// The blocks of a tensor, or those that it is the transpose of, and which of the two.
pub fn stored(tensor: &TensorBase) -> Option<(BlockRows, bool)> {
    let mut rows = kept(tensor)?;
    let is_transposed = std::mem::take(&mut rows.is_transposed);
    Some((rows, is_transposed))
}

/// What keeps the elements of a block-quantised tensor.
fn kept(tensor: &TensorBase) -> Option<BlockRows> {
    let prepared = opaque::kept_by(tensor)?;
    (&*prepared as &dyn Any).downcast_ref::<BlockRows>().cloned()
}

/// The transpose of a block-quantised matrix over the same blocks; `None` for other tensors.
///
/// # Errors
/// Those of making a tensor.
pub fn transposed(tensor: &TensorBase) -> Result<Option<Tensor>> {
    let Some(mut rows) = kept(tensor).filter(|rows| rows.sizes.len() == 2) else { return Ok(None) };
    rows.is_transposed = !rows.is_transposed;
    rows.into_tensor().map(Some)
}

/// A block-quantised tensor with blocks of its own; `None` for other tensors.
///
/// # Errors
/// Those of copying.
pub fn cloned(tensor: &TensorBase) -> Result<Option<Tensor>> {
    let Some(mut rows) = kept(tensor) else { return Ok(None) };
    rows.bytes = op::clone(&rows.bytes, Some(MemoryFormat::Contiguous))?;
    rows.into_tensor().map(Some)
}

/// Writes the values of another tensor to a block-quantised one: blocks of the same format as they are, other values
/// quantised. Gives whether it is block-quantised.
///
/// # Errors
/// `Runtime` for another shape, and those of [`quantize`].
pub fn write(to: &TensorBase, from: &Tensor) -> Result<bool> {
    let Some(rows) = kept(to) else { return Ok(false) };
    ensure!(
        to.sizes() == from.sizes(),
        Runtime,
        "a block-quantised tensor of shape {:?} is written with another of its shape, but the given one has {:?}",
        to.sizes().as_slice(),
        from.sizes().as_slice()
    );
    let same = kept(from)
        .filter(|given| given.format == rows.format && given.is_transposed == rows.is_transposed);
    let given = match same {
        Some(given) => given.bytes,
        None => {
            let value = opaque::value(from)?.unwrap_or_else(|| from.clone());
            let value = if rows.is_transposed { op::t(&value)? } else { value };
            quantized_bytes(&value, rows.format)?
        }
    };
    op::copy_(&rows.bytes, &op::view(&given, &rows.bytes.sizes())?, false)?;
    Ok(true)
}

/// A block-quantised tensor over the bytes of its blocks, row by row.
///
/// # Errors
/// `Value` for a tensor that is not of bytes, a shape without dimensions, rows that are not whole blocks, or another
/// number of bytes.
pub fn from_bytes(format: Format, bytes: &Tensor, sizes: &[i64]) -> Result<Tensor> {
    ensure!(
        bytes.dtype() == DType::UInt8 && bytes.layout() == Layout::Strided && bytes.is_contiguous(),
        Value,
        "the blocks of a tensor must be contiguous bytes, but are {} numbers of layout {}",
        bytes.dtype(),
        bytes.layout()
    );
    let Some((&columns, leading)) = sizes.split_last() else {
        bail!(Value, "a block-quantised tensor has dimensions")
    };
    let each = usize::try_from(columns).ok().and_then(|columns| format.row_bytes(columns));
    let rows = leading.iter().try_fold(1i64, |count, &size| count.checked_mul(size));
    let fits = each.zip(rows).is_some_and(|(each, rows)| {
        rows >= 0 && (each as i64).checked_mul(rows) == Some(bytes.numel())
    });
    let (Some(each), Some(rows), true) = (each, rows, fits) else {
        bail!(
            Value,
            "{}: {} bytes are not the blocks of a tensor of shape {sizes:?}",
            format.name(),
            bytes.numel()
        )
    };
    let bytes = op::view(bytes, &[rows, each as i64])?;
    let (columns, sizes) = (columns as usize, Dims::from(sizes));
    BlockRows { format, bytes, columns, sizes, is_transposed: false }.into_tensor()
}

/// The block-quantised tensor nearest to a tensor of floating-point numbers.
///
/// # Errors
/// `Value` for other dtypes, and for rows that are not whole blocks.
pub fn quantize(tensor: &Tensor, format: Format) -> Result<Tensor> {
    from_bytes(format, &quantized_bytes(tensor, format)?, &tensor.sizes())
}

/// The bytes of the blocks, in one dimension.
fn quantized_bytes(tensor: &Tensor, format: Format) -> Result<Tensor> {
    ensure!(
        tensor.dtype().is_floating_point(),
        Value,
        "quantize expects floating-point numbers, but got {}",
        tensor.dtype()
    );
    let sizes = tensor.sizes();
    let dense = op::to_dense(&op::detach(tensor)?, None, None)?;
    let weights = op::contiguous(&dense.to(DType::Float32)?, MemoryFormat::Contiguous)?;
    let columns = sizes.last().copied().unwrap_or(0);
    let each = usize::try_from(columns).ok().and_then(|columns| format.row_bytes(columns));
    let Some(each) = each.filter(|_| columns > 0) else {
        bail!(
            Value,
            "{}: rows of {columns} elements are not whole blocks of {}",
            format.name(),
            format.block_elements()
        )
    };
    let nbytes = weights.numel() / columns * each as i64;
    let bytes = op::empty_memory_format(&[nbytes], Some(DType::UInt8), None, None, None, None)?;
    let set = AccessSet::acquire(&[(&weights, Access::Read), (&bytes, Access::Write)])?;
    format.quantize(set.read::<f32>(0)?, set.write::<u8>(1)?).map_err(lengths)?;
    drop(set);
    Ok(bytes)
}

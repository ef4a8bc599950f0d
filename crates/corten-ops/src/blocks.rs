//! Block-quantised tensors: weights in the formats of GGML.

// Note [Block-quantised tensors]
// A block-quantised tensor is an opaque tensor of dtype float32 whose rows, along the last dimension, are blocks of a
// format of `corten-blocks`. Linear maps, look-ups of rows and views of rows run on the blocks; all other operators run
// on the dequantised weights and give dense results. Such tensors are not written to.

use crate::opaque::{self, Prepared};
use crate::{Tensor, op};
use corten_blocks::Format;
use corten_core::{Access, AccessSet, DType, Dims, Layout, Result, TensorBase, bail, ensure, err};
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
    /// Those of the tensor.
    sizes: Dims,
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
        let rows = Self { format, bytes, columns, sizes: sizes.into() };
        opaque::of_prepared(Arc::new(rows), DType::Float32, sizes)
    }
}

impl Prepared for BlockRows {
    fn to_dense(&self) -> Result<Tensor> {
        let out = Tensor::empty(&self.sizes)?;
        let set = AccessSet::acquire(&[(&self.bytes, Access::Read), (&out, Access::Write)])?;
        self.format.dequantize(set.read::<u8>(0)?, set.write::<f32>(1)?).map_err(lengths)?;
        drop(set);
        Ok(out)
    }

    fn is_quantised(&self) -> bool {
        true
    }
}

fn lengths(error: corten_blocks::LengthError) -> corten_core::Error {
    err!(Runtime, "{error}")
}

/// The blocks of a tensor; `None` for tensors that are not block-quantised.
pub fn of(tensor: &TensorBase) -> Option<BlockRows> {
    let prepared = opaque::kept_by(tensor)?;
    (&*prepared as &dyn Any).downcast_ref::<BlockRows>().cloned()
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
    let rows = BlockRows { format, bytes, columns, sizes: sizes.clone() };
    opaque::of_prepared(Arc::new(rows), DType::Float32, &sizes)
}

/// The block-quantised tensor nearest to a tensor of floating-point numbers.
///
/// # Errors
/// `Value` for other dtypes, and for rows that are not whole blocks.
pub fn quantize(tensor: &Tensor, format: Format) -> Result<Tensor> {
    ensure!(
        tensor.dtype().is_floating_point(),
        Value,
        "quantize expects floating-point numbers, but got {}",
        tensor.dtype()
    );
    let sizes = tensor.sizes();
    let weights =
        op::contiguous(&tensor.to(DType::Float32)?, corten_core::MemoryFormat::Contiguous)?;
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
    from_bytes(format, &bytes, &sizes)
}

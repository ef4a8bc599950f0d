//! Compressed tensors of their parts, and of zeros.

use super::dense::zeros_of;
use super::invariants::{estimated_size, validate};
use super::{Matrices, by_rows, in_blocks, is_compressed};
use crate::sparse::{Compressed, checks_invariants};
use crate::{Tensor, op};
use corten_core::{DType, Device, Dims, Layout, MemoryFormat, Result, default_dtype, ensure};

fn placed(part: &Tensor, dtype: Option<DType>, device: Option<Device>) -> Result<Tensor> {
    let same = dtype.is_none_or(|dtype| dtype == part.dtype())
        && device.is_none_or(|device| device == part.device());
    if same {
        return Ok(part.clone());
    }
    op::_to_copy(part, dtype, None, device, None, false, Some(MemoryFormat::Preserve))
}

/// A tensor of its parts in a compressed layout; nothing is checked.
///
/// # Errors
/// `Runtime` for a layout that is not compressed.
pub fn compressed_unsafe(
    compressed_indices: &Tensor,
    plain_indices: &Tensor,
    values: &Tensor,
    size: &[i64],
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    _pin_memory: Option<bool>,
) -> Result<Tensor> {
    let layout = expected_layout(layout)?;
    let parts = Compressed {
        layout,
        compressed_indices: placed(compressed_indices, None, device)?,
        plain_indices: placed(plain_indices, None, device)?,
        values: placed(values, dtype, device)?,
    };
    parts.tensor(size)
}

fn expected_layout(layout: Option<Layout>) -> Result<Layout> {
    let name = layout.map_or("none".to_owned(), |layout| layout.to_string());
    ensure!(
        layout.is_some_and(is_compressed),
        Runtime,
        "sparse_compressed_tensor expected sparse compressed tensor layout but got {name}"
    );
    Ok(layout.unwrap_or(Layout::SparseCsr))
}

/// A tensor of its parts in a compressed layout, checked where checks are asked for.
///
/// # Errors
/// `Runtime` for a layout that is not compressed, and where the parts do not fit together.
pub fn compressed_of_size(
    compressed_indices: &Tensor,
    plain_indices: &Tensor,
    values: &Tensor,
    size: &[i64],
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    let layout = expected_layout(layout)?;
    let compressed = placed(compressed_indices, None, device)?;
    let plain = placed(plain_indices, None, device)?;
    let values = placed(values, dtype, device)?;
    if checks_invariants() {
        validate(&compressed, &plain, &values, size, layout, None)?;
    }
    op::_sparse_compressed_tensor_unsafe(
        &compressed,
        &plain,
        &values,
        size,
        dtype,
        Some(layout),
        device,
        pin_memory,
    )
}

/// As [`compressed_of_size`], of the least size that the parts fit in.
///
/// # Errors
/// As there.
pub fn compressed_of_parts(
    compressed_indices: &Tensor,
    plain_indices: &Tensor,
    values: &Tensor,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    let expected = expected_layout(layout)?;
    let size = estimated_size(compressed_indices, plain_indices, values, expected)?;
    compressed_of_size(
        compressed_indices,
        plain_indices,
        values,
        &size,
        dtype,
        layout,
        device,
        pin_memory,
    )
}

/// The layout of a function that makes tensors of one layout.
fn only(wanted: Layout, given: Option<Layout>) -> Result<Option<Layout>> {
    if let Some(given) = given {
        ensure!(
            given == wanted,
            Runtime,
            "{}_tensor: layout must be {wanted} but got {given}",
            wanted.name()
        );
    }
    Ok(Some(wanted))
}

macro_rules! makers {
    ($($layout:ident: $of_size:ident, $of_parts:ident, $unchecked:ident;)*) => {$(
        #[doc = concat!("A tensor of its parts in the layout `", stringify!($layout), "`.")]
        ///
        /// # Errors
        /// `Runtime` for another layout, and where checked parts do not fit together.
        pub fn $of_size(
            compressed: &Tensor,
            plain: &Tensor,
            values: &Tensor,
            size: &[i64],
            dtype: Option<DType>,
            layout: Option<Layout>,
            device: Option<Device>,
            pin: Option<bool>,
        ) -> Result<Tensor> {
            let layout = only(Layout::$layout, layout)?;
            compressed_of_size(compressed, plain, values, size, dtype, layout, device, pin)
        }

        #[doc = concat!("As [`", stringify!($of_size), "`], of the least size that the parts fit in.")]
        ///
        /// # Errors
        /// As there.
        pub fn $of_parts(
            compressed: &Tensor,
            plain: &Tensor,
            values: &Tensor,
            dtype: Option<DType>,
            layout: Option<Layout>,
            device: Option<Device>,
            pin: Option<bool>,
        ) -> Result<Tensor> {
            let layout = only(Layout::$layout, layout)?;
            compressed_of_parts(compressed, plain, values, dtype, layout, device, pin)
        }

        #[doc = concat!("As [`", stringify!($of_size), "`], without checks.")]
        ///
        /// # Errors
        /// `Runtime` for another layout.
        pub fn $unchecked(
            compressed: &Tensor,
            plain: &Tensor,
            values: &Tensor,
            size: &[i64],
            dtype: Option<DType>,
            layout: Option<Layout>,
            device: Option<Device>,
            pin: Option<bool>,
        ) -> Result<Tensor> {
            let layout = only(Layout::$layout, layout)?;
            op::_sparse_compressed_tensor_unsafe(
                compressed, plain, values, size, dtype, layout, device, pin,
            )
        }
    )*};
}

makers! {
    SparseCsr: csr_of_size, csr_of_parts, csr_unsafe;
    SparseCsc: csc_of_size, csc_of_parts, csc_unsafe;
    SparseBsr: bsr_of_size, bsr_of_parts, bsr_unsafe;
    SparseBsc: bsc_of_size, bsc_of_parts, bsc_unsafe;
}

/// What a tensor without data is made of, beside its size.
#[derive(Clone, Copy)]
pub(super) struct PartOptions {
    pub(super) layout: Layout,
    pub(super) dtype: DType,
    pub(super) index_dtype: DType,
    pub(super) device: Device,
}

/// A tensor with room for `nnz` entries, of which all parts are 0.
pub(super) fn with_room(
    nnz: i64,
    dense_dim: i64,
    size: &[i64],
    block: &[i64],
    kind: PartOptions,
) -> Result<Tensor> {
    let start = size.len() - dense_dim as usize - 2;
    let place = usize::from(!by_rows(kind.layout));
    let groups = size[start + place] / block.get(place).copied().unwrap_or(1);
    let batches = &size[..start];
    let zeros = |sizes: Vec<i64>, dtype: DType| {
        op::zeros(&sizes, Some(dtype), Some(Layout::Strided), Some(kind.device), None)
    };
    let parts = Compressed {
        layout: kind.layout,
        compressed_indices: zeros([batches, &[groups + 1]].concat(), kind.index_dtype)?,
        plain_indices: zeros([batches, &[nnz]].concat(), kind.index_dtype)?,
        values: zeros([batches, &[nnz], block, &size[start + 2..]].concat(), kind.dtype)?,
    };
    parts.tensor(size)
}

/// A tensor in one of the compressed layouts with room for `nnz` entries.
///
/// # Errors
/// `Runtime` where the numbers do not fit together.
pub fn compressed_with_dims(
    nnz: i64,
    dense_dim: i64,
    size: &[i64],
    blocksize: &[i64],
    index_dtype: DType,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    _pin_memory: Option<bool>,
) -> Result<Tensor> {
    check_dims(nnz, dense_dim, size, blocksize, layout)?;
    ensure!(
        matches!(index_dtype, DType::Int32 | DType::Int64),
        Runtime,
        "indices dtype must be Int or Long, but got {}",
        index_dtype.type_name()
    );
    let layout = layout.unwrap_or(Layout::SparseCsr);
    let (dtype, device) = (dtype.unwrap_or_else(default_dtype), device.unwrap_or(Device::CPU));
    with_room(nnz, dense_dim, size, blocksize, PartOptions { layout, dtype, index_dtype, device })
}

fn check_dims(
    nnz: i64,
    dense_dim: i64,
    size: &[i64],
    blocksize: &[i64],
    layout: Option<Layout>,
) -> Result<()> {
    const NAME: &str = "sparse_compressed_tensor_with_dims";
    let name = layout.map_or("none".to_owned(), |layout| layout.to_string());
    let compressed = layout.filter(|&layout| is_compressed(layout));
    ensure!(
        compressed.is_some(),
        Runtime,
        "{NAME}: expected sparse compressed tensor layout but got {name}"
    );
    ensure!(nnz >= 0, Runtime, "{NAME}: nnz must be non-negative, got {nnz}");
    ensure!(
        dense_dim >= 0 && size.len() as i64 >= dense_dim + 2,
        Runtime,
        "{NAME}: dimensionality must be at least dense_dim(={dense_dim}) + sparse_dim(=2), but got {}",
        size.len()
    );
    if !compressed.is_some_and(in_blocks) {
        ensure!(
            blocksize.is_empty(),
            Runtime,
            "{NAME}: blocksize cannot be specified for non-block layout {name}"
        );
        return Ok(());
    }
    ensure!(
        blocksize.len() == 2,
        Runtime,
        "{NAME}: blocksize needs to be a tuple of size 2, but got {}",
        blocksize.len()
    );
    for (place, &length) in blocksize.iter().enumerate() {
        let at = size.len() - dense_dim as usize - 2 + place;
        ensure!(
            length > 0 && size[at] % length == 0,
            Runtime,
            "{NAME}: dimension {at} must be multiple of blocksize[{place}](={length}) but got {}",
            size[at]
        );
    }
    Ok(())
}

/// A tensor without entries, as `empty` and `zeros` with one of these layouts make it.
///
/// # Errors
/// `Runtime` for blocks, of which the size is not known, and for less than two dimensions.
pub fn empty(
    size: &[i64],
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    _pin_memory: Option<bool>,
    _memory_format: Option<MemoryFormat>,
) -> Result<Tensor> {
    without_entries("empty", size, dtype, layout, device)
}

/// As [`empty`], under the name of `zeros`.
///
/// # Errors
/// As there.
pub fn zeros(
    size: &[i64],
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    _pin_memory: Option<bool>,
) -> Result<Tensor> {
    without_entries("zeros", size, dtype, layout, device)
}

fn without_entries(
    name: &str,
    size: &[i64],
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
) -> Result<Tensor> {
    let least = size.iter().copied().min().unwrap_or(0);
    ensure!(
        least >= 0,
        Runtime,
        "Trying to create tensor with negative dimension {least}: {size:?}"
    );
    let layout = expected_layout(layout)?;
    ensure!(
        size.len() >= 2,
        Runtime,
        "torch.{name}: Only batched sparse compressed (non-block) tensors are supported, but got size \
         {size:?}"
    );
    ensure!(
        !in_blocks(layout),
        Runtime,
        "{name}_sparse_compressed expected sparse compressed (non-block) tensor layout but got {layout}"
    );
    let (dtype, device) = (dtype.unwrap_or_else(default_dtype), device.unwrap_or(Device::CPU));
    let kind = PartOptions { layout, dtype, index_dtype: DType::Int64, device };
    with_room(0, 0, size, &[], kind)
}

/// Zeros at the places of another tensor.
///
/// # Errors
/// `Runtime` for another layout.
pub fn empty_like(
    self_: &Tensor,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    _pin_memory: Option<bool>,
    _memory_format: Option<MemoryFormat>,
) -> Result<Tensor> {
    let x = Matrices::expect(self_, "empty_like")?;
    let wanted = layout.unwrap_or(x.layout());
    ensure!(
        wanted == x.layout(),
        Runtime,
        "empty_like with different sparse layout is not supported (self is {} but you requested \
         {wanted})",
        x.layout()
    );
    let values = &x.parts.values;
    let device = device.unwrap_or(values.device());
    let dtype = dtype.unwrap_or(values.dtype());
    let parts = Compressed {
        layout: wanted,
        compressed_indices: placed(&x.parts.compressed_indices, None, Some(device))?,
        plain_indices: placed(&x.parts.plain_indices, None, Some(device))?,
        values: op::zeros(&values.sizes(), Some(dtype), Some(Layout::Strided), Some(device), None)?,
    };
    parts.tensor(&x.sizes)
}

/// A tensor without entries, in any sparse layout.
///
/// # Errors
/// `Runtime` for the layout `strided`, or one of blocks where the tensor has none.
pub fn zeros_like(
    self_: &Tensor,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
    memory_format: Option<MemoryFormat>,
) -> Result<Tensor> {
    let x = Matrices::expect(self_, "zeros_like")?;
    let wanted = layout.unwrap_or(x.layout());
    let device = device.unwrap_or(self_.device());
    let dtype = dtype.unwrap_or(self_.dtype());
    if wanted == Layout::Sparse {
        return op::zeros(&x.sizes, Some(dtype), layout, Some(device), pin_memory);
    }
    if !is_compressed(wanted) {
        return empty_like(self_, Some(dtype), layout, Some(device), pin_memory, memory_format);
    }
    let block = x.block();
    let block = if in_blocks(x.layout()) { &block[..] } else { &[] };
    let index_dtype = x.parts.compressed_indices.dtype();
    if in_blocks(wanted) != in_blocks(x.layout()) {
        check_dims(0, x.dense_sizes().len() as i64, &x.sizes, block, Some(wanted))?;
    }
    let kind = PartOptions { layout: wanted, dtype, index_dtype, device };
    with_room(0, x.dense_sizes().len() as i64, &x.sizes, block, kind)
}

/// All entries are taken away.
///
/// # Errors
/// Those of the operators.
pub fn zero_(self_: &Tensor) -> Result<Tensor> {
    let x = Matrices::expect(self_, "zero_")?;
    let (start, values) = (x.start() as i64, &x.parts.values);
    let parts = Compressed {
        layout: x.layout(),
        compressed_indices: zeros_of(
            &x.parts.compressed_indices.sizes(),
            values,
            x.parts.compressed_indices.dtype(),
        )?,
        plain_indices: op::narrow(&x.parts.plain_indices, -1, 0, 0)?,
        values: op::narrow(values, start, 0, 0)?,
    };
    parts.put(self_, &Dims::from_slice(&x.sizes))?;
    Ok(self_.clone())
}

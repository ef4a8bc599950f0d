//! Other forms of compressed tensors: copies, transposes, new sizes.

use super::Matrices;
use super::dense::zeros_of;
use crate::sparse::Compressed;
use crate::{Tensor, op};
use corten_core::{
    DType, Device, Dims, Layout, MemoryFormat, Result, bail, can_cast, ensure, geometry,
};

/// A copy of all parts.
///
/// # Errors
/// Those of copying.
pub fn clone(self_: &Tensor, _memory_format: Option<MemoryFormat>) -> Result<Tensor> {
    let x = Matrices::expect(self_, "clone")?;
    let copy = |part: &Tensor| op::clone(part, Some(MemoryFormat::Contiguous));
    let parts = Compressed {
        layout: x.layout(),
        compressed_indices: copy(&x.parts.compressed_indices)?,
        plain_indices: copy(&x.parts.plain_indices)?,
        values: copy(&x.parts.values)?,
    };
    parts.tensor(&x.sizes)
}

/// A copy with entries of another dtype, or on another device.
///
/// # Errors
/// `Runtime` for another layout; those of copying.
pub fn to_copy(
    self_: &Tensor,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    _pin_memory: Option<bool>,
    non_blocking: bool,
    _memory_format: Option<MemoryFormat>,
) -> Result<Tensor> {
    let x = Matrices::expect(self_, "_to_copy")?;
    ensure!(
        layout.is_none_or(|layout| layout == x.layout()),
        Runtime,
        "to(options) doesn't support converting to a different layout, but got self.layout being {} \
         and options.layout set as {}",
        x.layout(),
        layout.unwrap_or(x.layout())
    );
    let copy = |part: &Tensor, dtype: Option<DType>| {
        let format = Some(MemoryFormat::Contiguous);
        op::_to_copy(part, dtype, None, device, None, non_blocking, format)
    };
    if device.is_some_and(Device::is_meta) {
        return op::zeros_like(self_, dtype, None, device, None, None);
    }
    let parts = Compressed {
        layout: x.layout(),
        compressed_indices: copy(&x.parts.compressed_indices, None)?,
        plain_indices: copy(&x.parts.plain_indices, None)?,
        values: copy(&x.parts.values, dtype)?,
    };
    parts.tensor(&x.sizes)
}

/// Takes over the places and the values of another tensor with as many entries.
///
/// # Errors
/// `Runtime` where layouts, sizes or numbers of entries differ.
pub fn copy_(self_: &Tensor, src: &Tensor, _non_blocking: bool) -> Result<Tensor> {
    let Some(x) = Matrices::of(self_) else {
        bail!(
            Runtime,
            "copy_sparse_compressed_ expected sparse compressed tensor layout but got {}",
            self_.layout()
        );
    };
    check_copied(&x, src)?;
    ensure!(
        can_cast(src.dtype(), self_.dtype()),
        Runtime,
        "result type {} can't be cast to the desired output type {}",
        src.dtype().type_name(),
        self_.dtype().type_name()
    );
    let (dtype, device) = (Some(self_.dtype()), Some(self_.device()));
    let copy = op::_to_copy(src, dtype, None, device, None, false, None)?;
    Matrices::expect(&copy, "copy_")?.parts.put(self_, &x.sizes)?;
    Ok(self_.clone())
}

fn check_copied(x: &Matrices, src: &Tensor) -> Result<()> {
    let (layout, from) = (x.layout(), src.layout());
    let Some(source) = Matrices::of(src).filter(|source| source.layout() == layout) else {
        bail!(
            Runtime,
            "torch.copy_: copy of sparse compressed tensors having different layouts is not \
             supported. self layout is {layout} and src layout is {from}"
        );
    };
    ensure!(
        x.nnz() == source.nnz(),
        Runtime,
        "torch.copy_: only sparse compressed tensors with the same number of specified elements are \
         supported."
    );
    let dim = x.start() + usize::from(!x.by_rows());
    let (ours, theirs) = (x.sizes.get(dim), source.sizes.get(dim));
    ensure!(
        x.sizes.len() == source.sizes.len() && ours == theirs,
        Runtime,
        "torch.copy_: expected shapes of self and src to match along dimension {dim} for {layout} \
         layout but the corresponding dimensions of self and src are {} and {}, respectively.",
        ours.copied().unwrap_or(0),
        theirs.copied().unwrap_or(0)
    );
    ensure!(
        x.block() == source.block(),
        Runtime,
        "torch.copy_: copy of sparse compressed tensors having different block sizes is not \
         supported. self and src block sizes are {:?} and {:?}, respectively.",
        x.block(),
        source.block()
    );
    ensure!(x.sizes == source.sizes, Runtime, "torch.copy_: only same size tensors are supported.");
    Ok(())
}

/// The layout of the transposed matrices.
const fn transposed_layout(layout: Layout) -> Layout {
    match layout {
        Layout::SparseCsr => Layout::SparseCsc,
        Layout::SparseCsc => Layout::SparseCsr,
        Layout::SparseBsr => Layout::SparseBsc,
        Layout::SparseBsc => Layout::SparseBsr,
        other => other,
    }
}

/// Two dimensions of the same kind exchanged, over the same memory; rows for columns is a change of
/// layout.
///
/// # Errors
/// `Runtime` for dimensions of different kinds, and for tensors with dense dimensions.
pub fn transpose(self_: &Tensor, dim0: i64, dim1: i64) -> Result<Tensor> {
    let x = Matrices::expect(self_, "transpose")?;
    let first = geometry::wrap_dim(dim0, x.sizes.len())?;
    let second = geometry::wrap_dim(dim1, x.sizes.len())?;
    ensure!(
        x.dense_sizes().is_empty(),
        Runtime,
        "transpose(): hybrid sparse compressed tensors with dense dimensions are not supported"
    );
    let start = x.start();
    let kind = |dim: usize| if dim < start { "Batch" } else { "Sparse" };
    ensure!(
        kind(first) == kind(second),
        Runtime,
        "transpose(): can only transpose dimensions of the same type (Batch, Sparse, Dense), got \
         {first}({}) and {second}({})",
        kind(first),
        kind(second)
    );
    swapped(&x, first, second)?.tensor()
}

/// Two dimensions of the same kind exchanged.
pub(super) fn swapped(x: &Matrices, first: usize, second: usize) -> Result<Matrices> {
    let mut made = x.clone();
    if first == second {
        return Ok(made);
    }
    made.sizes.swap(first, second);
    let (start, parts) = (x.start(), &mut made.parts);
    if first < start {
        let swap = |part: &Tensor| op::transpose_int(part, first as i64, second as i64);
        parts.compressed_indices = swap(&parts.compressed_indices)?;
        parts.plain_indices = swap(&parts.plain_indices)?;
        parts.values = swap(&parts.values)?;
        return Ok(made);
    }
    parts.layout = transposed_layout(x.layout());
    if x.in_blocks() {
        parts.values = op::transpose_int(&parts.values, start as i64 + 1, start as i64 + 2)?;
    }
    Ok(made)
}

/// A matrix transposed, over the same memory.
///
/// # Errors
/// `Runtime` for more than two dimensions.
pub fn t(self_: &Tensor) -> Result<Tensor> {
    ensure!(
        self_.dim() <= 2,
        Runtime,
        "t() expects a tensor with <= 2 dimensions, but self is {}D",
        self_.dim()
    );
    transpose(self_, 0, 1)
}

fn check_resized(x: &Matrices, size: &[i64]) -> Result<()> {
    ensure!(
        !x.in_blocks() && x.dense_sizes().is_empty(),
        NotImplemented,
        "resize_ of a {} tensor with blocks or dense dimensions",
        x.layout()
    );
    ensure!(
        size.len() >= 2,
        Runtime,
        "torch.resize_: Only batched sparse CSR matrices are supported, but got size {size:?}"
    );
    let [rows, columns] = x.matrix_sizes();
    let (name, kind, old, new) = match x.by_rows() {
        true => ("columns", "CSR", columns, size[size.len() - 1]),
        false => ("rows", "CSC", rows, size[size.len() - 2]),
    };
    ensure!(
        new >= old,
        Runtime,
        "torch.resize_: Resizing {name} of sparse {kind} tensors to a smaller value is not supported. \
         The original number of {name} is {old} while the requested new number of {name} is {new}."
    );
    Ok(())
}

/// More or fewer rows, which are empty, or more columns; for columns as rows likewise. Further batches
/// have the places of the first one, and zeros there.
///
/// # Errors
/// `Runtime` for fewer columns, blocks and dense dimensions.
pub fn resize_(
    self_: &Tensor,
    size: &[i64],
    _memory_format: Option<MemoryFormat>,
) -> Result<Tensor> {
    let x = Matrices::expect(self_, "resize_")?;
    check_resized(&x, size)?;
    let batches = &size[..size.len() - 2];
    let lines = size[size.len() - usize::from(x.by_rows()) - 1];
    let count: i64 = batches.iter().product();
    let compressed = &x.parts.compressed_indices;
    let width = compressed.sizes()[x.start()];
    let ends = op::reshape(compressed, &[-1, width])?;
    let ends = op::narrow(&ends, 1, 0, width.min(lines + 1))?;
    let (have, shown) = (ends.size(0)?, ends.size(1)?);
    let last = op::select_int(&ends, 1, -1)?;
    let kept = super::dense::long(&last)?.to_vec::<i64>()?;
    ensure!(
        kept.iter().all(|number| *number == kept[0]),
        Runtime,
        "torch.resize_: the batches would have different numbers of entries"
    );
    let each = kept.first().copied().unwrap_or(0);
    let more = op::expand(&op::unsqueeze(&last, 1)?, &[have, lines + 1 - shown], false)?;
    let ends = op::cat(&[ends, more], 1)?;
    let first = |part: &Tensor| op::narrow(&op::reshape(part, &[have, -1])?, 1, 0, each);
    let (plain, values) = (first(&x.parts.plain_indices)?, first(&x.parts.values)?);
    let missing = (count - have).max(0);
    let grown = |part: &Tensor| {
        let kept = op::narrow(part, 0, 0, have.min(count))?;
        let again = op::narrow(part, 0, 0, have.min(1))?;
        let again = op::expand(&again, &[if have > 0 { missing } else { 0 }, -1], false)?;
        op::cat(&[kept, again], 0)
    };
    let old = op::narrow(&values, 0, 0, have.min(count))?;
    let values = op::cat(&[old, zeros_of(&[missing, each], &values, values.dtype())?], 0)?;
    let shaped = |part: &Tensor| op::reshape(part, &[batches, &[part.size(1)?]].concat());
    let parts = Compressed {
        layout: x.layout(),
        compressed_indices: shaped(&grown(&ends)?)?,
        plain_indices: shaped(&grown(&plain)?)?,
        values: shaped(&values)?,
    };
    parts.put(self_, &Dims::from_slice(size))?;
    Ok(self_.clone())
}

/// The size and the places of another tensor; new values are 0.
///
/// # Errors
/// `Runtime` for another layout.
pub fn resize_as_sparse_(self_: &Tensor, the_template: &Tensor) -> Result<Tensor> {
    let Some(template) = Matrices::of(the_template) else {
        bail!(
            Runtime,
            "resize_as_sparse_compressed_: src  expected sparse compressed tensor layout but got {}",
            the_template.layout()
        );
    };
    let x = Matrices::expect(self_, "resize_as_sparse_compressed_: self ")?;
    ensure!(
        x.layout() == template.layout(),
        Runtime,
        "resize_as_sparse_compressed_tensor_: self and src must have the same layout, but got: self \
         ({}) and source ({})",
        x.layout(),
        template.layout()
    );
    let dtype = x.parts.compressed_indices.dtype();
    let (old, sizes) = (op::reshape(&x.parts.values, &[-1])?, template.parts.values.sizes());
    let new = zeros_of(&[sizes.iter().product()], &old, old.dtype())?;
    let shared = new.numel().min(old.numel());
    op::copy_(&op::narrow(&new, 0, 0, shared)?, &op::narrow(&old, 0, 0, shared)?, false)?;
    let copy = |part: &Tensor| op::to_dtype(part, dtype, false, true, None);
    let parts = Compressed {
        layout: x.layout(),
        compressed_indices: copy(&template.parts.compressed_indices)?,
        plain_indices: copy(&template.parts.plain_indices)?,
        values: op::reshape(&new, &sizes)?,
    };
    parts.put(self_, &template.sizes)?;
    Ok(self_.clone())
}

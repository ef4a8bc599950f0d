//! Indexing as Python writes it: `t[0, 1:3, None, ..., mask]`, for reading and writing.
//!
//! Items are applied from left to right. Integers select at once, also rank-0 integer tensors;
//! what is left of tensors becomes one advanced index at the end.

mod item;

use crate::batched::is_batched;
use crate::{Tensor, op};
use corten_core::geometry::wrap_dim;
use corten_core::{DType, Device, Dims, Layout, Result, Scalar, bail, ensure};
pub use item::{Ellipsis, IndexItem, IntoIndex, NewAxis, Slice};

impl Tensor {
    /// The part of the tensor that an index selects: a view where the index has no tensors.
    ///
    /// # Errors
    /// `Index` when the index does not fit.
    pub fn i(&self, index: impl IntoIndex) -> Result<Tensor> {
        get(self, &index.into_index())
    }

    /// Writes a tensor to the part that an index selects.
    ///
    /// # Errors
    /// `Index` when the index does not fit, `Runtime` when the value does not.
    pub fn set_i(&self, index: impl IntoIndex, value: &Tensor) -> Result<()> {
        set(self, &index.into_index(), value)
    }

    /// Every `step`-th position of a dimension from `start` to before `stop`, as a view. Bounds are those of
    /// a Python slice: negative ones count from the end, and those that are missing are the ends. With a
    /// negative step the positions are counted down, and the view has a negative stride.
    ///
    /// ```
    /// use corten::prelude::*;
    ///
    /// # fn main() -> Result<()> {
    /// let x = Tensor::arange(0, 6)?;
    /// let down = x.slice_step(0, None, None, -2)?;
    /// assert_eq!((down.to_vec::<i64>()?, down.strides()[0]), (vec![5, 3, 1], -2));
    /// down.fill_scalar_(0)?;
    /// assert_eq!(x.to_vec::<i64>()?, [0, 0, 2, 0, 4, 0]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `Index` for a dimension out of range, `Value` for a step of zero.
    pub fn slice_step(
        &self,
        dim: i64,
        start: impl Into<Option<i64>>,
        stop: impl Into<Option<i64>>,
        step: i64,
    ) -> Result<Tensor> {
        let dim = wrap_dim(dim, self.dim())?;
        let slice = Slice { start: start.into(), stop: stop.into(), step: Some(step) };
        range(self, dim, &slice)
    }
}

/// Reads `self_[items]`.
///
/// # Errors
/// `Index` when the items do not fit the tensor; `Value` for a slice step of zero.
pub fn get(self_: &Tensor, items: &[IndexItem]) -> Result<Tensor> {
    match items {
        [IndexItem::Int(index)] => return select(self_, 0, *index, 0),
        [IndexItem::Slice(slice)] => return range(self_, 0, slice),
        [IndexItem::None] => return op::unsqueeze(self_, 0),
        _ => {}
    }
    let applied = apply(self_, items)?;
    if !applied.indices.is_empty() {
        return op::index_tensor(applied.view(), &applied.indices);
    }
    match applied.made {
        Some(view) => Ok(view),
        None => op::alias(self_),
    }
}

/// Writes `self_[items] = value`, the value broadcast and converted.
///
/// # Errors
/// As [`get`]; `Runtime` when the value does not fit.
pub fn set(self_: &Tensor, items: &[IndexItem], value: &Tensor) -> Result<()> {
    if let [IndexItem::Bool(chosen)] = items {
        // A single truth value writes everything or nothing.
        return if *chosen { copy_to(&op::unsqueeze(self_, 0)?, value) } else { Ok(()) };
    }
    let applied = apply(self_, items)?;
    if applied.indices.is_empty() {
        return copy_to(applied.view(), value);
    }
    let value = match value.sizes().first() {
        Some(1) => without_leading_ones(value)?,
        _ => value.clone(),
    };
    op::index_put_(applied.view(), &applied.indices, &value, false)?;
    Ok(())
}

/// Writes `self_[items] = number`.
///
/// # Errors
/// As [`set`]; `Runtime` when the number does not fit the dtype.
pub fn set_scalar(self_: &Tensor, items: &[IndexItem], number: Scalar) -> Result<()> {
    if let [IndexItem::Bool(chosen)] = items {
        if *chosen {
            op::fill__scalar(&op::unsqueeze(self_, 0)?, storable(number, self_.dtype())?)?;
        }
        return Ok(());
    }
    let applied = apply(self_, items)?;
    let (view, indices) = (applied.view(), &applied.indices);
    if indices.is_empty() {
        op::fill__scalar(view, storable(number, view.dtype())?)?;
        return Ok(());
    }
    if let Some(mask) = only_mask(view, indices)? {
        op::masked_fill__scalar(view, &mask, number)?;
        return Ok(());
    }
    if let Some((dim, index)) = only(indices).filter(|(_, index)| index.dtype() == DType::Int64) {
        let index = op::reshape(index, &[-1])?;
        op::index_fill__int_scalar(view, dim as i64, &index, number)?;
        return Ok(());
    }
    let (dtype, device) = (view.dtype(), view.device());
    let value = op::full(&[], number, Some(dtype), Some(Layout::Strided), Some(device), None)?;
    op::index_put_(view, indices, &value, false)?;
    Ok(())
}

/// The number as an element in 16 bits would hold it: too large ones are infinite, as they are for
/// a tensor of one element that is copied.
fn storable(number: Scalar, dtype: DType) -> Result<Scalar> {
    if !matches!(dtype, DType::Float16 | DType::BFloat16) {
        return Ok(number);
    }
    number.checked_to::<f64>("fill_")?;
    Ok(number.rounded_to(dtype))
}

/// The index tensor and its dimension, when there is no other.
fn only(indices: &[Option<Tensor>]) -> Option<(usize, &Tensor)> {
    let mut found =
        indices.iter().enumerate().filter_map(|(dim, index)| Some((dim, index.as_ref()?)));
    let first = found.next();
    first.filter(|_| found.next().is_none())
}

/// The mask, made to broadcast with `self_`, when it is the only index and fits.
///
/// # Errors
/// Those of `reshape`.
pub fn only_mask(self_: &Tensor, indices: &[Option<Tensor>]) -> Result<Option<Tensor>> {
    let Some((dim, mask)) = only(indices) else { return Ok(None) };
    let end = dim + mask.dim();
    if !matches!(mask.dtype(), DType::Bool | DType::UInt8) || end > self_.dim() {
        return Ok(None);
    }
    let (sizes, mut shape) = (self_.sizes(), mask.sizes());
    if sizes[dim..end] != shape[..] {
        return Ok(None);
    }
    shape.extend(std::iter::repeat_n(1, self_.dim() - end));
    op::reshape(mask, &shape).map(Some)
}

/// Applies all items but tensors, which are collected.
fn apply<'a>(self_: &'a Tensor, items: &[IndexItem]) -> Result<IndexWalk<'a>> {
    let specified: usize = items.iter().map(IndexItem::dimensions).sum();
    let rank = self_.dim();
    ensure!(
        specified <= rank || is_scalar_access(self_, items),
        Index,
        "too many indices for tensor of dimension {rank}"
    );
    let mut walk = IndexWalk { source: self_, made: None, dim: 0, indices: Vec::new(), pending: 0 };
    for (place, item) in items.iter().enumerate() {
        match item {
            IndexItem::Int(index) => walk.select(*index, place)?,
            IndexItem::Slice(slice) => walk.slice(slice)?,
            IndexItem::Ellipsis => walk.skip(rank - specified.min(rank)),
            IndexItem::None => walk.insert()?,
            IndexItem::Bool(chosen) => walk.truth(*chosen)?,
            IndexItem::Tensor(tensor) => walk.tensor(tensor, place)?,
        }
    }
    Ok(walk)
}

/// Single items on a rank-0 tensor have messages of their own.
fn is_scalar_access(self_: &Tensor, items: &[IndexItem]) -> bool {
    self_.dim() == 0 && matches!(items, [IndexItem::Int(_) | IndexItem::Slice(_)])
}

/// The size of a dimension; 0 if there is none.
fn size_of(view: &Tensor, dim: usize) -> i64 {
    view.size(dim as i64).unwrap_or(0)
}

/// Selects a position; errors name the place of the item, not the dimension.
fn select(view: &Tensor, dim: usize, index: i64, place: usize) -> Result<Tensor> {
    let size = size_of(view, dim);
    if !(-size..size).contains(&index) {
        ensure!(
            view.dim() > 0 || index != 0 || place != 0,
            Index,
            "invalid index of a 0-dim tensor. Use `tensor.item()` in Python or \
             `tensor.item<T>()` in C++ to convert a 0-dim tensor to a number"
        );
        bail!(Index, "index {index} is out of bounds for dimension {place} with size {size}");
    }
    op::select_int(view, dim as i64, index)
}

/// Keeps a range of a dimension.
fn range(view: &Tensor, dim: usize, slice: &Slice) -> Result<Tensor> {
    ensure!(view.dim() > 0, Index, "slice() cannot be applied to a 0-dim tensor.");
    let step = slice.step.unwrap_or(1);
    ensure!(step != 0, Value, "slice step cannot be zero");
    if step < 0 {
        return backwards(view, dim, slice, step);
    }
    let (start, stop) = (slice.start.unwrap_or(0), slice.stop.unwrap_or(i64::MAX));
    op::slice_tensor(view, dim as i64, Some(start), Some(stop), step)
}

/// Keeps a range of a dimension from its end to its start: Python's rules for negative steps.
fn backwards(view: &Tensor, dim: usize, slice: &Slice, step: i64) -> Result<Tensor> {
    let size = size_of(view, dim);
    let wrap = |bound: i64| if bound < 0 { bound.saturating_add(size) } else { bound };
    let clamp = |bound: Option<i64>, end: i64| bound.map_or(end, |b| wrap(b).clamp(-1, size - 1));
    let (start, stop) = (clamp(slice.start, size - 1), clamp(slice.stop, -1));
    let step = step.checked_neg().unwrap_or(i64::MAX);
    let count = if start > stop { (start - stop - 1) / step + 1 } else { 0 };
    let (from, to) = if count > 0 { (start - (count - 1) * step, start + 1) } else { (0, 0) };
    let kept = op::slice_tensor(view, dim as i64, Some(from), Some(to), step)?;
    if count < 2 { Ok(kept) } else { op::flip_view(&kept, &[dim as i64]) }
}

struct IndexWalk<'a> {
    source: &'a Tensor,
    /// What the items made of it so far; nothing while that is the source itself, which is not
    /// counted once more.
    made: Option<Tensor>,
    /// The dimension of the view that the next item is for.
    dim: usize,
    indices: Vec<Option<Tensor>>,
    /// Dimensions passed since the last recorded index.
    pending: usize,
}

impl IndexWalk<'_> {
    fn view(&self) -> &Tensor {
        self.made.as_ref().unwrap_or(self.source)
    }

    fn skip(&mut self, dims: usize) {
        self.dim += dims;
        self.pending += dims;
    }

    /// The size of the dimension that comes next.
    fn size(&self) -> i64 {
        size_of(self.view(), self.dim)
    }

    fn select(&mut self, index: i64, place: usize) -> Result<()> {
        self.made = Some(select(self.view(), self.dim, index, place)?);
        Ok(())
    }

    /// Keeps a range. A whole dimension needs no view of its own.
    fn slice(&mut self, slice: &Slice) -> Result<()> {
        let to_the_end = slice.stop.is_none_or(|stop| stop >= self.size());
        let everything = slice.start.unwrap_or(0) == 0 && to_the_end;
        if !everything || slice.step.unwrap_or(1) != 1 || self.view().dim() == 0 {
            self.made = Some(range(self.view(), self.dim, slice)?);
        }
        self.skip(1);
        Ok(())
    }

    fn insert(&mut self) -> Result<()> {
        self.made = Some(op::unsqueeze(self.view(), self.dim as i64)?);
        self.skip(1);
        Ok(())
    }

    /// A truth value is a new dimension of which everything or nothing is taken.
    fn truth(&mut self, chosen: bool) -> Result<()> {
        self.made = Some(op::unsqueeze(self.view(), self.dim as i64)?);
        let device = Some(self.view().device());
        let index = op::zeros(&[i64::from(chosen)], Some(DType::Int64), None, device, None)?;
        self.record(index, 1);
        Ok(())
    }

    fn tensor(&mut self, tensor: &Tensor, place: usize) -> Result<()> {
        let dtype = tensor.dtype();
        if tensor.dim() == 0 && dtype.is_integral(true) && !is_batched(tensor) {
            return match dtype {
                DType::Bool | DType::UInt8 => self.truth(op::item(tensor)?.to_bool()),
                _ => self.select(op::item(tensor)?.to_i64(), place),
            };
        }
        ensure!(
            matches!(dtype, DType::Int64 | DType::Int32 | DType::UInt8 | DType::Bool),
            Index,
            "tensors used as indices must be long, int, byte or bool tensors"
        );
        let device = self.view().device();
        let index = match tensor.device() == device || device == Device::META {
            true => tensor.clone(),
            false => op::to_device(tensor, device, dtype, false, false, None)?,
        };
        let dims = IndexItem::Tensor(tensor.clone()).dimensions();
        self.record(index, dims);
        Ok(())
    }

    fn record(&mut self, index: Tensor, dims: usize) {
        self.indices.extend(std::iter::repeat_n(None, self.pending));
        self.indices.push(Some(index));
        self.pending = 0;
        self.dim += dims;
    }
}

/// Copies a value that broadcasts, ignoring its leading dimensions of size 1.
fn copy_to(target: &Tensor, value: &Tensor) -> Result<()> {
    if target.sizes() == value.sizes() {
        op::copy_(target, value, false)?;
        return Ok(());
    }
    if value.dim() == 0 && value.device().is_cpu() {
        op::fill__tensor(target, value)?;
        return Ok(());
    }
    let stripped = without_leading_ones(value)?;
    let expanded = op::expand(&stripped, &target.sizes(), false)?;
    op::copy_(target, &expanded, false)?;
    Ok(())
}

fn without_leading_ones(value: &Tensor) -> Result<Tensor> {
    let sizes = value.sizes();
    let first = sizes.iter().position(|size| *size != 1).unwrap_or(sizes.len());
    let rest: Dims = sizes[first..].into();
    op::view(value, &rest)
}

/// An index that no tensor has, for front ends that check types themselves.
///
/// # Errors
/// Always `Index`.
pub fn invalid(kind: &str) -> Result<IndexItem> {
    bail!(
        Index,
        "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid \
         indices (got {kind})"
    )
}

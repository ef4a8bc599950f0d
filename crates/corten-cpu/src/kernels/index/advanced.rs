//! Advanced indexing: integer and bool tensors in place of dimensions.
//!
//! Masks become index tensors, index tensors broadcast together, and dimensions with an index
//! move to the front unless they are adjacent. What is left is one offset per position of the
//! broadcast index, added to a walk over the dimensions without one.

use super::arithmetic::{add_to, put_in};
use super::flat::{
    Flat, as_bits, flat, flat_bits, for_each_offset, fresh_copy, match_bits, row_major,
};
use super::masked::masked_select;
use super::row_copies::{AHEAD, MOST_FETCHED, columns_per_thread, copy_rows};
use crate::kernels::support::is_shape_only;
use crate::parallel::chunks::{for_each_column_block, for_each_run, grain_of};
use crate::rows::loops::compiled;
use crate::vec::prefetch_early;
use corten_core::geometry::Overlap;
use corten_core::{
    Access, AccessSet, DType, Device, Dims, Element, Error, MemoryFormat, Reader, Result, bail,
    ensure, err, geometry, match_dtype, try_vec, warn,
};
use corten_ops::index::only_mask;
use corten_ops::iter::TensorIteratorConfig;
use corten_ops::parallel::{GRAIN, num_threads};
use corten_ops::{Tensor, op};
use std::ops::Range;

/// The elements that index tensors select.
///
/// # Errors
/// `Index` for an index that does not fit the tensor.
pub fn index(self_: &Tensor, indices: &[Option<Tensor>]) -> Result<Tensor> {
    if let [Some(mask)] = indices
        && mask.dtype() == DType::Bool
        && mask.dim() > 0
        && mask.sizes() == self_.sizes()
        && !is_shape_only(self_)
    {
        return masked_select(self_, mask);
    }
    let plan = Plan::new(self_, indices)?;
    let out = plan.allocate()?;
    if is_shape_only(&out) {
        return Ok(out);
    }
    let (source, target) = (flat_bits(&plan.source)?, flat_bits(&out)?);
    match_bits!(self_.itemsize(), T => {
        let set = AccessSet::acquire(&[
            (source.tensor.base(), Access::Read),
            (target.tensor.base(), Access::Write),
        ])?;
        let (from, to) = (set.read::<T>(0)?, set.write::<T>(1)?);
        match plan.columns().filter(|_| out.is_contiguous()) {
            Some(cols) => for_each_run(to, cols, grain_of(cols), |rows, to| {
                let starts = plan.offsets[rows].iter().map(|&start| start as usize);
                copy_rows(from, to, cols, starts);
                Ok(())
            }),
            None => plan.walk(&source, &target.strides, target.base, |selected, place| {
                to[place] = from[selected];
            }),
        }
    })?;
    Ok(out)
}

/// Writes or adds values at the elements that index tensors select.
///
/// # Errors
/// `Index` for an index that does not fit the tensor; `Runtime` for values that do not.
pub fn index_put_(
    self_: &Tensor,
    indices: &[Option<Tensor>],
    values: &Tensor,
    accumulate: bool,
) -> Result<Tensor> {
    if is_shape_only(self_) && indices.iter().flatten().any(is_mask) {
        // How many elements a mask selects, and so what fits them, follows from its data.
        return Ok(self_.clone());
    }
    if !accumulate && values.numel() == 1 {
        // One value for all elements of a mask.
        if let Some(mask) = only_mask(self_, indices)? {
            return op::masked_fill__scalar(self_, &mask, op::item(values)?);
        }
    }
    if geometry::has_internal_overlap(self_) == Overlap::Yes {
        warn(
            "Use of index_put_ on expanded tensors is deprecated. Please clone() the tensor before \
             performing this operation. This also applies to advanced indexing e.g. \
             tensor[indices] = tensor",
        );
    }
    geometry::assert_no_overlap(self_, values)?;
    for index in indices.iter().flatten() {
        geometry::assert_no_overlap(self_, index)?;
    }
    let plan = Plan::new(self_, indices)?;
    let fitted = plan.fit_values(values)?;
    ensure!(
        self_.dtype() == values.dtype(),
        Runtime,
        "Index put requires the source and destination dtypes match, got {} for the destination \
         and {} for the source.",
        self_.dtype().type_name(),
        values.dtype().type_name()
    );
    if is_shape_only(self_) {
        return Ok(self_.clone());
    }
    if fitted.is_alias_of(self_) && !accumulate {
        plan.copy_within(&fitted)?;
        return Ok(self_.clone());
    }
    let values = match fitted.is_alias_of(self_) {
        true => op::clone(&fitted, Some(MemoryFormat::Contiguous))?,
        false => op::contiguous(&fitted, MemoryFormat::Contiguous)?,
    };
    match accumulate {
        false => {
            let (target, values) = (flat_bits(&plan.source)?, as_bits(&values)?);
            match_bits!(self_.itemsize(), T => {
                plan.write::<T>(&target, &values, put_in)
            })?;
        }
        true => {
            let target = flat(&plan.source)?;
            match_dtype!(self_.dtype(), "index_put", AllNoF8, T => {
                plan.write::<T>(&target, &values, add_to)
            })?;
        }
    }
    Ok(self_.clone())
}

/// The functional form of [`index_put_`].
///
/// # Errors
/// As [`index_put_`].
pub fn index_put(
    self_: &Tensor,
    indices: &[Option<Tensor>],
    values: &Tensor,
    accumulate: bool,
) -> Result<Tensor> {
    index_put_(&fresh_copy(self_)?, indices, values, accumulate)
}

/// What an indexed access touches.
struct Plan {
    /// The indexed tensor, its indexed dimensions adjacent.
    source: Tensor,
    /// The shape of the result.
    shape: Dims,
    /// The dimensions of the result that the index replaced.
    replaced: Range<usize>,
    /// The index tensors, one for each indexed dimension from `replaced.start` on, broadcast.
    indices: Vec<Tensor>,
    /// The offset that each position of the broadcast index adds, in elements.
    offsets: Vec<i64>,
}

impl Plan {
    fn new(self_: &Tensor, indices: &[Option<Tensor>]) -> Result<Self> {
        let mut expanded = expand_masks(self_, indices)?;
        ensure!(
            expanded.len() <= self_.dim(),
            Index,
            "too many indices for tensor of dimension {} (got {})",
            self_.dim(),
            expanded.len()
        );
        expanded.resize(self_.dim(), None);
        broadcast_together(&mut expanded)?;
        let (source, expanded) = bring_together(self_, expanded)?;
        let first = expanded.iter().position(Option::is_some).unwrap_or(0);
        // Bounded: dimensions.
        let present: Vec<Tensor> = expanded.into_iter().flatten().collect();
        let index_shape = present.first().map_or_else(Dims::new, |index| index.sizes());
        let sizes = source.sizes();
        let mut shape: Dims = sizes[..first].into();
        shape.extend_from_slice(&index_shape);
        shape.extend_from_slice(&sizes[first + present.len()..]);
        let indexed_sizes = &sizes[first..first + present.len()];
        ensure!(
            !indexed_sizes.contains(&0) || index_shape.contains(&0),
            Index,
            "index is out of bounds for dimension with size 0"
        );
        let offsets = match shape.contains(&0) {
            _ if is_shape_only(self_) => Vec::new(),
            // As in PyTorch, indices are not looked at where there is nothing to select.
            true => try_vec(0, index_shape.iter().product::<i64>() as usize)?,
            false => offsets(&present, indexed_sizes, &source.strides()[first..])?,
        };
        let replaced = first..first + index_shape.len();
        Ok(Self { source, shape, replaced, indices: present, offsets })
    }

    /// How many elements lie behind one another wherever the index points; `None` where they do not
    /// all, or the source is not dense.
    fn columns(&self) -> Option<usize> {
        let dense = self.replaced.start == 0 && self.source.is_contiguous();
        let sizes = self.source.sizes();
        let cols = sizes[self.indices.len().min(sizes.len())..].iter().product::<i64>() as usize;
        (dense && cols > 0 && !self.offsets.is_empty()).then_some(cols)
    }

    /// Strides of the walk over `source` in the shape of the result: 0 where the index decides.
    fn walk_strides(&self, strides: &[i64]) -> Dims {
        let mut walk: Dims = strides[..self.replaced.start].into();
        walk.extend(std::iter::repeat_n(0, self.replaced.len()));
        walk.extend_from_slice(&strides[self.replaced.start + self.indices.len()..]);
        walk
    }

    /// Strides over the broadcast index in the shape of the result.
    fn index_strides(&self) -> Dims {
        let mut strides: Dims = Dims::from_elem(0, self.shape.len());
        let own = row_major(&self.shape[self.replaced.clone()]);
        strides[self.replaced.clone()].copy_from_slice(&own);
        strides
    }

    /// The index tensors as operands of a walk in the shape of the result. Their strides, which may
    /// be those of a transposed index, take part in its order.
    fn index_operands(&self) -> impl Iterator<Item = Result<Tensor>> {
        let mut shape: Dims = Dims::from_elem(1, self.shape.len());
        shape[self.replaced.clone()].copy_from_slice(&self.shape[self.replaced.clone()]);
        // The indices of a tensor without data may lie anywhere; only their strides count.
        let elsewhere = is_shape_only(&self.source);
        self.indices.iter().map(move |index| match elsewhere {
            true => op::reshape(&unfilled(index)?, &shape),
            false => op::reshape(index, &shape),
        })
    }

    /// The result, laid out by the iterator's rules for a walk over the source.
    fn allocate(&self) -> Result<Tensor> {
        let strides = self.walk_strides(&self.source.strides());
        let offset = Some(self.source.storage_offset());
        let walk = op::as_strided(&self.source, &self.shape, &strides, offset)?;
        let mut config = TensorIteratorConfig::new()
            .check_mem_overlap(false)
            .check_all_same_dtype(false)
            .declare_static_dtype(self.source.dtype())
            .add_output(None)
            .add_input(&walk);
        for index in self.index_operands() {
            config = config.add_input(&index?);
        }
        Ok(config.build()?.into_output(0))
    }

    /// Calls `visit` with the offset of each selected element in `flat` and the offset of its
    /// place in the operand that has the given strides over the result's shape.
    fn walk(
        &self,
        flat: &Flat,
        strides: &[i64],
        base: i64,
        mut visit: impl FnMut(usize, usize),
    ) -> Result<()> {
        let operands = [&self.walk_strides(&flat.strides)[..], &self.index_strides(), strides];
        for_each_offset(&self.shape, operands, [flat.base, 0, base], |[selected, which, place]| {
            visit((selected + self.offsets[which as usize]) as usize, place as usize);
            Ok(())
        })
    }

    /// The values in the shape of the result, or a single one.
    fn fit_values(&self, values: &Tensor) -> Result<Tensor> {
        if values.numel() == 1 && values.dim() <= self.shape.len() {
            return op::reshape(values, &[1]);
        }
        let fits = geometry::infer_broadcast(&values.sizes(), &self.shape);
        ensure!(
            fits.is_ok_and(|shape| shape == self.shape),
            Runtime,
            "shape mismatch: value tensor of shape {:?} cannot be broadcast to indexing result of \
             shape {:?}",
            values.sizes().as_slice(),
            self.shape.as_slice()
        );
        op::expand(values, &self.shape, false)
    }

    /// Copies values that lie in the memory of the tensor itself. They are read as they are
    /// written, in the order in which PyTorch walks the operands.
    fn copy_within(&self, values: &Tensor) -> Result<()> {
        let values = match values.numel() {
            1 => op::expand(&op::reshape(values, &[])?, &self.shape, false)?,
            _ => values.clone(),
        };
        let (target, values) = (as_bits(&self.source)?, as_bits(&values)?);
        let strides = self.walk_strides(&target.strides());
        let first = target.storage_offset();
        let walk = op::as_strided(&target, &self.shape, &strides, Some(first))?;
        let index = op::empty_memory_format(
            &[self.offsets.len() as i64],
            Some(DType::Int64),
            None,
            None,
            None,
            None,
        )?;
        let index = op::as_strided(&index, &self.shape, &self.index_strides(), None)?;
        let mut config = TensorIteratorConfig::new()
            .check_mem_overlap(false)
            .check_all_same_dtype(false)
            .resize_outputs(false)
            .add_output(Some(&walk))
            .add_input(&values);
        for index in self.index_operands() {
            config = config.add_input(&index?);
        }
        let iter = config.add_input(&index).build()?;
        // The walk has its fastest dimension first.
        let elements = |i: usize| -> Dims {
            let size = iter.dtype(i).itemsize() as i64;
            iter.strides(i).iter().rev().map(|stride| stride / size).collect()
        };
        let shape: Dims = iter.shape().iter().rev().copied().collect();
        let strides = [elements(0), elements(1), elements(iter.ntensors() - 1)];
        let everything = (target.storage()?.nbytes() / target.itemsize()) as i64;
        let memory = op::as_strided(&target, &[everything], &[1], Some(0))?;
        match_bits!(target.itemsize(), T => {
            let set = AccessSet::acquire(&[(memory.base(), Access::Write)])?;
            let memory = set.write::<T>(0)?;
            let operands = [&strides[0][..], &strides[1], &strides[2]];
            for_each_offset(&shape, operands, [first, values.storage_offset(), 0], |[to, from, which]| {
                memory[(to + self.offsets[which as usize]) as usize] = memory[from as usize];
                Ok(())
            })
        })
    }

    fn write<T: Element>(
        &self,
        target: &Flat,
        values: &Tensor,
        combine: impl Fn(&mut T, T) + Sync,
    ) -> Result<()> {
        let set = AccessSet::acquire(&[
            (values.base(), Access::Read),
            (target.tensor.base(), Access::Write),
        ])?;
        let (from, to) = (set.read::<T>(0)?, set.write::<T>(1)?);
        if let Some(cols) = self.columns().filter(|&cols| cols >= WIDE) {
            return self.write_rows(from, to, cols, combine);
        }
        let strides = match values.dim() == 1 && values.numel() == 1 {
            true => Dims::from_elem(0, self.shape.len()),
            false => row_major(&self.shape),
        };
        self.walk(target, &strides, 0, |selected, place| combine(&mut to[selected], from[place]))
    }

    /// Combines rows of values, or one value for all, into dense rows.
    fn write_rows<T: Element>(
        &self,
        from: &[T],
        to: &mut [T],
        cols: usize,
        combine: impl Fn(&mut T, T) + Sync,
    ) -> Result<()> {
        let (rows, width) = (to.len() / cols, columns_per_thread(cols));
        let threads = num_threads();
        // A few threads that each look for their rows would guess wrong at every other one.
        let few = threads > 1 && threads <= cols.div_ceil(width);
        if !few && width < MOST_SHARED && rows >= threads {
            return self.write_own_rows(from, to, cols, combine);
        }
        let matrix = [1, rows, cols];
        let grain = grain_of(self.offsets.len() * width);
        for_each_column_block(to, matrix, width, grain, |_, columns, to| {
            for (i, &start) in self.offsets.iter().enumerate() {
                let row = to.row(start as usize / cols);
                combine_row(row, values_of_row(from, i * cols + columns.start), &combine);
            }
            Ok(())
        })
    }

    /// [`write_rows`](Self::write_rows) where each thread looks at every index and takes the rows that
    /// are its own, so that a row is written in the order of the index.
    fn write_own_rows<T: Element>(
        &self,
        from: &[T],
        to: &mut [T],
        cols: usize,
        combine: impl Fn(&mut T, T) + Sync,
    ) -> Result<()> {
        let rows = to.len() / cols;
        let threads = if self.offsets.len() * cols > GRAIN as usize { num_threads() } else { 1 };
        let fetched = (cols * size_of::<T>()).min(MOST_FETCHED);
        for_each_run(to, cols, rows.div_ceil(threads), |own, to| {
            let (first, len) = (own.start * cols, to.len());
            let place = |start: i64| {
                let place = (start as usize).wrapping_sub(first);
                (place < len).then_some(place)
            };
            for (i, &start) in self.offsets.iter().enumerate() {
                let later = self.offsets.get(i + AHEAD);
                if let Some(place) = later.and_then(|&later| place(later)) {
                    prefetch_early(to[place..].as_ptr().cast(), fetched);
                }
                if let Some(place) = place(start) {
                    combine_row(&mut to[place..][..cols], values_of_row(from, i * cols), &combine);
                }
            }
            Ok(())
        })
    }
}

/// The values of a row from a place on; a single one serves all rows.
fn values_of_row<T>(from: &[T], start: usize) -> &[T] {
    if from.len() == 1 { from } else { &from[start..] }
}

/// Combines as many values as a row has elements, or a single one with all of them.
#[inline(always)]
fn combine_row<T: Copy>(row: &mut [T], values: &[T], combine: impl Fn(&mut T, T)) {
    match *values {
        [value] => row.iter_mut().for_each(|slot| combine(slot, value)),
        _ => row.iter_mut().zip(values).for_each(|(slot, &value)| combine(slot, value)),
    }
}

/// Columns of a thread from which on it has some of every row and does not look for its own rows.
const MOST_SHARED: usize = 1024;

/// Elements of a row that are worth a loop of their own.
const WIDE: usize = 8;

/// A tensor like another without its data.
fn unfilled(index: &Tensor) -> Result<Tensor> {
    let (dtype, device) = (Some(index.dtype()), Some(Device::META));
    op::empty_strided(&index.sizes(), &index.strides(), dtype, None, device, None)
}

fn is_mask(index: &Tensor) -> bool {
    matches!(index.dtype(), DType::Bool | DType::UInt8)
}

/// Replaces each mask of rank k by k index tensors, and other dtypes by i64.
fn expand_masks(self_: &Tensor, indices: &[Option<Tensor>]) -> Result<Vec<Option<Tensor>>> {
    let mut expanded: Vec<Option<Tensor>> = Vec::with_capacity(self_.dim());
    for index in indices {
        let Some(index) = index.as_ref().filter(|index| index.defined()) else {
            expanded.push(None);
            continue;
        };
        match index.dtype() {
            DType::Int64 => expanded.push(Some(index.clone())),
            DType::Int32 => {
                expanded.push(Some(op::to_dtype(index, DType::Int64, false, false, None)?));
            }
            _ if is_mask(index) => {
                if index.dtype() == DType::UInt8 {
                    warn(
                        "indexing with dtype torch.uint8 is now deprecated, please use a dtype \
                         torch.bool instead.",
                    );
                }
                check_mask(self_, index, expanded.len())?;
                let places = op::nonzero(index)?;
                for dim in 0..index.dim() as i64 {
                    expanded.push(Some(op::select_int(&places, 1, dim)?));
                }
            }
            _ => bail!(Index, "tensors used as indices must be long, int, byte or bool tensors"),
        }
    }
    Ok(expanded)
}

fn check_mask(self_: &Tensor, mask: &Tensor, first: usize) -> Result<()> {
    let sizes = self_.sizes();
    for (k, size) in mask.sizes().iter().enumerate() {
        let dim = first + k;
        ensure!(
            dim < sizes.len(),
            Index,
            "too many indices for tensor of dimension {}",
            sizes.len()
        );
        ensure!(
            sizes[dim] == *size,
            Index,
            "The shape of the mask {:?} at index {k} does not match the shape of the indexed \
             tensor {:?} at index {dim}",
            mask.sizes().as_slice(),
            sizes.as_slice()
        );
    }
    Ok(())
}

fn broadcast_together(indices: &mut [Option<Tensor>]) -> Result<()> {
    let mut shape = Dims::new();
    for index in indices.iter().flatten() {
        shape = match geometry::infer_broadcast(&shape, &index.sizes()) {
            Ok(shape) => shape,
            Err(_) => {
                let shapes: Vec<String> = indices
                    .iter()
                    .flatten()
                    .map(|index| format!("{:?}", index.sizes().as_slice()))
                    .collect();
                bail!(
                    Index,
                    "shape mismatch: indexing tensors could not be broadcast together with shapes \
                     {}",
                    shapes.join(", ")
                )
            }
        };
    }
    for index in indices.iter_mut().flatten() {
        *index = op::expand(index, &shape, false)?;
    }
    Ok(())
}

/// Moves the indexed dimensions to the front unless they are adjacent.
fn bring_together(
    self_: &Tensor,
    indices: Vec<Option<Tensor>>,
) -> Result<(Tensor, Vec<Option<Tensor>>)> {
    // Bounded: dimensions.
    let places: Vec<usize> = (0..indices.len()).filter(|d| indices[*d].is_some()).collect();
    if places.windows(2).all(|pair| pair[1] == pair[0] + 1) {
        return Ok((self_.clone(), indices));
    }
    let others = (0..indices.len()).filter(|d| indices[*d].is_none());
    // Bounded: dimensions.
    let order: Vec<usize> = places.iter().copied().chain(others).collect();
    let permutation: Dims = order.iter().map(|dim| *dim as i64).collect();
    let moved = order.iter().map(|dim| indices[*dim].clone()).collect();
    Ok((op::permute(self_, &permutation)?, moved))
}

/// The sum over the index tensors of index times stride, each index checked and wrapped.
fn offsets(indices: &[Tensor], sizes: &[i64], strides: &[i64]) -> Result<Vec<i64>> {
    let count = indices.first().map_or(1, |index| index.numel());
    let mut offsets = try_vec(0, count as usize)?;
    for (which, ((index, size), stride)) in indices.iter().zip(sizes).zip(strides).enumerate() {
        let index = op::contiguous(index, MemoryFormat::Contiguous)?;
        let at = Reader::<i64>::new(&index)?;
        let (at, &size, &stride) = (&at[..], size, stride);
        for_each_run(&mut offsets, 1, GRAIN as usize, |places, offsets| {
            add_offsets(at, places, offsets, [size, stride]).ok_or_else(|| outside(at, which, size))
        })?;
    }
    Ok(offsets)
}

/// Adds what an index along a dimension of some size and stride adds at some places; nothing if one of
/// them lies outside.
fn add_offsets(
    at: &[i64],
    places: Range<usize>,
    offsets: &mut [i64],
    [size, stride]: [i64; 2],
) -> Option<()> {
    let at = &at[places];
    if !compiled(|| at.iter().fold(true, |fits, &picked| fits & is_within(picked, size))) {
        return None;
    }
    compiled(|| {
        for (offset, &picked) in offsets.iter_mut().zip(at) {
            *offset += stride * if picked < 0 { picked + size } else { picked };
        }
    });
    Some(())
}

fn is_within(picked: i64, size: i64) -> bool {
    -size <= picked && picked < size
}

/// The error for the first index that lies outside.
#[cold]
fn outside(at: &[i64], which: usize, size: i64) -> Error {
    let first = at.iter().copied().find(|&picked| !is_within(picked, size)).unwrap_or_default();
    err!(Index, "index {first} is out of bounds for dimension {which} with size {size}")
}

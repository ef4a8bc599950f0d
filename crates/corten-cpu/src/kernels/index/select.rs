//! Whole slices along one dimension by a vector of indices.

use super::arithmetic::Arithmetic;
use super::flat::{
    apart_from, as_bits, contiguous_copy, flat, flat_bits, for_each_offset, fresh_copy, long_index,
    match_bits, row_major,
};
use super::row_copies::{RowSelection, copy_rows};
use crate::kernels::support::is_shape_only;
use crate::parallel::chunks::{for_each_run, grain_of};
use corten_core::geometry::Overlap;
use corten_core::{
    Access, AccessSet, DType, Dims, Element, ErrorKind, MemoryFormat, Result, Scalar, bail, ensure,
    geometry, match_dtype, try_collect, warn,
};
use corten_ops::meta::check_fill_value;
use corten_ops::{Tensor, op};
use std::ops::Range;

/// The slices along `dim` that a vector of indices selects.
///
/// # Errors
/// `Index` when an index is out of range; `Runtime` for a wrong index tensor.
pub fn index_select(self_: &Tensor, dim: i64, index: &Tensor) -> Result<Tensor> {
    ensure!(index.dim() <= 1, Index, "index_select(): Index is supposed to be a vector");
    let index = long_index(index, "index_select(): Expected dtype int32 or int64 for index")?;
    let dim = geometry::wrap_dim(dim, self_.dim())?;
    if self_.dim() == 0 {
        ensure!(
            index.numel() == 1,
            Runtime,
            "index_select(): Index to scalar can have only 1 value, got {} value(s)",
            index.numel()
        );
    }
    let mut shape = self_.sizes();
    match shape.get_mut(dim) {
        Some(size) => *size = index.numel(),
        None => debug_assert_eq!(self_.dim(), 0),
    }
    let out = op::empty_memory_format(
        &shape,
        Some(self_.dtype()),
        None,
        Some(self_.device()),
        None,
        None,
    )?;
    if is_shape_only(&out) {
        return Ok(out);
    }
    let source = op::contiguous(&as_bits(self_)?, MemoryFormat::Contiguous)?;
    let target = as_bits(&out)?;
    let size = self_.sizes().get(dim).copied().unwrap_or(1);
    let inner: i64 = self_.sizes().iter().skip(dim + 1).product();
    match_bits!(self_.itemsize(), T => {
        let set = AccessSet::acquire(&[
            (source.base(), Access::Read),
            (index.base(), Access::Read),
            (target.base(), Access::Write),
        ])?;
        let (from, at, to) = (set.read::<T>(0)?, set.read::<i64>(1)?, set.write::<T>(2)?);
        check_range(at, size)?;
        if !to.is_empty() {
            copy_slices(from, at, to, [size as usize, inner as usize])?;
        }
    });
    Ok(out)
}

fn check_range(at: &[i64], size: i64) -> Result<()> {
    let inside = at.iter().all(|index| (0..size).contains(index));
    ensure!(inside, Index, "index out of range in self");
    Ok(())
}

fn copy_slices<T: Copy + Send + Sync>(
    from: &[T],
    at: &[i64],
    to: &mut [T],
    [size, inner]: [usize; 2],
) -> Result<()> {
    for_each_run(to, inner, grain_of(inner), |slices, mut to| {
        let mut next = slices.start;
        while !to.is_empty() {
            let (batch, first) = (next / at.len(), next % at.len());
            let count = slices.end.min(next + at.len() - first) - next;
            let (now, later) = to.split_at_mut(count * inner);
            let from = &from[batch * size * inner..][..size * inner];
            copy_rows(from, now, inner, at[first..][..count].iter().map(|&i| i as usize * inner));
            (to, next) = (later, next + count);
        }
        Ok(())
    })
}

/// Elements of slices that [`Slices::visit`] comes to together, and the position of their first value.
enum SliceRun {
    /// Elements side by side.
    Contiguous { value: usize, slots: Range<usize> },
    /// One element per index, at `offset + index * along`.
    Elements { value: usize, offset: i64, along: i64 },
}

/// A written tensor seen as slices along one dimension.
pub(super) struct Slices {
    pub(super) self_: Tensor,
    pub(super) dim: usize,
    pub(super) index: Tensor,
}

impl Slices {
    /// Lifts a scalar to a vector, so that there is a dimension.
    pub(super) fn new(self_: &Tensor, dim: i64, index: Tensor) -> Result<Self> {
        let dim = geometry::wrap_dim(dim, self_.dim())?;
        let self_ = if self_.dim() == 0 { op::unsqueeze(self_, 0)? } else { self_.clone() };
        // Imported memory may hold the indices between the places of their dtype.
        let index = match index.data_ptr().addr().is_multiple_of(index.itemsize()) {
            true => index,
            false => op::clone(&index, None)?,
        };
        Ok(Self { self_, dim, index })
    }

    fn size(&self) -> i64 {
        self.self_.sizes()[self.dim]
    }

    /// The shape of what is written: the tensor's with as many slices as there are indices.
    fn written_shape(&self) -> Dims {
        let mut shape = self.self_.sizes();
        shape[self.dim] = self.index.numel();
        shape
    }

    /// Combines `values`, of the written shape or a single element, into the slices.
    pub(super) fn run<T: Element>(
        &self,
        target: &super::flat::Flat,
        values: &Tensor,
        combine: impl Fn(&mut T, T) + Sync,
    ) -> Result<()> {
        if is_shape_only(&self.self_) {
            return Ok(());
        }
        let shape = self.written_shape();
        let [values, index] = [values, &self.index].map(|read| apart_from(&target.tensor, read));
        let (values, index) = (values?, index?);
        let set = AccessSet::acquire(&[
            (values.base(), Access::Read),
            (index.base(), Access::Read),
            (target.tensor.base(), Access::Write),
        ])?;
        let (from, at, to) = (set.read::<T>(0)?, set.read::<i64>(1)?, set.write::<T>(2)?);
        if let &[value] = from {
            return self.visit(target, &shape, at, &mut |run| match run {
                SliceRun::Contiguous { slots, .. } => {
                    to[slots].iter_mut().for_each(|slot| combine(slot, value));
                }
                SliceRun::Elements { offset, along, .. } => {
                    at.iter().for_each(|i| combine(&mut to[(offset + i * along) as usize], value));
                }
            });
        }
        let lines = RowSelection::of_slices(&self.self_, self.dim, at.len());
        if let Some(lines) = lines.filter(RowSelection::are_long) {
            return lines.combine_slices(from, at, to, combine);
        }
        self.visit(target, &shape, at, &mut |run| match run {
            SliceRun::Contiguous { value, slots } => {
                let values = &from[value..][..slots.len()];
                to[slots].iter_mut().zip(values).for_each(|(slot, &value)| combine(slot, value));
            }
            SliceRun::Elements { value, offset, along } => {
                for (i, &value) in at.iter().zip(&from[value..]) {
                    combine(&mut to[(offset + i * along) as usize], value);
                }
            }
        })
    }

    /// Calls `visit` with every run of elements of the slices. The geometry is compiled once for all
    /// element types and combinations, whose loops over a run are in `visit`.
    fn visit(
        &self,
        target: &super::flat::Flat,
        shape: &[i64],
        at: &[i64],
        visit: &mut dyn FnMut(SliceRun),
    ) -> Result<()> {
        if shape.contains(&0) {
            return Ok(());
        }
        let mut strides = target.strides.clone();
        let along = std::mem::replace(&mut strides[self.dim], 0);
        // The walk goes up to `rank`; what follows is a run.
        let (mut rank, mut length) = (shape.len(), 1);
        while rank > self.dim + 1 && (shape[rank - 1] == 1 || strides[rank - 1] == length) {
            rank -= 1;
            length *= shape[rank];
        }
        let values = row_major(shape);
        if self.dim + 1 == shape.len() {
            let operands = [&values[..self.dim], &strides[..self.dim]];
            let outer = &shape[..self.dim];
            return for_each_offset(outer, operands, [0, target.base], |[value, offset]| {
                visit(SliceRun::Elements { value: value as usize, offset, along });
                Ok(())
            });
        }
        let mut positions: Dims = Dims::from_elem(0, shape.len());
        positions[self.dim] = 1;
        let operands = [&values[..rank], &positions[..rank], &strides[..rank]];
        for_each_offset(&shape[..rank], operands, [0, 0, target.base], |[value, which, offset]| {
            let slot = (offset + at[which as usize] * along) as usize;
            visit(SliceRun::Contiguous {
                value: value as usize,
                slots: slot..slot + length as usize,
            });
            Ok(())
        })
    }

    /// Checks the indices against the size of the dimension; negative ones count from the end
    /// where `wrap` says so. As in PyTorch, they are not looked at where slices have no elements.
    fn checked(mut self, kind: ErrorKind, prefix: &str, wrap: bool) -> Result<Self> {
        if self.written_shape().contains(&0) || is_shape_only(&self.self_) {
            return Ok(self);
        }
        let (size, dim) = (self.size(), self.dim);
        let low = if wrap { -size } else { 0 };
        let index = self.index.clone();
        let set = AccessSet::acquire(&[(index.base(), Access::Read)])?;
        let at = set.read::<i64>(0)?;
        if let Some(index) = at.iter().find(|index| !(low..size).contains(index)) {
            return Err(corten_core::Error::new(
                kind,
                format!(
                    "{prefix}index {index} is out of bounds for dimension {dim} with size {size}"
                ),
            ));
        }
        if at.iter().any(|&index| index < 0) {
            let wrapped = try_collect(at.iter().map(|&i| if i < 0 { i + size } else { i }))?;
            let count = at.len() as i64;
            self.index = corten_ops::any::factory::from_vec(wrapped, &[count])?;
        }
        Ok(self)
    }
}

fn vector_index(operator: &str, index: &Tensor, kind: ErrorKind) -> Result<Tensor> {
    if index.dim() > 1 {
        return Err(corten_core::Error::new(
            kind,
            format!(
                "{operator}(): Index is supposed to be a vector, but got dim: {} with type: {} and size: {:?}",
                index.dim(),
                index.dtype().type_name(),
                index.sizes().as_slice()
            ),
        ));
    }
    long_index(
        index,
        &format!(
            "{operator}(): Expected dtype int32/int64 for index but got: {}",
            index.dtype().type_name()
        ),
    )
}

/// The size of `source` along the dimension; a scalar has one slice.
fn slices_of(source: &Tensor, dim: usize) -> i64 {
    source.sizes().get(dim).copied().unwrap_or(1)
}

/// Adds `alpha` times the slices of `source` to the slices of `self_` that `index` selects.
///
/// # Errors
/// `Runtime` when shapes or dtypes do not fit or an index is out of bounds.
pub fn index_add_(
    self_: &Tensor,
    dim: i64,
    index: &Tensor,
    source: &Tensor,
    alpha: Scalar,
) -> Result<Tensor> {
    let index = vector_index("index_add_", index, ErrorKind::Index)?;
    ensure!(
        self_.dtype() == source.dtype(),
        Runtime,
        "index_add_(): self ({}) and source ({}) must have the same scalar type",
        self_.dtype().type_name(),
        source.dtype().type_name()
    );
    geometry::assert_no_internal_overlap(self_)?;
    let slices = Slices::new(self_, dim, index)?;
    let count = slices.index.numel();
    ensure!(
        count == slices_of(source, slices.dim),
        Runtime,
        "index_add_(): Number of indices ({count}) should be equal to source.size(dim): ({}), for \
         dim: {}",
        slices_of(source, slices.dim),
        slices.dim
    );
    ensure!(
        same_slices(&slices, source),
        Runtime,
        "source tensor shape must match self tensor shape, excluding the specified dimension. Got \
         self.shape = {:?} source.shape = {:?}",
        self_.sizes().as_slice(),
        source.sizes().as_slice()
    );
    geometry::assert_no_overlap(self_, &slices.index)?;
    geometry::assert_no_overlap(self_, source)?;
    // Vectors have words of their own.
    let slices = match slices.checked(ErrorKind::Runtime, "", false) {
        Err(_) if self_.dim() <= 1 => bail!(Index, "index out of range in self"),
        checked => checked?,
    };
    let values = op::contiguous(source, MemoryFormat::Contiguous)?;
    let target = flat(&slices.self_)?;
    match_dtype!(self_.dtype(), "index_add_", AllNoF8, T => {
        let factor = T::from_scalar(alpha);
        slices.run::<T>(&target, &values, |slot, value| *slot = slot.plus(value.times(factor)))
    })?;
    Ok(self_.clone())
}

fn same_slices(slices: &Slices, source: &Tensor) -> bool {
    let shape = slices.written_shape();
    match source.dim() {
        0 => shape.iter().product::<i64>() == 1,
        _ => shape == source.sizes(),
    }
}

/// The functional form of [`index_add_`].
///
/// # Errors
/// As [`index_add_`].
pub fn index_add(
    self_: &Tensor,
    dim: i64,
    index: &Tensor,
    source: &Tensor,
    alpha: Scalar,
) -> Result<Tensor> {
    index_add_(&contiguous_copy(self_)?, dim, index, source, alpha)
}

/// The slices that `index_reduce` writes, and the values in row-major order.
///
/// # Errors
/// `Index` when an index is out of bounds; `Runtime` or `Index` when something does not fit.
pub(super) fn reduced_slices(
    self_: &Tensor,
    dim: i64,
    index: &Tensor,
    source: &Tensor,
) -> Result<(Slices, Tensor)> {
    let index = vector_index("index_reduce_", index, ErrorKind::Index)?;
    ensure!(
        self_.dtype() == source.dtype(),
        Runtime,
        "index_reduce_(): self ({}) and source ({}) must have the same scalar type",
        self_.dtype().type_name(),
        source.dtype().type_name()
    );
    geometry::assert_no_internal_overlap(self_)?;
    let slices = Slices::new(self_, dim, index)?;
    let count = slices.index.numel();
    ensure!(
        count == slices_of(source, slices.dim),
        Runtime,
        "index_reduce_(): Number of indices ({count}) should be equal to source.size(dim): ({}), \
         for dim: {}",
        slices_of(source, slices.dim),
        slices.dim
    );
    ensure!(
        same_slices(&slices, source) && (self_.dim() > 0 || source.dim() == 0),
        Runtime,
        "source tensor shape must match self tensor shape, excluding the specified dimension. Got \
         self.shape = {:?} source.shape = {:?}",
        self_.sizes().as_slice(),
        source.sizes().as_slice()
    );
    geometry::assert_no_overlap(self_, &slices.index)?;
    geometry::assert_no_overlap(self_, source)?;
    let Ok(slices) = slices.checked(ErrorKind::Index, "", false) else {
        bail!(Index, "index out of range in self")
    };
    Ok((slices, op::contiguous(source, MemoryFormat::Contiguous)?))
}

/// Copies the slices of `source` to the slices of `self_` that `index` selects.
///
/// # Errors
/// `Index` when an index is out of bounds; `Runtime` when shapes or dtypes do not fit.
pub fn index_copy_(self_: &Tensor, dim: i64, index: &Tensor, source: &Tensor) -> Result<Tensor> {
    ensure!(
        index.dim() <= 1,
        Index,
        "index_copy_(): Index should have dimension 1 or 0 (got {})",
        index.dim()
    );
    ensure!(
        index.dtype() == DType::Int64,
        Runtime,
        "index_copy_(): Expected a long tensor for index, but got {}",
        index.dtype().type_name()
    );
    ensure!(
        self_.dtype() == source.dtype(),
        Runtime,
        "index_copy_(): self and source expected to have the same dtype, but got (self) {} and \
         (source) {}",
        self_.dtype().type_name(),
        source.dtype().type_name()
    );
    geometry::assert_no_internal_overlap(self_)?;
    let slices = Slices::new(self_, dim, long_index(index, "")?)?;
    let count = slices.index.numel();
    ensure!(
        count == slices_of(source, slices.dim),
        Index,
        "index_copy_(): Number of indices ({count}) should be equal to source.size(dim) ({})",
        slices_of(source, slices.dim)
    );
    ensure!(
        same_slices(&slices, source),
        Runtime,
        "index_copy_(): Source/destination tensor must have same slice shapes. Destination slice \
         shape: {} at dimension {} and source slice shape: {} at dimension {}.",
        slice_shape(self_, slices.dim),
        slices.dim,
        slice_shape(source, slices.dim),
        slices.dim
    );
    geometry::assert_no_overlap(self_, &slices.index)?;
    geometry::assert_no_overlap(self_, source)?;
    let slices = slices.checked(ErrorKind::Index, "index_copy_(): ", false)?;
    write_slices(&slices, source)?;
    Ok(self_.clone())
}

fn slice_shape(tensor: &Tensor, dim: usize) -> String {
    let sizes = tensor.sizes();
    let others = sizes.iter().enumerate().filter(|(d, _)| *d != dim);
    // Bounded: dimensions.
    others.map(|(_, size)| size.to_string()).collect::<Vec<_>>().join(" ")
}

fn write_slices(slices: &Slices, values: &Tensor) -> Result<()> {
    let target = flat_bits(&slices.self_)?;
    let values = op::contiguous(&as_bits(values)?, MemoryFormat::Contiguous)?;
    match_bits!(slices.self_.itemsize(), T => {
        slices.run::<T>(&target, &values, |slot, value| *slot = value)
    })
}

/// The functional form of [`index_copy_`].
///
/// # Errors
/// As [`index_copy_`].
pub fn index_copy(self_: &Tensor, dim: i64, index: &Tensor, source: &Tensor) -> Result<Tensor> {
    index_copy_(&contiguous_copy(self_)?, dim, index, source)
}

/// Fills the slices along `dim` that `index` selects with a number.
///
/// # Errors
/// `Index` when an index is out of bounds.
pub fn index_fill_scalar_(
    self_: &Tensor,
    dim: i64,
    index: &Tensor,
    value: Scalar,
) -> Result<Tensor> {
    ensure!(index.dtype() == DType::Int64, Index, "index_fill_(): Expected dtype int64 for index.");
    ensure!(
        self_.dtype().is_complex() || !value.is_complex(),
        Runtime,
        "index_fill_(): Converting complex Scalar to non-complex type is not supported"
    );
    ensure!(index.dim() <= 1, Runtime, "Index has to be a vector/scalar");
    if geometry::has_internal_overlap(self_) == Overlap::Yes {
        warn(
            "Use of index_fill_ on expanded tensors is deprecated. Please clone() the tensor before \
             performing this operation. This also applies to advanced indexing e.g. \
             tensor[mask] = scalar",
        );
    }
    let slices = Slices::new(self_, dim, long_index(index, "")?)?;
    geometry::assert_no_overlap(self_, index)?;
    let slices = slices.checked(ErrorKind::Index, "", true)?;
    let value = op::full(&[1], value, Some(self_.dtype()), None, Some(self_.device()), None)?;
    write_slices(&slices, &value)?;
    Ok(self_.clone())
}

/// The functional form of [`index_fill_scalar_`].
///
/// # Errors
/// As [`index_fill_scalar_`].
pub fn index_fill_scalar(
    self_: &Tensor,
    dim: i64,
    index: &Tensor,
    value: Scalar,
) -> Result<Tensor> {
    index_fill_scalar_(&fresh_copy(self_)?, dim, index, value)
}

/// Fills the slices along `dim` that `index` selects with a rank-0 tensor.
///
/// # Errors
/// As [`index_fill_scalar_`]; `Runtime` unless `value` has rank 0.
pub fn index_fill_tensor_(
    self_: &Tensor,
    dim: i64,
    index: &Tensor,
    value: &Tensor,
) -> Result<Tensor> {
    check_fill_value("index_fill_", value)?;
    let value = if is_shape_only(value) { Scalar::Int(0) } else { op::item(value)? };
    index_fill_scalar_(self_, dim, index, value)
}

/// The functional form of [`index_fill_tensor_`].
///
/// # Errors
/// As [`index_fill_tensor_`].
pub fn index_fill_tensor(
    self_: &Tensor,
    dim: i64,
    index: &Tensor,
    value: &Tensor,
) -> Result<Tensor> {
    index_fill_tensor_(&fresh_copy(self_)?, dim, index, value)
}

//! `gather` and the `scatter` family: one index per element.

use super::arithmetic::{add_to, multiply_by, put_in};
use super::flat::{
    Flat, apart_from, contiguous_copy, flat, flat_bits, for_each_offset, match_bits, row_major,
    strided_long_index,
};
use super::row_copies::{RowSelection, check_bounds};
use super::select::Slices;
use crate::kernels::support::is_shape_only;
use corten_core::{
    Access, AccessSet, DType, Dims, Element, MemoryFormat, Result, Scalar, bail, bug, ensure,
    geometry, match_dtype, warn_once,
};
use corten_ops::{Tensor, op};
use std::sync::atomic::AtomicBool;

/// Elements picked along `dim`, one for each element of `index`.
///
/// # Errors
/// `Runtime` when ranks or sizes do not fit or an index is out of bounds.
pub fn gather(self_: &Tensor, dim: i64, index: &Tensor, _sparse_grad: bool) -> Result<Tensor> {
    let dim = geometry::wrap_dim(dim, self_.dim())?;
    if index.numel() == 0 {
        let (dtype, device) = (Some(self_.dtype()), Some(self_.device()));
        return op::empty_memory_format(&index.sizes(), dtype, None, device, None, None);
    }
    let index = strided_long_index(index, "gather(): Expected dtype int32/int64 for index")?;
    let (self_, index, out_sizes) = at_least_vector(self_, &index)?;
    ensure!(
        self_.dim() == index.dim(),
        Runtime,
        "Index tensor must have the same number of dimensions as input tensor"
    );
    for d in 0..index.dim() {
        ensure!(
            d == dim || index.sizes()[d] <= self_.sizes()[d],
            Runtime,
            "Size does not match at dimension {d} expected index {:?} to be no larger than self \
             {:?} apart from dimension {dim}",
            index.sizes().as_slice(),
            self_.sizes().as_slice()
        );
    }
    if names_slices(&self_, dim, &index) {
        let picked = slice_index(&self_, dim, &index)?;
        return op::view(&op::index_select(&self_, dim as i64, &picked)?, &out_sizes);
    }
    let index = op::contiguous(&index, MemoryFormat::Contiguous)?;
    let out = op::empty_like(&self_, None, None, None, None, Some(MemoryFormat::Contiguous))?;
    let out = op::resize_(&out, &index.sizes(), None)?;
    if is_shape_only(&out) {
        return op::view(&out, &out_sizes);
    }
    let (source, target) = (flat_bits(&self_)?, flat_bits(&out)?);
    match_bits!(self_.itemsize(), T => {
        let set = AccessSet::acquire(&[
            (source.tensor.base(), Access::Read),
            (index.base(), Access::Read),
            (target.tensor.base(), Access::Write),
        ])?;
        let (from, at, to) = (set.read::<T>(0)?, set.read::<i64>(1)?, set.write::<T>(2)?);
        match RowSelection::of(&self_, dim, &index) {
            Some(lines) => lines.unchecked(dim).gather(from, at, to),
            None => {
                check_bounds(at, dim, self_.sizes()[dim])?;
                walk(dim, &index, &source, at, |position, offset| to[position] = from[offset])
            }
        }
    })?;
    op::view(&out, &out_sizes)
}

/// Whether an index is expanded from one number for each slice along `dim`: then whole slices are moved.
fn names_slices(self_: &Tensor, dim: usize, index: &Tensor) -> bool {
    /// Shorter slices are not worth the walk over them.
    const LEAST: i64 = 4;

    let (sizes, strides) = (index.sizes(), index.strides());
    let whole = (0..sizes.len())
        .filter(|&d| d != dim)
        .all(|d| sizes[d] == self_.sizes()[d] && (strides[d] == 0 || sizes[d] == 1));
    whole && !is_shape_only(index) && index.numel() >= LEAST.saturating_mul(sizes[dim].max(1))
}

/// The numbers of the slices that such an index stands for, checked against the bounds.
fn slice_index(self_: &Tensor, dim: usize, index: &Tensor) -> Result<Tensor> {
    let mut picked = index.clone();
    for d in (0..index.dim()).filter(|&d| d != dim).rev() {
        picked = op::select_int(&picked, d as i64, 0)?;
    }
    let picked = op::contiguous(&picked, MemoryFormat::Contiguous)?;
    let set = AccessSet::acquire(&[(picked.base(), Access::Read)])?;
    check_bounds(set.read::<i64>(0)?, dim, self_.sizes()[dim])?;
    drop(set);
    Ok(picked)
}

/// A scalar counts as a vector of one element; the third result is the shape to return.
fn at_least_vector(self_: &Tensor, index: &Tensor) -> Result<(Tensor, Tensor, Dims)> {
    let shape = index.sizes();
    let lift = |tensor: &Tensor| match tensor.dim() {
        0 => op::unsqueeze(tensor, 0),
        _ => Ok(tensor.clone()),
    };
    Ok((lift(self_)?, lift(index)?, shape))
}

/// Calls `visit` with the row-major position in `index` and the offset in the flat `target` that
/// the index there selects; all are in bounds.
fn walk(
    dim: usize,
    index: &Tensor,
    target: &Flat,
    at: &[i64],
    mut visit: impl FnMut(usize, usize),
) -> Result<()> {
    let shape = index.sizes();
    let mut strides = target.strides.clone();
    let along = std::mem::replace(&mut strides[dim], 0);
    let (Some((&inner, outer)), Some(&step)) = (shape.split_last(), strides.last()) else {
        bug!("a scalar counts as a vector");
    };
    let operands = [&row_major(&shape)[..outer.len()], &strides[..outer.len()]];
    for_each_offset(outer, operands, [0, target.base], |[position, mut offset]| {
        let position = position as usize;
        for (i, &picked) in at[position..position + inner as usize].iter().enumerate() {
            visit(position + i, (offset + picked * along) as usize);
            offset += step;
        }
        Ok(())
    })
}

fn check_scatter(
    operator: &str,
    self_: &Tensor,
    dim: usize,
    index: &Tensor,
    src: Option<&Tensor>,
) -> Result<()> {
    if index.numel() == 0 {
        return Ok(());
    }
    let rank = |tensor: &Tensor| tensor.dim().max(1);
    ensure!(
        rank(index) == rank(self_),
        Runtime,
        "Index tensor must have the same number of dimensions as self tensor"
    );
    let size = |tensor: &Tensor, d: usize| tensor.sizes().get(d).copied().unwrap_or(1);
    let fits_self = (0..rank(self_)).all(|d| d == dim || size(index, d) <= size(self_, d));
    let Some(src) = src else {
        ensure!(
            fits_self,
            Runtime,
            "Expected index {:?} to be no larger than self {:?} apart from dimension {dim}",
            index.sizes().as_slice(),
            self_.sizes().as_slice()
        );
        return Ok(());
    };
    ensure!(
        rank(index) == rank(src),
        Runtime,
        "Index tensor must have the same number of dimensions as src tensor"
    );
    let fits_src = (0..rank(src)).all(|d| size(index, d) <= size(src, d));
    ensure!(
        fits_self && fits_src,
        Runtime,
        "Expected index {:?} to be no larger than self {:?} apart from dimension {dim} and to be \
         no larger size than src {:?}",
        index.sizes().as_slice(),
        self_.sizes().as_slice(),
        src.sizes().as_slice()
    );
    ensure!(
        self_.dtype() == src.dtype(),
        Runtime,
        "{operator}(): Expected self.dtype to be equal to src.dtype"
    );
    Ok(())
}

/// `src` with the shape of `index`, row-major.
pub(super) fn narrowed(src: &Tensor, index: &Tensor) -> Result<Tensor> {
    // A scalar counts as a vector of one element.
    let mut part = match src.dim() {
        0 => op::reshape(src, &[1])?,
        _ => src.clone(),
    };
    for (d, size) in index.sizes().iter().enumerate() {
        part = op::narrow(&part, d as i64, 0, *size)?;
    }
    op::contiguous(&part, MemoryFormat::Contiguous)
}

/// A written tensor with the places in it that an index names.
pub(super) struct Scatter {
    pub(super) dim: usize,
    pub(super) index: Tensor,
    pub(super) target: Tensor,
    /// Whether the target is a copy that nobody sees if an index is out of bounds.
    pub(super) is_copy: bool,
}

pub(super) fn prepare(
    operator: &'static str,
    self_: &Tensor,
    dim: i64,
    index: &Tensor,
    src: Option<&Tensor>,
) -> Result<Option<Scatter>> {
    let dim = geometry::wrap_dim(dim, self_.dim())?;
    // Without elements the index may have any dtype.
    let long = match index.numel() {
        0 => op::to_dtype(index, DType::Int64, false, false, None)?,
        _ => {
            let message = format!("{operator}(): Expected dtype int32/int64 for index");
            strided_long_index(index, &message)?
        }
    };
    check_scatter(operator, self_, dim, &long, src)?;
    geometry::assert_no_internal_overlap(self_)?;
    geometry::assert_no_overlap(self_, index)?;
    if let Some(src) = src {
        geometry::assert_no_overlap(self_, src)?;
    }
    if long.numel() == 0 {
        return Ok(None);
    }
    let (target, index, _) = at_least_vector(self_, &long)?;
    let index = match names_slices(&target, dim, &index) {
        true => index,
        false => op::contiguous(&index, MemoryFormat::Contiguous)?,
    };
    Ok(Some(Scatter { dim, index, target, is_copy: false }))
}

impl Scatter {
    fn onto_copy(self) -> Self {
        Self { is_copy: true, ..self }
    }

    /// Combines the element of `values` at each position of the index into the target.
    pub(super) fn run<T: Element>(
        &self,
        target: &Flat,
        values: &Tensor,
        combine: impl Fn(&mut T, T) + Sync,
    ) -> Result<()> {
        if is_shape_only(&self.target) {
            return Ok(());
        }
        if names_slices(&self.target, self.dim, &self.index) {
            let picked = slice_index(&self.target, self.dim, &self.index)?;
            let slices = Slices::new(&self.target, self.dim as i64, picked)?;
            return slices.run::<T>(target, values, combine);
        }
        let [values, index] = [values, &self.index].map(|read| apart_from(&target.tensor, read));
        let (values, index) = (values?, index?);
        let set = AccessSet::acquire(&[
            (values.base(), Access::Read),
            (index.base(), Access::Read),
            (target.tensor.base(), Access::Write),
        ])?;
        let (from, at, to) = (set.read::<T>(0)?, set.read::<i64>(1)?, set.write::<T>(2)?);
        let lines = RowSelection::of(&self.target, self.dim, &self.index);
        // A target without elements has no lines that would check their index.
        let checks = lines.is_some() && self.is_copy && !to.is_empty();
        if !checks {
            check_bounds(at, self.dim, self.target.sizes()[self.dim])?;
        }
        if let Some(lines) = lines {
            let lines = if checks { lines.unchecked(self.dim) } else { lines };
            return lines.scatter(from, at, to, combine);
        }
        let broadcast = from.len() == 1;
        walk(self.dim, &self.index, target, at, |position, offset| {
            combine(&mut to[offset], from[if broadcast { 0 } else { position }]);
        })
    }

    fn write(&self, values: &Tensor) -> Result<()> {
        let target = flat_bits(&self.target)?;
        let values = super::flat::as_bits(values)?;
        match_bits!(self.target.itemsize(), T => {
            self.run::<T>(&target, &values, put_in)
        })
    }

    fn write_value(&self, value: Scalar) -> Result<()> {
        let target = &self.target;
        self.write(&op::full(&[1], value, Some(target.dtype()), None, Some(target.device()), None)?)
    }

    /// Adds `values` at their places.
    fn add(&self, values: &Tensor) -> Result<()> {
        let target = flat(&self.target)?;
        match_dtype!(self.target.dtype(), "scatter_add_", AllNoF8, T => {
            self.run::<T>(&target, values, add_to)
        })
    }
}

/// Writes the elements of `src` along `dim` where `index` says.
///
/// # Errors
/// `Runtime` when ranks, sizes or dtypes do not fit or an index is out of bounds.
pub fn scatter_src_(self_: &Tensor, dim: i64, index: &Tensor, src: &Tensor) -> Result<Tensor> {
    if let Some(scatter) = prepare("scatter", self_, dim, index, Some(src))? {
        scatter.write(&narrowed(src, index)?)?;
    }
    Ok(self_.clone())
}

/// The functional form of [`scatter_src_`].
///
/// # Errors
/// As [`scatter_src_`].
pub fn scatter_src(self_: &Tensor, dim: i64, index: &Tensor, src: &Tensor) -> Result<Tensor> {
    let copy = contiguous_copy(self_)?;
    if let Some(scatter) = prepare("scatter", &copy, dim, index, Some(src))? {
        scatter.onto_copy().write(&narrowed(src, index)?)?;
    }
    Ok(copy)
}

/// Writes a number along `dim` where `index` says.
///
/// # Errors
/// As [`scatter_src_`].
pub fn scatter_value_(self_: &Tensor, dim: i64, index: &Tensor, value: Scalar) -> Result<Tensor> {
    if let Some(scatter) = prepare("scatter", self_, dim, index, None)? {
        scatter.write_value(value)?;
    }
    Ok(self_.clone())
}

/// The functional form of [`scatter_value_`].
///
/// # Errors
/// As [`scatter_src_`].
pub fn scatter_value(self_: &Tensor, dim: i64, index: &Tensor, value: Scalar) -> Result<Tensor> {
    let copy = contiguous_copy(self_)?;
    if let Some(scatter) = prepare("scatter", &copy, dim, index, None)? {
        scatter.onto_copy().write_value(value)?;
    }
    Ok(copy)
}

/// Adds the elements of `src` along `dim` where `index` says.
///
/// # Errors
/// As [`scatter_src_`].
pub fn scatter_add_(self_: &Tensor, dim: i64, index: &Tensor, src: &Tensor) -> Result<Tensor> {
    if let Some(scatter) = prepare("scatter", self_, dim, index, Some(src))? {
        scatter.add(&narrowed(src, index)?)?;
    }
    Ok(self_.clone())
}

/// The functional form of [`scatter_add_`].
///
/// # Errors
/// As [`scatter_src_`].
pub fn scatter_add(self_: &Tensor, dim: i64, index: &Tensor, src: &Tensor) -> Result<Tensor> {
    let copy = contiguous_copy(self_)?;
    if let Some(scatter) = prepare("scatter", &copy, dim, index, Some(src))? {
        scatter.onto_copy().add(&narrowed(src, index)?)?;
    }
    Ok(copy)
}

/// Combines the elements of `values`, as many as the index has or one for all, into those at the
/// places that `index` names: `add` or `multiply`.
fn reduce_into(
    self_: &Tensor,
    dim: i64,
    index: &Tensor,
    src: Option<&Tensor>,
    values: &Tensor,
    reduce: &str,
) -> Result<Tensor> {
    if src.is_some() {
        static WARNED: AtomicBool = AtomicBool::new(false);
        warn_once(
            &WARNED,
            "The reduce argument of torch.scatter with Tensor src is deprecated and will be removed \
             in a future PyTorch release. Use torch.scatter_reduce instead for more reduction \
             options.",
        );
    }
    let multiply = match reduce {
        "add" => false,
        "multiply" => true,
        _ => bail!(Runtime, "reduce argument must be either add or multiply."),
    };
    let Some(scatter) = prepare("scatter", self_, dim, index, src)? else {
        return Ok(self_.clone());
    };
    let target = flat(&scatter.target)?;
    match_dtype!(self_.dtype(), "scatter_reduce", AllNoF8, T => match multiply {
        true => scatter.run::<T>(&target, values, multiply_by),
        false => scatter.run::<T>(&target, values, add_to),
    })?;
    Ok(self_.clone())
}

/// The elements of `src` added to, or multiplied with, those at the places that `index` names.
///
/// # Errors
/// As [`scatter_src_`]; `Runtime` for another way to combine.
pub fn scatter_reduce_src_(
    self_: &Tensor,
    dim: i64,
    index: &Tensor,
    src: &Tensor,
    reduce: &str,
) -> Result<Tensor> {
    let values = match index.numel() {
        0 => src.clone(),
        _ => narrowed(src, index)?,
    };
    reduce_into(self_, dim, index, Some(src), &values, reduce)
}

/// The functional form of [`scatter_reduce_src_`].
///
/// # Errors
/// As [`scatter_reduce_src_`].
pub fn scatter_reduce_src(
    self_: &Tensor,
    dim: i64,
    index: &Tensor,
    src: &Tensor,
    reduce: &str,
) -> Result<Tensor> {
    scatter_reduce_src_(&contiguous_copy(self_)?, dim, index, src, reduce)
}

/// A number added to, or multiplied with, the elements at the places that `index` names.
///
/// # Errors
/// As [`scatter_reduce_src_`].
pub fn scatter_reduce_value_(
    self_: &Tensor,
    dim: i64,
    index: &Tensor,
    value: Scalar,
    reduce: &str,
) -> Result<Tensor> {
    let values = op::full(&[1], value, Some(self_.dtype()), None, Some(self_.device()), None)?;
    reduce_into(self_, dim, index, None, &values, reduce)
}

/// The functional form of [`scatter_reduce_value_`].
///
/// # Errors
/// As [`scatter_reduce_src_`].
pub fn scatter_reduce_value(
    self_: &Tensor,
    dim: i64,
    index: &Tensor,
    value: Scalar,
    reduce: &str,
) -> Result<Tensor> {
    scatter_reduce_value_(&contiguous_copy(self_)?, dim, index, value, reduce)
}

//! To and from coordinate format.

use super::arithmetic::add_to_dense;
use super::entries;
use crate::composite::support::along;
use crate::sparse::{Coo, cast};
use crate::{Tensor, op};
use corten_core::{DType, Device, Layout, MemoryFormat, Result, Scalar, ensure};

/// The entries with different places in order, as a tensor of its own.
///
/// # Errors
/// Those of sorting and adding.
pub fn coalesce(self_: &Tensor) -> Result<Tensor> {
    let sizes = self_.sizes();
    entries::coalesced(&Coo::expect(self_, "_coalesce")?, &sizes)?.tensor(&sizes)
}

/// A dense tensor of the same elements.
///
/// # Errors
/// Those of adding.
pub fn to_dense(
    self_: &Tensor,
    dtype: Option<DType>,
    _masked_grad: Option<bool>,
) -> Result<Tensor> {
    let sums = match self_.dtype() {
        // Truth values add up to whether one is true.
        DType::Bool => DType::UInt8,
        other => entries::dtype_of_sums(other),
    };
    let device = Some(self_.device());
    let dense = op::zeros(&self_.sizes(), Some(sums), None, device, None)?;
    if self_.dtype() == DType::Bool {
        let parts = entries::coalesced(&any_values(self_)?, &self_.sizes())?;
        add_to_dense(&dense, &parts.tensor(&self_.sizes())?, Scalar::Int(1))?;
        return cast(&dense, dtype.unwrap_or(DType::Bool));
    }
    add_to_dense(&dense, self_, Scalar::Int(1))?;
    cast(&dense, dtype.unwrap_or(self_.dtype()))
}

fn any_values(self_: &Tensor) -> Result<Coo> {
    let parts = Coo::expect(self_, "to_dense")?;
    Ok(Coo { values: cast(&parts.values, DType::UInt8)?, ..parts })
}

/// Another dtype, device or layout.
///
/// # Errors
/// Those of copying.
pub fn to_copy(
    self_: &Tensor,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    _pin_memory: Option<bool>,
    non_blocking: bool,
    _memory_format: Option<MemoryFormat>,
) -> Result<Tensor> {
    let parts = Coo::expect(self_, "_to_copy")?;
    ensure!(
        layout.is_none_or(|layout| layout == Layout::Sparse),
        Runtime,
        "to(options) doesn't support converting to a different layout, but got self.layout being {} \
         and options.layout set as {}",
        self_.layout(),
        layout.unwrap_or_default()
    );
    let moved = |part: &Tensor, dtype: Option<DType>| {
        op::_to_copy(part, dtype, None, device, None, non_blocking, None)
    };
    let (indices, values) = (moved(&parts.indices, None)?, moved(&parts.values, dtype)?);
    Coo { indices, values, ..parts }.tensor(&self_.sizes())
}

/// A copy of the entries.
///
/// # Errors
/// Those of copying.
pub fn clone(self_: &Tensor, memory_format: Option<MemoryFormat>) -> Result<Tensor> {
    ensure!(
        memory_format.is_none_or(|format| format == MemoryFormat::Preserve),
        Runtime,
        "unsupported memory format option {}",
        memory_format.map_or("", |format| match format {
            MemoryFormat::Contiguous => "Contiguous",
            MemoryFormat::ChannelsLast => "ChannelsLast",
            MemoryFormat::ChannelsLast3d => "ChannelsLast3d",
            MemoryFormat::Preserve => "Preserve",
        })
    );
    let parts = Coo::expect(self_, "clone")?;
    let (indices, values) = (op::clone(&parts.indices, None)?, op::clone(&parts.values, None)?);
    Coo { indices, values, ..parts }.tensor(&self_.sizes())
}

/// The elements of a dense tensor that are not zero, of which the indices count the first dimensions.
///
/// # Errors
/// `Runtime` for a number of dimensions that there are not.
pub fn from_dense(self_: &Tensor, sparse_dim: i64) -> Result<Tensor> {
    let dims = self_.dim() as i64;
    ensure!(
        (0..=dims).contains(&sparse_dim),
        Runtime,
        "dense_to_sparse: sparse_dim argument must be in [0,{dims}] range, but {sparse_dim} is given"
    );
    ensure!(
        sparse_dim > 0 || dims == 0,
        Runtime,
        "dense_to_sparse: sparse_dim argument must be in >0 when self.dim()>0"
    );
    let sizes = self_.sizes();
    if dims == 0 {
        let filled = op::is_nonzero(self_)?;
        let values = op::reshape(self_, &[1])?;
        let values = op::narrow_copy(&values, 0, 0, i64::from(filled))?;
        let indices = op::zeros(
            &[0, i64::from(filled)],
            Some(DType::Int64),
            None,
            Some(self_.device()),
            None,
        )?;
        return Coo { indices, values, coalesced: true }.tensor(&sizes);
    }
    let rest: Vec<i64> = (sparse_dim..dims).collect();
    let mut filled = op::ne_scalar(self_, Scalar::Int(0))?;
    if !rest.is_empty() {
        filled = op::any_dims(&filled, Some(&rest), false)?;
    }
    let indices = op::contiguous(&op::t(&op::nonzero(&filled)?)?, MemoryFormat::Contiguous)?;
    let values = entries::dense_at(self_, &indices)?;
    Coo { indices, values, coalesced: true }.tensor(&sizes)
}

/// A tensor in coordinate format in another layout.
///
/// # Errors
/// `Runtime` where the layout does not take blocks, or its own.
pub fn to_layout(
    self_: &Tensor,
    layout: Option<Layout>,
    blocksize: Option<&[i64]>,
    dense_dim: Option<i64>,
) -> Result<Tensor> {
    match layout.unwrap_or(Layout::Sparse) {
        Layout::Strided => op::to_dense(self_, None, None),
        Layout::Sparse => {
            ensure!(
                blocksize.is_none(),
                Runtime,
                "sparse_coo_to_sparse: conversion from Sparse to Sparse with blocksize argument given is \
                 not supported"
            );
            clone(self_, None)
        }
        other => crate::any::sparse::to_sparse(self_, Some(other), blocksize, dense_dim),
    }
}

/// The elements of a dense or sparse tensor at the places of a sparse one.
///
/// # Errors
/// `Runtime` where the sizes differ.
pub fn sparse_mask(self_: &Tensor, mask: &Tensor) -> Result<Tensor> {
    let places = Coo::expect(mask, "sparse_mask")?;
    check_mask(self_, mask)?;
    let values = match Coo::of(self_) {
        None => entries::dense_at(self_, &places.indices)?,
        Some(parts) => {
            check_density(&parts, &places)?;
            let sizes = self_.sizes();
            let parts = entries::coalesced(&parts, &sizes)?;
            entries::entries_at(&parts, &sizes, &places.indices)?
        }
    };
    Coo { indices: op::clone(&places.indices, None)?, values, coalesced: places.coalesced }
        .tensor(&mask.sizes())
}

fn check_mask(self_: &Tensor, mask: &Tensor) -> Result<()> {
    ensure!(
        self_.sizes() == mask.sizes(),
        Runtime,
        "sparse_mask(): operands have incompatible sizes; self has size {:?} but mask has size {:?}",
        self_.sizes().as_slice(),
        mask.sizes().as_slice()
    );
    Ok(())
}

fn check_density(parts: &Coo, places: &Coo) -> Result<()> {
    ensure!(
        parts.sparse_dim() == places.sparse_dim(),
        Runtime,
        "sparse_mask(): the numbers of sparse dimensions must be the same, but are {} and {}",
        parts.sparse_dim(),
        places.sparse_dim()
    );
    Ok(())
}

/// The entries at the places that another tensor has, and zero at its own other places.
///
/// # Errors
/// `Runtime` where the sizes differ.
pub fn mask_projection(self_: &Tensor, mask: &Tensor, accumulate_matches: bool) -> Result<Tensor> {
    let (parts, places) = (
        Coo::expect(self_, "_sparse_mask_projection")?,
        Coo::expect(mask, "_sparse_mask_projection")?,
    );
    check_mask(self_, mask)?;
    check_density(&parts, &places)?;
    let sizes = self_.sizes();
    let counted = &sizes[..parts.sparse_dim() as usize];
    let wanted = entries::flat_places(&parts.indices, counted)?;
    let (known, _) = op::sort(&entries::flat_places(&places.indices, counted)?, 0, false)?;
    let (at, found) = entries::find(&known, &wanted)?;
    let mut values = entries::chosen(&parts.values, &(own_positions(&parts)?, found.clone()))?;
    if accumulate_matches {
        let end = op::searchsorted_tensor(&known, &wanted, false, true, None, None)?;
        let matches = op::sub_tensor(&end, &at, Scalar::Int(1))?;
        let matches = along(&matches, values.dim(), 0)?;
        values = op::mul_tensor(&values, &cast(&matches, values.dtype())?)?;
    }
    Coo { values, ..parts }.tensor(&sizes)
}

fn own_positions(parts: &Coo) -> Result<Tensor> {
    let device = Some(parts.indices.device());
    op::arange(parts.nnz().into(), Some(DType::Int64), None, device, None)
}

//! Putting tensors together.

use crate::copy::blocks::{Blocks, copy_blocks};
use crate::kernels::support::is_shape_only;
use corten_core::{
    DType, Dims, MemoryFormat, Result, ResultTypeState, bail, can_cast, ensure, fast_paths,
    geometry,
};
use corten_ops::iter::resize_output;
use corten_ops::{Tensor, op};
use smallvec::SmallVec;
use std::ops::Range;

/// Tensors one after another along `dim`.
///
/// # Errors
/// `Value` without tensors; `Runtime` when ranks or sizes do not fit.
pub fn cat(tensors: &[Tensor], dim: i64) -> Result<Tensor> {
    let plan = Plan::new(tensors, dim)?;
    let out = op::empty_memory_format(
        &plan.shape,
        Some(plan.dtype),
        None,
        Some(tensors[0].device()),
        None,
        Some(plan.format),
    )?;
    plan.fill(&out)?;
    Ok(out)
}

/// As [`cat`], into `out`.
///
/// # Errors
/// As [`cat`]; `Type` when the result cannot be cast to the dtype of `out`.
pub fn cat_out(tensors: &[Tensor], dim: i64, out: &Tensor) -> Result<Tensor> {
    let plan = Plan::new(tensors, dim)?;
    ensure!(
        can_cast(plan.dtype, out.dtype()),
        Type,
        "torch.cat(): input types can't be cast to the desired output type {}",
        out.dtype().type_name()
    );
    resize_output(out, &plan.shape)?;
    geometry::assert_no_internal_overlap(out)?;
    for tensor in tensors {
        geometry::assert_no_overlap(out, tensor)?;
    }
    plan.fill(out)?;
    Ok(out.clone())
}

/// A one-dimensional empty tensor is skipped whatever the shape of the others.
fn is_skipped(tensor: &Tensor) -> bool {
    tensor.dim() == 1 && tensor.numel() == 0
}

struct Plan<'a> {
    /// The tensors that have a place in the result, and how much of the dimension each takes.
    parts: SmallVec<[(&'a Tensor, i64); 4]>,
    shape: Dims,
    dim: usize,
    dtype: DType,
    format: MemoryFormat,
}

impl<'a> Plan<'a> {
    fn new(tensors: &'a [Tensor], dim: i64) -> Result<Self> {
        ensure!(!tensors.is_empty(), Value, "torch.cat(): expected a non-empty list of Tensors");
        let mut types = ResultTypeState::default();
        for (position, tensor) in tensors.iter().enumerate() {
            let rank = tensor.dim();
            ensure!(
                rank > 0,
                Runtime,
                "zero-dimensional tensor (at position {position}) cannot be concatenated"
            );
            ensure!(
                tensor.device() == tensors[0].device(),
                Runtime,
                "torch.cat(): all input tensors must be on the same device. Received {} and {}",
                tensors[0].device(),
                tensor.device()
            );
            types.push_tensor(tensor.dtype(), rank, tensor.is_wrapped_number())?;
        }
        let dtype = types.finish()?;
        let first = tensors.iter().position(|tensor| !is_skipped(tensor));
        let Some(first) = first else {
            // Vectors without elements do not look at the dimension.
            let shape = Dims::from_elem(0, 1);
            return Ok(Self {
                parts: SmallVec::new(),
                shape,
                dim: 0,
                dtype,
                format: MemoryFormat::Contiguous,
            });
        };
        let mut shape = tensors[first].sizes();
        let dim = geometry::wrap_dim(dim, shape.len())?;
        let mut parts = SmallVec::new();
        parts.push((&tensors[first], shape[dim]));
        let mut sizes = Dims::new_const();
        for (position, tensor) in tensors.iter().enumerate().skip(first + 1) {
            if is_skipped(tensor) {
                continue;
            }
            tensor.copy_sizes_to(&mut sizes);
            check_sizes(&shape, &sizes, dim, position)?;
            let Some(size) = shape[dim].checked_add(sizes[dim]) else {
                bail!(Runtime, "cat: the sizes along dimension {dim} are too large to be added")
            };
            shape[dim] = size;
            parts.push((tensor, sizes[dim]));
        }
        Ok(Self { format: common_format(tensors), parts, shape, dim, dtype })
    }

    fn fill(&self, out: &Tensor) -> Result<()> {
        if is_shape_only(out) {
            return Ok(());
        }
        let mut start = 0;
        let mut runs: SmallVec<[_; 4]> = SmallVec::new();
        let (dtype, key) = (out.dtype(), out.storage_key());
        let in_order = out.is_contiguous() && !out.is_neg();
        for &(part, length) in &self.parts {
            let plain = part.dtype() == dtype && !part.is_conj() && !part.is_neg();
            let apart = in_order && plain && part.storage_key() != key;
            let blocks = if apart { self.blocks(part, start, length) } else { None };
            if let Some(blocks) = blocks {
                runs.push((part, blocks));
            } else {
                op::copy_(&op::narrow(out, self.dim as i64, start, length)?, part, false)?;
            }
            start += length;
        }
        if runs.is_empty() { Ok(()) } else { copy_blocks(&runs, out) }
    }

    /// The rows of a part of `length` from `start` on, if the elements of each lie side by side.
    fn blocks(&self, part: &Tensor, start: i64, length: i64) -> Option<Blocks> {
        if !fast_paths() {
            return None;
        }
        let (outer, inner) = (&self.shape[..self.dim], &self.shape[self.dim + 1..]);
        let bytes = inner.iter().product::<i64>() as usize * part.itemsize();
        let pitch = match part.is_contiguous() {
            true => length as usize * bytes,
            false => pitch(part, self.dim)? * part.itemsize(),
        };
        Some(Blocks {
            count: outer.iter().product::<i64>() as usize,
            length: length as usize * bytes,
            pitch,
            start: start as usize * bytes,
            step: self.shape[self.dim] as usize * bytes,
        })
    }
}

/// From a row of a tensor, which is what lies along `dim` and those behind it, to the next, if the
/// elements of each lie side by side in order, and the rows as far from each other.
fn pitch(tensor: &Tensor, dim: usize) -> Option<usize> {
    let (sizes, strides) = (tensor.sizes(), tensor.strides());
    let in_order = |dims: Range<usize>, mut expected: i64| {
        dims.rev().filter(|&d| sizes[d] != 1).all(|d| {
            let fits = strides[d] == expected;
            expected *= sizes[d];
            fits
        })
    };
    let last = (0..dim).rev().find(|&d| sizes[d] != 1);
    let pitch = last.map_or(0, |d| strides[d]);
    let fits = in_order(dim..sizes.len(), 1) && in_order(0..dim, pitch);
    usize::try_from(pitch).ok().filter(|_| fits)
}

fn check_sizes(expected: &[i64], given: &[i64], dim: usize, position: usize) -> Result<()> {
    ensure!(
        expected.len() == given.len(),
        Runtime,
        "Tensors must have same number of dimensions: got {} and {}",
        expected.len(),
        given.len()
    );
    for d in (0..expected.len()).filter(|d| *d != dim) {
        if expected[d] != given[d] {
            bail!(
                Runtime,
                "Sizes of tensors must match except in dimension {dim}. Expected size {} but got \
                 size {} for tensor number {position} in the list.",
                expected[d],
                given[d]
            );
        }
    }
    Ok(())
}

/// The memory format that all tensors suggest, or row-major.
fn common_format(tensors: &[Tensor]) -> MemoryFormat {
    let mut format = None;
    for tensor in tensors {
        let own = tensor.suggest_memory_format();
        if own == MemoryFormat::Contiguous || format.is_some_and(|other| other != own) {
            return MemoryFormat::Contiguous;
        }
        format = Some(own);
    }
    format.unwrap_or(MemoryFormat::Contiguous)
}

//! Elements by a mask, and the positions of a mask.

use super::flat::{as_bits, match_bits};
use crate::kernels::support::is_shape_only;
use corten_core::{
    Access, AccessSet, DType, Dims, MemoryFormat, Reader, Result, Writer, ensure, geometry,
};
use corten_ops::{Tensor, op};

fn broadcast(tensors: [&Tensor; 2]) -> Result<[Tensor; 2]> {
    let shape = geometry::infer_broadcast(&tensors[0].sizes(), &tensors[1].sizes())?;
    let expand = |tensor: &Tensor| {
        op::contiguous(&op::expand(tensor, &shape, false)?, MemoryFormat::Contiguous)
    };
    Ok([expand(tensors[0])?, expand(tensors[1])?])
}

/// The elements where `mask` is true, in row-major order.
///
/// # Errors
/// `Runtime` unless the mask is bool and broadcasts with the tensor.
pub fn masked_select(self_: &Tensor, mask: &Tensor) -> Result<Tensor> {
    ensure!(mask.dtype() == DType::Bool, Runtime, "masked_select: expected BoolTensor for mask");
    let [source, mask] = broadcast([&as_bits(self_)?, mask])?;
    let mask = Reader::<bool>::new(&mask)?;
    let count = count_true(&mask) as i64;
    let out = op::empty_memory_format(
        &[count],
        Some(self_.dtype()),
        None,
        Some(self_.device()),
        None,
        None,
    )?;
    let target = as_bits(&out)?;
    match_bits!(self_.itemsize(), T => {
        let set = AccessSet::acquire(&[
            (source.base(), Access::Read),
            (target.base(), Access::Write),
        ])?;
        let (from, to) = (set.read::<T>(0)?, set.write::<T>(1)?);
        pick_where(&mask, to, |place| from[place]);
    });
    Ok(out)
}

/// How many are true.
fn count_true(mask: &[bool]) -> usize {
    // Few enough for a sum in a byte.
    let sums =
        mask.chunks(255).map(|part| part.iter().fold(0u8, |sum, &chosen| sum + u8::from(chosen)));
    sums.map(usize::from).sum()
}

/// Places that are looked at together.
const PART: usize = 64;

/// Writes `value(place)` for every place that is true, in order. Values are put into a buffer
/// whether they are chosen or not, as no processor foresees which are.
#[inline(always)]
fn pick_where<T: Copy>(mask: &[bool], mut to: &mut [T], value: impl Fn(usize) -> T) {
    for (part, mask) in mask.chunks(PART).enumerate() {
        if !mask.iter().fold(false, |any, &chosen| any | chosen) {
            continue;
        }
        let (mut picked, mut count) = ([value(part * PART); PART], 0);
        for (i, &chosen) in mask.iter().enumerate() {
            picked[count % PART] = value(part * PART + i);
            count += usize::from(chosen);
        }
        let (now, later) = to.split_at_mut(count.min(to.len()));
        now.copy_from_slice(&picked[..now.len()]);
        to = later;
    }
}

/// Writes the elements of `source` in order where `mask` is true.
///
/// # Errors
/// `Runtime` when dtypes differ or `source` has too few elements.
pub fn masked_scatter_(self_: &Tensor, mask: &Tensor, source: &Tensor) -> Result<Tensor> {
    ensure!(
        self_.dtype() == source.dtype(),
        Runtime,
        "masked_scatter: expected self and source to have same dtypes but got{} and {}",
        self_.dtype().type_name(),
        source.dtype().type_name()
    );
    ensure!(
        mask.dtype() == DType::Bool,
        Runtime,
        "masked_scatter_ only supports boolean masks, but got mask with dtype {}",
        mask.dtype().type_name()
    );
    geometry::assert_no_internal_overlap(self_)?;
    let mask = op::contiguous(&op::expand(mask, &self_.sizes(), false)?, MemoryFormat::Contiguous)?;
    if is_shape_only(self_) {
        return Ok(self_.clone());
    }
    let target = op::clone(&as_bits(self_)?, Some(MemoryFormat::Contiguous))?;
    let values = op::contiguous(&as_bits(source)?, MemoryFormat::Contiguous)?;
    match_bits!(self_.itemsize(), T => {
        let set = AccessSet::acquire(&[
            (values.base(), Access::Read),
            (mask.base(), Access::Read),
            (target.base(), Access::Write),
        ])?;
        let (from, mask, to) = (set.read::<T>(0)?, set.read::<bool>(1)?, set.write::<T>(2)?);
        let mut next = from.iter();
        for (slot, _) in to.iter_mut().zip(mask).filter(|(_, chosen)| **chosen) {
            let value = next.next();
            ensure!(
                value.is_some(),
                Runtime,
                "Number of elements of source < number of ones in mask"
            );
            *slot = value.copied().unwrap_or(*slot);
        }
    });
    op::copy_(&as_bits(self_)?, &target, false)?;
    Ok(self_.clone())
}

/// The functional form of [`masked_scatter_`], on the broadcast shape of tensor and mask.
///
/// # Errors
/// As [`masked_scatter_`].
pub fn masked_scatter(self_: &Tensor, mask: &Tensor, source: &Tensor) -> Result<Tensor> {
    let shape = geometry::infer_broadcast(&self_.sizes(), &mask.sizes())?;
    let expanded = op::expand(self_, &shape, false)?;
    let copy = op::clone(&expanded, Some(MemoryFormat::Contiguous))?;
    masked_scatter_(&copy, mask, source)
}

/// The positions of the elements that are not zero, one row each, in row-major order.
///
/// # Errors
/// `OutOfMemory`.
pub fn nonzero(self_: &Tensor) -> Result<Tensor> {
    let mask = op::to_dtype(self_, DType::Bool, false, false, None)?;
    let mask = op::contiguous(&mask, MemoryFormat::Contiguous)?;
    let mask = Reader::<bool>::new(&mask)?;
    let (count, sizes) = (count_true(&mask), self_.sizes());
    let rank = sizes.len();
    // The result is column-major, as each dimension's positions are used together.
    let out = op::empty_memory_format(
        &[rank as i64, count as i64],
        Some(DType::Int64),
        None,
        Some(self_.device()),
        None,
        None,
    )?;
    if count > 0 && rank > 0 {
        write_places(&mask, &sizes, &mut Writer::<i64>::new(&out)?);
    }
    let count = count as i64;
    Ok(out.as_view_of(&[count, rank as i64], &[1, count], 0)?.into())
}

/// Writes the positions that are true, each dimension's in a row of its own.
fn write_places(mask: &[bool], sizes: &[i64], out: &mut [i64]) {
    let Some((&inner, outer)) = sizes.split_last() else { return };
    let count = out.len() / sizes.len();
    let (outside, last) = out.split_at_mut(count * outer.len());
    let mut position = Dims::from_elem(0, outer.len());
    let mut done = 0;
    for row in mask.chunks_exact(inner as usize) {
        let found = count_true(row);
        if found > 0 {
            pick_where(row, &mut last[done..done + found], |place| place as i64);
            for (column, &at) in outside.chunks_exact_mut(count).zip(&position) {
                column[done..done + found].fill(at);
            }
            done += found;
        }
        for (at, &size) in position.iter_mut().zip(outer).rev() {
            *at += 1;
            if *at < size {
                break;
            }
            *at = 0;
        }
    }
}

//! Elements by a mask, and the positions of a mask.

use super::flat::{as_bits, match_bits};
use crate::kernels::support::is_shape_only;
use corten_core::{
    Access, AccessSet, DType, Element, MemoryFormat, Reader, Result, Writer, cast, ensure,
    geometry, match_dtype,
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
    let count = mask.iter().filter(|chosen| **chosen).count() as i64;
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
        let chosen = from.iter().zip(mask.iter()).filter(|(_, chosen)| **chosen);
        for (slot, (value, _)) in to.iter_mut().zip(chosen) {
            *slot = *value;
        }
    });
    Ok(out)
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
    let source = op::contiguous(self_, MemoryFormat::Contiguous)?;
    let places = match_dtype!(self_.dtype(), "nonzero", All, T => nonzero_places::<T>(&source))?;
    let sizes = self_.sizes();
    let rank = sizes.len();
    // The result is column-major, as each dimension's positions are used together.
    let out = op::empty_memory_format(
        &[rank as i64, places.len() as i64],
        Some(DType::Int64),
        None,
        Some(self_.device()),
        None,
        None,
    )?;
    {
        let mut columns = Writer::<i64>::new(&out)?;
        for (row, place) in places.iter().enumerate() {
            let mut rest = *place as i64;
            for dim in (0..rank).rev() {
                columns[dim * places.len() + row] = rest % sizes[dim];
                rest /= sizes[dim];
            }
        }
    }
    let count = places.len() as i64;
    Ok(out.as_view_of(&[count, rank as i64], &[1, count], 0)?.into())
}

fn nonzero_places<T: Element>(source: &Tensor) -> Result<Vec<usize>> {
    let data = Reader::<T>::new(source)?;
    // Not by comparing with a zero of the dtype, which powers of two do not have.
    let places = data.iter().enumerate().filter(|(_, value)| cast::<T, bool>(**value));
    Ok(places.map(|(place, _)| place).collect())
}

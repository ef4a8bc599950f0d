//! Arrays of the crate `ndarray` as tensors and back.

use crate::Tensor;
use corten_core::{Element, Error, Result, Storage, ensure, err};
use ndarray::{Array, ArrayView, Dimension, IxDyn};

/// An array as a tensor without a copy, in its order of elements; with a copy where a stride is negative.
impl<T: Element, D: Dimension> TryFrom<Array<T, D>> for Tensor {
    type Error = Error;

    fn try_from(array: Array<T, D>) -> Result<Self> {
        if array.strides().iter().any(|&stride| stride < 0) {
            return Self::try_from(array.view());
        }
        let strides: Vec<i64> = array.strides().iter().map(|&stride| stride as i64).collect();
        let sizes = sizes_of(array.shape())?;
        let (elements, offset) = array.into_raw_vec_and_offset();
        let offset = offset.unwrap_or(0) as i64;
        Self::from_storage(Storage::from_vec(elements), T::DTYPE, &sizes, &strides, offset)
    }
}

/// A copy of what is viewed as a contiguous tensor.
impl<T: Element, D: Dimension> TryFrom<ArrayView<'_, T, D>> for Tensor {
    type Error = Error;

    fn try_from(array: ArrayView<'_, T, D>) -> Result<Self> {
        let sizes = sizes_of(array.shape())?;
        Self::from_vec(array.iter().copied().collect::<Vec<T>>(), &sizes)
    }
}

/// A copy of an array as a contiguous tensor.
impl<T: Element, D: Dimension> TryFrom<&Array<T, D>> for Tensor {
    type Error = Error;

    fn try_from(array: &Array<T, D>) -> Result<Self> {
        Self::try_from(array.view())
    }
}

/// A copy of a tensor as an array of the same dtype and rank.
impl<T: Element, D: Dimension> TryFrom<&Tensor> for Array<T, D> {
    type Error = Error;

    fn try_from(tensor: &Tensor) -> Result<Self> {
        let rank = tensor.dim();
        ensure!(
            D::NDIM.is_none_or(|expected| expected == rank),
            Runtime,
            "expected a tensor of {} dimensions but got one of {rank}",
            D::NDIM.unwrap_or(rank)
        );
        let shape: Vec<usize> = tensor.sizes().iter().map(|&size| size as usize).collect();
        let array = Array::from_shape_vec(IxDyn(&shape), Vec::<T>::try_from(tensor)?);
        let array = array.and_then(Array::into_dimensionality::<D>);
        array.map_err(|error| err!(Runtime, "no array of the shape {shape:?}: {error}"))
    }
}

fn sizes_of(shape: &[usize]) -> Result<Vec<i64>> {
    let size = |&size: &usize| i64::try_from(size).map_err(|_| err!(Runtime, "too many elements"));
    shape.iter().map(size).collect()
}

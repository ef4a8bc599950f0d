//! Rust data in and out of tensors.

use crate::{Tensor, op};
use corten_core::{Device, Element, MemoryFormat, Reader, Result};

impl Tensor {
    /// A tensor of the given shape over the elements of a vector, row-major, without a copy.
    ///
    /// ```
    /// # use corten_ops::Tensor;
    /// let t = Tensor::from_vec(vec![1i64, 2, 3, 4, 5, 6], &[2, 3])?;
    /// assert_eq!(t.strides().as_slice(), [3, 1]);
    /// # Ok::<(), corten_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// `Runtime` when the shape does not have as many elements as the vector.
    pub fn from_vec<T: Element>(elements: Vec<T>, sizes: &[i64]) -> Result<Self> {
        crate::any::factory::from_vec(elements, sizes)
    }

    /// A tensor of the given shape with a copy of the elements, row-major.
    ///
    /// # Errors
    /// As [`Tensor::from_vec`].
    pub fn from_slice<T: Element>(elements: &[T], sizes: &[i64]) -> Result<Self> {
        Self::from_vec(elements.to_vec(), sizes)
    }

    /// A rank-0 tensor.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn from_element<T: Element>(element: T) -> Result<Self> {
        Self::from_vec(vec![element], &[])
    }

    /// The elements in row-major order, converted to `T`.
    ///
    /// # Errors
    /// `Runtime` when the tensor is on another device and cannot be copied to the CPU.
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>> {
        let plain = op::resolve_neg(&op::resolve_conj(&op::detach(self)?)?)?;
        let cast = op::to_device(&plain, Device::CPU, T::DTYPE, false, false, None)?;
        let dense = op::contiguous(&cast, MemoryFormat::Contiguous)?;
        Ok(Reader::<T>::new(&dense)?.to_vec())
    }

    /// The only element, converted to `T`.
    ///
    /// # Errors
    /// `Runtime` unless the tensor has exactly one element.
    pub fn to_element<T: Element>(&self) -> Result<T> {
        Ok(T::from_scalar(op::item(self)?))
    }
}

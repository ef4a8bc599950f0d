//! Rust data in and out of tensors.

use crate::batched::check_decidable;
use crate::{Tensor, op};
use corten_core::{
    DType, Device, DispatchKey, Element, KeySet, Layout, MemoryFormat, Reader, Result, Storage,
    TensorBase, ensure, try_to_vec, try_with_capacity,
};

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
        Self::from_vec(try_to_vec(elements)?, sizes)
    }

    /// A tensor over a storage: elements of `dtype` with these strides from an offset on, both in
    /// elements.
    ///
    /// ```
    /// # use corten_core::{DType, Storage};
    /// # use corten_ops::Tensor;
    /// let storage = Storage::from_vec(vec![1i64, 2, 3, 4]);
    /// let tail = Tensor::from_storage(storage, DType::Int64, &[2], &[1], 2)?;
    /// assert_eq!(tail.to_vec::<i64>()?, [3, 4]);
    /// # Ok::<(), corten_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// `Runtime` when an element would lie outside of the storage, or for negative sizes.
    pub fn from_storage(
        storage: Storage,
        dtype: DType,
        sizes: &[i64],
        strides: &[i64],
        storage_offset: i64,
    ) -> Result<Self> {
        let bytes = bytes_reached(sizes, strides, storage_offset, dtype);
        ensure!(
            bytes.is_some_and(|bytes| bytes <= storage.nbytes() as i128),
            Runtime,
            "setStorage: sizes {sizes:?}, strides {strides:?}, storage offset {storage_offset}, \
             and itemsize {} are out of bounds for storage of size {}",
            dtype.itemsize(),
            storage.nbytes()
        );
        let keys = KeySet::for_tensor(storage.device().device_type, Layout::Strided, dtype);
        Ok(TensorBase::new_with_storage(storage, dtype, keys, sizes, strides, storage_offset)?
            .into())
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
        check_decidable(self)?;
        let plain = op::resolve_neg(&op::resolve_conj(&op::detach(self)?)?)?;
        let cast = op::to_device(&plain, Device::CPU, T::DTYPE, false, false, None)?;
        let dense = op::contiguous(&cast, MemoryFormat::Contiguous)?;
        if dense.key_set().has(DispatchKey::Functionalize) {
            return dense.elements_by_operators();
        }
        try_to_vec(&Reader::<T>::new(&dense)?)
    }

    /// The elements of a tensor that has no memory: what it stands for is asked for each of them.
    fn elements_by_operators<T: Element>(&self) -> Result<Vec<T>> {
        let flat = op::reshape(self, &[-1])?;
        let count = flat.size(0)?;
        let mut found = try_with_capacity(usize::try_from(count).unwrap_or_default())?;
        for place in 0..count {
            found.push(op::select_int(&flat, 0, place)?.to_element()?);
        }
        Ok(found)
    }

    /// The only element, converted to `T`.
    ///
    /// # Errors
    /// `Runtime` unless the tensor has exactly one element.
    pub fn to_element<T: Element>(&self) -> Result<T> {
        Ok(T::from_scalar(op::item(self)?))
    }
}

/// The end of the last byte that a geometry reaches, 0 without elements; nothing where it begins before the
/// first, or is no geometry.
fn bytes_reached(sizes: &[i64], strides: &[i64], offset: i64, dtype: DType) -> Option<i128> {
    if offset < 0 || sizes.len() != strides.len() || sizes.iter().any(|&size| size < 0) {
        return None;
    }
    if sizes.contains(&0) {
        return Some(0);
    }
    let (mut low, mut high) = (i128::from(offset), i128::from(offset));
    for (&size, &stride) in sizes.iter().zip(strides) {
        let reach = (i128::from(size) - 1).checked_mul(i128::from(stride))?;
        low = low.checked_add(reach.min(0))?;
        high = high.checked_add(reach.max(0))?;
    }
    (low >= 0).then(|| (high + 1).saturating_mul(dtype.itemsize() as i128))
}

//! Tensors of a device as the operands of a launch.

use corten_core::{
    Access, AccessSet, DType, Device, MemoryFormat, Result, TensorBase, TensorOptions, bail,
};
use corten_ops::iter::check_extent;
use corten_ops::{Tensor, op};
use smallvec::SmallVec;

/// Device addresses of tensors, held for a launch.
pub(crate) struct Operands<'a> {
    set: AccessSet<'a>,
}

impl<'a> Operands<'a> {
    /// Holds tensors, which must be on one device. Undefined ones have a null address.
    ///
    /// # Errors
    /// `Runtime` for tensors of the host or of two devices, and for a tensor that another thread has given
    /// another shape or storage.
    pub(crate) fn hold(wanted: &[(&'a Tensor, Access)]) -> Result<Self> {
        let mut device: Option<Device> = None;
        for tensor in wanted.iter().map(|(tensor, _)| tensor).filter(|tensor| tensor.defined()) {
            let own = tensor.device();
            let first = *device.get_or_insert(own);
            if !own.is_cuda() && own == first {
                bail!(
                    Runtime,
                    "Expected all tensors to be on a CUDA device, but found one on {own}"
                );
            }
            if !own.is_cuda() || own != first {
                bail!(
                    Runtime,
                    "Expected all tensors to be on the same device, but found at least two devices, {first} \
                     and {own}!"
                );
            }
        }
        let bases: SmallVec<[(&TensorBase, Access); 6]> =
            wanted.iter().map(|&(tensor, access)| (tensor.base(), access)).collect();
        let set = AccessSet::acquire(&bases)?;
        for (i, (tensor, _)) in wanted.iter().enumerate() {
            if !tensor.defined() || tensor.numel() == 0 {
                continue;
            }
            let (size, (storage, nbytes)) = (tensor.itemsize(), set.extent(i));
            let first = set.byte_ptr(i).addr() as i64 - storage.addr() as i64;
            let strides = tensor.strides();
            let strides = strides.iter().map(|stride| stride.saturating_mul(size as i64));
            check_extent(tensor.sizes().iter().copied().zip(strides), first, size, nbytes)?;
        }
        Ok(Self { set })
    }

    /// The address of a tensor's first element.
    pub(crate) fn at(&self, index: usize) -> *mut u8 {
        self.set.byte_ptr(index)
    }
}

/// A tensor of `like`'s device and a dtype, contiguous, with arbitrary contents.
pub(crate) fn empty(sizes: &[i64], dtype: DType, like: &Tensor) -> Result<Tensor> {
    let options = TensorOptions::default().dtype(dtype).device(like.device());
    Ok(TensorBase::empty(sizes, options)?.into())
}

/// As [`empty`], filled with zeros.
pub(crate) fn zeros(sizes: &[i64], dtype: DType, like: &Tensor) -> Result<Tensor> {
    op::zero_(&empty(sizes, dtype, like)?)
}

/// The tensor itself where it is contiguous, or a contiguous copy.
pub(crate) fn contiguous(tensor: &Tensor) -> Result<Tensor> {
    match tensor.is_contiguous() {
        true => Ok(tensor.clone()),
        false => op::contiguous(tensor, MemoryFormat::Contiguous),
    }
}

/// A tensor without data of the same sizes, strides and dtype: an operator called with such tensors
/// checks its arguments and decides the shape of its result.
pub(crate) fn on_meta(tensor: &Tensor) -> Result<Tensor> {
    let options = TensorOptions::default().dtype(tensor.dtype()).device(Device::META);
    Ok(TensorBase::empty_strided(&tensor.sizes(), &tensor.strides(), options)?.into())
}

/// [`on_meta`] of an optional tensor; an undefined one counts as none.
pub(crate) fn on_meta_opt(tensor: Option<&Tensor>) -> Result<Option<Tensor>> {
    tensor.filter(|tensor| tensor.defined()).map(on_meta).transpose()
}

/// A tensor with the sizes, strides and dtype of a planned one on the device of `like`, with arbitrary
/// contents.
pub(crate) fn like_planned(planned: &Tensor, like: &Tensor) -> Result<Tensor> {
    let options = TensorOptions::default().dtype(planned.dtype()).device(like.device());
    Ok(TensorBase::empty_strided(&planned.sizes(), &planned.strides(), options)?.into())
}

//! `Tensor::to`: another device, another dtype, or both.

use crate::{Result, Tensor, op};
use corten_core::{DType, Device};

/// What [`Tensor::to`] gives: a device, a dtype, or both, and how it is copied. Made from a [`Device`], a
/// [`DType`], a pair of them, or a tensor whose device and dtype are meant.
///
/// ```
/// use corten_core::{DType, Device};
/// use corten_ops::Conversion;
///
/// let pinned_copy = Conversion::from((Device::cuda(0), DType::Float16)).non_blocking();
/// assert_eq!(pinned_copy, Conversion::from(Device::cuda(0)).dtype(DType::Float16).non_blocking());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Conversion {
    device: Option<Device>,
    dtype: Option<DType>,
    non_blocking: bool,
    copy: bool,
}

impl Conversion {
    /// To a dtype.
    #[must_use]
    pub fn dtype(self, dtype: DType) -> Self {
        Self { dtype: Some(dtype), ..self }
    }

    /// The host does not wait for a copy between pinned memory and a device.
    #[must_use]
    pub fn non_blocking(self) -> Self {
        Self { non_blocking: true, ..self }
    }

    /// A new tensor also where nothing has to change.
    #[must_use]
    pub fn copy(self) -> Self {
        Self { copy: true, ..self }
    }
}

impl From<Device> for Conversion {
    fn from(device: Device) -> Self {
        Self { device: Some(device), ..Self::default() }
    }
}

impl From<DType> for Conversion {
    fn from(dtype: DType) -> Self {
        Self { dtype: Some(dtype), ..Self::default() }
    }
}

impl From<(Device, DType)> for Conversion {
    fn from((device, dtype): (Device, DType)) -> Self {
        Self { device: Some(device), dtype: Some(dtype), ..Self::default() }
    }
}

impl From<&Tensor> for Conversion {
    fn from(tensor: &Tensor) -> Self {
        Self::from((tensor.device(), tensor.dtype()))
    }
}

impl Tensor {
    /// The tensor on another device or in another dtype; itself where nothing has to change. Gradients flow
    /// back through it.
    ///
    /// ```no_run
    /// use corten_core::{DType, Device};
    /// use corten_ops::{Conversion, Tensor};
    ///
    /// # fn main() -> corten_core::Result<()> {
    /// let x = Tensor::from_vec(vec![1.0f32, 2.0], &[2])?;
    /// let on_gpu = x.to(Device::cuda(0))?;
    /// let halves = on_gpu.to(DType::Float16)?;
    /// let back = halves.to(&x)?;
    /// let beside_other_work = back.to(Conversion::from(Device::cuda(0)).non_blocking())?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of the copy: `Runtime` where there is no such device.
    pub fn to(&self, target: impl Into<Conversion>) -> Result<Self> {
        let Conversion { device, dtype, non_blocking, copy } = target.into();
        op::to_dtype_layout(self, dtype, None, device, None, non_blocking, copy, None)
    }
}

//! The tensor handle with operators.

use corten_core::{DispatchKey, TensorBase};
use std::ops::Deref;

/// A cheap handle to a tensor: geometry over shared, reference-counted storage.
///
/// Cloning a handle never copies data. Every operator of the registry is a method; the accessors
/// that need no operator (`sizes`, `strides`, `dtype`, …) are those of [`TensorBase`].
///
/// ```
/// use corten::prelude::*;
///
/// # fn main() -> Result<()> {
/// let x = tensor![[1.0, 2.0], [3.0, 4.0]]?;
/// let row = x.i(0)?;
/// op::mul__scalar(&row, 10.into())?;
/// assert_eq!(x.to_vec::<f32>()?, [10.0, 20.0, 3.0, 4.0]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Tensor(TensorBase);

impl Tensor {
    /// The undefined tensor: no storage, no dtype, no device. It stands for "no gradient".
    pub fn undefined() -> Self {
        Self(TensorBase::undefined())
    }

    /// The handle without operator methods.
    pub fn base(&self) -> &TensorBase {
        &self.0
    }

    /// The handle without operator methods, to change it.
    pub fn base_mut(&mut self) -> &mut TensorBase {
        &mut self.0
    }

    /// Whether there are no elements to look at: on the meta device, and where a class of Python's answers for
    /// the tensor. Checks of values are left out then.
    pub(crate) fn lacks_data(&self) -> bool {
        self.0.device().is_meta() || self.0.key_set().has(DispatchKey::Python)
    }

    /// This handle as an option: `None` when undefined.
    pub fn as_defined(&self) -> Option<&Self> {
        self.defined().then_some(self)
    }
}

impl Default for Tensor {
    fn default() -> Self {
        Self::undefined()
    }
}

impl Deref for Tensor {
    type Target = TensorBase;

    fn deref(&self) -> &TensorBase {
        &self.0
    }
}

impl From<TensorBase> for Tensor {
    fn from(base: TensorBase) -> Self {
        Self(base)
    }
}

impl From<Tensor> for TensorBase {
    fn from(tensor: Tensor) -> Self {
        tensor.0
    }
}

impl From<&Tensor> for Tensor {
    fn from(tensor: &Tensor) -> Self {
        tensor.clone()
    }
}

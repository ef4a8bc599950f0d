//! Tensors with a hidden dimension: `vmap`.

// Note [Batched tensors]
// A batched tensor stands for the items along one dimension of another tensor, its value. It has
// the sizes of an item and no storage. Operators on it arrive at the key `FuncTorchBatched`, whose
// kernel runs them on the value: by the operator's rule, which its declaration names, or item by
// item. Nested calls of `vmap` nest batched tensors; the outermost wrapper is of the innermost
// call, which is the highest level. A kernel handles the highest level among its arguments and
// calls the operator again, so a rule knows of one hidden dimension only.
//
// The key lies above autograd. So graphs are recorded of the innermost values, and what is asked of
// a batched tensor's graph is asked of its value.

mod kernel;
mod levels;
mod nest;
pub(crate) mod rules;

pub use kernel::{Batch, check_decidable};
pub(crate) use kernel::{is_random, register};
pub use levels::{Randomness, alive, depth, enter, exit, hide, info, show};
pub use nest::{enclose, everywhere, expose};

use crate::Tensor;
use corten_core::BackendMeta;
use corten_core::{DispatchKey, KeySet, Result, TensorBase, bail};
use std::any::Any;
use std::sync::Arc;

const KEY: KeySet = KeySet::of(&[DispatchKey::FuncTorchBatched]);

/// What a batched tensor stands for.
///
/// ```
/// use corten::ops::batched::{self, Batched, Randomness};
/// use corten::prelude::*;
///
/// # fn main() -> Result<()> {
/// let level = batched::enter(3, Randomness::Error);
/// let items = batched::wrap(Tensor::ones([3, 2])?, 0, level)?;
/// let found: Option<Batched> = batched::of(&items);
/// batched::exit(level)?;
/// assert_eq!(items.sizes().to_vec(), [2]);
/// assert_eq!(found.map(|found| found.dim), Some(0));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Batched {
    /// The tensor with the hidden dimension.
    pub value: Tensor,
    /// Which dimension of it is hidden.
    pub dim: usize,
    /// The call of `vmap` that hides it.
    pub level: u64,
}

impl BackendMeta for Batched {
    fn for_copy(self: Arc<Self>) -> Arc<dyn BackendMeta> {
        self
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// Whether the tensor has a hidden dimension.
#[inline]
pub fn is_batched(tensor: &TensorBase) -> bool {
    tensor.key_set().0 & KEY.0 != 0
}

/// What a batched tensor stands for; `None` for others.
#[inline]
pub fn of(tensor: &TensorBase) -> Option<Batched> {
    if is_batched(tensor) { parts(tensor) } else { None }
}

#[cold]
fn parts(tensor: &TensorBase) -> Option<Batched> {
    tensor.extra_meta()?.backend?.as_any().downcast_ref::<Batched>().cloned()
}

/// The tensor below all wrappers.
#[inline]
pub fn innermost(tensor: &TensorBase) -> Option<Tensor> {
    if is_batched(tensor) { below(tensor) } else { None }
}

/// The elements of all items, for checks of what is given: a batched tensor's innermost value.
pub fn all_items(tensor: &Tensor) -> Tensor {
    innermost(tensor).unwrap_or_else(|| tensor.clone())
}

#[cold]
fn below(tensor: &TensorBase) -> Option<Tensor> {
    let mut value = of(tensor)?.value;
    while let Some(inner) = of(&value) {
        value = inner.value;
    }
    Some(value)
}

/// Makes one batched tensor stand for what another of its level stands for.
///
/// # Errors
/// Those of setting sizes.
pub(crate) fn assign(tensor: &Tensor, other: &Tensor) -> Result<()> {
    let Some(found) = of(other) else { bail!(Internal, "vmap: a result without items") };
    tensor.set_sizes_and_strides(&other.sizes(), &other.strides(), None)?;
    tensor.update_extra_meta(|extra| extra.backend = Some(Arc::new(found)));
    Ok(())
}

/// The tensor of the items along `dim` of `value`.
///
/// # Errors
/// Those of making a tensor.
pub fn wrap(value: Tensor, dim: usize, level: u64) -> Result<Tensor> {
    let item = |all: corten_core::Dims| -> corten_core::Dims {
        all.iter().enumerate().filter(|(place, _)| *place != dim).map(|(_, size)| *size).collect()
    };
    let sizes = item(value.sizes());
    // What runs on the value handles negative strides there: those of the item only tell an order.
    let strides: corten_core::Dims = item(value.strides()).iter().map(|s| s.abs()).collect();
    let keys = KeySet::for_tensor(value.device().device_type, value.layout(), value.dtype()) | KEY;
    let tensor = TensorBase::new_without_storage(value.dtype(), value.device(), keys, &sizes)?;
    tensor.set_sizes_and_strides(&sizes, &strides, None)?;
    tensor.set_wrapped_number(value.is_wrapped_number());
    tensor.update_extra_meta(|extra| {
        extra.storage_error =
            Some("Cannot access the data of a tensor inside of vmap: it has none".to_owned());
        extra.backend = Some(Arc::new(Batched { value, dim, level }));
    });
    Ok(tensor.into())
}

//! The groups of keys that registrations and fallbacks refer to.

use corten_core::{AUTOCAST_KEYS, DispatchKey, KeySet};

/// Whether kernels at this key compute: a layout of one backend.
pub(super) fn is_backend(key: DispatchKey) -> bool {
    use DispatchKey::{FPGA, Metal, MkldnnCPU, Vulkan};
    let computes = key.backend().is_some() && !is_autograd(key);
    computes || matches!(key, FPGA | Vulkan | Metal | MkldnnCPU)
}

/// Whether tensors of this key keep their entries in other tensors.
pub(super) fn is_sparse(key: DispatchKey) -> bool {
    matches!(key.functionality(), DispatchKey::Sparse | DispatchKey::SparseCsr)
}

/// Whether tensors of this key hold integers that stand for other numbers.
pub(super) fn is_quantized(key: DispatchKey) -> bool {
    key.functionality() == DispatchKey::Quantized
}

/// Whether this key records gradients.
pub(super) fn is_autograd(key: DispatchKey) -> bool {
    use DispatchKey::{AutogradFunctionality, AutogradNestedTensor, AutogradOther};
    matches!(key.functionality(), AutogradFunctionality | AutogradOther | AutogradNestedTensor)
}

/// The dense key of the backend that an autograd key records for.
pub(super) fn backend_of_autograd(key: DispatchKey) -> Option<DispatchKey> {
    let backend = key.backend().filter(|_| is_autograd(key))?;
    Some(DispatchKey::runtime(DispatchKey::Dense, backend))
}

/// Whether this key casts arguments.
pub(super) fn is_autocast(key: DispatchKey) -> bool {
    AUTOCAST_KEYS.has(key)
}

/// Whether views need no care at this key: they carry the lazy bits on, and compute with strides.
pub(super) fn passes_views(key: DispatchKey) -> bool {
    use DispatchKey::{Conjugate, Negative, NegativeStrides, ZeroTensor};
    matches!(key, Conjugate | Negative | NegativeStrides | ZeroTensor)
}

/// The set without its highest functionality.
#[inline]
pub(super) fn without_highest(keys: KeySet) -> KeySet {
    keys.without(KeySet::from_key(keys.highest_functionality()))
}

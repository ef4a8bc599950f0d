//! Which operators take lazily conjugated and negated tensors as they are.
//!
//! All others get materialised inputs from the dispatcher's fallbacks.

use crate::registry::{self, AnyOp, OpKind};
use corten_core::DispatchKey;
use std::sync::Once;

/// Operators beside the views that do not look at the elements, or know the bits themselves.
const INDIFFERENT: &[&str] = &[
    "clone",
    "detach_",
    "empty_like",
    "full_like",
    "is_set_to",
    "new_empty",
    "new_empty_strided",
    "new_full",
    "new_ones",
    "new_zeros",
    "ones_like",
    "resize_",
    "resize_as_",
    "set_",
    "squeeze_",
    "swapaxes_",
    "swapdims_",
    "t_",
    "transpose_",
    "unsqueeze_",
    "as_strided_",
    "zeros_like",
];

/// Lets calls of these operators and of all views pass the keys of the lazy bits. Idempotent.
pub fn register() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| registry::all().into_iter().filter(passes).for_each(pass));
}

fn passes(op: &&'static dyn AnyOp) -> bool {
    let def = op.def();
    def.namespace == "aten" && (def.kind == OpKind::View || INDIFFERENT.contains(&def.name))
}

fn pass(op: &'static dyn AnyOp) {
    for key in [DispatchKey::Conjugate, DispatchKey::Negative] {
        op.pass_through(key).keep();
    }
}

//! Which operators take lazily conjugated and negated tensors, and negative strides, as they are.
//!
//! All others get materialised inputs from the dispatcher's fallbacks.

use crate::dispatch::passes_negative_strides;
use crate::registry::{self, AnyOp, OpKind};
use corten_core::DispatchKey;
use std::sync::Once;

/// Lets calls of views and of operators with the tag `lazy`, which do not look at the elements or know
/// the bits themselves, pass the keys of these bits. Idempotent.
pub fn register() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| registry::all().into_iter().filter(passes).for_each(pass));
}

fn passes(op: &&'static dyn AnyOp) -> bool {
    let def = op.def();
    def.namespace == "aten"
        && (def.kind == OpKind::View || def.is_view_inplace || def.tags.contains(&"lazy"))
}

fn pass(op: &'static dyn AnyOp) {
    for key in [DispatchKey::Conjugate, DispatchKey::Negative] {
        op.pass_through(key).keep();
    }
    if passes_negative_strides(op.def()) {
        op.pass_through(DispatchKey::NegativeStrides).keep();
    }
}

//! The first call of an operator with certain dtypes runs at once.
//!
//! A shape rule may know less than the kernel: which dtypes it computes in, or that a result is an argument. So
//! the first call of each kind is made both ways and compared. Errors of arguments arise where they always do.

use corten_core::DType;
use corten_ops::{IValue, OpDef, Stack};
use std::cell::RefCell;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

thread_local! {
    static KNOWN: RefCell<HashMap<u64, bool>> = RefCell::new(HashMap::new());
}

/// What is known of a kind of call.
pub(super) enum Outcome {
    Passed,
    Failed,
    /// Nothing yet; the number names the kind.
    Unknown(u64),
}

pub(super) fn of(def: &OpDef, stack: &Stack) -> Outcome {
    let signature = signature(def, stack);
    match KNOWN.with_borrow(|known| known.get(&signature).copied()) {
        Some(true) => Outcome::Passed,
        Some(false) => Outcome::Failed,
        None => Outcome::Unknown(signature),
    }
}

pub(super) fn note(signature: u64, passed: bool) {
    KNOWN.with_borrow_mut(|known| known.insert(signature, passed));
}

fn signature(def: &OpDef, stack: &Stack) -> u64 {
    let mut hasher = DefaultHasher::new();
    std::ptr::from_ref(def).addr().hash(&mut hasher);
    for value in stack.iter() {
        std::mem::discriminant(value).hash(&mut hasher);
        match value {
            IValue::Bool(truth) => truth.hash(&mut hasher),
            IValue::DType(dtype) => (*dtype as u8).hash(&mut hasher),
            IValue::String(text) => text.hash(&mut hasher),
            _ => {}
        }
        value.for_each_tensor(&mut |tensor| {
            let dtype = if tensor.defined() { tensor.dtype() } else { DType::Undefined };
            // Kernels take numbers and other ranks by ways of their own.
            (dtype as u8, tensor.dim().min(5)).hash(&mut hasher);
        });
    }
    hasher.finish()
}

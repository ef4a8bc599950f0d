//! Gradients on their way into a node.

use crate::node::{Grads, undefined_grads};
use corten_core::{Layout, Result};
use corten_ops::{Stack, Tensor, op};

/// One slot per input of a node, summed as gradients arrive.
pub(super) struct InputBuffer(pub(super) Grads);

impl InputBuffer {
    pub(super) fn new(inputs: usize) -> Self {
        Self(undefined_grads(inputs))
    }

    /// Adds a gradient to a slot. An undefined one changes nothing.
    pub(super) fn add(&mut self, nr: u32, grad: Tensor) -> Result<()> {
        let nr = nr as usize;
        if nr >= self.0.len() {
            // Bounded: results of a node.
            self.0.resize_with(nr + 1, Tensor::undefined);
        }
        if !grad.defined() {
            return Ok(());
        }
        let slot = &mut self.0[nr];
        if !slot.defined() {
            *slot = grad;
            return Ok(());
        }
        let old = std::mem::take(slot);
        *slot = accumulate(old, &grad)?;
        Ok(())
    }
}

fn accumulate(old: Tensor, new: &Tensor) -> Result<Tensor> {
    let strided = |tensor: &Tensor| tensor.layout() == Layout::Strided;
    if !strided(&old) {
        return new + &old;
    }
    // See Note [Widened dtypes].
    if new.dtype().is_float8() {
        let mut stack = Stack::new();
        stack.push(&old);
        stack.push(new);
        stack.push(1_i64);
        corten_ops::call("aten::add.Tensor", &mut stack)?;
        return corten_ops::returns(stack);
    }
    if strided(new) && may_reuse(&old, new) {
        return op::add__tensor(&old, new, 1_i64.into());
    }
    &old + new
}

/// Whether adding in place is seen by nobody else.
fn may_reuse(old: &Tensor, new: &Tensor) -> bool {
    !corten_core::grad_mode_enabled()
        && old.layout() == Layout::Strided
        && old.use_count() == 1
        && old.is_non_overlapping_and_dense()
        && old.dtype() == new.dtype()
        && old.sizes() == new.sizes()
        && old.storage().is_ok_and(|storage| storage.use_count() <= 2)
}

//! What transforms of functions need of the thread: recording of tensors from inference mode, and
//! word of recording that was turned off.

use crate::forward;
use corten_core::{ADINPLACEORVIEW, Result, VersionCounter, ensure};
use corten_ops::{Tensor, batched};
use std::cell::Cell;

thread_local! {
    static DEPTH: Cell<usize> = const { Cell::new(0) };
    static TURNED_OFF: Cell<u64> = const { Cell::new(0) };
}

/// A transform on this thread, from [`enter`] to [`exit`].
#[must_use]
pub(crate) struct Active;

impl Active {
    pub(crate) fn new() -> Self {
        enter();
        Self
    }
}

impl Drop for Active {
    fn drop(&mut self) {
        DEPTH.set(DEPTH.get().saturating_sub(1));
    }
}

/// Begins a transform on this thread: inference tensors may be saved for backward until
/// [`exit`], as the transform's function may close over them.
pub fn enter() {
    DEPTH.set(DEPTH.get() + 1);
}

/// Ends what [`enter`] began.
///
/// # Errors
/// `Runtime` when no transform has begun.
pub fn exit() -> Result<()> {
    ensure!(is_active(), Runtime, "Trying to leave a function transform, but none was entered.");
    DEPTH.set(DEPTH.get() - 1);
    Ok(())
}

/// Whether a transform runs on this thread.
pub fn is_active() -> bool {
    DEPTH.get() > 0
}

/// Notes that the program turned recording off. Products with Jacobians that are computed from
/// recorded graphs miss what is computed then.
pub fn note_turned_off() {
    TURNED_OFF.set(TURNED_OFF.get().wrapping_add(1));
}

/// How often the program turned recording off on this thread.
pub fn times_turned_off() -> u64 {
    TURNED_OFF.get()
}

/// The tensor, or where it is an inference tensor an alias of its memory that can be recorded.
///
/// # Errors
/// Those of making a tensor.
pub fn recordable(tensor: &Tensor) -> Result<Tensor> {
    if let Some(batch) = batched::of(tensor) {
        return batched::wrap(recordable(&batch.value)?, batch.dim, batch.level);
    }
    if !tensor.is_inference() {
        return Ok(tensor.clone());
    }
    let tangent = forward::tangent(tensor);
    let alias = tensor.shallow_copy_and_detach(VersionCounter::Own, true)?;
    alias.set_keys(tensor.key_set().autograd_of_backend() | ADINPLACEORVIEW, true);
    let alias = alias.into();
    if let Some(tangent) = tangent {
        forward::attach(&alias, tangent)?;
    }
    Ok(alias)
}

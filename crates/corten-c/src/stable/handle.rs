//! Handles of tensors.

use corten::core::{bail, err};
use corten::{Result, Tensor};
use std::sync::{Mutex, PoisonError};

/// A tensor of an extension: each handle is a reference of its own, and undefined tensors have handles too.
#[derive(Default)]
pub(super) struct Handle {
    pub(super) tensor: Tensor,
    /// Sizes and strides that were lent. They stay where they are as long as the handle, whatever becomes of the
    /// tensor.
    lent: Mutex<Vec<Box<[i64]>>>,
}

/// A handle that an extension owns or lends.
pub(super) type TensorHandle = *mut Handle;

/// A new handle, which the extension owns.
pub(super) fn give(tensor: Tensor) -> TensorHandle {
    Box::into_raw(Box::new(Handle { tensor, ..Handle::default() }))
}

/// Takes a handle back.
///
/// # Safety
/// The handle must be null or come from [`give`], and is not used afterwards.
pub(super) unsafe fn take(handle: TensorHandle) -> Result<Tensor> {
    if handle.is_null() {
        bail!(Runtime, "the handle of a tensor is null");
    }
    // SAFETY: the caller's.
    Ok(unsafe { Box::from_raw(handle) }.tensor)
}

/// What a handle refers to.
///
/// # Safety
/// The handle must be null, or come from [`give`] and be alive as long as the result.
pub(super) unsafe fn handle_at<'a>(handle: TensorHandle) -> Result<&'a Handle> {
    // SAFETY: the caller's.
    unsafe { handle.as_ref() }.ok_or_else(|| err!(Runtime, "the handle of a tensor is null"))
}

/// The tensor of a handle.
///
/// # Safety
/// As [`handle_at`].
pub(super) unsafe fn tensor_at<'a>(handle: TensorHandle) -> Result<&'a Tensor> {
    // SAFETY: the caller's.
    Ok(&unsafe { handle_at(handle) }?.tensor)
}

impl Handle {
    /// Lends numbers for as long as the handle lives; equal ones are lent once.
    pub(super) fn lend(&self, numbers: &[i64]) -> *const i64 {
        let mut lent = self.lent.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = lent.iter().find(|known| ***known == *numbers) {
            return known.as_ptr();
        }
        let made: Box<[i64]> = numbers.into();
        let place = made.as_ptr();
        lent.push(made);
        place
    }
}

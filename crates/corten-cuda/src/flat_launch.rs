//! Launches whose parameters are a number of elements, addresses of tensors, and some numbers.

use crate::kernel::{Argument, Template};
use crate::launch::Shape;
use crate::operands::Operands;
use crate::stream::Stream;
use corten_core::{Access, Result};
use corten_ops::Tensor;
use std::ffi::c_void;

/// A launch of a template; undefined tensors have a null address.
pub(crate) struct Flat<'a> {
    pub(crate) template: &'static Template,
    pub(crate) of: &'a [Argument],
    /// What is written, then what is read, in the order of the kernel's parameters.
    pub(crate) tensors: &'a [(&'a Tensor, Access)],
}

impl Flat<'_> {
    /// A thread for each of `n` elements; the parameters are `n`, the tensors and `more`.
    ///
    /// # Safety
    /// These must be the kernel's parameters, and the tensors as large and laid out as it takes them.
    ///
    /// # Errors
    /// Those of the operands, of compiling and of the driver.
    pub(crate) unsafe fn over(&self, n: i64, more: &mut [*mut c_void]) -> Result<()> {
        if n == 0 {
            return Ok(());
        }
        let mut count = n as u64;
        // SAFETY: the caller's.
        unsafe { self.launch(Shape::over(n), &mut [(&raw mut count).cast()], more) }
    }

    /// A grid of blocks of 256 threads; the parameters are `before`, the tensors and `more`.
    ///
    /// # Safety
    /// As [`over`](Self::over).
    ///
    /// # Errors
    /// As there.
    pub(crate) unsafe fn launch(
        &self,
        shape: Shape,
        before: &mut [*mut c_void],
        more: &mut [*mut c_void],
    ) -> Result<()> {
        let held = Operands::hold(self.tensors)?;
        let mut at: Vec<*mut u8> = (0..self.tensors.len()).map(|i| held.at(i)).collect();
        let mut all: Vec<*mut c_void> = before.to_vec();
        all.extend(at.iter_mut().map(|address| std::ptr::from_mut(address).cast()));
        all.extend_from_slice(more);
        let device = self.tensors[0].0.device().index;
        // SAFETY: the caller's; the tensors are held.
        unsafe { self.template.launch(self.of, shape, Stream::current(device), &mut all)? };
        drop(held);
        Ok(())
    }
}

//! Gradients that are communicated together: one flat tensor, and a view of it for each parameter.

use super::comm::Pending;
use corten_core::{Result, ensure};
use corten_ops::{Tensor, op};
use std::sync::{Arc, Mutex, PoisonError};

/// The place of one parameter in a bucket.
#[derive(Clone, Debug)]
pub(super) struct Slot {
    /// Which parameter.
    pub(super) variable: usize,
    /// Where its elements begin.
    pub(super) offset: i64,
    pub(super) numel: i64,
}

/// The state of one bucket.
pub(super) struct Bucket {
    pub(super) slots: Vec<Slot>,
    /// All gradients, one after another. Absent for a sparse gradient, and between passes where buckets
    /// are allocated as they are needed.
    pub(super) flat: Option<Tensor>,
    /// Views of `flat` in the parameters' shapes.
    pub(super) views: Vec<Tensor>,
    /// The gradient, where it is sparse.
    pub(super) sparse: Option<Tensor>,
    pub(super) expect_sparse: bool,
    /// How many gradients are missing.
    pub(super) missing: usize,
    /// The communication under way.
    pub(super) work: Option<Arc<dyn Pending>>,
    /// No rank has gradients for it, as the user has promised.
    pub(super) skipped: bool,
}

impl Bucket {
    /// A bucket of these parameters without memory.
    ///
    /// # Errors
    /// `Runtime` when it is empty, or the parameters differ in dtype or device.
    pub(super) fn new(params: &[Tensor], members: &[usize], expect_sparse: bool) -> Result<Self> {
        let Some(first) = members.first().and_then(|&index| params.get(index)) else {
            corten_core::bail!(Runtime, "Reducer: a bucket has no parameters");
        };
        let mut offset = 0;
        let mut slots = Vec::with_capacity(members.len());
        for &variable in members {
            let Some(param) = params.get(variable) else {
                corten_core::bail!(Runtime, "Reducer: no parameter has the index {variable}");
            };
            ensure!(
                param.dtype() == first.dtype() && param.device() == first.device(),
                Runtime,
                "All parameters in a bucket must have the same dtype and device, but got {} on {} \
                 and {} on {}",
                first.dtype().name(),
                first.device(),
                param.dtype().name(),
                param.device()
            );
            slots.push(Slot { variable, offset, numel: param.numel() });
            offset += param.numel();
        }
        let missing = slots.len();
        Ok(Self {
            slots,
            flat: None,
            views: Vec::new(),
            sparse: None,
            expect_sparse,
            missing,
            work: None,
            skipped: false,
        })
    }

    /// Makes the memory, if it is not there.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub(super) fn allocate(&mut self, params: &[Tensor]) -> Result<()> {
        if self.flat.is_some() || self.expect_sparse {
            return Ok(());
        }
        let total = self.slots.iter().map(|slot| slot.numel).sum();
        let Some(first) = self.slots.first() else { return Ok(()) };
        let like = op::detach(&params[first.variable])?;
        let flat = op::new_empty(&like, &[total], None, None, None, None)?;
        self.views = views_of(&flat, &self.slots, params)?;
        self.flat = Some(flat);
        Ok(())
    }
}

/// Views of a flat tensor in the shapes of parameters, and in their strides where these are dense.
pub(super) fn views_of(flat: &Tensor, slots: &[Slot], params: &[Tensor]) -> Result<Vec<Tensor>> {
    let view = |slot: &Slot| {
        let param = &params[slot.variable];
        let reversed = param.strides().iter().any(|&stride| stride < 0);
        if param.is_non_overlapping_and_dense() && !reversed {
            let start = flat.storage_offset() + slot.offset;
            return op::as_strided(flat, &param.sizes(), &param.strides(), Some(start));
        }
        op::view(&op::narrow(flat, 0, slot.offset, slot.numel)?, &param.sizes())
    };
    slots.iter().map(view).collect()
}

/// A bucket as hooks see it.
pub struct GradBucket {
    index: usize,
    count: usize,
    buffer: Mutex<Tensor>,
    slots: Vec<Slot>,
    parameters: Vec<Tensor>,
}

impl GradBucket {
    pub(super) fn new(
        index: usize,
        count: usize,
        buffer: Tensor,
        slots: Vec<Slot>,
        params: &[Tensor],
    ) -> Self {
        let parameters = slots.iter().map(|slot| params[slot.variable].clone()).collect();
        Self { index, count, buffer: Mutex::new(buffer), slots, parameters }
    }

    /// Its number: buckets are communicated in that order.
    pub fn index(&self) -> usize {
        self.index
    }

    /// Whether it is the last one.
    pub fn is_last(&self) -> bool {
        self.index + 1 == self.count
    }

    /// All gradients in one dimension, or the one sparse gradient.
    pub fn buffer(&self) -> Tensor {
        self.buffer.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Puts another tensor in place of the gradients.
    pub fn set_buffer(&self, buffer: Tensor) {
        let old = std::mem::replace(
            &mut *self.buffer.lock().unwrap_or_else(PoisonError::into_inner),
            buffer,
        );
        drop(old);
    }

    /// The gradient of each parameter, as a view of the buffer.
    ///
    /// # Errors
    /// When the buffer has been replaced by one of another size.
    pub fn gradients(&self) -> Result<Vec<Tensor>> {
        let buffer = self.buffer();
        let one = |(slot, parameter): (&Slot, &Tensor)| {
            let part = op::narrow(&buffer, 0, slot.offset, slot.numel)?;
            op::view(&part, &parameter.sizes())
        };
        self.slots.iter().zip(&self.parameters).map(one).collect()
    }

    /// The parameters.
    pub fn parameters(&self) -> &[Tensor] {
        &self.parameters
    }
}

//! Deep copies.

use corten_autograd::no_grad;
use corten_core::Result;
use corten_ops::{Tensor, op};
use std::collections::HashMap;

/// The tensors that a deep copy has made, by the tensors they were made from: what a module shares
/// between its parts, its copy shares too.
///
/// ```
/// use corten::nn::{Linear, Memo};
/// use corten::prelude::*;
///
/// let layer = Linear::new(2, 2)?;
/// let mut memo = Memo::default();
/// let (a, b) = (layer.deep_clone_with(&mut memo)?, layer.deep_clone_with(&mut memo)?);
/// assert!(a.weight.is_same(&b.weight) && !a.weight.is_same(&layer.weight));
/// # Ok::<(), corten::Error>(())
/// ```
#[derive(Default)]
pub struct Memo {
    made: HashMap<usize, Tensor>,
}

impl Memo {
    /// The copy of a tensor, as a leaf without history.
    ///
    /// # Errors
    /// Those of the copy.
    pub fn copy(&mut self, tensor: &Tensor) -> Result<Tensor> {
        let key = tensor.impl_ptr() as usize;
        if let Some(copy) = self.made.get(&key) {
            return Ok(copy.clone());
        }
        let copy = no_grad(|| op::clone(&op::detach(tensor)?, None))?;
        self.made.insert(key, copy.clone());
        Ok(copy)
    }
}

//! Dropout.

use crate::module::{Mode, Module};
use crate::parts;
use corten_core::{Result, ensure};
use corten_ops::{Tensor, op};

/// Zeroes elements with probability `p` in training and scales the others up.
pub struct Dropout {
    p: f64,
    training: Mode,
}

impl Dropout {
    /// Dropout with probability `p`.
    ///
    /// # Errors
    /// `Value` outside [0, 1].
    pub fn new(p: f64) -> Result<Self> {
        ensure!(
            (0.0..=1.0).contains(&p),
            Value,
            "dropout probability has to be between 0 and 1, but got {p}"
        );
        Ok(Self { p, training: Mode::default() })
    }

    /// The probability now in force: 0 in evaluation.
    pub(crate) fn now(&self) -> f64 {
        if self.training.training() { self.p } else { 0.0 }
    }
}

impl Module for Dropout {
    parts!(training);

    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        op::dropout(input, self.p, self.training.training())
    }
}

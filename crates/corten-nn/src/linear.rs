//! Linear maps, and modules without computation.

use crate::module::{Module, Parameter};
use crate::{empty, init, parts};
use corten_core::Result;
use corten_ops::{Tensor, op};

/// `input @ weight.T + bias`.
pub struct Linear {
    /// Shape (out, in).
    pub weight: Parameter,
    /// Shape (out).
    pub bias: Option<Parameter>,
}

impl Linear {
    /// A map with bias, drawn from `U(-1/√inputs, 1/√inputs)`.
    ///
    /// # Errors
    /// `Runtime` for negative sizes.
    pub fn new(inputs: i64, outputs: i64) -> Result<Self> {
        Self::with_bias(inputs, outputs, true)
    }

    /// A map with or without bias.
    ///
    /// # Errors
    /// `Runtime` for negative sizes.
    pub fn with_bias(inputs: i64, outputs: i64, bias: bool) -> Result<Self> {
        let weight = Parameter::new(empty(&[outputs, inputs])?)?;
        let bias = bias.then(|| Parameter::new(empty(&[outputs])?)).transpose()?;
        init::weight_and_bias(&weight, bias.as_deref())?;
        Ok(Self { weight, bias })
    }
}

impl Module for Linear {
    parts!(weight, bias);

    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        op::linear(input, &self.weight, self.bias.as_deref())
    }
}

/// Returns its input.
pub struct Identity;

impl Module for Identity {
    parts!();

    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        Ok(input.clone())
    }
}

/// Joins the dimensions from `start` to `end`.
pub struct Flatten {
    /// First dimension joined.
    pub start: i64,
    /// Last dimension joined.
    pub end: i64,
}

impl Default for Flatten {
    /// All but the batch.
    fn default() -> Self {
        Self { start: 1, end: -1 }
    }
}

impl Module for Flatten {
    parts!();

    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        op::flatten_using_ints(input, self.start, self.end)
    }
}

//! Tables looked up by index.

use crate::module::{Module, Parameter};
use crate::{empty, init, parts};
use corten_autograd::no_grad;
use corten_core::{Result, ensure};
use corten_ops::{Tensor, op};

/// A learned vector for each of `count` indices.
pub struct Embedding {
    /// Shape (count, width).
    pub weight: Parameter,
    padding: Option<i64>,
}

impl Embedding {
    /// Vectors drawn from N(0, 1).
    ///
    /// # Errors
    /// `Runtime` for negative sizes.
    pub fn new(count: i64, width: i64) -> Result<Self> {
        let weight = Parameter::new(empty(&[count, width])?)?;
        init::normal_(&weight, 0.0, 1.0)?;
        Ok(Self { weight, padding: None })
    }

    /// Vectors of which that of `padding` is zero and is not trained.
    ///
    /// # Errors
    /// `Value` when `padding` is no index.
    pub fn with_padding(count: i64, width: i64, padding: i64) -> Result<Self> {
        ensure!((0..count).contains(&padding), Value, "Padding_idx must be within num_embeddings");
        let table = Self::new(count, width)?;
        no_grad(|| op::zero_(&op::select_int(&table.weight, 0, padding)?))?;
        Ok(Self { padding: Some(padding), ..table })
    }
}

impl Module for Embedding {
    parts!(weight);

    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        op::embedding(&self.weight, input, self.padding.unwrap_or(-1), false, false)
    }
}

//! Optimizers and schedules.

mod adam;
mod schedule;
mod sgd;

pub use adam::{Adam, AdamOptions, AdamW};
pub use schedule::{CosineAnnealing, Exponential, OneCycle, Schedule, StepDecay, Warmup};
pub use sgd::{Sgd, SgdOptions};

use corten_autograd::Autograd;
use corten_core::{DType, Layout, Result};
use corten_ops::Tensor;

/// Whether a parameter is moved in one pass over its memory, with the same roundings as by one operator
/// after the other: a dense one on the CPU.
fn is_ordinary(parameter: &Tensor, grad: &Tensor) -> bool {
    let dtype = parameter.dtype();
    matches!(dtype, DType::Float32 | DType::Float64)
        && [parameter, grad].into_iter().all(|tensor| {
            let is_dense = tensor.layout() == Layout::Strided;
            is_dense && tensor.dtype() == dtype && tensor.device().is_cpu()
        })
}

/// Moves parameters against their gradients.
pub trait Optimizer {
    /// Updates all parameters that have a gradient.
    ///
    /// # Errors
    /// Those of the operators.
    fn step(&mut self) -> Result<()>;

    /// The parameters.
    fn parameters(&self) -> &[Tensor];

    /// Drops all gradients.
    ///
    /// # Errors
    /// Those of [`Autograd::set_grad`].
    fn zero_grad(&mut self) -> Result<()> {
        self.parameters().iter().try_for_each(|parameter| parameter.set_grad(None))
    }

    /// The learning rate.
    fn lr(&self) -> f64;

    /// Sets the learning rate.
    fn set_lr(&mut self, lr: f64);

    /// Sets the momentum, or the first beta.
    fn set_momentum(&mut self, momentum: f64);
}

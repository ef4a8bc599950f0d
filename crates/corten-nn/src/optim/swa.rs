//! Averages of parameters over training.

use corten_autograd::no_grad;
use corten_core::{Result, ensure};
use corten_ops::{Tensor, op};

/// How parameters are averaged.
///
/// ```
/// use corten::nn::optim::Averaging;
///
/// assert_ne!(Averaging::Mean, Averaging::Exponential(0.999));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Averaging {
    /// The plain mean of all updates (SWA).
    Mean,
    /// An exponential mean that keeps this share of itself with each update (EMA).
    Exponential(f64),
}

/// The averages of parameters: of `swa_utils.AveragedModel`, what it keeps.
///
/// ```
/// use corten::nn::optim::{AveragedParameters, Averaging};
/// use corten::prelude::*;
///
/// # fn main() -> Result<()> {
/// let model = Linear::new(2, 1)?;
/// let mut ema = AveragedParameters::new(&model.parameters(), Averaging::Exponential(0.999))?;
/// ema.update(&model.parameters())?;
/// ema.copy_to(&model.parameters())
/// # }
/// ```
pub struct AveragedParameters {
    averages: Vec<Tensor>,
    averaging: Averaging,
    count: i64,
}

impl AveragedParameters {
    /// Averages that begin as copies of the tensors.
    ///
    /// # Errors
    /// `Value` for a share outside [0, 1].
    pub fn new(tensors: &[Tensor], averaging: Averaging) -> Result<Self> {
        if let Averaging::Exponential(decay) = averaging {
            ensure!(
                (0.0..=1.0).contains(&decay),
                Value,
                "Invalid decay value {decay} provided. Please provide a value in [0,1] range."
            );
        }
        let copies = tensors.iter().map(|tensor| op::clone(&op::detach(tensor)?, None));
        Ok(Self { averages: copies.collect::<Result<_>>()?, averaging, count: 0 })
    }

    /// Takes the tensors into their averages.
    ///
    /// # Errors
    /// `Value` for another number of tensors; those of the operators.
    pub fn update(&mut self, tensors: &[Tensor]) -> Result<()> {
        let (given, known) = (tensors.len(), self.averages.len());
        ensure!(given == known, Value, "{given} tensors were given to {known} averages");
        let weight = match self.averaging {
            _ if self.count == 0 => None,
            Averaging::Mean => Some(1.0 / (self.count + 1) as f64),
            Averaging::Exponential(decay) => Some(1.0 - decay),
        };
        no_grad(|| {
            self.averages.iter().zip(tensors).try_for_each(|(average, tensor)| match weight {
                Some(weight)
                    if average.dtype().is_floating_point() || average.dtype().is_complex() =>
                {
                    op::lerp__scalar(average, tensor, weight.into()).map(drop)
                }
                _ => op::copy_(average, tensor, false).map(drop),
            })
        })?;
        self.count += 1;
        Ok(())
    }

    /// The averages, in the order of the tensors.
    pub fn averages(&self) -> &[Tensor] {
        &self.averages
    }

    /// Number of updates.
    pub fn count(&self) -> i64 {
        self.count
    }

    /// Writes the averages to tensors, as those of a model that is to be evaluated.
    ///
    /// # Errors
    /// `Value` for another number of tensors; those of the copies.
    pub fn copy_to(&self, tensors: &[Tensor]) -> Result<()> {
        let (given, known) = (tensors.len(), self.averages.len());
        ensure!(given == known, Value, "{given} tensors were given for {known} averages");
        no_grad(|| {
            self.averages
                .iter()
                .zip(tensors)
                .try_for_each(|(average, tensor)| op::copy_(tensor, average, false).map(drop))
        })
    }
}

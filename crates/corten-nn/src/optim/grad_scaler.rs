//! Scaling of losses: gradients in short dtypes stay clear of zero and infinity.

use super::{Optimizer, Value};
use corten_autograd::{Autograd, no_grad};
use corten_core::{DType, Result, ensure};
use corten_ops::{Tensor, op};

/// Settings of [`GradScaler`].
///
/// ```
/// assert_eq!(corten::nn::optim::GradScalerOptions::default().init_scale, 65536.0);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct GradScalerOptions {
    /// The first scale.
    pub init_scale: f64,
    /// Factor of the scale after steps with finite gradients.
    pub growth_factor: f64,
    /// Factor of the scale after gradients that were not finite.
    pub backoff_factor: f64,
    /// Number of steps with finite gradients before the scale grows.
    pub growth_interval: i64,
}

impl Default for GradScalerOptions {
    fn default() -> Self {
        Self { init_scale: 65536.0, growth_factor: 2.0, backoff_factor: 0.5, growth_interval: 2000 }
    }
}

/// Multiplies losses by a scale that grows while gradients are finite, and shrinks, the step being skipped,
/// when they are not.
///
/// For each iteration: [`scale`](Self::scale) of the losses, their backward passes, [`step`](Self::step) of each
/// optimizer, one [`update`](Self::update).
///
/// ```
/// use corten::nn::optim::{GradScaler, GradScalerOptions};
/// use corten::prelude::*;
///
/// # fn main() -> Result<()> {
/// let model = Linear::new(2, 1)?;
/// let mut optimizer = Sgd::new(model.parameters(), SgdOptions::default())?;
/// let mut scaler = GradScaler::new(GradScalerOptions::default())?;
/// let (x, y) = (tensor![[1., 2.]]?, tensor![[1.]]?);
/// let loss = loss::mse_loss(&model.forward(&x)?, &y, Reduction::Mean)?;
/// scaler.scale(&loss)?.backward()?;
/// assert!(scaler.step(&mut optimizer)?);
/// scaler.update();
/// # Ok(())
/// # }
/// ```
pub struct GradScaler {
    options: GradScalerOptions,
    scale: f64,
    growth_tracker: i64,
    seen: Vec<Seen>,
}

/// What became of the gradients of an optimizer since the last update.
struct Seen {
    /// The addresses of its parameters, by which it is known again.
    parameters: Vec<usize>,
    has_grads: bool,
    is_finite: bool,
    is_stepped: bool,
}

fn addresses(optimizer: &dyn Optimizer) -> Vec<usize> {
    optimizer.parameters().iter().map(|parameter| parameter.impl_ptr() as usize).collect()
}

impl GradScaler {
    /// A scaler of the losses of one or several optimizers.
    ///
    /// # Errors
    /// `Value` for a growth factor up to 1 or a backoff factor from 1.
    pub fn new(options: GradScalerOptions) -> Result<Self> {
        ensure!(options.growth_factor > 1.0, Value, "The growth factor must be > 1.0.");
        ensure!(options.backoff_factor < 1.0, Value, "The backoff factor must be < 1.0.");
        let scale = options.init_scale;
        Ok(Self { options, scale, growth_tracker: 0, seen: Vec::new() })
    }

    /// The loss times the scale.
    ///
    /// # Errors
    /// Those of the product.
    pub fn scale(&self, loss: &Tensor) -> Result<Tensor> {
        // As a tensor: the product of a loss in a short dtype is a float32, which does not overflow.
        let (dtype, device) = (Some(DType::Float32), Some(loss.device()));
        let scale = op::scalar_tensor(self.scale.into(), dtype, None, device, None)?;
        op::mul_tensor(loss, &scale)
    }

    /// Divides the gradients by the scale, for clipping; [`step`](Self::step) does it else.
    ///
    /// # Errors
    /// `Runtime` when it was called since the last update; `Value` for gradients in float16.
    pub fn unscale_(&mut self, optimizer: &dyn Optimizer) -> Result<()> {
        let parameters = addresses(optimizer);
        if let Some(seen) = self.seen.iter().find(|seen| seen.parameters == parameters) {
            ensure!(!seen.is_stepped, Runtime, "unscale_() is being called after step().");
            corten_core::bail!(
                Runtime,
                "unscale_() has already been called on this optimizer since the last update()."
            );
        }
        let inverse = 1.0 / self.scale;
        let (mut has_grads, mut is_finite) = (false, true);
        no_grad(|| {
            for grad in optimizer.parameters().iter().filter_map(Autograd::grad) {
                let is_half = grad.dtype() == DType::Float16;
                ensure!(!is_half, Value, "Attempting to unscale FP16 gradients.");
                let finite = op::item(&op::all(&op::isfinite(&grad)?)?)?;
                (has_grads, is_finite) = (true, is_finite && finite.to_f64() != 0.0);
                op::mul__scalar(&grad, inverse.into())?;
            }
            Ok(())
        })?;
        self.seen.push(Seen { parameters, has_grads, is_finite, is_stepped: false });
        Ok(())
    }

    /// The optimizer's step, if the gradients are finite; whether it was made.
    ///
    /// # Errors
    /// `Runtime` when it was called since the last update; those of the step.
    pub fn step(&mut self, optimizer: &mut dyn Optimizer) -> Result<bool> {
        let parameters = addresses(optimizer);
        let place = self.seen.iter().position(|seen| seen.parameters == parameters);
        let place = match place {
            Some(place) => place,
            None => {
                self.unscale_(optimizer)?;
                self.seen.len() - 1
            }
        };
        let seen = &mut self.seen[place];
        ensure!(
            !seen.is_stepped,
            Runtime,
            "step() has already been called since the last update()."
        );
        ensure!(seen.has_grads, Runtime, "No inf checks were recorded for this optimizer.");
        seen.is_stepped = true;
        let is_finite = seen.is_finite;
        if is_finite {
            optimizer.step()?;
        }
        Ok(is_finite)
    }

    /// Changes the scale by what the gradients were, and begins the next iteration.
    pub fn update(&mut self) {
        let seen = std::mem::take(&mut self.seen);
        if seen.iter().all(|seen| !seen.has_grads) {
            return;
        }
        if seen.iter().any(|seen| !seen.is_finite) {
            self.scale *= self.options.backoff_factor;
            self.growth_tracker = 0;
        } else {
            self.growth_tracker += 1;
            if self.growth_tracker == self.options.growth_interval {
                let grown = self.scale * self.options.growth_factor;
                // The scale is a float32 in PyTorch, which must stay finite.
                if grown <= f64::from(f32::MAX) {
                    self.scale = grown;
                }
                self.growth_tracker = 0;
            }
        }
    }

    /// The scale.
    pub fn get_scale(&self) -> f64 {
        self.scale
    }

    /// The state under PyTorch's names.
    pub fn state_dict(&self) -> Vec<(String, Value)> {
        let fields = [
            ("scale", Value::Float(self.scale)),
            ("growth_factor", Value::Float(self.options.growth_factor)),
            ("backoff_factor", Value::Float(self.options.backoff_factor)),
            ("growth_interval", Value::Int(self.options.growth_interval)),
            ("_growth_tracker", Value::Int(self.growth_tracker)),
        ];
        fields.map(|(name, value)| (name.to_owned(), value)).to_vec()
    }

    /// Takes back what [`state_dict`](Self::state_dict) gave, or PyTorch's.
    ///
    /// # Errors
    /// `Runtime` for an empty state, `Value` for fields that are no numbers.
    pub fn load_state_dict(&mut self, state: &[(String, Value)]) -> Result<()> {
        ensure!(
            !state.is_empty(),
            Runtime,
            "The source state dict is empty, possibly because it was saved from a disabled instance of GradScaler."
        );
        let (mut options, mut scale, mut tracker) = (self.options, self.scale, self.growth_tracker);
        for (name, value) in state {
            let Some(number) = value.number() else {
                corten_core::bail!(Value, "'{name}' of the state of a GradScaler must be a number")
            };
            match name.as_str() {
                "scale" => scale = number,
                "growth_factor" => options.growth_factor = number,
                "backoff_factor" => options.backoff_factor = number,
                "growth_interval" => options.growth_interval = number as i64,
                "_growth_tracker" => tracker = number as i64,
                _ => {}
            }
        }
        (self.options, self.scale, self.growth_tracker) = (options, scale, tracker);
        Ok(())
    }
}

//! Stochastic gradient descent.

use super::{Optimizer, is_ordinary};
use corten_autograd::{Autograd, no_grad};
use corten_core::{Result, Scalar, ensure};
use corten_ops::{Tensor, op};

/// Settings of [`Sgd`].
#[derive(Clone, Copy, Debug)]
pub struct SgdOptions {
    /// Learning rate.
    pub lr: f64,
    /// How much of the last step is repeated.
    pub momentum: f64,
    /// How much of a gradient is left out of the momentum.
    pub dampening: f64,
    /// Factor of the parameters added to gradients.
    pub weight_decay: f64,
    /// Whether to look ahead by the momentum.
    pub nesterov: bool,
}

impl Default for SgdOptions {
    fn default() -> Self {
        Self { lr: 1e-3, momentum: 0.0, dampening: 0.0, weight_decay: 0.0, nesterov: false }
    }
}

/// `p -= lr * g`, with momentum, weight decay and Nesterov's look-ahead if asked for.
pub struct Sgd {
    parameters: Vec<Tensor>,
    buffers: Vec<Option<Tensor>>,
    /// The settings, which may be changed between steps.
    pub options: SgdOptions,
}

impl Sgd {
    /// An optimizer of the parameters.
    ///
    /// # Errors
    /// `Value` for Nesterov without momentum or with dampening.
    pub fn new(parameters: Vec<Tensor>, options: SgdOptions) -> Result<Self> {
        ensure!(
            !options.nesterov || (options.momentum > 0.0 && options.dampening == 0.0),
            Value,
            "Nesterov momentum requires a momentum and zero dampening"
        );
        Ok(Self { buffers: vec![None; parameters.len()], parameters, options })
    }
}

impl Optimizer for Sgd {
    fn step(&mut self) -> Result<()> {
        no_grad(|| {
            for (parameter, buffer) in self.parameters.iter().zip(&mut self.buffers) {
                if let Some(grad) = parameter.grad() {
                    update(parameter, grad, buffer, &self.options)?;
                }
            }
            Ok(())
        })
    }

    fn parameters(&self) -> &[Tensor] {
        &self.parameters
    }

    fn lr(&self) -> f64 {
        self.options.lr
    }

    fn set_lr(&mut self, lr: f64) {
        self.options.lr = lr;
    }

    fn set_momentum(&mut self, momentum: f64) {
        self.options.momentum = momentum;
    }
}

fn update(
    parameter: &Tensor,
    mut grad: Tensor,
    buffer: &mut Option<Tensor>,
    options: &SgdOptions,
) -> Result<()> {
    if is_ordinary(parameter, &grad) {
        return update_at_once(parameter, grad, buffer, options);
    }
    if options.weight_decay != 0.0 {
        grad = op::add_tensor(&grad, parameter, options.weight_decay.into())?;
    }
    if options.momentum != 0.0 {
        let held = match buffer {
            Some(held) => {
                op::mul__scalar(held, options.momentum.into())?;
                op::add__tensor(held, &grad, (1.0 - options.dampening).into())?
            }
            // The first step takes the gradient undamped.
            None => op::clone(&op::detach(&grad)?, None)?,
        };
        grad = if options.nesterov {
            op::add_tensor(&grad, &held, options.momentum.into())?
        } else {
            held.clone()
        };
        *buffer = Some(held);
    }
    op::add__tensor(parameter, &grad, Scalar::Float(-options.lr)).map(drop)
}

fn update_at_once(
    parameter: &Tensor,
    grad: Tensor,
    buffer: &mut Option<Tensor>,
    options: &SgdOptions,
) -> Result<()> {
    let SgdOptions { lr, momentum, dampening, weight_decay, nesterov } = *options;
    let is_first = buffer.is_none();
    if momentum != 0.0 && is_first {
        *buffer = Some(op::empty_like(&grad, None, None, None, None, None)?);
    }
    op::_fused_sgd_(
        std::slice::from_ref(parameter),
        &[grad],
        buffer.as_slice(),
        weight_decay,
        momentum,
        lr,
        dampening,
        nesterov,
        false,
        is_first,
        None,
        None,
    )
}

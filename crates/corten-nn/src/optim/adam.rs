//! Adam, and Adam with decoupled weight decay.

use super::{Optimizer, is_ordinary};
use corten_autograd::{Autograd, no_grad};
use corten_core::{Result, ensure};
use corten_ops::{Tensor, op};

/// Settings of [`Adam`] and [`AdamW`].
#[derive(Clone, Copy, Debug)]
pub struct AdamOptions {
    /// Learning rate.
    pub lr: f64,
    /// How long the means of gradients and of their squares remember.
    pub betas: (f64, f64),
    /// Added to the root of the mean square.
    pub eps: f64,
    /// Factor of the parameters added to gradients or, for [`AdamW`], shrinking them.
    pub weight_decay: f64,
    /// Whether the largest mean square so far counts.
    pub amsgrad: bool,
}

impl Default for AdamOptions {
    fn default() -> Self {
        Self { lr: 1e-3, betas: (0.9, 0.999), eps: 1e-8, weight_decay: 0.0, amsgrad: false }
    }
}

struct State {
    step: i32,
    mean: Tensor,
    square: Tensor,
    largest: Option<Tensor>,
}

/// Steps scaled by running means of gradients and of their squares.
pub struct Adam {
    parameters: Vec<Tensor>,
    state: Vec<Option<State>>,
    decoupled: bool,
    /// The settings, which may be changed between steps.
    pub options: AdamOptions,
}

impl Adam {
    /// An optimizer of the parameters.
    ///
    /// # Errors
    /// `Value` for betas outside [0, 1).
    pub fn new(parameters: Vec<Tensor>, options: AdamOptions) -> Result<Self> {
        for beta in [options.betas.0, options.betas.1] {
            ensure!((0.0..1.0).contains(&beta), Value, "Invalid beta parameter: {beta}");
        }
        let state = parameters.iter().map(|_| None).collect();
        Ok(Self { parameters, state, decoupled: false, options })
    }
}

impl Optimizer for Adam {
    fn step(&mut self) -> Result<()> {
        no_grad(|| {
            for (parameter, state) in self.parameters.iter().zip(&mut self.state) {
                if let Some(grad) = parameter.grad() {
                    update(parameter, grad, state, &self.options, self.decoupled)?;
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
        self.options.betas.0 = momentum;
    }
}

fn new_state(parameter: &Tensor, amsgrad: bool) -> Result<State> {
    let zeros = || op::zeros_like(parameter, None, None, None, None, None);
    let largest = amsgrad.then(zeros).transpose()?;
    Ok(State { step: 0, mean: zeros()?, square: zeros()?, largest })
}

fn update(
    parameter: &Tensor,
    mut grad: Tensor,
    state: &mut Option<State>,
    options: &AdamOptions,
    decoupled: bool,
) -> Result<()> {
    let AdamOptions { lr, betas: (beta1, beta2), eps, weight_decay, amsgrad } = *options;
    let state = match state {
        Some(state) => state,
        None => state.insert(new_state(parameter, amsgrad)?),
    };
    state.step += 1;
    if is_ordinary(parameter, &grad) {
        return update_at_once(parameter, grad, state, options, decoupled);
    }
    if weight_decay != 0.0 {
        if decoupled {
            op::mul__scalar(parameter, (1.0 - lr * weight_decay).into())?;
        } else {
            grad = op::add_tensor(&grad, parameter, weight_decay.into())?;
        }
    }
    op::lerp__scalar(&state.mean, &grad, (1.0 - beta1).into())?;
    op::mul__scalar(&state.square, beta2.into())?;
    op::addcmul_(&state.square, &grad, &grad, (1.0 - beta2).into())?;
    let square = match &state.largest {
        Some(largest) => op::copy_(largest, &op::maximum(largest, &state.square)?, false)?,
        None => state.square.clone(),
    };
    let correction1 = 1.0 - beta1.powi(state.step);
    let correction2 = 1.0 - beta2.powi(state.step);
    let root = op::div_scalar(&op::sqrt(&square)?, correction2.sqrt().into())?;
    let root = op::add__scalar(&root, eps.into(), 1.into())?;
    op::addcdiv_(parameter, &state.mean, &root, (-lr / correction1).into()).map(drop)
}

fn update_at_once(
    parameter: &Tensor,
    grad: Tensor,
    state: &State,
    options: &AdamOptions,
    decoupled: bool,
) -> Result<()> {
    let AdamOptions { lr, betas: (beta1, beta2), eps, weight_decay, amsgrad } = *options;
    let update = if decoupled { op::_fused_adamw_ } else { op::_fused_adam_ };
    let step = op::scalar_tensor(f64::from(state.step).into(), None, None, None, None)?;
    let one = std::slice::from_ref;
    update(
        one(parameter),
        &[grad],
        one(&state.mean),
        one(&state.square),
        state.largest.as_slice(),
        &[step],
        lr,
        beta1,
        beta2,
        weight_decay,
        eps,
        amsgrad,
        false,
        None,
        None,
    )
}

/// [`Adam`] whose weight decay shrinks the parameters instead of adding to the gradients.
pub struct AdamW(Adam);

impl AdamW {
    /// PyTorch's defaults: those of [`Adam`] with a weight decay of 0.01.
    pub fn defaults() -> AdamOptions {
        AdamOptions { weight_decay: 1e-2, ..AdamOptions::default() }
    }

    /// An optimizer of the parameters.
    ///
    /// # Errors
    /// `Value` for betas outside [0, 1).
    pub fn new(parameters: Vec<Tensor>, options: AdamOptions) -> Result<Self> {
        let adam = Adam::new(parameters, options)?;
        Ok(Self(Adam { decoupled: true, ..adam }))
    }
}

impl Optimizer for AdamW {
    fn step(&mut self) -> Result<()> {
        self.0.step()
    }

    fn parameters(&self) -> &[Tensor] {
        &self.0.parameters
    }

    fn lr(&self) -> f64 {
        self.0.lr()
    }

    fn set_lr(&mut self, lr: f64) {
        self.0.set_lr(lr);
    }

    fn set_momentum(&mut self, momentum: f64) {
        self.0.set_momentum(momentum);
    }
}

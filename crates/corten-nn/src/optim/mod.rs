//! Optimizers and schedules of learning rates, under PyTorch's names and with its defaults.
//!
//! An optimizer is made of parameters and an options struct, or of groups of parameters with options each
//! ([`ByParameter::with_groups`]). Its [`state_dict`](Optimizer::state_dict) is what PyTorch's files hold.

mod adam;
mod adaptive;
mod by_parameter;
mod checks;
mod grad_scaler;
mod group;
mod lbfgs;
pub mod lr_scheduler;
mod muon;
mod setting;
mod sgd;
mod sparse_adam;
mod state;
mod swa;

pub use adam::{
    Adam, AdamOptions, AdamRule, AdamW, AdamWOptions, AdamWRule, Adamax, AdamaxOptions, AdamaxRule,
    NAdam, NAdamOptions, NAdamRule, RAdam, RAdamOptions, RAdamRule,
};
pub use adaptive::{
    Adadelta, AdadeltaOptions, AdadeltaRule, Adafactor, AdafactorOptions, AdafactorRule, Adagrad,
    AdagradOptions, AdagradRule, RmsProp, RmsPropOptions, RmsPropRule, Rprop, RpropOptions,
    RpropRule,
};
pub use by_parameter::{ByParameter, ParameterState, Rule, Together};
pub use corten_io::Value;
pub use grad_scaler::{GradScaler, GradScalerOptions};
pub use group::{ParamGroup, Settings};
pub use lbfgs::{Lbfgs, LbfgsOptions, LineSearch};
pub use muon::{AdjustLr, Muon, MuonOptions, MuonRule};
pub use setting::Setting;
pub use sgd::{Asgd, AsgdOptions, AsgdRule, Sgd, SgdOptions, SgdRule};
pub use sparse_adam::{SparseAdam, SparseAdamOptions, SparseAdamRule};
pub use state::OptimizerState;
pub use swa::{AveragedParameters, Averaging};

use corten_autograd::{Autograd, enable_grad};
use corten_core::{DType, Layout, Result};
use corten_ops::Tensor;

/// Whether a parameter is moved in one pass over its memory, with the same roundings as by one operator
/// after the other.
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

    /// As [`step`](Self::step) after `closure` has computed the loss and its gradients; returns the loss.
    ///
    /// # Errors
    /// Those of the closure and of the operators.
    fn step_with(&mut self, closure: &mut dyn FnMut() -> Result<Tensor>) -> Result<Tensor> {
        let loss = enable_grad(closure)?;
        self.step()?;
        Ok(loss)
    }

    /// The parameters of all groups.
    fn parameters(&self) -> Vec<Tensor>;

    /// Drops all gradients.
    ///
    /// # Errors
    /// Those of [`Autograd::set_grad`].
    fn zero_grad(&mut self) -> Result<()> {
        self.parameters().iter().try_for_each(|parameter| parameter.set_grad(None))
    }

    /// Number of groups.
    fn group_count(&self) -> usize;

    /// The learning rate of a group.
    ///
    /// # Panics
    /// When there is no such group; so for the methods below.
    fn group_lr(&self, group: usize) -> f64;

    /// Sets the learning rate of a group.
    fn set_group_lr(&mut self, group: usize, lr: f64);

    /// The momentum of a group, or its first beta, where the optimizer has one.
    fn group_momentum(&self, group: usize) -> Option<f64>;

    /// Sets what [`group_momentum`](Self::group_momentum) gives.
    fn set_group_momentum(&mut self, group: usize, momentum: f64);

    /// What schedules keep with a group.
    fn extra(&mut self, group: usize) -> &mut Vec<(String, Value)>;

    /// The learning rate of the first group.
    fn lr(&self) -> f64 {
        self.group_lr(0)
    }

    /// Sets the learning rate of all groups.
    fn set_lr(&mut self, lr: f64) {
        (0..self.group_count()).for_each(|group| self.set_group_lr(group, lr));
    }

    /// The state of the parameters and the settings of the groups.
    fn state_dict(&self) -> OptimizerState;

    /// Takes over what [`state_dict`](Self::state_dict) gave: of this optimizer, or of PyTorch's.
    ///
    /// # Errors
    /// `Value` where groups do not fit or settings are outside their ranges; then nothing is changed.
    fn load_state_dict(&mut self, state: &OptimizerState) -> Result<()>;
}

//! Optimizers that are one formula for each parameter.

use super::group::{ParamGroup, Settings, check_groups};
use super::{Optimizer, OptimizerState, is_ordinary};
use corten_autograd::{Autograd, no_grad};
use corten_core::{DType, Result, ensure, err};
use corten_io::Value;
use corten_ops::{Tensor, op};

/// The state of a parameter: named values in PyTorch's order. Empty until the first step.
///
/// ```
/// use corten::nn::optim::ParameterState;
/// use corten::prelude::*;
///
/// # fn main() -> Result<()> {
/// let state = ParameterState::of([("exp_avg", tensor![0.0, 1.0]?)]);
/// assert_eq!(state.tensor("exp_avg")?.to_vec::<f32>()?, [0.0, 1.0]);
/// assert!(state.tensor("exp_avg_sq").is_err());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct ParameterState(pub(super) Vec<(String, Value)>);

impl ParameterState {
    /// A state of tensors.
    pub fn of(entries: impl IntoIterator<Item = (&'static str, Tensor)>) -> Self {
        let named =
            entries.into_iter().map(|(name, value)| (name.to_owned(), Value::Tensor(value)));
        Self(named.collect())
    }

    /// The value of a name.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value)
    }

    /// Sets the value of a name.
    pub fn set(&mut self, name: &str, value: Value) {
        match self.0.iter_mut().find(|(known, _)| known == name) {
            Some((_, held)) => *held = value,
            None => self.0.push((name.to_owned(), value)),
        }
    }

    /// The tensor of a name.
    ///
    /// # Errors
    /// `Runtime` where a loaded state lacks it.
    pub fn tensor(&self, name: &str) -> Result<Tensor> {
        let found = self.get(name).and_then(Value::tensor).cloned();
        found.ok_or_else(|| err!(Runtime, "the state of a parameter has no tensor '{name}'"))
    }

    /// The tensor of a name; of a complex one its real and imaginary parts.
    pub(super) fn real(&self, name: &str) -> Result<Tensor> {
        real(&self.tensor(name)?)
    }

    /// Counts a step; returns the new count.
    pub(super) fn count_step(&mut self) -> Result<f64> {
        let step = self.tensor("step")?;
        op::add__scalar(&step, 1.into(), 1.into())?;
        Ok(op::item(&step)?.to_f64())
    }
}

/// A tensor of real numbers: of a complex one its real and imaginary parts, in place.
pub(super) fn real(tensor: &Tensor) -> Result<Tensor> {
    match tensor.dtype().is_complex() {
        true => op::view_as_real(tensor),
        false => Ok(tensor.clone()),
    }
}

/// A count of steps, kept as a tensor as PyTorch's files have it.
pub(super) fn new_step() -> Result<Tensor> {
    op::scalar_tensor(0.0.into(), Some(DType::Float32), None, None, None)
}

pub(super) fn zeros_like(tensor: &Tensor) -> Result<Tensor> {
    op::zeros_like(tensor, None, None, None, None, None)
}

/// The formula of an optimizer.
///
/// An optimizer of one's own:
///
/// ```
/// use corten::nn::optim::{ByParameter, ParameterState, Rule};
/// use corten::prelude::*;
///
/// /// Steps by the signs of gradients.
/// struct SignSgd;
///
/// impl Rule for SignSgd {
///     type Options = SgdOptions;
///     const NAME: &'static str = "SignSGD";
///
///     fn check(_: &SgdOptions) -> Result<()> {
///         Ok(())
///     }
///
///     fn begin(_: &Tensor, _: &Tensor, _: &SgdOptions) -> Result<ParameterState> {
///         Ok(ParameterState::default())
///     }
///
///     fn update(
///         parameter: &Tensor,
///         grad: Tensor,
///         _: &mut ParameterState,
///         options: &SgdOptions,
///     ) -> Result<()> {
///         op::sub__tensor(parameter, &op::sign(&grad)?, options.lr.into()).map(drop)
///     }
/// }
///
/// # fn main() -> Result<()> {
/// let weight = tensor![1.0, -2.0]?.requires_grad_(true)?;
/// weight.set_grad(Some(&tensor![3.0, -4.0]?))?;
/// let options = SgdOptions { lr: 0.5, ..Default::default() };
/// ByParameter::<SignSgd>::new([weight.clone()], options)?.step()?;
/// assert_eq!(weight.data()?.to_vec::<f32>()?, [0.5, -1.5]);
/// # Ok(())
/// # }
/// ```
pub trait Rule {
    /// The settings of a group.
    type Options: Settings;

    /// PyTorch's name of the optimizer.
    const NAME: &'static str;

    /// Refuses settings outside their ranges.
    ///
    /// # Errors
    /// `Value`, in PyTorch's words.
    fn check(options: &Self::Options) -> Result<()>;

    /// Refuses a parameter that the formula does not fit.
    ///
    /// # Errors
    /// `Value`, in PyTorch's words.
    fn check_parameter(_parameter: &Tensor) -> Result<()> {
        Ok(())
    }

    /// The state before the first step.
    ///
    /// # Errors
    /// Those of factories.
    fn begin(parameter: &Tensor, grad: &Tensor, options: &Self::Options) -> Result<ParameterState>;

    /// Moves a parameter.
    ///
    /// # Errors
    /// Those of the operators.
    fn update(
        parameter: &Tensor,
        grad: Tensor,
        state: &mut ParameterState,
        options: &Self::Options,
    ) -> Result<()>;

    /// Moves dense parameters of one device in one pass over their memory, with the roundings of
    /// [`update`](Self::update). Whether the formula can.
    ///
    /// # Errors
    /// Those of the operators.
    fn fused(_: &Together<'_>, _options: &Self::Options) -> Result<bool> {
        Ok(false)
    }
}

/// Parameters that move together, with their gradients and states.
///
/// ```
/// use corten::nn::optim::{ParameterState, Rule, SgdOptions, SgdRule, Together};
/// use corten::prelude::*;
///
/// /// What [`Rule::fused`] is called with.
/// fn count(together: &Together<'_>) -> usize {
///     together.params.len()
/// }
/// let _: fn(&Together<'_>) -> usize = count;
/// ```
pub struct Together<'a> {
    /// The parameters.
    pub params: &'a [Tensor],
    /// Their gradients.
    pub grads: &'a [Tensor],
    states: Vec<&'a ParameterState>,
}

impl Together<'_> {
    /// The tensors of a name in all states.
    ///
    /// # Errors
    /// `Runtime` where a loaded state lacks one.
    pub fn state(&self, name: &str) -> Result<Vec<Tensor>> {
        self.states.iter().map(|state| state.tensor(name)).collect()
    }

    /// The counts of steps, after one more.
    ///
    /// # Errors
    /// As [`state`](Self::state).
    pub fn count_steps(&self) -> Result<Vec<Tensor>> {
        let steps = self.state("step")?;
        op::_foreach_add__scalar(&steps, 1.into())?;
        Ok(steps)
    }
}

/// A state for each parameter, before the first step.
pub(super) fn empty_states(params: &[Tensor]) -> Vec<ParameterState> {
    params.iter().map(|_| ParameterState::default()).collect()
}

/// An optimizer that moves each parameter by a formula. The optimizers are aliases of it, such as
/// [`Adam`](super::Adam).
///
/// ```
/// use corten::nn::optim::{AdamRule, ByParameter};
/// use corten::prelude::*;
///
/// # fn main() -> Result<()> {
/// let model = Linear::new(2, 1)?;
/// let optimizer: Adam = ByParameter::<AdamRule>::new(model.parameters(), AdamOptions::default())?;
/// assert_eq!(optimizer.groups.len(), 1);
/// # Ok(())
/// # }
/// ```
pub struct ByParameter<R: Rule> {
    /// Parameters by groups.
    pub groups: Vec<ParamGroup<R::Options>>,
    states: Vec<Vec<ParameterState>>,
}

impl<R: Rule> ByParameter<R> {
    /// An optimizer of parameters with the same settings.
    ///
    /// # Errors
    /// `Value` for settings outside their ranges, no parameters, parameters that are no leaves.
    pub fn new(params: impl IntoIterator<Item = Tensor>, options: R::Options) -> Result<Self> {
        Self::with_groups(vec![ParamGroup::new(params, options)])
    }

    /// An optimizer of groups of parameters, each with its settings.
    ///
    /// # Errors
    /// As [`new`](Self::new); `Value` for a parameter in two groups.
    pub fn with_groups(groups: Vec<ParamGroup<R::Options>>) -> Result<Self> {
        check_groups(&groups)?;
        for group in &groups {
            ensure!(
                group.options.lr() >= 0.0,
                Value,
                "Invalid learning rate: {}",
                group.options.lr()
            );
            R::check(&group.options)?;
            group.params.iter().try_for_each(R::check_parameter)?;
        }
        let states = groups.iter().map(|group| empty_states(&group.params));
        Ok(Self { states: states.collect(), groups })
    }

    /// Adds a group.
    ///
    /// # Errors
    /// As [`with_groups`](Self::with_groups).
    pub fn add_param_group(&mut self, group: ParamGroup<R::Options>) -> Result<()> {
        let mut groups = self.groups.clone();
        groups.push(group);
        let Self { groups, states } = Self::with_groups(groups)?;
        let added = states.into_iter().next_back().unwrap_or_default();
        self.groups = groups;
        self.states.push(added);
        Ok(())
    }

    /// The state of a parameter, by its place in a group.
    pub fn state(&self, group: usize, place: usize) -> Option<&ParameterState> {
        self.states.get(group)?.get(place)
    }

    fn step_group(group: &ParamGroup<R::Options>, states: &mut [ParameterState]) -> Result<()> {
        let options = &group.options;
        let mut due = Vec::new();
        for (parameter, state) in group.params.iter().zip(states) {
            if let Some(grad) = parameter.grad() {
                if state.0.is_empty() {
                    *state = R::begin(parameter, &grad, options)?;
                }
                due.push((parameter, grad, state));
            }
        }
        if due.iter().all(|(parameter, grad, _)| is_ordinary(parameter, grad)) && !due.is_empty() {
            let params: Vec<Tensor> =
                due.iter().map(|(parameter, ..)| (*parameter).clone()).collect();
            let grads: Vec<Tensor> = due.iter().map(|(_, grad, _)| grad.clone()).collect();
            let states = due.iter().map(|(_, _, state)| &**state).collect();
            if R::fused(&Together { params: &params, grads: &grads, states }, options)? {
                return Ok(());
            }
        }
        for (parameter, grad, state) in due {
            let grad = if options.maximize() { op::neg(&grad)? } else { grad };
            R::update(parameter, grad, state, options)?;
        }
        Ok(())
    }
}

impl<R: Rule> Optimizer for ByParameter<R> {
    fn step(&mut self) -> Result<()> {
        no_grad(|| {
            let mut pairs = self.groups.iter().zip(&mut self.states);
            pairs.try_for_each(|(group, states)| Self::step_group(group, states))
        })
    }

    fn parameters(&self) -> Vec<Tensor> {
        self.groups.iter().flat_map(|group| group.params.iter().cloned()).collect()
    }

    fn group_count(&self) -> usize {
        self.groups.len()
    }

    fn group_lr(&self, group: usize) -> f64 {
        self.groups[group].options.lr()
    }

    fn set_group_lr(&mut self, group: usize, lr: f64) {
        self.groups[group].options.set_lr(lr);
    }

    fn group_momentum(&self, group: usize) -> Option<f64> {
        self.groups[group].options.momentum()
    }

    fn set_group_momentum(&mut self, group: usize, momentum: f64) {
        self.groups[group].options.set_momentum(momentum);
    }

    fn extra(&mut self, group: usize) -> &mut Vec<(String, Value)> {
        &mut self.groups[group].extra
    }

    fn state_dict(&self) -> OptimizerState {
        OptimizerState::collect(self.groups.iter().zip(&self.states))
    }

    fn load_state_dict(&mut self, state: &OptimizerState) -> Result<()> {
        let mut groups = self.groups.clone();
        let states = state.distribute(&mut groups)?;
        groups.iter().try_for_each(|group| R::check(&group.options))?;
        (self.groups, self.states) = (groups, states);
        Ok(())
    }
}

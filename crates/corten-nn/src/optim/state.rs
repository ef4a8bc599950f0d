//! The state of an optimizer as files hold it.

use super::by_parameter::ParameterState;
use super::group::{ParamGroup, Settings};
use corten_core::{DType, Result, ensure, err};
use corten_io::Value;
use corten_ops::{Tensor, op};
use std::collections::BTreeMap;

/// What `state_dict()` of an optimizer is: the states of parameters by number, and the settings of groups.
///
/// Parameters are numbered over all groups. With [`to_value`](Self::to_value) it is the dictionary that
/// PyTorch's `optimizer.state_dict()` gives, so that a file written here is read there.
///
/// ```
/// use corten::nn::optim::OptimizerState;
/// use corten::prelude::*;
///
/// # fn main() -> Result<()> {
/// let model = Linear::new(2, 1)?;
/// let mut optimizer = Adam::new(model.parameters(), AdamOptions::default())?;
/// let saved = optimizer.state_dict().to_value();
/// optimizer.load_state_dict(&OptimizerState::from_value(&saved)?)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct OptimizerState {
    /// Named values by the number of the parameter.
    pub state: BTreeMap<usize, Vec<(String, Value)>>,
    /// The settings of each group, and under `params` the numbers of its parameters.
    pub param_groups: Vec<Vec<(String, Value)>>,
}

impl OptimizerState {
    pub(super) fn collect<'a, O: Settings + 'a>(
        groups: impl Iterator<Item = (&'a ParamGroup<O>, &'a Vec<ParameterState>)>,
    ) -> Self {
        let (mut found, mut number) = (Self::default(), 0);
        for (group, states) in groups {
            let mut settings = group.options.to_values();
            settings.extend(group.extra.iter().cloned());
            let numbers = (number..number + states.len()).map(|n| Value::Int(n as i64)).collect();
            settings.push(("params".to_owned(), Value::List(numbers)));
            found.param_groups.push(settings);
            for state in states {
                if !state.0.is_empty() {
                    found.state.insert(number, state.0.clone());
                }
                number += 1;
            }
        }
        found
    }

    /// Gives the groups their settings; returns the states of their parameters.
    pub(super) fn distribute<O: Settings>(
        &self,
        groups: &mut [ParamGroup<O>],
    ) -> Result<Vec<Vec<ParameterState>>> {
        ensure!(
            self.param_groups.len() == groups.len(),
            Value,
            "loaded state dict has a different number of parameter groups"
        );
        let mut states = Vec::new();
        for (group, saved) in groups.iter_mut().zip(&self.param_groups) {
            let numbers = numbers(saved)?;
            ensure!(
                numbers.len() == group.params.len(),
                Value,
                "loaded state dict contains a parameter group that doesn't match the size of optimizer's group"
            );
            for (name, value) in saved.iter().filter(|(name, _)| name != "params") {
                if !group.options.set(name, value) {
                    ensure!(
                        !group.options.is_setting(name),
                        Value,
                        "a parameter group of the state has a wrong '{name}'"
                    );
                    keep(&mut group.extra, name, value);
                }
            }
            let known = group.options.to_values();
            group.extra.retain(|(name, _)| known.iter().all(|(other, _)| other != name));
            let pairs = group.params.iter().zip(&numbers);
            let of_group = pairs.map(|(parameter, number)| match self.state.get(number) {
                Some(entries) => cast_entries(parameter, entries),
                None => Ok(ParameterState::default()),
            });
            states.push(of_group.collect::<Result<_>>()?);
        }
        Ok(states)
    }

    /// The dictionary that PyTorch writes.
    pub fn to_value(&self) -> Value {
        let number = |number: &usize| Value::Int(i64::try_from(*number).unwrap_or(i64::MAX));
        let states = self.state.iter();
        let states = states.map(|(key, entries)| (number(key), Value::named(entries))).collect();
        let groups = self.param_groups.iter().map(|group| Value::named(group)).collect();
        Value::Dict(vec![
            (Value::Text("state".to_owned()), Value::Dict(states)),
            (Value::Text("param_groups".to_owned()), Value::List(groups)),
        ])
    }

    /// What [`to_value`](Self::to_value) gave, or PyTorch wrote.
    ///
    /// # Errors
    /// `Value` for anything else.
    pub fn from_value(value: &Value) -> Result<Self> {
        let refused = || err!(Value, "not the state dict of an optimizer");
        let Some(Value::Dict(states)) = value.get("state") else { return Err(refused()) };
        let groups = value.get("param_groups").and_then(Value::elements).ok_or_else(refused)?;
        let mut found = Self::default();
        for (key, entries) in states {
            let Value::Int(number) = key else { return Err(refused()) };
            let number = usize::try_from(*number).map_err(|_| refused())?;
            found.state.insert(number, entries.entries().ok_or_else(refused)?);
        }
        let groups = groups.iter().map(Value::entries).collect::<Option<_>>();
        found.param_groups = groups.ok_or_else(refused)?;
        Ok(found)
    }
}

fn keep(extra: &mut Vec<(String, Value)>, name: &str, value: &Value) {
    match extra.iter_mut().find(|(known, _)| known == name) {
        Some((_, held)) => *held = value.clone(),
        None => extra.push((name.to_owned(), value.clone())),
    }
}

fn numbers(group: &[(String, Value)]) -> Result<Vec<usize>> {
    let listed = group.iter().find(|(name, _)| name == "params").and_then(|(_, v)| v.elements());
    let listed =
        listed.ok_or_else(|| err!(Value, "a parameter group of the state has no 'params'"))?;
    let number = |value: &Value| match value {
        Value::Int(number) => usize::try_from(*number).ok(),
        _ => None,
    };
    let numbers: Option<Vec<usize>> = listed.iter().map(number).collect();
    numbers.ok_or_else(|| err!(Value, "'params' of a parameter group must be a list of numbers"))
}

/// Copies of state with the device and, but for counts of steps, the dtype of the parameter.
fn cast_entries(parameter: &Tensor, entries: &[(String, Value)]) -> Result<ParameterState> {
    let cast = |(name, value): &(String, Value)| {
        let value = match (&**name, value) {
            // Old files have these as numbers.
            ("step" | "eta" | "mu" | "mu_product", Value::Int(_) | Value::Float(_)) => {
                count_of(value)?
            }
            ("step", Value::Tensor(step)) => Value::Tensor(op::clone(step, None)?),
            _ => cast_like(parameter, value)?,
        };
        Ok((name.clone(), value))
    };
    Ok(ParameterState(entries.iter().map(cast).collect::<Result<_>>()?))
}

fn count_of(number: &Value) -> Result<Value> {
    let number = number.number().unwrap_or_default();
    let tensor = op::scalar_tensor(number.into(), Some(DType::Float32), None, None, None)?;
    Ok(Value::Tensor(tensor))
}

fn cast_like(parameter: &Tensor, value: &Value) -> Result<Value> {
    let all = |values: &[Value]| {
        values.iter().map(|value| cast_like(parameter, value)).collect::<Result<Vec<_>>>()
    };
    Ok(match value {
        Value::Tensor(tensor) => {
            let floating = parameter.dtype().is_floating_point();
            let dtype = if floating { parameter.dtype() } else { tensor.dtype() };
            Value::Tensor(op::to_device(tensor, parameter.device(), dtype, false, true, None)?)
        }
        Value::Tuple(values) => Value::Tuple(all(values)?),
        Value::List(values) => Value::List(all(values)?),
        other => other.clone(),
    })
}

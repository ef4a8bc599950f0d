//! The state of a module as named tensors.

use crate::ext::ModuleExt;
use crate::module::{Item, Module};
use corten_autograd::no_grad;
use corten_core::{Result, bail};
use corten_ops::{Tensor, op};
use std::collections::{HashMap, HashSet};
use std::fmt;

/// Named tensors in the order of the module's parts.
pub type StateDict = Vec<(String, Tensor)>;

/// The names that a load found on one side only.
///
/// ```
/// use corten::nn::Linear;
/// use corten::prelude::*;
///
/// let layer = Linear::new(2, 2)?;
/// let report = layer.load_state_dict([("other", op::zeros(&[1], None, None, None, None)?)], false)?;
/// assert_eq!(report.missing, ["weight", "bias"]);
/// assert_eq!(report.unexpected, ["other"]);
/// # Ok::<(), corten::Error>(())
/// ```
#[derive(Debug, Default, PartialEq, Eq)]
pub struct LoadReport {
    /// Names of the module without a tensor.
    pub missing: Vec<String>,
    /// Names of tensors without a place in the module.
    pub unexpected: Vec<String>,
}

impl fmt::Display for LoadReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.missing.is_empty() && self.unexpected.is_empty() {
            return f.write_str("<All keys matched successfully>");
        }
        write!(
            f,
            "IncompatibleKeys(missing_keys={}, unexpected_keys={})",
            list(&self.missing, '\''),
            list(&self.unexpected, '\'')
        )
    }
}

fn list(names: &[String], quote: char) -> String {
    format!("[{}]", quoted(names, quote))
}

fn quoted(names: &[String], quote: char) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("{quote}{name}{quote}")).collect();
    quoted.join(", ")
}

pub(crate) fn state_dict<M: Module + ?Sized>(module: &M, prefix: &str) -> Result<StateDict> {
    let named = tensors(module).into_iter();
    named.map(|(name, tensor)| Ok((format!("{prefix}{name}"), op::detach(&tensor)?))).collect()
}

/// What a load is to copy, and what is in its way.
#[derive(Default)]
struct Plan {
    copies: Vec<(Tensor, Tensor)>,
    report: LoadReport,
    mismatches: Vec<String>,
}

pub(crate) fn load_state_dict<M, N>(
    module: &M,
    state: impl IntoIterator<Item = (N, Tensor)>,
    strict: bool,
) -> Result<LoadReport>
where
    M: Module + ?Sized,
    N: AsRef<str>,
{
    let given: Vec<(String, Tensor)> =
        state.into_iter().map(|(name, tensor)| (name.as_ref().to_owned(), tensor)).collect();
    materialize(module, &given)?;
    let plan = compare(&tensors(module), &given)?;
    let mut errors = Vec::new();
    let LoadReport { missing, unexpected } = &plan.report;
    if strict && !missing.is_empty() {
        errors.push(format!("Missing key(s) in state_dict: {}. ", quoted(missing, '"')));
    }
    if strict && !unexpected.is_empty() {
        errors.push(format!("Unexpected key(s) in state_dict: {}. ", quoted(unexpected, '"')));
    }
    errors.extend(plan.mismatches);
    if !errors.is_empty() {
        let name = module.target().name();
        bail!(Runtime, "Error(s) in loading state_dict for {name}:\n\t{}", errors.join("\n\t"));
    }
    no_grad(|| plan.copies.iter().try_for_each(|(to, from)| op::copy_(to, from, false).map(drop)))?;
    Ok(plan.report)
}

/// Gives modules whose shapes are still open those of the tensors.
fn materialize<M: Module + ?Sized>(module: &M, given: &[(String, Tensor)]) -> Result<()> {
    let shapes: HashMap<&str, &Tensor> = given.iter().map(|(name, t)| (&**name, t)).collect();
    for (path, module) in module.named_modules() {
        module.materialize(&|name| {
            let path = if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
            shapes.get(&*path).map(|tensor| tensor.sizes().as_slice().to_vec())
        })?;
    }
    Ok(())
}

fn compare(own: &[(String, Tensor)], given: &[(String, Tensor)]) -> Result<Plan> {
    let places: HashMap<&str, &Tensor> = own.iter().map(|(name, t)| (&**name, t)).collect();
    let mut plan = Plan::default();
    let mut known = HashSet::new();
    for (name, value) in given {
        let Some(place) = places.get(&**name) else {
            plan.report.unexpected.push(name.clone());
            continue;
        };
        known.insert(&**name);
        // Files of old versions hold numbers as vectors of one element.
        let is_number = place.dim() == 0 && value.dim() == 1 && value.numel() > 0;
        let value = if is_number { op::select_int(value, 0, 0)? } else { value.clone() };
        if place.sizes() == value.sizes() {
            plan.copies.push(((*place).clone(), value));
        } else {
            plan.mismatches.push(format!(
                "size mismatch for {name}: copying a param with shape torch.Size({:?}) from checkpoint, the shape in current model is torch.Size({:?}).",
                value.sizes().as_slice(),
                place.sizes().as_slice()
            ));
        }
    }
    // Files of the first version of batch normalisation have no counter.
    let is_counter = |name: &str| name.rsplit('.').next() == Some("num_batches_tracked");
    let missing = own.iter().map(|(name, _)| name).filter(|name| !known.contains(&***name));
    plan.report.missing = missing.filter(|name| !is_counter(name)).cloned().collect();
    Ok(plan)
}

fn tensors<M: Module + ?Sized>(module: &M) -> StateDict {
    let persistent = |(path, item)| match item {
        Item::Parameter(tensor) => Some((path, (**tensor).clone())),
        Item::Buffer(tensor) if tensor.is_persistent() => Some((path, (**tensor).clone())),
        _ => None,
    };
    module.items().into_iter().filter_map(persistent).collect()
}

//! The state of a module as named tensors.

use crate::module::{Item, ModuleExt};
use corten_autograd::no_grad;
use corten_core::{Result, bail, ensure};
use corten_ops::{Tensor, op};

/// Named tensors in the order of the module's parts.
pub type StateDict = Vec<(String, Tensor)>;

/// The names that a load found on one side only.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct LoadReport {
    /// Names of the module without a tensor.
    pub missing: Vec<String>,
    /// Names of tensors without a place in the module.
    pub unexpected: Vec<String>,
}

pub(crate) fn state_dict<M: ModuleExt + ?Sized>(module: &M) -> Result<StateDict> {
    tensors(module).into_iter().map(|(name, tensor)| Ok((name, op::detach(&tensor)?))).collect()
}

pub(crate) fn load_state_dict<M, N>(
    module: &M,
    state: impl IntoIterator<Item = (N, Tensor)>,
    strict: bool,
) -> Result<LoadReport>
where
    M: ModuleExt + ?Sized,
    N: AsRef<str>,
{
    let own = tensors(module);
    let mut report = LoadReport::default();
    let mut pairs: Vec<(usize, Tensor)> = Vec::new();
    for (name, value) in state {
        let name = name.as_ref();
        let Some(place) = own.iter().position(|(known, _)| known == name) else {
            report.unexpected.push(name.to_owned());
            continue;
        };
        let held = &own[place].1;
        ensure!(
            held.sizes() == value.sizes(),
            Runtime,
            "size mismatch for {name}: copying a param with shape {:?} from checkpoint, the shape in current model is {:?}.",
            value.sizes().as_slice(),
            held.sizes().as_slice()
        );
        pairs.push((place, value));
    }
    let given = |place: usize| pairs.iter().any(|(known, _)| *known == place);
    report.missing =
        (0..own.len()).filter(|place| !given(*place)).map(|place| own[place].0.clone()).collect();
    if strict && report != LoadReport::default() {
        bail!(
            Runtime,
            "Error(s) in loading state_dict: missing key(s) {:?}, unexpected key(s) {:?}",
            report.missing,
            report.unexpected
        );
    }
    no_grad(|| {
        pairs
            .iter()
            .try_for_each(|(place, value)| op::copy_(&own[*place].1, value, false).map(drop))
    })?;
    Ok(report)
}

fn tensors<M: ModuleExt + ?Sized>(module: &M) -> StateDict {
    let mut found = Vec::new();
    module.walk(&mut |path, item| match item {
        Item::Parameter(tensor) => found.push((path.to_owned(), (**tensor).clone())),
        Item::Buffer(tensor) => found.push((path.to_owned(), (**tensor).clone())),
        Item::Mode(_) => {}
    });
    found
}

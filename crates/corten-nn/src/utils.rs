//! Parameters as one vector, and back.

use corten_autograd::{Autograd, no_grad};
use corten_core::{Result, ensure};
use corten_ops::{Tensor, op};

/// All parameters, flattened, one behind the other.
///
/// # Errors
/// `Type` for parameters on different devices, and those of the operators.
#[doc = example!("let layer = Linear::new(2, 3)?;
let flat = utils::parameters_to_vector(&layer.parameters())?;
assert_eq!(flat.sizes().as_slice(), [9]);
utils::vector_to_parameters(&(flat * 0.0)?, &layer.parameters())?;
assert_eq!(layer.bias.as_ref().unwrap().to_vec::<f32>()?, [0.0, 0.0, 0.0]);")]
pub fn parameters_to_vector(parameters: &[Tensor]) -> Result<Tensor> {
    let device = parameters.first().map(|parameter| parameter.device());
    ensure!(
        parameters.iter().all(|parameter| Some(parameter.device()) == device),
        Type,
        "Found two parameters on different devices, this is currently not supported."
    );
    let flat = parameters.iter().map(|parameter| op::reshape(parameter, &[-1]));
    op::cat(&flat.collect::<Result<Vec<_>>>()?, 0)
}

/// Gives parameters the elements of a vector, of which they become views.
///
/// # Errors
/// `Runtime` for a vector that is too short.
pub fn vector_to_parameters(vector: &Tensor, parameters: &[Tensor]) -> Result<()> {
    let mut start = 0;
    for parameter in parameters {
        let count = parameter.numel();
        let piece = no_grad(|| op::view_as(&op::narrow(vector, 0, start, count)?, parameter))?;
        parameter.set_data(&op::detach(&piece)?)?;
        start += count;
    }
    Ok(())
}

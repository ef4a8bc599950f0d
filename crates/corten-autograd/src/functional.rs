//! Derivatives of functions of tensors.

use crate::api::{self, BackwardOptions};
use crate::graph;
use crate::tensor_ext::Autograd;
use crate::transform;
use corten_core::{InferenceModeGuard, Result, Scalar, ensure, try_with_capacity};
use corten_ops::{Tensor, op};

/// A function of one tensor.
///
/// ```
/// use corten::autograd::functional;
/// use corten::prelude::*;
///
/// # fn main() -> Result<()> {
/// let square = |x: &Tensor| x * x;
/// let (value, slope) = functional::vjp(square, &tensor![3.0]?, &tensor![1.0]?)?;
/// assert_eq!((value.to_vec::<f32>()?, slope.to_vec::<f32>()?), (vec![9.0], vec![6.0]));
/// # Ok(())
/// # }
/// ```
pub trait Map: Fn(&Tensor) -> Result<Tensor> {}

impl<F: Fn(&Tensor) -> Result<Tensor>> Map for F {}

const CREATE: BackwardOptions = BackwardOptions { retain_graph: None, create_graph: true };

/// Runs `body` recorded, in inference mode too.
fn recorded<R>(body: impl FnOnce() -> Result<R>) -> Result<R> {
    let _mode = InferenceModeGuard::new(false);
    let _transform = transform::Active::new();
    body()
}

/// A fresh leaf with the value of `input`, and the value of `function` there.
fn evaluate(function: &impl Map, input: &Tensor) -> Result<(Tensor, Tensor)> {
    let leaf = graph::detached_alias(&transform::recordable(input)?)?.requires_grad_(true)?;
    let output = function(&leaf)?;
    Ok((leaf, output))
}

/// The gradient of `output`, or zeros where it does not depend on `input`.
fn pull(output: &Tensor, input: &Tensor, cotangent: &Tensor) -> Result<Tensor> {
    if !graph::requires_grad(output) {
        return crate::formulas::any::zeros_like(input);
    }
    let cotangent = [Some(cotangent.clone())];
    let outputs = std::slice::from_ref(output);
    let inputs = std::slice::from_ref(input);
    let found = api::grad(outputs, inputs, Some(&cotangent), CREATE, Some(true), true)?;
    Ok(found.into_iter().flatten().next().unwrap_or_default())
}

/// The value of `function` at `input`, and the product of `cotangent` with its Jacobian.
///
/// # Errors
/// Those of `function` and of its gradient.
pub fn vjp(function: impl Map, input: &Tensor, cotangent: &Tensor) -> Result<(Tensor, Tensor)> {
    recorded(|| {
        let (leaf, output) = evaluate(&function, input)?;
        let product = pull(&output, &leaf, cotangent)?;
        Ok((op::detach(&output)?, op::detach(&product)?))
    })
}

/// The value of `function` at `input`, and the product of its Jacobian with `tangent`.
///
/// The gradient is linear in the cotangent, and its own gradient with respect to that is this
/// product: two backward passes make one forward derivative.
///
/// # Errors
/// Those of `function` and of its gradients.
pub fn jvp(function: impl Map, input: &Tensor, tangent: &Tensor) -> Result<(Tensor, Tensor)> {
    ensure!(
        tangent.sizes() == input.sizes(),
        Runtime,
        "v has invalid size: should be {:?} but got {:?}.",
        input.sizes(),
        tangent.sizes()
    );
    recorded(|| {
        let (leaf, output) = evaluate(&function, input)?;
        let cotangent = crate::formulas::any::zeros_like(&output)?.requires_grad_(true)?;
        let gradient = pull(&output, &leaf, &cotangent)?;
        let product = pull(&gradient, &cotangent, tangent)?;
        Ok((op::detach(&output)?, op::detach(&product)?))
    })
}

/// The Jacobian of `function` at `input`: the sizes of the output, then those of the input.
///
/// # Errors
/// Those of `function` and of its gradient.
pub fn jacobian(function: impl Map, input: &Tensor) -> Result<Tensor> {
    recorded(|| {
        let (leaf, output) = evaluate(&function, input)?;
        op::detach(&jacobian_of(&output, &leaf)?)
    })
}

fn jacobian_of(output: &Tensor, input: &Tensor) -> Result<Tensor> {
    let count = output.numel();
    let mut rows = try_with_capacity(count as usize)?;
    for row in 0..count {
        let zeros = op::new_zeros(output, &[count], None, None, None, None)?;
        let place = op::narrow(&zeros, 0, row, 1)?;
        op::fill__scalar(&place, Scalar::Int(1))?;
        let cotangent = op::view(&zeros, &output.sizes())?;
        rows.push(pull(output, input, &cotangent)?);
    }
    let mut sizes = output.sizes();
    sizes.extend_from_slice(&input.sizes());
    if rows.is_empty() {
        return op::new_zeros(input, &sizes, None, None, None, None);
    }
    op::reshape(&op::stack(&rows, 0)?, &sizes)
}

/// The matrix of second derivatives of a scalar function: the sizes of the input twice.
///
/// # Errors
/// When the function is not scalar, and those of the function and its gradients.
pub fn hessian(function: impl Map, input: &Tensor) -> Result<Tensor> {
    jacobian(|leaf: &Tensor| gradient_at(&function, leaf), input)
}

/// The product of the matrix of second derivatives with `vector`.
///
/// # Errors
/// As [`hessian`].
pub fn hvp(function: impl Map, input: &Tensor, vector: &Tensor) -> Result<Tensor> {
    vjp(|leaf: &Tensor| gradient_at(&function, leaf), input, vector).map(|(_, product)| product)
}

/// The gradient of a scalar function, recorded.
fn gradient_at(function: &impl Map, leaf: &Tensor) -> Result<Tensor> {
    let output = function(leaf)?;
    ensure!(
        output.numel() == 1,
        Runtime,
        "The output of the user-provided function should contain a single element"
    );
    let one = op::ones_like(&output, None, None, None, None, None)?;
    pull(&output, leaf, &one)
}

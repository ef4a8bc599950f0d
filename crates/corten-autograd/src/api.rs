//! `backward` and `grad`.

use crate::batched;
use crate::engine::{self, Request};
use crate::graph;
use crate::node::{Edge, Grads};
use crate::tensor_ext::Autograd;
use corten_core::{Layout, MemoryFormat, Result, bail, ensure};
use corten_ops::{Tensor, op};

/// How a backward pass treats the graph.
///
/// ```
/// use corten::autograd::BackwardOptions;
/// use corten::prelude::*;
///
/// # fn main() -> Result<()> {
/// let x = tensor![3.0]?.requires_grad_(true)?;
/// let y = (&x * &x)?;
/// let keep = BackwardOptions { retain_graph: Some(true), ..Default::default() };
/// y.backward_with(None, keep)?;
/// y.backward_with(None, keep)?;
/// assert_eq!(x.grad().unwrap_or_default().to_vec::<f32>()?, [12.0]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct BackwardOptions {
    /// Keeps what the graph saved, so that it can be walked again. Default: as `create_graph`.
    pub retain_graph: Option<bool>,
    /// Records the pass, for derivatives of higher order.
    pub create_graph: bool,
}

impl BackwardOptions {
    fn keep_graph(self) -> bool {
        self.retain_graph.unwrap_or(self.create_graph)
    }
}

/// Accumulates the gradients of `tensors` into the leaves they depend on, or into `inputs` only.
///
/// `grad_tensors` holds the gradient with respect to each of `tensors`; `None`, also for all, is
/// allowed for scalars and stands for one.
///
/// # Errors
/// When a tensor requires no gradient, a gradient does not fit its tensor, `inputs` is empty, the
/// graph was freed, or a gradient function fails.
pub fn backward(
    tensors: &[Tensor],
    grad_tensors: Option<&[Option<Tensor>]>,
    options: BackwardOptions,
    inputs: Option<&[Tensor]>,
) -> Result<()> {
    ensure!(
        batched::highest(tensors.iter()).is_none(),
        Runtime,
        "backward() called inside a functorch transform. This is not supported, please use \
         functorch.grad or functorch.vjp instead or call backward() outside of functorch \
         transforms."
    );
    let roots = root_edges(tensors)?;
    let grads = make_grads(tensors, grad_tensors)?;
    let outputs = match inputs {
        Some([]) => bail!(Runtime, "`inputs` argument to `backward()` cannot be empty."),
        Some(inputs) => accumulation_edges(inputs)?,
        None => Vec::new(),
    };
    engine::execute(Request {
        roots,
        grads,
        keep_graph: options.keep_graph(),
        create_graph: options.create_graph,
        accumulate: true,
        outputs: &outputs,
    })?;
    Ok(())
}

/// The gradients of `outputs` with respect to `inputs`, without touching `.grad`.
///
/// An input that the outputs do not depend on gives `None`, which must be allowed, or zeros with
/// `materialize_grads`.
///
/// # Errors
/// As [`backward`], and for unused inputs that are not allowed.
pub fn grad(
    outputs: &[Tensor],
    inputs: &[Tensor],
    grad_outputs: Option<&[Option<Tensor>]>,
    options: BackwardOptions,
    allow_unused: Option<bool>,
    materialize_grads: bool,
) -> Result<Vec<Option<Tensor>>> {
    ensure!(
        !(materialize_grads && allow_unused == Some(false)),
        Value,
        "Expected allow_unused to be True or not passed when materialize_grads=True, but got: \
         allow_unused=False."
    );
    ensure!(!inputs.is_empty(), Value, "grad requires non-empty inputs.");
    if let Some(level) = batched::highest(outputs.iter().chain(inputs)) {
        return batched::grad_at(
            level,
            outputs,
            inputs,
            grad_outputs,
            options,
            allow_unused,
            materialize_grads,
        );
    }
    let allow_unused = allow_unused.unwrap_or(materialize_grads);
    let roots = root_edges(outputs)?;
    let grads = make_grads(outputs, grad_outputs)?;
    let edges = inputs.iter().map(input_edge).collect::<Result<Vec<_>>>()?;
    let captured = engine::execute(Request {
        roots,
        grads,
        keep_graph: options.keep_graph(),
        create_graph: options.create_graph,
        accumulate: false,
        outputs: &edges,
    })?;
    let captured = captured.into_iter().chain(std::iter::repeat_with(Tensor::undefined));
    let finish = |(index, (grad, input)): (usize, (Tensor, &Tensor))| {
        finish_grad(index, grad, input, allow_unused, materialize_grads)
    };
    captured.zip(inputs).enumerate().map(finish).collect()
}

fn finish_grad(
    index: usize,
    grad: Tensor,
    input: &Tensor,
    allow_unused: bool,
    materialize: bool,
) -> Result<Option<Tensor>> {
    if grad.defined() {
        return Ok(Some(grad));
    }
    ensure!(
        allow_unused,
        Runtime,
        "The differentiated Tensor at index {index} appears to not have been used in the graph. \
         Set allow_unused=True if this is the desired behavior."
    );
    if !materialize {
        return Ok(None);
    }
    let zeros = op::zeros_like(input, None, None, None, None, None)?;
    zeros.set_requires_grad_flag(true)?;
    Ok(Some(zeros))
}

/// An unreachable edge is not an error yet: it is a gradient that stays undefined.
fn input_edge(input: &Tensor) -> Result<Edge> {
    let edge = graph::gradient_edge(input)?;
    if edge.is_valid() {
        return Ok(edge);
    }
    bail!(Runtime, "One of the differentiated Tensors does not require grad")
}

/// `backward(inputs=…)` accumulates into non-leaves by retaining their gradients.
fn accumulation_edges(inputs: &[Tensor]) -> Result<Vec<Edge>> {
    let edge = |input: &Tensor| {
        if !graph::is_leaf(input) || !graph::requires_grad(input) {
            crate::retain_grad(input)?;
        }
        graph::gradient_edge(input)
    };
    inputs.iter().map(edge).collect()
}

fn root_edges(tensors: &[Tensor]) -> Result<Vec<Edge>> {
    let root = |(index, tensor): (usize, &Tensor)| {
        let edge = graph::gradient_edge(tensor)?;
        ensure!(
            edge.is_valid(),
            Runtime,
            "element {index} of tensors does not require grad and does not have a grad_fn"
        );
        Ok(edge)
    };
    tensors.iter().enumerate().map(root).collect()
}

fn make_grads(tensors: &[Tensor], grads: Option<&[Option<Tensor>]>) -> Result<Grads> {
    let Some(grads) = grads else {
        return tensors.iter().map(implicit_grad).collect();
    };
    ensure!(
        grads.len() == tensors.len(),
        Runtime,
        "got {} tensors and {} gradients",
        tensors.len(),
        grads.len()
    );
    let make = |(index, (tensor, grad)): (usize, (&Tensor, &Option<Tensor>))| match grad {
        Some(grad) => explicit_grad(index, tensor, grad),
        None if graph::requires_grad(tensor) => implicit_grad(tensor),
        None => Ok(Tensor::undefined()),
    };
    tensors.iter().zip(grads).enumerate().map(make).collect()
}

fn implicit_grad(tensor: &Tensor) -> Result<Tensor> {
    ensure!(tensor.numel() == 1, Runtime, "grad can be implicitly created only for scalar outputs");
    ensure!(
        tensor.dtype().is_floating_point(),
        Runtime,
        "grad can be implicitly created only for real scalar outputs but got torch.{}",
        tensor.dtype().name()
    );
    op::ones_like(tensor, None, None, None, Some(false), Some(MemoryFormat::Preserve))
}

fn explicit_grad(index: usize, tensor: &Tensor, grad: &Tensor) -> Result<Tensor> {
    if !grad.defined() {
        return Ok(grad.clone());
    }
    let strided = grad.layout() == Layout::Strided && tensor.layout() == Layout::Strided;
    ensure!(
        !strided || grad.sizes() == tensor.sizes(),
        Runtime,
        "Mismatch in shape: grad_output[{index}] has a shape of torch.Size({}) and \
         output[{index}] has a shape of torch.Size({}).",
        crate::saved::display_sizes(&grad.sizes()),
        crate::saved::display_sizes(&tensor.sizes())
    );
    ensure!(
        grad.dtype().is_complex() == tensor.dtype().is_complex(),
        Runtime,
        "For complex Tensors, both grad_output and output are required to have the same dtype. \
         Mismatch in dtype: grad_output[{index}] has a dtype of torch.{} and output[{index}] has a \
         dtype of torch.{}.",
        grad.dtype().name(),
        tensor.dtype().name()
    );
    Ok(grad.clone())
}

//! Functions with gradients written by users.

use crate::backward::Backward;
use crate::graph;
use crate::inplace::rebase_history;
use crate::node::{Edge, Grads, InputMetadata, Node, NodeBody, NodeRef, WeakNode};
use crate::saved::{SavedVariable, freed_graph};
use crate::tensor_ext::{detach_in_place, view_as_self};
use crate::view::{self, CreationMeta};
use corten_core::{DType, Device, Dims, GradModeGuard, Result, bail, ensure};
use corten_ops::{Tensor, op};
use std::any::Any;
use std::borrow::Cow;
use std::sync::{Arc, Mutex, PoisonError};

/// A differentiable function written by hand.
///
/// `forward` runs without recording; `backward` returns one gradient per input, undefined where
/// there is none.
///
/// ```
/// # use corten_autograd::{Autograd, function::{Context, Function, apply}};
/// # use corten_core::Result;
/// # use corten_ops::Tensor;
/// struct Square;
///
/// impl Function for Square {
///     fn forward(&self, ctx: &mut Context, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
///         ctx.save_for_backward(inputs);
///         Ok(vec![(&inputs[0] * &inputs[0])?])
///     }
///
///     fn backward(&self, ctx: &Context, grads: &[Tensor]) -> Result<Vec<Tensor>> {
///         let saved = ctx.saved_tensors()?;
///         Ok(vec![(&grads[0] * 2.0 * &saved[0])?])
///     }
/// }
/// ```
pub trait Function: Send + Sync + 'static {
    /// The name in the graph, before `Backward`.
    fn name(&self) -> &str {
        let name = std::any::type_name::<Self>();
        name.rsplit("::").next().unwrap_or(name)
    }

    /// Computes the outputs.
    ///
    /// # Errors
    /// The function's own.
    fn forward(&self, ctx: &mut Context, inputs: &[Tensor]) -> Result<Vec<Tensor>>;

    /// Computes the gradients of the inputs from those of the outputs.
    ///
    /// # Errors
    /// The function's own.
    fn backward(&self, ctx: &Context, grads: &[Tensor]) -> Result<Vec<Tensor>>;
}

/// What one call of a [`Function`] shares between its two directions.
///
/// ```
/// use corten::autograd::function::{Context, Function, apply};
/// use corten::prelude::*;
///
/// # fn main() -> Result<()> {
/// /// `x³`, whose derivative is written by hand.
/// struct Cube;
///
/// impl Function for Cube {
///     fn forward(&self, ctx: &mut Context, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
///         ctx.save_for_backward(inputs);
///         Ok(vec![(&inputs[0] * &inputs[0] * &inputs[0])?])
///     }
///
///     fn backward(&self, ctx: &Context, grads: &[Tensor]) -> Result<Vec<Tensor>> {
///         let saved = ctx.saved_tensors()?;
///         Ok(vec![(&grads[0] * 3.0 * &saved[0] * &saved[0])?])
///     }
/// }
///
/// let x = tensor![2.0]?.requires_grad_(true)?;
/// apply(Cube, &[x.clone()])?[0].backward()?;
/// assert_eq!(x.grad().unwrap_or_default().to_vec::<f32>()?, [12.0]);
/// # Ok(())
/// # }
/// ```
pub struct Context {
    to_save: Vec<Tensor>,
    saved: Mutex<Option<Vec<SavedVariable>>>,
    dirty: Vec<Tensor>,
    non_differentiable: Vec<Tensor>,
    materialize_grads: bool,
    needs_input_grad: Vec<bool>,
    node: std::sync::OnceLock<WeakNode>,
    data: Mutex<Option<Arc<dyn Any + Send + Sync>>>,
}

impl Context {
    fn new(needs_input_grad: Vec<bool>) -> Self {
        Self {
            to_save: Vec::new(),
            saved: Mutex::new(None),
            dirty: Vec::new(),
            non_differentiable: Vec::new(),
            materialize_grads: true,
            needs_input_grad,
            node: std::sync::OnceLock::new(),
            data: Mutex::new(None),
        }
    }

    /// Keeps inputs and outputs for the backward pass.
    pub fn save_for_backward(&mut self, tensors: &[Tensor]) {
        self.to_save = tensors.to_vec();
    }

    /// Says which inputs the function modifies in place. They must be returned.
    pub fn mark_dirty(&mut self, tensors: &[Tensor]) {
        self.dirty = tensors.to_vec();
    }

    /// Says which outputs have no gradient.
    pub fn mark_non_differentiable(&mut self, tensors: &[Tensor]) {
        self.non_differentiable = tensors.to_vec();
    }

    /// Whether undefined gradients become zeros before `backward` sees them. Default: yes.
    pub fn set_materialize_grads(&mut self, materialize: bool) {
        self.materialize_grads = materialize;
    }

    /// Which inputs require a gradient.
    pub fn needs_input_grad(&self) -> &[bool] {
        &self.needs_input_grad
    }

    /// What `forward` saved.
    ///
    /// # Errors
    /// When the graph was freed, or a tensor was modified in place since.
    pub fn saved_tensors(&self) -> Result<Vec<Tensor>> {
        let saved = self.saved.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let Some(saved) = saved else { return Err(freed_graph()) };
        let node = self.node.get().and_then(WeakNode::upgrade);
        saved.iter().map(|variable| variable.unpack_for_user(node.as_ref())).collect()
    }

    /// Keeps any other value for the backward pass.
    pub fn set_data(&self, data: impl Any + Send + Sync) {
        *self.data.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(data));
    }

    /// The value of [`set_data`](Self::set_data).
    pub fn data<T: Any + Send + Sync>(&self) -> Option<Arc<T>> {
        let data = self.data.lock().unwrap_or_else(PoisonError::into_inner).clone();
        data?.downcast().ok()
    }
}

/// Calls a function and records it.
///
/// # Errors
/// Those of `forward`, and for in-place writes that cannot be recorded.
pub fn apply<F: Function>(function: F, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
    let needs: Vec<bool> = inputs.iter().map(|input| graph::requires_grad(input)).collect();
    let recorded = corten_core::grad_mode_enabled() && needs.contains(&true);
    let pending = recorded.then(|| PendingNode::new(inputs)).transpose()?;
    let mut ctx = Context::new(needs);
    let outputs = {
        let _mode = GradModeGuard::new(false);
        function.forward(&mut ctx, inputs)?
    };
    let effects = Effects {
        dirty: std::mem::take(&mut ctx.dirty),
        non_differentiable: std::mem::take(&mut ctx.non_differentiable),
    };
    let to_save = std::mem::take(&mut ctx.to_save);
    let Some(pending) = pending else {
        return wrap_outputs(inputs, outputs, &effects, None).map(|(outputs, _)| outputs);
    };
    let ctx = Arc::new(ctx);
    let body = FunctionNode {
        ctx: ctx.clone(),
        function,
        shapes: outputs.iter().map(OutputShape::of).collect(),
    };
    let raw = outputs.clone();
    let (outputs, node) = wrap_outputs(inputs, outputs, &effects, Some((pending, Box::new(body))))?;
    if let Some(node) = node {
        let _ = ctx.node.set(node.downgrade());
        let saved = to_save.iter().map(|tensor| save(tensor, &raw, &outputs));
        *ctx.saved.lock().unwrap_or_else(PoisonError::into_inner) =
            Some(saved.collect::<Result<_>>()?);
    }
    Ok(outputs)
}

/// An output is kept as such, so that it does not keep its own node alive.
fn save(tensor: &Tensor, raw: &[Tensor], outputs: &[Tensor]) -> Result<SavedVariable> {
    match raw.iter().position(|output| output.is_same(tensor)) {
        Some(index) if !graph::is_leaf(&outputs[index]) => {
            SavedVariable::output(&outputs[index], graph::output_nr(&outputs[index]))
        }
        _ => SavedVariable::input(tensor),
    }
}

/// What zeros in place of an undefined gradient look like.
struct OutputShape {
    sizes: Dims,
    dtype: DType,
    device: Device,
}

impl OutputShape {
    fn of(output: &Tensor) -> Option<Self> {
        output.defined().then(|| Self {
            sizes: output.sizes(),
            dtype: output.dtype(),
            device: output.device(),
        })
    }
}

/// The node of a call of a [`Function`].
struct FunctionNode<F> {
    ctx: Arc<Context>,
    function: F,
    shapes: Vec<Option<OutputShape>>,
}

impl<F: Function> FunctionNode<F> {
    fn materialize(&self, grads: &mut Grads) -> Result<()> {
        for (grad, shape) in grads.iter_mut().zip(&self.shapes).filter(|(grad, _)| !grad.defined())
        {
            if let Some(shape) = shape {
                *grad = op::zeros(&shape.sizes, Some(shape.dtype), None, Some(shape.device), None)?;
            }
        }
        Ok(())
    }
}

impl<F: Function> NodeBody for FunctionNode<F> {
    fn name(&self) -> Cow<'_, str> {
        Cow::Owned(format!("{}Backward", self.function.name()))
    }

    fn apply(&self, ctx: &Backward<'_>, mut grads: Grads) -> Result<Grads> {
        if self.ctx.materialize_grads {
            self.materialize(&mut grads)?;
        }
        let mut results = self.function.backward(&self.ctx, &grads)?;
        check_gradient_count(&self.name(), &mut results, ctx.node().num_outputs())?;
        Ok(results.into())
    }

    fn release(&self) {
        let saved = self.ctx.saved.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(saved);
    }

    fn wants_undefined(&self) -> bool {
        true
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// Drops trailing undefined gradients beyond `expected`.
///
/// # Errors
/// When the number differs otherwise.
pub fn check_gradient_count(name: &str, grads: &mut Vec<Tensor>, expected: usize) -> Result<()> {
    while grads.len() > expected && grads.last().is_some_and(|grad| !grad.defined()) {
        grads.pop();
    }
    ensure!(
        grads.len() == expected,
        Runtime,
        "function {name} returned an incorrect number of gradients (expected {expected}, got {})",
        grads.len()
    );
    Ok(())
}

/// The edges of a user function's inputs, collected before it runs and may modify them.
///
/// ```
/// use corten::autograd::function::PendingNode;
/// use corten::prelude::*;
///
/// # fn main() -> Result<()> {
/// let inputs = [tensor![1.0]?];
/// let pending = PendingNode::new(&inputs)?;
/// drop(pending);
/// # Ok(())
/// # }
/// ```
pub struct PendingNode {
    edges: Vec<Edge>,
}

impl PendingNode {
    /// Collects the edges.
    ///
    /// # Errors
    /// For inputs that are views which may no longer be used.
    pub fn new(inputs: &[Tensor]) -> Result<Self> {
        let edges = inputs.iter().map(graph::gradient_edge).collect::<Result<_>>()?;
        Ok(Self { edges })
    }
}

/// What a user function did to its inputs and outputs.
///
/// ```
/// use corten::autograd::function::{Effects, wrap_outputs};
/// use corten::prelude::*;
///
/// # fn main() -> Result<()> {
/// let x = tensor![1.0]?;
/// let effects = Effects { dirty: vec![x.clone()], ..Default::default() };
/// let (outputs, node) = wrap_outputs(&[x.clone()], vec![x.clone()], &effects, None)?;
/// assert!(outputs[0].is_same(&x) && node.is_none());
/// # Ok(())
/// # }
/// ```
#[derive(Default)]
pub struct Effects {
    /// Inputs that were modified in place.
    pub dirty: Vec<Tensor>,
    /// Outputs without a gradient.
    pub non_differentiable: Vec<Tensor>,
}

fn contains(tensors: &[Tensor], tensor: &Tensor) -> bool {
    tensors.iter().any(|other| other.is_same(tensor))
}

/// Attaches the outputs of a user function to a node, and returns both. Without a node nothing is
/// recorded, but outputs that are inputs still become aliases.
///
/// # Errors
/// For in-place writes that cannot be recorded.
pub fn wrap_outputs(
    inputs: &[Tensor],
    outputs: Vec<Tensor>,
    effects: &Effects,
    recorded: Option<(PendingNode, Box<dyn NodeBody>)>,
) -> Result<(Vec<Tensor>, Option<NodeRef>)> {
    let differentiable: Vec<bool> = outputs
        .iter()
        .map(|output| {
            recorded.is_some()
                && output.defined()
                && !contains(&effects.non_differentiable, output)
                && graph::is_differentiable_type(output.dtype())
        })
        .collect();
    let mut wrapped = Vec::with_capacity(outputs.len());
    for (output, &differentiable) in outputs.into_iter().zip(&differentiable) {
        wrapped.push(alias_output(inputs, output, effects, differentiable)?);
    }
    let Some((pending, body)) = recorded else { return Ok((wrapped, None)) };
    let mut node = Node::custom(body);
    pending.edges.into_iter().for_each(|edge| node.add_edge(edge));
    for (output, &differentiable) in wrapped.iter().zip(&differentiable) {
        let metadata =
            if differentiable { InputMetadata::of(output) } else { InputMetadata::default() };
        node.inputs.push(metadata);
    }
    let node = node.share();
    for (nr, output) in wrapped.iter().enumerate().filter(|(nr, _)| differentiable[*nr]) {
        attach(output, &node, nr as u32, contains(&effects.dirty, output))?;
    }
    if differentiable.iter().filter(|&&differentiable| differentiable).count() > 1 {
        for output in &wrapped {
            view::set_creation_meta(output, CreationMeta::MultiOutputNode);
        }
    }
    Ok((wrapped, Some(node)))
}

/// An output that is an unmodified input becomes an alias, so that the input keeps its history.
fn alias_output(
    inputs: &[Tensor],
    output: Tensor,
    effects: &Effects,
    differentiable: bool,
) -> Result<Tensor> {
    if !output.defined() {
        return Ok(output);
    }
    let is_input = contains(inputs, &output);
    let is_dirty = contains(&effects.dirty, &output);
    if is_dirty && !is_input {
        corten_core::warn(
            "Only input Tensors should be given to ctx.mark_dirty(). If a Tensor is not an input, \
             there is no need to pass it to mark_dirty().",
        );
    }
    match (differentiable, is_input && !is_dirty) {
        (true, true) => view_as_self(&output),
        (false, true) if graph::requires_grad(&output) => graph::detached_alias(&output),
        (false, false) if !is_input && graph::requires_grad(&output) => {
            detach_in_place(&output)?;
            Ok(output)
        }
        _ => Ok(output),
    }
}

fn attach(output: &Tensor, node: &NodeRef, nr: u32, is_dirty: bool) -> Result<()> {
    if !is_dirty {
        graph::set_gradient_edge(output, node.clone(), nr)?;
        view::set_creation_meta(output, CreationMeta::InCustomFunction);
        return Ok(());
    }
    if graph::is_leaf(output) && graph::requires_grad(output) {
        if view::is_view(output) {
            bail!(
                Runtime,
                "a view of a leaf Variable that requires grad has been used in an in-place \
                 operation."
            );
        }
        bail!(
            Runtime,
            "a leaf Variable that requires grad has been used in an in-place operation."
        );
    }
    output.bump_version();
    rebase_history(output, node.clone(), nr)
}

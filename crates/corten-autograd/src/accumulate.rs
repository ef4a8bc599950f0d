//! The leaves of the graph: accumulation into `.grad`.

use crate::backward::Backward;
use crate::graph;
use crate::meta::{self, GradDType, Meta};
use crate::node::{Body, Grads, Node, NodeBody, WeakNode};
use corten_core::{Layout, Make, MemoryFormat, Result, SparseParts, TensorBase, Unshared, bail};
use corten_ops::{Tensor, op};
use std::any::Any;
use std::borrow::Cow;
use std::sync::{Arc, Mutex, PoisonError};

/// Adds what arrives to the gradient of a leaf.
///
/// The accumulator owns the leaf; the leaf knows its accumulator weakly.
pub(crate) struct AccumulateGrad {
    variable: Tensor,
    /// Backward passes of several threads may reach the same leaf.
    turn: Mutex<()>,
}

/// What an accumulator is made of: the leaf.
struct Leaf(Tensor);

impl Make<Node> for Leaf {
    #[inline(always)]
    fn make(self) -> Node {
        let body = AccumulateGrad { variable: self.0, turn: Mutex::new(()) };
        // The highest number: a gradient is accumulated as soon as it is complete.
        Node::bare(Body::Leaf(body), u64::MAX)
    }
}

impl AccumulateGrad {
    /// The accumulator of a leaf with this state, in the memory of the one before where that is left.
    pub(crate) fn node(variable: &Tensor, meta: &Meta, before: Option<WeakNode>) -> Unshared<Node> {
        let mut node = Node::made_again(before, Leaf(variable.clone()));
        let metadata = node.inputs.add();
        metadata.set_to(variable);
        match meta.grad_dtype() {
            GradDType::Fixed(dtype) => metadata.dtype = dtype,
            GradDType::Any => metadata.any_dtype = true,
            GradDType::Same => {}
        }
        node
    }

    pub(crate) fn variable(&self) -> &Tensor {
        &self.variable
    }
}

impl NodeBody for AccumulateGrad {
    fn name(&self) -> Cow<'_, str> {
        Cow::Borrowed("AccumulateGrad")
    }

    fn apply(&self, ctx: &Backward<'_>, grads: Grads) -> Result<Grads> {
        let Some(grad) = grads.into_iter().next().filter(|grad| grad.defined()) else {
            return Ok(Grads::new());
        };
        let meta = meta::get_or_init(&self.variable)?;
        if meta.has_grad_fn() {
            bail!(Runtime, "leaf variable has been moved into the graph interior");
        }
        if !meta.requires_grad_flag() {
            return Ok(Grads::new());
        }
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        // The engine keeps the incoming gradients for post-hooks.
        let holders = 1 + usize::from(ctx.node().has_post_hooks());
        accumulate(&self.variable, meta, grad, holders)?;
        if let Some(hooks) = meta.post_accumulate() {
            hooks.for_each(|hook| hook(&self.variable))?;
        }
        Ok(Grads::new())
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// Note [Stealing gradients]: a first gradient that nobody else holds becomes `.grad` itself,
/// without a copy, if its strides are those that the optimizer expects (the variable's own where
/// it is dense, else contiguous). With `create_graph` it is copied: the graph still refers to it.
fn accumulate(variable: &Tensor, meta: &Meta, grad: Tensor, holders: usize) -> Result<()> {
    let recording = corten_core::grad_mode_enabled();
    let Some(old) = meta.grad_tensor() else {
        let strided = grad.layout() == Layout::Strided;
        let unshared = grad.use_count() <= holders;
        let new = if !strided && !recording && unshared && owns_its_entries(&grad) {
            graph::detached_alias(&grad)?
        } else if !recording && strided && unshared && obeys_layout_contract(&grad, variable) {
            if grad.autograd_meta().is_some() { graph::detached_alias(&grad)? } else { grad }
        } else {
            clone_obeying_contract(&grad, variable)?
        };
        meta.replace_grad(Some(new));
        return Ok(());
    };
    let old_is_sparse = old.layout() != Layout::Strided;
    let new_is_sparse = grad.layout() != Layout::Strided;
    if recording || (old_is_sparse && !new_is_sparse) {
        let sum = if old_is_sparse && !new_is_sparse { &grad + &old } else { &old + &grad };
        meta.replace_grad(Some(sum?));
    } else {
        op::add__tensor(&old, &grad, 1_i64.into())?;
    }
    Ok(())
}

/// Whether nobody else holds the entries of a gradient in coordinate format, which lie densely.
fn owns_its_entries(grad: &Tensor) -> bool {
    let Some(parts) = grad.sparse_parts() else { return false };
    // One count is that of the tensor, one that of this function.
    let unshared = Arc::strong_count(&parts) <= 2;
    match &*parts {
        SparseParts::Coo(parts) => {
            let own = |part: &TensorBase| part.is_contiguous() && part.use_count() == 1;
            unshared && own(&parts.indices) && own(&parts.values)
        }
        SparseParts::Compressed(_) => false,
    }
}

fn obeys_layout_contract(grad: &Tensor, variable: &Tensor) -> bool {
    if !variable.is_non_overlapping_and_dense() {
        return grad.is_contiguous();
    }
    let (sizes, strides, wanted) = (grad.sizes(), grad.strides(), variable.strides());
    let same = |(dim, &size): (usize, &i64)| {
        if size == 1 { strides[dim] != 0 } else { strides[dim] == wanted[dim] }
    };
    sizes.iter().enumerate().all(same)
}

fn clone_obeying_contract(grad: &Tensor, variable: &Tensor) -> Result<Tensor> {
    if grad.layout() != Layout::Strided {
        return op::clone(grad, None);
    }
    let reversed = variable.strides().iter().any(|&stride| stride < 0);
    if !variable.is_non_overlapping_and_dense() || reversed {
        return op::clone(grad, Some(MemoryFormat::Contiguous));
    }
    let copy = op::new_empty_strided(
        grad,
        &variable.sizes(),
        &variable.strides(),
        None,
        None,
        None,
        None,
    )?;
    op::copy_(&copy, grad, false)
}

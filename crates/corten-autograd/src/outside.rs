//! Operators from outside the registry that have kernels but no derivative.
//!
//! Their kernels run with recording on, so that what they call may lead gradients further. Where it
//! does not, a result's gradient ends at a node that says so when it is reached.

use crate::backward::Backward;
use crate::graph;
use crate::node::{Grads, InputMetadata, Node, NodeBody, undefined_grads};
use crate::record;
use crate::tensor_ext::register_hook;
use corten_core::{Result, warn};
use corten_ops::dispatch::{BoxedCall, set_unrecorded};
use corten_ops::{Stack, Tensor};
use std::any::Any;
use std::borrow::Cow;
use std::sync::Arc;

/// Tells the dispatcher what to do with calls of such operators.
pub(crate) fn register() {
    set_unrecorded(call);
}

/// The end of a gradient's way.
struct NotDerived {
    operator: String,
}

impl NodeBody for NotDerived {
    fn name(&self) -> Cow<'_, str> {
        Cow::Borrowed("WarnNotImplemented")
    }

    fn apply(&self, ctx: &Backward<'_>, _grads: Grads) -> Result<Grads> {
        warn_of(&self.operator);
        Ok(undefined_grads(ctx.node().num_outputs()))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

fn warn_of(operator: &str) {
    warn(format!(
        "{operator}: an autograd kernel was not registered to the Autograd key(s) but we are trying \
         to backprop through it. This may lead to silently incorrect behavior. This behavior is \
         deprecated and will be removed in a future version of PyTorch. If your operator is \
         differentiable, please ensure you have registered an autograd kernel to the correct \
         Autograd key (e.g. DispatchKey::Autograd, DispatchKey::CompositeImplicitAutograd). If your \
         operator is not differentiable, or to squash this warning and use the previous behavior, \
         please register torch::CppFunction::makeFallthrough() to DispatchKey::Autograd."
    ));
}

/// Calls the operator's kernel, with inputs of which some require a gradient.
fn call(call: &BoxedCall, stack: &mut Stack, written: &[Tensor]) -> Result<()> {
    let mut node =
        Node::custom(Box::new(NotDerived { operator: call.op().def().qualified_name() }));
    let mut edges = Ok(());
    for value in stack.iter() {
        value.for_each_tensor(&mut |tensor| match graph::gradient_edge(tensor) {
            Ok(edge) if graph::requires_grad(tensor) => node.add_edge(edge),
            Ok(_) => {}
            Err(error) => edges = Err(error),
        });
    }
    edges?;
    call.redispatch(stack)?;
    record::bump(&written.iter().collect::<Vec<_>>())?;
    let (mut fresh, mut recorded) = (Vec::new(), Vec::new());
    for value in stack.iter() {
        value.for_each_tensor(&mut |result| {
            if !result.defined() || !graph::is_differentiable_type(result.dtype()) {
                return;
            }
            if graph::requires_grad(result) {
                recorded.push(result.clone());
            } else if !written.iter().any(|tensor| tensor.is_same(result)) {
                fresh.push(result.clone());
            }
        });
    }
    for result in recorded {
        let operator = call.op().def().qualified_name();
        let warns = move |_: &Tensor| {
            warn_of(&operator);
            Ok(None)
        };
        register_hook(&result, Arc::new(warns), None)?;
    }
    fresh.iter().for_each(|result| node.inputs.push(InputMetadata::of(result)));
    let node = node.share();
    for (nr, result) in fresh.iter().enumerate() {
        graph::set_gradient_edge(result, node.clone(), nr as u32)?;
    }
    Ok(())
}

//! Running one node.

use super::task::GraphTask;
use super::{set_current_node, validate_outputs};
use crate::anomaly;
use crate::backward::Backward;
use crate::hooks::run_hook_list;
use crate::meta;
use crate::node::{Grads, Node, NodeRef};
use corten_core::{Error, GradModeGuard, Result, bail};
use corten_ops::{Tensor, op, profiler};
use smallvec::SmallVec;

impl GraphTask {
    /// Runs everything that is or becomes ready.
    pub(super) fn run(&mut self) -> Result<()> {
        let _mode = GradModeGuard::new(self.grad_mode);
        while let Some((node, grads)) = self.pop() {
            set_current_node(Some(node.clone()));
            self.evaluate(&node, grads)?;
        }
        set_current_node(None);
        Ok(())
    }

    fn evaluate(&mut self, node: &NodeRef, mut grads: Grads) -> Result<()> {
        let _range = profiler::range(profiler::EventKind::Node, || {
            format!("autograd::engine::evaluate_function: {}", node.name())
        });
        let _stream = self.order.enter(node)?;
        if self.restricted && !self.capture(node, &mut grads)? {
            return Ok(());
        }
        let outputs = match self.call(node, grads) {
            Ok(outputs) => outputs,
            Err(error) => return Err(report(node, error)),
        };
        if !self.keep_graph {
            node.release_variables();
        }
        if anomaly::is_enabled() && anomaly::checks_nan() {
            refuse_nan(node, &outputs)?;
        }
        for (edge, grad) in node.next_edges().iter().zip(outputs) {
            self.deliver(edge, grad)?;
        }
        Ok(())
    }

    /// Hands out captured gradients. Returns whether the function runs too.
    fn capture(&mut self, node: &NodeRef, grads: &mut Grads) -> Result<bool> {
        let Some(state) = self.nodes.get(&node.address()) else { return Ok(false) };
        let needed = state.needed;
        let captures = state.captures.clone();
        if captures.is_empty() {
            return Ok(needed);
        }
        if !needed {
            // Otherwise the call runs the hooks, and they must run once.
            run_tensor_hooks(node, grads)?;
        }
        for capture in captures {
            let grad = grads.get(capture.nr as usize).cloned().unwrap_or_default();
            self.captured[capture.output] = grad;
        }
        Ok(needed)
    }

    fn call(&self, node: &NodeRef, mut grads: Grads) -> Result<Grads> {
        run_tensor_hooks(node, &mut grads)?;
        if node.has_hooks() {
            node.hooks().run_pre_hooks(&mut grads)?;
        }
        let kept = node.has_post_hooks().then(|| grads.clone());
        let ctx = Backward::new(node, self.needed_edges(node));
        let mut outputs = node.apply(&ctx, grads)?;
        validate_outputs(node.next_edges(), &mut outputs, &node.name())?;
        if let Some(grads) = kept {
            node.hooks().run_post_hooks(&mut outputs, &grads)?;
            if outputs.len() != node.num_outputs() {
                bail!(
                    Runtime,
                    "post hook of {} returned {} gradients instead of {}",
                    node.name(),
                    outputs.len(),
                    node.num_outputs()
                );
            }
        }
        Ok(outputs)
    }

    fn needed_edges(&self, node: &Node) -> SmallVec<[bool; 4]> {
        let wanted = |node: &NodeRef| self.should_execute(node);
        node.next_edges().iter().map(|edge| edge.node.as_ref().is_some_and(wanted)).collect()
    }
}

/// The hooks of the tensors whose gradients enter a node.
fn run_tensor_hooks(node: &NodeRef, grads: &mut Grads) -> Result<()> {
    if let Some(variable) = node.variable() {
        let hooks = meta::get(variable).and_then(meta::Meta::hooks);
        if let (Some(hooks), Some(grad)) = (hooks, grads.first_mut()) {
            run_hook_list(&hooks, grad)?;
        }
    }
    if node.has_hooks() {
        node.hooks().run_tensor_hooks(grads)?;
    }
    Ok(())
}

fn refuse_nan(node: &Node, outputs: &[Tensor]) -> Result<()> {
    let _mode = GradModeGuard::new(false);
    for (nr, output) in outputs.iter().enumerate().filter(|(_, output)| output.defined()) {
        if op::item(&op::any(&op::isnan(output)?)?)?.to_bool() {
            let error = corten_core::err!(
                Runtime,
                "Function '{}' returned nan values in its {nr}th output.",
                node.name()
            );
            return Err(report(node, error));
        }
    }
    Ok(())
}

/// With anomaly detection on, says where the forward operator ran.
fn report(node: &Node, error: Error) -> Error {
    if anomaly::is_enabled()
        && let Some(trace) = node.has_hooks().then(|| node.hooks().trace()).flatten()
    {
        corten_core::warn(format!(
            "Error detected in {}. Traceback of forward call that caused the error:\n{trace}",
            node.name()
        ));
    }
    error
}

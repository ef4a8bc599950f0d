//! The first steps of building: outputs that are inputs, overlap, and the broadcast shape.

use super::TensorIterator;
use super::config::Rules;
use corten_core::{Dims, Result, ensure, geometry};

impl TensorIterator {
    /// Marks outputs that are inputs as well.
    pub(crate) fn mark_outputs(&mut self) {
        let (outputs, inputs) = self.operands.split_at_mut(self.outputs);
        for output in outputs.iter_mut().filter(|output| output.defined()) {
            output.read_write = inputs.iter().any(|input| input.tensor.is_same(&output.tensor));
        }
    }

    /// Refuses outputs that overlap themselves, or an input in part.
    pub(crate) fn check_overlap(&self) -> Result<()> {
        let (outputs, inputs) = self.operands.split_at(self.outputs);
        for output in outputs.iter().filter(|output| output.defined()) {
            geometry::assert_no_internal_overlap(&output.tensor)?;
            for input in inputs.iter().filter(|input| !input.tensor.is_same(&output.tensor)) {
                geometry::assert_no_partial_overlap(&output.tensor, &input.tensor)?;
            }
        }
        Ok(())
    }

    /// Broadcasts the operands and marks outputs to be resized. Returns whether every operand
    /// that takes part has rank 0.
    pub(crate) fn compute_shape(&mut self, rules: &Rules, fixed: Option<Dims>) -> Result<bool> {
        let all_scalars = match fixed {
            Some(shape) => {
                self.shape = shape;
                self.use_shape_as_sizes();
                false
            }
            None => {
                let all_scalars = self.broadcast(rules)?;
                self.mark_resized_outputs(rules)?;
                all_scalars
            }
        };
        self.numel = geometry::checked_numel(&self.shape)?;
        Ok(all_scalars)
    }

    /// With a declared shape the operands' own sizes do not matter.
    fn use_shape_as_sizes(&mut self) {
        for operand in &mut self.operands {
            if operand.defined() {
                operand.sizes.clone_from(&self.shape);
            }
        }
    }

    fn broadcast(&mut self, rules: &Rules) -> Result<bool> {
        let (mut has_scalars, mut has_tensors) = (false, false);
        self.all_same_shape = true;
        for operand in &self.operands {
            // An output that may be resized has no say; one that is an input counts as that.
            if !operand.defined() || (rules.resize_outputs && operand.is_output) {
                continue;
            }
            has_scalars |= operand.sizes.is_empty();
            has_tensors |= !operand.sizes.is_empty();
            self.all_same_shape &= !(has_scalars && has_tensors);
            if self.shape.is_empty() {
                self.shape.clone_from(&operand.sizes);
            } else if self.shape != operand.sizes {
                self.all_same_shape = false;
                self.shape = geometry::infer_broadcast(&self.shape, &operand.sizes)?;
            }
        }
        Ok(!has_tensors)
    }

    fn mark_resized_outputs(&mut self, rules: &Rules) -> Result<()> {
        for output in &mut self.operands[..self.outputs] {
            if !output.defined() || output.sizes == self.shape {
                continue;
            }
            if rules.resize_outputs && !output.read_write {
                output.will_resize = true;
                continue;
            }
            ensure!(
                self.is_reduction,
                Runtime,
                "output with shape {:?} doesn't match the broadcast shape {:?}",
                output.sizes,
                self.shape
            );
        }
        Ok(())
    }
}

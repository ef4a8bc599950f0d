//! Parameters that a pass does not reach.

use super::reducer::{Reducer, State};
use corten_autograd::{NodeRef, graph};
use corten_core::Result;
use corten_ops::{Tensor, op};
use std::collections::HashSet;

impl Reducer {
    /// Walks the graph from the outputs: parameters whose accumulators it does not reach are unused.
    pub(super) fn search_unused(&self, state: &mut State, outputs: &[Tensor]) -> Result<()> {
        let mut reached = vec![false; self.params.len()];
        let mut seen: HashSet<usize> = HashSet::new();
        let mut stack: Vec<NodeRef> = Vec::new();
        for output in outputs {
            if let Some(node) = graph::gradient_edge(output)?.node
                && seen.insert(node.address())
            {
                stack.push(node);
            }
        }
        while let Some(node) = stack.pop() {
            if let Some(&index) = self.by_address.get(&node.address()) {
                reached[index] = true;
            }
            for next in node.next_edges().iter().filter_map(|edge| edge.node.as_ref()) {
                if seen.insert(next.address()) {
                    stack.push(next.clone());
                }
            }
        }
        state.unused = (0..reached.len()).filter(|&index| !reached[index]).collect();
        if state.unused.is_empty() && !state.warned_all_used {
            state.warned_all_used = true;
            corten_core::warn(
                "find_unused_parameters=True was specified in DDP constructor, but did not find any \
                 unused parameters in the forward pass. This flag results in an extra traversal of \
                 the autograd graph every iteration,  which can adversely affect performance. If \
                 your model indeed never has any unused parameters in the forward pass, consider \
                 turning this flag off. Note that this warning may be a false positive if your model \
                 has flow control causing later iterations to have unused parameters."
                    .to_owned(),
            );
        }
        Ok(())
    }

    /// Starts counting the ranks that use each parameter.
    pub(super) fn reduce_used_map(&self, state: &mut State) -> Result<()> {
        let map = Tensor::from_slice(&state.used, &[state.used.len() as i64])?;
        let device = self.params[0].device();
        let map = if device.is_cpu() {
            map
        } else {
            op::to_device(&map, device, map.dtype(), false, true, None)?
        };
        state.used_work = Some(self.group().all_reduce(&map)?);
        Ok(())
    }

    /// Whether no rank has used a parameter. Only one that this rank has not used needs the others' word.
    pub(super) fn is_unused_everywhere(&self, state: &mut State, index: usize) -> Result<bool> {
        if state.used[index] != 0 {
            return Ok(false);
        }
        if let Some(work) = state.used_work.take() {
            state.used = work.wait()?.to_vec::<i32>()?;
        }
        Ok(state.used[index] == 0)
    }
}

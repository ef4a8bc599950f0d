//! The reducer over a process group.

use super::comm::{Collectives, Pending};
use super::sparse;
use crate::{Call, ProcessGroup, ReduceOp, Work};
use corten_core::{Layout, Result};
use corten_ops::Tensor;
use std::sync::Arc;

/// Gradients are averaged over a group, and states made equal, by its back ends.
impl Collectives for ProcessGroup {
    fn rank(&self) -> usize {
        ProcessGroup::rank(self)
    }

    fn size(&self) -> usize {
        ProcessGroup::size(self)
    }

    fn backend_name(&self) -> String {
        let device = self.device_types().first().copied();
        let backend = device.and_then(|device| self.backend(device).ok());
        backend.map(|backend| backend.engine().name().to_owned()).unwrap_or_default()
    }

    fn all_reduce(&self, tensor: &Tensor) -> Result<Arc<dyn Pending>> {
        if tensor.layout() != Layout::Strided {
            return sparse::all_reduce(self, tensor);
        }
        let call = Call::AllReduce { tensor: tensor.clone(), op: ReduceOp::Sum };
        start(self, call, tensor)
    }

    fn broadcast(&self, tensor: &Tensor, root: usize) -> Result<Arc<dyn Pending>> {
        start(self, Call::Broadcast { tensor: tensor.clone(), root }, tensor)
    }

    fn all_gather(&self, outputs: &[Tensor], input: &Tensor) -> Result<Arc<dyn Pending>> {
        let call = Call::AllGather { outputs: outputs.to_vec(), input: input.clone() };
        start(self, call, input)
    }
}

fn start(group: &ProcessGroup, call: Call, result: &Tensor) -> Result<Arc<dyn Pending>> {
    let work = group.start(call, None, true)?;
    Ok(Arc::new(Started { work, result: result.clone() }))
}

/// A work and the tensor that it writes.
struct Started {
    work: Arc<Work>,
    result: Tensor,
}

impl Pending for Started {
    fn wait(&self) -> Result<Tensor> {
        self.work.wait(None)?;
        Ok(self.result.clone())
    }
}

//! A process group: the back ends of one set of ranks, by type of device.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use corten_core::{Device, DeviceType};
use corten_ops::Tensor;

use crate::backend::Backend;
use crate::engine::Call;
use crate::error::{DistError, Result};
use crate::store::Store;
use crate::work::Work;

/// The ranks that compute together, with a back end for each type of device.
pub struct ProcessGroup {
    rank: usize,
    size: usize,
    store: Option<Arc<dyn Store>>,
    backends: RwLock<Vec<(DeviceType, Arc<Backend>)>>,
}

impl ProcessGroup {
    /// A group without back ends.
    pub fn new(rank: usize, size: usize, store: Option<Arc<dyn Store>>) -> Arc<Self> {
        Arc::new(Self { rank, size, store, backends: RwLock::default() })
    }

    /// This process's number in the group.
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// How many ranks there are.
    pub fn size(&self) -> usize {
        self.size
    }

    /// The store through which the ranks found each other.
    pub fn store(&self) -> Option<&Arc<dyn Store>> {
        self.store.as_ref()
    }

    /// Gives a type of device its back end, in place of what it had.
    pub fn register(&self, device: DeviceType, backend: Arc<Backend>) {
        let mut backends = self.backends.write().unwrap_or_else(PoisonError::into_inner);
        backends.retain(|(other, _)| *other != device);
        backends.push((device, backend));
    }

    /// The types of devices that have back ends, in the order in which they got them.
    pub fn device_types(&self) -> Vec<DeviceType> {
        let backends = self.backends.read().unwrap_or_else(PoisonError::into_inner);
        backends.iter().map(|(device, _)| *device).collect()
    }

    /// The back end of a type of device.
    ///
    /// # Errors
    /// `Runtime` where there is none.
    pub fn backend(&self, device: DeviceType) -> Result<Arc<Backend>> {
        let backends = self.backends.read().unwrap_or_else(PoisonError::into_inner);
        let found = backends.iter().find(|(other, _)| *other == device);
        found.map(|(_, backend)| backend.clone()).ok_or_else(|| {
            DistError::runtime(format!(
                "No backend type associated with device type {}",
                device.name()
            ))
        })
    }

    /// Starts a call on the back end of its tensors' device; barriers without a device on the first.
    ///
    /// # Errors
    /// As [`Backend::start`] and [`backend`](Self::backend).
    pub fn start(
        &self,
        call: Call,
        timeout: Option<Duration>,
        is_async: bool,
    ) -> Result<Arc<Work>> {
        let backend = match device_of(&call) {
            Some(device) => self.backend(device.device_type)?,
            None => {
                let first = self.device_types().first().copied();
                self.backend(first.unwrap_or(DeviceType::Cpu))?
            }
        };
        backend.start(call, timeout, is_async)
    }

    /// Has all back ends end what runs.
    pub fn abort(&self, reason: &str) {
        let backends = self.backends.read().unwrap_or_else(PoisonError::into_inner);
        backends.iter().for_each(|(_, backend)| backend.engine().abort(reason));
    }
}

/// The device of a call's first tensor.
fn device_of(call: &Call) -> Option<Device> {
    let first = |tensors: &[Tensor]| tensors.first().and_then(|tensor| tensor.device_opt());
    match call {
        Call::AllReduce { tensor, .. }
        | Call::Broadcast { tensor, .. }
        | Call::Reduce { tensor, .. }
        | Call::Send { tensor, .. }
        | Call::Recv { tensor, .. }
        | Call::RecvAny { tensor, .. } => tensor.device_opt(),
        Call::AllGather { input, .. }
        | Call::AllGatherInto { input, .. }
        | Call::Gather { input, .. }
        | Call::ReduceScatterInto { input, .. }
        | Call::AllToAllBase { input, .. } => input.device_opt(),
        Call::Scatter { output, .. } | Call::ReduceScatter { output, .. } => output.device_opt(),
        Call::AllToAll { outputs, inputs } => first(inputs).or_else(|| first(outputs)),
        Call::Barrier { device } => *device,
        Call::Batch(calls) => calls.iter().find_map(device_of),
    }
}

//! The reducer over an engine.

use super::comm::{Collectives, Pending};
use crate::{Call, CallOptions, Engine, ReduceOp, Work};
use corten_core::Result;
use corten_ops::Tensor;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// An engine as the reducer asks it, without a group of Python above it.
///
/// ```
/// use corten_dist::ThreadWorld;
/// use corten_dist::ddp::{Collectives, EngineGroup};
/// use std::time::Duration;
///
/// let engine = ThreadWorld::new(1)?.engine(0)?;
/// let group = EngineGroup::new(engine, Duration::from_secs(60));
/// assert_eq!(group.size(), 1);
/// # Ok::<(), corten_dist::DistError>(())
/// ```
pub struct EngineGroup {
    engine: Arc<dyn Engine>,
    timeout: Duration,
    sequence: AtomicU64,
}

impl EngineGroup {
    /// Calls may take `timeout`.
    pub fn new(engine: Arc<dyn Engine>, timeout: Duration) -> Self {
        Self { engine, timeout, sequence: AtomicU64::new(0) }
    }

    fn start(&self, call: Call, result: Tensor) -> Arc<dyn Pending> {
        let sequence = self.sequence.fetch_add(1, Ordering::Relaxed) + 1;
        let options = CallOptions { timeout: self.timeout, sequence, is_async: true };
        let work = self.engine.start(call, &options);
        Arc::new(EngineWork { work, result, timeout: self.timeout })
    }
}

impl Collectives for EngineGroup {
    fn rank(&self) -> usize {
        self.engine.rank()
    }

    fn size(&self) -> usize {
        self.engine.size()
    }

    fn backend_name(&self) -> String {
        self.engine.name().to_owned()
    }

    fn all_reduce(&self, tensor: &Tensor) -> Result<Arc<dyn Pending>> {
        let call = Call::AllReduce { tensor: tensor.clone(), op: ReduceOp::Sum };
        Ok(self.start(call, tensor.clone()))
    }

    fn broadcast(&self, tensor: &Tensor, root: usize) -> Result<Arc<dyn Pending>> {
        Ok(self.start(Call::Broadcast { tensor: tensor.clone(), root }, tensor.clone()))
    }

    fn all_gather(&self, outputs: &[Tensor], input: &Tensor) -> Result<Arc<dyn Pending>> {
        let call = Call::AllGather { outputs: outputs.to_vec(), input: input.clone() };
        Ok(self.start(call, input.clone()))
    }
}

struct EngineWork {
    work: Arc<Work>,
    result: Tensor,
    timeout: Duration,
}

impl Pending for EngineWork {
    fn wait(&self) -> Result<Tensor> {
        self.work.wait(Some(self.timeout))?;
        Ok(self.result.clone())
    }
}

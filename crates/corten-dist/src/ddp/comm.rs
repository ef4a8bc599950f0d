//! What the reducer asks of the processes, and hooks in place of its all-reduce.

use super::GradBucket;
use corten_core::Result;
use corten_ops::Tensor;
use std::sync::Arc;

/// What the reducer asks of a group of processes. All ranks call the same functions in the same order.
pub trait Collectives: Send + Sync {
    /// This process's number in the group.
    fn rank(&self) -> usize;

    /// How many processes there are.
    fn size(&self) -> usize;

    /// The name of the back end: `gloo`, `mpi`, `nccl`.
    fn backend_name(&self) -> String;

    /// Starts the sum of every rank's tensor, in place. It may be in a sparse layout.
    ///
    /// # Errors
    /// When the call cannot be started.
    fn all_reduce(&self, tensor: &Tensor) -> Result<Arc<dyn Pending>>;

    /// Starts copying the tensor of rank `root` to all.
    ///
    /// # Errors
    /// When the call cannot be started.
    fn broadcast(&self, tensor: &Tensor, root: usize) -> Result<Arc<dyn Pending>>;

    /// Starts copying rank r's `input` to `outputs[r]` on all ranks.
    ///
    /// # Errors
    /// When the call cannot be started.
    fn all_gather(&self, outputs: &[Tensor], input: &Tensor) -> Result<Arc<dyn Pending>>;
}

/// Something under way whose result is a tensor.
pub trait Pending: Send + Sync {
    /// Waits for the end. Results of devices are ready in the current stream.
    ///
    /// # Errors
    /// What it failed with.
    fn wait(&self) -> Result<Tensor>;
}

/// A result that is there.
pub struct Ready(pub Tensor);

impl Pending for Ready {
    fn wait(&self) -> Result<Tensor> {
        Ok(self.0.clone())
    }
}

/// What becomes of a bucket of gradients when all of them are there, in place of their average.
///
/// The result has the bucket's shape. It is not divided by the number of processes.
pub trait CommHook: Send + Sync {
    /// Starts the communication of one bucket.
    ///
    /// # Errors
    /// When it cannot be started.
    fn run(&self, bucket: Arc<GradBucket>) -> Result<Arc<dyn Pending>>;
}

//! What a back end implements: one communicator, and the calls it runs.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use corten_core::Device;
use corten_ops::Tensor;

use crate::error::{DistError, Result};
use crate::reduce_op::ReduceOp;
use crate::work::Work;

/// One communicator of a back end: a context of gloo, a communicator of MPI or NCCL, threads of one
/// process.
///
/// Whoever starts calls has checked their arguments ([`crate::ProcessGroup`] does): ranks are in
/// range, sizes and dtypes fit, tensors are strided and contiguous. What only the ranks together can
/// know, as sizes that differ between them, is the engine's to find out.
pub trait Engine: Send + Sync {
    /// The name of the back end: `gloo`, `mpi`, `nccl`.
    fn name(&self) -> &str;

    /// This process's number in the communicator.
    fn rank(&self) -> usize;

    /// How many ranks there are.
    fn size(&self) -> usize;

    /// Starts a call and comes back at once.
    ///
    /// Collectives run in the order in which they were started. Calls between two ranks wait neither
    /// for collectives nor for each other, but two with the same peer and tag keep their order. The
    /// tensors belong to the call until the work is done: the engine keeps handles, and holds their
    /// memory (`corten_core::AccessSet`) while it touches it. Every fault is the work's
    /// ([`Work::failed`]).
    fn start(&self, call: Call, options: &CallOptions) -> Arc<Work>;

    /// Whether [`split`](Self::split) works.
    fn supports_splitting(&self) -> bool {
        false
    }

    /// A communicator of some of the ranks, in the order given; all ranks of this one call it with
    /// the same list. Nothing for ranks that are not in it.
    ///
    /// # Errors
    /// `Backend` where the back end cannot, or a rank failed.
    fn split(&self, ranks: &[usize], timeout: Duration) -> Result<Option<Arc<dyn Engine>>> {
        let _ = (ranks, timeout);
        Err(DistError::backend(format!("Backend {} does not support splitting", self.name())))
    }

    /// Whether it takes tensors in the host's memory only: those on GPUs are copied there and back then.
    fn needs_host_memory(&self) -> bool {
        false
    }

    /// Whether several calls go faster as one [`Call::Batch`].
    fn supports_coalescing(&self) -> bool {
        false
    }

    /// Ends what is running: works fail with `reason`, later calls fail at once.
    fn abort(&self, reason: &str);

    /// Gives the communicator up when nothing runs any more. The default is [`abort`](Self::abort).
    fn shutdown(&self) {
        self.abort("the process group was shut down");
    }

    /// Ranks that have not joined the collective of that sequence number, where the engine itself
    /// knows; a group asks the others through the store else.
    fn missing(&self, sequence: u64) -> Option<Vec<usize>> {
        let _ = sequence;
        None
    }

    /// The engine itself, for those who know its type.
    fn as_any(&self) -> Option<&dyn Any> {
        None
    }
}

/// What goes with a call.
#[derive(Clone, Debug)]
pub struct CallOptions {
    /// How long the call may take.
    pub timeout: Duration,
    /// The number of the collective in its group, the same on all ranks; 0 for calls between two.
    pub sequence: u64,
    /// Whether the caller goes on before the call is done. Engines of devices with streams run others
    /// on the caller's stream.
    pub is_async: bool,
}

/// The time that PyTorch gives collectives.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30 * 60);

impl Default for CallOptions {
    fn default() -> Self {
        Self { timeout: DEFAULT_TIMEOUT, sequence: 0, is_async: true }
    }
}

/// A collective or a call between two ranks. `n` stands for the number of ranks.
///
/// Tensors are strided, contiguous and on one device; outputs may share memory with inputs only where
/// a variant says so.
#[derive(Clone, Debug)]
pub enum Call {
    /// Every rank's `tensor` becomes the reduction of all, in place.
    AllReduce {
        /// Read and written; the same size and dtype on all ranks.
        tensor: Tensor,
        /// What is computed.
        op: ReduceOp,
    },
    /// Every rank's `tensor` becomes that of `root`.
    Broadcast {
        /// Read on `root`, written on the others.
        tensor: Tensor,
        /// The rank that has the data.
        root: usize,
    },
    /// `root`'s `tensor` becomes the reduction of all. What the others' holds afterwards is not
    /// defined.
    Reduce {
        /// Read, and written on `root`.
        tensor: Tensor,
        /// The rank that gets the result.
        root: usize,
        /// What is computed.
        op: ReduceOp,
    },
    /// `outputs[r]` becomes rank r's `input`. The input may be one of the outputs.
    AllGather {
        /// `n` tensors, each with as many elements as rank r's input; where the back end says so
        /// they may differ in size.
        outputs: Vec<Tensor>,
        /// What this rank gives.
        input: Tensor,
    },
    /// `output` becomes the inputs one after another. The input may be the part of the output where
    /// it goes.
    AllGatherInto {
        /// `n` times as many elements as the input.
        output: Tensor,
        /// What this rank gives.
        input: Tensor,
    },
    /// `root`'s `outputs[r]` becomes rank r's `input`.
    Gather {
        /// `n` tensors of the input's size on `root`, none on the others.
        outputs: Vec<Tensor>,
        /// What this rank gives.
        input: Tensor,
        /// The rank that gets them.
        root: usize,
    },
    /// Rank r's `output` becomes `root`'s `inputs[r]`.
    Scatter {
        /// What this rank gets.
        output: Tensor,
        /// `n` tensors of the output's size on `root`, none on the others.
        inputs: Vec<Tensor>,
        /// The rank that has them.
        root: usize,
    },
    /// Rank r's `output` becomes the reduction of all ranks' `inputs[r]`.
    ReduceScatter {
        /// What this rank gets.
        output: Tensor,
        /// `n` tensors of the output's size. What they hold afterwards is what they held.
        inputs: Vec<Tensor>,
        /// What is computed.
        op: ReduceOp,
    },
    /// Rank r's `output` becomes the reduction of the r-th part of all ranks' `input`. The output may
    /// be this rank's part of the input.
    ReduceScatterInto {
        /// What this rank gets.
        output: Tensor,
        /// `n` times as many elements as the output.
        input: Tensor,
        /// What is computed.
        op: ReduceOp,
    },
    /// `outputs[r]` becomes rank r's `inputs[this rank]`.
    AllToAll {
        /// `n` tensors, of any sizes.
        outputs: Vec<Tensor>,
        /// `n` tensors, of any sizes.
        inputs: Vec<Tensor>,
    },
    /// As [`Call::AllToAll`], with the rows of one tensor each.
    AllToAllBase {
        /// Its first dimension has as many rows as `output_splits` says together.
        output: Tensor,
        /// Its first dimension has as many rows as `input_splits` says together.
        input: Tensor,
        /// How many rows come from each rank: `n` numbers.
        output_splits: Vec<usize>,
        /// How many rows go to each rank: `n` numbers.
        input_splits: Vec<usize>,
    },
    /// Sends to one rank.
    Send {
        /// What is sent.
        tensor: Tensor,
        /// The receiver, which is not this rank.
        to: usize,
        /// What the receiver asks for.
        tag: i32,
    },
    /// Receives from one rank.
    Recv {
        /// Written.
        tensor: Tensor,
        /// The sender, which is not this rank.
        from: usize,
        /// What the sender says.
        tag: i32,
    },
    /// Receives from whoever sends first; [`Work::source_rank`] says who did.
    RecvAny {
        /// Written.
        tensor: Tensor,
        /// What the sender says.
        tag: i32,
    },
    /// Done when all ranks have begun it.
    Barrier {
        /// The device whose stream waits, for back ends of devices.
        device: Option<Device>,
    },
    /// Several calls that are one work, started in this order. Sends and receives among them do not
    /// wait for each other. [`Work::join`] makes one work of several for engines that run them one
    /// by one.
    Batch(Vec<Call>),
}

impl Call {
    /// The name in error messages: `allreduce`, as PyTorch's process groups say.
    pub fn name(&self) -> &'static str {
        match self {
            Self::AllReduce { .. } => "allreduce",
            Self::Broadcast { .. } => "broadcast",
            Self::Reduce { .. } => "reduce",
            Self::AllGather { .. } => "allgather",
            Self::AllGatherInto { .. } => "_allgather_base",
            Self::Gather { .. } => "gather",
            Self::Scatter { .. } => "scatter",
            Self::ReduceScatter { .. } => "reduce_scatter",
            Self::ReduceScatterInto { .. } => "_reduce_scatter_base",
            Self::AllToAll { .. } => "alltoall",
            Self::AllToAllBase { .. } => "alltoall_base",
            Self::Send { .. } => "send",
            Self::Recv { .. } => "recv",
            Self::RecvAny { .. } => "recvAnySource",
            Self::Barrier { .. } => "barrier",
            Self::Batch(_) => "coalesced",
        }
    }

    /// Whether only two ranks take part.
    pub fn is_point_to_point(&self) -> bool {
        match self {
            Self::Send { .. } | Self::Recv { .. } | Self::RecvAny { .. } => true,
            Self::Batch(calls) => calls.iter().all(Self::is_point_to_point),
            _ => false,
        }
    }

    /// What the caller gets: the tensors that are written, which are the result of the work.
    pub fn outputs(&self) -> Vec<Tensor> {
        match self {
            Self::AllReduce { tensor, .. }
            | Self::Broadcast { tensor, .. }
            | Self::Reduce { tensor, .. }
            | Self::Recv { tensor, .. }
            | Self::RecvAny { tensor, .. } => vec![tensor.clone()],
            Self::AllGatherInto { output, .. }
            | Self::Scatter { output, .. }
            | Self::ReduceScatter { output, .. }
            | Self::ReduceScatterInto { output, .. }
            | Self::AllToAllBase { output, .. } => vec![output.clone()],
            Self::AllGather { outputs, .. }
            | Self::Gather { outputs, .. }
            | Self::AllToAll { outputs, .. } => outputs.clone(),
            Self::Send { .. } | Self::Barrier { .. } => Vec::new(),
            Self::Batch(calls) => calls.iter().flat_map(Self::outputs).collect(),
        }
    }
}

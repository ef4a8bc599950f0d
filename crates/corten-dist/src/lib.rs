//! Processes that compute together: stores, collectives over several back ends, process groups.
//!
//! A back end implements [`Engine`], one communicator that runs [`Call`]s; each becomes [`Work`] that
//! any thread may wait for. Names and words are those of PyTorch's `torch.distributed`.

mod backend;
mod checks;
pub mod ddp;
mod dense;
mod engine;
mod error;
#[cfg(target_os = "linux")]
pub mod gloo;
mod group;
pub mod interrupt;
pub mod memory;
mod mpi;
#[cfg(unix)]
pub mod nccl;
mod reduce;
mod reduce_op;
#[cfg(target_os = "linux")]
mod reduction;
#[cfg(all(feature = "cuda", unix))]
mod staged;
pub mod store;
mod threads;
mod work;

pub use backend::Backend;
pub use engine::{Call, CallOptions, DEFAULT_TIMEOUT, Engine};
pub use error::{DistError, DistErrorKind, Result};
pub use group::ProcessGroup;
pub use mpi::{
    MpiEngine, mpi_backend, mpi_is_available, mpi_library_version, mpi_world, set_mpi_prefixes,
};
pub use reduce::reduce;
pub use reduce_op::{Factor, ReduceOp};
pub use store::{FileStore, HashStore, PrefixStore, Store, TcpStore, TcpStoreOptions};
pub use threads::ThreadWorld;
pub use work::{Driver, Explain, Watch, Work};

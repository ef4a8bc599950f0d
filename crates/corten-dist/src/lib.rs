//! Processes that compute together: stores, collectives over several back ends, process groups.
//!
//! A back end implements [`Engine`], one communicator that runs [`Call`]s; each becomes [`Work`] that
//! any thread may wait for. Names and words are those of PyTorch's `torch.distributed`.

mod engine;
mod error;
#[cfg(target_os = "linux")]
pub mod gloo;
pub mod interrupt;
mod reduce_op;
mod reduction;
pub mod store;
mod work;

pub use engine::{Call, CallOptions, DEFAULT_TIMEOUT, Engine};
pub use error::{DistError, DistErrorKind, Result};
pub use reduce_op::{Factor, ReduceOp};
pub use store::{FileStore, HashStore, PrefixStore, Store, TcpStore, TcpStoreOptions};
pub use work::{Driver, Explain, Work};

//! The back end `nccl`: collectives of NVIDIA's NCCL between GPUs.
//!
//! The library is found at run time. A communicator is made when its first call comes, with an id that
//! the first rank gives the others through the store. Calls run on a stream of the communicator, which
//! waits for the caller's; waiting for a work has the caller's stream wait. A thread looks for calls
//! that took too long and communicators that failed, and aborts them.

#[cfg(feature = "cuda")]
mod communicator;
#[cfg(feature = "cuda")]
mod engine;
#[cfg(feature = "cuda")]
mod functions;
#[cfg(feature = "cuda")]
mod issue;
mod library;
#[cfg(feature = "cuda")]
mod operands;
#[cfg(feature = "cuda")]
mod values;
#[cfg(feature = "cuda")]
mod watchdog;

#[cfg(feature = "cuda")]
pub use engine::{NcclEngine, NcclOptions};
pub use library::{FUNCTIONS, Nccl, find, is_available};

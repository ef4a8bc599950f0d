//! Data-parallel training: gradients are averaged over processes while backward passes run.
//!
//! [`Reducer`] hooks into the accumulators of the parameters. Gradients are collected in buckets
//! ([`assign_buckets`]), of which each is sent when it is full. Nothing here knows a language: the
//! passes of Python programs run it without the interpreter's lock.

mod assign;
mod backward;
mod bucket;
mod builtin;
mod comm;
mod copies;
mod faults;
mod group;
mod rebuild;
mod reducer;
mod sparse;
mod stats;
mod unused;
mod verify;

pub use assign::{Assignment, assign_buckets};
pub use bucket::GradBucket;
pub use builtin::BuiltinHook;
pub use comm::{Collectives, CommHook, Pending, Ready};

pub use reducer::{DEFAULT_BUCKET_BYTES, DEFAULT_FIRST_BUCKET_BYTES, Options, Reducer};
pub use stats::{Measured, PassTimes, Totals};
pub use verify::{broadcast_coalesced, verify_params};

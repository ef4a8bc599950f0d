//! Programs of operator calls as data: planning, fusion, memory, and running them on the CPU and as kernels of GPUs.
//!
//! [`ir`] is what a recorder fills, [`Plan`] how it runs.

mod cache;
mod call;
mod deferred;
mod device;
mod fold;
mod group;
pub mod ir;
mod lower;
mod memory;
mod plan;
mod recipe;
mod schedule;
mod space;
mod surrogate;
mod tile;

pub use cache::reset;
pub use deferred::{
    Break, DeferredProgram, LineSource, Region, Statistics, break_region, defers_passes,
    flush_thread, init, is_recording, set_line_source, start_statistics, take_statistics,
};
pub use plan::{Failed, Plan, Report};

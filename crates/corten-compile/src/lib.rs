//! Programs of operator calls as data: planning, fusion, memory, and running them on the CPU.
//!
//! [`ir`] is what a recorder fills.

mod deferred;
pub mod ir;
pub mod nodes;

pub use deferred::{
    Break, DeferredProgram, LineSource, Region, Statistics, break_region, defers_passes,
    flush_thread, init, is_recording, set_line_source, start_statistics, take_statistics,
};

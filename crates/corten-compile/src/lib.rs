//! Programs of operator calls as data: planning, fusion, memory, and running them on the CPU.
//!
//! [`ir`] is what a recorder fills, [`Plan`] how it runs.

mod call;
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

pub use plan::{Failed, Plan, Report};

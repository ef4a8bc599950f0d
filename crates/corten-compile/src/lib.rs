//! Programs of operator calls as data: planning, fusion, memory, and running them on the CPU.
//!
//! [`ir`] is what a recorder fills.

pub mod ir;

//! Gradient formulas longer than a line, one module per operator family.
//!
//! A function computes with ordinary operators, so that its result can be differentiated again.
//! It need not broadcast, sum to the input's shape or cast: the engine does.

pub mod any;
pub mod combine;
pub mod copy;
pub mod index;
pub mod view;

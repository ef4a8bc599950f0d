//! CPU kernels.
//!
//! `kernels/<family>.rs` holds the loops of each family of operators, under the names that
//! `ops/<family>.toml` gives them. Pointwise operators given as expressions need no kernel of
//! their own: see [`expr`]. [`vec`] has the vectors and their mathematics, `parallel` the threads.

pub mod expr;
mod loops;
pub mod parallel;
mod stage;
mod strided;
pub mod vec;

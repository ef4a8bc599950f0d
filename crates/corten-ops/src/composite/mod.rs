//! Operators made of others, differentiable through them. One module per family; the registry
//! names them with `composite = "family::function"`.

pub mod combine;
pub mod copy;
pub mod factory;
pub mod grids;
pub mod index;
pub mod pointwise;
pub mod reduce;
pub mod view;

/// For operators that are other names of one: `composite = "alias::abs"`.
pub use crate::op as alias;

//! Operators made of others, differentiable through them. One module per family; the registry
//! names them with `composite = "family::function"`.

pub mod combine;
pub mod copy;
pub mod factory;
pub mod grids;
pub mod index;
pub mod view;

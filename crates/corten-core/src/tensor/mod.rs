//! Tensors without operators: the object, the handle and everything that hangs off them.

mod autograd_meta;
mod base;
mod copy;
mod extra;
mod factory;
mod handle;
mod resize;
mod shape;
mod version;

pub use autograd_meta::{AutogradMeta, set_autograd_meta_factory};
pub use base::TensorImpl;
pub use extra::{BackendMeta, ExtraMeta, SymbolicShape};
pub use handle::{TensorBase, WeakTensor};
pub use shape::Geometry;
pub use version::VersionCounter;

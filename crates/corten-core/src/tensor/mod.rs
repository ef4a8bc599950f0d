//! Tensors without operators: the object, the handle and everything that hangs off them.

mod accessors;
mod autograd_meta;
mod base;
mod compact_view;
mod copy;
mod dense;
mod extra;
mod factory;
mod handle;
mod lazy;
mod names;
mod quantized;
mod resize;
mod shape;
mod sparse;
mod version;

pub use autograd_meta::{
    AutogradMeta, AutogradMetaFactory, FullView, ViewMetaFactory, set_autograd_meta_factories,
};
pub use base::TensorImpl;
pub use extra::{BackendMeta, ExtraMeta, ShapePolicy, SymbolicShape};
pub use handle::{TensorBase, WeakTensor};
pub use lazy::{Lazy, set_keep_on_shrink};
pub use names::{DimName, ShownNames, check_name, check_unique_names, names_in_use};
pub use shape::Geometry;
pub use sparse::{CompressedParts, CooParts, SparseParts};
pub use version::VersionCounter;

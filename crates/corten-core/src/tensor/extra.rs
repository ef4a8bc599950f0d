//! Rare properties of a tensor, kept out of line.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};

use super::{DimName, SparseParts};
use crate::{Device, Dims, Layout, Quantizer};

/// Metadata of a backend, carried along by shallow copies.
///
/// ```
/// use corten_core::BackendMeta;
/// use std::any::Any;
/// use std::sync::Arc;
///
/// /// The name that a back end gives its tensors.
/// struct Name(String);
///
/// impl BackendMeta for Name {
///     fn for_copy(self: Arc<Self>) -> Arc<dyn BackendMeta> {
///         self
///     }
///
///     fn as_any(&self) -> &dyn Any {
///         self
///     }
/// }
///
/// let meta: Arc<dyn BackendMeta> = Arc::new(Name("weights".to_owned()));
/// let name = meta.as_any().downcast_ref::<Name>();
/// assert_eq!(name.map(|name| name.0.as_str()), Some("weights"));
/// ```
pub trait BackendMeta: Any + Send + Sync {
    /// What a shallow copy of the tensor gets; by default the same object.
    fn for_copy(self: Arc<Self>) -> Arc<dyn BackendMeta>;

    /// The implementation itself.
    fn as_any(&self) -> &dyn Any;
}

/// Answers questions about a tensor's metadata in place of the tensor: for tensors whose contents
/// live outside, such as Python subclasses that wrap others. `None` means the stored answer.
///
/// ```
/// use corten_core::{Dims, ShapePolicy};
///
/// /// Answers for the sizes alone.
/// struct Fixed;
///
/// impl ShapePolicy for Fixed {
///     fn sizes(&self) -> Option<Dims> {
///         Some([2, 3].into_iter().collect())
///     }
/// }
///
/// assert!(Fixed.strides().is_none());
/// ```
pub trait ShapePolicy: Send + Sync {
    /// The sizes.
    fn sizes(&self) -> Option<Dims> {
        None
    }
    /// The strides.
    fn strides(&self) -> Option<Dims> {
        None
    }
    /// The device.
    fn device(&self) -> Option<Device> {
        None
    }
    /// The layout.
    fn layout(&self) -> Option<Layout> {
        None
    }
}

/// Sizes and strides that are expressions instead of numbers.
///
/// ```
/// use corten_core::SymbolicShape;
///
/// let shape = SymbolicShape { sizes: vec!["s0".to_owned()], ..Default::default() };
/// assert_eq!(shape.sizes, ["s0"]);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SymbolicShape {
    /// One expression per size.
    pub sizes: Vec<String>,
    /// One expression per stride.
    pub strides: Vec<String>,
    /// The offset's expression.
    pub storage_offset: String,
}

/// The parts, each absent until set.
///
/// ```
/// use corten_core::{TensorBase, TensorOptions};
///
/// let x = TensorBase::empty(&[2], TensorOptions::default())?;
/// assert!(x.extra_meta().is_none_or(|extra| extra.backend.is_none()));
/// # Ok::<(), corten_core::Error>(())
/// ```
#[derive(Clone, Default)]
pub struct ExtraMeta {
    /// Symbolic sizes and strides.
    pub symbolic_shape: Option<Box<SymbolicShape>>,
    /// Names of the dimensions; `None` for a dimension without one.
    pub names: Option<Box<[DimName]>>,
    /// Metadata of the backend.
    pub backend: Option<Arc<dyn BackendMeta>>,
    /// What `data_ptr` says instead of returning a pointer.
    pub data_ptr_error: Option<String>,
    /// What `storage` says instead of returning the storage.
    pub storage_error: Option<String>,
    /// What the integers of a quantised tensor stand for; see Note [Quantised tensors].
    pub(super) quantizer: Option<Arc<Quantizer>>,
    /// The entries of a sparse tensor; see Note [Sparse tensors].
    pub(super) sparse: Option<Arc<SparseParts>>,
    /// Who answers for sizes, strides, device and layout. Not copied by shallow copies.
    pub(super) policy: Option<Arc<dyn ShapePolicy>>,
}

impl ExtraMeta {
    /// The parts that a shallow copy gets.
    pub(super) fn for_copy(&self) -> Self {
        Self {
            backend: self.backend.clone().map(BackendMeta::for_copy),
            policy: None,
            ..self.clone()
        }
    }
}

impl fmt::Debug for ExtraMeta {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExtraMeta")
            .field("symbolic_shape", &self.symbolic_shape)
            .field("names", &self.names)
            .field("backend", &self.backend.is_some())
            .field("quantizer", &self.quantizer)
            .field("sparse", &self.sparse.is_some())
            .field("data_ptr_error", &self.data_ptr_error)
            .field("storage_error", &self.storage_error)
            .finish_non_exhaustive()
    }
}

/// The parts and the outgrown shape blocks, under one lock.
#[derive(Default)]
pub(super) struct ExtraCell {
    parts: Mutex<ExtraMeta>,
    blocks: Mutex<Vec<super::shape::HeapDims>>,
}

impl ExtraCell {
    pub(super) fn parts(&self) -> MutexGuard<'_, ExtraMeta> {
        self.parts.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    pub(super) fn blocks(&self) -> MutexGuard<'_, Vec<super::shape::HeapDims>> {
        self.blocks.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

//! Where gradients flow: edges, and what a node knows of the gradients that enter it.

use crate::inline_vec::Sizes;
use crate::node::NodeRef;
use corten_core::{DType, Device, Layout};
use corten_ops::Tensor;
use std::fmt;

/// A gradient flows along an edge into input `nr` of a node.
///
/// ```
/// use corten::autograd::{Edge, graph::gradient_edge};
/// use corten::prelude::*;
///
/// # fn main() -> Result<()> {
/// let x = tensor![1.0]?.requires_grad_(true)?;
/// let y = (&x * 2.0)?;
/// let edge: Edge = gradient_edge(&y)?;
/// assert!(edge.is_valid());
/// assert!(!gradient_edge(&tensor![1.0]?)?.is_valid());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Edge {
    /// The node, or none where nothing requires a gradient.
    pub node: Option<NodeRef>,
    /// Which of the node's inputs.
    pub nr: u32,
}

impl Default for Edge {
    #[inline(always)]
    fn default() -> Self {
        Self { node: None, nr: 0 }
    }
}

impl Edge {
    /// An edge into input `nr` of `node`.
    pub fn new(node: NodeRef, nr: u32) -> Self {
        Self { node: Some(node), nr }
    }

    /// Whether the edge leads anywhere.
    pub fn is_valid(&self) -> bool {
        self.node.is_some()
    }
}

impl fmt::Debug for Edge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.node {
            Some(node) => write!(f, "({}, {})", node.name(), self.nr),
            None => f.write_str("(None, 0)"),
        }
    }
}

/// What a gradient that enters a node must look like: shape, dtype, layout and device of the
/// forward result.
///
/// ```
/// use corten::autograd::node::InputMetadata;
/// use corten::prelude::*;
///
/// # fn main() -> Result<()> {
/// let metadata = InputMetadata::of(&tensor![[1.0, 2.0]]?);
/// assert_eq!(metadata.sizes(), [1, 2]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct InputMetadata {
    pub(crate) sizes: Sizes,
    /// The dtype; `Undefined` where the output is not differentiable.
    pub dtype: DType,
    /// The layout.
    pub layout: Layout,
    /// The device.
    pub device: Device,
    /// Whether gradients keep the dtype in which they arrive.
    pub any_dtype: bool,
    /// The number of the stream that computed the output, on a device that has streams.
    pub(crate) stream: u16,
}

impl Default for InputMetadata {
    /// For an output that has no gradient.
    #[inline(always)]
    fn default() -> Self {
        Self {
            sizes: Sizes::default(),
            dtype: DType::Undefined,
            layout: Layout::Strided,
            device: Device::CPU,
            any_dtype: false,
            stream: 0,
        }
    }
}

impl InputMetadata {
    /// The metadata of a forward result.
    pub fn of(tensor: &Tensor) -> Self {
        let mut metadata = Self::default();
        if tensor.defined() {
            metadata.set_to(tensor);
        }
        metadata
    }

    /// Becomes the metadata of a forward result. It must be the default.
    #[inline]
    pub(crate) fn set_to(&mut self, tensor: &Tensor) {
        self.dtype = tensor.dtype();
        // Layout and device of a plain tensor are those that are there.
        if !tensor.is_dense_cpu() {
            (self.layout, self.device) = (tensor.layout(), tensor.device());
            if self.device.is_cuda() {
                self.stream = crate::engine::stream_number(self.device.index);
            }
        }
        self.sizes.set_to_sizes_of(tensor);
    }

    /// The shape.
    pub fn sizes(&self) -> &[i64] {
        &self.sizes
    }

    /// Whether there is an output at all.
    pub fn is_defined(&self) -> bool {
        self.dtype != DType::Undefined
    }
}

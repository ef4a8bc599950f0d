//! In-place writes: what may be written, and how history follows.

use crate::backward::Backward;
use crate::graph::{self, In};
use crate::meta::{self, Meta};
use crate::node::{Grads, InputMetadata, Node, NodeBody, NodeRef, undefined_grads};
use crate::ownership::OwnershipWalk;
use crate::view::{self, CreationMeta, ViewFn, ViewMeta};
use corten_core::geometry::ascending;
use corten_core::{DType, Dims, MemoryFormat, Result, bail, bug};
use corten_ops::{Tensor, op};
use smallvec::SmallVec;
use std::any::Any;
use std::borrow::Cow;

/// Fails where an in-place write cannot be recorded. `recorded` says that it would have to be.
pub(crate) fn check_inplace(written: &Tensor, recorded: bool) -> Result<()> {
    if !recorded || !corten_core::grad_mode_enabled() {
        return Ok(());
    }
    let Some(meta) = meta::get(written) else { return Ok(()) };
    if let Some(view) = meta.view() {
        view::refuse_unless_default(meta, view, false)?;
        if graph::requires_grad(written) && graph::is_leaf(view.base()) {
            bail!(
                Runtime,
                "a view of a leaf Variable that requires grad is being used in an in-place \
                 operation."
            );
        }
    }
    if graph::requires_grad(written) && graph::is_leaf(written) {
        bail!(
            Runtime,
            "a leaf Variable that requires grad is being used in an in-place operation."
        );
    }
    Ok(())
}

/// Fails for out= calls that would have to be recorded.
pub(crate) fn check_out(name: &str, inputs: &[In<'_>], outs: &[&Tensor]) -> Result<()> {
    if !corten_core::grad_mode_enabled() {
        return Ok(());
    }
    let required =
        inputs.iter().any(In::requires_grad) || outs.iter().any(|out| graph::requires_grad(out));
    if required {
        bail!(
            Runtime,
            "{name}(): functions with out=... arguments don't support automatic differentiation, \
             but one of the arguments requires grad."
        );
    }
    Ok(())
}

/// Makes `node` the history of `written`, which its operator modified in place.
///
/// The node's first edge must be that of the written tensor.
pub fn rebase_history(written: &Tensor, node: NodeRef, nr: u32) -> Result<()> {
    let meta = meta::get_or_init(written)?;
    let Some(view) = meta.view() else {
        let old = meta.stored_grad_fn();
        graph::set_gradient_edge(written, node.clone(), nr)?;
        graph::move_hooks(written, old.as_ref(), &node);
        return Ok(());
    };
    if view.creation() != CreationMeta::Default {
        bug!("check_inplace let a view of kind {:?} pass", view.creation());
    }
    if node.num_inputs() != 1 {
        bail!(Runtime, "Functions which modify views in-place must return a single Variable");
    }
    rebase_through_view(written, meta, view, node)
}

/// In-place operators that change the geometry of a view and no data. The history of the base stays
/// as it is; that of the view goes on from where it was.
const GEOMETRY_ONLY: [&str; 7] = [
    "TBackward1",
    "TransposeBackward1",
    "SqueezeBackward3",
    "SqueezeBackward4",
    "SqueezeBackward5",
    "UnsqueezeBackward1",
    "AsStridedBackward1",
];

fn rebase_through_view(
    written: &Tensor,
    meta: &Meta,
    view: &ViewMeta,
    node: NodeRef,
) -> Result<()> {
    if GEOMETRY_ONLY.contains(&node.name().as_ref()) {
        return graph::set_gradient_edge(written, node, 0);
    }
    let base = view.base();
    let had_history = graph::requires_grad(written);
    let old = graph::grad_fn(base)?;
    let copy_slices = CopySlices::node(base, written, view.replay().cloned(), node)?;
    graph::set_gradient_edge(base, copy_slices.clone(), 0)?;
    if had_history {
        graph::move_hooks(base, old.as_ref(), &copy_slices);
    }
    // Reading renews the view's own history: the version has just changed.
    view::current_grad_fn(written, meta, view)?;
    Ok(())
}

/// Sizes, strides and offset of a tensor.
struct Geometry {
    sizes: Dims,
    strides: Dims,
    offset: i64,
}

impl Geometry {
    fn of(tensor: &Tensor) -> Self {
        Self { sizes: tensor.sizes(), strides: tensor.strides(), offset: tensor.storage_offset() }
    }
}

/// The history of a base that was modified through a view: the gradient of the view's region
/// passes the operator, the rest passes unchanged.
struct CopySlices {
    base: Geometry,
    view: Geometry,
    replay: Option<ViewFn>,
    function: NodeRef,
}

impl CopySlices {
    fn node(
        base: &Tensor,
        view: &Tensor,
        replay: Option<ViewFn>,
        function: NodeRef,
    ) -> Result<NodeRef> {
        let mut edges = function.next_edges().to_vec();
        match edges.first_mut() {
            Some(first) => *first = graph::gradient_edge(base)?,
            None => edges.push(graph::gradient_edge(base)?),
        }
        let body = Self { base: Geometry::of(base), view: Geometry::of(view), replay, function };
        let mut node = Node::custom(Box::new(body));
        node.inputs.push(InputMetadata::of(base));
        edges.into_iter().for_each(|edge| node.add_edge(edge));
        Ok(node.share())
    }
}

impl NodeBody for CopySlices {
    fn name(&self) -> Cow<'_, str> {
        Cow::Borrowed("CopySlices")
    }

    fn apply(&self, ctx: &Backward<'_>, grads: Grads) -> Result<Grads> {
        let Some(grad) = grads.into_iter().next().filter(|grad| grad.defined()) else {
            return Ok(undefined_grads(ctx.node().num_outputs()));
        };
        let Geometry { sizes, strides, offset } = &self.base;
        let (strides, start, reversed) = ascending(sizes, strides, *offset);
        let buffer =
            op::new_empty_strided(&grad, sizes, &strides, None::<DType>, None, None, None)?;
        let result = match reversed.is_empty() {
            true => buffer.clone(),
            false => op::flip_view(&buffer, &reversed)?,
        };
        op::copy_(&result, &grad, false)?;
        let slice = match &self.replay {
            Some(replay) => replay(&result)?,
            None => {
                let Geometry { sizes, strides, offset } = &self.view;
                view::strided(&buffer, sizes, strides, offset - start)?
            }
        };
        // The function may save what it gets, and the slice is written to below.
        let through = op::clone(&slice, Some(MemoryFormat::Contiguous))?;
        let inner = Backward::new(&self.function, SmallVec::from_slice(ctx.needed_edges()));
        let mut outputs = self.function.apply(&inner, SmallVec::from_iter([through]))?;
        if ctx.needs_edge(0) {
            match outputs.first().filter(|output| output.defined()) {
                Some(output) => op::copy_(&slice, output, false)?,
                None => op::zero_(&slice)?,
            };
            match outputs.first_mut() {
                Some(first) => *first = result,
                None => outputs.push(result),
            }
        } else if let Some(first) = outputs.first_mut() {
            // It would have the shape of the view, and nobody asked for it.
            *first = Tensor::undefined();
        }
        Ok(outputs)
    }

    fn release(&self) {
        self.function.release_variables();
    }

    fn reach(&self, walk: &mut OwnershipWalk<'_>) {
        walk.node(&self.function);
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// The history of a view whose base was modified: strides over the base's new history.
pub(crate) struct AsStrided {
    base: Geometry,
    view: Geometry,
}

impl AsStrided {
    /// The node for `view` over the present history of `base`.
    pub(crate) fn node(base: &Tensor, view: &Tensor) -> Result<NodeRef> {
        let body = Self { base: Geometry::of(base), view: Geometry::of(view) };
        let mut node = Node::custom(Box::new(body));
        node.inputs.push(InputMetadata::of(view));
        node.add_edge(graph::gradient_edge(base)?);
        Ok(node.share())
    }
}

impl NodeBody for AsStrided {
    fn name(&self) -> Cow<'_, str> {
        Cow::Borrowed("AsStridedBackward0")
    }

    fn apply(&self, ctx: &Backward<'_>, grads: Grads) -> Result<Grads> {
        let mut out = undefined_grads(ctx.node().num_outputs());
        if ctx.needs_edge(0) {
            out[0] = crate::formulas::view::as_strided_backward_geometry(
                &grads[0],
                (&self.base.sizes, &self.base.strides, self.base.offset),
                (&self.view.sizes, &self.view.strides, self.view.offset),
            )?;
        }
        Ok(out)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

//! The vertices of the backward graph.
//!
//! A node stands for one recorded operator. Its *inputs* are gradients with respect to the
//! operator's outputs; its *outputs*, one per edge, are gradients with respect to the operator's
//! differentiable inputs.

use crate::accumulate::AccumulateGrad;
use crate::backward::{Backward, Gradients};
pub use crate::edge::{Edge, InputMetadata};
use crate::forward::Tangent;
use crate::hooks::{HookHandle, HookOwner, NodeHooks, NodePostHook, NodePreHook};
use crate::inline_vec::InlineVec;
use crate::ownership::OwnershipWalk;
use crate::saved::{Saved, SavedVariable};
use crate::slots::{ONE, SavedLayout, SavedState, SlotLocation};
use corten_core::tls::next_sequence_number;
use corten_core::{Make, Ready, Result, Shared, Unshared, WeakShared, bug};
use corten_ops::IValue;
use corten_ops::Tensor;
use smallvec::SmallVec;
use std::any::Any;
use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

/// Gradients of one node, in order of its inputs or edges.
pub type Grads = SmallVec<[Tensor; 2]>;

/// A backward function, as the generator writes it.
pub type BackwardFn = for<'a> fn(&Backward<'a>, &[Tensor]) -> Result<Gradients<'a>>;

/// The static part of a generated node.
///
/// ```
/// use corten::autograd::node::NodeDef;
/// use corten::prelude::*;
///
/// # fn main() -> Result<()> {
/// let x = tensor![1.0]?.requires_grad_(true)?;
/// let node = op::exp(&x)?.grad_fn()?;
/// let def: Option<&NodeDef> = node.as_deref().and_then(|node| node.def());
/// assert_eq!(def.map(|def| def.saved), Some(&["result"][..]));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct NodeDef {
    /// The name that users see, such as `AddBackward0`.
    pub name: &'static str,
    /// The names of the saved slots, in order.
    pub saved: &'static [&'static str],
    /// Bit `i` says that output `i` of the operator is differentiable; of a list, bit 0 says it
    /// for all.
    pub outputs: u32,
    /// The backward function.
    pub backward: BackwardFn,
}

/// A node with state or behaviour of its own: gradient accumulators, in-place writes through
/// views and user functions.
///
/// ```
/// use corten::autograd::backward::Backward;
/// use corten::autograd::function::{Effects, PendingNode, wrap_outputs};
/// use corten::autograd::node::{Grads, NodeBody};
/// use std::any::Any;
/// use std::borrow::Cow;
/// use corten::prelude::*;
///
/// # fn main() -> Result<()> {
/// /// A node that passes gradients on.
/// struct Identity;
///
/// impl NodeBody for Identity {
///     fn name(&self) -> Cow<'_, str> {
///         "IdentityBackward".into()
///     }
///
///     fn apply(&self, _: &Backward<'_>, grads: Grads) -> Result<Grads> {
///         Ok(grads)
///     }
///
///     fn as_any(&self) -> &dyn Any {
///         self
///     }
/// }
///
/// let x = tensor![2.0]?.requires_grad_(true)?;
/// let inputs = [x.clone()];
/// let pending = PendingNode::new(&inputs)?;
/// let outputs = vec![x.data()?];
/// let recorded = Some((pending, Box::new(Identity) as Box<dyn NodeBody>));
/// let (outputs, _) = wrap_outputs(&inputs, outputs, &Effects::default(), recorded)?;
/// outputs[0].backward()?;
/// assert_eq!(x.grad().unwrap_or_default().to_vec::<f32>()?, [1.0]);
/// # Ok(())
/// # }
/// ```
pub trait NodeBody: Any + Send + Sync {
    /// The name that users see.
    fn name(&self) -> Cow<'_, str>;

    /// Computes one gradient per edge from one gradient per recorded output.
    ///
    /// # Errors
    /// Whatever the function raises.
    fn apply(&self, ctx: &Backward<'_>, grads: Grads) -> Result<Grads>;

    /// Frees what was saved for the backward pass.
    fn release(&self) {}

    /// Whether [`apply`](Self::apply) is also called when every incoming gradient is undefined.
    fn wants_undefined(&self) -> bool {
        false
    }

    /// Tells a walk what the body owns: the node was reached from all its owners.
    fn reach(&self, walk: &mut OwnershipWalk<'_>) {
        let _ = walk;
    }

    /// For downcasts to the concrete body.
    fn as_any(&self) -> &dyn Any;
}

pub(crate) enum Body {
    Generated(&'static NodeDef),
    /// The most frequent of the others, without a box.
    Leaf(AccumulateGrad),
    Custom(Box<dyn NodeBody>),
}

/// A handle to a node.
pub type NodeRef = Shared<Node>;
/// A handle that does not keep the node.
pub type WeakNode = WeakShared<Node>;

/// The edges of a node: most have one or two, the layers of networks three.
pub(crate) type Edges = InlineVec<Edge, 3>;
/// A vertex of the backward graph.
///
/// ```
/// use corten::prelude::*;
///
/// # fn main() -> Result<()> {
/// let x = tensor![1.0]?.requires_grad_(true)?;
/// let node = (&x * 2.0)?.grad_fn()?;
/// assert_eq!(node.map(|node| node.name().into_owned()), Some("MulBackward0".to_owned()));
/// # Ok(())
/// # }
/// ```
pub struct Node {
    pub(crate) body: Body,
    pub(crate) sequence_nr: u64,
    pub(crate) topological_nr: u64,
    pub(crate) edges: Edges,
    /// The end of each differentiable argument's edges; none when every argument has one edge.
    pub(crate) ends: Option<Box<[u32]>>,
    pub(crate) inputs: InlineVec<InputMetadata, 1>,
    pub(crate) values: InlineVec<IValue, 1>,
    pub(crate) places: SavedLayout,
    pub(crate) saved: SavedState,
    pub(crate) hooks: OnceLock<Box<NodeHooks>>,
}

/// What a node of the generated kind is made of.
struct Recorded {
    def: &'static NodeDef,
    sequence_nr: u64,
}

impl Make<Node> for Recorded {
    #[inline(always)]
    fn make(self) -> Node {
        Node::bare(Body::Generated(self.def), self.sequence_nr)
    }
}

impl Node {
    /// A node of the generated kind.
    #[inline(always)]
    pub(crate) fn generated(def: &'static NodeDef, sequence_nr: u64) -> Unshared<Self> {
        Self::made(Recorded { def, sequence_nr })
    }

    /// A node with a body of its own.
    pub(crate) fn custom(body: Box<dyn NodeBody>) -> Unshared<Self> {
        Self::made(Ready(Self::bare(Body::Custom(body), next_sequence_number())))
    }

    /// A node where it will stay.
    #[inline(always)]
    pub(crate) fn made(parts: impl Make<Self>) -> Unshared<Self> {
        Self::made_again(None, parts)
    }

    /// A node where one was that is gone, if nobody else refers to that.
    #[inline(always)]
    pub(crate) fn made_again(before: Option<WeakNode>, parts: impl Make<Self>) -> Unshared<Self> {
        let node = Unshared::build_again(before, parts);
        if crate::anomaly::is_enabled() {
            node.note_place();
        }
        node
    }

    /// Without edges and saved values, and without memory of its own.
    #[inline(always)]
    pub(crate) fn bare(body: Body, sequence_nr: u64) -> Self {
        Self {
            body,
            sequence_nr,
            topological_nr: 0,
            edges: InlineVec::default(),
            ends: None,
            inputs: InlineVec::default(),
            values: InlineVec::default(),
            places: SavedLayout::new(),
            saved: SavedState::new(),
            hooks: OnceLock::new(),
        }
    }

    #[cold]
    fn note_place(&self) {
        if let Some(trace) = crate::anomaly::capture() {
            self.hooks().set_trace(trace);
        }
    }

    /// The name that users see.
    pub fn name(&self) -> Cow<'_, str> {
        match &self.body {
            Body::Generated(def) => Cow::Borrowed(def.name),
            Body::Leaf(leaf) => leaf.name(),
            Body::Custom(body) => body.name(),
        }
    }

    /// The name that messages and `Node.name()` give: PyTorch's own nodes are in a namespace.
    pub fn full_name(&self) -> Cow<'_, str> {
        let name = self.name();
        match name.as_ref() {
            "AccumulateGrad" | "CopyBackwards" | "CopySlices" => {
                Cow::Owned(format!("torch::autograd::{name}"))
            }
            _ => name,
        }
    }

    /// The edges, one per differentiable input of the recorded operator.
    pub fn next_edges(&self) -> &[Edge] {
        &self.edges
    }

    /// The number of gradients that enter: the outputs of the recorded operator.
    pub fn num_inputs(&self) -> usize {
        self.inputs.len()
    }

    /// The number of gradients that leave.
    pub fn num_outputs(&self) -> usize {
        self.edges.len()
    }

    /// What the gradients that enter must look like.
    pub fn input_metadata(&self) -> &[InputMetadata] {
        &self.inputs
    }

    /// The position in the order of recording on its thread.
    pub fn sequence_nr(&self) -> u64 {
        self.sequence_nr
    }

    /// The length of the longest path from here to a leaf.
    pub fn topological_nr(&self) -> u64 {
        self.topological_nr
    }

    /// The generated description, unless this node has a body of its own.
    pub fn def(&self) -> Option<&'static NodeDef> {
        match &self.body {
            Body::Generated(def) => Some(def),
            Body::Leaf(_) | Body::Custom(_) => None,
        }
    }

    /// The body of a node that is not generated.
    pub fn body(&self) -> Option<&dyn NodeBody> {
        match &self.body {
            Body::Generated(_) => None,
            Body::Leaf(leaf) => Some(leaf),
            Body::Custom(body) => Some(&**body),
        }
    }

    /// The body as a concrete type.
    pub fn body_as<T: 'static>(&self) -> Option<&T> {
        self.body()?.as_any().downcast_ref()
    }

    /// The variable whose gradient this node accumulates, if it is an accumulator.
    pub fn variable(&self) -> Option<&Tensor> {
        match &self.body {
            Body::Leaf(leaf) => Some(leaf.variable()),
            _ => None,
        }
    }

    #[inline(always)]
    pub(crate) fn add_edge(&mut self, edge: Edge) {
        if let Some(node) = &edge.node {
            self.topological_nr = self.topological_nr.max(node.topological_nr + 1);
        }
        self.edges.push(edge);
    }

    /// The edges of the `argument`-th differentiable argument.
    pub(crate) fn edges_of(&self, argument: usize) -> Range<usize> {
        edge_range(self.ends.as_deref(), argument)
    }

    pub(crate) fn argument_count(&self) -> usize {
        self.ends.as_ref().map_or(self.edges.len(), |ends| ends.len())
    }

    /// Calls `hook` with the gradients that enter, before the function runs.
    pub fn register_prehook(&self, hook: NodePreHook) -> HookHandle {
        self.hooks().pre.add(hook)
    }

    /// Calls `hook` with the gradients that leave and those that entered.
    pub fn register_hook(&self, hook: NodePostHook) -> HookHandle {
        self.hooks().post.add(hook)
    }

    /// [`register_prehook`](Self::register_prehook) with what the hook calls.
    pub fn register_owning_prehook(&self, hook: NodePreHook, owner: HookOwner) -> HookHandle {
        self.hooks().pre.add_owning(hook, Some(owner))
    }

    /// [`register_hook`](Self::register_hook) with what the hook calls.
    pub fn register_owning_hook(&self, hook: NodePostHook, owner: HookOwner) -> HookHandle {
        self.hooks().post.add_owning(hook, Some(owner))
    }

    /// Tells a walk what the node owns.
    pub(crate) fn reach_contents(&self, walk: &mut OwnershipWalk<'_>) {
        for edge in &*self.edges {
            if let Some(next) = &edge.node {
                walk.node(next);
            }
        }
        if let Some(slots) = self.saved.try_read() {
            slots.iter().for_each(|slot| slot.reach(walk));
        }
        match &self.body {
            Body::Generated(_) => {}
            Body::Leaf(leaf) => walk.tensor(leaf.variable()),
            Body::Custom(body) => body.reach(walk),
        }
        if let Some(hooks) = self.hooks.get() {
            hooks.reach(walk);
        }
    }

    /// Frees what was saved and removes all hooks.
    pub fn clear(&self) {
        self.release_variables();
        if let Some(hooks) = self.hooks.get() {
            hooks.clear();
        }
    }

    /// An object that a front end attached, such as its wrapper of this node.
    pub fn foreign_object(&self) -> Option<Arc<dyn Any + Send + Sync>> {
        self.hooks.get()?.foreign()
    }

    /// Attaches an object of a front end.
    pub fn set_foreign_object(&self, object: Option<Arc<dyn Any + Send + Sync>>) {
        self.hooks().set_foreign(object);
    }

    /// The hooks, made on first use.
    pub(crate) fn hooks(&self) -> &NodeHooks {
        self.hooks.get_or_init(Box::default)
    }

    pub(crate) fn has_hooks(&self) -> bool {
        self.hooks.get().is_some()
    }

    pub(crate) fn has_post_hooks(&self) -> bool {
        self.hooks.get().is_some_and(|hooks| !hooks.post.is_empty())
    }

    /// Runs the backward function, without hooks and without checks of what it returns.
    pub(crate) fn apply(&self, ctx: &Backward<'_>, grads: Grads) -> Result<Grads> {
        match &self.body {
            Body::Generated(def) => {
                if !grads.iter().any(|grad| grad.defined()) {
                    return Ok(undefined_grads(self.edges.len()));
                }
                Ok((def.backward)(ctx, &grads)?.into_inner())
            }
            Body::Leaf(leaf) => leaf.apply(ctx, grads),
            Body::Custom(body) => {
                if !body.wants_undefined() && !grads.iter().any(|grad| grad.defined()) {
                    return Ok(undefined_grads(self.edges.len()));
                }
                body.apply(ctx, grads)
            }
        }
    }

    /// Runs the backward function alone: no hooks, no checks, nothing is freed.
    ///
    /// # Errors
    /// Those of the function.
    pub fn call(node: &NodeRef, grads: Grads) -> Result<Grads> {
        let needs = node.edges.iter().map(Edge::is_valid).collect();
        node.apply(&Backward::new(node, needs), grads)
    }

    /// Frees what was saved: a second backward pass through this node fails then.
    pub fn release_variables(&self) {
        self.saved.release();
        if let Body::Custom(body) = &self.body {
            body.release();
        }
    }

    /// Keeps the tangent of an output.
    pub(crate) fn set_tangent(&self, nr: u32, tangent: Tangent) {
        self.hooks().set_tangent(nr, tangent);
    }

    /// Forgets the tangents of all outputs.
    pub(crate) fn clear_tangents(&self) {
        if let Some(hooks) = self.hooks.get() {
            hooks.clear_tangents();
        }
    }

    /// The tangent of an output, if it had one.
    pub(crate) fn tangent(&self, nr: u32) -> Option<Tangent> {
        self.hooks.get()?.tangent(nr)
    }

    /// Unpacks the saved tensor of slot `slot`.
    pub(crate) fn unpack(node: &NodeRef, slot: usize) -> Result<Tensor> {
        match node.saved_at(slot)? {
            Saved::One(variable) => variable.unpack(Some(node)),
            Saved::List(_) => bug!("slot {slot} of {} holds a list", node.name()),
        }
    }

    /// Unpacks the saved tensors of slot `slot`.
    pub(crate) fn unpack_list(node: &NodeRef, slot: usize) -> Result<Vec<Tensor>> {
        match node.saved_at(slot)? {
            Saved::List(list) => list.iter().map(|variable| variable.unpack(Some(node))).collect(),
            Saved::One(_) => bug!("slot {slot} of {} holds one tensor", node.name()),
        }
    }

    fn saved_at(&self, slot: usize) -> Result<Saved> {
        let found = match self.places.of(slot) {
            Some(SlotLocation::Tensor(place)) => self.saved.get(place)?,
            Some(SlotLocation::Nothing) => return Ok(Saved::default()),
            _ => None,
        };
        match found {
            Some(slot) => Ok(slot),
            None => bug!("{} saved no tensor in slot {slot}", self.name()),
        }
    }

    /// The saved slots by name, for inspection. Tensors are unpacked.
    ///
    /// # Errors
    /// When the slot does not exist, was freed, or its tensor has changed since.
    pub fn saved_by_name(node: &NodeRef, name: &str) -> Result<Option<IValue>> {
        let Some(def) = node.def() else { return Ok(None) };
        let Some(slot) = def.saved.iter().position(|&other| other == name) else { return Ok(None) };
        match node.places.of(slot) {
            Some(SlotLocation::Value(place)) => return Ok(node.values.get(place).cloned()),
            Some(SlotLocation::One) => return Ok(Some(ONE.clone())),
            _ => {}
        }
        Ok(Some(match node.saved_at(slot)? {
            Saved::One(variable) => {
                let tensor = variable.unpack(Some(node))?;
                if tensor.defined() { tensor.into() } else { IValue::None }
            }
            Saved::List(_) => Self::unpack_list(node, slot)?.into(),
        }))
    }

    /// Every tensor variable this node saved and still holds, in slot order.
    pub fn saved_variables(&self) -> Vec<SavedVariable> {
        let mut all = Vec::new();
        for slot in self.saved.read().iter() {
            match slot {
                Saved::One(variable) => all.push(variable.clone()),
                Saved::List(list) => all.extend(list.iter().cloned()),
            }
        }
        all
    }
}

/// Edges of an argument, given where each argument's edges end (none: one edge each).
#[inline]
pub(crate) fn edge_range(ends: Option<&[u32]>, argument: usize) -> Range<usize> {
    let Some(ends) = ends else { return argument..argument + 1 };
    let start = if argument == 0 { 0 } else { ends[argument - 1] as usize };
    start..ends[argument] as usize
}

pub(crate) fn undefined_grads(count: usize) -> Grads {
    (0..count).map(|_| Tensor::undefined()).collect()
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<{}>", self.name())
    }
}

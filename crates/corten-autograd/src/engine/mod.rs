//! The backward engine. See the README beside this file for its invariants.

mod buffer;
mod evaluate;
mod streams;
mod task;
mod validate;

use crate::backward::Backward;
use crate::node::{Edge, Grads, InputMetadata, Node, NodeBody, NodeRef, undefined_grads};
use corten_core::{ExcludeGuard, NAMED, Result, bug, names_in_use};
use corten_ops::Tensor;
use std::any::Any;
use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use task::GraphTask;

pub(crate) use streams::stream_number;
pub(crate) use validate::{sum_to, validate_outputs};

/// What a backward pass is asked for.
///
/// ```
/// use corten::autograd::engine::{Request, execute};
/// use corten::autograd::graph::gradient_edge;
/// use corten::prelude::*;
///
/// # fn main() -> Result<()> {
/// let x = tensor![3.0]?.requires_grad_(true)?;
/// let y = (&x * &x)?;
/// let inputs = [gradient_edge(&x)?];
/// let found = execute(Request {
///     roots: vec![gradient_edge(&y)?],
///     grads: [tensor![1.0]?].into_iter().collect(),
///     keep_graph: false,
///     create_graph: false,
///     accumulate: false,
///     outputs: &inputs,
/// })?;
/// assert_eq!(found[0].to_vec::<f32>()?, [6.0]);
/// # Ok(())
/// # }
/// ```
pub struct Request<'a> {
    /// Where the gradients enter.
    pub roots: Vec<Edge>,
    /// One gradient per root; undefined ones are passed on as such.
    pub grads: Grads,
    /// Keeps what the nodes saved.
    pub keep_graph: bool,
    /// Records the pass itself.
    pub create_graph: bool,
    /// Accumulates into the leaves instead of returning gradients.
    pub accumulate: bool,
    /// The inputs the pass is restricted to; empty: all leaves.
    pub outputs: &'a [Edge],
}

/// Something around a backward pass.
///
/// ```
/// use corten::autograd::engine::PassScope;
///
/// struct Silent;
/// impl PassScope for Silent {
///     fn finish(self: Box<Self>) -> corten::Result<()> {
///         Ok(())
///     }
/// }
/// assert!(Box::new(Silent).finish().is_ok());
/// ```
pub trait PassScope {
    /// Ends after a pass that succeeded; after others it is dropped.
    ///
    /// # Errors
    /// Those of what it does then.
    fn finish(self: Box<Self>) -> Result<()>;
}

type MakeScope = fn() -> Option<Box<dyn PassScope>>;

static SCOPE: OnceLock<MakeScope> = OnceLock::new();

/// Has `make` asked at the start of each backward pass for something that lasts as long. The first one stays.
pub fn set_pass_scope(make: fn() -> Option<Box<dyn PassScope>>) {
    SCOPE.get_or_init(|| make);
}

/// A function that runs when a backward pass is complete.
pub type Callback = Box<dyn FnOnce() -> Result<()>>;

/// Below this depth a re-entrant pass stays on its thread.
const MAX_DEPTH: usize = 60;

thread_local! {
    static DEPTH: Cell<usize> = const { Cell::new(0) };
    static CURRENT: RefCell<Vec<Current>> = const { RefCell::new(Vec::new()) };
}

/// Backward passes so far, of all threads.
static TOTAL: AtomicU64 = AtomicU64::new(0);

#[derive(Clone)]
struct Current {
    id: u64,
    keep_graph: bool,
    /// Whether this pass and those around it go to all leaves.
    whole: bool,
    callbacks: Rc<RefCell<Vec<Callback>>>,
    node: Option<NodeRef>,
}

/// Runs a backward pass and returns the gradients of `outputs`, unless it accumulates.
///
/// # Errors
/// Those of the gradient functions and hooks, and for gradients of the wrong kind.
pub fn execute(request: Request<'_>) -> Result<Vec<Tensor>> {
    if names_in_use() { execute_unnamed(request) } else { execute_request(request) }
}

/// Gradients have no names, and what nodes saved is computed with as if it had none.
#[cold]
fn execute_unnamed(mut request: Request<'_>) -> Result<Vec<Tensor>> {
    let _unnamed = ExcludeGuard::new(NAMED);
    for grad in request.grads.iter_mut().filter(|grad| grad.has_names()) {
        *grad = corten_ops::op::alias(grad)?;
    }
    execute_request(request)
}

#[inline(always)]
fn execute_request(mut request: Request<'_>) -> Result<Vec<Tensor>> {
    validate_outputs(&request.roots, &mut request.grads, "")?;
    let scope = SCOPE.get().and_then(|make| make());
    let run = if continues_elsewhere() { execute_elsewhere } else { execute_at };
    let found = run(request, DEPTH.get())?;
    scope.map_or(Ok(()), PassScope::finish)?;
    Ok(found)
}

/// Whether a backward pass that this thread starts runs on another thread, for which this one waits:
/// it must not hold what gradient functions need.
#[must_use]
pub fn continues_elsewhere() -> bool {
    let depth = DEPTH.get();
    depth > 0 && depth.is_multiple_of(MAX_DEPTH)
}

/// A build without threads has one stack, which must not overflow.
#[cfg(not(all(feature = "threads", not(target_family = "wasm"))))]
fn execute_elsewhere(_: Request<'_>, depth: usize) -> Result<Vec<Tensor>> {
    corten_core::bail!(
        Runtime,
        "backward passes within backward passes are nested {depth} deep, too deep for a build without threads"
    )
}

/// Continues a deep recursion on the stack of another thread, while this one waits.
#[cfg(all(feature = "threads", not(target_family = "wasm")))]
fn execute_elsewhere(request: Request<'_>, depth: usize) -> Result<Vec<Tensor>> {
    use corten_core::tls::{self, ThreadStateGuard};
    let state = tls::thread_state();
    let result = std::thread::scope(|scope| {
        let run = || {
            let _state = ThreadStateGuard::new(state);
            execute_at(request, depth)
        };
        match std::thread::Builder::new().stack_size(8 << 20).spawn_scoped(scope, run) {
            Ok(handle) => handle.join(),
            Err(error) => Ok(Err(corten_core::err!(Runtime, "can't start thread: {error}"))),
        }
    });
    match result {
        Ok(result) => result,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

fn execute_at(request: Request<'_>, depth: usize) -> Result<Vec<Tensor>> {
    let _level = Level::enter(depth, request.keep_graph, request.outputs.is_empty());
    let (root, grads) = graph_root(request.roots, request.grads);
    let Some(root) = root else { return Ok(Vec::new()) };
    let mut task = GraphTask::new(request.keep_graph, request.create_graph);
    let min_topological_nr = task::min_topological_nr(request.outputs);
    task.compute_dependencies(&root, min_topological_nr);
    if !request.outputs.is_empty() {
        task.init_to_execute(&root, request.outputs, request.accumulate, min_topological_nr)?;
    }
    task.start(root, grads)?;
    task.run()?;
    task.order.finish()?;
    run_callbacks()?;
    Ok(task.into_captured())
}

/// Callbacks may queue further ones.
fn run_callbacks() -> Result<()> {
    let Some(callbacks) = current().map(|current| current.callbacks) else { return Ok(()) };
    loop {
        let next = std::mem::take(&mut *callbacks.borrow_mut());
        if next.is_empty() {
            return Ok(());
        }
        for callback in next {
            callback()?;
        }
    }
}

/// The level of re-entrance, left again when dropped.
struct Level {
    before: usize,
}

impl Level {
    fn enter(depth: usize, keep_graph: bool, whole: bool) -> Self {
        let before = DEPTH.replace(depth + 1);
        let id = TOTAL.fetch_add(1, Ordering::Relaxed);
        let whole = whole && passes_are_whole();
        let current = Current { id, keep_graph, whole, callbacks: Rc::default(), node: None };
        CURRENT.with_borrow_mut(|stack| stack.push(current));
        Self { before }
    }
}

impl Drop for Level {
    fn drop(&mut self) {
        DEPTH.set(self.before);
        let current = CURRENT.with_borrow_mut(Vec::pop);
        drop(current);
    }
}

fn current() -> Option<Current> {
    CURRENT.with_borrow(|stack| stack.last().cloned())
}

/// Notes which node runs.
fn set_current_node(node: Option<NodeRef>) {
    let old = CURRENT.with_borrow_mut(|stack| match stack.last_mut() {
        Some(current) => std::mem::replace(&mut current.node, node),
        None => None,
    });
    drop(old);
}

/// A number for the backward pass that runs on this thread, if one does.
pub fn current_task_id() -> Option<u64> {
    current().map(|current| current.id)
}

/// Whether the backward pass that runs on this thread keeps the graph.
pub fn current_keep_graph() -> Option<bool> {
    current().map(|current| current.keep_graph)
}

/// Whether the backward passes that run on this thread go to all leaves: none was asked for the
/// gradients of certain inputs. Also true while none runs.
pub fn passes_are_whole() -> bool {
    current().is_none_or(|current| current.whole)
}

/// The node that runs on this thread.
pub fn current_node() -> Option<NodeRef> {
    current()?.node
}

/// Runs `callback` when the backward pass of this thread is complete.
///
/// # Errors
/// Outside of a backward pass.
pub fn queue_callback(callback: impl FnOnce() -> Result<()> + 'static) -> Result<()> {
    let Some(current) = current() else {
        corten_core::bail!(Runtime, "Final callbacks can only be installed during backward pass.");
    };
    current.callbacks.borrow_mut().push(Box::new(callback));
    Ok(())
}

/// One root is run directly; several get a node above them that hands each its gradient.
fn graph_root(mut roots: Vec<Edge>, grads: Grads) -> (Option<NodeRef>, Grads) {
    if let [root] = &mut roots[..] {
        let Some(node) = root.node.take() else { return (None, grads) };
        let mut inputs = undefined_grads(node.num_inputs());
        for (slot, grad) in inputs.iter_mut().skip(root.nr as usize).zip(grads) {
            *slot = grad;
        }
        return (Some(node), inputs);
    }
    let mut node = Node::custom(Box::new(GraphRoot(grads.clone())));
    grads.iter().for_each(|grad| node.inputs.push(InputMetadata::of(grad)));
    roots.into_iter().for_each(|root| node.add_edge(root));
    (Some(node.share()), grads)
}

/// The node above several roots.
struct GraphRoot(Grads);

impl NodeBody for GraphRoot {
    fn name(&self) -> Cow<'_, str> {
        Cow::Borrowed("GraphRoot")
    }

    fn apply(&self, ctx: &Backward<'_>, _grads: Grads) -> Result<Grads> {
        if self.0.len() != ctx.node().num_outputs() {
            bug!("GraphRoot has {} gradients", self.0.len());
        }
        Ok(self.0.clone())
    }

    fn wants_undefined(&self) -> bool {
        true
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

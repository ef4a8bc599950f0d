//! Forward mode: tangents that travel along with the values.

use crate::ownership::OwnershipWalk;
use crate::{Autograd, BackwardOptions, WeakNode, graph, meta};
use corten_core::geometry::ascending;
use corten_core::tls::{ExcludeGuard, IncludeGuard};
use corten_core::{
    DispatchKey, GradModeGuard, KeySet, MemoryFormat, Result, WeakTensor, bail,
    default_cpu_generator, ensure, grad_mode_enabled,
};
use corten_ops::batched::{self, Batched};
use corten_ops::dispatch::set_fallback;
use corten_ops::{BoxedCall, IValue, OpKind, Stack, Tensor, op};
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

// Note [Forward mode from backward formulas]
// The product of a vector u with an operator's Jacobian is linear in u, and its derivative with
// respect to u, applied to the tangents of the inputs, is the product of the Jacobian with those
// tangents. So every operator that has a backward formula has a forward one, and none has to be
// written. The price is a second run of the operator and two backward passes through it alone.
//
// While a level is open, a key on top of all others leads every call to `along` below. It runs
// the operator on inputs of its own, the shadows, to get the tangents, and then goes on with the
// call as if nothing had happened. Views are linear: theirs are the same views of the tangents, so
// that writing to either reaches the other.

const KEY: DispatchKey = DispatchKey::FuncTorchDynamicLayerFrontMode;

/// Levels opened so far, by all threads; 0 is none.
static LEVELS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static OPEN: RefCell<Option<Open>> = const { RefCell::new(None) };
}

struct Open {
    level: u64,
    /// What has tangents of this level. They may keep alive what has them, so they are taken away
    /// when the level is closed.
    tensors: Vec<WeakTensor>,
    nodes: Vec<WeakNode>,
    _included: IncludeGuard,
}

impl Drop for Open {
    fn drop(&mut self) {
        for tensor in self.tensors.drain(..).filter_map(|tensor| tensor.upgrade()) {
            if let Some(meta) = meta::get(&tensor) {
                meta.set_tangent(None);
            }
        }
        self.nodes.drain(..).filter_map(|node| node.upgrade()).for_each(|n| n.clear_tangents());
    }
}

/// A tangent and the level it belongs to; it is forgotten when that is closed.
#[derive(Clone)]
pub(crate) struct Tangent {
    level: u64,
    tensor: Tensor,
}

impl Tangent {
    /// Its owner was reached from all of its own.
    pub(crate) fn reach(&self, walk: &mut OwnershipWalk<'_>) {
        walk.tensor(&self.tensor);
    }
}

/// Registers the kernel that computes tangents.
pub(crate) fn register() {
    set_fallback(KEY, Arc::new(along));
}

fn current() -> Option<u64> {
    OPEN.with_borrow(|open| open.as_ref().map(|open| open.level))
}

/// Opens a level of forward differentiation on this thread and returns its number.
///
/// # Errors
/// `Runtime` when one is open.
pub fn enter_level() -> Result<u64> {
    ensure!(current().is_none(), Runtime, "Nested forward mode AD is not supported at the moment");
    let level = LEVELS.fetch_add(1, Ordering::Relaxed) + 1;
    let included = IncludeGuard::new(KeySet::from_key(KEY));
    let (tensors, nodes) = (Vec::new(), Vec::new());
    OPEN.set(Some(Open { level, tensors, nodes, _included: included }));
    Ok(level)
}

/// Closes a level. Tangents of it are gone.
///
/// # Errors
/// `Runtime` unless it is the open one.
pub fn exit_level(level: u64) -> Result<()> {
    ensure!(
        current() == Some(level),
        Runtime,
        "Trying to exit a forward AD level that was not the last one that was created. This is \
         not supported."
    );
    drop(OPEN.take());
    Ok(())
}

/// Whether a level is open on this thread.
pub fn is_open() -> bool {
    current().is_some()
}

/// The tangent of a tensor at the open level.
pub fn tangent(tensor: &Tensor) -> Option<Tensor> {
    let level = current()?;
    if let Some(batch) = batched::of(tensor) {
        // Kept with the value, so that it stays where dimensions are hidden and shown.
        return batched::enclose(&tangent(&batch.value)?, batch.dim, batch.level).ok();
    }
    let tangent = meta::known(tensor)?.tangent()?;
    (tangent.level == level).then_some(tangent.tensor)
}

fn set_tangent(tensor: &Tensor, value: Tensor) -> Result<()> {
    let Some(level) = current() else { return Ok(()) };
    if let Some(batch) = batched::of(tensor) {
        return set_tangent(&batch.value, below(&batch, &value)?);
    }
    meta::get_or_init(tensor)?.set_tangent(Some(Tangent { level, tensor: value }));
    OPEN.with_borrow_mut(|open| {
        if let Some(open) = open {
            open.tensors.push(tensor.downgrade());
        }
    });
    Ok(())
}

/// A tangent of a batched tensor as one of its value.
fn below(batch: &Batched, found: &Tensor) -> Result<Tensor> {
    let dim = batch.dim as i64;
    match batched::expose(found, batch.level)? {
        (value, Some(place)) if place == batch.dim => Ok(value),
        (value, Some(place)) => op::movedim_int(&value, place as i64, dim),
        (value, None) => {
            let sizes = batch.value.sizes();
            op::clone(&op::expand(&op::unsqueeze(&value, dim)?, &sizes, false)?, None)
        }
    }
}

/// A view of `primal` that carries a tangent.
///
/// # Errors
/// `Runtime` outside of a level, for a tensor that has a tangent, or for a tangent of another
/// shape; `Value` for dtypes without gradients.
pub fn make_dual(primal: &Tensor, value: &Tensor) -> Result<Tensor> {
    ensure!(
        is_open(),
        Runtime,
        "Trying to create a dual Tensor for forward AD but no level exists, make sure to \
         enter_dual_level() first."
    );
    ensure!(
        graph::is_differentiable_type(primal.dtype()),
        Value,
        "Expected primal to be floating point or complex, but got: torch.{}",
        primal.dtype().name()
    );
    ensure!(
        graph::is_differentiable_type(value.dtype()),
        Value,
        "Expected tangent to be floating point or complex, but got: torch.{}",
        value.dtype().name()
    );
    ensure!(
        tangent(primal).is_none(),
        Runtime,
        "Making a dual Tensor based on a Tensor that already has a forward gradient at the same \
         level 0 is not supported."
    );
    ensure!(
        tangent(value).is_none(),
        Runtime,
        "Expected tangent to not have a forward gradient at the same level"
    );
    ensure!(
        primal.sizes() == value.sizes(),
        Runtime,
        "Trying to set a forward gradient that has a different size than that of the original \
         Tensor, this is not supported. Tensor is of size {:?} while the given forward gradient is \
         of size {:?}.",
        primal.sizes().as_slice(),
        value.sizes().as_slice()
    );
    let _off = off();
    let dual = op::alias(primal)?;
    set_tangent(&dual, op::to_dtype(value, primal.dtype(), false, false, None)?)?;
    Ok(dual)
}

/// A view of a tensor without its tangent, and the tangent if it has one.
///
/// # Errors
/// Those of `alias`.
pub fn unpack_dual(dual: &Tensor) -> Result<(Tensor, Option<Tensor>)> {
    let _off = off();
    let found = tangent(dual);
    match found {
        Some(found) => Ok((op::alias(dual)?, Some(op::alias(&found)?))),
        None => Ok((dual.clone(), None)),
    }
}

fn off() -> ExcludeGuard {
    ExcludeGuard::new(KeySet::from_key(KEY))
}

/// Operators whose results have no tangents by definition.
const CUTTING: [&str; 2] = ["detach", "detach_"];

/// Computes the tangents of a call's results on the way to its kernel.
fn along(call: &BoxedCall, stack: &mut Stack) -> Result<()> {
    let _off = off();
    let def = call.op().def();
    let mut inputs = Vec::new();
    stack.iter().for_each(|value| value.for_each_tensor(&mut |t| inputs.push(t.clone())));
    if CUTTING.contains(&def.name) || inputs.iter().all(|input| tangent(input).is_none()) {
        return call.redispatch(stack);
    }
    if def.kind == OpKind::View {
        return along_view(call, stack);
    }
    let written = written(call, stack);
    if def.kind == OpKind::Out {
        bail!(
            NotImplemented,
            "Trying to use forward AD with {}_out that does not support it because it is an out= \
             function",
            def.name
        );
    }
    let tangents = Shadow::new(call, stack, &written)?.tangents()?;
    call.redispatch(stack)?;
    let mut results = Vec::new();
    stack.iter().for_each(|value| value.for_each_tensor(&mut |t| results.push(t.clone())));
    for (result, found) in results.iter().zip(tangents) {
        let Some(found) = found else { continue };
        match written.iter().any(|tensor| tensor.is_same(result)) {
            true => overwrite(result, &found)?,
            false => attach(result, found)?,
        }
    }
    Ok(())
}

/// The tangent of a view is the same view of the tangent.
fn along_view(call: &BoxedCall, stack: &mut Stack) -> Result<()> {
    let mut moved = stack.clone();
    let viewed = match moved.iter_mut().find(|value| matches!(value, IValue::Tensor(_))) {
        Some(IValue::Tensor(tensor)) => tensor,
        _ => return call.redispatch(stack),
    };
    let Some(found) = tangent(viewed) else { return call.redispatch(stack) };
    *viewed = found;
    call.redispatch(&mut moved)?;
    call.redispatch(stack)?;
    let (mut views, mut tangents) = (Vec::new(), Vec::new());
    stack.iter().for_each(|value| value.for_each_tensor(&mut |t| views.push(t.clone())));
    moved.iter().for_each(|value| value.for_each_tensor(&mut |t| tangents.push(t.clone())));
    views.iter().zip(tangents).try_for_each(|(view, found)| attach(view, found))
}

/// Gives a new result its tangent, also where backward functions find it again.
///
/// # Errors
/// As [`graph::grad_fn`].
pub fn attach(result: &Tensor, found: Tensor) -> Result<()> {
    if let Some(batch) = batched::of(result) {
        return attach(&batch.value, below(&batch, &found)?);
    }
    if let Some(node) = graph::grad_fn(result)? {
        let level = current().unwrap_or_default();
        node.set_tangent(graph::output_nr(result), Tangent { level, tensor: found.clone() });
        OPEN.with_borrow_mut(|open| {
            if let Some(open) = open {
                open.nodes.push(node.downgrade());
            }
        });
    }
    set_tangent(result, found)
}

/// The tangent of a saved result, for the tensor that stands for it in a backward function.
pub(crate) fn restore(tensor: &Tensor, saved: Option<Tangent>) -> Result<()> {
    match saved.filter(|saved| Some(saved.level) == current()) {
        Some(saved) => set_tangent(tensor, saved.tensor),
        None => Ok(()),
    }
}

/// Gives a tensor that was written to its new tangent: in the memory of the old one, so that the
/// tangents of its views and of what it is a view of see it.
fn overwrite(tensor: &Tensor, found: &Tensor) -> Result<()> {
    if let Some(old) = tangent(tensor) {
        op::copy_(&old, found, false)?;
        return Ok(());
    }
    let Some(base) = crate::view::base_of(tensor) else {
        return set_tangent(tensor, found.clone());
    };
    let (sizes, offset) = (base.sizes(), base.storage_offset());
    let (strides, start, reversed) = ascending(&sizes, &base.strides(), offset);
    let buffer =
        op::empty_strided(&sizes, &strides, Some(base.dtype()), None, Some(base.device()), None)?;
    op::zero_(&buffer)?;
    let offset = tensor.storage_offset() - start;
    let part = crate::view::strided(&buffer, &tensor.sizes(), &tensor.strides(), offset)?;
    let whole = if reversed.is_empty() { buffer } else { op::flip_view(&buffer, &reversed)? };
    op::copy_(&part, found, false)?;
    set_tangent(&base, whole)?;
    set_tangent(tensor, part)
}

/// Whether a tensor among the arguments or one of their tangents is batched.
fn has_batch(stack: &Stack) -> bool {
    let mut found = false;
    stack.iter().for_each(|value| {
        value.for_each_tensor(&mut |tensor| {
            let given = tangent(tensor);
            found |= batched::is_batched(tensor) || given.is_some_and(|t| batched::is_batched(&t));
        });
    });
    found
}

fn written(call: &BoxedCall, stack: &Stack) -> Vec<Tensor> {
    let mut written = Vec::new();
    for (argument, value) in call.op().schema().arguments.iter().zip(stack.iter()) {
        if argument.is_written() {
            value.for_each_tensor(&mut |tensor| written.push(tensor.clone()));
        }
    }
    written
}

/// The operator run on inputs of its own.
struct Shadow {
    /// The inputs that have tangents, and these.
    inputs: Vec<(Tensor, Tensor)>,
    outputs: Vec<Tensor>,
    /// Whether the tangents are differentiable themselves.
    create_graph: bool,
}

impl Shadow {
    fn new(call: &BoxedCall, stack: &Stack, written: &[Tensor]) -> Result<Self> {
        let mut inputs = Vec::new();
        let mut create_graph = false;
        let batch = has_batch(stack);
        let recording = grad_mode_enabled();
        let _mode = GradModeGuard::new(true);
        let mut arguments = stack.clone();
        for value in arguments.iter_mut() {
            replace(value, &mut |tensor| {
                let Some(found) = tangent(tensor) else {
                    return match written.iter().any(|other| other.is_same(tensor)) {
                        true => op::clone(tensor, Some(MemoryFormat::Preserve)),
                        false => Ok(tensor.clone()),
                    };
                };
                create_graph |=
                    recording && (graph::requires_grad(tensor) || graph::requires_grad(&found));
                // Every item of a batch has a gradient of its own.
                let items = if batch { batched::everywhere(tensor)? } else { tensor.clone() };
                let own = match graph::requires_grad(tensor) && recording {
                    true => op::alias(&items)?,
                    false => {
                        let own = op::detach(&items)?;
                        own.requires_grad_(true)?;
                        own
                    }
                };
                inputs.push((own.clone(), found));
                match written.iter().any(|other| other.is_same(tensor)) {
                    // What is written must not be a leaf.
                    true => op::clone(&own, Some(MemoryFormat::Preserve)),
                    false => Ok(own),
                }
            })?;
        }
        let generators = SavedGenerators::of(stack);
        call.op().call_boxed(&mut arguments)?;
        generators.restore()?;
        let mut outputs = Vec::new();
        arguments.iter().for_each(|value| value.for_each_tensor(&mut |t| outputs.push(t.clone())));
        Ok(Self { inputs, outputs, create_graph })
    }

    /// A tangent in memory of its own: results may be written to.
    fn own(&self, found: Tensor, others: &[Option<Tensor>]) -> Result<Tensor> {
        let mut given = self.inputs.iter().map(|(_, direction)| direction);
        let shared = given.any(|direction| found.is_alias_of(direction))
            || others.iter().flatten().any(|other| found.is_alias_of(other));
        if shared { op::clone(&found, Some(MemoryFormat::Preserve)) } else { Ok(found) }
    }

    /// The tangent of each output that depends on the inputs.
    fn tangents(&self) -> Result<Vec<Option<Tensor>>> {
        let _mode = GradModeGuard::new(true);
        let chosen: Vec<usize> = (0..self.outputs.len())
            .filter(|&place| graph::requires_grad(&self.outputs[place]))
            .collect();
        let mut tangents = vec![None; self.outputs.len()];
        if chosen.is_empty() {
            return Ok(tangents);
        }
        let outputs: Vec<Tensor> = chosen.iter().map(|&p| self.outputs[p].clone()).collect();
        let weights: Vec<Tensor> = outputs.iter().map(weight).collect::<Result<_>>()?;
        let inputs: Vec<Tensor> = self.inputs.iter().map(|(input, _)| input.clone()).collect();
        let back = gradients(&outputs, &inputs, &weights, true)?;
        let (mut paths, mut directions) = (Vec::new(), Vec::new());
        for (found, (_, direction)) in back.into_iter().zip(&self.inputs) {
            if let Some(found) = found.filter(|found| graph::requires_grad(found)) {
                paths.push(found);
                directions.push(direction.clone());
            }
        }
        let moved = match paths.is_empty() {
            // Bounded: results.
            true => vec![None; weights.len()],
            false => gradients(&paths, &weights, &directions, self.create_graph)?,
        };
        for ((place, found), weight) in chosen.into_iter().zip(moved).zip(&weights) {
            let found = match found {
                Some(found) => self.own(found, &tangents)?,
                None => op::zeros_like(weight, None, None, None, None, None)?,
            };
            tangents[place] = Some(if self.create_graph { found } else { op::detach(&found)? });
        }
        Ok(tangents)
    }
}

/// Where the product with the Jacobian, which is linear, is differentiated: at ones, because
/// formulas may take logarithms on the way.
fn weight(output: &Tensor) -> Result<Tensor> {
    let weight = op::ones_like(&op::detach(output)?, None, None, None, None, None)?;
    weight.requires_grad_(true)?;
    Ok(weight)
}

fn gradients(
    outputs: &[Tensor],
    inputs: &[Tensor],
    vectors: &[Tensor],
    create_graph: bool,
) -> Result<Vec<Option<Tensor>>> {
    let vectors: Vec<Option<Tensor>> = vectors.iter().cloned().map(Some).collect();
    let options = BackwardOptions { create_graph, retain_graph: Some(true) };
    crate::grad(outputs, inputs, Some(&vectors), options, Some(true), false)
}

fn replace(value: &mut IValue, with: &mut impl FnMut(&Tensor) -> Result<Tensor>) -> Result<()> {
    match value {
        IValue::Tensor(tensor) if tensor.defined() => *tensor = with(tensor)?,
        IValue::TensorList(list) => {
            for tensor in list.iter_mut() {
                *tensor = with(tensor)?;
            }
        }
        IValue::OptionalTensorList(list) => {
            for tensor in list.iter_mut().flatten() {
                *tensor = with(tensor)?;
            }
        }
        _ => {}
    }
    Ok(())
}

/// The states of the generators that an operator may draw from, so that the shadow and the
/// operator draw the same numbers.
struct SavedGenerators(Vec<(corten_core::Generator, Vec<u8>)>);

impl SavedGenerators {
    fn of(stack: &Stack) -> Self {
        let given = stack.iter().filter_map(|value| match value {
            IValue::Generator(generator) => Some(generator.clone()),
            _ => None,
        });
        let all = given.chain(std::iter::once(default_cpu_generator().clone()));
        Self(all.map(|generator| (generator.clone(), generator.get_state())).collect())
    }

    fn restore(self) -> Result<()> {
        self.0.iter().try_for_each(|(generator, state)| generator.set_state(state))
    }
}

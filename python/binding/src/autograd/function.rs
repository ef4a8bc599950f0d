//! `autograd.Function`: functions whose forward and backward are Python.
//!
//! The context object that `forward` sees is the Python side of the graph's node: the node's body
//! owns the context, the context knows the node weakly.

use super::garbage::Found;
use super::hooks::{register_post_hook, register_pre_hook};
use super::node::next_functions;
use crate::py::class::{Class, TypeBuilder, instance_of, make, this, value};
use crate::py::collect::{Referents, has_one_owner};
use crate::py::errors::{runtime_error, type_error};
use crate::py::gil::{self, Shared, call_python};
use crate::py::{Args, Obj, Py, TypeCell, ffi, getter, method, name, setter, slot};
use crate::tensor;
use corten_autograd::backward::Backward;
use corten_autograd::function::{Effects, PendingNode, check_gradient_count, wrap_outputs};
use corten_autograd::node::{Grads, InputMetadata, NodeBody};
use corten_autograd::ownership::OwnershipWalk;
use corten_autograd::saved::SavedVariable;
use corten_autograd::{Node, NodeRef, WeakNode, forward, graph};
use corten_core::{GradModeGuard, Result, grad_mode_enabled};
use corten_ops::{Tensor, batched};
use std::any::Any;
use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::ffi::CStr;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

static TYPE: TypeCell = TypeCell::new();

/// What `forward` saved: absent before it ran and after the graph was freed.
#[derive(Default)]
struct SavedState {
    variables: Vec<Option<SavedVariable>>,
    freed: bool,
}

/// What context and node body share.
#[derive(Default)]
struct Common {
    node: OnceLock<WeakNode>,
    saved: Mutex<SavedState>,
}

impl Common {
    /// Drops what was saved.
    fn free(&self) {
        let mut saved = self.saved.lock().unwrap_or_else(PoisonError::into_inner);
        let variables = std::mem::take(&mut saved.variables);
        saved.freed = true;
        drop(saved);
        drop(variables);
    }
}

/// The context of one call.
struct Context {
    common: Arc<Common>,
    /// What `forward` wants to be saved, until it was: an output that the context kept as it is
    /// would keep its own node.
    to_save: RefCell<Option<Obj>>,
    /// What `jvp` sees as the saved tensors, while it runs.
    for_forward: RefCell<Option<Obj>>,
    in_jvp: Cell<bool>,
    dirty: RefCell<Option<Obj>>,
    non_differentiable: RefCell<Option<Obj>>,
    materialize: Cell<bool>,
    needs: RefCell<Option<Obj>>,
}

impl Context {
    fn tuples(&self) -> [&RefCell<Option<Obj>>; 5] {
        [&self.to_save, &self.for_forward, &self.dirty, &self.non_differentiable, &self.needs]
    }

    /// Whether the context shows the collector what it saved: see Note [Cycles through graphs].
    fn shows_saved(&self, object: *mut ffi::PyObject) -> bool {
        let has_node = self.common.node.get().is_some_and(|node| !node.expired());
        gil::all_attached() && !(has_node && has_one_owner(object))
    }
}

impl Class for Context {
    const NAME: &'static CStr = c"corten._C._FunctionBase";

    fn cell() -> &'static TypeCell {
        &TYPE
    }

    #[allow(clippy::too_many_lines, reason = "a table")]
    fn describe(builder: TypeBuilder) -> TypeBuilder {
        builder
            .flags(ffi::Py_TPFLAGS_BASETYPE)
            .slot(ffi::Py_tp_new, slot!(call new))
            .getset([
                getter!("saved_tensors", saved_tensors),
                getter!("saved_variables", saved_tensors),
                getter!("to_save", |s: &Obj| tuple_in(&this::<Context>(s).to_save)),
                getter!("dirty_tensors", |s: &Obj| tuple_in(&this::<Context>(s).dirty)),
                getter!("non_differentiable", |s: &Obj| {
                    tuple_in(&this::<Context>(s).non_differentiable)
                }),
                setter!(
                    "needs_input_grad",
                    |s: &Obj| tuple_in(&this::<Context>(s).needs),
                    |s: &Obj, value: Option<&Obj>| {
                        put(&this::<Context>(s).needs, value.cloned());
                        Ok(())
                    }
                ),
                setter!(
                    "materialize_grads",
                    |s: &Obj| Ok(Obj::bool(this::<Context>(s).materialize.get())),
                    |s: &Obj, value: Option<&Obj>| {
                        let wanted = value.is_some_and(|value| value.is_true().unwrap_or(true));
                        this::<Context>(s).materialize.set(wanted);
                        Ok(())
                    }
                ),
                getter!("next_functions", |s: &Obj| match node_of(s) {
                    Some(node) => next_functions(&node),
                    None => Obj::tuple([]),
                }),
                getter!("requires_grad", |_s: &Obj| Ok(Obj::bool(true))),
            ])
            .methods([
                method!("save_for_backward", |s: &Obj, args: Args<'_>| {
                    keep(&this::<Context>(s).to_save, args, |item| optional_tensor(item).map(drop))
                }),
                method!("save_for_forward", |s: &Obj, args: Args<'_>| {
                    keep(&this::<Context>(s).for_forward, args, |item| {
                        optional_tensor(item).map(drop)
                    })
                }),
                method!("_set_in_jvp", |s: &Obj, args: Args<'_>| {
                    let [inside] = args.positional else {
                        return Err(type_error("one value expected"));
                    };
                    let inside = inside.is_true()?;
                    this::<Context>(s).in_jvp.set(inside);
                    if !inside {
                        put(&this::<Context>(s).for_forward, None);
                    }
                    Ok(Obj::none())
                }),
                method!("mark_dirty", |s: &Obj, args: Args<'_>| {
                    keep(&this::<Context>(s).dirty, args, |item| tensor::expect(item).map(drop))
                }),
                method!("mark_non_differentiable", |s: &Obj, args: Args<'_>| {
                    keep(&this::<Context>(s).non_differentiable, args, |item| {
                        tensor::expect(item).map(drop)
                    })
                }),
                method!("mark_shared_storage", |_s: &Obj, _a: Args<'_>| Ok(Obj::none())),
                method!("set_materialize_grads", |s: &Obj, args: Args<'_>| {
                    let [wanted] = args.positional else {
                        return Err(type_error("one value expected"));
                    };
                    this::<Context>(s).materialize.set(wanted.is_true()?);
                    Ok(Obj::none())
                }),
                method!("name", |s: &Obj, _a: Args<'_>| Obj::str_from(&s.type_name())),
                method!("register_hook", |s: &Obj, args: Args<'_>| {
                    register_post_hook(&*expect_node(s)?, args)
                }),
                method!("register_prehook", |s: &Obj, args: Args<'_>| {
                    register_pre_hook(&*expect_node(s)?, args)
                }),
            ])
    }

    const COLLECTED: bool = true;

    fn traverse(&self, object: *mut ffi::PyObject, referents: &mut Referents) {
        for tuple in self.tuples() {
            if let Ok(tuple) = tuple.try_borrow()
                && let Some(tuple) = &*tuple
            {
                referents.object(tuple);
            }
        }
        if self.shows_saved(object)
            && let Ok(saved) = self.common.saved.try_lock()
        {
            OwnershipWalk::new(&mut Found(referents)).from_saved(saved.variables.iter().flatten());
        }
    }

    fn clear(&self) {
        self.tuples().into_iter().for_each(|tuple| put(tuple, None));
        self.common.free();
    }
}

/// Keeps an object or nothing. What was there is dropped afterwards: that may run any code.
fn put(place: &RefCell<Option<Obj>>, object: Option<Obj>) {
    let old = place.replace(object);
    drop(old);
}

/// The tuple in a place, or an empty one.
fn tuple_in(place: &RefCell<Option<Obj>>) -> Py<Obj> {
    let known = place.borrow().clone();
    known.map_or_else(|| Obj::tuple([]), Ok)
}

/// Keeps the arguments as a tuple, each of which has to pass `check`.
fn keep(place: &RefCell<Option<Obj>>, args: Args<'_>, check: impl Fn(&Obj) -> Py<()>) -> Py<Obj> {
    args.positional.iter().try_for_each(check)?;
    put(place, Some(Obj::tuple(args.positional.iter().map(|item| Ok(item.clone())))?));
    Ok(Obj::none())
}

/// The tensors of the tuple in a place, which is left empty.
fn take_tensors(place: &RefCell<Option<Obj>>) -> Py<Vec<Option<Tensor>>> {
    match place.take() {
        Some(tuple) => tuple.items()?.iter().map(optional_tensor).collect(),
        None => Ok(Vec::new()),
    }
}

fn new(class: &Obj, _args: &Obj, _kwargs: Option<&Obj>) -> Py<Obj> {
    instance_of(
        class.as_ptr().cast(),
        Context {
            common: Arc::default(),
            to_save: RefCell::default(),
            for_forward: RefCell::default(),
            in_jvp: Cell::new(false),
            dirty: RefCell::default(),
            non_differentiable: RefCell::default(),
            materialize: Cell::new(true),
            needs: RefCell::default(),
        },
    )
}

fn optional_tensor(object: &Obj) -> Py<Option<Tensor>> {
    if object.is_none() {
        return Ok(None);
    }
    match tensor::get(object) {
        Some(found) => Ok(Some(found.clone())),
        None => Err(type_error(format!(
            "save_for_backward can only save variables, but argument is of type {}",
            object.type_name()
        ))),
    }
}

fn expect_node(object: &Obj) -> Py<NodeRef> {
    node_of(object).ok_or_else(|| {
        runtime_error(
            "Attribute is invalid for this instance of _C._FunctionBase. Accessing this \
                       attribute directly on an instance of autograd.Function is a legacy access \
                       pattern that is no longer supported.",
        )
    })
}

/// The node of a context.
pub(super) fn node_of(object: &Obj) -> Option<NodeRef> {
    value::<Context>(object)?.common.node.get()?.upgrade()
}

/// The context that is the Python side of a node.
pub(super) fn context_of(node: &Node) -> Option<Obj> {
    node.body_as::<PyFunction>().map(|body| body.context.get())
}

fn saved_tensors(object: &Obj) -> Py<Obj> {
    if this::<Context>(object).in_jvp.get() {
        return tuple_in(&this::<Context>(object).for_forward);
    }
    let common = &this::<Context>(object).common;
    let variables = {
        let saved = common.saved.lock().unwrap_or_else(PoisonError::into_inner);
        if saved.freed {
            return Err(runtime_error(
                "Trying to backward through the graph a second time (or directly access saved \
                 tensors after they have already been freed). Saved intermediate values of the \
                 graph are freed when you call .backward() or autograd.grad(). Specify \
                 retain_graph=True if you need to backward through the graph a second time or if \
                 you need to access saved tensors after calling backward.",
            ));
        }
        saved.variables.clone()
    };
    let node = node_of(object);
    Obj::tuple(variables.iter().map(|variable| match variable {
        Some(variable) => tensor::wrap(&variable.unpack_for_user(node.as_ref())?),
        None => Ok(Obj::none()),
    }))
}

/// The body of a node whose backward is Python.
struct PyFunction {
    name: String,
    context: Shared,
    common: Arc<Common>,
    materialize: bool,
    /// Whether each argument of `forward` was a tensor.
    is_tensor: Vec<bool>,
    outputs: Vec<Option<InputMetadata>>,
    /// Whether each result of `forward` was a tensor; others have no gradient.
    is_tensor_output: Vec<bool>,
}

impl NodeBody for PyFunction {
    fn name(&self) -> Cow<'_, str> {
        Cow::Borrowed(&self.name)
    }

    fn apply(&self, ctx: &Backward<'_>, grads: Grads) -> Result<Grads> {
        let mut results = call_python(|| self.call_backward(grads))?;
        check_gradient_count(&self.name, &mut results, ctx.node().num_outputs())?;
        Ok(results.into())
    }

    fn release(&self) {
        self.common.free();
    }

    fn reach(&self, walk: &mut OwnershipWalk<'_>) {
        walk.foreign(&self.context);
        if has_one_owner(self.context.as_ptr())
            && let Ok(saved) = self.common.saved.try_lock()
        {
            walk.from_saved(saved.variables.iter().flatten());
        }
    }

    fn wants_undefined(&self) -> bool {
        true
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl PyFunction {
    fn call_backward(&self, mut grads: Grads) -> Py<Vec<Tensor>> {
        if self.materialize {
            for (grad, metadata) in grads.iter_mut().zip(&self.outputs) {
                if let (false, Some(metadata)) = (grad.defined(), metadata) {
                    *grad = zeros_like(metadata)?;
                }
            }
        }
        let context = self.context.get();
        let class = context.type_obj().attr(name!("_forward_cls"))?;
        let method = class.call_method(name!("_backward_method"), &[])?;
        let mut args = vec![context];
        let mut grads = grads.iter();
        for &is_tensor in &self.is_tensor_output {
            let grad = if is_tensor { grads.next() } else { None };
            args.push(grad.map_or_else(|| Ok(Obj::none()), tensor::wrap)?);
        }
        let refs: Vec<&Obj> = args.iter().collect();
        self.tensor_grads(&method.call(&refs)?)
    }

    /// The gradients of the tensor arguments out of one per argument.
    fn tensor_grads(&self, result: &Obj) -> Py<Vec<Tensor>> {
        let mut items = if result.is_tuple() { result.items()? } else { vec![result.clone()] };
        let expected = self.is_tensor.len();
        while items.len() > expected && items.last().is_some_and(Obj::is_none) {
            items.pop();
        }
        if items.len() != expected {
            return Err(runtime_error(format!(
                "function {} returned an incorrect number of gradients (expected {expected}, got \
                 {})",
                self.name,
                items.len()
            )));
        }
        let mut grads = Vec::new();
        for (index, (item, &is_tensor)) in items.iter().zip(&self.is_tensor).enumerate() {
            if !is_tensor {
                if !item.is_none() {
                    return Err(runtime_error(format!(
                        "function {} returned a gradient different from None at position {}, but \
                         the corresponding forward input was not a Variable",
                        self.name,
                        index + 1
                    )));
                }
                continue;
            }
            grads.push(match tensor::get(item) {
                Some(grad) => grad.clone(),
                None if item.is_none() => Tensor::undefined(),
                None => {
                    return Err(type_error(format!(
                        "expected Variable or None (got {})",
                        item.type_name()
                    )));
                }
            });
        }
        Ok(grads)
    }
}

fn zeros_like(metadata: &InputMetadata) -> Result<Tensor> {
    crate::functions::op1!(
        "aten::zeros",
        metadata.sizes(),
        Some(metadata.dtype),
        None::<corten_core::Layout>,
        Some(metadata.device),
        None::<bool>
    )
}

/// `_function_apply(cls, *args)`.
fn apply(_module: &Obj, args: Args<'_>) -> Py<Obj> {
    let [class, given @ ..] = args.positional else {
        return Err(type_error("apply() needs the function's class"));
    };
    if !args.keywords.is_empty() {
        return Err(type_error(format!(
            "{}.apply() takes no keyword arguments",
            crate::py::obj::type_name(class)
        )));
    }
    if given.iter().filter_map(tensor::get).any(is_transformed) {
        let args: Vec<&Obj> = given.iter().collect();
        return class.call_method(name!("_transformed"), &args);
    }
    let context = class.attr(name!("_backward_cls"))?.call(&[])?;
    let result = call_with(class, &context, given);
    put(&this::<Context>(&context).for_forward, None);
    result
}

/// Whether a transform has to take a tensor apart before a function sees it.
fn is_transformed(tensor: &Tensor) -> bool {
    batched::is_batched(tensor) || forward::tangent(tensor).is_some()
}

/// `_function_call(cls, ctx, *args)`: the call with this context, whatever the arguments.
fn call_in(_module: &Obj, args: Args<'_>) -> Py<Obj> {
    let [class, context, given @ ..] = args.positional else {
        return Err(type_error("a class and a context expected"));
    };
    call_with(class, context, given)
}

fn call_with(class: &Obj, context: &Obj, given: &[Obj]) -> Py<Obj> {
    let is_tensor: Vec<bool> = given.iter().map(tensor::is_tensor).collect();
    let inputs: Vec<Tensor> = given.iter().filter_map(tensor::get).cloned().collect();
    let recorded = grad_mode_enabled() && inputs.iter().any(tensor::requires_grad);
    let needs = Obj::tuple(given.iter().map(|item| {
        let wanted = tensor::get(item).is_some_and(tensor::requires_grad);
        Ok(Obj::bool(wanted && recorded))
    }))?;
    put(&this::<Context>(context).needs, Some(needs));
    let pending = if recorded { Some(PendingNode::new(&inputs)?) } else { None };
    let output = {
        let _mode = GradModeGuard::new(false);
        call_forward(class, context, given)?
    };
    let outputs = if output.is_tuple() { output.items()? } else { vec![output.clone()] };
    let wrapped = finish(context, &inputs, &is_tensor, &outputs, pending)?;
    if output.is_tuple() {
        Obj::tuple(wrapped.into_iter().map(Ok))
    } else {
        wrapped.into_iter().next().map_or_else(|| Ok(Obj::none()), Ok)
    }
}

/// `forward(ctx, *args)`, or `forward(*args)` and then `setup_context(ctx, args, output)`.
fn call_forward(class: &Obj, context: &Obj, given: &[Obj]) -> Py<Obj> {
    let forward = class.attr(name!("forward"))?;
    if class.call_method(name!("_has_setup_context"), &[])?.is_true()? {
        let inputs: Vec<&Obj> = given.iter().collect();
        let output = forward.call(&inputs)?;
        let tuple = Obj::tuple(given.iter().map(|item| Ok(item.clone())))?;
        class.attr(name!("setup_context"))?.call(&[context, &tuple, &output])?;
        return Ok(output);
    }
    let args: Vec<&Obj> = std::iter::once(context).chain(given).collect();
    forward.call(&args)
}

/// Records the call and wraps its outputs; outputs that are no tensors pass through.
fn finish(
    context: &Obj,
    inputs: &[Tensor],
    is_tensor: &[bool],
    outputs: &[Obj],
    pending: Option<PendingNode>,
) -> Py<Vec<Obj>> {
    let state = this::<Context>(context);
    let raw: Vec<Tensor> = outputs.iter().filter_map(tensor::get).cloned().collect();
    if raw.is_empty()
        && outputs.iter().all(|output| !tensor::is_tensor(output))
        && pending.is_some()
    {
        return Ok(outputs.to_vec());
    }
    let effects = Effects {
        dirty: take_tensors(&state.dirty)?.into_iter().flatten().collect(),
        non_differentiable: take_tensors(&state.non_differentiable)?
            .into_iter()
            .flatten()
            .collect(),
    };
    let to_save = take_tensors(&state.to_save)?;
    let is_recorded = pending.is_some();
    let recorded = pending.map(|pending| {
        let body: Box<dyn NodeBody> = Box::new(PyFunction {
            name: context.type_name(),
            context: Shared::new(context.clone()),
            common: state.common.clone(),
            materialize: state.materialize.get(),
            is_tensor: is_tensor.to_vec(),
            outputs: raw.iter().map(|output| Some(InputMetadata::of(output))).collect(),
            is_tensor_output: outputs.iter().map(tensor::is_tensor).collect(),
        });
        (pending, body)
    });
    let (wrapped, node) = wrap_outputs(inputs, raw.clone(), &effects, recorded)?;
    if let Some(node) = node {
        // Nobody else has set it: the context is new.
        let _ = state.common.node.set(node.downgrade());
    }
    if is_recorded {
        let saved = to_save
            .iter()
            .map(|saved| saved.as_ref().map(|saved| save(saved, &raw, &wrapped)).transpose())
            .collect::<Result<Vec<_>>>()?;
        state.common.saved.lock().unwrap_or_else(PoisonError::into_inner).variables = saved;
    }
    let mut tensors = wrapped.iter();
    outputs
        .iter()
        .map(|output| match tensor::is_tensor(output) {
            true => tensors.next().map_or_else(|| Ok(output.clone()), tensor::wrap),
            false => Ok(output.clone()),
        })
        .collect()
}

/// An output is kept as such, so that it does not keep its own node alive.
fn save(saved: &Tensor, raw: &[Tensor], wrapped: &[Tensor]) -> Result<SavedVariable> {
    match raw.iter().position(|output| output.is_same(saved.base())) {
        Some(index) if !graph::is_leaf(wrapped[index].base()) => {
            let output = &wrapped[index];
            SavedVariable::output(output, graph::output_nr(output.base()))
        }
        _ => SavedVariable::input(saved),
    }
}

/// Makes the class.
pub(super) fn add_to(module: &Obj) -> Py<()> {
    module.set_attr_str(c"_FunctionBase", &make::<Context>()?)
}

/// The functions of the module.
pub(super) fn functions() -> Vec<ffi::PyMethodDef> {
    vec![method!("_function_apply", apply), method!("_function_call", call_in)]
}

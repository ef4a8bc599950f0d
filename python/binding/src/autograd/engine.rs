//! `backward` and `grad`.

use crate::args::parser;
use crate::py::errors::{runtime_error, type_error};
use crate::py::gil::detach_if;
use crate::py::{Args, Obj, Py, ffi, method};
use crate::tensor;
use corten_autograd::{BackwardOptions, engine};
use corten_core::Result;
use corten_ops::Tensor;
use std::cell::Cell;
use std::time::{Duration, Instant};

thread_local! {
    /// How long the last backward pass of this thread took. Training steps resemble each other, so
    /// it tells whether the next one is long enough to give the interpreter lock up.
    static LAST: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// From here on a pass runs without the interpreter lock; its Python hooks take it back.
const LONG: Duration = Duration::from_millis(1);

fn run<T: Send>(work: impl FnOnce() -> Result<T> + Send) -> Py<T> {
    let start = Instant::now();
    // Gradient functions in Python take the lock on the thread that runs the pass.
    let elsewhere = corten_autograd::continues_elsewhere();
    let result = detach_if(elsewhere || LAST.get() >= LONG, work);
    LAST.set(start.elapsed());
    Ok(result?)
}

/// Tensors from a tensor or a sequence of them.
fn tensors(object: &Obj) -> Py<Vec<Tensor>> {
    if let Some(one) = tensor::get(object) {
        return Ok(vec![one.clone()]);
    }
    object.items()?.iter().map(|item| tensor::expect(item).cloned()).collect()
}

/// Tensors and `None`s from one or a sequence of them.
fn optional_tensors(object: &Obj) -> Py<Vec<Option<Tensor>>> {
    if tensor::is_tensor(object) {
        return Ok(vec![Some(tensor::expect(object)?.clone())]);
    }
    let one = |item: &Obj| {
        if item.is_none() { Ok(None) } else { tensor::expect(item).cloned().map(Some) }
    };
    object.items()?.iter().map(one).collect()
}

/// `tensor._backward(gradient, retain_graph, create_graph, inputs)`.
pub(crate) fn backward_method(object: &Obj, args: Args<'_>) -> Py<Obj> {
    let parser = parser!(
        "backward(any gradient=None, any retain_graph=None, any create_graph=False, any inputs=None)"
    );
    let bound = parser.parse(None, args)?;
    let grads = bound.get(0).map(optional_tensors).transpose()?;
    let inputs = bound.get(3).map(tensors).transpose()?;
    let options = options(bound.get(1), bound.get(2))?;
    let root = [tensor::expect(object)?.clone()];
    run(|| corten_autograd::backward(&root, grads.as_deref(), options, inputs.as_deref()))?;
    Ok(Obj::none())
}

fn options(retain: Option<&Obj>, create: Option<&Obj>) -> Py<BackwardOptions> {
    Ok(BackwardOptions {
        retain_graph: retain.map(Obj::is_true).transpose()?,
        create_graph: create.map(Obj::is_true).transpose()?.unwrap_or(false),
    })
}

/// `_autograd_backward(tensors, grad_tensors, retain_graph, create_graph, inputs)`.
fn backward(_module: &Obj, args: Args<'_>) -> Py<Obj> {
    let parser = parser!(
        "backward(any tensors, any grad_tensors=None, any retain_graph=None, any create_graph=False, any inputs=None)"
    );
    let bound = parser.parse(None, args)?;
    let roots = tensors(bound.object(0)?)?;
    let grads = bound.get(1).map(optional_tensors).transpose()?;
    let inputs = bound.get(4).map(tensors).transpose()?;
    let options = options(bound.get(2), bound.get(3))?;
    check_count(&roots, grads.as_deref())?;
    run(|| corten_autograd::backward(&roots, grads.as_deref(), options, inputs.as_deref()))?;
    Ok(Obj::none())
}

fn check_count(roots: &[Tensor], grads: Option<&[Option<Tensor>]>) -> Py<()> {
    match grads {
        Some(grads) if grads.len() != roots.len() => {
            Err(runtime_error(format!("got {} tensors and {} gradients", roots.len(), grads.len())))
        }
        _ => Ok(()),
    }
}

/// `_autograd_grad(outputs, inputs, grad_outputs, retain_graph, create_graph, allow_unused,
/// materialize_grads)`.
fn grad(_module: &Obj, args: Args<'_>) -> Py<Obj> {
    let parser = parser!(
        "grad(any outputs, any inputs, any grad_outputs=None, any retain_graph=None, any create_graph=False, any allow_unused=None, any materialize_grads=False)"
    );
    let bound = parser.parse(None, args)?;
    let outputs = tensors(bound.object(0)?)?;
    let inputs = tensors(bound.object(1)?)?;
    let grads = bound.get(2).map(optional_tensors).transpose()?;
    let options = options(bound.get(3), bound.get(4))?;
    let allow_unused = bound.get(5).map(Obj::is_true).transpose()?;
    let materialize = bound.get(6).map(Obj::is_true).transpose()?.unwrap_or(false);
    check_count(&outputs, grads.as_deref())?;
    let found = run(|| {
        corten_autograd::grad(
            &outputs,
            &inputs,
            grads.as_deref(),
            options,
            allow_unused,
            materialize,
        )
    })?;
    Obj::tuple(found.iter().map(|grad| match grad {
        Some(grad) => tensor::wrap(grad),
        None => Ok(Obj::none()),
    }))
}

/// The functions of the module.
pub(super) fn functions() -> Vec<ffi::PyMethodDef> {
    vec![
        method!("_autograd_backward", backward),
        method!("_autograd_grad", grad),
        method!("_current_graph_task_id", |_m: &Obj, _a: Args<'_>| Obj::int(
            engine::current_task_id().map_or(-1, |id| id as i64)
        )),
        method!("_current_graph_task_keep_graph", |_m: &Obj, _a: Args<'_>| Ok(Obj::bool(
            engine::current_keep_graph().unwrap_or(true)
        ))),
        method!("_is_checkpoint_valid", |_m: &Obj, _a: Args<'_>| Ok(Obj::bool(
            engine::passes_are_whole()
        ))),
        method!("_current_autograd_node", |_m: &Obj, _a: Args<'_>| {
            match engine::current_node() {
                Some(node) => super::node::wrap(&node),
                None => Ok(Obj::none()),
            }
        }),
        method!("_queue_callback", |_m: &Obj, args: Args<'_>| {
            let [callback] = args.positional else {
                return Err(type_error("one callback expected"));
            };
            let callback = crate::py::gil::Shared::new(callback.clone());
            engine::queue_callback(move || {
                crate::py::gil::call_python(|| callback.get().call(&[]).map(drop))
            })?;
            Ok(Obj::none())
        }),
    ]
}

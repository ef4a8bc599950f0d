//! CUDA graphs as objects.

use crate::args::parser;
use crate::py::call::OwnedArgs;
use crate::py::class::{Class, TypeBuilder, instance, this};
use crate::py::errors::value_error;
use crate::py::{Args, Obj, Py, TypeCell, ffi, method, slot};
use corten::cuda::caching::PoolId;
use corten::cuda::{CaptureMode, Graph, new_pool};
use std::ffi::CStr;
use std::sync::{Mutex, MutexGuard, PoisonError};

static TYPE: TypeCell = TypeCell::new();

struct PyGraph(Mutex<Graph>);

impl Class for PyGraph {
    const NAME: &'static CStr = c"corten._C._CudaGraph";

    fn cell() -> &'static TypeCell {
        &TYPE
    }

    fn describe(builder: TypeBuilder) -> TypeBuilder {
        builder
            .doc(c"_CudaGraph()\n--\n\nRecorded work of a GPU.")
            .slot(ffi::Py_tp_new, slot!(call new))
            .methods([
                method!("capture_begin", capture_begin),
                method!("capture_end", |s: &Obj, _a: Args<'_>| {
                    graph(s).capture_end()?;
                    Ok(Obj::none())
                }),
                method!("instantiate", |s: &Obj, _a: Args<'_>| {
                    graph(s).instantiate()?;
                    Ok(Obj::none())
                }),
                method!("enable_debug_mode", |s: &Obj, _a: Args<'_>| {
                    graph(s).enable_debug_mode();
                    Ok(Obj::none())
                }),
                method!("debug_dump", |s: &Obj, args: Args<'_>| {
                    let bound = parser!("debug_dump(str path)").parse(None, args)?;
                    Ok(Obj::bool(graph(s).debug_dump(bound.str(0)?)?))
                }),
                method!("raw_cuda_graph", |s: &Obj, _a: Args<'_>| Obj::uint(
                    graph(s).raw_graph()? as u64
                )),
                method!("raw_cuda_graph_exec", |s: &Obj, _a: Args<'_>| Obj::uint(
                    graph(s).raw_exec()? as u64
                )),
                method!("register_generator_state", |s: &Obj, args: Args<'_>| {
                    let parser = parser!("register_generator_state(Generator generator)");
                    let bound = parser.parse(None, args)?;
                    let generator = crate::types::generator::from_object(bound.object(0)?)?;
                    graph(s).register_generator(&generator);
                    Ok(Obj::none())
                }),
                method!("replay", |s: &Obj, _a: Args<'_>| {
                    graph(s).replay()?;
                    Ok(Obj::none())
                }),
                method!("reset", |s: &Obj, _a: Args<'_>| {
                    graph(s).reset()?;
                    Ok(Obj::none())
                }),
                method!("pool", |s: &Obj, _a: Args<'_>| {
                    let PoolId(first, second) = graph(s).pool();
                    Obj::tuple([first, second].map(Obj::uint))
                }),
            ])
    }
}

/// The functions of the module.
pub(super) fn functions() -> Vec<ffi::PyMethodDef> {
    vec![method!("_graph_pool_handle", |_m: &Obj, _a: Args<'_>| {
        let PoolId(first, second) = new_pool();
        Obj::tuple([first, second].map(Obj::uint))
    })]
}

/// Makes the type.
pub(super) fn add_to(module: &Obj) -> Py<()> {
    module.set_attr_str(c"_CudaGraph", &crate::py::class::make::<PyGraph>()?)
}

fn graph(object: &Obj) -> MutexGuard<'_, Graph> {
    this::<PyGraph>(object).0.lock().unwrap_or_else(PoisonError::into_inner)
}

fn new(_class: &Obj, args: &Obj, kwargs: Option<&Obj>) -> Py<Obj> {
    let owned = OwnedArgs::new(args, kwargs)?;
    let bound = parser!("_CudaGraph(bool keep_graph=False)").parse(None, owned.as_args())?;
    instance(PyGraph(Mutex::new(Graph::new().keeping_record(bound.bool(0)?))))
}

fn capture_begin(object: &Obj, args: Args<'_>) -> Py<Obj> {
    let parser = parser!("capture_begin(int[]? pool=None, str mode=\"global\")");
    let bound = parser.parse(None, args)?;
    let pool = match bound.has(0).then(|| bound.ints(0)).transpose()?.as_deref() {
        Some([first, second]) => Some(PoolId(*first as u64, *second as u64)),
        Some(_) => return Err(value_error("a pool is named by two numbers")),
        None => None,
    };
    let mode = match bound.str_opt(1)?.unwrap_or("global") {
        "global" => CaptureMode::Global,
        "thread_local" => CaptureMode::ThreadLocal,
        "relaxed" => CaptureMode::Relaxed,
        other => {
            return Err(value_error(format!(
                "Unknown capture error mode. Expected `global`, `thread_local`, or `relaxed`, got {other}"
            )));
        }
    };
    graph(object).capture_begin(pool, mode)?;
    Ok(Obj::none())
}

//! Back ends and process groups that are written in Python, for Rust.

use std::sync::Arc;
use std::time::Duration;

use corten_dist::{Call, CallOptions, DistError, Driver, Engine, Factor, ReduceOp, Result, Work};
use corten_ops::Tensor;

use super::calls::reduction_number;
use super::errors::caught;
use super::values::tensor_list;
use super::works::work_of;
use crate::py::convert::import;
use crate::py::gil::{Shared, attach};
use crate::py::{Obj, Py, name};
use crate::tensor;

/// An engine whose calls are the methods of an object.
pub(super) struct PythonEngine {
    object: Shared,
    name: String,
    rank: usize,
    size: usize,
}

/// Work whose end is known to an object.
struct PythonWork(Shared);

/// The engine of an object.
pub(super) fn of(object: &Obj, rank: usize, size: usize) -> Arc<dyn Engine> {
    match PythonEngine::new(object.clone(), rank, size) {
        Ok(engine) => Arc::new(engine),
        Err(raised) => {
            raised.clear();
            let name = "python".to_owned();
            Arc::new(PythonEngine { object: Shared::new(object.clone()), name, rank, size })
        }
    }
}

impl PythonEngine {
    pub(super) fn new(object: Obj, rank: usize, size: usize) -> Py<Self> {
        let name = object.call_method(name!("name"), &[])?.as_str()?.to_owned();
        Ok(Self { object: Shared::new(object), name, rank, size })
    }

    fn started(&self, call: &Call, options: &CallOptions) -> Py<Arc<Work>> {
        // The package knows how each call is spelled.
        let module = import(name!("corten._distributed_c10d.overridden"))?;
        let start = module.attr(name!("start"))?;
        let timeout = Obj::float(options.timeout.as_secs_f64())?;
        let work = start.call(&[&self.object.get(), &described(call)?, &timeout])?;
        if work.is_none() {
            return Ok(Work::done(call.name(), call.outputs()));
        }
        if let Some(handle) = work.attr_opt(name!("_handle"))?
            && let Some(work) = work_of(&handle)
        {
            return Ok(work);
        }
        let driver = Box::new(PythonWork(Shared::new(work)));
        Ok(Work::driven(call.name(), call.outputs(), driver))
    }
}

/// The name of a call, its outputs, inputs, reduction, factor, peer, tag, and rows that come and go.
fn described(call: &Call) -> Py<Obj> {
    let numbers =
        |numbers: &[usize]| Obj::list(numbers.iter().map(|&number| Obj::int(number as i64)));
    let op = reduction(call);
    let factor = match op {
        Some(ReduceOp::PremulSum(Factor::Number(factor))) => Obj::float(*factor),
        Some(ReduceOp::PremulSum(Factor::Tensor(factor))) => tensor::wrap(factor),
        _ => Ok(Obj::none()),
    };
    let (comes, goes): (&[usize], &[usize]) = match call {
        Call::AllToAllBase { output_splits, input_splits, .. } => (output_splits, input_splits),
        _ => (&[], &[]),
    };
    let (peer, tag) = address(call);
    Obj::tuple([
        Obj::str_from(call.name()),
        tensor_list(&call.outputs()),
        tensor_list(inputs(call)),
        Obj::int(op.map_or(0, reduction_number)),
        factor,
        Obj::int(peer as i64),
        Obj::int(tag.into()),
        numbers(comes),
        numbers(goes),
    ])
}

/// The tensors that a call reads and does not write.
fn inputs(call: &Call) -> &[Tensor] {
    match call {
        Call::AllGather { input, .. }
        | Call::AllGatherInto { input, .. }
        | Call::Gather { input, .. }
        | Call::ReduceScatterInto { input, .. }
        | Call::AllToAllBase { input, .. } => std::slice::from_ref(input),
        Call::Send { tensor, .. } => std::slice::from_ref(tensor),
        Call::Scatter { inputs, .. }
        | Call::ReduceScatter { inputs, .. }
        | Call::AllToAll { inputs, .. } => inputs,
        _ => &[],
    }
}

fn reduction(call: &Call) -> Option<&ReduceOp> {
    match call {
        Call::AllReduce { op, .. }
        | Call::Reduce { op, .. }
        | Call::ReduceScatter { op, .. }
        | Call::ReduceScatterInto { op, .. } => Some(op),
        _ => None,
    }
}

/// The root or the peer, and the tag.
fn address(call: &Call) -> (usize, i32) {
    match call {
        Call::Broadcast { root, .. }
        | Call::Reduce { root, .. }
        | Call::Gather { root, .. }
        | Call::Scatter { root, .. } => (*root, 0),
        Call::Send { to, tag, .. } => (*to, *tag),
        Call::Recv { from, tag, .. } => (*from, *tag),
        Call::RecvAny { tag, .. } => (0, *tag),
        _ => (0, 0),
    }
}

impl Engine for PythonEngine {
    fn name(&self) -> &str {
        &self.name
    }

    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn start(&self, call: Call, options: &CallOptions) -> Arc<Work> {
        if let Call::Batch(calls) = call {
            let works = calls.into_iter().map(|call| self.start(call, options)).collect();
            return Work::join("coalesced", works);
        }
        attach(|| {
            self.started(&call, options)
                .unwrap_or_else(|raised| Work::failed(call.name(), caught(raised)))
        })
    }

    fn abort(&self, _reason: &str) {
        attach(|| {
            let object = self.object.get();
            if let Err(raised) = object.call_method(name!("abort"), &[]) {
                raised.report(&object);
            }
        });
    }
}

impl Driver for PythonWork {
    fn wait(&self, _work: &Work, timeout: Option<Duration>) -> Result<()> {
        attach(|| {
            let wait = || {
                let object = self.0.get();
                let wait =
                    import(name!("corten._distributed_c10d.overridden"))?.attr(name!("wait"))?;
                let seconds =
                    timeout.map_or(Ok(Obj::none()), |time| Obj::float(time.as_secs_f64()));
                wait.call(&[&object, &seconds?])?.is_true()
            };
            match wait() {
                Ok(true) => Ok(()),
                Ok(false) => Err(DistError::backend("the work did not succeed")),
                Err(raised) => Err(caught(raised)),
            }
        })
    }

    fn is_completed(&self, _work: &Work) -> bool {
        attach(|| {
            let asked = self.0.get().call_method(name!("is_completed"), &[]);
            asked.and_then(|answer| answer.is_true()).unwrap_or_else(|raised| {
                raised.clear();
                false
            })
        })
    }
}

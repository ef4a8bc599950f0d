//! Communication hooks in Python, futures and works as what is under way.

use super::bucket;
use crate::py::errors::{runtime_error, type_error};
use crate::py::gil::{Shared, call_python};
use crate::py::{Obj, Py, name};
use crate::tensor;
use corten_core::Result;
use corten_dist::ddp::{CommHook, GradBucket, Pending};
use corten_ops::Tensor;
use std::sync::Arc;

/// `hook(state, bucket)`, which returns a future.
pub(super) struct PyHook {
    state: Shared,
    hook: Shared,
}

impl PyHook {
    pub(super) fn new(state: Shared, hook: Shared) -> Self {
        Self { state, hook }
    }
}

impl CommHook for PyHook {
    fn run(&self, bucket: Arc<GradBucket>) -> Result<Arc<dyn Pending>> {
        call_python(|| {
            let seen = bucket::wrap(bucket)?;
            let future = self.hook.get().call(&[&self.state.get(), &seen])?;
            if !has_wait(&future)? {
                return Err(type_error(format!(
                    "expected Future object, but got {}. DDP communication hook's callback must \
                     return a torch.futures.Future object, but got {}",
                    future.type_name(),
                    future.type_name()
                )));
            }
            Ok(Arc::new(PyFuture(Shared::new(future))) as Arc<dyn Pending>)
        })
    }
}

fn has_wait(object: &Obj) -> Py<bool> {
    Ok(object.attr_opt(name!("wait"))?.is_some_and(|wait| wait.is_callable()))
}

/// A future of Python whose value is a tensor, or a list of one.
pub(super) struct PyFuture(Shared);

impl Pending for PyFuture {
    fn wait(&self) -> Result<Tensor> {
        call_python(|| {
            let value = self.0.get().call_method(name!("wait"), &[])?;
            let value = if value.is_list() || value.is_tuple() {
                match &value.items()?[..] {
                    [only] => only.clone(),
                    items => {
                        return Err(runtime_error(format!(
                            "the future of a communication hook has {} tensors, but 1 is expected",
                            items.len()
                        )));
                    }
                }
            } else {
                value
            };
            tensor::expect(&value).cloned()
        })
    }
}

/// A future or work whose value nobody asks for.
pub(super) struct Awaited(Shared, Tensor);

impl Awaited {
    /// Waits for the object and gives `tensor`.
    pub(super) fn new(object: &Obj, tensor: Tensor) -> Self {
        Self(Shared::new(object.clone()), tensor)
    }
}

impl Pending for Awaited {
    fn wait(&self) -> Result<Tensor> {
        call_python(|| self.0.get().call_method(name!("wait"), &[]).map(drop))?;
        Ok(self.1.clone())
    }
}

/// `future.then` and the rest of a future in Python, for something under way: what
/// `Reducer._run_comm_hook` returns.
pub(super) fn future_of(pending: Arc<dyn Pending>) -> Py<Obj> {
    let class = crate::py::convert::import(name!("corten.futures"))?;
    let future = class.attr(name!("Future"))?.call(&[])?;
    let result = Shared::new(future.clone());
    // The engine's threads end works, and not futures: this one is set by a thread of its own.
    let waiting = move || {
        let value = pending.wait();
        let set = call_python(|| {
            let future = result.get();
            match value {
                Ok(tensor) => {
                    future.call_method(name!("set_result"), &[&tensor::wrap(&tensor)?]).map(drop)
                }
                Err(error) => {
                    let raised = crate::py::Raised::from(error).take();
                    let error = raised.unwrap_or_else(Obj::none);
                    future.call_method(name!("set_exception"), &[&error]).map(drop)
                }
            }
        });
        drop(set);
    };
    std::thread::Builder::new()
        .name("corten-ddp".to_owned())
        .spawn(waiting)
        .map_err(|error| runtime_error(format!("can't start thread: {error}")))?;
    Ok(future)
}

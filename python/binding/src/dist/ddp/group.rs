//! Groups of Python as what the reducer asks: any object with the methods of `ProcessGroup`.

use crate::py::convert::import;
use crate::py::gil::{Shared, call_python};
use crate::py::{Obj, Py, name};
use crate::tensor;
use corten_core::Result;
use corten_dist::ddp::{Collectives, Pending};
use corten_ops::Tensor;
use std::sync::Arc;

/// The collectives of a `ProcessGroup`.
pub(super) fn from_object(object: &Obj) -> Py<Arc<dyn Collectives>> {
    Ok(Arc::new(PythonGroup {
        rank: object.call_method(name!("rank"), &[])?.to_i64()?.max(0) as usize,
        size: object.call_method(name!("size"), &[])?.to_i64()?.max(0) as usize,
        group: Shared::new(object.clone()),
    }))
}

/// A group whose methods are called as programs call them.
struct PythonGroup {
    group: Shared,
    rank: usize,
    size: usize,
}

/// A `Work` of Python and the tensor that it writes.
struct PythonWork {
    work: Shared,
    tensor: Tensor,
}

/// A new object of a class of options.
fn options(class: &std::ffi::CStr) -> Py<Obj> {
    import(name!("corten._C"))?.attr(name!("_distributed_c10d"))?.attr_str(class)?.call(&[])
}

impl PythonGroup {
    fn start(
        &self,
        tensor: &Tensor,
        call: impl FnOnce(&Obj) -> Py<Obj>,
    ) -> Result<Arc<dyn Pending>> {
        let work = call_python(|| Ok(Shared::new(call(&self.group.get())?)))?;
        Ok(Arc::new(PythonWork { work, tensor: tensor.clone() }))
    }
}

impl Collectives for PythonGroup {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn backend_name(&self) -> String {
        let name = call_python(|| Ok(self.group.get().call_method(name!("name"), &[])?.display()));
        name.unwrap_or_default()
    }

    fn all_reduce(&self, tensor: &Tensor) -> Result<Arc<dyn Pending>> {
        self.start(tensor, |group| {
            let tensors = Obj::list([tensor::wrap(tensor)])?;
            group.call_method(name!("allreduce"), &[&tensors, &options(c"AllreduceOptions")?])
        })
    }

    fn broadcast(&self, tensor: &Tensor, root: usize) -> Result<Arc<dyn Pending>> {
        self.start(tensor, |group| {
            let options = options(c"BroadcastOptions")?;
            options.set_attr_str(c"rootRank", &Obj::int(root as i64)?)?;
            options.set_attr_str(c"rootTensor", &Obj::int(0)?)?;
            let tensors = Obj::list([tensor::wrap(tensor)])?;
            group.call_method(name!("broadcast"), &[&tensors, &options])
        })
    }

    fn all_gather(&self, outputs: &[Tensor], input: &Tensor) -> Result<Arc<dyn Pending>> {
        self.start(input, |group| {
            let outputs = Obj::list([Obj::list(outputs.iter().map(tensor::wrap))])?;
            let inputs = Obj::list([tensor::wrap(input)])?;
            let options = options(c"AllgatherOptions")?;
            group.call_method(name!("allgather"), &[&outputs, &inputs, &options])
        })
    }
}

impl Pending for PythonWork {
    fn wait(&self) -> Result<Tensor> {
        call_python(|| self.work.get().call_method(name!("wait"), &[]).map(drop))?;
        Ok(self.tensor.clone())
    }
}

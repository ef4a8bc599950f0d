//! `corten-dist` in Python: what `python/corten/_distributed_c10d` builds the classes of PyTorch's
//! `torch._C._distributed_c10d` from.

mod backend;
mod calls;
mod ddp;
mod errors;
#[cfg(target_os = "linux")]
mod gloo;
mod mpi;
#[cfg(unix)]
mod nccl;
mod python_engine;
mod python_store;
mod stores;
mod values;
mod works;

pub(crate) use backend::group_from;
pub(crate) use errors::raise;

use crate::py::{Obj, Py, ffi};

/// Adds classes and exceptions to the module.
pub(crate) fn add_to(module: &Obj) -> Py<()> {
    errors::add_to(module)?;
    stores::add_to(module)?;
    works::add_to(module)?;
    backend::add_to(module)?;
    ddp::add_to(module)
}

/// The functions of the module.
pub(crate) fn functions() -> Vec<ffi::PyMethodDef> {
    let mut rows = stores::functions();
    rows.extend(works::functions());
    rows.extend(backend::functions());
    rows.extend(ddp::functions());
    #[cfg(target_os = "linux")]
    rows.extend(gloo::functions());
    rows.extend(mpi::functions());
    #[cfg(unix)]
    rows.extend(nccl::functions());
    rows
}

//! CUDA for Python: thin functions over `corten::cuda`, under PyTorch's names where it has them.
//!
//! Streams cross as their device and number, events as objects. What waits for a device gives the
//! interpreter lock up.

mod cudnn;
mod devices;
mod events;
pub(crate) mod exchange;
mod foreign;
mod graphs;
mod history;
mod libraries;
pub(crate) mod memory;
mod products;
mod streams;

use crate::py::errors::value_error;
use crate::py::{Obj, Py, ffi};

/// The functions of the module.
pub(crate) fn functions() -> Vec<ffi::PyMethodDef> {
    let mut rows = cudnn::functions();
    rows.extend(devices::functions());
    rows.extend(streams::functions());
    rows.extend(memory::functions());
    rows.extend(graphs::functions());
    rows.extend(products::functions());
    rows.extend(foreign::functions());
    rows
}

/// Makes the types. Nothing of CUDA is looked for.
pub(crate) fn add_to(module: &Obj) -> Py<()> {
    corten::cuda::set_library_search(libraries::directories);
    graphs::add_to(module)?;
    events::add_to(module)
}

/// The device index of an argument; -1 is the current device.
fn device_index(index: i64) -> Py<i8> {
    i8::try_from(index).map_err(|_| value_error(format!("invalid device index {index}")))
}

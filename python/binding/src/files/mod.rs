//! Files: what `corten-io` reads and writes, as objects of Python.

mod archive;
mod gguf;
mod npy;
mod onnx;
mod path;
mod pickle;
mod python_file;
mod safetensors;
mod tensorboard;
mod values;

use crate::py::{Obj, Py, ffi};

/// The functions of the module.
pub(crate) fn functions() -> Vec<ffi::PyMethodDef> {
    let mut rows = archive::functions();
    rows.extend(gguf::functions());
    rows.extend(npy::functions());
    rows.extend(onnx::functions());
    rows.extend(pickle::functions());
    rows.extend(safetensors::functions());
    rows.extend(tensorboard::functions());
    rows
}

/// Makes the types.
pub(crate) fn add_to(module: &Obj) -> Py<()> {
    archive::add_to(module)?;
    gguf::add_to(module)?;
    safetensors::add_to(module)?;
    tensorboard::add_to(module)
}

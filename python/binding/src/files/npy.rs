//! NumPy's files.

use super::path::readable;
use super::values::dict_of;
use crate::args::parser;
use crate::py::gil::detach;
use crate::py::{Args, Obj, ffi, method};
use crate::tensor;
use corten::io::npy;

/// The functions of the module.
pub(super) fn functions() -> Vec<ffi::PyMethodDef> {
    vec![
        method!("_npy_load", |_m: &Obj, args: Args<'_>| {
            let bound = parser!("_npy_load(any path)").parse(None, args)?;
            let path = readable(bound.object(0)?)?;
            tensor::wrap_owned(detach(|| npy::load(path))?)
        }),
        method!("_npz_load", |_m: &Obj, args: Args<'_>| {
            let bound = parser!("_npz_load(any path)").parse(None, args)?;
            let path = readable(bound.object(0)?)?;
            dict_of(detach(|| npy::load_npz(path))?)
        }),
    ]
}

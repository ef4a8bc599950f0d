//! The back end `mpi`.

use std::path::PathBuf;

use corten_dist::{DEFAULT_TIMEOUT, mpi_backend, mpi_is_available, mpi_library_version};

use super::backend::backend_object;
use super::errors::{detached, raise};
use super::values::{arg, counts, seconds, text};
use crate::py::{Args, Obj, Py, ffi, method};

/// `_dist_mpi_backend(ranks, timeout)`: of these ranks of the program, or of all; `None` for the others.
fn backend(_module: &Obj, args: Args<'_>) -> Py<Obj> {
    let ranks = counts(arg(&args, 0)?)?;
    let timeout = seconds(&args, 1)?.unwrap_or(DEFAULT_TIMEOUT);
    match detached(|| mpi_backend(&ranks, timeout))? {
        Some(backend) => backend_object(backend),
        None => Ok(Obj::none()),
    }
}

/// The functions of the module.
pub(super) fn functions() -> Vec<ffi::PyMethodDef> {
    vec![
        method!("_dist_mpi_backend", backend),
        method!("_dist_mpi_is_available", |_m: &Obj, _a: Args<'_>| {
            Ok(Obj::bool(mpi_is_available()))
        }),
        method!("_dist_mpi_library_version", |_m: &Obj, _a: Args<'_>| {
            Obj::str_from(&mpi_library_version().map_err(|error| raise(&error))?)
        }),
        method!("_dist_mpi_set_prefix", |_m: &Obj, args: Args<'_>| {
            corten_dist::set_mpi_prefixes(vec![PathBuf::from(text(&args, 0)?)]);
            Ok(Obj::none())
        }),
    ]
}

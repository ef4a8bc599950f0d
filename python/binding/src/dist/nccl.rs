//! NCCL's library.

use std::path::PathBuf;

use corten_dist::nccl;

use super::errors::detached;
use super::values::{arg, texts};
use crate::py::{Args, Obj, Py, ffi, method};

/// `_dist_nccl_version(folders)`: major, minor, patch.
fn version(_module: &Obj, args: Args<'_>) -> Py<Obj> {
    let folders: Vec<PathBuf> = texts(arg(&args, 0)?)?.into_iter().map(PathBuf::from).collect();
    let (major, minor, patch) = detached(|| nccl::find(&folders))?.version;
    Obj::list([major, minor, patch].map(|part| Obj::int(i64::from(part))))
}

/// The functions of the module.
pub(super) fn functions() -> Vec<ffi::PyMethodDef> {
    vec![method!("_dist_nccl_version", version)]
}

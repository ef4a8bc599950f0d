//! The settings of cuDNN, and whether it is there.

use crate::args::parser;
use crate::py::{Args, Obj, Py, ffi, method};
use corten::cuda::{CudnnSettings, cudnn_version, set_cudnn};

/// The functions of the module.
pub(super) fn functions() -> Vec<ffi::PyMethodDef> {
    vec![
        method!("_cudnn_set", |_m: &Obj, args: Args<'_>| {
            let bound = parser!(
                "_cudnn_set(bool enabled, bool benchmark, bool deterministic, bool allow_tf32)"
            )
            .parse(None, args)?;
            set_cudnn(CudnnSettings {
                enabled: bound.bool(0)?,
                benchmark: bound.bool(1)?,
                deterministic: bound.bool(2)?,
                allow_tf32: bound.bool(3)?,
            });
            Ok(Obj::none())
        }),
        method!("_cudnn_version", version),
    ]
}

/// The version, or none where it cannot be used.
fn version(_module: &Obj, _args: Args<'_>) -> Py<Obj> {
    match cudnn_version() {
        Ok(version) => Obj::int(version as i64),
        Err(_) => Ok(Obj::none()),
    }
}

//! The back end `gloo`.

use corten_dist::Backend;
use corten_dist::gloo::{self, GlooEngine, GlooOptions};

use super::backend::backend_object;
use super::errors::{detached, raise};
use super::stores::store_from;
use super::values::{arg, arg_opt, count, seconds, text};
use crate::py::{Args, Obj, Py, ffi, method};

/// `_dist_gloo_backend(store, rank, size, timeout, interface, host)`: connects to all ranks.
fn connect(_module: &Obj, args: Args<'_>) -> Py<Obj> {
    let store = store_from(arg(&args, 0)?)?;
    let (rank, size) = (count(arg(&args, 1)?)?, count(arg(&args, 2)?)?);
    let name = |index: usize| -> Py<Option<String>> {
        let given = arg_opt(&args, index).is_some();
        Ok(if given { Some(text(&args, index)?).filter(|name| !name.is_empty()) } else { None })
    };
    let timeout = seconds(&args, 3)?.unwrap_or(corten_dist::DEFAULT_TIMEOUT);
    let options = GlooOptions { interface: name(4)?, host: name(5)?, timeout };
    let engine = detached(|| GlooEngine::connect(store.clone(), rank, size, &options))?;
    let backend = Backend::new(engine, Some(store));
    backend.set_timeout(timeout);
    backend_object(backend)
}

/// The functions of the module.
pub(super) fn functions() -> Vec<ffi::PyMethodDef> {
    vec![
        method!("_dist_gloo_backend", connect),
        method!("_dist_gloo_is_available", |_m: &Obj, _a: Args<'_>| {
            Ok(Obj::bool(gloo::is_available()))
        }),
        method!("_dist_gloo_version", |_m: &Obj, _a: Args<'_>| {
            let (major, minor, patch) = gloo::version().map_err(|error| raise(&error))?;
            Obj::str_from(&format!("{major}.{minor}.{patch}"))
        }),
    ]
}

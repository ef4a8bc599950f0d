//! The back end `nccl`, and NCCL's library.

use std::path::PathBuf;

use corten_dist::nccl;

use super::errors::detached;
use super::values::{arg, texts};
use crate::py::{Args, Obj, Py, ffi, method};

fn folders(args: &Args<'_>, index: usize) -> Py<Vec<PathBuf>> {
    Ok(texts(arg(args, index)?)?.into_iter().map(PathBuf::from).collect())
}

/// `_dist_nccl_version(folders)`: major, minor, patch.
fn version(_module: &Obj, args: Args<'_>) -> Py<Obj> {
    let folders = folders(&args, 0)?;
    let (major, minor, patch) = detached(|| nccl::find(&folders))?.version;
    Obj::list([major, minor, patch].map(|part| Obj::int(i64::from(part))))
}

/// `_dist_nccl_is_available(folders)`.
fn is_available(_module: &Obj, args: Args<'_>) -> Py<Obj> {
    let folders = folders(&args, 0)?;
    detached(|| Ok(nccl::is_available(&folders))).map(Obj::bool)
}

/// The functions of the module.
pub(super) fn functions() -> Vec<ffi::PyMethodDef> {
    let mut rows = vec![
        method!("_dist_nccl_version", version),
        method!("_dist_nccl_is_available", is_available),
    ];
    #[cfg(feature = "cuda")]
    rows.extend(engine::functions());
    rows
}

#[cfg(feature = "cuda")]
mod engine {
    use std::sync::Arc;

    use corten_dist::nccl::{NcclEngine, NcclOptions};
    use corten_dist::{Backend, DEFAULT_TIMEOUT};

    use super::folders;
    use crate::dist::backend::{backend_from, backend_object};
    use crate::dist::errors::detached;
    use crate::dist::stores::store_from;
    use crate::dist::values::{arg, arg_opt, count, seconds, text};
    use crate::py::errors::type_error;
    use crate::py::{Args, Obj, Py, ffi, method};

    /// A number, unless it is left out or the one that stands for nothing.
    fn setting(args: &Args<'_>, index: usize) -> Py<Option<i32>> {
        let Some(object) = arg_opt(args, index) else { return Ok(None) };
        let number = i32::try_from(object.to_i64()?).unwrap_or(i32::MIN);
        Ok((number != i32::MIN).then_some(number))
    }

    fn device(args: &Args<'_>, index: usize) -> Py<Option<i8>> {
        let Some(object) = arg_opt(args, index) else { return Ok(None) };
        Ok(i8::try_from(object.to_i64()?).ok())
    }

    /// `_dist_nccl_backend(store, rank, size, timeout, folders, high_priority, device, blocking,
    /// cga_cluster_size, min_ctas, max_ctas, net_name, split_share)`.
    fn backend(_module: &Obj, args: Args<'_>) -> Py<Obj> {
        let store = store_from(arg(&args, 0)?)?;
        let (rank, size) = (count(arg(&args, 1)?)?, count(arg(&args, 2)?)?);
        let timeout = seconds(&args, 3)?.unwrap_or(DEFAULT_TIMEOUT);
        let net_name = match arg_opt(&args, 11) {
            Some(_) => Some(text(&args, 11)?),
            None => None,
        };
        let options = NcclOptions {
            folders: folders(&args, 4)?,
            high_priority: arg(&args, 5)?.is_true()?,
            device: device(&args, 6)?,
            blocking: setting(&args, 7)?.map(|set| set != 0),
            cga_cluster_size: setting(&args, 8)?,
            min_ctas: setting(&args, 9)?,
            max_ctas: setting(&args, 10)?,
            net_name,
            split_share: setting(&args, 12)?,
        };
        let engine = detached(|| NcclEngine::new(store.clone(), rank, size, options))?;
        let backend = Backend::new(engine, Some(store));
        backend.set_timeout(timeout);
        backend_object(backend)
    }

    /// What a function finds out about the engine of the first argument.
    fn with<T: Send>(
        args: &Args<'_>,
        found: impl FnOnce(&Arc<Backend>, &NcclEngine) -> corten_dist::Result<T> + Send,
    ) -> Py<T> {
        let object = arg(args, 0)?;
        let Some(backend) = backend_from(object)? else {
            return Err(type_error(format!("a back end is expected, not {}", object.type_name())));
        };
        let engine = backend.engine().as_any().and_then(|any| any.downcast_ref::<NcclEngine>());
        let Some(engine) = engine else {
            let name = backend.engine().name();
            return Err(type_error(format!("the back end nccl is expected, not {name}")));
        };
        detached(|| found(&backend, engine))
    }

    /// The functions of the module that take an engine.
    pub(super) fn functions() -> Vec<ffi::PyMethodDef> {
        vec![
            method!("_dist_nccl_backend", backend),
            method!("_dist_nccl_connect", |_m: &Obj, args: Args<'_>| {
                let device = device(&args, 1)?.unwrap_or(0);
                with(&args, |backend, engine| engine.connect(device, backend.timeout()))
                    .map(|()| Obj::none())
            }),
            method!("_dist_nccl_stay_out", |_m: &Obj, args: Args<'_>| {
                with(&args, |backend, engine| engine.stay_out(backend.timeout()))
                    .map(|()| Obj::none())
            }),
            method!("_dist_nccl_split_count", |_m: &Obj, args: Args<'_>| {
                Obj::uint(with(&args, |_, engine| Ok(engine.split_count()))?)
            }),
            method!("_dist_nccl_is_initialized", |_m: &Obj, args: Args<'_>| {
                with(&args, |_, engine| Ok(engine.is_initialized())).map(Obj::bool)
            }),
            method!("_dist_nccl_comm_address", |_m: &Obj, args: Args<'_>| {
                Obj::uint(with(&args, |_, engine| Ok(engine.comm_address()))? as u64)
            }),
        ]
    }
}

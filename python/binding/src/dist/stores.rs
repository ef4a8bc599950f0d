//! Stores.

use std::ffi::CStr;
use std::sync::Arc;

use corten_dist::store::barrier;
use corten_dist::{FileStore, HashStore, PrefixStore, Store, TcpStore, TcpStoreOptions};

use super::errors::detached;
use super::python_store::PythonStore;
use super::values::{arg, arg_opt, bytes, count, seconds, text, texts};
use crate::py::class::{Class, TypeBuilder, instance, this, value};
use crate::py::errors::{attribute_error, type_error};
use crate::py::{Args, Obj, Py, TypeCell, ffi, getter, method, name};

static TYPE: TypeCell = TypeCell::new();

/// A store that Rust has.
struct PyStore(Arc<dyn Store>);

impl Class for PyStore {
    const NAME: &'static CStr = c"corten._C._DistStore";

    fn cell() -> &'static TypeCell {
        &TYPE
    }

    fn describe(builder: TypeBuilder) -> TypeBuilder {
        builder
            .flags(ffi::Py_TPFLAGS_DISALLOW_INSTANTIATION)
            .doc(c"A store of keys and values that ranks share.")
            .getset([
                getter!("timeout", |s: &Obj| Obj::float(inner(s).timeout().as_secs_f64())),
                getter!("host", |s: &Obj| Obj::str_from(tcp(inner(s))?.host())),
                getter!("port", |s: &Obj| Obj::int(tcp(inner(s))?.port().into())),
                getter!("is_server", |s: &Obj| Ok(Obj::bool(tcp(inner(s))?.is_server()))),
            ])
            .methods(of_keys())
            .methods(of_several())
    }
}

/// Methods of one key.
fn of_keys() -> Vec<ffi::PyMethodDef> {
    vec![
        method!("set", |s: &Obj, args: Args<'_>| {
            let (store, key, value) = (inner(s), text(&args, 0)?, bytes(arg(&args, 1)?)?);
            detached(|| store.set(&key, &value)).map(|()| Obj::none())
        }),
        method!("get", |s: &Obj, args: Args<'_>| {
            let (store, key) = (inner(s), text(&args, 0)?);
            Obj::bytes(&detached(|| store.get(&key))?)
        }),
        method!("add", |s: &Obj, args: Args<'_>| {
            let (store, key, amount) = (inner(s), text(&args, 0)?, arg(&args, 1)?.to_i64()?);
            Obj::int(detached(|| store.add(&key, amount))?)
        }),
        method!("check", |s: &Obj, args: Args<'_>| {
            let (store, keys) = (inner(s), texts(arg(&args, 0)?)?);
            detached(|| store.check(&keys)).map(Obj::bool)
        }),
        method!("wait", |s: &Obj, args: Args<'_>| {
            let (store, keys) = (inner(s), texts(arg(&args, 0)?)?);
            let timeout = seconds(&args, 1)?;
            detached(|| store.wait(&keys, timeout)).map(|()| Obj::none())
        }),
        method!("compare_set", |s: &Obj, args: Args<'_>| {
            let (store, key) = (inner(s), text(&args, 0)?);
            let (expected, desired) = (bytes(arg(&args, 1)?)?, bytes(arg(&args, 2)?)?);
            Obj::bytes(&detached(|| store.compare_set(&key, &expected, &desired))?)
        }),
        method!("delete_key", |s: &Obj, args: Args<'_>| {
            let (store, key) = (inner(s), text(&args, 0)?);
            detached(|| store.delete_key(&key)).map(Obj::bool)
        }),
    ]
}

/// Methods of several keys, of queues, and of the store.
fn of_several() -> Vec<ffi::PyMethodDef> {
    vec![
        method!("num_keys", |s: &Obj, _a: Args<'_>| {
            let store = inner(s);
            Obj::int(detached(|| store.num_keys())?)
        }),
        method!("list_keys", |s: &Obj, _a: Args<'_>| {
            let store = inner(s);
            Obj::list(detached(|| store.list_keys())?.iter().map(|key| Obj::str_from(key)))
        }),
        method!("append", |s: &Obj, args: Args<'_>| {
            let (store, key, value) = (inner(s), text(&args, 0)?, bytes(arg(&args, 1)?)?);
            detached(|| store.append(&key, &value)).map(|()| Obj::none())
        }),
        method!("multi_get", |s: &Obj, args: Args<'_>| {
            let (store, keys) = (inner(s), texts(arg(&args, 0)?)?);
            Obj::list(detached(|| store.multi_get(&keys))?.iter().map(|value| Obj::bytes(value)))
        }),
        method!("multi_set", |s: &Obj, args: Args<'_>| {
            let (store, keys) = (inner(s), texts(arg(&args, 0)?)?);
            let values = arg(&args, 1)?.items()?.iter().map(bytes).collect::<Py<Vec<_>>>()?;
            detached(|| store.multi_set(&keys, &values)).map(|()| Obj::none())
        }),
        method!("has_extended_api", |s: &Obj, _a: Args<'_>| Ok(Obj::bool(
            inner(s).has_extended_api()
        ))),
        method!("queue_push", |s: &Obj, args: Args<'_>| {
            let (store, key, value) = (inner(s), text(&args, 0)?, bytes(arg(&args, 1)?)?);
            detached(|| store.queue_push(&key, &value)).map(|()| Obj::none())
        }),
        method!("queue_pop", |s: &Obj, args: Args<'_>| {
            let (store, key) = (inner(s), text(&args, 0)?);
            let block = arg_opt(&args, 1).map_or(Ok(true), Obj::is_true)?;
            Obj::bytes(&detached(|| store.queue_pop(&key, block))?)
        }),
        method!("queue_len", |s: &Obj, args: Args<'_>| {
            let (store, key) = (inner(s), text(&args, 0)?);
            Obj::int(detached(|| store.queue_len(&key))?)
        }),
        method!("set_timeout", |s: &Obj, args: Args<'_>| {
            if let Some(timeout) = seconds(&args, 0)? {
                inner(s).set_timeout(timeout);
            }
            Ok(Obj::none())
        }),
        method!("clone", |s: &Obj, _a: Args<'_>| {
            let store = inner(s);
            instance(PyStore(detached(|| store.duplicate())?))
        }),
        method!("barrier", |s: &Obj, args: Args<'_>| {
            let (store, key, size) = (inner(s), text(&args, 0)?, arg(&args, 1)?.to_i64()?);
            let timeout = seconds(&args, 2)?;
            detached(|| barrier(&**store, &key, size, timeout)).map(|()| Obj::none())
        }),
    ]
}

fn inner(object: &Obj) -> &Arc<dyn Store> {
    &this::<PyStore>(object).0
}

fn tcp(store: &Arc<dyn Store>) -> Py<&TcpStore> {
    store
        .as_any()
        .downcast_ref::<TcpStore>()
        .ok_or_else(|| attribute_error("only a TCPStore has a host and a port"))
}

/// The store of an object: a handle, a `Store` of the package, or what a class of Python's makes of one.
pub(crate) fn store_from(object: &Obj) -> Py<Arc<dyn Store>> {
    if let Some(handle) = value::<PyStore>(object) {
        return Ok(handle.0.clone());
    }
    match object.attr_opt(name!("_handle"))? {
        Some(handle) if !handle.is_none() => match value::<PyStore>(&handle) {
            Some(handle) => Ok(handle.0.clone()),
            None => Err(type_error(format!("a Store is expected, not {}", object.type_name()))),
        },
        _ if object.attr_opt(name!("compare_set"))?.is_some() => {
            Ok(Arc::new(PythonStore::new(object.clone())))
        }
        _ => Err(type_error(format!("a Store is expected, not {}", object.type_name()))),
    }
}

/// Makes the type.
pub(super) fn add_to(module: &Obj) -> Py<()> {
    module.set_attr_str(c"_DistStore", &crate::py::class::make::<PyStore>()?)
}

fn tcp_options(args: &Args<'_>) -> Py<TcpStoreOptions> {
    let defaults = TcpStoreOptions::default();
    let port = arg(args, 1)?.to_i64()?;
    let port = u16::try_from(port).map_err(|_| {
        crate::py::errors::value_error(format!("port number {port} is out of range [0, 65535]"))
    })?;
    Ok(TcpStoreOptions {
        port,
        world_size: arg_opt(args, 2).map(count).transpose()?,
        is_server: arg(args, 3)?.is_true()?,
        timeout: seconds(args, 4)?.unwrap_or(defaults.timeout),
        wait_for_workers: arg(args, 5)?.is_true()?,
        multi_tenant: arg(args, 6)?.is_true()?,
        listener: arg_opt(args, 7).map(listener).transpose()?,
    })
}

/// The listening socket of a file descriptor, which the store takes over.
#[cfg(unix)]
fn listener(object: &Obj) -> Py<std::net::TcpListener> {
    use std::os::fd::{FromRawFd, OwnedFd, RawFd};
    let number = object.to_i64()?;
    let descriptor = RawFd::try_from(number)
        .ok()
        .filter(|number| *number >= 0)
        .ok_or_else(|| crate::py::errors::value_error(format!("{number} is no file descriptor")))?;
    // SAFETY: the caller hands over a descriptor that is open, as `master_listen_fd` says.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) }.into())
}

#[cfg(not(unix))]
fn listener(_object: &Obj) -> Py<std::net::TcpListener> {
    Err(type_error("master_listen_fd is for systems with file descriptors"))
}

/// The functions of the module.
pub(super) fn functions() -> Vec<ffi::PyMethodDef> {
    vec![
        method!("_dist_hash_store", |_m: &Obj, _a: Args<'_>| instance(PyStore(Arc::new(
            HashStore::new()
        )))),
        method!("_dist_file_store", |_m: &Obj, args: Args<'_>| {
            let (path, ranks) = (text(&args, 0)?, arg(&args, 1)?.to_i64()?);
            instance(PyStore(Arc::new(detached(|| FileStore::new(&path, ranks))?)))
        }),
        method!("_dist_tcp_store", |_m: &Obj, args: Args<'_>| {
            let (host, options) = (text(&args, 0)?, tcp_options(&args)?);
            instance(PyStore(Arc::new(detached(|| TcpStore::new(&host, options))?)))
        }),
        method!("_dist_prefix_store", |_m: &Obj, args: Args<'_>| {
            let (prefix, store) = (text(&args, 0)?, store_from(arg(&args, 1)?)?);
            instance(PyStore(Arc::new(PrefixStore::new(prefix, store))))
        }),
    ]
}

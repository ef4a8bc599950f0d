//! `UntypedStorage`: the bytes behind tensors.

use crate::args::parser;
use crate::py::call::OwnedArgs;
use crate::py::class::{Class, TypeBuilder, instance, instance_of, this, value};
use crate::py::errors::{index_error, runtime_error, type_error};
use crate::py::gil::Shared;
use crate::py::{Args, Obj, Py, TypeCell, ffi, getter, method, slot};
use crate::types;
use corten_core::{DataPtr, Device, Storage, try_vec, unwinding};
use std::ffi::{CStr, c_int};
use std::sync::atomic::{AtomicPtr, Ordering};

static TYPE: TypeCell = TypeCell::new();
/// The class that storages are wrapped in: a subclass that Python defines.
static PUBLIC: AtomicPtr<ffi::PyTypeObject> = AtomicPtr::new(std::ptr::null_mut());

struct PyStorage(Storage);

impl Class for PyStorage {
    const NAME: &'static CStr = c"corten._C.StorageBase";

    fn cell() -> &'static TypeCell {
        &TYPE
    }

    fn describe(builder: TypeBuilder) -> TypeBuilder {
        builder
            .doc(c"A block of memory that tensors share.")
            .flags(ffi::Py_TPFLAGS_BASETYPE)
            .slot(ffi::Py_tp_new, slot!(call new))
            .slot(ffi::Py_mp_length, slot!(length |s: &Obj| Ok(get_this(s).nbytes())))
            .slot(ffi::Py_mp_subscript, slot!(binary get_item))
            .slot(ffi::Py_mp_ass_subscript, slot!(assign set_item))
            .slot(ffi::Py_tp_richcompare, slot!(compare compare))
            .slot(ffi::Py_tp_hash, slot!(length |s: &Obj| Ok(get_this(s).key() >> 4)))
            .getset([
                getter!("device", |s: &Obj| types::device::object(get_this(s).device())),
                getter!("is_cuda", |s: &Obj| Ok(Obj::bool(get_this(s).device().is_cuda()))),
                getter!("_cdata", |s: &Obj| Obj::int(get_this(s).key() as i64)),
            ])
            .methods([
                method!("nbytes", |s: &Obj, _a: Args<'_>| Obj::int(get_this(s).nbytes() as i64)),
                method!("size", |s: &Obj, _a: Args<'_>| Obj::int(get_this(s).nbytes() as i64)),
                method!("element_size", |_s: &Obj, _a: Args<'_>| Obj::int(1)),
                method!(
                    "data_ptr",
                    |s: &Obj, _a: Args<'_>| Obj::int(get_this(s).data_ptr() as i64)
                ),
                method!("resizable", |s: &Obj, _a: Args<'_>| Ok(Obj::bool(
                    get_this(s).is_resizable()
                ))),
                method!("resize_", resize),
                method!("is_shared", |s: &Obj, _a: Args<'_>| Ok(Obj::bool(is_shared(get_this(s))))),
                method!("is_pinned", |_s: &Obj, _a: Args<'_>| Ok(Obj::bool(false))),
                method!("fill_", fill),
                method!("copy_", copy),
                method!("clone", clone),
                method!("new", |s: &Obj, _a: Args<'_>| {
                    instance_of(s.type_ptr(), PyStorage(Storage::new(0, get_this(s).device())?))
                }),
                method!("tolist", |s: &Obj, _a: Args<'_>| {
                    let bytes = to_vec(get_this(s));
                    Obj::list(bytes.into_iter().map(|byte| Obj::int(i64::from(byte))))
                }),
                method!("_use_count", |s: &Obj, _a: Args<'_>| Obj::int(
                    get_this(s).use_count() as i64
                )),
                method!("_to_bytes", |s: &Obj, _a: Args<'_>| Obj::bytes(&to_vec(get_this(s)))),
                method!("_copy_bytes", copy_bytes),
            ])
    }
}

fn get_this(object: &Obj) -> &Storage {
    &this::<PyStorage>(object).0
}

/// `UntypedStorage(size=0, *, device=None)` or `UntypedStorage(sequence of bytes)`.
fn new(class: &Obj, args: &Obj, kwargs: Option<&Obj>) -> Py<Obj> {
    let owned = OwnedArgs::new(args, kwargs)?;
    let parser = parser!(
        "UntypedStorage(*, Device? device=None)",
        "UntypedStorage(int size, *, Device? device=None)",
        "UntypedStorage(any sequence, *, Device? device=None)",
    );
    let bound = parser.parse(None, owned.as_args())?;
    let device = |place| -> Py<Device> { Ok(bound.device_opt(place)?.unwrap_or(Device::CPU)) };
    let made = match bound.index {
        0 => Storage::new(0, device(0)?)?,
        1 => {
            let size = bound.int(0)?;
            if size < 0 {
                return Err(runtime_error("Storage size must be non-negative"));
            }
            Storage::new(size as usize, device(1)?)?
        }
        _ => {
            let items = bound.object(0)?.items()?;
            let bytes: Vec<u8> =
                items.iter().map(|item| item.to_i64().map(|byte| byte as u8)).collect::<Py<_>>()?;
            from_slice(&bytes)?
        }
    };
    instance_of(class.as_ptr().cast(), PyStorage(made))
}

fn from_slice(bytes: &[u8]) -> Py<Storage> {
    let made = Storage::new(bytes.len(), Device::CPU)?;
    write(&made, 0, bytes)?;
    Ok(made)
}

/// Memory of the host that may be read and written here.
fn host_memory(storage: &Storage) -> Py<(*mut u8, usize)> {
    if !storage.device().is_cpu() {
        return Err(runtime_error("the bytes of this storage are not in host memory"));
    }
    Ok((storage.data_ptr(), storage.nbytes()))
}

fn write(storage: &Storage, at: usize, bytes: &[u8]) -> Py<()> {
    let (data, length) = host_memory(storage)?;
    if at + bytes.len() > length {
        return Err(index_error("index out of range"));
    }
    if !bytes.is_empty() {
        // SAFETY: the range lies within the storage, and `bytes` is memory of our own.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), data.add(at), bytes.len()) };
    }
    Ok(())
}

/// A copy of the bytes.
fn to_vec(storage: &Storage) -> Vec<u8> {
    match host_memory(storage) {
        Ok((data, length)) if length > 0 => {
            // SAFETY: the storage holds that many bytes and is kept alive by its object.
            unwinding::to_vec(unsafe { std::slice::from_raw_parts(data, length) })
        }
        Ok(_) => Vec::new(),
        Err(raised) => {
            raised.clear();
            Vec::new()
        }
    }
}

fn position(storage: &Storage, key: &Obj) -> Py<usize> {
    let length = storage.nbytes() as i64;
    let index = key.to_i64()?;
    let wrapped = if index < 0 { index + length } else { index };
    if !(0..length).contains(&wrapped) {
        return Err(index_error(format!(
            "index {index} out of range for storage of size {length}"
        )));
    }
    Ok(wrapped as usize)
}

/// Start and length of a slice of step 1.
fn range(storage: &Storage, key: &Obj) -> Py<(usize, usize)> {
    let (mut start, mut stop, mut step) = (0, 0, 0);
    // SAFETY: the object is a slice; the numbers are written.
    let length = unsafe {
        crate::py::obj::check(ffi::PySlice_Unpack(
            key.as_ptr(),
            &raw mut start,
            &raw mut stop,
            &raw mut step,
        ))?;
        let total = storage.nbytes() as ffi::Py_ssize_t;
        ffi::PySlice_AdjustIndices(total, &raw mut start, &raw mut stop, step)
    };
    if step != 1 {
        return Err(runtime_error("Trying to slice with a step of other than 1"));
    }
    Ok((start as usize, length as usize))
}

fn get_item(object: &Obj, key: &Obj) -> Py<Obj> {
    let storage = get_this(object);
    if !key.is_slice() {
        let at = position(storage, key)?;
        let (data, _) = host_memory(storage)?;
        // SAFETY: the position is within the storage.
        return Obj::int(i64::from(unsafe { data.add(at).read() }));
    }
    let (start, length) = range(storage, key)?;
    let (data, _) = host_memory(storage)?;
    // A part of a storage shares its memory and keeps the whole alive.
    let owner = Box::new(storage.clone());
    let pointer = DataPtr::with_owner(data.wrapping_add(start), owner, storage.device());
    instance_of(object.type_ptr(), PyStorage(Storage::from_data_ptr(pointer, length)))
}

fn set_item(object: &Obj, key: &Obj, value: Option<&Obj>) -> Py<()> {
    let Some(value) = value else { return Err(type_error("storages do not support deletion")) };
    let storage = get_this(object);
    let byte = value.to_i64()? as u8;
    if key.is_slice() {
        let (start, length) = range(storage, key)?;
        return write(storage, start, &try_vec(byte, length)?);
    }
    write(storage, position(storage, key)?, &[byte])
}

fn compare(a: &Obj, b: &Obj, op: c_int) -> Py<Obj> {
    match (value::<PyStorage>(b), op) {
        (Some(b), ffi::Py_EQ) => Ok(Obj::bool(get_this(a).ptr_eq(&b.0))),
        (Some(b), ffi::Py_NE) => Ok(Obj::bool(!get_this(a).ptr_eq(&b.0))),
        _ => Ok(Obj::not_implemented()),
    }
}

fn resize(object: &Obj, args: Args<'_>) -> Py<Obj> {
    let bound = parser!("resize_(int size)").parse(None, args)?;
    let size = bound.int(0)?;
    if size < 0 {
        return Err(runtime_error("Storage size must be non-negative"));
    }
    get_this(object).resize(size as usize)?;
    Ok(object.clone())
}

fn fill(object: &Obj, args: Args<'_>) -> Py<Obj> {
    let bound = parser!("fill_(int value)").parse(None, args)?;
    let storage = get_this(object);
    write(storage, 0, &try_vec(bound.int(0)? as u8, storage.nbytes())?)?;
    Ok(object.clone())
}

fn copy(object: &Obj, args: Args<'_>) -> Py<Obj> {
    let bound = parser!("copy_(Storage source, bool? non_blocking=None)").parse(None, args)?;
    let source = from_object(bound.object(0)?)?;
    let target = get_this(object);
    if source.nbytes() != target.nbytes() {
        return Err(runtime_error("size does not match"));
    }
    write(target, 0, &to_vec(&source))?;
    Ok(object.clone())
}

fn clone(object: &Obj, _args: Args<'_>) -> Py<Obj> {
    let made = from_slice(&to_vec(get_this(object)))?;
    instance_of(object.type_ptr(), PyStorage(made))
}

/// `_copy_bytes(offset, bytes)`: what the file readers fill a storage with.
fn copy_bytes(object: &Obj, args: Args<'_>) -> Py<Obj> {
    let [at, bytes] = args.positional else { return Err(type_error("offset and bytes expected")) };
    write(get_this(object), at.to_i64()?.max(0) as usize, bytes.as_bytes()?)?;
    Ok(Obj::none())
}

/// Whether other processes may see the memory.
pub(crate) fn is_shared(storage: &Storage) -> bool {
    storage.as_intrusive().is_from_other_process() || storage.is_shared()
}

/// Makes the type.
pub(crate) fn add_to(module: &Obj) -> Py<()> {
    module.set_attr_str(c"StorageBase", &crate::py::class::make::<PyStorage>()?)
}

/// The object of a storage.
pub(crate) fn wrap(storage: &Storage) -> Py<Obj> {
    if PUBLIC.load(Ordering::Relaxed).is_null() {
        // The module registers its class when it is loaded.
        crate::py::convert::import(crate::py::name!("corten.storage"))?;
    }
    let public = PUBLIC.load(Ordering::Relaxed);
    let value = PyStorage(storage.clone());
    if public.is_null() { instance(value) } else { instance_of(public, value) }
}

/// Whether the object is a storage.
pub(crate) fn is_storage(object: &Obj) -> bool {
    TYPE.is_instance(object) || untyped(object).is_some()
}

/// The untyped storage inside a typed one.
fn untyped(object: &Obj) -> Option<Obj> {
    match object.attr_opt(crate::py::name!("_untyped_storage")) {
        Ok(found) => found.filter(|inner| TYPE.is_instance(inner)),
        Err(raised) => {
            raised.clear();
            None
        }
    }
}

/// The storage of an argument.
pub(crate) fn from_object(object: &Obj) -> Py<Storage> {
    if let Some(found) = value::<PyStorage>(object) {
        return Ok(found.0.clone());
    }
    untyped(object)
        .and_then(|inner| value::<PyStorage>(&inner).map(|found| found.0.clone()))
        .ok_or_else(|| {
            type_error(format!("expected a torch.Storage, but got {}", object.type_name()))
        })
}

/// The functions of the module.
pub(crate) fn functions() -> Vec<ffi::PyMethodDef> {
    vec![
        method!("_set_storage_class", |_m: &Obj, args: Args<'_>| {
            let [class] = args.positional else { return Err(type_error("one class expected")) };
            PUBLIC.store(class.clone().into_ptr().cast(), Ordering::Relaxed);
            Ok(Obj::none())
        }),
        method!("_storage_from_buffer", from_buffer),
    ]
}

/// `_storage_from_buffer(object, offset, nbytes)`: shares the memory of a writable buffer.
fn from_buffer(_module: &Obj, args: Args<'_>) -> Py<Obj> {
    let parser = parser!("_storage_from_buffer(any buffer, int offset=0, int nbytes=-1)");
    let bound = parser.parse(None, args)?;
    let view = crate::creation::Buffer::new(bound.object(0)?)?;
    let (data, total, _) = view.memory();
    let offset = bound.int(1)?.max(0) as usize;
    let nbytes = match bound.int(2)? {
        count if count < 0 => total.saturating_sub(offset),
        count => count as usize,
    };
    if offset + nbytes > total {
        return Err(runtime_error("the buffer is too small"));
    }
    let keep = Box::new((view, Shared::new(bound.object(0)?.clone())));
    let pointer = DataPtr::with_owner(data.wrapping_add(offset), keep, Device::CPU);
    wrap(&Storage::from_data_ptr(pointer, nbytes))
}

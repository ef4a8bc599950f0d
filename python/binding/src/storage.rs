//! `UntypedStorage`: the bytes behind tensors.

use crate::args::parser;
use crate::py::call::OwnedArgs;
use crate::py::class::{Class, TypeBuilder, instance, instance_of, this, value};
use crate::py::errors::{index_error, runtime_error, type_error};
use crate::py::{Args, Obj, Py, TypeCell, ffi, getter, method, slot};
use crate::types;
use corten_core::{DType, Device, LentMemory, Storage, TensorBase, TensorOptions, try_vec};
use corten_ops::Tensor;
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
                method!("data_ptr", |s: &Obj, _a: Args<'_>| {
                    get_this(s).flush()?;
                    // Whoever has the address may write: other shares keep their memory.
                    if get_this(s).is_copy_on_write() {
                        get_this(s).materialise()?;
                    }
                    Obj::int(get_this(s).data_ptr() as i64)
                }),
                method!("resizable", |s: &Obj, _a: Args<'_>| Ok(Obj::bool(
                    get_this(s).is_resizable()
                ))),
                method!("resize_", resize),
                method!("is_shared", |s: &Obj, _a: Args<'_>| Ok(Obj::bool(is_shared(get_this(s))))),
                #[cfg(feature = "cuda")]
                method!("is_pinned", |s: &Obj, _a: Args<'_>| {
                    let storage = get_this(s);
                    let found =
                        storage.device().is_cpu() && corten::cuda::is_pinned(storage.data_ptr());
                    Ok(Obj::bool(found))
                }),
                #[cfg(not(feature = "cuda"))]
                method!("is_pinned", |_s: &Obj, _a: Args<'_>| Ok(Obj::bool(false))),
                method!("fill_", fill),
                method!("copy_", copy),
                method!("clone", clone),
                method!("new", |s: &Obj, _a: Args<'_>| {
                    instance_of(s.type_ptr(), PyStorage(Storage::new(0, get_this(s).device())?))
                }),
                method!("tolist", |s: &Obj, _a: Args<'_>| {
                    let bytes = to_vec(get_this(s))?;
                    Obj::list(bytes.into_iter().map(|byte| Obj::int(i64::from(byte))))
                }),
                method!("_use_count", |s: &Obj, _a: Args<'_>| Obj::int(
                    get_this(s).use_count() as i64
                )),
                method!("_to_bytes", |s: &Obj, _a: Args<'_>| Obj::bytes(&to_vec(get_this(s))?)),
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
    if class.as_ptr().cast() == TYPE.get() {
        return Err(runtime_error(
            "Cannot directly construct StorageBase; subclass it and then construct that",
        ));
    }
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
            match device(1)? {
                place if place.is_cpu() => from_slice(&bytes)?,
                place => Storage::new(bytes.len(), place)?,
            }
        }
    };
    instance_of(class.as_ptr().cast(), PyStorage(made))
}

fn from_slice(bytes: &[u8]) -> Py<Storage> {
    let made = Storage::new(bytes.len(), Device::CPU)?;
    made.write_bytes(0, bytes)?;
    Ok(made)
}

/// A copy of the bytes; none of a storage without data in host memory.
fn to_vec(storage: &Storage) -> Py<Vec<u8>> {
    if storage.device().is_cpu() { Ok(storage.read_bytes()?) } else { Ok(Vec::new()) }
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
        // SAFETY: the place is within the memory, which is kept while it is read.
        let byte = unsafe { host_memory(storage)?.start().add(at).read() };
        return Obj::int(i64::from(byte));
    }
    let (start, length) = range(storage, key)?;
    // A part shares the memory and keeps it, whatever becomes of the whole.
    let part = host_memory(storage)?.slice(start, length)?;
    instance_of(object.type_ptr(), PyStorage(part))
}

/// Memory of the host that may be read and written here.
fn host_memory(storage: &Storage) -> Py<LentMemory> {
    let memory = storage.lend()?;
    if !memory.device().is_cpu() || memory.start().is_null() && memory.nbytes() > 0 {
        return Err(runtime_error("the bytes of this storage are not in host memory"));
    }
    Ok(memory)
}

fn set_item(object: &Obj, key: &Obj, value: Option<&Obj>) -> Py<()> {
    let Some(value) = value else { return Err(type_error("storages do not support deletion")) };
    let storage = get_this(object);
    let byte = value.to_i64()? as u8;
    let (start, length) =
        if key.is_slice() { range(storage, key)? } else { (position(storage, key)?, 1) };
    Ok(storage.write_bytes(start, &try_vec(byte, length)?)?)
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
    storage.write_bytes(0, &try_vec(bound.int(0)? as u8, storage.nbytes())?)?;
    Ok(object.clone())
}

fn copy(object: &Obj, args: Args<'_>) -> Py<Obj> {
    let bound = parser!("copy_(Storage source, bool? non_blocking=None)").parse(None, args)?;
    let source = from_object(bound.object(0)?)?;
    let target = get_this(object);
    if source.nbytes() != target.nbytes() {
        return Err(runtime_error("size does not match"));
    }
    target.write_bytes(0, &to_vec(&source)?)?;
    Ok(object.clone())
}

fn clone(object: &Obj, _args: Args<'_>) -> Py<Obj> {
    let made = from_slice(&to_vec(get_this(object))?)?;
    instance_of(object.type_ptr(), PyStorage(made))
}

/// `_copy_bytes(offset, bytes)`: what the file readers fill a storage with.
fn copy_bytes(object: &Obj, args: Args<'_>) -> Py<Obj> {
    let [at, bytes] = args.positional else { return Err(type_error("offset and bytes expected")) };
    get_this(object).write_bytes(at.to_i64()?.max(0) as usize, bytes.as_bytes()?)?;
    Ok(Obj::none())
}

/// Whether other processes may see the memory.
pub(crate) fn is_shared(storage: &Storage) -> bool {
    // Other processes can open memory of GPUs as it is.
    storage.device().is_cuda()
        || storage.as_intrusive().is_from_other_process()
        || storage.is_shared()
        || storage.is_part()
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
    if crate::dlpack::is_dense_data(object) {
        return None;
    }
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

/// The dtype of a typed storage's elements.
pub(crate) fn element_dtype(object: &Obj) -> Py<Option<DType>> {
    if untyped(object).is_none() {
        return Ok(None);
    }
    object
        .attr(crate::py::name!("_dtype"))
        .and_then(|dtype| crate::args::dtype_arg(&dtype))
        .map(Some)
}

/// A tensor over all elements of a storage argument, of `dtype` where it is given.
///
/// # Errors
///
/// The storage is typed, and its elements are of another dtype.
pub(crate) fn tensor_over(object: &Obj, dtype: Option<DType>) -> Py<Tensor> {
    let own = element_dtype(object)?;
    if let (Some(own), Some(wanted)) = (own, dtype)
        && own != wanted
    {
        return Err(runtime_error(format!(
            "Expected a Storage of type {} or an UntypedStorage, but got type {} for argument 1 \
             'storage'",
            wanted.type_name(),
            own.type_name()
        )));
    }
    let storage = from_object(object)?;
    // PyTorch reads bytes without a dtype as its first integers, and none as no numbers at all.
    let dtype = dtype.or(own).unwrap_or_else(|| match storage.nbytes() {
        0 => corten_core::default_dtype(),
        _ => DType::Int64,
    });
    let count = (storage.nbytes() / dtype.itemsize()) as i64;
    let options = TensorOptions::new().dtype(dtype).device(storage.device());
    let made = TensorBase::empty(&[0], options)?;
    made.set_storage_and_geometry(storage, 0, &[count], &[1])?;
    Ok(made.into())
}

/// The functions of the module.
pub(crate) fn functions() -> Vec<ffi::PyMethodDef> {
    vec![method!("_set_storage_class", |_m: &Obj, args: Args<'_>| {
        let [class] = args.positional else { return Err(type_error("one class expected")) };
        PUBLIC.store(class.clone().into_ptr().cast(), Ordering::Relaxed);
        Ok(Obj::none())
    })]
}

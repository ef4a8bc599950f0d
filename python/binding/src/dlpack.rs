//! DLPack: tensors to and from other libraries without copies, in the legacy and the versioned
//! form.

use crate::args::{number_kind, parser};
use crate::py::errors::{Raised, assertion_error, buffer_error, runtime_error, type_error};
use crate::py::{Args, Obj, Py, ffi, method, name};
use crate::tensor;
use corten_core::geometry::{ForeignGeometry, ForeignMemory, ForeignStrides, MAX_FOREIGN_DIMS};
use corten_core::{DType, Device, DeviceType, Dims, LentMemory};
use corten_ops::{Tensor, op};
use std::ffi::{CStr, c_void};

const LEGACY: &CStr = c"dltensor";
const LEGACY_USED: &CStr = c"used_dltensor";
const VERSIONED: &CStr = c"dltensor_versioned";
const VERSIONED_USED: &CStr = c"used_dltensor_versioned";
const READ_ONLY: u64 = 1;
const IS_COPIED: u64 = 2;

#[repr(C)]
#[derive(Clone, Copy)]
struct DlDevice {
    device_type: i32,
    device_id: i32,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct DlDataType {
    code: u8,
    bits: u8,
    lanes: u16,
}

#[repr(C)]
struct DlTensor {
    data: *mut c_void,
    device: DlDevice,
    ndim: i32,
    dtype: DlDataType,
    shape: *mut i64,
    strides: *mut i64,
    byte_offset: u64,
}

#[repr(C)]
struct Managed {
    tensor: DlTensor,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Managed)>,
}

#[repr(C)]
struct ManagedVersioned {
    major: u32,
    minor: u32,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut ManagedVersioned)>,
    flags: u64,
    tensor: DlTensor,
}

/// What an exported structure keeps alive: the memory and its geometry.
struct Context {
    _memory: LentMemory,
    sizes: Vec<i64>,
    strides: Vec<i64>,
}

fn device_code(device: Device) -> Option<DlDevice> {
    let device_type = match device.device_type {
        DeviceType::Cpu => 1,
        DeviceType::Cuda => 2,
        _ => return None,
    };
    Some(DlDevice { device_type, device_id: i32::from(device.index.max(0)) })
}

/// `__dlpack_device__()`.
pub(crate) fn device(object: &Obj, _args: Args<'_>) -> Py<Obj> {
    let tensor = tensor::expect(object)?;
    let Some(code) = device_code(tensor.device()) else {
        return Err(value_of(tensor));
    };
    Obj::tuple([Obj::int(i64::from(code.device_type)), Obj::int(i64::from(code.device_id))])
}

fn value_of(tensor: &Tensor) -> Raised {
    crate::py::errors::value_error(format!(
        "Unknown device type {} for Dlpack",
        tensor.device().device_type
    ))
}

/// `__dlpack__(*, stream=-1, max_version=None, dl_device=None, copy=None)`.
pub(crate) fn export(object: &Obj, args: Args<'_>) -> Py<Obj> {
    let parser = parser!(
        "__dlpack__(*, any stream=-1, any max_version=None, any dl_device=None, bool? copy=None)"
    );
    let bound = parser.parse(None, args)?;
    let tensor = tensor::expect(object)?;
    check_exportable(tensor)?;
    if let Some(stream) = bound.get(0)
        && tensor.device().is_cpu()
        && !stream.is_none()
        && stream.to_i64()? != -1
    {
        return Err(type_error("stream should be None on cpu."));
    }
    let copy = bound.bool_opt(3)?;
    let target = match bound.get(2) {
        Some(wanted) => other_device(tensor, wanted, copy)?,
        None => None,
    };
    let negative = has_negative_strides(tensor);
    if negative && copy == Some(false) {
        return Err(buffer_error("Can't export tensors with negative strides without a copy"));
    }
    let copied = copy == Some(true) || target.is_some() || negative;
    let shared = if let Some(device) = target {
        op::to_device(tensor, device, tensor.dtype(), false, true, None)?
    } else if copied {
        crate::functions::op1!("aten::clone", tensor, None::<corten_core::MemoryFormat>)?
    } else {
        tensor.clone()
    };
    #[cfg(feature = "cuda")]
    if shared.device().is_cuda() {
        let none = Obj::none();
        let stream = bound.get(0).unwrap_or(&none);
        crate::cuda::exchange::hand_over(shared.device().index, stream)?;
    }
    let versioned = match bound.get(1) {
        Some(version) => version.items()?.first().is_some_and(|major| {
            major.to_i64().map_err(Raised::clear).is_ok_and(|major| major >= 1)
        }),
        None => false,
    };
    if versioned { versioned_capsule(&shared, copied) } else { legacy_capsule(&shared) }
}

/// The device that a consumer wants a copy on, if the tensor is on another one.
fn other_device(tensor: &Tensor, wanted: &Obj, copy: Option<bool>) -> Py<Option<Device>> {
    let own = device_code(tensor.device()).ok_or_else(|| value_of(tensor))?;
    let items = wanted.items()?;
    let [kind, index] = items.as_slice() else {
        return Err(type_error("dl_device must be a pair of numbers"));
    };
    let (kind, index) = (kind.to_i64()?, index.to_i64()?);
    if kind == i64::from(own.device_type) && (kind == 1 || index == i64::from(own.device_id)) {
        return Ok(None);
    }
    let target = match kind {
        1 => Some(Device::CPU),
        2 => i8::try_from(index).ok().map(Device::cuda),
        _ => None,
    };
    match target {
        Some(device) if copy != Some(false) => Ok(Some(device)),
        _ => Err(buffer_error(format!(
            "unsupported device for DLPack export: cannot move from {}",
            tensor.device()
        ))),
    }
}

/// Consumers of DLPack, PyTorch among them, refuse negative strides.
fn has_negative_strides(tensor: &Tensor) -> bool {
    tensor.key_set().has_any(corten_core::keys::NEGATIVE_STRIDES)
}

fn check_exportable(tensor: &Tensor) -> Py<()> {
    if tensor::requires_grad(tensor) {
        return Err(buffer_error(
            "Can't export tensors that require gradient, use tensor.detach()",
        ));
    }
    if tensor.is_conj() {
        return Err(buffer_error("Can't export tensors with the conjugate bit set"));
    }
    if tensor.is_neg() {
        return Err(buffer_error("Can't export tensors with the negative bit set"));
    }
    if tensor.layout() != corten_core::Layout::Strided {
        return Err(buffer_error("Can't export tensors with layout other than torch.strided"));
    }
    Ok(())
}

/// A tensor as DLPack describes it, and whether it may be written.
fn describe(tensor: &Tensor) -> Py<(DlTensor, *mut c_void, bool)> {
    let dtype = tensor.dtype();
    let (Some(code), bits) = (dtype.dlpack_code(), 8 * dtype.itemsize() as u8) else {
        return Err(buffer_error(format!("{} type is not supported by dlpack", dtype.type_name())));
    };
    let Some(device) = device_code(tensor.device()) else {
        return Err(buffer_error(format!("Cannot pack tensors on {}", tensor.device())));
    };
    let lent = tensor::lend(tensor)?;
    let sizes = lent.geometry.sizes.to_vec();
    // The stride of a dimension of size 1 means nothing; 1 is what consumers expect.
    let strides = lent.geometry.strides.iter().zip(&sizes);
    let strides = strides.map(|(&stride, &size)| if size < 2 { 1 } else { stride }).collect();
    let mut context = Box::new(Context { _memory: lent.memory, sizes, strides });
    let described = DlTensor {
        data: lent.first.cast(),
        device,
        ndim: context.sizes.len() as i32,
        dtype: DlDataType { code, bits, lanes: 1 },
        shape: context.sizes.as_mut_ptr(),
        strides: context.strides.as_mut_ptr(),
        byte_offset: 0,
    };
    Ok((described, Box::into_raw(context).cast(), lent.writable))
}

fn legacy_capsule(tensor: &Tensor) -> Py<Obj> {
    let (tensor, context, writable) = describe(tensor)?;
    let managed = Box::new(Managed { tensor, context, deleter: Some(delete_legacy) });
    let made = capsule(Box::into_raw(managed).cast(), LEGACY, drop_legacy)?;
    if !writable {
        return Err(buffer_error(
            "Can't export read-only memory without a version of DLPack that has a flag for it",
        ));
    }
    Ok(made)
}

fn versioned_capsule(tensor: &Tensor, copied: bool) -> Py<Obj> {
    let (tensor, context, writable) = describe(tensor)?;
    let managed = Box::new(ManagedVersioned {
        major: 1,
        minor: 3,
        context,
        deleter: Some(delete_versioned),
        flags: if copied { IS_COPIED } else { 0 } | if writable { 0 } else { READ_ONLY },
        tensor,
    });
    capsule(Box::into_raw(managed).cast(), VERSIONED, drop_versioned)
}

fn capsule(
    pointer: *mut c_void,
    name: &'static CStr,
    destructor: unsafe extern "C" fn(*mut ffi::PyObject),
) -> Py<Obj> {
    // SAFETY: the destructor frees what the pointer stands for, unless a consumer has renamed the
    // capsule and thereby taken it over.
    unsafe { Obj::owned(ffi::PyCapsule_New(pointer, name.as_ptr(), Some(destructor))) }
}

unsafe extern "C" fn delete_legacy(managed: *mut Managed) {
    // SAFETY: the consumer calls this once with the structure made by `legacy_capsule`.
    unsafe {
        let managed = Box::from_raw(managed);
        drop(Box::from_raw(managed.context.cast::<Context>()));
    }
}

unsafe extern "C" fn delete_versioned(managed: *mut ManagedVersioned) {
    // SAFETY: the consumer calls this once with the structure made by `versioned_capsule`.
    unsafe {
        let managed = Box::from_raw(managed);
        drop(Box::from_raw(managed.context.cast::<Context>()));
    }
}

unsafe extern "C" fn drop_legacy(capsule: *mut ffi::PyObject) {
    // SAFETY: an unused capsule still holds the structure under its first name.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, LEGACY.as_ptr()) != 0 {
            delete_legacy(ffi::PyCapsule_GetPointer(capsule, LEGACY.as_ptr()).cast());
        }
    }
}

unsafe extern "C" fn drop_versioned(capsule: *mut ffi::PyObject) {
    // SAFETY: as above.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, VERSIONED.as_ptr()) != 0 {
            delete_versioned(ffi::PyCapsule_GetPointer(capsule, VERSIONED.as_ptr()).cast());
        }
    }
}

/// A foreign structure, given back when the storage over it dies.
enum Foreign {
    Legacy(*mut Managed),
    Versioned(*mut ManagedVersioned),
}

// SAFETY: the structure is only passed to its own deleter, which DLPack allows from any thread.
unsafe impl Send for Foreign {}
// SAFETY: nothing is reachable through a shared reference.
unsafe impl Sync for Foreign {}

impl Drop for Foreign {
    fn drop(&mut self) {
        // Deleters of Python libraries count references, so they run with the lock held.
        if !crate::py::gil::is_alive() {
            return;
        }
        // SAFETY: the structure was taken over from its capsule and is given back once.
        crate::py::gil::attach(|| unsafe {
            match *self {
                Self::Legacy(managed) => {
                    if let Some(delete) = (*managed).deleter {
                        delete(managed);
                    }
                }
                Self::Versioned(managed) => {
                    if let Some(delete) = (*managed).deleter {
                        delete(managed);
                    }
                }
            }
        });
    }
}

/// A tensor over the memory of an object with `__dlpack__`.
pub(crate) fn import(object: &Obj) -> Py<Tensor> {
    import_with(object, None, None)
}

/// As [`import`], from a given device, and with a wish whether the library makes a copy.
fn import_with(object: &Obj, device: Option<Device>, copy: Option<bool>) -> Py<Tensor> {
    if object.attr_opt(name!("__dlpack__"))?.is_none() && has_cuda_interface(object)? {
        check_cuda()?;
        let module = crate::py::convert::import(name!("corten.cuda._array_interface"))?;
        let made = module.call_method(name!("import_tensor"), &[object])?;
        return Ok(tensor::expect(&made)?.clone());
    }
    let method = object.attr(name!("__dlpack__"))?;
    let mut options = vec![(name!("max_version"), Obj::tuple([Obj::int(1), Obj::int(0)])?)];
    if let Some(copy) = copy {
        options.push((name!("copy"), Obj::bool(copy)));
    }
    if let Some(device) = device {
        let Some(DlDevice { device_type, device_id }) = device_code(device) else {
            return Err(buffer_error(format!("Cannot pack tensors on {device}")));
        };
        let [kind, id] = [device_type, device_id].map(|number| Obj::int(i64::from(number)));
        options.push((name!("dl_device"), Obj::tuple([kind, id])?));
    }
    #[cfg(feature = "cuda")]
    if let Some(index) = cuda_index(object)? {
        let stream = crate::cuda::exchange::stream_for_producer(index)?;
        options.push((name!("stream"), stream));
    }
    let given: Vec<_> = options.iter().map(|(name, value)| (*name, value)).collect();
    let capsule = method.call_with(&[], &given).or_else(|raised| {
        // Libraries from before version 1 of DLPack do not know the arguments.
        // SAFETY: reads a static of the interpreter.
        if raised.matches(unsafe { ffi::PyExc_TypeError }) {
            raised.clear();
            return method.call(&[]);
        }
        Err(raised)
    })?;
    let (made, is_copy) = import_capsule(&capsule)?;
    if copy == Some(true) && !is_copy {
        let format = None::<corten_core::MemoryFormat>;
        return Ok(crate::functions::op1!("aten::clone", &made, format)?);
    }
    Ok(made)
}

/// The index of the GPU that a producer's memory is on.
#[cfg(feature = "cuda")]
fn cuda_index(object: &Obj) -> Py<Option<i8>> {
    let Some(method) = object.attr_opt(name!("__dlpack_device__"))? else { return Ok(None) };
    let answer = method.call(&[])?.items()?;
    let [kind, index] = answer.as_slice() else { return Ok(None) };
    let is_cuda = kind.to_i64()? == 2;
    Ok(if is_cuda { i8::try_from(index.to_i64()?).ok() } else { None })
}

/// Whether the object is a capsule, which [`import_capsule`] takes.
pub(crate) fn is_capsule(object: &Obj) -> bool {
    // SAFETY: the object is live.
    unsafe { ffi::PyCapsule_CheckExact(object.as_ptr()) != 0 }
}

/// Whether the object is a number or a sequence of Python, which holds no memory of another library:
/// an attribute that is looked for and not there costs half of a small call.
pub(crate) fn is_dense_data(object: &Obj) -> bool {
    object.is_list() || object.is_tuple() || object.is_str() || number_kind(object).is_some()
}

/// Whether the object lends its memory by `__dlpack__`. Numbers and sequences of Python do not.
pub(crate) fn is_exporter(object: &Obj) -> Py<bool> {
    if is_dense_data(object) {
        return Ok(false);
    }
    Ok(object.attr_opt(name!("__dlpack__"))?.is_some() || has_cuda_interface(object)?)
}

/// Whether the object describes memory of a GPU by `__cuda_array_interface__`.
fn has_cuda_interface(object: &Obj) -> Py<bool> {
    Ok(object.attr_opt(name!("__cuda_array_interface__"))?.is_some())
}

/// A tensor over the memory a capsule describes, and whether its library says that it is a copy; the
/// capsule is used up, unless there is an error.
pub(crate) fn import_capsule(capsule: &Obj) -> Py<(Tensor, bool)> {
    let is_named = |name: &CStr| {
        // SAFETY: the object is live and the name a C string.
        unsafe { ffi::PyCapsule_IsValid(capsule.as_ptr(), name.as_ptr()) != 0 }
    };
    let content = |name: &CStr| {
        // SAFETY: as above.
        unsafe { ffi::PyCapsule_GetPointer(capsule.as_ptr(), name.as_ptr()) }
    };
    // Once a capsule is renamed, what it holds belongs to whoever did that.
    let rename = |name: &'static CStr| {
        // SAFETY: as above; the name lives as long as the program.
        crate::py::obj::check(unsafe { ffi::PyCapsule_SetName(capsule.as_ptr(), name.as_ptr()) })
    };
    if is_named(VERSIONED) {
        let managed = content(VERSIONED).cast::<ManagedVersioned>();
        // SAFETY: the capsule's name says which structure it holds.
        let managed_ref = unsafe { &*managed };
        if managed_ref.major > 1 {
            let (major, minor) = (managed_ref.major, managed_ref.minor);
            return Err(buffer_error(format!("unsupported DLPack version {major}.{minor}")));
        }
        // SAFETY: a structure of this version has a tensor, which stays while the capsule does.
        let found = unsafe { Described::check(&managed_ref.tensor)? };
        let flags = managed_ref.flags;
        rename(VERSIONED_USED)?;
        let made = found.adopt(Foreign::Versioned(managed), flags & READ_ONLY != 0)?;
        return Ok((made, flags & IS_COPIED != 0));
    }
    if is_named(LEGACY) {
        let managed = content(LEGACY).cast::<Managed>();
        // SAFETY: the capsule's name says which structure it holds, and that it has a tensor.
        let found = unsafe { Described::check(&(*managed).tensor)? };
        rename(LEGACY_USED)?;
        return Ok((found.adopt(Foreign::Legacy(managed), false)?, false));
    }
    Err(runtime_error(
        "from_dlpack received an invalid capsule. Note that DLTensor capsules can be consumed only \
         once, so you might have already constructed a tensor from it once.",
    ))
}

/// What a foreign structure says, found to be sound.
struct Described {
    data: *mut u8,
    device: Device,
    dtype: DType,
    geometry: ForeignGeometry,
}

impl Described {
    /// # Safety
    /// The lists of the tensor have as many numbers as it has dimensions, if that many are allowed.
    unsafe fn check(tensor: &DlTensor) -> Py<Self> {
        let device = device_of(tensor.device)?;
        let dtype = dtype_of(tensor.dtype)?;
        let rank = match usize::try_from(tensor.ndim) {
            Ok(rank) if rank <= MAX_FOREIGN_DIMS => rank,
            _ => {
                return Err(buffer_error(format!(
                    "a DLPack tensor cannot have {} dimensions, of at most {MAX_FOREIGN_DIMS}",
                    tensor.ndim
                )));
            }
        };
        if tensor.shape.is_null() && rank > 0 {
            return Err(buffer_error("a DLPack tensor with dimensions has no shape"));
        }
        let list = |numbers: *mut i64| -> Dims {
            // SAFETY: the list has `rank` numbers, which may lie anywhere.
            (0..rank).map(|place| unsafe { numbers.add(place).read_unaligned() }).collect()
        };
        let sizes = list(tensor.shape);
        let strides = (!tensor.strides.is_null()).then(|| list(tensor.strides));
        let memory = ForeignMemory {
            address: tensor.data.addr(),
            byte_offset: tensor.byte_offset,
            sizes: &sizes,
            strides: match &strides {
                Some(strides) => ForeignStrides::Elements(strides),
                None => ForeignStrides::Contiguous,
            },
            itemsize: dtype.itemsize(),
            available: None,
        };
        let geometry = memory.check().map_err(|error| memory.explain(error))?;
        Ok(Self { data: tensor.data.cast(), device, dtype, geometry })
    }

    fn adopt(self, foreign: Foreign, read_only: bool) -> Py<Tensor> {
        let (owner, device) = (Box::new(foreign), self.device);
        tensor::over_foreign_on(device, owner, self.data, &self.geometry, self.dtype, read_only)
    }
}

/// The device of foreign memory.
fn device_of(found: DlDevice) -> Py<Device> {
    match found.device_type {
        1 => Ok(Device::CPU),
        2 => {
            check_cuda()?;
            let index = i8::try_from(found.device_id).ok().filter(|&index| index >= 0);
            let name = || buffer_error(format!("there is no CUDA device {}", found.device_id));
            Ok(Device::cuda(index.ok_or_else(name)?))
        }
        other => Err(buffer_error(format!("Unsupported device_type: {other}"))),
    }
}

/// That there are GPUs: an allocator for them, and a driver.
pub(crate) fn check_cuda() -> Py<()> {
    corten_core::get_allocator(DeviceType::Cuda)?;
    #[cfg(feature = "cuda")]
    corten::cuda::check_driver()?;
    Ok(())
}

fn dtype_of(described: DlDataType) -> Py<DType> {
    const NAMES: [&str; 7] =
        ["kInt", "kUInt", "kFloat", "kOpaqueHandle", "kBfloat", "kComplex", "kBool"];
    let DlDataType { code, bits, lanes } = described;
    if lanes != 1 {
        return Err(buffer_error(format!("lanes != 1 are not supported for dtype code {code}")));
    }
    let mut alike = DType::ALL.iter().filter(|dtype| dtype.dlpack_code() == Some(code));
    if let Some(&dtype) = alike.clone().find(|dtype| 8 * dtype.itemsize() == usize::from(bits)) {
        return Ok(dtype);
    }
    Err(match (alike.next().is_some(), NAMES.get(usize::from(code))) {
        (true, Some(name)) => buffer_error(format!("Unsupported {name} bits {bits}")),
        (true, None) => buffer_error(format!("Unsupported bits {bits} of code {code}")),
        _ => buffer_error(format!("Unsupported code {code}")),
    })
}

/// `from_dlpack(ext_tensor, *, device=None, copy=None)`.
fn from_dlpack(_module: &Obj, args: Args<'_>) -> Py<Obj> {
    let parser = parser!("from_dlpack(any ext_tensor, *, Device? device=None, bool? copy=None)");
    let bound = parser.parse(None, args)?;
    let source = bound.object(0)?;
    let (device, copy) = (bound.device_opt(1)?, bound.bool_opt(2)?);
    let has_method = source.attr_opt(name!("__dlpack__"))?.is_some();
    if !has_method {
        if device.is_some() || copy.is_some() {
            return Err(assertion_error(
                "device and copy kwargs not supported when ext_tensor is already a DLPack capsule.",
            ));
        }
        return tensor::wrap(&import_capsule(source)?.0);
    }
    if device.is_some_and(Device::is_cuda) {
        check_cuda()?;
    }
    tensor::wrap(&import_with(source, device, copy)?)
}

/// The functions of the module.
pub(crate) fn functions() -> Vec<ffi::PyMethodDef> {
    vec![
        method!("_from_dlpack", |_m: &Obj, args: Args<'_>| {
            let [capsule] = args.positional else { return Err(type_error("one capsule expected")) };
            tensor::wrap(&import_capsule(capsule)?.0)
        }),
        method!("to_dlpack", |_m: &Obj, args: Args<'_>| {
            let bound = parser!("to_dlpack(Tensor tensor)").parse(None, args)?;
            let tensor = bound.tensor(0)?;
            check_exportable(&tensor)?;
            legacy_capsule(&tensor)
        }),
        method!("from_dlpack", from_dlpack),
    ]
}

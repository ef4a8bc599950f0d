//! DLPack: tensors to and from other libraries without copies, in the legacy and the versioned
//! form.

use crate::args::{number_kind, parser};
use crate::py::errors::{Raised, buffer_error, runtime_error, type_error};
use crate::py::{Args, Obj, Py, ffi, method, name};
use crate::tensor;
use corten_core::{DType, Device, DeviceType, Dims};
use corten_ops::Tensor;
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

/// What an exported structure keeps alive: the tensor and its geometry.
struct Context {
    _tensor: Tensor,
    sizes: Vec<i64>,
    strides: Vec<i64>,
}

const DTYPES: [(DType, u8, u8); 21] = [
    (DType::Int8, 0, 8),
    (DType::Int16, 0, 16),
    (DType::Int32, 0, 32),
    (DType::Int64, 0, 64),
    (DType::UInt8, 1, 8),
    (DType::UInt16, 1, 16),
    (DType::UInt32, 1, 32),
    (DType::UInt64, 1, 64),
    (DType::Float16, 2, 16),
    (DType::Float32, 2, 32),
    (DType::Float64, 2, 64),
    (DType::BFloat16, 4, 16),
    (DType::Complex32, 5, 32),
    (DType::Complex64, 5, 64),
    (DType::Complex128, 5, 128),
    (DType::Bool, 6, 8),
    (DType::Float8E4m3fn, 10, 8),
    (DType::Float8E4m3fnuz, 11, 8),
    (DType::Float8E5m2, 12, 8),
    (DType::Float8E5m2fnuz, 13, 8),
    (DType::Float8E8m0fnu, 14, 8),
];

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
    if let Some(wanted) = bound.get(2) {
        let own = device_code(tensor.device()).ok_or_else(|| value_of(tensor))?;
        let items = wanted.items()?;
        let [kind, _] = items.as_slice() else {
            return Err(type_error("dl_device must be a pair of numbers"));
        };
        if kind.to_i64()? != i64::from(own.device_type) {
            return Err(buffer_error(format!(
                "unsupported device for DLPack export: cannot move from {}",
                tensor.device()
            )));
        }
    }
    let copied = bound.bool_opt(3)? == Some(true);
    let shared = if copied {
        crate::functions::op1!("aten::clone", tensor, None::<corten_core::MemoryFormat>)?
    } else {
        tensor.clone()
    };
    let versioned = match bound.get(1) {
        Some(version) => version.items()?.first().is_some_and(|major| {
            major.to_i64().map_err(Raised::clear).is_ok_and(|major| major >= 1)
        }),
        None => false,
    };
    if versioned { versioned_capsule(shared, copied) } else { legacy_capsule(shared) }
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
    if tensor.layout() != corten_core::Layout::Strided {
        return Err(buffer_error("Can't export tensors with layout other than torch.strided"));
    }
    Ok(())
}

fn describe(tensor: &Tensor, context: &mut Context) -> Py<DlTensor> {
    let dtype = tensor.dtype();
    let Some(&(_, code, bits)) = DTYPES.iter().find(|(known, _, _)| *known == dtype) else {
        return Err(buffer_error(format!("{} type is not supported by dlpack", dtype.type_name())));
    };
    let Some(device) = device_code(tensor.device()) else {
        return Err(buffer_error(format!("Cannot pack tensors on {}", tensor.device())));
    };
    Ok(DlTensor {
        data: crate::tensor::data_within(tensor)?.cast(),
        device,
        ndim: context.sizes.len() as i32,
        dtype: DlDataType { code, bits, lanes: 1 },
        shape: context.sizes.as_mut_ptr(),
        strides: context.strides.as_mut_ptr(),
        byte_offset: 0,
    })
}

fn context_of(tensor: &Tensor) -> Box<Context> {
    let sizes = tensor.sizes().to_vec();
    // The stride of a dimension of size 1 means nothing; 1 is what consumers expect.
    let strides = tensor
        .strides()
        .iter()
        .zip(&sizes)
        .map(|(&stride, &size)| if size < 2 { 1 } else { stride })
        .collect();
    Box::new(Context { _tensor: tensor.clone(), sizes, strides })
}

fn legacy_capsule(tensor: Tensor) -> Py<Obj> {
    let mut context = context_of(&tensor);
    let described = describe(&tensor, &mut context)?;
    let managed = Box::new(Managed {
        tensor: described,
        context: Box::into_raw(context).cast(),
        deleter: Some(delete_legacy),
    });
    capsule(Box::into_raw(managed).cast(), LEGACY, drop_legacy)
}

fn versioned_capsule(tensor: Tensor, copied: bool) -> Py<Obj> {
    let mut context = context_of(&tensor);
    let described = describe(&tensor, &mut context)?;
    let managed = Box::new(ManagedVersioned {
        major: 1,
        minor: 3,
        context: Box::into_raw(context).cast(),
        deleter: Some(delete_versioned),
        flags: if copied { IS_COPIED } else { 0 },
        tensor: described,
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
    let method = object.attr(name!("__dlpack__"))?;
    let version = Obj::tuple([Obj::int(1), Obj::int(0)])?;
    let capsule = method.call_with(&[], &[(name!("max_version"), &version)]).or_else(|raised| {
        // SAFETY: reads a static of the interpreter.
        if raised.matches(unsafe { ffi::PyExc_TypeError }) {
            raised.clear();
            return method.call(&[]);
        }
        Err(raised)
    })?;
    import_capsule(&capsule)
}

/// Whether the object is a capsule, which [`import_capsule`] takes.
pub(crate) fn is_capsule(object: &Obj) -> bool {
    // SAFETY: the object is live.
    unsafe { ffi::PyCapsule_CheckExact(object.as_ptr()) != 0 }
}

/// Whether the object lends its memory by `__dlpack__`. Numbers and sequences of Python do not.
pub(crate) fn is_exporter(object: &Obj) -> Py<bool> {
    if object.is_list() || object.is_tuple() || object.is_str() || number_kind(object).is_some() {
        return Ok(false);
    }
    Ok(object.attr_opt(name!("__dlpack__"))?.is_some())
}

/// A tensor over the memory a capsule describes; the capsule is used up.
pub(crate) fn import_capsule(capsule: &Obj) -> Py<Tensor> {
    // SAFETY: the capsule's name says which structure it holds; renaming it takes it over.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule.as_ptr(), VERSIONED.as_ptr()) != 0 {
            let managed = ffi::PyCapsule_GetPointer(capsule.as_ptr(), VERSIONED.as_ptr())
                .cast::<ManagedVersioned>();
            if (*managed).major > 1 {
                return Err(buffer_error(format!(
                    "unsupported DLPack version {}.{}",
                    (*managed).major,
                    (*managed).minor
                )));
            }
            crate::py::obj::check(ffi::PyCapsule_SetName(
                capsule.as_ptr(),
                VERSIONED_USED.as_ptr(),
            ))?;
            let _read_only = (*managed).flags & READ_ONLY;
            return adopt(&(*managed).tensor, Foreign::Versioned(managed));
        }
        if ffi::PyCapsule_IsValid(capsule.as_ptr(), LEGACY.as_ptr()) != 0 {
            let managed =
                ffi::PyCapsule_GetPointer(capsule.as_ptr(), LEGACY.as_ptr()).cast::<Managed>();
            crate::py::obj::check(ffi::PyCapsule_SetName(capsule.as_ptr(), LEGACY_USED.as_ptr()))?;
            return adopt(&(*managed).tensor, Foreign::Legacy(managed));
        }
    }
    Err(runtime_error(
        "from_dlpack received an invalid capsule. Note that DLTensor capsules can be consumed only \
         once, so you might have already constructed a tensor from it once.",
    ))
}

/// # Safety
/// `described` belongs to `foreign` and is valid.
unsafe fn adopt(described: &DlTensor, foreign: Foreign) -> Py<Tensor> {
    if described.device.device_type != 1 {
        return Err(buffer_error(format!(
            "DLPack device type {} is not supported",
            described.device.device_type
        )));
    }
    let DlDataType { code, bits, lanes } = described.dtype;
    let found = DTYPES.iter().find(|&&(_, c, b)| c == code && b == bits && lanes == 1);
    let Some(&(dtype, ..)) = found else {
        return Err(buffer_error(format!("Unsupported kBits {bits} of type code {code}")));
    };
    let rank = described.ndim as usize;
    let list = |pointer: *mut i64| -> Dims {
        if rank == 0 {
            Dims::new()
        } else {
            // SAFETY: both arrays have `ndim` entries.
            unsafe { std::slice::from_raw_parts(pointer, rank) }.into()
        }
    };
    let sizes = list(described.shape);
    let strides = if described.strides.is_null() {
        corten_core::geometry::contiguous_strides(&sizes)?
    } else {
        list(described.strides)
    };
    let reach: i64 = sizes.iter().zip(&strides).map(|(&size, &stride)| (size - 1) * stride).sum();
    let nbytes = if sizes.contains(&0) { 0 } else { (reach + 1) as usize * dtype.itemsize() };
    let data = described.data.cast::<u8>().wrapping_add(described.byte_offset as usize);
    tensor::from_owner(Box::new(foreign), data, nbytes, dtype, Device::CPU, &sizes, &strides)
}

/// The functions of the module.
pub(crate) fn functions() -> Vec<ffi::PyMethodDef> {
    vec![
        method!("_from_dlpack", |_m: &Obj, args: Args<'_>| {
            let [capsule] = args.positional else { return Err(type_error("one capsule expected")) };
            tensor::wrap(&import_capsule(capsule)?)
        }),
        method!("to_dlpack", |_m: &Obj, args: Args<'_>| {
            let bound = parser!("to_dlpack(Tensor tensor)").parse(None, args)?;
            let tensor = bound.tensor(0)?;
            check_exportable(&tensor)?;
            legacy_capsule(tensor)
        }),
        method!("from_dlpack", |_m: &Obj, args: Args<'_>| {
            let parser =
                parser!("from_dlpack(any ext_tensor, *, Device? device=None, bool? copy=None)");
            let bound = parser.parse(None, args)?;
            let source = bound.object(0)?;
            // SAFETY: the object is live.
            let made = if unsafe { ffi::PyCapsule_IsValid(source.as_ptr(), std::ptr::null()) } != 0
                || source.type_name() == "PyCapsule"
            {
                import_capsule(source)?
            } else {
                import(source)?
            };
            if bound.bool_opt(2)? == Some(true) {
                let copy = crate::functions::op1!(
                    "aten::clone",
                    &made,
                    None::<corten_core::MemoryFormat>
                )?;
                return tensor::wrap(&copy);
            }
            tensor::wrap(&made)
        }),
    ]
}

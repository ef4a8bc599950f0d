//! `device` objects.

use crate::args::parser;
use crate::py::call::OwnedArgs;
use crate::py::class::{Class, TypeBuilder, instance, this, value};
use crate::py::errors::{runtime_error, type_error};
use crate::py::{Args, Obj, Py, TypeCell, ffi, getter, method, slot};
use corten_core::{Device, DeviceType};
use std::ffi::{CStr, c_int};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering};

static TYPE: TypeCell = TypeCell::new();
static CPU: AtomicPtr<ffi::PyObject> = AtomicPtr::new(std::ptr::null_mut());

pub(crate) struct PyDevice(Device);

impl Class for PyDevice {
    const NAME: &'static CStr = c"corten.device";

    fn cell() -> &'static TypeCell {
        &TYPE
    }

    fn describe(builder: TypeBuilder) -> TypeBuilder {
        builder
            .doc(c"device(type, index=None)\n--\n\nWhere a tensor's elements are.")
            .slot(ffi::Py_tp_new, slot!(call new))
            .slot(ffi::Py_tp_call, slot!(call decorate))
            .slot(ffi::Py_tp_repr, slot!(unary repr))
            .slot(ffi::Py_tp_str, slot!(unary to_str))
            .slot(ffi::Py_tp_hash, slot!(length hash))
            .slot(ffi::Py_tp_richcompare, slot!(compare compare))
            .getset([
                getter!("type", |s: &Obj| Obj::str_from(shown(get_this(s)))),
                getter!("index", index),
            ])
            .methods([
                method!("__reduce__", reduce),
                method!("__enter__", enter),
                method!("__exit__", exit),
            ])
    }
}

fn get_this(object: &Obj) -> Device {
    this::<PyDevice>(object).0
}

/// What programs call the device that lives outside this source tree.
static RENAMED: OnceLock<String> = OnceLock::new();

fn renamed() -> Option<&'static str> {
    RENAMED.get().map(String::as_str)
}

/// The type of a device, as it is shown.
fn shown(device: Device) -> &'static str {
    match renamed() {
        Some(name) if device.device_type == DeviceType::PrivateUse1 => name,
        _ => device.device_type.name(),
    }
}

/// A device from its text.
fn parse(text: &str) -> Py<Device> {
    let (kind, index) = text.split_once(':').map_or((text, None), |(kind, at)| (kind, Some(at)));
    if renamed() != Some(kind) {
        return Ok(text.parse::<Device>()?);
    }
    let kind = DeviceType::PrivateUse1.name();
    let text = index.map_or_else(|| kind.to_owned(), |index| format!("{kind}:{index}"));
    Ok(text.parse::<Device>()?)
}

/// `_rename_privateuse1_backend(name)`: what the device from outside is called from now on.
pub(crate) fn rename(_module: &Obj, args: Args<'_>) -> Py<Obj> {
    let bound = parser!("_rename_privateuse1_backend(str name)").parse(None, args)?;
    let name = RENAMED.get_or_init(|| bound.str(0).unwrap_or_default().to_owned());
    if name != bound.str(0)? {
        return Err(runtime_error(format!(
            "torch.register_privateuse1_backend() has already been set! Current backend: {name}"
        )));
    }
    Ok(Obj::none())
}

/// `_get_privateuse1_backend_name()`: what the device from outside is called.
pub(crate) fn private_name(_module: &Obj, _args: Args<'_>) -> Py<Obj> {
    Obj::str_from(renamed().unwrap_or(DeviceType::PrivateUse1.name()))
}

fn new(_class: &Obj, args: &Obj, kwargs: Option<&Obj>) -> Py<Obj> {
    let owned = OwnedArgs::new(args, kwargs)?;
    let parser = parser!("device(Device device)", "device(str type, int index=-1)");
    let bound = parser.parse(None, owned.as_args())?;
    if bound.index == 0 {
        return object(from_object(bound.object(0)?)?);
    }
    let name = bound.str(0)?;
    let index = bound.int_opt(1)?;
    if name.contains(':') && index.is_some() {
        return Err(runtime_error(format!(
            "type (string) must not include an index because index was passed explicitly: {name}"
        )));
    }
    let mut device = parse(name)?;
    if let Some(index) = index {
        if index < -1 || (index < 0 && bound.has(1)) {
            return Err(runtime_error("Device index must not be negative"));
        }
        device.index = i8::try_from(index).unwrap_or(i8::MAX);
    }
    object(device)
}

fn repr(this: &Obj) -> Py<Obj> {
    let device = get_this(this);
    let index =
        if device.has_index() { format!(", index={}", device.index) } else { String::new() };
    Obj::str_from(&format!("device(type='{}'{index})", shown(device)))
}

fn to_str(this: &Obj) -> Py<Obj> {
    let device = get_this(this);
    match renamed() {
        Some(name) if device.device_type == DeviceType::PrivateUse1 => {
            let index =
                if device.has_index() { format!(":{}", device.index) } else { String::new() };
            Obj::str_from(&format!("{name}{index}"))
        }
        _ => Obj::str_from(&device.to_string()),
    }
}

fn hash(this: &Obj) -> Py<usize> {
    let mut hasher = DefaultHasher::new();
    get_this(this).hash(&mut hasher);
    // A hash of -1 would mean an exception.
    Ok((hasher.finish() >> 1) as usize)
}

fn compare(this: &Obj, other: &Obj, op: c_int) -> Py<Obj> {
    let Some(other) = value::<PyDevice>(other) else { return Ok(Obj::not_implemented()) };
    let same = get_this(this) == other.0;
    match op {
        ffi::Py_EQ => Ok(Obj::bool(same)),
        ffi::Py_NE => Ok(Obj::bool(!same)),
        _ => Err(type_error("comparison not implemented")),
    }
}

fn index(this: &Obj) -> Py<Obj> {
    let device = get_this(this);
    if device.has_index() { Obj::int(i64::from(device.index)) } else { Ok(Obj::none()) }
}

fn reduce(this: &Obj, _args: Args<'_>) -> Py<Obj> {
    let device = get_this(this);
    let mut parts = vec![Obj::str_from(shown(device))?];
    if device.has_index() {
        parts.push(Obj::int(i64::from(device.index))?);
    }
    let parts = Obj::tuple(parts.into_iter().map(Ok))?;
    Obj::tuple([Ok(TYPE.obj()), Ok(parts)])
}

/// `with device:` makes it the default of factory functions; the package keeps the stack.
fn enter(this: &Obj, _args: Args<'_>) -> Py<Obj> {
    let helper = crate::py::convert::import(crate::py::name!("corten.utils._device"))?;
    helper.call_method(crate::py::name!("_enter"), &[this])?;
    Ok(this.clone())
}

fn exit(_this: &Obj, _args: Args<'_>) -> Py<Obj> {
    let helper = crate::py::convert::import(crate::py::name!("corten.utils._device"))?;
    helper.call_method(crate::py::name!("_exit"), &[])?;
    Ok(Obj::none())
}

fn decorate(this: &Obj, args: &Obj, _kwargs: Option<&Obj>) -> Py<Obj> {
    let helper = crate::py::convert::import(crate::py::name!("corten.utils._device"))?;
    let given = args.items()?;
    let [function] = given.as_slice() else {
        return Err(type_error("device() as a decorator takes a function"));
    };
    helper.call_method(crate::py::name!("_decorate"), &[this, function])
}

/// Makes the type.
pub(crate) fn add_to(module: &Obj) -> Py<()> {
    let ty = crate::py::class::make::<PyDevice>()?;
    module.set_attr_str(c"device", &ty)?;
    CPU.store(instance(PyDevice(Device::CPU))?.into_ptr(), Ordering::Relaxed);
    Ok(())
}

/// The object of a device.
pub(crate) fn object(device: Device) -> Py<Obj> {
    if device == Device::CPU {
        // SAFETY: kept for ever.
        return Ok(unsafe { Obj::borrowed(CPU.load(Ordering::Relaxed)) });
    }
    instance(PyDevice(device))
}

/// Whether a device parameter accepts the object.
pub(crate) fn accepts(object: &Obj) -> bool {
    TYPE.is_exact(object)
        || object.is_str()
        || object.is_bytes()
        || (object.is_int() && !object.is_bool())
}

/// The device of an argument: a device, its text, or the index of an accelerator.
pub(crate) fn from_object(object: &Obj) -> Py<Device> {
    if let Some(device) = value::<PyDevice>(object) {
        return Ok(device.0);
    }
    if object.is_str() || object.is_bytes() {
        return parse(crate::args::text_from(object)?);
    }
    if object.is_int() {
        let index = object.to_i64()?;
        if index < 0 {
            return Err(runtime_error("Device index must not be negative"));
        }
        let index = i8::try_from(index).unwrap_or(i8::MAX);
        return Ok(Device::with_index(DeviceType::Cuda, index));
    }
    Err(type_error(format!("expected a torch.device, but got {}", object.type_name())))
}

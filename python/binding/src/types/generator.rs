//! `Generator` objects, and the state of the default one.

use crate::args::parser;
use crate::py::call::OwnedArgs;
use crate::py::class::{Class, TypeBuilder, instance, this, value};
use crate::py::errors::{runtime_error, type_error, value_error};
use crate::py::{Args, Obj, Py, TypeCell, ffi, getter, method, slot};
use crate::tensor;
use corten_core::{
    DEFAULT_SEED, DType, Device, DeviceType, Generator, Scalar, default_cpu_generator,
};
use corten_ops::Tensor;
use std::ffi::CStr;
use std::sync::atomic::{AtomicPtr, Ordering};

static TYPE: TypeCell = TypeCell::new();
static DEFAULT: AtomicPtr<ffi::PyObject> = AtomicPtr::new(std::ptr::null_mut());

struct PyGenerator(Generator);

impl Class for PyGenerator {
    const NAME: &'static CStr = c"corten._C.Generator";

    fn cell() -> &'static TypeCell {
        &TYPE
    }

    fn describe(builder: TypeBuilder) -> TypeBuilder {
        builder
            .doc(c"Generator(device='cpu')\n--\n\nA source of random numbers.")
            .flags(ffi::Py_TPFLAGS_BASETYPE)
            .slot(ffi::Py_tp_new, slot!(call new))
            .getset([
                getter!("device", |s: &Obj| crate::types::device::object(get_this(s).device())),
                getter!("_cdata", |s: &Obj| Obj::int(s.as_ptr() as i64)),
            ])
            .methods([
                method!("manual_seed", manual_seed),
                method!("seed", |s: &Obj, _a: Args<'_>| Obj::uint(get_this(s).seed())),
                method!("initial_seed", |s: &Obj, _a: Args<'_>| Obj::uint(
                    get_this(s).initial_seed()
                )),
                method!("get_offset", |s: &Obj, _a: Args<'_>| Obj::uint(get_this(s).offset()?)),
                method!("set_offset", set_offset),
                method!("get_state", get_state),
                method!("set_state", set_state),
                method!("clone_state", clone_state),
                method!("graphsafe_get_state", clone_state),
                method!("graphsafe_set_state", graphsafe_set_state),
                method!("__reduce__", reduce),
                method!("__setstate__", set_pickled_state),
            ])
    }
}

fn get_this(object: &Obj) -> &Generator {
    &this::<PyGenerator>(object).0
}

fn new(_class: &Obj, args: &Obj, kwargs: Option<&Obj>) -> Py<Obj> {
    let owned = OwnedArgs::new(args, kwargs)?;
    let bound = parser!("Generator(Device device=None)").parse(None, owned.as_args())?;
    let device = bound.device_opt(0)?.unwrap_or(Device::CPU);
    instance(PyGenerator(made(device)?))
}

fn made(device: Device) -> Py<Generator> {
    match device.device_type {
        DeviceType::Cpu => Ok(Generator::cpu(DEFAULT_SEED)),
        #[cfg(feature = "cuda")]
        DeviceType::Cuda => Ok(corten::cuda::new_generator(device.index)?),
        _ => Err(runtime_error(format!("Device type {device} is not supported for Generator"))),
    }
}

fn set_offset(this_: &Obj, args: Args<'_>) -> Py<Obj> {
    let bound = parser!("set_offset(int offset)").parse(None, args)?;
    get_this(this_).set_offset(bound.int(0)? as u64)?;
    Ok(this_.clone())
}

/// A seed: negative ones count from 2^64, as in PyTorch.
pub(crate) fn seed_from(object: &Obj) -> Py<u64> {
    let overflow = || value_error("Overflow when unpacking long long");
    match crate::args::scalar_from(object) {
        Ok(Scalar::Int(seed)) => Ok(seed as u64),
        Ok(Scalar::UInt(seed)) => Ok(seed),
        Ok(Scalar::Bool(seed)) => Ok(u64::from(seed)),
        Ok(Scalar::Float(seed)) => Ok(seed as i64 as u64),
        Ok(Scalar::Complex(_)) => Err(type_error("a seed must be an integer, not complex")),
        Err(raised) => {
            // SAFETY: reads a static of the interpreter.
            if raised.matches(unsafe { ffi::PyExc_OverflowError }) {
                raised.clear();
                return Err(overflow());
            }
            Err(raised)
        }
    }
}

fn manual_seed(this_: &Obj, args: Args<'_>) -> Py<Obj> {
    let bound = parser!("manual_seed(any seed)").parse(None, args)?;
    let seed = bound.object(0)?;
    if !crate::args::is_int(seed, false) {
        return Err(type_error(format!(
            "manual_seed expected a long, but got {}",
            seed.type_name()
        )));
    }
    get_this(this_).manual_seed(seed_from(seed)?);
    Ok(this_.clone())
}

fn get_state(this_: &Obj, _args: Args<'_>) -> Py<Obj> {
    tensor::wrap(&tensor::from_bytes(&get_this(this_).get_state(), DType::UInt8)?)
}

/// The bytes of a state tensor.
fn state_bytes(object: &Obj) -> Py<Vec<u8>> {
    let value: Option<&Tensor> = tensor::get(object);
    match value {
        Some(value) if value.dtype() == DType::UInt8 => tensor::to_bytes(value),
        _ => Err(type_error("RNG state must be a torch.ByteTensor")),
    }
}

fn set_state(this_: &Obj, args: Args<'_>) -> Py<Obj> {
    let bound = parser!("set_state(any new_state)").parse(None, args)?;
    get_this(this_).set_state(&state_bytes(bound.object(0)?)?)?;
    Ok(this_.clone())
}

fn clone_state(this_: &Obj, _args: Args<'_>) -> Py<Obj> {
    instance(PyGenerator(get_this(this_).clone_state()))
}

fn graphsafe_set_state(this_: &Obj, args: Args<'_>) -> Py<Obj> {
    let bound = parser!("graphsafe_set_state(Generator state)").parse(None, args)?;
    get_this(this_).set_state(&from_object(bound.object(0)?)?.get_state())?;
    Ok(this_.clone())
}

/// The type, the device, and the seed, the offset and the state, as PyTorch pickles generators.
fn reduce(this_: &Obj, _args: Args<'_>) -> Py<Obj> {
    let state = get_state(this_, Args { positional: &[], keywords: &[], names: None })?;
    let generator = get_this(this_);
    let seed = Obj::uint(generator.initial_seed())?;
    let device = Obj::tuple([crate::types::device::object(generator.device())]);
    let offset = generator.philox_state().map_or(Ok(Obj::none()), |state| Obj::uint(state.offset));
    let state = Obj::tuple([Ok(seed), offset, Ok(state)]);
    Obj::tuple([Ok(TYPE.obj()), device, state])
}

/// The offset is that of devices which have one.
fn set_pickled_state(this_: &Obj, args: Args<'_>) -> Py<Obj> {
    let bound = parser!("__setstate__(any state)").parse(None, args)?;
    let parts = bound.object(0)?.items()?;
    let Some(state) = parts.get(2) else {
        return Err(value_error("a generator's state has a seed, an offset and a tensor"));
    };
    get_this(this_).set_state(&state_bytes(state)?)?;
    Ok(Obj::none())
}

/// Makes the type and the default generator.
pub(crate) fn add_to(module: &Obj) -> Py<()> {
    module.set_attr_str(c"Generator", &crate::py::class::make::<PyGenerator>()?)?;
    let default = instance(PyGenerator(default_cpu_generator().clone()))?;
    module.set_attr_str(c"default_generator", &default)?;
    DEFAULT.store(default.into_ptr(), Ordering::Relaxed);
    Ok(())
}

/// Whether the object is a generator.
pub(crate) fn is_generator(object: &Obj) -> bool {
    TYPE.is_instance(object)
}

/// The object of a generator; the default one is always the same.
pub(crate) fn object(generator: &Generator) -> Py<Obj> {
    if generator.is_same(default_cpu_generator()) {
        // SAFETY: the object is kept for ever.
        return Ok(unsafe { Obj::borrowed(DEFAULT.load(Ordering::Relaxed)) });
    }
    instance(PyGenerator(generator.clone()))
}

/// The generator of an argument.
pub(crate) fn from_object(object: &Obj) -> Py<Generator> {
    value::<PyGenerator>(object).map(|found| found.0.clone()).ok_or_else(|| {
        type_error(format!("expected a torch.Generator, but got {}", object.type_name()))
    })
}

/// Seeds the default generators of all devices.
fn seed_all(seed: u64) {
    default_cpu_generator().manual_seed(seed);
    #[cfg(feature = "cuda")]
    corten::cuda::manual_seed_all(seed);
}

/// The functions of the module that act on the default generator.
pub(crate) fn functions() -> Vec<ffi::PyMethodDef> {
    fn default() -> Obj {
        // SAFETY: kept for ever.
        unsafe { Obj::borrowed(DEFAULT.load(Ordering::Relaxed)) }
    }
    vec![
        method!("manual_seed", |_m: &Obj, args: Args<'_>| {
            let bound = parser!("manual_seed(any seed)").parse(None, args)?;
            let seed = bound.object(0)?;
            // SAFETY: address of a static of the interpreter.
            let int = unsafe { Obj::borrowed((&raw mut ffi::PyLong_Type).cast()) };
            let seed = if seed.is_int() { seed.clone() } else { int.call(&[seed])? };
            seed_all(seed_from(&seed)?);
            Ok(default())
        }),
        method!("seed", |_m: &Obj, _a: Args<'_>| {
            let seed = default_cpu_generator().seed();
            seed_all(seed);
            Obj::uint(seed)
        }),
        method!("initial_seed", |_m: &Obj, _a: Args<'_>| Obj::uint(
            default_cpu_generator().initial_seed()
        )),
        method!("get_rng_state", |_m: &Obj, args: Args<'_>| get_state(&default(), args)),
        method!("set_rng_state", |_m: &Obj, args: Args<'_>| {
            set_state(&default(), args).map(|_| Obj::none())
        }),
    ]
}

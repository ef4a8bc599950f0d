//! `dtype` objects: one per dtype, compared by identity.

use crate::py::class::{Class, TypeBuilder, instance, this, value};
use crate::py::errors::{runtime_error, type_error};
use crate::py::{Args, Obj, Py, TypeCell, ffi, getter, method, slot};
use corten_core::DType;
use std::ffi::{CStr, CString};
use std::sync::atomic::{AtomicPtr, Ordering};

static TYPE: TypeCell = TypeCell::new();
/// By number; `Undefined` has the last one.
const NUMBERS: usize = DType::Undefined as usize + 1;
static OBJECTS: [AtomicPtr<ffi::PyObject>; NUMBERS] =
    [const { AtomicPtr::new(std::ptr::null_mut()) }; NUMBERS];

struct PyDType(DType);

impl Class for PyDType {
    const NAME: &'static CStr = c"corten.dtype";

    fn cell() -> &'static TypeCell {
        &TYPE
    }

    fn describe(builder: TypeBuilder) -> TypeBuilder {
        builder
            .doc(c"The type of a tensor's elements.")
            .flags(ffi::Py_TPFLAGS_DISALLOW_INSTANTIATION)
            .slot(ffi::Py_tp_repr, slot!(unary repr))
            .getset([
                getter!("is_floating_point", |s: &Obj| Ok(Obj::bool(code(s).is_floating_point()))),
                getter!("is_complex", |s: &Obj| Ok(Obj::bool(code(s).is_complex()))),
                getter!("is_signed", is_signed),
                getter!("itemsize", |s: &Obj| Obj::int(code(s).itemsize() as i64)),
                getter!("_file_name", |s: &Obj| Obj::str_from(code(s).file_name())),
                getter!("abbr", |s: &Obj| Obj::str_from(code(s).abbreviation())),
            ])
            .methods([
                method!("__reduce__", |s: &Obj, _args: Args<'_>| Obj::str_from(code(s).name())),
                method!("to_real", |s: &Obj, _args: Args<'_>| Ok(object(code(s).to_real()))),
                method!("to_complex", to_complex),
            ])
    }
}

fn code(object: &Obj) -> DType {
    this::<PyDType>(object).0
}

fn repr(this: &Obj) -> Py<Obj> {
    Obj::str_from(&format!("torch.{}", code(this).name()))
}

fn is_signed(this: &Obj) -> Py<Obj> {
    signedness(code(this))
}

/// Whether elements have a sign; integers of a quantizer and bits do not tell.
pub(crate) fn signedness(dtype: DType) -> Py<Obj> {
    if dtype.is_quantized() {
        return Err(runtime_error("isSignedType not supported for quantized types"));
    }
    if dtype.is_bits() {
        return Err(runtime_error("Bits types are undefined"));
    }
    Ok(Obj::bool(dtype.is_signed()))
}

fn to_complex(this: &Obj, _args: Args<'_>) -> Py<Obj> {
    let complex = code(this).to_complex();
    if complex == DType::Undefined {
        return Err(runtime_error(format!(
            "Unknown Complex ScalarType for {}",
            code(this).type_name()
        )));
    }
    Ok(object(complex))
}

/// Makes the type and one object per dtype, under its names, in the module.
pub(crate) fn add_to(module: &Obj) -> Py<()> {
    let ty = crate::py::class::make::<PyDType>()?;
    module.set_attr_str(c"dtype", &ty)?;
    for &dtype in DType::ALL {
        let made = instance(PyDType(dtype))?;
        OBJECTS[dtype as usize].store(made.clone().into_ptr(), Ordering::Relaxed);
        for name in [dtype.name(), dtype.alias()] {
            if !name.is_empty() {
                let name = CString::new(name).unwrap_or_default();
                module.set_attr_str(&name, &made)?;
            }
        }
    }
    Ok(())
}

/// The object of a dtype; `None` for the undefined one.
pub(crate) fn object(dtype: DType) -> Obj {
    let made = OBJECTS[dtype as usize].load(Ordering::Relaxed);
    // SAFETY: the objects are kept for ever.
    if made.is_null() { Obj::none() } else { unsafe { Obj::borrowed(made) } }
}

/// The dtype of an object, if it is one.
pub(crate) fn get(object: &Obj) -> Option<DType> {
    value::<PyDType>(object).map(|found| found.0)
}

/// Whether a dtype parameter accepts the object: a dtype or one of Python's number types.
pub(crate) fn accepts(object: &Obj) -> bool {
    TYPE.is_exact(object) || python_type(object).is_some()
}

/// The dtype that one of Python's number types stands for.
fn python_type(object: &Obj) -> Option<DType> {
    let address = object.as_ptr().cast::<ffi::PyTypeObject>();
    let (float, int, bool, complex) = (
        &raw mut ffi::PyFloat_Type,
        &raw mut ffi::PyLong_Type,
        &raw mut ffi::PyBool_Type,
        &raw mut ffi::PyComplex_Type,
    );
    if address == float {
        Some(DType::Float64)
    } else if address == int {
        Some(DType::Int64)
    } else if address == bool {
        Some(DType::Bool)
    } else if address == complex {
        Some(DType::Complex128)
    } else {
        None
    }
}

/// The dtype of an argument.
pub(crate) fn from_object(object: &Obj) -> Py<DType> {
    get(object).or_else(|| python_type(object)).ok_or_else(|| {
        type_error(format!("expected a torch.dtype, but got {}", object.type_name()))
    })
}

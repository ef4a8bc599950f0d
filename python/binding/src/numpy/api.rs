//! NumPy's table of functions and types, and its array structure.

use crate::args::NumberKind;
use crate::py::convert::{import, imported};
use crate::py::{Obj, Py, ffi, name};
use corten_core::DType;
use std::ffi::{c_char, c_int, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

static TABLE: AtomicPtr<*mut c_void> = AtomicPtr::new(std::ptr::null_mut());

/// Places in NumPy's table.
#[derive(Clone, Copy)]
#[repr(usize)]
enum Slot {
    ArrayType = 2,
    BoolScalar = 8,
    GenericScalar = 10,
    IntegerScalar = 12,
    FloatingScalar = 16,
    ComplexScalar = 17,
    New = 93,
    SetBaseObject = 282,
}

/// The head of NumPy's array object.
#[repr(C)]
pub(crate) struct ArrayObject {
    base: ffi::PyObject,
    pub(crate) data: *mut u8,
    pub(crate) nd: c_int,
    pub(crate) dimensions: *const isize,
    pub(crate) strides: *const isize,
    owner: *mut ffi::PyObject,
    pub(crate) descr: *const DescrObject,
    pub(crate) flags: c_int,
}

/// The head of NumPy's dtype object.
#[repr(C)]
pub(crate) struct DescrObject {
    base: ffi::PyObject,
    type_object: *mut ffi::PyTypeObject,
    kind: c_char,
    letter: c_char,
    pub(crate) byteorder: c_char,
    flags: c_char,
    pub(crate) type_num: c_int,
}

/// The array may be written to.
pub(crate) const WRITEABLE: c_int = 0x400;
/// The elements are aligned.
pub(crate) const ALIGNED: c_int = 0x100;

/// NumPy's table if the program has imported NumPy.
fn loaded() -> Option<*mut *mut c_void> {
    let table = TABLE.load(Ordering::Relaxed);
    if !table.is_null() {
        return Some(table);
    }
    match imported(name!("numpy")) {
        Ok(Some(_)) => load().map_err(crate::py::Raised::clear).ok(),
        Ok(None) => None,
        Err(raised) => {
            raised.clear();
            None
        }
    }
}

/// NumPy's table, importing NumPy where needed.
fn load() -> Py<*mut *mut c_void> {
    let table = TABLE.load(Ordering::Relaxed);
    if !table.is_null() {
        return Ok(table);
    }
    let module = import(name!("numpy._core._multiarray_umath")).or_else(|raised| {
        raised.clear();
        import(name!("numpy.core._multiarray_umath"))
    })?;
    let capsule = module.attr(name!("_ARRAY_API"))?;
    // SAFETY: NumPy's capsule has no name and holds its table, which lives as long as the process.
    let table = unsafe { ffi::PyCapsule_GetPointer(capsule.as_ptr(), std::ptr::null()) };
    if table.is_null() {
        return Err(crate::py::Raised::already());
    }
    TABLE.store(table.cast(), Ordering::Relaxed);
    Ok(table.cast())
}

/// An entry of the table.
fn entry(table: *mut *mut c_void, slot: Slot) -> *mut c_void {
    // SAFETY: the table is longer than its highest known place.
    unsafe { *table.add(slot as usize) }
}

fn is_of(object: &Obj, slot: Slot) -> bool {
    loaded().is_some_and(|table| object.is_instance_of(entry(table, slot).cast()))
}

/// Whether the object is an array.
pub(crate) fn is_array(object: &Obj) -> bool {
    is_of(object, Slot::ArrayType)
}

/// Whether the object is an array of rank 0.
pub(crate) fn is_scalar_array(object: &Obj) -> bool {
    array(object).is_some_and(|array| array.nd == 0)
}

/// Whether the object is one of NumPy's scalars.
pub(crate) fn is_scalar(object: &Obj) -> bool {
    is_of(object, Slot::GenericScalar)
}

/// The kind of number of a NumPy scalar.
pub(crate) fn scalar_kind(object: &Obj) -> Option<NumberKind> {
    let table = loaded()?;
    let is = |slot| object.is_instance_of(entry(table, slot).cast());
    if !is(Slot::GenericScalar) {
        None
    } else if is(Slot::FloatingScalar) {
        Some(NumberKind::Float)
    } else if is(Slot::IntegerScalar) {
        Some(NumberKind::Int)
    } else if is(Slot::BoolScalar) {
        Some(NumberKind::Bool)
    } else if is(Slot::ComplexScalar) {
        Some(NumberKind::Complex)
    } else {
        None
    }
}

/// The array structure of an array.
pub(crate) fn array(object: &Obj) -> Option<&ArrayObject> {
    // SAFETY: the type was checked; the head of the structure is public ABI.
    is_array(object).then(|| unsafe { &*object.as_ptr().cast::<ArrayObject>() })
}

type NewArray = unsafe extern "C" fn(
    *mut ffi::PyTypeObject,
    c_int,
    *const isize,
    c_int,
    *const isize,
    *mut c_void,
    c_int,
    c_int,
    *mut ffi::PyObject,
) -> *mut ffi::PyObject;
type SetBase = unsafe extern "C" fn(*mut ffi::PyObject, *mut ffi::PyObject) -> c_int;

/// An array over memory that `owner` keeps alive.
///
/// # Safety
/// `data` with these sizes and byte strides stays within memory that `owner` keeps alive.
pub(crate) unsafe fn new_array(
    type_num: c_int,
    sizes: &[isize],
    strides: &[isize],
    data: *mut u8,
    writeable: bool,
    owner: &Obj,
) -> Py<Obj> {
    let table = load()?;
    let flags = if writeable { ALIGNED | WRITEABLE } else { ALIGNED };
    // SAFETY: the entries have these types by NumPy's ABI; the base object reference is stolen.
    unsafe {
        let make: NewArray = std::mem::transmute(entry(table, Slot::New));
        let array = Obj::owned(make(
            entry(table, Slot::ArrayType).cast(),
            sizes.len() as c_int,
            sizes.as_ptr(),
            type_num,
            strides.as_ptr(),
            data.cast(),
            0,
            flags,
            std::ptr::null_mut(),
        ))?;
        let set_base: SetBase = std::mem::transmute(entry(table, Slot::SetBaseObject));
        crate::py::obj::check(set_base(array.as_ptr(), owner.clone().into_ptr()))?;
        Ok(array)
    }
}

/// NumPy's number of a dtype.
pub(crate) fn type_num(dtype: DType) -> Option<c_int> {
    Some(match dtype {
        DType::Bool => 0,
        DType::Int8 => 1,
        DType::UInt8 => 2,
        DType::Int16 => 3,
        DType::UInt16 => 4,
        DType::Int32 => 5,
        DType::UInt32 => 6,
        DType::Int64 => 7,
        DType::UInt64 => 8,
        DType::Float32 => 11,
        DType::Float64 => 12,
        DType::Complex64 => 14,
        DType::Complex128 => 15,
        DType::Float16 => 23,
        _ => return None,
    })
}

/// The dtype of NumPy's number (on platforms where `long` has 64 bits).
pub(crate) fn dtype(type_num: c_int) -> Option<DType> {
    Some(match type_num {
        0 => DType::Bool,
        1 => DType::Int8,
        2 => DType::UInt8,
        3 => DType::Int16,
        4 => DType::UInt16,
        5 => DType::Int32,
        6 => DType::UInt32,
        7 | 9 => DType::Int64,
        8 | 10 => DType::UInt64,
        11 => DType::Float32,
        12 => DType::Float64,
        14 => DType::Complex64,
        15 => DType::Complex128,
        23 => DType::Float16,
        _ => return None,
    })
}

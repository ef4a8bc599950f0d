//! `layout`, `memory_format` and `qscheme` objects: one per value.

use crate::py::class::{Class, TypeBuilder, instance, this, value};
use crate::py::errors::type_error;
use crate::py::{Args, Obj, Py, TypeCell, ffi, method, slot};
use corten_core::{Layout, MemoryFormat, QScheme};
use std::ffi::{CStr, CString};
use std::sync::atomic::{AtomicPtr, Ordering};

macro_rules! singletons {
    ($class:ident, $value:ty, $name:literal, $type:ident, $doc:literal) => {
        static $type: TypeCell = TypeCell::new();

        struct $class($value);

        impl Class for $class {
            const NAME: &'static CStr = $name;

            fn cell() -> &'static TypeCell {
                &$type
            }

            fn describe(builder: TypeBuilder) -> TypeBuilder {
                builder
                    .doc($doc)
                    .flags(ffi::Py_TPFLAGS_DISALLOW_INSTANTIATION)
                    .slot(
                        ffi::Py_tp_repr,
                        slot!(unary |s: &Obj| {
                            Obj::str_from(&format!("torch.{}", this::<$class>(s).0.name()))
                        }),
                    )
                    .methods([method!("__reduce__", |s: &Obj, _args: Args<'_>| {
                        Obj::str_from(this::<$class>(s).0.name())
                    })])
            }
        }
    };
}

singletons!(PyLayout, Layout, c"corten.layout", LAYOUT, c"How a tensor stores its elements.");
singletons!(
    PyMemoryFormat,
    MemoryFormat,
    c"corten.memory_format",
    MEMORY_FORMAT,
    c"The order of dimensions in memory."
);
singletons!(PyScheme, QScheme, c"corten.qscheme", QSCHEME, c"How a tensor is quantised.");

const LAYOUTS: [Layout; 8] = [
    Layout::Strided,
    Layout::Sparse,
    Layout::SparseCsr,
    Layout::SparseCsc,
    Layout::SparseBsr,
    Layout::SparseBsc,
    Layout::Mkldnn,
    Layout::Jagged,
];
const FORMATS: [MemoryFormat; 4] = [
    MemoryFormat::Contiguous,
    MemoryFormat::Preserve,
    MemoryFormat::ChannelsLast,
    MemoryFormat::ChannelsLast3d,
];
static LAYOUT_OBJECTS: [AtomicPtr<ffi::PyObject>; 8] =
    [const { AtomicPtr::new(std::ptr::null_mut()) }; 8];
static FORMAT_OBJECTS: [AtomicPtr<ffi::PyObject>; 4] =
    [const { AtomicPtr::new(std::ptr::null_mut()) }; 4];
static SCHEME_OBJECTS: [AtomicPtr<ffi::PyObject>; 5] =
    [const { AtomicPtr::new(std::ptr::null_mut()) }; 5];

/// Makes the types and their objects.
pub(crate) fn add_to(module: &Obj) -> Py<()> {
    module.set_attr_str(c"layout", &crate::py::class::make::<PyLayout>()?)?;
    module.set_attr_str(c"memory_format", &crate::py::class::make::<PyMemoryFormat>()?)?;
    module.set_attr_str(c"qscheme", &crate::py::class::make::<PyScheme>()?)?;
    let add =
        |name: &str, made: &Obj| module.set_attr_str(&CString::new(name).unwrap_or_default(), made);
    for (place, layout) in LAYOUT_OBJECTS.iter().zip(LAYOUTS) {
        let made = instance(PyLayout(layout))?;
        add(layout.name(), &made)?;
        place.store(made.into_ptr(), Ordering::Relaxed);
    }
    for (place, format) in FORMAT_OBJECTS.iter().zip(FORMATS) {
        let made = instance(PyMemoryFormat(format))?;
        add(format.name(), &made)?;
        place.store(made.into_ptr(), Ordering::Relaxed);
    }
    for (place, &scheme) in SCHEME_OBJECTS.iter().zip(QScheme::ALL) {
        let made = instance(PyScheme(scheme))?;
        add(scheme.name(), &made)?;
        place.store(made.into_ptr(), Ordering::Relaxed);
    }
    Ok(())
}

/// The object of a layout.
pub(crate) fn layout_object(layout: Layout) -> Obj {
    let index = LAYOUTS.iter().position(|&known| known == layout).unwrap_or(0);
    // SAFETY: the objects are kept for ever.
    unsafe { Obj::borrowed(LAYOUT_OBJECTS[index].load(Ordering::Relaxed)) }
}

/// The object of a memory format.
pub(crate) fn memory_format_object(format: MemoryFormat) -> Obj {
    let index = FORMATS.iter().position(|&known| known == format).unwrap_or(0);
    // SAFETY: the objects are kept for ever.
    unsafe { Obj::borrowed(FORMAT_OBJECTS[index].load(Ordering::Relaxed)) }
}

/// The object of a quantisation scheme.
pub(crate) fn scheme_object(scheme: QScheme) -> Obj {
    // SAFETY: the objects are kept for ever.
    unsafe { Obj::borrowed(SCHEME_OBJECTS[scheme as usize].load(Ordering::Relaxed)) }
}

/// Whether the object is a layout.
pub(crate) fn is_layout(object: &Obj) -> bool {
    LAYOUT.is_exact(object)
}

/// Whether the object is a memory format.
pub(crate) fn is_memory_format(object: &Obj) -> bool {
    MEMORY_FORMAT.is_exact(object)
}

/// The layout of an argument.
pub(crate) fn layout_from(object: &Obj) -> Py<Layout> {
    value::<PyLayout>(object).map(|found| found.0).ok_or_else(|| {
        type_error(format!("expected a torch.layout, but got {}", object.type_name()))
    })
}

/// The memory format of an argument.
pub(crate) fn memory_format_from(object: &Obj) -> Py<MemoryFormat> {
    value::<PyMemoryFormat>(object).map(|found| found.0).ok_or_else(|| {
        type_error(format!("expected a torch.memory_format, but got {}", object.type_name()))
    })
}

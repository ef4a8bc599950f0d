//! Heap types: a builder, and cells that hold one Rust value.

use super::collect::Referents;
use super::errors::Py;
use super::obj::Obj;
use pyo3::ffi;
use std::ffi::{CStr, c_int, c_void};
use std::mem::size_of;
use std::sync::atomic::{AtomicPtr, Ordering};

/// A type that is made once, when the module is initialised.
pub(crate) struct TypeCell(AtomicPtr<ffi::PyTypeObject>);

impl TypeCell {
    /// A place for a type.
    pub(crate) const fn new() -> Self {
        Self(AtomicPtr::new(std::ptr::null_mut()))
    }

    /// The type; null before the module is initialised.
    pub(crate) fn get(&self) -> *mut ffi::PyTypeObject {
        self.0.load(Ordering::Relaxed)
    }

    /// Keeps the type for ever.
    pub(crate) fn set(&self, ty: &Obj) {
        self.0.store(ty.clone().into_ptr().cast(), Ordering::Relaxed);
    }

    /// The type as an object.
    pub(crate) fn obj(&self) -> Obj {
        // SAFETY: types are made before anything can ask for them.
        unsafe { Obj::borrowed(self.get().cast()) }
    }

    /// Whether the object is an instance.
    pub(crate) fn is_instance(&self, object: &Obj) -> bool {
        object.is_instance_of(self.get())
    }

    /// Whether the object's type is this very type.
    pub(crate) fn is_exact(&self, object: &Obj) -> bool {
        object.type_ptr() == self.get()
    }
}

/// Collects what a heap type is made of.
pub(crate) struct TypeBuilder {
    name: &'static CStr,
    size: usize,
    flags: std::ffi::c_ulong,
    slots: Vec<ffi::PyType_Slot>,
    methods: Vec<ffi::PyMethodDef>,
    getset: Vec<ffi::PyGetSetDef>,
    members: Vec<ffi::PyMemberDef>,
    base: Option<Obj>,
}

impl TypeBuilder {
    /// A type of that qualified name and instance size.
    pub(crate) fn new(name: &'static CStr, size: usize) -> Self {
        Self {
            name,
            size,
            flags: ffi::Py_TPFLAGS_DEFAULT,
            slots: Vec::new(),
            methods: Vec::new(),
            getset: Vec::new(),
            members: Vec::new(),
            base: None,
        }
    }

    /// Adds type flags.
    pub(crate) fn flags(mut self, flags: std::ffi::c_ulong) -> Self {
        self.flags |= flags;
        self
    }

    /// Adds a slot.
    pub(crate) fn slot(mut self, slot: c_int, function: *mut c_void) -> Self {
        self.slots.push(ffi::PyType_Slot { slot, pfunc: function });
        self
    }

    /// Adds methods.
    pub(crate) fn methods(mut self, rows: impl IntoIterator<Item = ffi::PyMethodDef>) -> Self {
        self.methods.extend(rows);
        self
    }

    /// Adds attributes.
    pub(crate) fn getset(mut self, rows: impl IntoIterator<Item = ffi::PyGetSetDef>) -> Self {
        self.getset.extend(rows);
        self
    }

    /// Tells CPython where the instance keeps its dictionary or its weak references.
    pub(crate) fn offset(mut self, name: &'static CStr, offset: usize) -> Self {
        self.members.push(ffi::PyMemberDef {
            name: name.as_ptr(),
            type_code: ffi::Py_T_PYSSIZET,
            offset: offset as ffi::Py_ssize_t,
            flags: ffi::Py_READONLY,
            doc: std::ptr::null(),
        });
        self
    }

    /// Derives from another type than `object`.
    pub(crate) fn base(mut self, base: Obj) -> Self {
        self.base = Some(base);
        self
    }

    /// Sets the doc string.
    pub(crate) fn doc(self, text: &'static CStr) -> Self {
        self.slot(ffi::Py_tp_doc, text.as_ptr().cast_mut().cast())
    }

    /// Makes the type. Its tables live as long as the process.
    pub(crate) fn build(mut self) -> Py<Obj> {
        if !self.methods.is_empty() {
            // SAFETY: an all-zero row ends the table.
            self.methods.push(unsafe { std::mem::zeroed() });
            let table = Vec::leak(std::mem::take(&mut self.methods));
            self = self.slot(ffi::Py_tp_methods, table.as_mut_ptr().cast());
        }
        if !self.getset.is_empty() {
            // SAFETY: an all-zero row ends the table.
            self.getset.push(unsafe { std::mem::zeroed() });
            let table = Vec::leak(std::mem::take(&mut self.getset));
            self = self.slot(ffi::Py_tp_getset, table.as_mut_ptr().cast());
        }
        if !self.members.is_empty() {
            // SAFETY: an all-zero row ends the table.
            self.members.push(unsafe { std::mem::zeroed() });
            let table = Vec::leak(std::mem::take(&mut self.members));
            self = self.slot(ffi::Py_tp_members, table.as_mut_ptr().cast());
        }
        self.slots.push(ffi::PyType_Slot { slot: 0, pfunc: std::ptr::null_mut() });
        let mut spec = ffi::PyType_Spec {
            name: self.name.as_ptr(),
            basicsize: self.size as c_int,
            itemsize: 0,
            flags: self.flags as std::ffi::c_uint,
            slots: self.slots.as_mut_ptr(),
        };
        let base = self.base.as_ref().map_or(std::ptr::null_mut(), Obj::as_ptr);
        // SAFETY: the spec is complete; CPython copies it, the tables it points to are leaked.
        unsafe { Obj::owned(ffi::PyType_FromSpecWithBases(&raw mut spec, base)) }
    }
}

/// A Rust value that is a Python object.
pub(crate) trait Class: Sized + 'static {
    /// The qualified name.
    const NAME: &'static CStr;
    /// The place of the type.
    fn cell() -> &'static TypeCell;
    /// Adds slots, methods and attributes.
    fn describe(builder: TypeBuilder) -> TypeBuilder;
    /// Whether values own objects, through which cycles can go.
    const COLLECTED: bool = false;
    /// Shows the garbage collector what the value of `object` owns.
    fn traverse(&self, object: *mut ffi::PyObject, referents: &mut Referents) {
        let _ = (object, referents);
    }
    /// Drops what `traverse` shows.
    fn clear(&self) {}
}

/// The memory of an instance.
#[repr(C)]
struct Instance<T> {
    base: ffi::PyObject,
    value: T,
}

/// Makes the type of a class.
pub(crate) fn make<T: Class>() -> Py<Obj> {
    let mut builder = TypeBuilder::new(T::NAME, size_of::<Instance<T>>())
        .slot(ffi::Py_tp_dealloc, dealloc::<T> as *mut c_void);
    if T::COLLECTED {
        builder = builder
            .flags(ffi::Py_TPFLAGS_HAVE_GC)
            .slot(ffi::Py_tp_traverse, traverse::<T> as *mut c_void)
            .slot(ffi::Py_tp_clear, clear::<T> as *mut c_void);
    }
    let ty = T::describe(builder).build()?;
    T::cell().set(&ty);
    Ok(ty)
}

/// Makes an instance.
pub(crate) fn instance<T: Class>(value: T) -> Py<Obj> {
    instance_of(T::cell().get(), value)
}

/// Makes an instance of a subtype.
pub(crate) fn instance_of<T: Class>(ty: *mut ffi::PyTypeObject, value: T) -> Py<Obj> {
    // SAFETY: `ty` is the type or a subtype, so the value has its place in the instance.
    unsafe {
        let object = Obj::owned(ffi::PyType_GenericAlloc(ty, 0))?;
        (&raw mut (*object.as_ptr().cast::<Instance<T>>()).value).write(value);
        Ok(object)
    }
}

/// The value of an instance; nothing for an object of another type.
pub(crate) fn value<T: Class>(object: &Obj) -> Option<&T> {
    // SAFETY: the type was checked; the value lives as long as the object.
    T::cell()
        .is_instance(object)
        .then(|| unsafe { &(*object.as_ptr().cast::<Instance<T>>()).value })
}

/// The value of `self` in a method of its own class.
pub(crate) fn this<T: Class>(object: &Obj) -> &T {
    // SAFETY: CPython checks the type of `self` before it calls a method, getter or slot.
    unsafe { &(*object.as_ptr().cast::<Instance<T>>()).value }
}

unsafe extern "C" fn dealloc<T: Class>(object: *mut ffi::PyObject) {
    // SAFETY: called once, for an instance whose last reference is gone. A heap type's instance
    // owns a reference to the type.
    unsafe {
        let ty = ffi::Py_TYPE(object);
        if T::COLLECTED {
            ffi::PyObject_GC_UnTrack(object.cast());
        }
        std::ptr::drop_in_place(&raw mut (*object.cast::<Instance<T>>()).value);
        let free: ffi::freefunc = std::mem::transmute(ffi::PyType_GetSlot(ty, ffi::Py_tp_free));
        free(object.cast());
        ffi::Py_DECREF(ty.cast());
    }
}

unsafe extern "C" fn traverse<T: Class>(
    object: *mut ffi::PyObject,
    visit: ffi::visitproc,
    arg: *mut c_void,
) -> c_int {
    // SAFETY: the collector passes a live object, whose value was written right after it was made,
    // and its own callback.
    unsafe {
        let mut referents = Referents::new(visit, arg);
        referents.add(ffi::Py_TYPE(object).cast());
        (*object.cast::<Instance<T>>()).value.traverse(object, &mut referents);
        referents.status()
    }
}

unsafe extern "C" fn clear<T: Class>(object: *mut ffi::PyObject) -> c_int {
    // SAFETY: the collector passes a live object.
    unsafe { (*object.cast::<Instance<T>>()).value.clear() };
    0
}

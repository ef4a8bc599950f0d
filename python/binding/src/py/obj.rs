//! Owned references to Python objects.

use super::errors::{Py, Raised};
use super::gil;
use super::names::Name;
use pyo3::ffi;
use std::ffi::CStr;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;

/// An owned reference to a Python object. It exists only while the interpreter lock is held.
#[repr(transparent)]
pub(crate) struct Obj(NonNull<ffi::PyObject>);

impl Clone for Obj {
    fn clone(&self) -> Self {
        // SAFETY: the pointer is a live object and the lock is held.
        unsafe { ffi::Py_INCREF(self.0.as_ptr()) };
        Self(self.0)
    }
}

impl Drop for Obj {
    fn drop(&mut self) {
        // SAFETY: this reference is ours to give up and the lock is held.
        unsafe { ffi::Py_DECREF(self.0.as_ptr()) };
    }
}

impl Obj {
    /// Takes over a new reference returned by the C API.
    ///
    /// # Safety
    /// `ptr` is null with an exception set, or a reference that the caller owns.
    pub(crate) unsafe fn owned(ptr: *mut ffi::PyObject) -> Py<Self> {
        NonNull::new(ptr).map(Self).ok_or_else(Raised::already)
    }

    /// Takes a new reference to a borrowed object.
    ///
    /// # Safety
    /// `ptr` is a live object.
    pub(crate) unsafe fn borrowed(ptr: *mut ffi::PyObject) -> Self {
        // SAFETY: live by the caller's promise.
        unsafe {
            ffi::Py_INCREF(ptr);
            Self(NonNull::new_unchecked(ptr))
        }
    }

    /// Sees a borrowed pointer as a reference without counting.
    ///
    /// # Safety
    /// `*ptr` is non-null and stays alive as long as the result is used.
    pub(crate) unsafe fn peek(ptr: &*mut ffi::PyObject) -> &Self {
        // SAFETY: `Obj` is a transparent non-null pointer.
        unsafe { &*std::ptr::from_ref(ptr).cast::<Self>() }
    }

    /// Sees an array of borrowed pointers as references without counting.
    ///
    /// # Safety
    /// The array holds `count` live objects for as long as the result is used.
    pub(crate) unsafe fn slice<'a>(ptr: *const *mut ffi::PyObject, count: usize) -> &'a [Self] {
        if count == 0 {
            return &[];
        }
        // SAFETY: `Obj` is a transparent non-null pointer, the rest is promised.
        unsafe { std::slice::from_raw_parts(ptr.cast::<Self>(), count) }
    }

    /// The pointer, still owned by this reference.
    pub(crate) fn as_ptr(&self) -> *mut ffi::PyObject {
        self.0.as_ptr()
    }

    /// Gives the reference away.
    pub(crate) fn into_ptr(self) -> *mut ffi::PyObject {
        ManuallyDrop::new(self).0.as_ptr()
    }

    /// `None`.
    pub(crate) fn none() -> Self {
        // SAFETY: the singleton is always alive.
        unsafe { Self::borrowed(ffi::Py_None()) }
    }

    /// `True` or `False`.
    pub(crate) fn bool(value: bool) -> Self {
        // SAFETY: the singletons are always alive.
        unsafe { Self::borrowed(if value { ffi::Py_True() } else { ffi::Py_False() }) }
    }

    /// `NotImplemented`.
    pub(crate) fn not_implemented() -> Self {
        // SAFETY: the singleton is always alive.
        unsafe { Self::borrowed(ffi::Py_NotImplemented()) }
    }

    /// Whether this is `None`.
    pub(crate) fn is_none(&self) -> bool {
        // SAFETY: only compares addresses.
        self.as_ptr() == unsafe { ffi::Py_None() }
    }

    /// Whether both are the same object.
    pub(crate) fn is(&self, other: &Self) -> bool {
        self.0 == other.0
    }

    /// The object's type, borrowed.
    pub(crate) fn type_ptr(&self) -> *mut ffi::PyTypeObject {
        // SAFETY: a live object has a type.
        unsafe { ffi::Py_TYPE(self.as_ptr()) }
    }

    /// The object's type.
    pub(crate) fn type_obj(&self) -> Self {
        // SAFETY: a type is a live object.
        unsafe { Self::borrowed(self.type_ptr().cast()) }
    }

    /// The type's name as CPython's error messages print it.
    pub(crate) fn type_name(&self) -> String {
        type_name(&self.type_obj())
    }

    /// Whether the object is an instance of the type or of a subtype.
    pub(crate) fn is_instance_of(&self, ty: *mut ffi::PyTypeObject) -> bool {
        // SAFETY: both are live.
        self.type_ptr() == ty || unsafe { ffi::PyType_IsSubtype(self.type_ptr(), ty) } != 0
    }

    /// An attribute by interned name.
    pub(crate) fn attr(&self, name: &Name) -> Py<Self> {
        // SAFETY: both objects are live.
        unsafe { Self::owned(ffi::PyObject_GetAttr(self.as_ptr(), name.as_ptr())) }
    }

    /// An attribute by a name made up at run time.
    pub(crate) fn attr_str(&self, name: &CStr) -> Py<Self> {
        // SAFETY: the object is live, the name is terminated.
        unsafe { Self::owned(ffi::PyObject_GetAttrString(self.as_ptr(), name.as_ptr())) }
    }

    /// An attribute, or nothing when the object lacks it.
    pub(crate) fn attr_opt(&self, name: &Name) -> Py<Option<Self>> {
        match self.attr(name) {
            Ok(value) => Ok(Some(value)),
            Err(raised) => raised.absorb_attribute_error().map(|()| None),
        }
    }

    /// The dictionary of an instance of a class written in Python.
    pub(crate) fn instance_dict(&self) -> Py<Self> {
        // SAFETY: the object is live; one without a dictionary is reported by the C API.
        unsafe { Self::owned(ffi::PyObject_GenericGetDict(self.as_ptr(), std::ptr::null_mut())) }
    }

    /// The attribute as `object.__getattribute__` finds it, else what `fallback` says.
    pub(crate) fn attr_or(
        &self,
        name: &Self,
        fallback: impl FnOnce(&str) -> Py<Option<Self>>,
    ) -> Py<Self> {
        // SAFETY: both are live, the name is a string.
        let found =
            unsafe { Self::owned(ffi::PyObject_GenericGetAttr(self.as_ptr(), name.as_ptr())) };
        let raised = match found {
            Ok(found) => return Ok(found),
            Err(raised) => raised,
        };
        // SAFETY: reads a static of the interpreter.
        if !raised.matches(unsafe { ffi::PyExc_AttributeError }) {
            return Err(raised);
        }
        let Some(error) = raised.take() else { return Err(Raised::already()) };
        match fallback(name.as_str()?)? {
            Some(found) => Ok(found),
            None => Err(Raised::raise(&error)),
        }
    }

    /// Sets an attribute.
    pub(crate) fn set_attr(&self, name: &Name, value: &Self) -> Py<()> {
        // SAFETY: all objects are live.
        check(unsafe { ffi::PyObject_SetAttr(self.as_ptr(), name.as_ptr(), value.as_ptr()) })
    }

    /// Sets an attribute by a name made up at run time.
    pub(crate) fn set_attr_str(&self, name: &CStr, value: &Self) -> Py<()> {
        // SAFETY: all objects are live, the name is terminated.
        check(unsafe { ffi::PyObject_SetAttrString(self.as_ptr(), name.as_ptr(), value.as_ptr()) })
    }

    /// Calls with positional arguments.
    pub(crate) fn call(&self, args: &[&Self]) -> Py<Self> {
        self.call_with(args, &[])
    }

    /// Calls with positional and keyword arguments.
    pub(crate) fn call_with(&self, args: &[&Self], kwargs: &[(&Name, &Self)]) -> Py<Self> {
        let tuple = Self::tuple(args.iter().map(|&arg| Ok(arg.clone())))?;
        let dict = if kwargs.is_empty() { None } else { Some(Self::dict()?) };
        for (name, value) in kwargs {
            if let Some(dict) = &dict {
                dict.dict_set(&name.obj(), value)?;
            }
        }
        self.call_tuple(&tuple, dict.as_ref())
    }

    /// Calls with a tuple and perhaps a dictionary.
    pub(crate) fn call_tuple(&self, args: &Self, kwargs: Option<&Self>) -> Py<Self> {
        let kwargs = kwargs.map_or(std::ptr::null_mut(), Self::as_ptr);
        // SAFETY: all objects are live, `args` is a tuple.
        unsafe { Self::owned(ffi::PyObject_Call(self.as_ptr(), args.as_ptr(), kwargs)) }
    }

    /// Calls with an object before those of a tuple; nothing for a long tuple, or where the
    /// interpreter lacks the way.
    pub(crate) fn call_with_first(&self, first: &Self, rest: &Self) -> Option<Py<Self>> {
        const MOST: usize = 7;
        // SAFETY: a live tuple.
        let count = unsafe { ffi::PyTuple_Size(rest.as_ptr()) } as usize;
        let call = gil::vectorcall().filter(|_| count <= MOST)?;
        let mut args = [std::ptr::null_mut(); 1 + MOST];
        args[0] = first.as_ptr();
        for (index, arg) in args[1..][..count].iter_mut().enumerate() {
            // SAFETY: a live tuple of so many; what it holds stays while it does.
            *arg = unsafe { ffi::PyTuple_GetItem(rest.as_ptr(), index as ffi::Py_ssize_t) };
        }
        // SAFETY: all objects are live for the call; no names are given.
        unsafe {
            let result = call(self.as_ptr(), args.as_ptr(), 1 + count, std::ptr::null_mut());
            Some(Self::owned(result))
        }
    }

    /// Calls a method.
    pub(crate) fn call_method(&self, name: &Name, args: &[&Self]) -> Py<Self> {
        self.attr(name)?.call(args)
    }

    /// `str(self)` or the text that replaces it when that fails.
    pub(crate) fn display(&self) -> String {
        self.str().and_then(|text| Ok(text.as_str()?.to_owned())).unwrap_or_else(|raised| {
            raised.clear();
            "<unprintable object>".to_owned()
        })
    }

    /// `str(self)`.
    pub(crate) fn str(&self) -> Py<Self> {
        // SAFETY: the object is live.
        unsafe { Self::owned(ffi::PyObject_Str(self.as_ptr())) }
    }

    /// `repr(self)`.
    pub(crate) fn repr(&self) -> Py<Self> {
        // SAFETY: the object is live.
        unsafe { Self::owned(ffi::PyObject_Repr(self.as_ptr())) }
    }

    /// Truth of the object.
    pub(crate) fn is_true(&self) -> Py<bool> {
        // SAFETY: the object is live.
        let truth = unsafe { ffi::PyObject_IsTrue(self.as_ptr()) };
        if truth < 0 { Err(Raised::already()) } else { Ok(truth != 0) }
    }

    /// Whether the object can be called.
    pub(crate) fn is_callable(&self) -> bool {
        // SAFETY: the object is live.
        unsafe { ffi::PyCallable_Check(self.as_ptr()) != 0 }
    }

    /// An iterator over the object.
    pub(crate) fn iter(&self) -> Py<Iter> {
        // SAFETY: the object is live.
        unsafe { Self::owned(ffi::PyObject_GetIter(self.as_ptr())) }.map(Iter)
    }
}

/// Iteration over any iterable.
pub(crate) struct Iter(Obj);

impl Iterator for Iter {
    type Item = Py<Obj>;

    fn next(&mut self) -> Option<Py<Obj>> {
        // SAFETY: the iterator is live.
        let item = unsafe { ffi::PyIter_Next(self.0.as_ptr()) };
        if !item.is_null() {
            // SAFETY: a new reference.
            return Some(unsafe { Obj::owned(item) });
        }
        Raised::pending().map(Err)
    }
}

/// Turns the C API's `-1` into an error.
pub(crate) fn check(status: std::ffi::c_int) -> Py<()> {
    if status < 0 { Err(Raised::already()) } else { Ok(()) }
}

/// The name of a type as CPython's `tp_name` shows it: with the module for native classes only.
pub(crate) fn type_name(ty: &Obj) -> String {
    let text = |name: &Name| -> Option<String> {
        match ty.attr(name) {
            Ok(value) => value.as_str().map(str::to_owned).map_err(Raised::clear).ok(),
            Err(raised) => {
                raised.clear();
                None
            }
        }
    };
    let short = text(super::name!("__name__")).unwrap_or_default();
    // SAFETY: reads the flags of a live type.
    let flags = unsafe { ffi::PyType_GetFlags(ty.as_ptr().cast()) };
    let native = flags & ffi::Py_TPFLAGS_HEAPTYPE == 0;
    match text(super::name!("__module__")) {
        Some(module) if native && module != "builtins" => format!("{module}.{short}"),
        Some(module) if short != "Tensor" && is_ours(&module, &short) => format!("torch.{short}"),
        _ => short,
    }
}

/// Whether a heap type is one of the classes whose messages PyTorch prints with its own name.
fn is_ours(module: &str, short: &str) -> bool {
    matches!(module, "corten" | "torch")
        && matches!(short, "dtype" | "device" | "layout" | "memory_format" | "Size")
}

//! Attributes of modules without an exception on the way.
//!
//! Note [Attributes of modules]: of a class with `__getattr__`, CPython 3.11 first asks for the
//! attribute in the usual places, which raises and formats an exception, throws that away and calls
//! `__getattr__` through a bound method: ten times the work of finding a parameter. A class whose
//! `__getattr__` is the one of modules therefore finds attributes by [`find`], the same two steps
//! without the exception. The stable ABI sets this slot only when a type is made, and a class
//! statement leaves it to the names in the class, so it is written where a type made for the purpose
//! has its own. Assigning `__getattr__` or `__getattribute__` to a class later makes CPython write
//! the slot anew, for its subclasses too, and all goes the usual way again.

use super::member_named;
use crate::py::call::guard;
use crate::py::class::TypeBuilder;
use crate::py::errors::type_error;
use crate::py::names::Name;
use crate::py::{Args, Obj, Py, TypeCell, ffi, gil, name};
use std::ffi::{c_int, c_void};
use std::mem::size_of;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

/// `_PyObject_GenericGetAttrWithDict`, which is outside the stable ABI: the usual lookup, with
/// nothing instead of an `AttributeError`. Null where the interpreter does not have it.
static USUAL: AtomicPtr<()> = AtomicPtr::new(std::ptr::null_mut());

/// `_PyType_Lookup`, which is outside the stable ABI: what a class and its bases have under a name,
/// borrowed. Null where the interpreter does not have it.
static IN_CLASS: AtomicPtr<()> = AtomicPtr::new(std::ptr::null_mut());

/// The place of `tp_getattro` in a type, in words; zero where it, or the usual lookup, is not known.
static PLACE: AtomicUsize = AtomicUsize::new(0);

/// `_ModuleBase`.
static BASE: TypeCell = TypeCell::new();

type Usual = unsafe extern "C" fn(
    *mut ffi::PyObject,
    *mut ffi::PyObject,
    *mut ffi::PyObject,
    c_int,
) -> *mut ffi::PyObject;

type InClass =
    unsafe extern "C" fn(*mut ffi::PyTypeObject, *mut ffi::PyObject) -> *mut ffi::PyObject;

/// Looks up what the stable ABI lacks.
pub(super) fn init(base: &Obj) -> Py<()> {
    BASE.set(base);
    let usual = gil::symbol(c"_PyObject_GenericGetAttrWithDict");
    let in_class = gil::symbol(c"_PyType_Lookup");
    if !usual.is_null()
        && !in_class.is_null()
        && let Some(place) = place_of_slot()?
    {
        USUAL.store(usual.cast(), Ordering::Relaxed);
        IN_CLASS.store(in_class.cast(), Ordering::Relaxed);
        PLACE.store(place, Ordering::Relaxed);
    }
    Ok(())
}

/// Where a type keeps `tp_getattro`: the only word that is the function it was made with.
fn place_of_slot() -> Py<Option<usize>> {
    let own = find as *mut c_void;
    let probe = TypeBuilder::new(c"corten._C._Probe", 0).slot(ffi::Py_tp_getattro, own).build()?;
    let bytes = probe.type_obj().attr(name!("__basicsize__"))?.to_i64()?;
    let words = bytes as usize / size_of::<usize>();
    let first = probe.as_ptr().cast::<usize>().cast_const();
    // SAFETY: a type is an instance of its type, which tells its size; types are allocated zeroed.
    let word = |place: usize| unsafe { first.add(place).read() };
    let mut places = (0..words).filter(|&place| word(place) == own as usize);
    Ok(places.next().filter(|_| places.next().is_none()))
}

/// `__init_subclass__`: a class of modules was made.
pub(super) fn adopt_new(class: &Obj, args: Args<'_>) -> Py<Obj> {
    if !args.positional.is_empty() {
        return Err(type_error("__init_subclass__() takes no positional arguments"));
    }
    // SAFETY: the type of `super` lives as long as the process.
    let kind = unsafe { Obj::borrowed((&raw mut ffi::PySuper_Type).cast()) };
    let next = kind.call(&[&BASE.obj(), class])?.attr(name!("__init_subclass__"))?;
    next.call_tuple(&Obj::tuple([])?, Some(&args.keyword_dict()?))?;
    adopt(class)?;
    Ok(Obj::none())
}

/// Lets the class find attributes by [`find`] if its `__getattr__` is that of modules.
fn adopt(class: &Obj) -> Py<()> {
    let place = PLACE.load(Ordering::Relaxed);
    if place == 0 {
        return Ok(());
    }
    // SAFETY: the type of objects lives as long as the process.
    let object = unsafe { Obj::borrowed((&raw mut ffi::PyBaseObject_Type).cast()) };
    let same = |name, of: &Obj| -> Py<bool> { Ok(class.attr(name)?.is(&of.attr(name)?)) };
    if same(name!("__getattr__"), &BASE.obj())? && same(name!("__getattribute__"), &object)? {
        // SAFETY: the word is `tp_getattro` in every type of this process, this class is one, and
        // the interpreter lock is held.
        unsafe { class.as_ptr().cast::<*mut c_void>().add(place).write(find as *mut c_void) };
    }
    Ok(())
}

/// What the class of the module has under a name, borrowed; null for nothing.
///
/// # Safety
/// [`IN_CLASS`] was found, `module` is live and `wanted` a live string.
unsafe fn in_class(module: *mut ffi::PyObject, wanted: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: the symbol was looked up under the name of a function of this type; the rest is the
    // caller's promise.
    unsafe {
        let lookup: InClass = std::mem::transmute(IN_CLASS.load(Ordering::Relaxed));
        lookup(ffi::Py_TYPE(module), wanted)
    }
}

/// What `look` says of the method of this name that the class of the module has, if looking it up on
/// the module finds just that, bound: the class finds attributes by [`find`], nothing of the module's
/// own hides it, and calling it with the module before the arguments is calling the bound method.
/// `look` must not run code of others.
pub(super) fn method_of<R>(
    module: &Obj,
    own: &Obj,
    wanted: &Name,
    look: impl FnOnce(&Obj) -> R,
) -> Py<Option<R>> {
    let place = PLACE.load(Ordering::Relaxed);
    // SAFETY: the word is `tp_getattro` in every type of this process, if it was found, and a live
    // object has a type.
    let finds = || unsafe { module.type_ptr().cast::<*mut c_void>().add(place).read() };
    if place == 0 || finds() != find as *mut c_void || own.dict_peek(wanted, |_| ())?.is_some() {
        return Ok(None);
    }
    // SAFETY: the place is known where the symbols are; names are strings.
    let found = unsafe { in_class(module.as_ptr(), wanted.as_ptr()) };
    // SAFETY: the type has what was found, and with it the type of that, while the lock is held.
    let is_method = |found| unsafe {
        ffi::PyType_GetFlags(ffi::Py_TYPE(found)) & ffi::Py_TPFLAGS_METHOD_DESCRIPTOR != 0
    };
    if found.is_null() || !is_method(found) {
        return Ok(None);
    }
    // SAFETY: live, as said.
    Ok(Some(look(unsafe { Obj::peek(&found) })))
}

/// `tp_getattro` of modules.
///
/// What the class does not have is looked for in the module's own dictionary and then among its
/// parameters, buffers and children; whatever it has goes the usual way, which knows about
/// descriptors.
unsafe extern "C" fn find(
    module: *mut ffi::PyObject,
    wanted: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: CPython passes live objects.
    let (seen, name) = unsafe { (Obj::peek(&module), Obj::peek(&wanted)) };
    // SAFETY: no class has this slot unless the symbols were found; the name is a string.
    let usually = !name.is_plain_str() || !unsafe { in_class(module, wanted) }.is_null();
    if usually {
        // SAFETY: the symbol was looked up under the name of a function of this type.
        let found = unsafe {
            let usual: Usual = std::mem::transmute(USUAL.load(Ordering::Relaxed));
            usual(module, wanted, std::ptr::null_mut(), 1)
        };
        // SAFETY: looks at this thread's state.
        if !found.is_null() || !unsafe { ffi::PyErr_Occurred() }.is_null() {
            return found;
        }
    }
    guard(|| {
        let own = seen.instance_dict()?;
        if !usually && let Some(found) = own.dict_get(name)? {
            return Ok(found);
        }
        member_named(seen, &own, name)
    })
}

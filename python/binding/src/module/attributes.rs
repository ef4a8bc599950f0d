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
use crate::py::{Args, Obj, Py, TypeCell, ffi, gil, name};
use std::ffi::{c_int, c_void};
use std::mem::size_of;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

/// `_PyObject_GenericGetAttrWithDict`, which is outside the stable ABI: the usual lookup, with
/// nothing instead of an `AttributeError`. Null where the interpreter does not have it.
static USUAL: AtomicPtr<()> = AtomicPtr::new(std::ptr::null_mut());

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

/// Looks up what the stable ABI lacks.
pub(super) fn init(base: &Obj) -> Py<()> {
    BASE.set(base);
    let usual = gil::symbol(c"_PyObject_GenericGetAttrWithDict");
    if !usual.is_null()
        && let Some(place) = place_of_slot()?
    {
        USUAL.store(usual.cast(), Ordering::Relaxed);
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

/// `tp_getattro` of modules.
unsafe extern "C" fn find(
    module: *mut ffi::PyObject,
    wanted: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: the symbol was looked up under the name of a function of this type; no class has this
    // slot unless it was found. CPython passes live objects.
    let found = unsafe {
        let usual: Usual = std::mem::transmute(USUAL.load(Ordering::Relaxed));
        usual(module, wanted, std::ptr::null_mut(), 1)
    };
    // SAFETY: looks at this thread's state.
    if !found.is_null() || !unsafe { ffi::PyErr_Occurred() }.is_null() {
        return found;
    }
    // SAFETY: CPython passes live objects.
    guard(|| unsafe { member_named(Obj::peek(&module), Obj::peek(&wanted)) })
}

//! The native object behind `Tensor`: its memory, its life, and who it is.
//!
//! Note [Wrapper identity]: a tensor has at most one Python object. The object owns one reference
//! to the tensor; the tensor owns one reference to the object exactly while somebody else owns it
//! too (core keeps that rule in its reference count, and calls the hooks below on the transition).
//! So `x.grad is x.grad`, attributes and subclass survive while only Rust holds the tensor, and an
//! object that nobody but itself keeps alive is ordinary garbage.

use super::freelist;
use crate::py::class::TypeCell;
use crate::py::collect::Referents;
use crate::py::errors::{runtime_error, type_error};
use crate::py::{Args, Obj, Py, ffi, gil, name};
use corten_core::PyHooks;
use corten_ops::Tensor;
use std::ffi::{c_int, c_void};
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicPtr, Ordering};

/// The class `Tensor`.
pub(crate) static TENSOR: TypeCell = TypeCell::new();
/// The class `Parameter`, which Python defines and which overrides nothing.
static PARAMETER: TypeCell = TypeCell::new();
/// The class of tensors in coordinate format, which Python defines.
static SPARSE: TypeCell = TypeCell::new();
/// The function that a class names to switch overrides off.
static DISABLED: AtomicPtr<ffi::PyObject> = AtomicPtr::new(std::ptr::null_mut());

/// The memory of a tensor object.
#[repr(C)]
pub(crate) struct TensorObject {
    base: ffi::PyObject,
    tensor: ManuallyDrop<Tensor>,
    pub(crate) dict: *mut ffi::PyObject,
    pub(crate) weak: *mut ffi::PyObject,
}

fn head(object: &Obj) -> &TensorObject {
    // SAFETY: only called for instances of `Tensor` and its subclasses.
    unsafe { &*object.as_ptr().cast::<TensorObject>() }
}

/// Whether the object is a tensor that certainly overrides nothing.
#[inline]
pub(crate) fn is_dense_cpu(object: &Obj) -> bool {
    let ty = object.type_ptr();
    ty == TENSOR.get() || ty == PARAMETER.get()
}

/// Whether the object is a tensor.
#[inline]
pub(crate) fn is_tensor(object: &Obj) -> bool {
    is_dense_cpu(object) || TENSOR.is_instance(object)
}

/// The tensor of an object, if it is one.
#[inline]
pub(crate) fn get(object: &Obj) -> Option<&Tensor> {
    is_tensor(object).then(|| &*head(object).tensor)
}

/// The tensor of an object that must be one.
pub(crate) fn expect(object: &Obj) -> Py<&Tensor> {
    get(object).ok_or_else(|| type_error(format!("expected Tensor but got {}", object.type_name())))
}

/// The tensor of `self` in a method of the class.
#[inline]
pub(crate) fn this(object: &Obj) -> &Tensor {
    &head(object).tensor
}

/// Whether a tensor of a subclass takes calls over by `__torch_function__`.
pub(crate) fn overrides(object: &Obj) -> bool {
    if !crate::overrides::subclasses_enabled() {
        return false;
    }
    match object.type_obj().attr_opt(name!("__torch_function__")) {
        Ok(Some(function)) => !is_disabled_function(&function),
        Ok(None) => false,
        Err(raised) => {
            raised.clear();
            false
        }
    }
}

/// Whether this is the function that a class names to switch overrides off.
pub(crate) fn is_disabled_function(function: &Obj) -> bool {
    function.as_ptr() == DISABLED.load(Ordering::Relaxed)
}

/// Remembers that function.
pub(crate) fn set_disabled_function(function: &Obj) {
    DISABLED.store(function.clone().into_ptr(), Ordering::Relaxed);
}

/// Remembers the class of parameters.
pub(crate) fn set_parameter_class(class: &Obj) {
    PARAMETER.set(class);
}

/// Says which class tensors in coordinate format have.
pub(crate) fn set_sparse_class(class: &Obj) {
    SPARSE.set(class);
}

/// A new object for a tensor in coordinate format.
#[cold]
fn wrap_sparse(tensor: Tensor) -> Py<Obj> {
    if SPARSE.get().is_null() {
        crate::py::convert::import(name!("corten.sparse"))?;
    }
    let class = if SPARSE.get().is_null() { TENSOR.get() } else { SPARSE.get() };
    wrap_as(class, tensor)
}

/// The Python object of a tensor: the one it has, or a new one. The undefined tensor is `None`.
#[inline]
pub(crate) fn wrap(tensor: &Tensor) -> Py<Obj> {
    if let Some(object) = tensor.pyobject() {
        // SAFETY: `tensor` is a second owner besides the object, so the object is kept alive.
        return Ok(unsafe { Obj::borrowed(object.as_ptr().cast()) });
    }
    wrap_owned(tensor.clone())
}

/// As [`wrap`], taking the handle over.
#[inline]
pub(crate) fn wrap_owned(tensor: Tensor) -> Py<Obj> {
    if let Some(object) = tensor.pyobject() {
        // SAFETY: as in `wrap`.
        return Ok(unsafe { Obj::borrowed(object.as_ptr().cast()) });
    }
    if !tensor.defined() {
        return Ok(Obj::none());
    }
    if tensor.is_sparse() {
        return wrap_sparse(tensor);
    }
    wrap_as(TENSOR.get(), tensor)
}

/// A new object of a class for a tensor that has none.
pub(crate) fn wrap_as(class: *mut ffi::PyTypeObject, tensor: Tensor) -> Py<Obj> {
    let kept = if class == TENSOR.get() { freelist::take() } else { None };
    // SAFETY: the class is `Tensor` or a subclass, so the memory starts with a `TensorObject`,
    // zeroed or cleared; the handle is written before anything else can see the object. A kept object is
    // tracked as soon as it has its handle, as a new one is from the start.
    unsafe {
        let object = match kept {
            Some(kept) => Obj::owned(ffi::PyObject_Init(kept.as_ptr(), class))?,
            None => Obj::owned(ffi::PyType_GenericAlloc(class, 0))?,
        };
        let head = object.as_ptr().cast::<TensorObject>();
        (&raw mut (*head).tensor).write(ManuallyDrop::new(tensor));
        if kept.is_some() {
            ffi::PyObject_GC_Track(head.cast());
        }
        let pointer = NonNull::new_unchecked(object.as_ptr().cast::<c_void>());
        match (*head).tensor.base_mut().set_pyobject(pointer) {
            Ok(()) => Ok(object),
            // Another thread was faster; its object is the one.
            Err(other) => Ok(Obj::borrowed(other.as_ptr().cast())),
        }
    }
}

/// `_swap_tensor_impl(a, b)`: each object gets the tensor of the other and stays what it is otherwise.
///
/// # Errors
///
/// Something besides its object holds one of the tensors.
pub(crate) fn swap(_module: &Obj, args: Args<'_>) -> Py<Obj> {
    let [a, b] = args.positional else { return Err(type_error("two tensors expected")) };
    for (object, name) in [(a, "a"), (b, "b")] {
        let count = expect(object)?.use_count();
        if count != 1 {
            return Err(runtime_error(format!(
                "Expected single reference to {name}'s Tensor object but got {count}"
            )));
        }
    }
    if a.as_ptr() == b.as_ptr() {
        return Ok(Obj::none());
    }
    let (a, b) = (a.as_ptr().cast::<TensorObject>(), b.as_ptr().cast::<TensorObject>());
    // SAFETY: both are live tensor objects, not the same, and the interpreter lock is held; neither
    // tensor has another owner, so nobody reads the slot of its object meanwhile.
    unsafe {
        for head in [a, b] {
            (*head).tensor.base_mut().clear_pyobject();
        }
        std::mem::swap(&mut (*a).tensor, &mut (*b).tensor);
        for head in [a, b] {
            let pointer = NonNull::new_unchecked(head.cast::<c_void>());
            let kept = (*head).tensor.base_mut().set_pyobject(pointer);
            debug_assert!(kept.is_ok(), "the slot was cleared");
        }
    }
    Ok(Obj::none())
}

/// Frees a tensor object.
pub(crate) unsafe extern "C" fn dealloc(object: *mut ffi::PyObject) {
    // SAFETY: called once, when the last reference is gone. The wrapper bit is cleared before the
    // handle is dropped, so the tensor does not touch the dying object. A heap type's instance owns
    // a reference to its type, also one whose memory is kept: it gets a new one with its new life.
    unsafe {
        let ty = ffi::Py_TYPE(object);
        ffi::PyObject_GC_UnTrack(object.cast());
        let head = object.cast::<TensorObject>();
        if !(*head).weak.is_null() {
            ffi::PyObject_ClearWeakRefs(object);
        }
        let dict = std::mem::replace(&mut (*head).dict, std::ptr::null_mut());
        release(head);
        ffi::Py_XDECREF(dict);
        if ty != TENSOR.get() || !freelist::keep(NonNull::new_unchecked(object)) {
            let free: ffi::freefunc = std::mem::transmute(ffi::PyType_GetSlot(ty, ffi::Py_tp_free));
            free(object.cast());
        }
        ffi::Py_DECREF(ty.cast());
    }
}

/// Drops the handle; a large storage is freed without the interpreter lock.
///
/// # Safety
/// `head` is a live tensor object whose handle is not used afterwards, except that it reads as the
/// undefined tensor.
unsafe fn release(head: *mut TensorObject) {
    // SAFETY: promised by the caller.
    let handle = unsafe {
        let tensor = &mut (*head).tensor;
        if is_null(tensor) {
            return;
        }
        if is_wrapper(tensor, head) {
            tensor.base_mut().clear_pyobject();
        }
        std::mem::replace(&mut **tensor, Tensor::undefined())
    };
    const LARGE: usize = 1 << 24;
    if handle.defined() && handle.use_count() == 1 && handle.nbytes() > LARGE {
        gil::detach(move || drop(handle));
    } else {
        drop(handle);
    }
}

/// Whether an object was freed before it got its handle.
fn is_null(tensor: &ManuallyDrop<Tensor>) -> bool {
    // SAFETY: only the bits are looked at: zeroed memory of a fresh object is no valid handle.
    unsafe { *std::ptr::from_ref(tensor).cast::<usize>() == 0 }
}

/// Whether the tensor's object is this one (and not one that another thread made first).
fn is_wrapper(tensor: &Tensor, head: *mut TensorObject) -> bool {
    tensor.pyobject().is_some_and(|object| object.as_ptr() == head.cast())
}

/// Shows the garbage collector what the object owns.
pub(crate) unsafe extern "C" fn traverse(
    object: *mut ffi::PyObject,
    visit: ffi::visitproc,
    arg: *mut c_void,
) -> c_int {
    // SAFETY: the collector passes a live object; the callback is its own.
    unsafe {
        let head = object.cast::<TensorObject>();
        let mut referents = Referents::new(visit, arg);
        referents.add((*head).dict);
        referents.add(ffi::Py_TYPE(object).cast());
        let tensor = &(*head).tensor;
        if !is_null(tensor) && tensor.defined() && is_wrapper(tensor, head) {
            crate::autograd::traverse(object, tensor, &mut referents);
        }
        referents.status()
    }
}

/// Breaks cycles through the object.
pub(crate) unsafe extern "C" fn clear(object: *mut ffi::PyObject) -> c_int {
    // SAFETY: the collector passes a live object. Dictionary and hooks are taken out first, then
    // dropped: dropping runs arbitrary code.
    unsafe {
        let head = object.cast::<TensorObject>();
        let dict = std::mem::replace(&mut (*head).dict, std::ptr::null_mut());
        let tensor = &(*head).tensor;
        if !is_null(tensor) && tensor.defined() && is_wrapper(tensor, head) {
            crate::autograd::clear(tensor);
            if tensor.use_count() == 1 {
                release(head);
            }
        }
        ffi::Py_XDECREF(dict);
    }
    0
}

/// Tells core how to count references to objects.
pub(crate) fn install_hooks() {
    unsafe fn incref(object: NonNull<c_void>) {
        // SAFETY: core promises a live object; the lock is taken where needed.
        gil::attach(|| unsafe { ffi::Py_INCREF(object.as_ptr().cast()) });
    }
    unsafe fn decref(object: NonNull<c_void>) {
        gil::decref(object.as_ptr().cast());
    }
    unsafe fn try_incref(object: NonNull<c_void>) -> bool {
        gil::attach(|| {
            let object = object.as_ptr().cast::<ffi::PyObject>();
            // SAFETY: a wrapper's memory is valid until its deallocator has cleared the slot, which
            // happens with the lock held; a count of zero means that it is dying.
            unsafe {
                if ffi::Py_REFCNT(object) == 0 {
                    return false;
                }
                ffi::Py_INCREF(object);
            }
            true
        })
    }
    corten_core::set_py_hooks(PyHooks { incref, decref, try_incref });
}

//! Handles, and the life of a Python wrapper beside its object.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::too_many_lines)]

use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicIsize, Ordering};

use corten_core::*;

/// A stand-in for a Python object: a count and the handle that the wrapper owns.
struct FakeWrapper {
    count: AtomicIsize,
    tensor: Option<TensorBase>,
}

static ALIVE: AtomicIsize = AtomicIsize::new(0);

fn fake(object: PyObject) -> &'static mut FakeWrapper {
    // SAFETY: the tests use one thread per wrapper and keep it alive.
    unsafe { object.cast::<FakeWrapper>().as_mut() }
}

unsafe fn incref(object: PyObject) {
    fake(object).count.fetch_add(1, Ordering::SeqCst);
}

unsafe fn decref(object: PyObject) {
    let wrapper = fake(object);
    if wrapper.count.fetch_sub(1, Ordering::SeqCst) > 1 {
        return;
    }
    // The deallocator: separate, then drop the handle.
    let mut tensor = wrapper.tensor.take().unwrap();
    assert!(!tensor.clear_pyobject(), "the object still owned its wrapper");
    drop(tensor);
    ALIVE.fetch_sub(1, Ordering::SeqCst);
    // SAFETY: made by `Box::leak` in `wrap`, and the count is zero.
    drop(unsafe { Box::from_raw(object.cast::<FakeWrapper>().as_ptr()) });
}

unsafe fn try_incref(object: PyObject) -> bool {
    let wrapper = fake(object);
    let alive = wrapper.count.load(Ordering::SeqCst) > 0;
    if alive {
        wrapper.count.fetch_add(1, Ordering::SeqCst);
    }
    alive
}

fn wrap(tensor: TensorBase) -> PyObject {
    set_py_hooks(PyHooks { incref, decref, try_incref });
    let wrapper = FakeWrapper { count: AtomicIsize::new(1), tensor: Some(tensor) };
    let object = NonNull::from(Box::leak(Box::new(wrapper))).cast::<c_void>();
    ALIVE.fetch_add(1, Ordering::SeqCst);
    let tensor = fake(object).tensor.as_mut().unwrap();
    // SAFETY: the wrapper is alive and its deallocator clears the slot.
    unsafe { tensor.set_pyobject(object) }.unwrap();
    object
}

fn py_count(object: PyObject) -> isize {
    fake(object).count.load(Ordering::SeqCst)
}

fn empty() -> TensorBase {
    TensorBase::empty(&[1], DType::Float32).unwrap()
}

#[test]
fn a_wrapper_lives_while_either_side_needs_it() {
    // The wrapper dies first: the object was its alone.
    let object = wrap(empty());
    assert_eq!(py_count(object), 1);
    // SAFETY: gives back the reference of the test.
    unsafe { decref(object) };

    // Rust holds the tensor: the wrapper survives when Python lets go, with its identity.
    let tensor = empty();
    let object = wrap(tensor.clone());
    assert_eq!(py_count(object), 2, "one of the test, one of the object");
    // SAFETY: gives back the reference of the test.
    unsafe { decref(object) };
    assert_eq!(tensor.pyobject(), Some(object));
    let second = tensor.clone();
    assert_eq!(py_count(object), 1, "no transition above two owners");
    drop(second);
    // SAFETY: the wrapper is alive.
    unsafe { incref(object) };
    drop(tensor);
    assert_eq!(py_count(object), 1, "only the test holds the wrapper now");

    // A weak reference revives ownership through the wrapper.
    let weak = fake(object).tensor.as_ref().unwrap().downgrade();
    let strong = weak.upgrade().unwrap();
    assert_eq!((py_count(object), strong.use_count()), (2, 2));
    assert_eq!(strong.pyobject(), Some(object));
    // SAFETY: gives back the reference of the test.
    unsafe { decref(object) };
    drop(strong);
    assert!(weak.upgrade().is_none());
    assert_eq!(ALIVE.load(Ordering::SeqCst), 0);
}

#[test]
fn the_first_wrapper_wins() {
    let mut tensor = empty();
    assert!(tensor.pyobject().is_none());
    set_py_hooks(PyHooks { incref, decref, try_incref });
    let loser = FakeWrapper { count: AtomicIsize::new(1), tensor: None };
    let loser = NonNull::from(Box::leak(Box::new(loser))).cast::<c_void>();
    let winner = FakeWrapper { count: AtomicIsize::new(1), tensor: None };
    let winner = NonNull::from(Box::leak(Box::new(winner))).cast::<c_void>();
    // SAFETY: both are alive; the slot is cleared below.
    unsafe {
        tensor.set_pyobject(winner).unwrap();
        assert_eq!(tensor.set_pyobject(loser), Err(winner));
    }
    assert!(!tensor.clear_pyobject());
    assert!(tensor.pyobject().is_none());
    for wrapper in [winner, loser] {
        // SAFETY: made by `Box::leak` above, and nobody refers to it any more.
        drop(unsafe { Box::from_raw(wrapper.cast::<FakeWrapper>().as_ptr()) });
    }
}

#[test]
fn raw_handles() {
    let tensor = empty();
    let raw = tensor.clone().into_raw();
    assert_eq!(tensor.use_count(), 2);
    // SAFETY: `raw` owns a reference.
    assert!(unsafe { TensorBase::borrow_raw(&raw) }.is_same(&tensor));
    // SAFETY: `raw` came from `into_raw` and is used once.
    drop(unsafe { TensorBase::from_raw(raw) });
    assert_eq!(tensor.use_count(), 1);
    let weak = tensor.downgrade();
    assert!(weak.is_same(&tensor) && !weak.expired());
    let storage = tensor.storage().unwrap();
    drop(tensor);
    // The contents go with the last strong handle, the memory of the object with the weak one.
    assert!(weak.upgrade().is_none());
    assert_eq!(storage.use_count(), 1);
}

#[test]
fn contexts_of_data_pointers() {
    use std::sync::Arc;
    let freed = Arc::new(AtomicIsize::new(0));
    let count = || freed.load(Ordering::SeqCst);
    let closure = |freed: &Arc<AtomicIsize>| {
        let freed = Arc::clone(freed);
        DataPtr::with_closure(
            std::ptr::null_mut(),
            move |_| {
                freed.fetch_add(1, Ordering::SeqCst);
            },
            Device::CPU,
        )
    };
    // Null data with a context is legal and still frees.
    let pointer = closure(&freed);
    assert!(!pointer.is_null() && pointer.get().is_null());
    drop(pointer);
    assert_eq!(count(), 1);
    let mut pointer = closure(&freed);
    pointer.clear();
    assert_eq!((count(), pointer.is_null(), pointer.device()), (2, true, Device::CPU));
    let storage = Storage::from_data_ptr(closure(&freed), 0);
    drop(storage.set_data_ptr(DataPtr::null(Device::CPU), 0).unwrap());
    assert_eq!(count(), 3);

    let pointer = DataPtr::with_owner(std::ptr::null_mut(), Box::new(41_u8), Device::CPU);
    assert_eq!(pointer.owner().unwrap().downcast_ref::<u8>(), Some(&41));
    assert!(pointer.cast_context::<u8>(&DELETE_NEVER).is_none());
    assert!(DataPtr::null(Device::META).owner().is_none());
    let mut released = DataPtr::null(Device::META);
    assert!(released.release_context().is_null());
}

static DELETE_NEVER: FreeContext = FreeContext::new(delete_never);

unsafe fn delete_never(_: *mut c_void) {
    panic!("not a deleter of anything");
}

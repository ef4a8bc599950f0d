//! PyTorch's stable C ABI as extensions find it: in a library that is made in memory.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![cfg(all(target_os = "linux", target_env = "gnu"))]

use std::ffi::{CStr, CString, c_char, c_void};

type Handle = *mut c_void;

/// A function that extensions find.
fn symbol(name: &str) -> *mut c_void {
    corten_c::provide().unwrap();
    let name = CString::new(name).unwrap();
    let flags = libc::RTLD_NOW | libc::RTLD_NOLOAD;
    // SAFETY: the names end with zero bytes, and the library is loaded.
    unsafe {
        let library = libc::dlopen(c"libtorch_cpu.so".as_ptr(), flags);
        assert!(!library.is_null());
        libc::dlsym(library, name.as_ptr())
    }
}

macro_rules! function {
    ($name:literal: $type:ty) => {
        // SAFETY: PyTorch's headers declare the function so.
        unsafe { std::mem::transmute::<*mut c_void, $type>(symbol($name)) }
    };
}

fn message() -> String {
    let what =
        function!("torch_exception_get_what_without_backtrace": extern "C" fn() -> *const c_char);
    // SAFETY: the text ends with a zero byte and stays until the next failure.
    unsafe { CStr::from_ptr(what()) }.to_str().unwrap().to_owned()
}

#[test]
fn symbols_are_those_on_record() {
    let recorded: Vec<&str> = include_str!("../stable.txt").lines().collect();
    assert_eq!(corten_c::stable_symbols(), recorded);
    let lacking: Vec<_> = recorded.iter().filter(|name| symbol(name).is_null()).collect();
    assert!(lacking.is_empty(), "{lacking:?}");
    corten_c::provide().unwrap();
}

#[test]
fn functions_are_called() {
    let version = function!("aoti_torch_abi_version": extern "C" fn() -> u64);
    assert_eq!(version() >> 48, 0x020F);
    let from_number = function!(
        "aoti_torch_scalar_to_tensor_float64": extern "C" fn(f64, *mut Handle) -> i32
    );
    let add = function!(
        "aoti_torch_cpu_add_Scalar": extern "C" fn(Handle, f64, f64, *mut Handle) -> i32
    );
    let item = function!("aoti_torch_item_float64": extern "C" fn(Handle, *mut f64) -> i32);
    let delete = function!("aoti_torch_delete_tensor_object": extern "C" fn(Handle) -> i32);
    let (mut x, mut y, mut number) = (std::ptr::null_mut(), std::ptr::null_mut(), 0.0);
    assert_eq!(from_number(1.5, &raw mut x), 0);
    assert_eq!(add(x, 2.0, 3.0, &raw mut y), 0);
    assert_eq!(item(y, &raw mut number), 0);
    assert_eq!((number, delete(x), delete(y)), (7.5, 0, 0));
    assert_eq!(item(std::ptr::null_mut(), &raw mut number), 1);
    assert_eq!(message(), "the handle of a tensor is null");
}

/// Doubles nothing and returns nothing, where its schema has a tensor.
unsafe extern "C" fn nothing(words: *mut u64, _arguments: u64, _results: u64) {
    let delete = function!("aoti_torch_delete_tensor_object": extern "C" fn(Handle) -> i32);
    // SAFETY: called with the word of one tensor, which the kernel owns.
    unsafe {
        delete(*words as Handle);
        *words = 0;
    }
}

#[test]
fn kernels_are_called() {
    let new = function!(
        "aoti_torch_library_init_fragment":
            extern "C" fn(*const c_char, *const c_char, u32, *mut Handle) -> i32
    );
    let define = function!("aoti_torch_library_def": extern "C" fn(Handle, *const c_char) -> i32);
    let implement = function!(
        "torch_library_impl":
            extern "C" fn(
                Handle,
                *const c_char,
                unsafe extern "C" fn(*mut u64, u64, u64),
                u64,
            ) -> i32
    );
    let (namespace, mut library) = (c"stable_rust_test".as_ptr(), std::ptr::null_mut());
    assert_eq!(new(namespace, c"file".as_ptr(), 1, &raw mut library), 0);
    assert_eq!(define(library, c"nothing(Tensor x) -> Tensor".as_ptr()), 0);
    assert_eq!(define(library, c"nothing(Tensor x) -> Tensor".as_ptr()), 1);
    assert!(message().contains("already registered"), "{}", message());
    assert_eq!(implement(library, c"nothing".as_ptr(), nothing, 0), 0);
    let mut stack: corten::ops::Stack =
        [corten::Tensor::ones([2]).unwrap().into()].into_iter().collect();
    let failure = corten::ops::call("stable_rust_test::nothing", &mut stack).unwrap_err();
    assert_eq!(failure.message(), "the handle of a tensor is null");
}

#[test]
fn libraries_that_are_none_are_refused() {
    let path = std::env::temp_dir().join(format!("corten_stable_{}.so", std::process::id()));
    for bytes in [&b""[..], b"\x7fELF\x02\x01", &[0xFF; 4096], b"\x7fELF\x02\x01\x01\0\xff\xff"] {
        std::fs::write(&path, bytes).unwrap();
        assert!(corten_c::load_library(&path).is_err());
    }
    std::fs::remove_file(&path).unwrap();
    assert!(matches!(
        corten_c::try_load_library("/no/such/library.so"),
        Ok(corten_c::Loaded::Refused(_))
    ));
}

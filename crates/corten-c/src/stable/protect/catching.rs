//! The call that stops exceptions, and what they say. See Note [Exceptions of kernels].

use corten::{Error, ErrorKind, Result};
use std::arch::global_asm;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;

/// What unwinders pass around: the header of the Itanium C++ ABI.
#[repr(C, align(16))]
struct Exception {
    class: u64,
    cleanup: usize,
    private: [usize; 2],
}

/// The class of exceptions of GNU's C++, in its upper seven bytes.
const GNU_CPP: u64 = u64::from_be_bytes(*b"GNUCC++\0") & !0xFF;

const HANDLER_FOUND: c_int = 6;
const INSTALL_CONTEXT: c_int = 7;
const CONTINUE_UNWIND: c_int = 8;
const SEARCH_PHASE: c_int = 1;
const HANDLER_FRAME: c_int = 4;
const FORCE_UNWIND: c_int = 8;

unsafe extern "C" {
    fn _Unwind_SetGR(context: *mut c_void, register: c_int, value: usize);
    fn _Unwind_SetIP(context: *mut c_void, address: usize);
    fn _Unwind_DeleteException(exception: *mut Exception);

    /// Calls a function of up to three arguments; null, or the exception that it threw.
    fn corten_c_catching_call(function: *const c_void, a: u64, b: u64, c: u64) -> *mut Exception;

    /// Where `corten_c_catching_call` goes on after an exception, whose address is in the first register.
    static corten_c_catching_landing: u8;
}

// The stack is aligned again after `push`. An unwinder that stops here restores the registers that a function keeps
// for its caller, `rbp` and `rsp` as they were at the call among them.
global_asm!(
    ".section .text.corten_c_catching_call,\"ax\",@progbits",
    ".globl corten_c_catching_call",
    ".hidden corten_c_catching_call",
    ".type corten_c_catching_call,@function",
    "corten_c_catching_call:",
    ".cfi_startproc",
    ".cfi_personality 0x9b, corten_c_catching_personality",
    "push rbp",
    ".cfi_def_cfa_offset 16",
    ".cfi_offset rbp, -16",
    "mov rbp, rsp",
    ".cfi_def_cfa_register rbp",
    "mov rax, rdi",
    "mov rdi, rsi",
    "mov rsi, rdx",
    "mov rdx, rcx",
    "call rax",
    "xor eax, eax",
    ".globl corten_c_catching_landing",
    ".hidden corten_c_catching_landing",
    "corten_c_catching_landing:",
    "pop rbp",
    ".cfi_def_cfa rsp, 8",
    "ret",
    ".cfi_endproc",
    ".size corten_c_catching_call, . - corten_c_catching_call",
    // Unwind information refers to personality routines through a pointer.
    ".section .data.rel.local.corten_c_catching_personality,\"aw\",@progbits",
    ".balign 8",
    ".hidden corten_c_catching_personality",
    "corten_c_catching_personality:",
    ".quad {personality}",
    ".text",
    personality = sym personality,
);

/// Stops every exception at the frame of `corten_c_catching_call`, but not the unwinding of a thread that is
/// cancelled.
unsafe extern "C" fn personality(
    _version: c_int,
    actions: c_int,
    _class: u64,
    exception: *mut Exception,
    context: *mut c_void,
) -> c_int {
    if actions & FORCE_UNWIND != 0 {
        return CONTINUE_UNWIND;
    }
    if actions & SEARCH_PHASE != 0 {
        return HANDLER_FOUND;
    }
    if actions & HANDLER_FRAME == 0 {
        return CONTINUE_UNWIND;
    }
    // SAFETY: called by the unwinder with a context of this frame; register 0 is `rax`, which nothing needs there.
    unsafe {
        _Unwind_SetGR(context, 0, exception as usize);
        _Unwind_SetIP(context, (&raw const corten_c_catching_landing) as usize);
    }
    INSTALL_CONTEXT
}

/// Calls a function. The error is what it threw.
///
/// # Safety
/// The function must be one for these arguments.
pub(super) unsafe fn call(function: *const c_void, a: u64, b: u64, c: u64) -> Result<()> {
    // SAFETY: the caller's.
    let thrown = unsafe { corten_c_catching_call(function, a, b, c) };
    match thrown.is_null() {
        true => Ok(()),
        // SAFETY: the unwinder gave the exception to this frame, which owns it.
        false => Err(unsafe { error_of(thrown) }),
    }
}

/// # Safety
/// The exception must be caught and the caller's, and is not used afterwards.
unsafe fn error_of(exception: *mut Exception) -> Error {
    // SAFETY: exceptions begin with this header.
    let class = unsafe { (*exception).class };
    if class & !0xFF == GNU_CPP
        && let Some(library) = CppLibrary::find()
    {
        // SAFETY: the class says that it is an exception of this library.
        return unsafe { library.error_of(exception) };
    }
    // SAFETY: the caller's.
    unsafe { _Unwind_DeleteException(exception) };
    Error::new(ErrorKind::Runtime, "an exception of another language")
}

/// Standard exceptions that are errors of a kind, as Python's bindings of C++ have them. The others are `Runtime`.
const KINDS: [(&CStr, ErrorKind); 6] = [
    (c"_ZTISt9bad_alloc", ErrorKind::OutOfMemory),
    (c"_ZTISt12domain_error", ErrorKind::Value),
    (c"_ZTISt16invalid_argument", ErrorKind::Value),
    (c"_ZTISt12length_error", ErrorKind::Value),
    (c"_ZTISt12out_of_range", ErrorKind::Index),
    (c"_ZTISt11range_error", ErrorKind::Value),
];

type BeginCatch = unsafe extern "C" fn(*mut Exception) -> *mut c_void;
type EndCatch = unsafe extern "C" fn();
type CurrentType = unsafe extern "C" fn() -> *const TypeInfo;
/// Gives a `std::exception_ptr`, which is a pointer to the object that was thrown.
type CurrentException = unsafe extern "C" fn(place: *mut *mut c_void) -> *mut *mut c_void;
type DropPointer = unsafe extern "C" fn(place: *mut *mut c_void);

/// The functions of GNU's C++ library that say what an exception is. Their types are those of the C++ ABI.
struct CppLibrary {
    library: *mut c_void,
    begin_catch: BeginCatch,
    end_catch: EndCatch,
    current_type: CurrentType,
    current_exception: CurrentException,
    drop_pointer: DropPointer,
}

/// `std::type_info`.
#[repr(C)]
struct TypeInfo {
    functions: *const TypeFunctions,
    name: *const c_char,
}

/// The virtual functions of `std::type_info`.
#[repr(C)]
struct TypeFunctions {
    _destructors: [usize; 2],
    _is_pointer: usize,
    _is_function: usize,
    /// Whether a handler of this type catches an object of another one, whose address then becomes that of its part
    /// of this type.
    do_catch: unsafe extern "C" fn(
        this: *const TypeInfo,
        thrown: *const TypeInfo,
        object: *mut *mut c_void,
        outer: u32,
    ) -> bool,
}

/// An object of `std::exception`.
#[repr(C)]
struct StandardException {
    functions: *const ExceptionFunctions,
}

/// The virtual functions of `std::exception`.
#[repr(C)]
struct ExceptionFunctions {
    _destructors: [usize; 2],
    what: unsafe extern "C" fn(this: *const StandardException) -> *const c_char,
}

impl CppLibrary {
    /// The library, where it is loaded.
    fn find() -> Option<Self> {
        let flags = libc::RTLD_LAZY | libc::RTLD_NOLOAD;
        // SAFETY: the name ends with a zero byte; a library that is loaded already runs no code of its own.
        let library = unsafe { libc::dlopen(c"libstdc++.so.6".as_ptr(), flags) };
        if library.is_null() {
            return None;
        }
        // SAFETY: functions of these names have these types in the C++ ABI.
        unsafe {
            let begin_catch = symbol(library, c"__cxa_begin_catch")?;
            let end_catch = symbol(library, c"__cxa_end_catch")?;
            let current_type = symbol(library, c"__cxa_current_exception_type")?;
            let current_exception = symbol(library, c"_ZSt17current_exceptionv")?;
            let drop_pointer = symbol(library, c"_ZNSt15__exception_ptr13exception_ptrD1Ev")?;
            Some(Self {
                library,
                begin_catch: std::mem::transmute::<*mut c_void, BeginCatch>(begin_catch),
                end_catch: std::mem::transmute::<*mut c_void, EndCatch>(end_catch),
                current_type: std::mem::transmute::<*mut c_void, CurrentType>(current_type),
                current_exception: std::mem::transmute::<*mut c_void, CurrentException>(
                    current_exception,
                ),
                drop_pointer: std::mem::transmute::<*mut c_void, DropPointer>(drop_pointer),
            })
        }
    }

    /// # Safety
    /// The exception must be one of this library, caught and the caller's, and is not used afterwards.
    unsafe fn error_of(&self, exception: *mut Exception) -> Error {
        // SAFETY: the caller's: between `begin_catch` and `end_catch` the exception is the current one of this
        // thread, whose object lives as long as a pointer to it.
        unsafe {
            (self.begin_catch)(exception);
            let thrown = (self.current_type)();
            let mut object = ptr::null_mut();
            (self.current_exception)(&raw mut object);
            let kind = KINDS.iter().find(|(name, _)| self.is(name, thrown, object).is_some());
            let kind = kind.map_or(ErrorKind::Runtime, |(_, kind)| *kind);
            let message = self.what(thrown, object).unwrap_or_else(|| name_of(thrown));
            (self.drop_pointer)(&raw mut object);
            (self.end_catch)();
            Error::new(kind, message)
        }
    }

    /// The part of an object that is of a type, whose `type_info` has that name.
    ///
    /// # Safety
    /// The object must be of the type that was thrown, and alive.
    unsafe fn is(
        &self,
        name: &CStr,
        thrown: *const TypeInfo,
        object: *mut c_void,
    ) -> Option<*mut c_void> {
        let wanted = symbol(self.library, name)?.cast_const().cast::<TypeInfo>();
        let mut object = object;
        if thrown.is_null() || object.is_null() {
            return None;
        }
        // SAFETY: the caller's; types have this table of functions in the C++ ABI.
        unsafe {
            let do_catch = (*(*wanted).functions).do_catch;
            do_catch(wanted, thrown, &raw mut object, 1).then_some(object)
        }
    }

    /// The message of an object of `std::exception`.
    ///
    /// # Safety
    /// As [`is`](Self::is).
    unsafe fn what(&self, thrown: *const TypeInfo, object: *mut c_void) -> Option<String> {
        // SAFETY: the caller's; such objects have this table of functions in the C++ ABI.
        unsafe {
            let object = self.is(c"_ZTISt9exception", thrown, object)?;
            let object = object.cast_const().cast::<StandardException>();
            let text = ((*(*object).functions).what)(object);
            (!text.is_null()).then(|| CStr::from_ptr(text).to_string_lossy().into_owned())
        }
    }
}

fn symbol(library: *mut c_void, name: &CStr) -> Option<*mut c_void> {
    // SAFETY: the library is open, and the name ends with a zero byte.
    let found = unsafe { libc::dlsym(library, name.as_ptr()) };
    (!found.is_null()).then_some(found)
}

/// # Safety
/// The type must be null or one of the C++ ABI.
unsafe fn name_of(thrown: *const TypeInfo) -> String {
    // SAFETY: the caller's.
    let name = unsafe { thrown.as_ref() }.map_or(ptr::null(), |thrown| thrown.name);
    if name.is_null() {
        return "a C++ exception".to_owned();
    }
    // SAFETY: names of types end with a zero byte.
    let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
    format!("a C++ exception of type {name}")
}

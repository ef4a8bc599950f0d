//! From C function pointers to Rust functions: panics stop here, errors become exceptions.

use super::errors::{Py, runtime_error};
use super::obj::Obj;
use pyo3::ffi;
use std::any::Any;
use std::cell::RefCell;
use std::ffi::{CStr, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The arguments of a vector call.
#[derive(Clone, Copy)]
pub(crate) struct Args<'a> {
    /// Positional arguments.
    pub(crate) positional: &'a [Obj],
    /// Values of the keyword arguments.
    pub(crate) keywords: &'a [Obj],
    /// Their names: a tuple of strings, of the same length; absent when there are none.
    pub(crate) names: Option<&'a Obj>,
}

impl<'a> Args<'a> {
    /// Sees the raw arguments of a `METH_FASTCALL | METH_KEYWORDS` function.
    ///
    /// # Safety
    /// The pointers are those CPython passed, and outlive the result.
    pub(crate) unsafe fn new(
        args: *const *mut ffi::PyObject,
        count: ffi::Py_ssize_t,
        names: &'a *mut ffi::PyObject,
    ) -> Self {
        let count = count as usize;
        // SAFETY: as CPython's vector call protocol says.
        unsafe {
            let names = if names.is_null() { None } else { Some(Obj::peek(names)) };
            let extra = names.map_or(0, Obj::sequence_len);
            Self {
                positional: Obj::slice(args, count),
                keywords: Obj::slice(if extra == 0 { args } else { args.add(count) }, extra),
                names,
            }
        }
    }

    /// The name of a keyword argument, borrowed from the tuple of names.
    pub(crate) fn keyword_ptr(&self, index: usize) -> *mut ffi::PyObject {
        match self.names {
            // SAFETY: the tuple holds as many names as there are values.
            Some(names) => unsafe {
                ffi::PyTuple_GetItem(names.as_ptr(), index as ffi::Py_ssize_t)
            },
            None => std::ptr::null_mut(),
        }
    }

    /// The keyword arguments as a dictionary.
    pub(crate) fn keyword_dict(&self) -> Py<Obj> {
        let dict = Obj::dict()?;
        for (index, value) in self.keywords.iter().enumerate() {
            // SAFETY: the name is live while the tuple is.
            dict.dict_set(&unsafe { Obj::borrowed(self.keyword_ptr(index)) }, value)?;
        }
        Ok(dict)
    }

    /// The text of a keyword argument's name.
    pub(crate) fn keyword(&self, index: usize) -> Py<String> {
        // SAFETY: the name is live while the tuple is.
        unsafe { Obj::borrowed(self.keyword_ptr(index)) }.as_str().map(str::to_owned)
    }
}

/// Owned arguments, made from a tuple and a dictionary (`tp_new`, `tp_call`).
pub(crate) struct OwnedArgs {
    values: Vec<Obj>,
    positional: usize,
    names: Option<Obj>,
}

impl OwnedArgs {
    /// Copies the references.
    pub(crate) fn new(args: &Obj, kwargs: Option<&Obj>) -> Py<Self> {
        let mut values = args.items()?;
        let positional = values.len();
        let mut names = None;
        if let Some(kwargs) = kwargs {
            let mut keys = Vec::new();
            for key in kwargs.iter()? {
                let key = key?;
                if let Some(value) = kwargs.dict_get(&key)? {
                    values.push(value);
                    keys.push(key);
                }
            }
            if !keys.is_empty() {
                names = Some(Obj::tuple(keys.into_iter().map(Ok))?);
            }
        }
        Ok(Self { values, positional, names })
    }

    /// The arguments as a vector call sees them.
    pub(crate) fn as_args(&self) -> Args<'_> {
        let (positional, keywords) = self.values.split_at(self.positional);
        Args { positional, keywords, names: self.names.as_ref() }
    }
}

/// What a C function of the interpreter returns for a Rust result.
pub(crate) trait Outcome {
    /// The C type.
    type Raw;
    /// The value that reports an exception.
    const FAILED: Self::Raw;
    /// The value of a success.
    fn raw(self) -> Self::Raw;
}

impl Outcome for Obj {
    type Raw = *mut ffi::PyObject;
    const FAILED: Self::Raw = std::ptr::null_mut();
    fn raw(self) -> Self::Raw {
        self.into_ptr()
    }
}

impl Outcome for () {
    type Raw = c_int;
    const FAILED: c_int = -1;
    fn raw(self) -> c_int {
        0
    }
}

impl Outcome for bool {
    type Raw = c_int;
    const FAILED: c_int = -1;
    fn raw(self) -> c_int {
        c_int::from(self)
    }
}

impl Outcome for usize {
    type Raw = ffi::Py_ssize_t;
    const FAILED: ffi::Py_ssize_t = -1;
    fn raw(self) -> ffi::Py_ssize_t {
        self as ffi::Py_ssize_t
    }
}

/// Runs the body of a C function: an error or a panic becomes an exception.
#[inline(always)]
pub(crate) fn guard<T: Outcome>(body: impl FnOnce() -> Py<T>) -> T::Raw {
    match catch_unwind(AssertUnwindSafe(body)) {
        // A warning of the operator became an exception on the way.
        Ok(Ok(_)) if crate::warnings::take_raised() => T::FAILED,
        Ok(Ok(value)) => value.raw(),
        Ok(Err(_raised)) => {
            crate::warnings::forget_raised();
            T::FAILED
        }
        Err(panic) => {
            raise_panic(panic);
            T::FAILED
        }
    }
}

thread_local! {
    static PANIC_PLACE: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Keeps panics of this module quiet and remembers where they happened.
pub(crate) fn install_panic_hook() {
    std::panic::set_hook(Box::new(|info| {
        let place = info.location().map(|at| format!("{}:{}", at.file(), at.line()));
        PANIC_PLACE.with(|cell| *cell.borrow_mut() = place.unwrap_or_default());
    }));
}

#[cold]
fn raise_panic(panic: Box<dyn Any + Send>) {
    let panic = match corten_core::unwinding::error_of(panic) {
        Ok(error) => {
            let _raised = crate::py::errors::Raised::from(error);
            return;
        }
        Err(panic) => panic,
    };
    let text = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("unknown");
    let place = PANIC_PLACE.with(|cell| cell.borrow().clone());
    let _raised = runtime_error(format!(
        "INTERNAL ASSERT FAILED at {place}, please report a bug to Corten. {text}"
    ));
}

/// A C function pointer for a method table.
pub(crate) type Function = unsafe extern "C" fn(
    *mut ffi::PyObject,
    *const *mut ffi::PyObject,
    ffi::Py_ssize_t,
    *mut ffi::PyObject,
) -> *mut ffi::PyObject;

/// A row of a method table.
pub(crate) fn method_def(
    name: &'static CStr,
    function: Function,
    flags: c_int,
) -> ffi::PyMethodDef {
    method_def_doc(name, function, flags, c"")
}

/// A row of a method table with a doc string.
pub(crate) fn method_def_doc(
    name: &'static CStr,
    function: Function,
    flags: c_int,
    doc: &'static CStr,
) -> ffi::PyMethodDef {
    ffi::PyMethodDef {
        ml_name: name.as_ptr(),
        ml_meth: ffi::PyMethodDefPointer { PyCFunctionFastWithKeywords: function },
        ml_flags: ffi::METH_FASTCALL | ffi::METH_KEYWORDS | flags,
        ml_doc: doc.as_ptr(),
    }
}

/// The C entry point of `fn(&Obj, Args) -> Py<Obj>`.
macro_rules! function {
    ($function:expr) => {{
        unsafe extern "C" fn raw(
            slf: *mut $crate::py::ffi::PyObject,
            args: *const *mut $crate::py::ffi::PyObject,
            count: $crate::py::ffi::Py_ssize_t,
            names: *mut $crate::py::ffi::PyObject,
        ) -> *mut $crate::py::ffi::PyObject {
            $crate::py::call::guard(|| {
                // SAFETY: CPython passes live objects for the time of the call.
                let (slf, args) = unsafe {
                    ($crate::py::Obj::peek(&slf), $crate::py::Args::new(args, count, &names))
                };
                $function(slf, args)
            })
        }
        raw as $crate::py::Function
    }};
}
pub(crate) use function;

/// A row of a method table: `method!("name", function)`; flags and doc may follow.
macro_rules! method {
    ($name:literal, $function:expr) => {
        $crate::py::method!($name, $function, 0)
    };
    ($name:literal, $function:expr, $flags:expr) => {{
        const NAME: &std::ffi::CStr =
            match std::ffi::CStr::from_bytes_with_nul(concat!($name, "\0").as_bytes()) {
                Ok(text) => text,
                Err(_) => panic!("a name without inner NUL"),
            };
        $crate::py::call::method_def(NAME, $crate::py::function!($function), $flags)
    }};
}
pub(crate) use method;

/// A C getter.
pub(crate) type Getter =
    unsafe extern "C" fn(*mut ffi::PyObject, *mut c_void) -> *mut ffi::PyObject;
/// A C setter.
pub(crate) type Setter =
    unsafe extern "C" fn(*mut ffi::PyObject, *mut ffi::PyObject, *mut c_void) -> c_int;

/// A row of a getter table.
pub(crate) fn getset_def(
    name: &'static CStr,
    get: Getter,
    set: Option<Setter>,
) -> ffi::PyGetSetDef {
    ffi::PyGetSetDef {
        name: name.as_ptr(),
        get: Some(get),
        set,
        doc: std::ptr::null(),
        closure: std::ptr::null_mut(),
    }
}

/// A read-only attribute: `getter!("name", fn(&Obj) -> Py<Obj>)`.
macro_rules! getter {
    ($name:literal, $get:expr) => {
        $crate::py::call::getset_def(
            $crate::py::call::c_name!($name),
            $crate::py::call::raw_getter!($get),
            None,
        )
    };
}
pub(crate) use getter;

/// A read-write attribute: the setter gets `None` for `del`.
macro_rules! setter {
    ($name:literal, $get:expr, $set:expr) => {{
        unsafe extern "C" fn set(
            slf: *mut $crate::py::ffi::PyObject,
            value: *mut $crate::py::ffi::PyObject,
            _closure: *mut std::ffi::c_void,
        ) -> std::ffi::c_int {
            $crate::py::call::guard(|| {
                // SAFETY: CPython passes live objects; null means deletion.
                let (slf, value) = unsafe {
                    let value =
                        if value.is_null() { None } else { Some($crate::py::Obj::peek(&value)) };
                    ($crate::py::Obj::peek(&slf), value)
                };
                $set(slf, value)
            })
        }
        $crate::py::call::getset_def(
            $crate::py::call::c_name!($name),
            $crate::py::call::raw_getter!($get),
            Some(set),
        )
    }};
}
pub(crate) use setter;

/// A literal as a C string.
macro_rules! c_name {
    ($name:literal) => {{
        const NAME: &std::ffi::CStr =
            match std::ffi::CStr::from_bytes_with_nul(concat!($name, "\0").as_bytes()) {
                Ok(text) => text,
                Err(_) => panic!("a name without inner NUL"),
            };
        NAME
    }};
}
pub(crate) use c_name;

/// The C entry point of a getter.
macro_rules! raw_getter {
    ($get:expr) => {{
        unsafe extern "C" fn get(
            slf: *mut $crate::py::ffi::PyObject,
            _closure: *mut std::ffi::c_void,
        ) -> *mut $crate::py::ffi::PyObject {
            // SAFETY: CPython passes a live object.
            $crate::py::call::guard(|| $get(unsafe { $crate::py::Obj::peek(&slf) }))
        }
        get
    }};
}
pub(crate) use raw_getter;

/// The C entry point of a type slot, by the slot's shape.
macro_rules! slot {
    (unary $function:expr) => {{
        unsafe extern "C" fn raw(
            a: *mut $crate::py::ffi::PyObject,
        ) -> <$crate::py::Obj as $crate::py::call::Outcome>::Raw {
            // SAFETY: CPython passes a live object.
            $crate::py::call::guard(|| $function(unsafe { $crate::py::Obj::peek(&a) }))
        }
        raw as *mut std::ffi::c_void
    }};
    (truth $function:expr) => {{
        unsafe extern "C" fn raw(a: *mut $crate::py::ffi::PyObject) -> std::ffi::c_int {
            $crate::py::call::guard(|| -> $crate::py::Py<bool> {
                // SAFETY: CPython passes a live object.
                $function(unsafe { $crate::py::Obj::peek(&a) })
            })
        }
        raw as *mut std::ffi::c_void
    }};
    (length $function:expr) => {{
        unsafe extern "C" fn raw(a: *mut $crate::py::ffi::PyObject) -> $crate::py::ffi::Py_ssize_t {
            $crate::py::call::guard(|| -> $crate::py::Py<usize> {
                // SAFETY: CPython passes a live object.
                $function(unsafe { $crate::py::Obj::peek(&a) })
            })
        }
        raw as *mut std::ffi::c_void
    }};
    (binary $function:expr) => {{
        unsafe extern "C" fn raw(
            a: *mut $crate::py::ffi::PyObject,
            b: *mut $crate::py::ffi::PyObject,
        ) -> *mut $crate::py::ffi::PyObject {
            // SAFETY: CPython passes live objects.
            $crate::py::call::guard(|| unsafe {
                $function($crate::py::Obj::peek(&a), $crate::py::Obj::peek(&b))
            })
        }
        raw as *mut std::ffi::c_void
    }};
    (contains $function:expr) => {{
        unsafe extern "C" fn raw(
            a: *mut $crate::py::ffi::PyObject,
            b: *mut $crate::py::ffi::PyObject,
        ) -> std::ffi::c_int {
            $crate::py::call::guard(|| -> $crate::py::Py<bool> {
                // SAFETY: CPython passes live objects.
                unsafe { $function($crate::py::Obj::peek(&a), $crate::py::Obj::peek(&b)) }
            })
        }
        raw as *mut std::ffi::c_void
    }};
    (power $function:expr) => {{
        unsafe extern "C" fn raw(
            a: *mut $crate::py::ffi::PyObject,
            b: *mut $crate::py::ffi::PyObject,
            modulus: *mut $crate::py::ffi::PyObject,
        ) -> *mut $crate::py::ffi::PyObject {
            // SAFETY: CPython passes live objects.
            $crate::py::call::guard(|| unsafe {
                if !$crate::py::Obj::peek(&modulus).is_none() {
                    return Ok($crate::py::Obj::not_implemented());
                }
                $function($crate::py::Obj::peek(&a), $crate::py::Obj::peek(&b))
            })
        }
        raw as *mut std::ffi::c_void
    }};
    (compare $function:expr) => {{
        unsafe extern "C" fn raw(
            a: *mut $crate::py::ffi::PyObject,
            b: *mut $crate::py::ffi::PyObject,
            op: std::ffi::c_int,
        ) -> *mut $crate::py::ffi::PyObject {
            // SAFETY: CPython passes live objects.
            $crate::py::call::guard(|| unsafe {
                $function($crate::py::Obj::peek(&a), $crate::py::Obj::peek(&b), op)
            })
        }
        raw as *mut std::ffi::c_void
    }};
    (assign $function:expr) => {{
        unsafe extern "C" fn raw(
            a: *mut $crate::py::ffi::PyObject,
            b: *mut $crate::py::ffi::PyObject,
            value: *mut $crate::py::ffi::PyObject,
        ) -> std::ffi::c_int {
            // SAFETY: CPython passes live objects; a null value means deletion.
            $crate::py::call::guard(|| unsafe {
                let value =
                    if value.is_null() { None } else { Some($crate::py::Obj::peek(&value)) };
                $function($crate::py::Obj::peek(&a), $crate::py::Obj::peek(&b), value)
            })
        }
        raw as *mut std::ffi::c_void
    }};
    (call $function:expr) => {{
        unsafe extern "C" fn raw(
            a: *mut $crate::py::ffi::PyObject,
            args: *mut $crate::py::ffi::PyObject,
            kwargs: *mut $crate::py::ffi::PyObject,
        ) -> *mut $crate::py::ffi::PyObject {
            // SAFETY: CPython passes live objects; the dictionary may be null.
            $crate::py::call::guard(|| unsafe {
                let kwargs =
                    if kwargs.is_null() { None } else { Some($crate::py::Obj::peek(&kwargs)) };
                $function($crate::py::Obj::peek(&a), $crate::py::Obj::peek(&args), kwargs)
            })
        }
        raw as *mut std::ffi::c_void
    }};
    (init $function:expr) => {{
        unsafe extern "C" fn raw(
            a: *mut $crate::py::ffi::PyObject,
            args: *mut $crate::py::ffi::PyObject,
            kwargs: *mut $crate::py::ffi::PyObject,
        ) -> std::ffi::c_int {
            // SAFETY: CPython passes live objects; the dictionary may be null.
            $crate::py::call::guard(|| unsafe {
                let kwargs =
                    if kwargs.is_null() { None } else { Some($crate::py::Obj::peek(&kwargs)) };
                $function($crate::py::Obj::peek(&a), $crate::py::Obj::peek(&args), kwargs)
            })
        }
        raw as *mut std::ffi::c_void
    }};
}
pub(crate) use slot;

//! Numbers, strings and containers in both directions.

use super::errors::{Py, Raised, overflow_error, type_error, value_error};
use super::names::Name;
use super::obj::{Obj, check};
use corten_core::{Complex, Scalar};
use pyo3::ffi;

impl Obj {
    /// A Python integer.
    pub(crate) fn int(value: i64) -> Py<Self> {
        // SAFETY: plain constructor.
        unsafe { Self::owned(ffi::PyLong_FromLongLong(value)) }
    }

    /// A Python integer from an unsigned one.
    pub(crate) fn uint(value: u64) -> Py<Self> {
        // SAFETY: plain constructor.
        unsafe { Self::owned(ffi::PyLong_FromUnsignedLongLong(value)) }
    }

    /// A Python float.
    pub(crate) fn float(value: f64) -> Py<Self> {
        // SAFETY: plain constructor.
        unsafe { Self::owned(ffi::PyFloat_FromDouble(value)) }
    }

    /// A Python complex number.
    pub(crate) fn complex(value: Complex<f64>) -> Py<Self> {
        // SAFETY: plain constructor.
        unsafe { Self::owned(ffi::PyComplex_FromDoubles(value.re, value.im)) }
    }

    /// The Python number of a scalar.
    pub(crate) fn scalar(value: Scalar) -> Py<Self> {
        match value {
            Scalar::Bool(v) => Ok(Self::bool(v)),
            Scalar::Int(v) => Self::int(v),
            Scalar::UInt(v) => Self::uint(v),
            Scalar::Float(v) => Self::float(v),
            Scalar::Complex(v) => Self::complex(v),
        }
    }

    /// A Python string.
    pub(crate) fn str_from(text: &str) -> Py<Self> {
        let length = text.len() as ffi::Py_ssize_t;
        // SAFETY: the bytes are valid UTF-8 of that length.
        unsafe { Self::owned(ffi::PyUnicode_FromStringAndSize(text.as_ptr().cast(), length)) }
    }

    /// A Python bytes object.
    pub(crate) fn bytes(data: &[u8]) -> Py<Self> {
        let length = data.len() as ffi::Py_ssize_t;
        // SAFETY: copies that many bytes.
        unsafe { Self::owned(ffi::PyBytes_FromStringAndSize(data.as_ptr().cast(), length)) }
    }

    /// A tuple of the items.
    pub(crate) fn tuple(
        items: impl IntoIterator<Item = Py<Self>, IntoIter: ExactSizeIterator>,
    ) -> Py<Self> {
        let items = items.into_iter();
        // SAFETY: a fresh tuple that nobody else sees; every slot is filled before it escapes, and
        // a partly filled tuple may be dropped.
        unsafe {
            let tuple = Self::owned(ffi::PyTuple_New(items.len() as ffi::Py_ssize_t))?;
            for (index, item) in items.enumerate() {
                let item = item?.into_ptr();
                check(ffi::PyTuple_SetItem(tuple.as_ptr(), index as ffi::Py_ssize_t, item))?;
            }
            Ok(tuple)
        }
    }

    /// A list of numbers. No code of others runs until it is filled.
    pub(crate) fn list_of_numbers(numbers: impl ExactSizeIterator<Item = Scalar>) -> Py<Self> {
        // SAFETY: a fresh list with so many places, each of which is filled once; a partly filled
        // list may be dropped.
        unsafe {
            let list = Self::owned(ffi::PyList_New(numbers.len() as ffi::Py_ssize_t))?;
            for (index, number) in numbers.enumerate() {
                let number = Self::scalar(number)?.into_ptr();
                check(ffi::PyList_SetItem(list.as_ptr(), index as ffi::Py_ssize_t, number))?;
            }
            Ok(list)
        }
    }

    /// A list of the items.
    pub(crate) fn list(items: impl IntoIterator<Item = Py<Self>>) -> Py<Self> {
        // SAFETY: appending takes its own reference.
        unsafe {
            let list = Self::owned(ffi::PyList_New(0))?;
            for item in items {
                check(ffi::PyList_Append(list.as_ptr(), item?.as_ptr()))?;
            }
            Ok(list)
        }
    }

    /// A tuple of integers.
    pub(crate) fn int_tuple(values: &[i64]) -> Py<Self> {
        Self::tuple(values.iter().map(|&value| Self::int(value)))
    }

    /// An empty dictionary.
    pub(crate) fn dict() -> Py<Self> {
        // SAFETY: plain constructor.
        unsafe { Self::owned(ffi::PyDict_New()) }
    }

    /// `self[key] = value` of a dictionary.
    pub(crate) fn dict_set(&self, key: &Self, value: &Self) -> Py<()> {
        // SAFETY: all are live; a non-dictionary is reported by the C API.
        check(unsafe { ffi::PyDict_SetItem(self.as_ptr(), key.as_ptr(), value.as_ptr()) })
    }

    /// `self.get(key)` of a dictionary.
    pub(crate) fn dict_get(&self, key: &Self) -> Py<Option<Self>> {
        // SAFETY: both are live; the result is borrowed from the dictionary and counted at once.
        unsafe {
            let value = ffi::PyDict_GetItemWithError(self.as_ptr(), key.as_ptr());
            if value.is_null() {
                return Raised::pending().map_or(Ok(None), Err);
            }
            Ok(Some(Self::borrowed(value)))
        }
    }

    /// What `look` says of what a dictionary has under a name. It must not run code of others, which
    /// might take that away.
    pub(crate) fn dict_peek<R>(&self, key: &Name, look: impl FnOnce(&Self) -> R) -> Py<Option<R>> {
        // SAFETY: both are live; what the dictionary holds stays while nobody else runs.
        unsafe {
            let value = ffi::PyDict_GetItemWithError(self.as_ptr(), key.as_ptr());
            if value.is_null() {
                return Raised::pending().map_or(Ok(None), Err);
            }
            Ok(Some(look(Self::peek(&value))))
        }
    }

    /// The number of entries, if this is a dictionary.
    pub(crate) fn dict_len(&self) -> Option<usize> {
        // SAFETY: the object is live; the function looks whether it is a dictionary.
        let len = unsafe { ffi::PyDict_Size(self.as_ptr()) };
        if len < 0 {
            // SAFETY: what it raised is of no interest.
            unsafe { ffi::PyErr_Clear() };
        }
        usize::try_from(len).ok()
    }

    /// Whether this is a dictionary.
    pub(crate) fn is_dict(&self) -> bool {
        // SAFETY: the object is live.
        unsafe { ffi::PyDict_Check(self.as_ptr()) != 0 }
    }

    /// Whether this is a string and of no subclass.
    pub(crate) fn is_plain_str(&self) -> bool {
        self.type_ptr() == &raw mut ffi::PyUnicode_Type
    }

    /// Whether this is a string.
    pub(crate) fn is_str(&self) -> bool {
        self.has_flag(ffi::Py_TPFLAGS_UNICODE_SUBCLASS)
    }

    /// Whether this is a bytes object.
    pub(crate) fn is_bytes(&self) -> bool {
        self.has_flag(ffi::Py_TPFLAGS_BYTES_SUBCLASS)
    }

    /// Whether this is an integer, bool included.
    pub(crate) fn is_int(&self) -> bool {
        self.has_flag(ffi::Py_TPFLAGS_LONG_SUBCLASS)
    }

    /// Whether this is `True` or `False`.
    pub(crate) fn is_bool(&self) -> bool {
        self.type_ptr() == &raw mut ffi::PyBool_Type
    }

    /// Whether this is a float or of a subclass.
    pub(crate) fn is_float(&self) -> bool {
        self.is_instance_of(&raw mut ffi::PyFloat_Type)
    }

    /// Whether this is a complex number or of a subclass.
    pub(crate) fn is_complex(&self) -> bool {
        self.is_instance_of(&raw mut ffi::PyComplex_Type)
    }

    /// Whether this is a tuple.
    pub(crate) fn is_tuple(&self) -> bool {
        self.has_flag(ffi::Py_TPFLAGS_TUPLE_SUBCLASS)
    }

    /// Whether this is a list.
    pub(crate) fn is_list(&self) -> bool {
        self.has_flag(ffi::Py_TPFLAGS_LIST_SUBCLASS)
    }

    /// Whether this is a class.
    pub(crate) fn is_type(&self) -> bool {
        self.has_flag(ffi::Py_TPFLAGS_TYPE_SUBCLASS)
    }

    /// Whether this is a slice.
    pub(crate) fn is_slice(&self) -> bool {
        self.type_ptr() == &raw mut ffi::PySlice_Type
    }

    fn has_flag(&self, flag: std::ffi::c_ulong) -> bool {
        // SAFETY: a live object has a live type.
        unsafe { ffi::PyType_GetFlags(self.type_ptr()) & flag != 0 }
    }

    /// The text of a string object.
    pub(crate) fn as_str(&self) -> Py<&str> {
        let mut length = 0;
        // SAFETY: the UTF-8 form is cached in the string object and lives as long as it.
        unsafe {
            let data = ffi::PyUnicode_AsUTF8AndSize(self.as_ptr(), &raw mut length);
            if data.is_null() {
                return Err(Raised::already());
            }
            let bytes = std::slice::from_raw_parts(data.cast::<u8>(), length as usize);
            Ok(std::str::from_utf8_unchecked(bytes))
        }
    }

    /// The bytes of a bytes object.
    pub(crate) fn as_bytes(&self) -> Py<&[u8]> {
        let (mut data, mut length) = (std::ptr::null_mut(), 0);
        // SAFETY: the bytes live as long as the object and never change.
        unsafe {
            check(ffi::PyBytes_AsStringAndSize(self.as_ptr(), &raw mut data, &raw mut length))?;
            Ok(std::slice::from_raw_parts(data.cast::<u8>(), length as usize))
        }
    }

    /// An integer, through `__index__` where needed.
    pub(crate) fn to_i64(&self) -> Py<i64> {
        // SAFETY: the object is live.
        let value = unsafe { ffi::PyLong_AsLongLong(self.as_ptr()) };
        if value != -1 {
            return Ok(value);
        }
        match Raised::pending() {
            None => Ok(value),
            Some(raised) => Err(overflow(raised)),
        }
    }

    /// A float, through `__float__` where needed.
    pub(crate) fn to_f64(&self) -> Py<f64> {
        // SAFETY: the object is live.
        let value = unsafe { ffi::PyFloat_AsDouble(self.as_ptr()) };
        if value != -1.0 {
            return Ok(value);
        }
        Raised::pending().map_or(Ok(value), Err)
    }

    /// A complex number, through `__complex__` where needed.
    pub(crate) fn to_complex(&self) -> Py<Complex<f64>> {
        // SAFETY: the object is live.
        let (re, im) = unsafe {
            let re = ffi::PyComplex_RealAsDouble(self.as_ptr());
            (re, ffi::PyComplex_ImagAsDouble(self.as_ptr()))
        };
        if self.is_complex() {
            return Ok(Complex::new(re, im));
        }
        if let Some(raised) = Raised::pending() {
            raised.clear();
        }
        let number = self.call_method(super::name!("__complex__"), &[])?;
        // SAFETY: the object is live.
        unsafe {
            let re = ffi::PyComplex_RealAsDouble(number.as_ptr());
            let im = ffi::PyComplex_ImagAsDouble(number.as_ptr());
            Raised::pending().map_or(Ok(Complex::new(re, im)), Err)
        }
    }

    /// The scalar that a Python number of a built-in type holds.
    pub(crate) fn to_scalar(&self) -> Py<Scalar> {
        if self.is_bool() {
            return Ok(Scalar::Bool(self.is_true()?));
        }
        if self.is_int() {
            return self.to_wide_int();
        }
        if self.is_float() {
            return self.to_f64().map(Scalar::Float);
        }
        if self.is_complex() {
            return self.to_complex().map(Scalar::Complex);
        }
        Err(type_error(format!("must be a number, not {}", self.type_name())))
    }

    /// An integer that may exceed `i64::MAX`.
    fn to_wide_int(&self) -> Py<Scalar> {
        let mut overflow = 0;
        // SAFETY: the object is an integer.
        let value = unsafe { ffi::PyLong_AsLongLongAndOverflow(self.as_ptr(), &raw mut overflow) };
        if overflow == 0 {
            return if value == -1 {
                Raised::pending().map_or(Ok(Scalar::Int(value)), Err)
            } else {
                Ok(Scalar::Int(value))
            };
        }
        // SAFETY: as above.
        let wide = unsafe { ffi::PyLong_AsUnsignedLongLong(self.as_ptr()) };
        match Raised::pending() {
            None => Ok(Scalar::UInt(wide)),
            Some(raised) => {
                raised.clear();
                Err(overflow_error("int too big to convert"))
            }
        }
    }

    /// The items of a tuple or list; anything else iterable is copied into a tuple first.
    pub(crate) fn items(&self) -> Py<Vec<Self>> {
        // SAFETY: the sequence is live; items are counted at once.
        unsafe {
            if self.is_tuple() {
                let count = ffi::PyTuple_Size(self.as_ptr());
                return Ok((0..count)
                    .map(|index| Self::borrowed(ffi::PyTuple_GetItem(self.as_ptr(), index)))
                    .collect());
            }
            if self.is_list() {
                let count = ffi::PyList_Size(self.as_ptr());
                return Ok((0..count)
                    .map(|index| Self::borrowed(ffi::PyList_GetItem(self.as_ptr(), index)))
                    .collect());
            }
        }
        self.iter()?.collect()
    }

    /// The number of items of a tuple or list, without a check of the type beyond that.
    pub(crate) fn sequence_len(&self) -> usize {
        // SAFETY: the C API checks the type.
        let length = unsafe {
            if self.is_tuple() {
                ffi::PyTuple_Size(self.as_ptr())
            } else {
                ffi::PyList_Size(self.as_ptr())
            }
        };
        length.max(0) as usize
    }

    /// An item of a tuple or list, counted.
    pub(crate) fn sequence_item(&self, index: usize) -> Py<Self> {
        let index = index as ffi::Py_ssize_t;
        // SAFETY: the C API checks type and range; the borrowed item is counted at once.
        unsafe {
            let item = if self.is_tuple() {
                ffi::PyTuple_GetItem(self.as_ptr(), index)
            } else {
                ffi::PyList_GetItem(self.as_ptr(), index)
            };
            if item.is_null() { Err(Raised::already()) } else { Ok(Self::borrowed(item)) }
        }
    }

    /// `len(self)`.
    pub(crate) fn len(&self) -> Py<usize> {
        // SAFETY: the object is live.
        let length = unsafe { ffi::PyObject_Size(self.as_ptr()) };
        if length < 0 { Err(Raised::already()) } else { Ok(length as usize) }
    }
}

/// Rewords CPython's overflow as PyTorch's.
#[cold]
fn overflow(raised: Raised) -> Raised {
    // SAFETY: reads a static of the interpreter.
    if raised.matches(unsafe { ffi::PyExc_OverflowError }) {
        raised.clear();
        return value_error("Overflow when unpacking long long");
    }
    raised
}

/// Imports a module.
pub(crate) fn import(module: &Name) -> Py<Obj> {
    // SAFETY: the name is a string object.
    unsafe { Obj::owned(ffi::PyImport_Import(module.as_ptr())) }
}

/// The module if it is loaded already.
pub(crate) fn imported(module: &Name) -> Py<Option<Obj>> {
    // SAFETY: `sys.modules` is borrowed and alive.
    let modules = unsafe { Obj::borrowed(ffi::PyImport_GetModuleDict()) };
    modules.dict_get(&module.obj())
}

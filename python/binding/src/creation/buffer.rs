//! Objects with the buffer protocol, and `frombuffer`.

use crate::args::parser;
use crate::py::errors::{Raised, runtime_error, value_error};
use crate::py::obj::check;
use crate::py::{Args, Obj, Py, ffi, gil, name};
use crate::tensor;
use corten_core::DType;
use corten_core::geometry::{ForeignMemory, ForeignStrides};
use corten_ops::Tensor;
use std::ffi::{CStr, c_int};
use std::sync::atomic::AtomicBool;

/// A view of an object's memory, held until dropped.
pub(crate) struct Buffer(Box<ffi::Py_buffer>);

// SAFETY: the view is only released, with the lock held.
unsafe impl Send for Buffer {}
// SAFETY: as above; nothing is reachable through a shared reference but constant numbers.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// Asks for contiguous memory, writable where possible.
    pub(crate) fn new(object: &Obj) -> Py<Self> {
        Self::with_flags(object, ffi::PyBUF_SIMPLE)
    }

    fn with_flags(object: &Obj, flags: c_int) -> Py<Self> {
        let mut view = Box::new(ffi::Py_buffer::new());
        // SAFETY: the object is live; the view stays at its address, and is released on drop.
        unsafe {
            let writable = flags | ffi::PyBUF_WRITABLE;
            if ffi::PyObject_GetBuffer(object.as_ptr(), &raw mut *view, writable) == 0 {
                return Ok(Self(view));
            }
            Raised::already().clear();
            check(ffi::PyObject_GetBuffer(object.as_ptr(), &raw mut *view, flags))?;
        }
        Ok(Self(view))
    }

    /// Start, length in bytes, and whether it is read-only.
    pub(crate) fn memory(&self) -> (*mut u8, usize, bool) {
        (self.0.buf.cast(), self.0.len.max(0) as usize, self.0.readonly != 0)
    }

    /// The dtype of the elements, from their format in the language of `struct`.
    fn dtype(&self) -> Py<DType> {
        if self.0.format.is_null() {
            return Ok(DType::UInt8);
        }
        // SAFETY: the exporter keeps the format as long as the view.
        let format = unsafe { CStr::from_ptr(self.0.format) }.to_string_lossy();
        let (order, letters) = match format.as_bytes().first() {
            Some(b'<' | b'>' | b'=' | b'@' | b'!') => format.split_at(1),
            _ => ("", &*format),
        };
        let itemsize = usize::try_from(self.0.itemsize).unwrap_or(0);
        let Some(dtype) = dtype_of_format(letters, itemsize) else {
            return Err(value_error(format!(
                "could not infer a dtype from buffer format '{format}'. Please pass an explicit \
                 dtype= to torch.asarray."
            )));
        };
        let foreign = if cfg!(target_endian = "big") { "<" } else { ">" };
        if itemsize > 1 && (order == foreign || order == "!" && foreign == ">") {
            return Err(value_error(format!(
                "buffer has non-native byte order (format '{format}'), which torch.asarray cannot \
                 reinterpret without copying. Convert the buffer to native byte order first (e.g. \
                 with numpy's arr.byteswap().view(arr.dtype.newbyteorder()))."
            )));
        }
        Ok(dtype)
    }

    /// `count` elements from byte `offset` on, as a tensor that keeps the view.
    fn into_tensor(self, dtype: DType, offset: i64, count: i64) -> Py<Tensor> {
        let (data, length, read_only) = self.memory();
        let memory = ForeignMemory {
            address: data.addr(),
            byte_offset: offset as u64,
            sizes: &[count],
            strides: ForeignStrides::Contiguous,
            itemsize: dtype.itemsize(),
            available: Some(length),
        };
        let geometry = memory.check().map_err(|error| memory.explain(error))?;
        tensor::over_foreign(Box::new(self), data, &geometry, dtype, read_only)
    }
}

/// The dtype of a letter of `struct`, or of two for complex numbers. The size decides among integers:
/// some libraries use letters for others than the sizes that `struct` gives them.
fn dtype_of_format(letters: &str, itemsize: usize) -> Option<DType> {
    Some(match (letters, itemsize) {
        ("?", 1) => DType::Bool,
        ("c", 1) => DType::UInt8,
        ("b" | "h" | "i" | "l" | "q" | "n", 1) => DType::Int8,
        ("b" | "h" | "i" | "l" | "q" | "n", 2) => DType::Int16,
        ("b" | "h" | "i" | "l" | "q" | "n", 4) => DType::Int32,
        ("b" | "h" | "i" | "l" | "q" | "n", 8) => DType::Int64,
        ("B" | "H" | "I" | "L" | "Q" | "N", 1) => DType::UInt8,
        ("B" | "H" | "I" | "L" | "Q" | "N", 2) => DType::UInt16,
        ("B" | "H" | "I" | "L" | "Q" | "N", 4) => DType::UInt32,
        ("B" | "H" | "I" | "L" | "Q" | "N", 8) => DType::UInt64,
        ("e", 2) => DType::Float16,
        ("f", 4) => DType::Float32,
        ("d", 8) => DType::Float64,
        ("Zf", 8) => DType::Complex64,
        ("Zd", 16) => DType::Complex128,
        _ => return None,
    })
}

/// All of an object's buffer, with the dtype of its format unless one is given.
pub(super) fn asarray_buffer(object: &Obj, dtype: Option<DType>) -> Py<Tensor> {
    let typed = || Buffer::with_flags(object, ffi::PyBUF_ND | ffi::PyBUF_FORMAT);
    let (buffer, dtype) = match dtype {
        Some(dtype) => (Buffer::new(object).map_err(not_contiguous)?, dtype),
        None => {
            let buffer = typed().map_err(not_contiguous)?;
            let dtype = buffer.dtype()?;
            (buffer, dtype)
        }
    };
    let count = count_elements(buffer.memory().1, dtype.itemsize(), -1, 0)?;
    buffer.into_tensor(dtype, 0, count)
}

#[cold]
fn not_contiguous(raised: Raised) -> Raised {
    raised.clear();
    runtime_error(
        "could not retrieve a contiguous buffer from the given object (non-contiguous buffers are \
         not supported)",
    )
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if gil::is_alive() {
            // SAFETY: the view was filled by `PyObject_GetBuffer` and is released once.
            gil::attach(|| unsafe { ffi::PyBuffer_Release(&raw mut *self.0) });
        }
    }
}

/// `frombuffer(buffer, *, dtype, count=-1, offset=0, requires_grad=False)`.
pub(super) fn frombuffer(module: &Obj, args: Args<'_>) -> Py<Obj> {
    if let Some(done) = crate::overrides::through_modes(module, name!("frombuffer"), args) {
        return done;
    }
    let parser = parser!(
        "frombuffer(any buffer, *, ScalarType dtype, int count=-1, int offset=0, bool requires_grad=False)"
    );
    let bound = parser.parse(None, args)?;
    let dtype = crate::args::dtype_arg(bound.object(1)?)?;
    let (count, offset) = (bound.int(2)?, bound.int(3)?);
    // SAFETY: the object is live.
    if unsafe { ffi::PyObject_CheckBuffer(bound.object(0)?.as_ptr()) } == 0 {
        return Err(value_error("object does not implement Python buffer protocol."));
    }
    let buffer = Buffer::new(bound.object(0)?).map_err(not_contiguous)?;
    let (_, length, readonly) = buffer.memory();
    let elements = count_elements(length, dtype.itemsize(), count, offset)?;
    if readonly {
        warn_read_only()?;
    }
    let made = buffer.into_tensor(dtype, offset, elements)?;
    tensor::set_requires_grad(&made, bound.bool(4)?)?;
    tensor::wrap(&made)
}

/// The number of elements of a buffer from `offset` on, of which there are at least `count`; all of
/// them for a negative `count`.
fn count_elements(length: usize, itemsize: usize, count: i64, offset: i64) -> Py<i64> {
    if length == 0 || count == 0 {
        return Err(value_error(format!(
            "both buffer length ({length}) and count ({count}) must not be 0"
        )));
    }
    let Some(start) = usize::try_from(offset).ok().filter(|&start| start < length) else {
        return Err(value_error(format!(
            "offset ({offset} bytes) must be non-negative and no greater than buffer length \
             ({length} bytes) minus 1"
        )));
    };
    let rest = length - start;
    let Ok(wanted) = usize::try_from(count) else {
        if !rest.is_multiple_of(itemsize) {
            return Err(value_error(format!(
                "buffer length ({rest} bytes) after offset ({offset} bytes) must be a multiple of \
                 element size ({itemsize})"
            )));
        }
        return Ok((rest / itemsize) as i64);
    };
    if wanted.checked_mul(itemsize).is_none_or(|wanted| wanted > rest) {
        return Err(value_error(format!(
            "requested buffer length ({count} * {itemsize} bytes) after offset ({offset} bytes) \
             must not be greater than actual buffer length ({length} bytes)"
        )));
    }
    Ok(count)
}

fn warn_read_only() -> Py<()> {
    static WARNED: AtomicBool = AtomicBool::new(false);
    if !corten_core::is_first_warning(&WARNED) {
        return Ok(());
    }
    crate::py::errors::warn(
        "The given buffer is not writable, and PyTorch does not support non-writable tensors. This \
         means you can write to the underlying (supposedly non-writable) buffer using the tensor. \
         You may want to copy the buffer to protect its data or make it writable before converting \
         it to a tensor. This type of warning will be suppressed for the rest of this program.",
    )
}

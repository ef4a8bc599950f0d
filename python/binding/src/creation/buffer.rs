//! Objects with the buffer protocol, and `frombuffer`.

use crate::args::parser;
use crate::py::errors::{Raised, value_error};
use crate::py::obj::check;
use crate::py::{Args, Obj, Py, ffi, gil};
use crate::tensor;
use corten_core::Device;
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
        let mut view = Box::new(ffi::Py_buffer::new());
        // SAFETY: the object is live; the view stays at its address, and is released on drop.
        unsafe {
            if ffi::PyObject_GetBuffer(object.as_ptr(), &raw mut *view, ffi::PyBUF_WRITABLE) == 0 {
                return Ok(Self(view));
            }
            Raised::already().clear();
            check(ffi::PyObject_GetBuffer(object.as_ptr(), &raw mut *view, ffi::PyBUF_SIMPLE))?;
        }
        Ok(Self(view))
    }

    /// Start, length in bytes, and whether it is read-only.
    pub(crate) fn memory(&self) -> (*mut u8, usize, bool) {
        (self.0.buf.cast(), self.0.len as usize, self.0.readonly != 0)
    }
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
pub(super) fn frombuffer(_module: &Obj, args: Args<'_>) -> Py<Obj> {
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
    let buffer = Buffer::new(bound.object(0)?)?;
    let (data, length, readonly) = buffer.memory();
    let elements = count_elements(length as i64, dtype.itemsize() as i64, count, offset)?;
    if readonly {
        warn_read_only()?;
    }
    let nbytes = elements as usize * dtype.itemsize();
    let start = data.wrapping_add(offset as usize);
    let owner = Box::new(buffer);
    let made = tensor::from_owner(owner, start, nbytes, dtype, Device::CPU, &[elements], &[1])?;
    tensor::set_requires_grad(&made, bound.bool(4)?)?;
    tensor::wrap(&made)
}

fn count_elements(length: i64, itemsize: i64, count: i64, offset: i64) -> Py<i64> {
    if length == 0 || count == 0 {
        return Err(value_error(format!(
            "both buffer length ({length}) and count ({count}) must not be 0"
        )));
    }
    if offset < 0 || offset >= length {
        return Err(value_error(format!(
            "offset ({offset} bytes) must be non-negative and no greater than buffer length \
             ({length} bytes) minus 1"
        )));
    }
    if count > 0 && offset + count * itemsize > length {
        return Err(value_error(format!(
            "requested buffer length ({count} * {itemsize} bytes) after offset ({offset} bytes) \
             must not be greater than actual buffer length ({length} bytes)"
        )));
    }
    if count < 0 && (length - offset) % itemsize != 0 {
        return Err(value_error(format!(
            "buffer length ({} bytes) after offset ({offset} bytes) must be a multiple of element \
             size ({itemsize})",
            length - offset
        )));
    }
    Ok(if count < 0 { (length - offset) / itemsize } else { count })
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

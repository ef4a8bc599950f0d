//! Arrays to tensors and back, sharing memory.

use super::api::{self, WRITEABLE};
use crate::args::parser;
use crate::py::errors::{runtime_error, type_error, value_error};
use crate::py::gil::Shared;
use crate::py::{Args, Obj, Py, ffi, method, name};
use crate::tensor;
use corten_core::geometry::{ForeignError, ForeignMemory, ForeignStrides};
use corten_core::{DType, Dims};
use corten_ops::Tensor;
use std::sync::atomic::AtomicBool;

const SUPPORTED: &str = "The only supported types are: float64, float32, float16, complex64, \
    complex128, int64, int32, int16, int8, uint64, uint32, uint16, uint8, and bool.";

/// The dtype of an array or of one of NumPy's scalars.
pub(crate) fn dtype_of(object: &Obj) -> Py<DType> {
    let array = if api::is_array(object) { object.clone() } else { scalar_to_array(object)? };
    let Some(head) = api::array(&array) else {
        return Err(type_error(format!("expected np.ndarray (got {})", object.type_name())));
    };
    // SAFETY: an array has a dtype object.
    api::dtype(unsafe { (*head.descr).type_num }).ok_or_else(|| unsupported(&array))
}

#[cold]
fn unsupported(array: &Obj) -> crate::py::Raised {
    let described = array
        .attr(name!("dtype"))
        .and_then(|dtype| dtype.attr(name!("type")))
        .map(|ty| format!("numpy.{}", crate::py::obj::type_name(&ty).replace("numpy.", "")));
    match described {
        Ok(text) => type_error(format!("can't convert np.ndarray of type {text}. {SUPPORTED}")),
        Err(raised) => raised,
    }
}

/// `numpy.asarray(object)`.
pub(crate) fn scalar_to_array(object: &Obj) -> Py<Obj> {
    crate::py::convert::import(name!("numpy"))?.call_method(name!("asarray"), &[object])
}

/// A tensor over an array's memory, which it keeps alive.
pub(crate) fn from_array(object: &Obj, warn_read_only: bool) -> Py<Tensor> {
    let Some(array) = api::array(object) else {
        return Err(type_error(format!("expected np.ndarray (got {})", object.type_name())));
    };
    if array.flags & WRITEABLE == 0 && warn_read_only {
        warn_about_read_only()?;
    }
    // SAFETY: the array describes its own memory: `nd` sizes and strides, and a dtype object.
    let (sizes, strides, descr) = unsafe {
        let nd = array.nd as usize;
        let list = |ptr: *const isize| {
            if nd == 0 { &[][..] } else { std::slice::from_raw_parts(ptr, nd) }
        };
        (list(array.dimensions), list(array.strides), &*array.descr)
    };
    let dtype = api::dtype(descr.type_num).ok_or_else(|| unsupported(object))?;
    if descr.byteorder as u8 == b'>' {
        return Err(value_error(
            "given numpy array has byte order different from the native byte order. Conversion \
             between byte orders is currently not supported.",
        ));
    }
    let sizes: Dims = sizes.iter().map(|&size| size as i64).collect();
    let strides: Dims = strides.iter().map(|&stride| stride as i64).collect();
    if strides.iter().any(|&stride| stride < 0) {
        return Err(value_error(NEGATIVE_STRIDES));
    }
    let memory = ForeignMemory {
        address: array.data.addr(),
        byte_offset: 0,
        sizes: &sizes,
        strides: ForeignStrides::Bytes(&strides),
        itemsize: dtype.itemsize(),
        available: None,
    };
    let geometry = memory.check().map_err(|error| match error {
        ForeignError::OddStride => value_error(ODD_STRIDES),
        other => memory.explain(other).into(),
    })?;
    let owner = Box::new(Shared::new(object.clone()));
    tensor::over_foreign(owner, array.data, &geometry, dtype, array.flags & WRITEABLE == 0)
}

const NEGATIVE_STRIDES: &str = "At least one stride in the given numpy array is negative, and tensors \
    with negative strides are not currently supported. (You can probably work around this by making a \
    copy of your array  with array.copy().) ";
const ODD_STRIDES: &str = "given numpy array strides not a multiple of the element byte size. Copy the \
    numpy array to reallocate the memory.";

/// Warns once per process.
fn warn_about_read_only() -> Py<()> {
    static WARNED: AtomicBool = AtomicBool::new(false);
    if !corten_core::is_first_warning(&WARNED) {
        return Ok(());
    }
    crate::py::errors::warn(
        "The given NumPy array is not writable, and PyTorch does not support non-writable tensors. \
         This means writing to this tensor will result in undefined behavior. You may want to copy \
         the array to protect its data or make it writable before converting it to a tensor. This \
         type of warning will be suppressed for the rest of this program.",
    )
}

/// An array over the memory that a tensor has now, which it keeps alive.
pub(crate) fn to_array(object: &Obj, force: bool) -> Py<Obj> {
    let value = tensor::expect(object)?;
    if !value.device().is_cpu() && !force {
        return Err(type_error(format!(
            "can't convert {} device type tensor to numpy. Use Tensor.cpu() to copy the tensor to \
             host memory first.",
            value.device()
        )));
    }
    if value.layout() != corten_core::Layout::Strided {
        return Err(type_error(format!(
            "can't convert {} layout tensor to numpy. Use Tensor.to_dense() first.",
            value.layout()
        )));
    }
    if tensor::requires_grad(value) && corten_core::grad_mode_enabled() && !force {
        return Err(runtime_error(
            "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.",
        ));
    }
    if value.is_conj() && !force {
        return Err(runtime_error(
            "Can't call numpy() on Tensor that has conjugate bit set. Use \
             tensor.resolve_conj().numpy() instead.",
        ));
    }
    if value.is_neg() && !force {
        return Err(runtime_error(
            "Can't call numpy() on Tensor that has negative bit set. Use \
             tensor.resolve_neg().numpy() instead.",
        ));
    }
    if force && (tensor::requires_grad(value) || value.is_conj() || value.is_neg()) {
        let plain = tensor::dense_copy(value)?;
        return to_array(&tensor::wrap(&plain)?, false);
    }
    let Some(type_num) = api::type_num(value.dtype()) else {
        return Err(type_error(format!(
            "Got unsupported ScalarType {}",
            value.dtype().type_name()
        )));
    };
    tensor::forbid_resizing(value);
    let lent = tensor::lend(value)?;
    let itemsize = value.itemsize() as isize;
    let sizes: Vec<isize> = lent.geometry.sizes.iter().map(|&size| size as isize).collect();
    let strides = lent.geometry.strides.iter();
    let strides: Vec<isize> =
        strides.map(|&stride| (stride as isize).wrapping_mul(itemsize)).collect();
    // An empty tensor may have no memory at all, which NumPy would take as a wish to allocate.
    let mut data = lent.first;
    if data.is_null() {
        data = std::ptr::dangling_mut::<u128>().cast();
    }
    let owner = crate::lent::wrap(lent.memory, lent.writable)?;
    // SAFETY: the geometry lies within the memory, which its object keeps alive.
    unsafe { api::new_array(type_num, &sizes, &strides, data, lent.writable, &owner) }
}

/// The functions of the module.
pub(crate) fn functions() -> Vec<ffi::PyMethodDef> {
    vec![method!("from_numpy", |_m: &Obj, args: Args<'_>| {
        let bound = parser!("from_numpy(any ndarray)").parse(None, args)?;
        let array = bound.object(0)?;
        tensor::wrap(&tensor::lift(from_array(array, true)?)?)
    })]
}

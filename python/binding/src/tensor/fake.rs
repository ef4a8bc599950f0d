//! Tensors without memory that stand for others: `FakeTensor`, whose class is Python's.
//!
//! Such a tensor has the device, the sizes and the strides of what it stands for, and a storage whose
//! memory nobody may enter. A meta tensor beside it, which Python keeps, is what operators compute on.

use super::object::{expect, get, this, wrap_as};
use super::subclass::{mark_dispatch, subclass_type};
use crate::py::errors::type_error;
use crate::py::{Args, Obj, Py, ffi, method};
use crate::types;
use corten_core::tls::local_include;
use corten_core::{DataPtr, DispatchKey, KeySet, Storage, TensorBase};
use corten_ops::{IValue, Stack, Tensor, registry, returns};

/// The rows of the method table.
pub(crate) fn rows() -> Vec<ffi::PyMethodDef> {
    vec![
        method!("_make_fake", make, ffi::METH_STATIC),
        method!("_set_fake_geometry", set_geometry),
        method!("_is_wrapped_number", |object: &Obj, _a: Args<'_>| {
            Ok(Obj::bool(this(object).is_wrapped_number()))
        }),
    ]
}

/// `_make_fake(cls, elem, device, source)`: a tensor of the class with the geometry of the meta tensor
/// `elem`, on a device. It shares the storage of `source`, a tensor made here, where one is given.
fn make(_module: &Obj, args: Args<'_>) -> Py<Obj> {
    let [class, elem, device, source] = args.positional else {
        return Err(type_error("_make_fake() takes a class, a tensor, a device and a source"));
    };
    let ty = subclass_type(class)?;
    let elem = expect(elem)?;
    let device = types::device::from_object(device)?;
    let bits = KeySet::of(&[DispatchKey::Conjugate, DispatchKey::Negative]);
    let keys = KeySet::for_tensor(device.device_type, elem.layout(), elem.dtype())
        .union(elem.key_set() & bits);
    let (sizes, strides, offset) = (elem.sizes(), elem.strides(), elem.storage_offset());
    let made: Tensor = match get(source) {
        // A view shares the version counter, too.
        Some(source) => {
            let keys = source.key_set().union(keys) - (bits - keys);
            source.base().as_view_with(elem.dtype(), keys, &sizes, &strides, offset)?.into()
        }
        None => {
            let storage = Storage::from_data_ptr(DataPtr::null(device), elem.storage()?.nbytes());
            storage.set_access_error(Some(NO_DATA.to_owned()));
            TensorBase::new_with_storage(storage, elem.dtype(), keys, &sizes, &strides, offset)?
                .into()
        }
    };
    mark_dispatch(class, &made)?;
    wrap_as(ty, made)
}

/// What reading such a tensor says.
const NO_DATA: &str = "Cannot access the data of a FakeTensor: it stands for a tensor of its sizes, dtype \
     and device, and has no elements";

/// `tensor._set_fake_geometry(elem, source)`: the sizes and strides of `elem`, and the storage of
/// `source` where it is given: what an operator that changes them in place leaves.
fn set_geometry(object: &Obj, args: Args<'_>) -> Py<Obj> {
    let [elem, source] = args.positional else {
        return Err(type_error("_set_fake_geometry() takes a tensor and a source"));
    };
    let (tensor, elem) = (this(object), expect(elem)?);
    if let Some(source) = get(source) {
        tensor.set_storage(source.storage()?)?;
    }
    tensor.set_geometry(&elem.sizes(), &elem.strides(), elem.storage_offset())?;
    Ok(Obj::none())
}

/// Shows a tensor that was made of data to the dispatch modes, which may put another one in its place.
/// Nothing happens where none is active.
pub(crate) fn lift(made: Tensor) -> Py<Tensor> {
    const KEYS: KeySet = KeySet::of(&[DispatchKey::Functionalize, DispatchKey::Python]);
    if !local_include().has_any(KEYS) {
        return Ok(made);
    }
    let Some(op) = registry::find("aten::lift_fresh") else { return Ok(made) };
    let mut stack: Stack = std::iter::once(IValue::Tensor(made)).collect();
    op.call_boxed(&mut stack)?;
    Ok(returns::<Tensor>(stack)?)
}

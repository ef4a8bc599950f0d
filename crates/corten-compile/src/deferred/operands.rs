//! The tensors of a call: which can be recorded, and what they are on the device `meta`.

use crate::deferred::facts::Facts;
use corten_core::{
    ADINPLACEORVIEW, AUTOCAST_KEYS, AUTOGRAD_KEYS, DType, DataPtr, Device, DeviceType, DispatchKey,
    KeySet, Layout, Programs, Result, Scalar, Storage, TensorBase, run_programs,
};
use corten_ops::schema::Schema;
use corten_ops::{IValue, Stack, Tensor};
use smallvec::SmallVec;

/// A tensor of a call, its storage, and what stands for it on the device `meta`.
pub(super) struct Given {
    pub(super) tensor: Tensor,
    pub(super) storage: Storage,
    pub(super) meta: Tensor,
    pub(super) writes: bool,
}

/// The tensors of a call, in order.
pub(super) type AllGiven = SmallVec<[Given; 4]>;

/// Keys that say nothing about where elements are and how they are to be read.
const USUAL: KeySet = KeySet::of(&[DispatchKey::CPU])
    .union(AUTOGRAD_KEYS)
    .union(AUTOCAST_KEYS)
    .union(ADINPLACEORVIEW);

/// Whether a tensor is strided, in host memory, and nothing else.
pub(super) fn is_recordable(tensor: &TensorBase) -> bool {
    tensor.device().is_cpu()
        && tensor.layout() == Layout::Strided
        && tensor.has_storage()
        && USUAL.contains(tensor.key_set())
}

/// Collects the tensors of a call and makes the same call on the device `meta`.
///
/// # Errors
/// The reason why it cannot be recorded.
pub(super) fn collect(
    stack: &Stack,
    facts: &Facts,
    given: &mut AllGiven,
    meta: &mut Stack,
) -> Result<(), &'static str> {
    for (index, value) in stack.iter().enumerate() {
        let writes = facts.writes(index);
        let on_meta = match value {
            IValue::Tensor(tensor) if tensor.defined() => {
                IValue::Tensor(take(tensor, writes, given)?)
            }
            IValue::TensorList(list) => {
                let taken: Result<Vec<_>, _> =
                    list.iter().map(|tensor| take(tensor, writes, given)).collect();
                IValue::TensorList(taken?)
            }
            IValue::OptionalTensorList(list) => {
                let take_one = |tensor: &Option<Tensor>| {
                    tensor.as_ref().map(|tensor| take(tensor, writes, given)).transpose()
                };
                let mut take_one = take_one;
                let taken: Result<Vec<_>, _> = list.iter().map(&mut take_one).collect();
                IValue::OptionalTensorList(taken?)
            }
            IValue::Device(device) if device.is_cpu() => IValue::Device(meta_device()),
            IValue::None if facts.device == Some(index as u8) => IValue::Device(meta_device()),
            IValue::Generator(_) | IValue::Storage(_) | IValue::Object(_) | IValue::Tuple(_) => {
                return Err("it is given more than tensors and numbers");
            }
            IValue::Device(_) => return Err("another device or layout"),
            other => other.clone(),
        };
        meta.push(on_meta);
    }
    check_overlap(given)
}

fn meta_device() -> Device {
    Device::new(DeviceType::Meta)
}

fn take(tensor: &Tensor, writes: bool, given: &mut AllGiven) -> Result<Tensor, &'static str> {
    if !tensor.defined() || !is_recordable(tensor.base()) {
        return Err("a tensor that is not dense, strided and in host memory");
    }
    let storage = tensor.storage().map_err(|_| "a tensor without a storage")?;
    let meta = on_meta(tensor, &storage).map_err(|_| "a tensor without a shape on meta")?;
    given.push(Given { tensor: tensor.clone(), storage, meta: meta.clone(), writes });
    Ok(meta)
}

/// A tensor like this one on the device `meta`, with a storage of its own.
fn on_meta(tensor: &Tensor, storage: &Storage) -> Result<Tensor> {
    let nothing = Storage::from_data_ptr(DataPtr::null(meta_device()), storage.nbytes());
    let keys = KeySet::from_key(DispatchKey::Meta);
    let (sizes, strides) = (tensor.sizes(), tensor.strides());
    let offset = tensor.storage_offset();
    let meta =
        TensorBase::new_with_storage(nothing, tensor.dtype(), keys, &sizes, &strides, offset)?;
    if tensor.is_wrapped_number() {
        meta.set_wrapped_number(true);
    }
    Ok(meta.into())
}

/// Kernels refuse or resolve operands that overlap with what is written; `meta` does not see them.
fn check_overlap(given: &AllGiven) -> Result<(), &'static str> {
    for (index, written) in given.iter().enumerate().filter(|(_, one)| one.writes) {
        for (other, one) in given.iter().enumerate() {
            let same = written.tensor.is_same(&one.tensor)
                || (written.tensor.sizes() == one.tensor.sizes()
                    && written.tensor.strides() == one.tensor.strides()
                    && written.tensor.storage_offset() == one.tensor.storage_offset()
                    && written.tensor.dtype() == one.tensor.dtype());
            let both = one.writes && other != index;
            if written.storage.ptr_eq(&one.storage) && (both || !same) {
                return Err("its operands overlap with what it writes");
            }
        }
    }
    Ok(())
}

/// The number in a tensor that stands for one of the language in front.
pub(super) fn wrapped_number(tensor: &Tensor, storage: &Storage) -> Option<Scalar> {
    if !tensor.is_wrapped_number() || storage.is_pending() {
        return None;
    }
    match tensor.dtype() {
        DType::Float64 | DType::Int64 => tensor.only_element().ok().flatten(),
        _ => None,
    }
}

/// Runs the programs that must run before a call touches its arguments. Says whether there were any.
///
/// # Errors
/// Those of the programs.
pub(super) fn flush_touched(schema: &Schema, stack: &Stack) -> Result<bool> {
    let mut touched = false;
    for (argument, value) in schema.arguments.iter().zip(stack.iter()) {
        let mut storages = SmallVec::<[Storage; 2]>::new();
        value.for_each_tensor(&mut |tensor| {
            let storage = tensor.defined().then(|| tensor.storage_opt()).flatten();
            storages.extend(storage.filter(Storage::is_pending));
        });
        for storage in storages {
            let pending = storage.pending_programs(argument.is_written());
            touched |= !pending.is_empty();
            run(&pending)?;
        }
    }
    Ok(touched)
}

fn run(programs: &Programs) -> Result<()> {
    if programs.is_empty() { Ok(()) } else { run_programs(programs) }
}

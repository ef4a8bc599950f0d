//! The tensors of a call, and which can be recorded.

use crate::deferred::facts::Facts;
use corten_core::{
    ADINPLACEORVIEW, AUTOCAST_KEYS, AUTOGRAD_KEYS, DType, Device, DispatchKey, KeySet, Layout,
    Programs, Result, Scalar, Storage, TensorBase, run_programs,
};
use corten_ops::schema::Schema;
use corten_ops::{IValue, Stack, Tensor};
use smallvec::SmallVec;

/// A tensor of a call, and its storage.
pub(super) struct Given {
    pub(super) tensor: Tensor,
    pub(super) storage: Storage,
    pub(super) writes: bool,
}

/// The tensors of a call, in order.
pub(super) type AllGiven = SmallVec<[Given; 4]>;

/// Keys that say nothing about where elements are and how they are to be read.
const USUAL: KeySet = KeySet::of(&[DispatchKey::CPU, DispatchKey::CUDA])
    .union(AUTOGRAD_KEYS)
    .union(AUTOCAST_KEYS)
    .union(ADINPLACEORVIEW);

/// Whether a tensor is strided, in the memory of a device, and nothing else.
fn is_recordable(tensor: &TensorBase, device: Device) -> bool {
    tensor.device() == device
        && tensor.layout() == Layout::Strided
        && tensor.has_storage()
        && USUAL.contains(tensor.key_set())
}

/// Collects the tensors of a call on a device. Numbers of the language in front may be in host memory.
///
/// # Errors
/// The reason why it cannot be recorded.
pub(super) fn collect(
    stack: &Stack,
    device: Device,
    facts: &Facts,
    given: &mut AllGiven,
) -> Result<(), &'static str> {
    let mut take = |tensor: &Tensor, writes: bool| take(tensor, device, writes, given);
    for (index, value) in stack.iter().enumerate() {
        let writes = facts.writes(index);
        match value {
            IValue::Tensor(tensor) if tensor.defined() => take(tensor, writes)?,
            IValue::TensorList(list) => {
                list.iter().try_for_each(|tensor| take(tensor, writes))?;
            }
            IValue::OptionalTensorList(list) => {
                list.iter().flatten().try_for_each(|tensor| take(tensor, writes))?;
            }
            IValue::Generator(_) | IValue::Storage(_) | IValue::Object(_) | IValue::Tuple(_) => {
                return Err("it is given more than tensors and numbers");
            }
            IValue::Device(other) if *other != device => {
                return Err("another device or layout");
            }
            _ => {}
        }
    }
    if given.iter().any(|one| one.writes) { check_overlap(given) } else { Ok(()) }
}

/// The GPU of the first tensor that is on one, or else the host.
pub(super) fn gpu_of(stack: &Stack) -> Device {
    let mut found = Device::CPU;
    for value in stack.iter() {
        value.for_each_tensor(&mut |tensor| {
            if found.is_cpu() && tensor.defined() && tensor.device().is_cuda() {
                found = tensor.device();
            }
        });
    }
    found
}

fn take(
    tensor: &Tensor,
    device: Device,
    writes: bool,
    given: &mut AllGiven,
) -> Result<(), &'static str> {
    if !tensor.defined() {
        return Err("a tensor that is not defined");
    }
    let of_host = |storage: &Storage| {
        !writes
            && is_recordable(tensor.base(), Device::CPU)
            && wrapped_number(tensor, storage).is_some()
    };
    let storage = tensor.storage().map_err(|_| "a tensor without a storage")?;
    if !is_recordable(tensor.base(), device) && !of_host(&storage) {
        return Err("a tensor that is not dense, strided and on the device of the call");
    }
    given.push(Given { tensor: tensor.clone(), storage, writes });
    Ok(())
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

//! What a call returns, without its data: from the same call on the device `meta`, or from memory.

use super::facts::Facts;
use super::operands::{AllGiven, Given};
use crate::ir::{Words, mix};
use corten_core::tls::{ThreadState, ThreadStateGuard};
use corten_core::{
    DType, DataPtr, Device, Dims, DispatchKey, KeySet, Result, Storage, TensorBase, default_dtype,
};
use corten_ops::{AnyOp, IValue, Stack, Tensor};
use smallvec::SmallVec;
use std::cell::RefCell;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::rc::Rc;

/// A whole new tensor.
pub(super) struct Shape {
    pub(super) dtype: DType,
    pub(super) sizes: Dims,
    pub(super) strides: Dims,
    pub(super) nbytes: usize,
}

/// A result of a call.
pub(super) enum ResultOf {
    Undefined,
    /// The argument with this number among the tensors.
    Given(usize),
    Fresh(Shape),
}

/// The results of a call.
pub(super) type Results = SmallVec<[ResultOf; 2]>;

/// What is known of a call: its results, or why it cannot be recorded.
pub(super) type Known = Result<Rc<Results>, Refusal>;

/// Why a call is not recorded.
#[derive(Clone, Copy)]
pub(super) enum Refusal {
    /// A result is an argument or lies in the memory of one, as that of `_unsafe_view`: there is nothing to compute.
    Aliases,
    Because(&'static str),
}

impl From<&'static str> for Refusal {
    fn from(reason: &'static str) -> Self {
        Self::Because(reason)
    }
}

type Memory = HashMap<Box<[u64]>, Known, BuildHasherDefault<WordHasher>>;

thread_local! {
    static KNOWN: RefCell<Memory> = RefCell::default();
}

/// More kinds of calls than this are not remembered.
const MOST_KNOWN: usize = 1 << 15;

/// All that the results of a call depend on besides its data.
pub(super) struct Key(Words);

impl Key {
    pub(super) fn of(op: &dyn AnyOp, stack: &Stack) -> Self {
        let mut words = Words::default();
        words.push(std::ptr::from_ref(op.def()).addr() as u64);
        words.push(default_dtype() as u64);
        for value in stack.iter() {
            words.value(value);
            value.for_each_tensor(&mut |tensor| push_tensor(&mut words, tensor));
            if let IValue::OptionalTensorList(list) = value {
                list.iter().for_each(|tensor| words.push(u64::from(tensor.is_some())));
            }
        }
        Self(words)
    }

    /// What is known of such a call.
    pub(super) fn known(&self) -> Option<Known> {
        KNOWN.with_borrow(|known| known.get(self.0.list()).cloned())
    }

    /// Remembers what is known.
    pub(super) fn remember(self, what: &Known) {
        KNOWN.with_borrow_mut(|known| {
            if known.len() >= MOST_KNOWN {
                known.clear();
            }
            known.insert(self.0.list().into(), what.clone());
        });
    }
}

fn push_tensor(words: &mut Words, tensor: &Tensor) {
    if !tensor.defined() {
        words.push(u64::MAX);
        return;
    }
    let (sizes, strides) = (tensor.sizes(), tensor.strides());
    let number = u64::from(tensor.is_wrapped_number());
    let on_gpu = u64::from(tensor.device().is_cuda());
    words.push(on_gpu << 48 | (tensor.dtype() as u64) << 32 | number << 16 | sizes.len() as u64);
    for (&size, &stride) in sizes.iter().zip(&strides) {
        words.push(size as u64);
        words.push(stride as u64);
    }
}

/// Words are mixed as those of structures are.
#[derive(Default)]
struct WordHasher(u64);

impl Hasher for WordHasher {
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = mix(self.0, word);
    }

    fn write_usize(&mut self, word: usize) {
        self.write_u64(word as u64);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// Makes the call on the device `meta`.
pub(super) fn on_meta(
    op: &'static dyn AnyOp,
    stack: &Stack,
    facts: &Facts,
    given: &AllGiven,
) -> Known {
    let metas: Result<SmallVec<[Tensor; 4]>> = given.iter().map(meta_of).collect();
    let metas = metas.map_err(|_| "a tensor without a shape on meta")?;
    let mut meta = meta_stack(stack, facts, &metas);
    let found = {
        let _state = ThreadStateGuard::new(ThreadState::BELOW_MODES);
        op.call_boxed_at(KeySet::from_key(DispatchKey::Meta), &mut meta)
    };
    found.map_err(|_| "its results are not known without its data")?;
    let results = results_of(&meta, given, &metas)?;
    let fails = |result: &ResultOf| match result {
        ResultOf::Undefined => false,
        ResultOf::Given(index) => facts.may_divide_by_zero(stack, given[*index].tensor.dtype()),
        ResultOf::Fresh(shape) => facts.may_divide_by_zero(stack, shape.dtype),
    };
    if results.iter().any(fails) {
        return Err("a divisor may be zero".into());
    }
    Ok(Rc::new(results))
}

/// A tensor like this one on the device `meta`, with a storage of its own.
fn meta_of(given: &Given) -> Result<Tensor> {
    let nothing = Storage::from_data_ptr(DataPtr::null(Device::META), given.storage.nbytes());
    let keys = KeySet::from_key(DispatchKey::Meta);
    let tensor = &given.tensor;
    let (sizes, strides) = (tensor.sizes(), tensor.strides());
    let offset = tensor.storage_offset();
    let meta =
        TensorBase::new_with_storage(nothing, tensor.dtype(), keys, &sizes, &strides, offset)?;
    if tensor.is_wrapped_number() {
        meta.set_wrapped_number(true);
    }
    Ok(meta.into())
}

/// The arguments with tensors of the device `meta` in the place of those of the host.
fn meta_stack(stack: &Stack, facts: &Facts, metas: &[Tensor]) -> Stack {
    let mut metas = metas.iter().cloned();
    let mut next = || metas.next().unwrap_or_default();
    let mut meta = Stack::new();
    for (index, value) in stack.iter().enumerate() {
        meta.push(match value {
            IValue::Tensor(tensor) if tensor.defined() => IValue::Tensor(next()),
            IValue::TensorList(list) => IValue::TensorList(list.iter().map(|_| next()).collect()),
            IValue::OptionalTensorList(list) => {
                let one = |tensor: &Option<Tensor>| tensor.as_ref().map(|_| next());
                IValue::OptionalTensorList(list.iter().map(one).collect())
            }
            IValue::Device(_) => IValue::Device(Device::META),
            IValue::None if facts.device == Some(index as u8) => IValue::Device(Device::META),
            other => other.clone(),
        });
    }
    meta
}

fn results_of(meta: &Stack, given: &AllGiven, metas: &[Tensor]) -> Result<Results, Refusal> {
    let changed = |(one, meta): (&Given, &Tensor)| {
        one.writes
            && (meta.sizes() != one.tensor.sizes()
                || meta.strides() != one.tensor.strides()
                || meta.storage_offset() != one.tensor.storage_offset())
    };
    if given.iter().zip(metas).any(changed) {
        return Err("it changes sizes in place".into());
    }
    let mut results = Results::new();
    let mut storages = SmallVec::<[Storage; 4]>::new();
    for value in meta.iter() {
        let IValue::Tensor(tensor) = value else {
            return Err("its results are not tensors".into());
        };
        if !tensor.defined() {
            results.push(ResultOf::Undefined);
            continue;
        }
        if let Some(index) = metas.iter().position(|meta| meta.is_same(tensor)) {
            if !given[index].writes {
                return Err(Refusal::Aliases);
            }
            results.push(ResultOf::Given(index));
            continue;
        }
        let storage = tensor.storage().map_err(|_| "a result that is not strided")?;
        let is_shared = |other: &Storage| other.ptr_eq(&storage);
        let of_argument = |meta: &Tensor| meta.storage().is_ok_and(|other| is_shared(&other));
        let whole = tensor.key_set().has(DispatchKey::Meta) && !tensor.dtype().is_quantized();
        if !whole || tensor.storage_offset() != 0 || storages.iter().any(is_shared) {
            return Err("a result that is not a whole new tensor".into());
        }
        if metas.iter().any(of_argument) {
            return Err(Refusal::Aliases);
        }
        results.push(ResultOf::Fresh(Shape {
            dtype: tensor.dtype(),
            sizes: tensor.sizes(),
            strides: tensor.strides(),
            nbytes: storage.nbytes(),
        }));
        storages.push(storage);
    }
    Ok(results)
}

/// Whether a call that ran gave what the same call on `meta` says.
pub(super) fn agrees(stack: &Stack, results: &Results, given: &AllGiven) -> bool {
    let one = |value: &IValue, expected: &ResultOf| {
        let IValue::Tensor(tensor) = value else { return false };
        match expected {
            ResultOf::Undefined => !tensor.defined(),
            ResultOf::Given(index) => given[*index].tensor.is_same(tensor),
            ResultOf::Fresh(expected) => {
                let shares =
                    |storage: Storage| given.iter().any(|one| one.storage.ptr_eq(&storage));
                tensor.defined()
                    && tensor.dtype() == expected.dtype
                    && tensor.sizes() == expected.sizes
                    && tensor.strides() == expected.strides
                    && !tensor.storage_opt().is_none_or(shares)
            }
        }
    };
    stack.len() == results.len()
        && stack.iter().zip(results).all(|(value, expected)| one(value, expected))
}

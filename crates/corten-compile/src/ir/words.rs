//! The structure of programs as words.

use super::{Argument, Node, Operand};
use corten_core::Scalar;
use corten_ops::IValue;
use std::sync::Arc;

/// The structure as words, with their hash. Values of different lengths begin with their length, and
/// variants with a tag, so that equal words are equal programs.
#[derive(Clone, Default)]
pub(crate) struct Words {
    pub(super) list: Vec<u64>,
    pub(super) hash: u64,
}

/// Takes a word into a hash.
pub(crate) fn mix(hash: u64, word: u64) -> u64 {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    let mixed = (hash.rotate_left(23) ^ word).wrapping_mul(ODD);
    mixed ^ (mixed >> 29)
}

impl Words {
    pub(crate) fn list(&self) -> &[u64] {
        &self.list
    }

    pub(crate) fn into_list(self) -> Vec<u64> {
        self.list
    }

    pub(super) fn clear(&mut self) {
        self.list.clear();
        self.hash = 0;
    }

    #[inline]
    pub(crate) fn push(&mut self, word: u64) {
        self.list.push(word);
        self.hash = mix(self.hash, word);
    }

    pub(super) fn node(&mut self, node: &Node) {
        self.push(std::ptr::from_ref(node.op.def()).addr() as u64);
        self.push((node.arguments.len() as u64) << 32 | node.results.len() as u64);
        for argument in &node.arguments {
            match argument {
                Argument::Value(value) => self.value(value),
                Argument::Tensor(operand) => self.operand(operand),
                Argument::Number(number) => {
                    self.push(NUMBER << 56);
                    self.scalar(*number);
                }
                Argument::Tensors(list) => {
                    self.push(tag(TENSORS, list.len()));
                    list.iter().for_each(|operand| self.operand(operand));
                }
                Argument::OptionalTensors(list) => {
                    self.push(tag(OPTIONAL_TENSORS, list.len()));
                    list.iter().for_each(|operand| match operand {
                        Some(operand) => self.operand(operand),
                        None => self.push(ABSENT),
                    });
                }
            }
        }
        node.results.iter().for_each(|result| match result {
            Some(operand) => self.operand(operand),
            None => self.push(ABSENT),
        });
    }

    fn operand(&mut self, operand: &Operand) {
        let rank = operand.sizes.len() as u64;
        let number = u64::from(operand.wrapped_number);
        self.push(TENSOR << 56 | number << 48 | rank << 32 | u64::from(operand.buffer.0));
        self.push((operand.dtype as u64) << 48 ^ operand.offset as u64);
        for (&size, &stride) in operand.sizes.iter().zip(&operand.strides) {
            self.push(size as u64);
            self.push(stride as u64);
        }
    }

    pub(crate) fn value(&mut self, value: &IValue) {
        match value {
            IValue::None | IValue::Tensor(_) | IValue::Generator(_) => self.push(tag_of(value)),
            IValue::Double(number) => self.tagged(value, [number.to_bits()]),
            IValue::ComplexDouble(number) => {
                self.tagged(value, [number.re.to_bits(), number.im.to_bits()]);
            }
            IValue::Int(number) => self.tagged(value, [*number as u64]),
            IValue::UInt(number) => self.tagged(value, [*number]),
            IValue::Bool(truth) => self.tagged(value, [u64::from(*truth)]),
            IValue::String(text) => self.tagged(value, words_of(text)),
            IValue::IntList(list) => self.tagged(value, list.iter().map(|&number| number as u64)),
            IValue::DoubleList(list) => {
                self.tagged(value, list.iter().map(|number| number.to_bits()))
            }
            IValue::BoolList(list) => {
                self.tagged(value, list.iter().map(|&truth| u64::from(truth)))
            }
            IValue::Device(device) => {
                self.tagged(value, [device.device_type as u64, device.index as u64]);
            }
            IValue::DType(dtype) => self.tagged(value, [*dtype as u64]),
            IValue::Layout(layout) => self.tagged(value, [*layout as u64]),
            IValue::MemoryFormat(format) => self.tagged(value, [*format as u64]),
            IValue::Storage(storage) => self.tagged(value, [storage.key() as u64]),
            IValue::Object(object) => self.tagged(value, [Arc::as_ptr(object).addr() as u64]),
            IValue::ScalarList(list) => {
                self.push(tag_of(value) | list.len() as u64);
                list.iter().for_each(|&number| self.scalar(number));
            }
            IValue::Tuple(values) => {
                self.push(tag_of(value) | values.len() as u64);
                values.iter().for_each(|value| self.value(value));
            }
            IValue::TensorList(list) => self.push(tag_of(value) | list.len() as u64),
            IValue::OptionalTensorList(list) => self.push(tag_of(value) | list.len() as u64),
        }
    }

    fn scalar(&mut self, number: Scalar) {
        self.value(&IValue::from(number));
    }

    fn tagged(&mut self, value: &IValue, words: impl IntoIterator<Item = u64>) {
        let head = self.list.len();
        self.list.push(0);
        self.list.extend(words);
        self.list[head] = tag_of(value) | (self.list.len() - head - 1) as u64;
        let hash = self.list[head..].iter().fold(self.hash, |hash, &word| mix(hash, word));
        self.hash = hash;
    }
}

const TENSOR: u64 = 1;
const TENSORS: u64 = 2;
const OPTIONAL_TENSORS: u64 = 3;
const ABSENT: u64 = 4 << 56;
const NUMBER: u64 = 5;
/// Tags of values begin here.
const VALUES: u64 = 16;

fn tag(kind: u64, length: usize) -> u64 {
    kind << 56 | length as u64
}

/// The number of the variant, where lengths leave room for it.
fn tag_of(value: &IValue) -> u64 {
    let variant = match value {
        IValue::None => 0,
        IValue::Tensor(_) => 1,
        IValue::Double(_) => 2,
        IValue::ComplexDouble(_) => 3,
        IValue::Int(_) => 4,
        IValue::UInt(_) => 5,
        IValue::Bool(_) => 6,
        IValue::String(_) => 7,
        IValue::IntList(_) => 8,
        IValue::DoubleList(_) => 9,
        IValue::BoolList(_) => 10,
        IValue::TensorList(_) => 11,
        IValue::OptionalTensorList(_) => 12,
        IValue::ScalarList(_) => 13,
        IValue::Device(_) => 14,
        IValue::DType(_) => 15,
        IValue::Layout(_) => 16,
        IValue::MemoryFormat(_) => 17,
        IValue::Generator(_) => 18,
        IValue::Storage(_) => 19,
        IValue::Tuple(_) => 20,
        IValue::Object(_) => 21,
    };
    (VALUES + variant) << 56
}

/// A text as its length and its bytes, eight to a word.
fn words_of(text: &str) -> impl Iterator<Item = u64> {
    let chunks = text.as_bytes().chunks(8).map(|chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        u64::from_le_bytes(word)
    });
    std::iter::once(text.len() as u64).chain(chunks)
}

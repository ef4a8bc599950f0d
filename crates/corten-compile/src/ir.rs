//! The program: calls of operators in program order, over numbered buffers.
//!
//! A program records what the dispatcher was called with, so that a node can always run by its
//! ordinary kernel. Dependencies follow from the buffers that nodes read and write and from the order
//! of nodes; views are operands over one buffer, and an in-place call is a node that writes it.

mod words;

use corten_core::{DType, Device, Dims, DispatchKey, KeySet, Result, Scalar, Storage, TensorBase};
use corten_ops::{AnyOp, IValue, Tensor};
use smallvec::SmallVec;
use std::ops::Range;
use std::sync::Arc;
pub(crate) use words::{Words, mix};

/// The number of a buffer in its program.
///
/// ```
/// use corten_compile::ir::BufferId;
///
/// assert_eq!(BufferId(3).index(), 3);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BufferId(pub u32);

impl BufferId {
    /// The index of the buffer.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// What a buffer is to those outside of the program.
///
/// ```
/// use corten_compile::ir::Role;
///
/// assert_ne!(Role::Output, Role::Internal);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// It had memory before the program. Nodes may write it, too.
    Input,
    /// It had memory before the program, and nobody else will read it.
    Consumed,
    /// It gets its memory from the program, and somebody else holds it.
    Output,
    /// It gets its memory from the program, and nobody else will read it.
    Internal,
}

impl Role {
    /// Whether its memory may go where the program uses it no more.
    pub(crate) fn ends_in_program(self) -> bool {
        matches!(self, Self::Consumed | Self::Internal)
    }

    /// Whether it had memory before the program.
    pub(crate) fn is_given(self) -> bool {
        matches!(self, Self::Input | Self::Consumed)
    }
}

/// A storage that the program reads or writes.
///
/// ```
/// use corten::core::{Device, Storage};
/// use corten_compile::ir::{Buffer, Role};
///
/// let buffer = Buffer { storage: Storage::new(16, Device::CPU)?, role: Role::Input };
/// assert_eq!(buffer.storage.nbytes(), 16);
/// # Ok::<(), corten::Error>(())
/// ```
#[derive(Clone)]
pub struct Buffer {
    /// The storage. That of an output or internal buffer has its size, and no memory until the program ran.
    pub storage: Storage,
    /// What it is to those outside.
    pub role: Role,
}

impl Buffer {
    /// What plans depend on: the role, and the device.
    fn word(&self) -> u64 {
        let device = self.storage.device();
        let place = (device.device_type as u64) << 8 | u64::from(device.index as u8);
        (if device.is_cpu() { 0 } else { place << 8 }) | self.role as u64
    }
}

/// The keys of a strided tensor on a device.
pub(crate) fn keys_of(device: Device) -> KeySet {
    let key = if device.is_cuda() { DispatchKey::CUDA } else { DispatchKey::CPU };
    KeySet::from_key(key)
}

/// A tensor over a buffer: what a strided tensor is, without the storage.
///
/// ```
/// use corten::prelude::*;
/// use corten_compile::ir::{BufferId, Operand};
///
/// # fn main() -> Result<()> {
/// let x = tensor![[1.0, 2.0], [3.0, 4.0]]?;
/// let operand = Operand::of(x.i(1)?.base(), BufferId(0));
/// assert_eq!((operand.offset, operand.bytes()), (2, 8..16));
/// assert_eq!(operand.tensor(&x.storage()?)?.to_vec::<f32>()?, [3.0, 4.0]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Operand {
    /// The buffer.
    pub buffer: BufferId,
    /// The dtype.
    pub dtype: DType,
    /// The sizes.
    pub sizes: Dims,
    /// The strides, in elements.
    pub strides: Dims,
    /// The first element.
    pub offset: i64,
    /// Whether it stands for a number of the language in front, which takes part in promotion of dtypes by its
    /// category alone.
    pub wrapped_number: bool,
}

impl Operand {
    /// A strided tensor as it is now.
    pub fn of(tensor: &TensorBase, buffer: BufferId) -> Self {
        Self {
            buffer,
            dtype: tensor.dtype(),
            sizes: tensor.sizes(),
            strides: tensor.strides(),
            offset: tensor.storage_offset(),
            wrapped_number: tensor.is_wrapped_number(),
        }
    }

    /// The tensor over a storage.
    ///
    /// # Errors
    /// When it does not lie within the storage.
    pub fn tensor(&self, storage: &Storage) -> Result<Tensor> {
        let keys = keys_of(storage.device());
        let tensor = TensorBase::new_with_storage(
            storage.clone(),
            self.dtype,
            keys,
            &self.sizes,
            &self.strides,
            self.offset,
        )?;
        if self.wrapped_number {
            tensor.set_wrapped_number(true);
        }
        Ok(tensor.into())
    }

    /// The number of elements.
    pub fn numel(&self) -> i64 {
        self.sizes.iter().product()
    }

    /// The bytes of the buffer from the first element to the last.
    pub fn bytes(&self) -> Range<i64> {
        let size = self.dtype.itemsize() as i64;
        if self.numel() == 0 {
            return self.offset * size..self.offset * size;
        }
        let (mut low, mut high) = (self.offset, self.offset);
        for (&length, &stride) in self.sizes.iter().zip(&self.strides) {
            let last = (length - 1) * stride;
            (low, high) = (low + last.min(0), high + last.max(0));
        }
        low * size..(high + 1) * size
    }

    /// Whether elements lie in order and without gaps.
    pub fn is_contiguous(&self) -> bool {
        let mut expected = 1;
        for (&length, &stride) in self.sizes.iter().zip(&self.strides).rev() {
            if length != 1 {
                if stride != expected {
                    return false;
                }
                expected *= length;
            }
        }
        true
    }
}

/// An argument of a call, in the order of the schema.
///
/// ```
/// use corten::ops::IValue;
/// use corten_compile::ir::Argument;
///
/// let dim = Argument::Value(IValue::Int(-1));
/// assert_eq!(dim.operands().count(), 0);
/// ```
#[derive(Clone)]
pub enum Argument {
    /// A value without tensors; absent optional tensors are `IValue::None`.
    Value(IValue),
    /// A tensor.
    Tensor(Operand),
    /// A number of the language in front where a tensor stands in the schema: it takes part in promotion of
    /// dtypes by its category alone.
    Number(Scalar),
    /// A list of tensors.
    Tensors(Vec<Operand>),
    /// A list of tensors of which some may be absent.
    OptionalTensors(Vec<Option<Operand>>),
}

impl Argument {
    /// The tensors in the argument.
    pub fn operands(&self) -> impl Iterator<Item = &Operand> {
        let one = match self {
            Self::Tensor(operand) => Some(operand),
            _ => None,
        };
        let all = match self {
            Self::Tensors(list) => list.as_slice(),
            _ => &[],
        };
        let some = match self {
            Self::OptionalTensors(list) => list.as_slice(),
            _ => &[],
        };
        one.into_iter().chain(all).chain(some.iter().flatten())
    }

    fn operands_mut(&mut self) -> Box<dyn Iterator<Item = &mut Operand> + '_> {
        match self {
            Self::Tensor(operand) => Box::new(std::iter::once(operand)),
            Self::Tensors(list) => Box::new(list.iter_mut()),
            Self::OptionalTensors(list) => Box::new(list.iter_mut().flatten()),
            Self::Value(_) | Self::Number(_) => Box::new(std::iter::empty()),
        }
    }
}

/// A call of an operator below autograd.
///
/// ```
/// use corten::ops::registry;
/// use corten::prelude::*;
/// use corten_compile::ir::{Argument, BufferId, Node, Operand};
///
/// # fn main() -> Result<()> {
/// let x = tensor![1.0, 4.0]?;
/// let node = Node {
///     op: registry::find("aten::sqrt").ok_or_else(|| corten::core::err!(Runtime, "no sqrt"))?,
///     arguments: [Argument::Tensor(Operand::of(&x, BufferId(0)))].into_iter().collect(),
///     results: [Some(Operand::of(&x, BufferId(1)))].into_iter().collect(),
///     line: None,
/// };
/// assert_eq!(node.writes().count(), 1);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Node {
    /// The operator.
    pub op: &'static dyn AnyOp,
    /// The arguments, all present.
    pub arguments: SmallVec<[Argument; 4]>,
    /// The tensors that the call returns, lists of them one after the other; undefined ones are `None`. Those
    /// of in-place and `out` variants are among the arguments, all others are whole new buffers.
    pub results: SmallVec<[Option<Operand>; 1]>,
    /// The line of the program that made the call, such as `model.py:12`.
    pub line: Option<Arc<str>>,
}

impl Node {
    /// The tensors that the call is given. All are taken to be read, those that it writes, too.
    pub fn reads(&self) -> impl Iterator<Item = &Operand> {
        self.arguments.iter().flat_map(Argument::operands)
    }

    /// The arguments that the call writes.
    pub fn written_arguments(&self) -> impl Iterator<Item = &Operand> {
        let declared = &self.op.schema().arguments;
        let arguments = self.arguments.iter().zip(declared);
        arguments
            .filter(|(_, declared)| declared.is_written())
            .flat_map(|(given, _)| given.operands())
    }

    /// The tensors that the call is given, to be changed.
    pub(crate) fn argument_operands_mut(&mut self) -> impl Iterator<Item = &mut Operand> {
        self.arguments.iter_mut().flat_map(Argument::operands_mut)
    }

    /// The tensors that the call writes: arguments, and results.
    pub fn writes(&self) -> impl Iterator<Item = &Operand> {
        self.written_arguments().chain(self.results.iter().flatten())
    }
}

/// Calls in program order.
///
/// ```
/// use corten::ops::registry;
/// use corten::prelude::*;
/// use corten::core::{Device, Storage};
/// use corten_compile::ir::{Argument, Node, Operand, Program, Role};
///
/// # fn main() -> Result<()> {
/// let x = tensor![1.0, 4.0]?;
/// let mut program = Program::new();
/// let input = program.add_buffer(x.storage()?, Role::Input);
/// let output = program.add_buffer(Storage::new(8, Device::CPU)?, Role::Output);
/// program.push(Node {
///     op: registry::find("aten::sqrt").ok_or_else(|| corten::core::err!(Runtime, "no sqrt"))?,
///     arguments: [Argument::Tensor(Operand::of(&x, input))].into_iter().collect(),
///     results: [Some(Operand::of(&x, output))].into_iter().collect(),
///     line: None,
/// });
/// assert_eq!(program.nodes().len(), 1);
/// assert_eq!(program.structure(), program.clone().structure());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Default)]
pub struct Program {
    buffers: Vec<Buffer>,
    nodes: Vec<Node>,
    words: Words,
    folds: bool,
}

impl Program {
    /// A program without calls.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes a storage into the program.
    pub fn add_buffer(&mut self, storage: Storage, role: Role) -> BufferId {
        let id = BufferId(self.buffers.len() as u32);
        self.buffers.push(Buffer { storage, role });
        id
    }

    /// Says what a buffer is to those outside, which is known when the program is about to run.
    pub fn set_role(&mut self, buffer: BufferId, role: Role) {
        self.buffers[buffer.index()].role = role;
    }

    /// Whether normalisations with constants may be put into the weights of the convolutions before them, which rounds
    /// otherwise.
    pub fn set_folds(&mut self, folds: bool) {
        self.folds = folds;
    }

    /// See [`set_folds`](Self::set_folds).
    pub(crate) fn folds(&self) -> bool {
        self.folds
    }

    /// Appends a call.
    pub fn push(&mut self, node: Node) {
        self.words.node(&node);
        self.nodes.push(node);
    }

    /// The buffers by their numbers.
    pub fn buffers(&self) -> &[Buffer] {
        &self.buffers
    }

    /// A buffer.
    pub fn buffer(&self, id: BufferId) -> &Buffer {
        &self.buffers[id.index()]
    }

    /// The calls in order.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Removes calls and buffers, and keeps the memory of the lists.
    pub fn clear(&mut self) {
        self.buffers.clear();
        self.nodes.clear();
        self.words.clear();
        self.folds = false;
    }

    /// What decides how the program runs: operators, attributes, dtypes, geometry and buffers as numbers with
    /// their roles, but neither the memory nor the lines.
    pub fn structure(&self) -> Structure {
        let mut words = self.words.clone();
        self.tail().for_each(|word| words.push(word));
        Structure { hash: words.hash, words: words.list }
    }

    /// The hash of the [structure](Self::structure), without making it.
    pub fn structure_hash(&self) -> u64 {
        self.tail().fold(self.words.hash, mix)
    }

    /// The words of the structure that are known when the program is about to run.
    fn tail(&self) -> impl Iterator<Item = u64> + '_ {
        let roles = self.buffers.iter().map(Buffer::word);
        roles.chain(std::iter::once(u64::from(self.folds)))
    }

    /// Whether the program has this structure.
    pub fn has_structure(&self, structure: &Structure) -> bool {
        let recorded = self.words.list.len();
        structure.words.len() == recorded + self.buffers.len() + 1
            && structure.words[..recorded] == self.words.list
            && self.tail().eq(structure.words[recorded..].iter().copied())
    }
}

/// What programs have in common that one plan serves.
///
/// ```
/// use corten_compile::ir::Program;
///
/// let program = Program::new();
/// assert!(program.has_structure(&program.structure()));
/// assert_eq!(program.structure().hash(), program.structure_hash());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Structure {
    hash: u64,
    words: Vec<u64>,
}

impl Structure {
    /// A hash of it.
    pub fn hash(&self) -> u64 {
        self.hash
    }
}

impl std::hash::Hash for Structure {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

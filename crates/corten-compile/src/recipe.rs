//! What a node runs element by element.

pub(crate) mod affine;
pub(crate) mod reduction;

use crate::ir::{Argument, Node, Words};
use crate::surrogate::{self, Extent, LENGTH};
use corten_core::{Access, AccessSet, DType, Result, default_dtype};
use corten_cpu::pointwise::steps::{self, ElementBytes, RecordedOperand, RecordedStep, Step};
use corten_ops::schema::{Argument as Declared, BaseType, Type};
use corten_ops::{Cost, IValue, OpKind, Stack, Tensor};
use smallvec::SmallVec;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// The steps of a node, from its operands to what it writes.
pub(crate) struct Recipe {
    pub(crate) steps: Vec<RecipeStep>,
    /// What the node writes, and the step whose result that is.
    pub(crate) outputs: SmallVec<[(Written, usize); 1]>,
    /// The number of trailing dimensions that the node reduces to one element; 0 for elementwise nodes.
    pub(crate) reduced: usize,
    /// Whether steps read numbers per channel that are made before the group runs.
    pub(crate) prepared: bool,
}

/// A tensor that a node writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Written {
    /// The argument of this number.
    Argument(usize),
    /// The result of this number.
    Result(usize),
}

/// A loop with where its inputs come from.
pub(crate) struct RecipeStep {
    pub(crate) step: Arc<dyn Step>,
    pub(crate) inputs: SmallVec<[Source; 3]>,
    /// The dtype of the result.
    pub(crate) dtype: DType,
    /// Whether it is one element for all.
    pub(crate) single: bool,
}

/// An input of a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Source {
    /// The argument of this number.
    Argument(usize),
    /// The result of the step of this number.
    Step(usize),
    /// One element.
    Number(ElementBytes),
    /// Numbers per channel of this number.
    Prepared(usize),
}

type Recipes = HashMap<Vec<u64>, Option<Arc<Recipe>>>;

/// Recipes by operator, dtypes, extents and attributes; what has none is known, too.
static KNOWN: Mutex<Option<Recipes>> = Mutex::new(None);

/// More are forgotten: programs may have attributes that never come again.
const MOST_KNOWN: usize = 4096;

/// The recipe of a node, if every element of what it writes depends on the elements of its operands at that
/// place alone, and all it runs are recorded loops.
pub(crate) fn of(node: &Node) -> Option<Arc<Recipe>> {
    if let Some(recipe) = affine::of(node) {
        return Some(recipe);
    }
    if !may_have_one(node) {
        return None;
    }
    match reduction::trailing_dims(node) {
        Some(dims) => reduction::of(node, dims),
        None => of_elements(node),
    }
}

fn of_elements(node: &Node) -> Option<Arc<Recipe>> {
    known(key(node), || record(node).ok().flatten().filter(|recipe| proves(node, recipe)))
}

/// What is known by a key, or is found now.
pub(crate) fn known(key: Vec<u64>, find: impl FnOnce() -> Option<Recipe>) -> Option<Arc<Recipe>> {
    let lock = || KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = lock().get_or_insert_default().get(&key) {
        return known.clone();
    }
    let recipe = find().map(Arc::new);
    let mut known = lock();
    let known = known.get_or_insert_default();
    if known.len() >= MOST_KNOWN {
        known.clear();
    }
    known.insert(key, recipe.clone());
    recipe
}

/// Operators of the registry that cost by the element, draw no random numbers and take no lists of tensors.
pub(crate) fn may_have_one(node: &Node) -> bool {
    let (def, schema) = (node.op.def(), node.op.schema());
    let lists = node
        .arguments
        .iter()
        .any(|argument| matches!(argument, Argument::Tensors(_) | Argument::OptionalTensors(_)));
    let tensors = node.arguments.iter().filter(|given| matches!(given, Argument::Tensor(_)));
    let takes_generator = |argument: &Declared| {
        let ty = argument.ty.unwrap_optional().unwrap_or(argument.ty.bare());
        *ty == Type::Base(BaseType::Generator)
    };
    def.namespace == "aten"
        && def.kind != OpKind::View
        && def.cost == Cost::Stream
        && !lists
        && (1..=4).contains(&tensors.count())
        && node.results.len() <= 2
        && node.reads().any(|operand| Extent::of(operand) == Extent::Many)
        && !schema.arguments.iter().any(takes_generator)
        && !RANDOM.iter().any(|family| def.source.contains(family))
}

/// Families of operators that draw random numbers, some of them without a generator among their arguments.
const RANDOM: [&str; 4] = ["random.toml", "dropout.toml", "sampling.toml", "rnn.toml"];

/// What decides the recipe.
pub(crate) fn key(node: &Node) -> Vec<u64> {
    let mut words = Words::default();
    words.push(std::ptr::from_ref(node.op.def()).addr() as u64);
    words.push(default_dtype() as u64);
    for argument in &node.arguments {
        match argument {
            Argument::Value(value) => words.value(value),
            Argument::Number(number) => words.value(&IValue::from(*number)),
            Argument::Tensor(operand) => {
                let wrapped = u64::from(operand.wrapped_number);
                let extent = Extent::of(operand) as u64;
                words.push(1 << 63 | wrapped << 32 | extent << 24 | operand.dtype as u64);
            }
            Argument::Tensors(_) | Argument::OptionalTensors(_) => {}
        }
    }
    words.into_list()
}

/// The arguments of a call on surrogates.
fn stack_of(node: &Node, seed: usize) -> Result<Option<Stack>> {
    let mut stack = Stack::new();
    for (i, argument) in node.arguments.iter().enumerate() {
        match surrogate::argument(argument, seed + i)? {
            Some(value) => stack.push(value),
            None => return Ok(None),
        }
    }
    Ok(Some(stack))
}

/// What an address stands for while a recording is read.
struct Known {
    address: usize,
    stride: i64,
    dtype: DType,
    source: Source,
}

/// The tensors of a call in the order of its arguments.
pub(crate) fn tensor_at(stack: &Stack, argument: usize) -> Option<&Tensor> {
    match stack.get(argument) {
        Some(IValue::Tensor(tensor)) if tensor.defined() => Some(tensor),
        _ => None,
    }
}

fn byte_stride(tensor: &Tensor) -> i64 {
    match tensor.numel() {
        1 => 0,
        _ => tensor.strides().first().map_or(0, |stride| stride * tensor.itemsize() as i64),
    }
}

/// Calls the operator on surrogates, and reads what it ran.
fn record(node: &Node) -> Result<Option<Recipe>> {
    let Some(arguments) = stack_of(node, 0)? else { return Ok(None) };
    let mut stack = arguments.clone();
    let (called, recorded) = steps::record(|| node.op.call_boxed(&mut stack));
    steps::divided_by_zero();
    called?;
    Ok(Reader::recipe(node, &arguments, recorded, &stack))
}

/// Reads recorded steps: what they read is known by its address.
#[derive(Default)]
pub(crate) struct Reader {
    known: Vec<Known>,
    steps: Vec<RecipeStep>,
}

impl Reader {
    /// The recipe of a call that was recorded: of its arguments, what it ran, and what it left on the stack.
    /// `None` where a step reads or writes something unknown.
    pub(crate) fn recipe(
        node: &Node,
        arguments: &Stack,
        recorded: impl IntoIterator<Item = RecordedStep>,
        stack: &Stack,
    ) -> Option<Recipe> {
        let mut reader = Self::default();
        for (i, argument) in node.arguments.iter().enumerate() {
            if let (Argument::Tensor(_), Some(tensor)) = (argument, tensor_at(arguments, i)) {
                reader.known.push(Known {
                    address: tensor.data_ptr().addr(),
                    stride: byte_stride(tensor),
                    dtype: tensor.dtype(),
                    source: Source::Argument(i),
                });
            }
        }
        for step in recorded {
            reader.read(step)?;
        }
        reader.finish(node, arguments, stack)
    }

    /// Takes the next step; `None` for one that reads or writes something unknown.
    fn read(&mut self, recorded: RecordedStep) -> Option<()> {
        let (output, inputs) = recorded.operands.split_first()?;
        if recorded.reduces {
            return None;
        }
        let single = output.element.is_some();
        let length = recorded.length?;
        if length != if single { 1 } else { LENGTH as i64 } {
            return None;
        }
        let mut sources = SmallVec::new();
        for input in inputs {
            sources.push(self.source(input)?);
        }
        let source = Source::Step(self.steps.len());
        self.steps.push(RecipeStep {
            step: recorded.step,
            inputs: sources,
            dtype: output.dtype,
            single,
        });
        self.known.retain(|known| known.address != output.address);
        self.known.push(Known {
            address: output.address,
            stride: output.stride,
            dtype: output.dtype,
            source,
        });
        Some(())
    }

    fn source(&mut self, input: &RecordedOperand) -> Option<Source> {
        if let Some((address, from)) = input.converted_from {
            let found = self.find(address, 0, from);
            return match found {
                None => input.element.map(Source::Number),
                Some(source) => {
                    let step = RecipeStep {
                        step: steps::conversion(from, input.dtype)?,
                        inputs: [source].into_iter().collect(),
                        dtype: input.dtype,
                        single: true,
                    };
                    self.steps.push(step);
                    Some(Source::Step(self.steps.len() - 1))
                }
            };
        }
        let found = self.find(input.address, input.stride, input.dtype);
        found.or(input.element.map(Source::Number))
    }

    fn find(&self, address: usize, stride: i64, dtype: DType) -> Option<Source> {
        let is_it = |known: &&Known| {
            known.address == address && known.stride == stride && known.dtype == dtype
        };
        self.known.iter().find(is_it).map(|known| known.source)
    }

    /// The recipe, if steps wrote everything that the node writes, and no other argument.
    pub(crate) fn finish(self, node: &Node, arguments: &Stack, results: &Stack) -> Option<Recipe> {
        let step_of = |tensor: &Tensor| match self.find(
            tensor.data_ptr().addr(),
            byte_stride(tensor),
            tensor.dtype(),
        ) {
            Some(Source::Step(step)) if tensor.numel() == LENGTH as i64 => Some(step),
            _ => None,
        };
        let mut outputs: SmallVec<[(Written, usize); 1]> = SmallVec::new();
        let mut aliased: SmallVec<[usize; 2]> = SmallVec::new();
        for (i, declared) in node.op.schema().arguments.iter().enumerate() {
            let Some(tensor) = tensor_at(arguments, i) else { continue };
            if declared.is_written() {
                outputs.push((Written::Argument(i), step_of(tensor)?));
                aliased.push(tensor.storage_key());
            } else if matches!(node.arguments[i], Argument::Tensor(_)) {
                let untouched = self.known.iter().any(|known| known.source == Source::Argument(i));
                untouched.then_some(())?;
            }
        }
        let mut returned: SmallVec<[Tensor; 2]> = SmallVec::new();
        results.iter().for_each(|value| {
            value.for_each_tensor(&mut |tensor| returned.push(tensor.clone()));
        });
        if returned.len() != node.results.len() {
            return None;
        }
        for (i, (tensor, recorded)) in returned.iter().zip(&node.results).enumerate() {
            match recorded {
                Some(operand) if tensor.defined() => {
                    if aliased.contains(&tensor.storage_key()) {
                        continue;
                    }
                    (operand.dtype == tensor.dtype()).then_some(())?;
                    outputs.push((Written::Result(i), step_of(tensor)?));
                }
                None if !tensor.defined() => {}
                _ => return None,
            }
        }
        (!outputs.is_empty()).then_some(Recipe {
            steps: self.steps,
            outputs,
            reduced: 0,
            prepared: false,
        })
    }
}

/// Whether the recipe gives, from other elements than those it was recorded with, what the operator does.
fn proves(node: &Node, recipe: &Recipe) -> bool {
    compare(node, recipe).unwrap_or(false)
}

fn compare(node: &Node, recipe: &Recipe) -> Result<bool> {
    const SEED: usize = 3;
    let (Some(arguments), Some(mut called)) = (stack_of(node, SEED)?, stack_of(node, SEED)?) else {
        return Ok(false);
    };
    let before = called.clone();
    node.op.call_boxed(&mut called)?;
    let results = replay(recipe, &arguments)?;
    let divided = steps::divided_by_zero();
    let mut returned: Vec<Tensor> = Vec::new();
    called.iter().for_each(|value| {
        value.for_each_tensor(&mut |tensor| returned.push(tensor.clone()));
    });
    for &(written, step) in &recipe.outputs {
        let expected = match written {
            Written::Argument(i) => tensor_at(&before, i),
            Written::Result(i) => returned.get(i),
        };
        let Some(expected) = expected else { return Ok(false) };
        if expected.dtype() != recipe.steps[step].dtype || !is_same(expected, &results[step])? {
            return Ok(false);
        }
    }
    Ok(!divided)
}

/// Whether a tensor has these elements, densely packed.
fn is_same(tensor: &Tensor, packed: &[u64]) -> Result<bool> {
    let (size, stride) = (tensor.itemsize(), byte_stride(tensor));
    let set = AccessSet::acquire(&[(tensor.base(), Access::Read)])?;
    let first = set.byte_ptr(0);
    let packed = packed.as_ptr().cast::<u8>();
    for k in 0..tensor.numel() as usize {
        // SAFETY: the set holds the tensor, which has an element there; so has the packed result.
        let [a, b] = unsafe {
            let a = first.offset(stride as isize * k as isize).cast_const();
            [a, packed.add(k * size)].map(|at| std::slice::from_raw_parts(at, size))
        };
        if a != b && !(is_nan(a, tensor.dtype()) && is_nan(b, tensor.dtype())) {
            return Ok(false);
        }
    }
    Ok(true)
}

fn is_nan(bytes: &[u8], dtype: DType) -> bool {
    match (dtype, bytes) {
        (DType::Float32, &[a, b, c, d]) => f32::from_le_bytes([a, b, c, d]).is_nan(),
        (DType::Float64, &[a, b, c, d, e, f, g, h]) => {
            f64::from_le_bytes([a, b, c, d, e, f, g, h]).is_nan()
        }
        _ => false,
    }
}

/// The results of the steps, each densely packed.
fn replay(recipe: &Recipe, arguments: &Stack) -> Result<Vec<Vec<u64>>> {
    let tensors: Vec<&Tensor> =
        (0..arguments.len()).filter_map(|i| tensor_at(arguments, i)).collect();
    let wanted: Vec<_> = tensors.iter().map(|tensor| (tensor.base(), Access::Read)).collect();
    let _set = AccessSet::acquire(&wanted)?;
    let mut results: Vec<Vec<u64>> = Vec::with_capacity(recipe.steps.len());
    for step in &recipe.steps {
        let length = if step.single { 1 } else { LENGTH };
        let mut result = vec![0_u64; 2 * LENGTH];
        let mut at: SmallVec<[*mut u8; 4]> = SmallVec::new();
        let mut strides: SmallVec<[i64; 8]> = SmallVec::new();
        at.push(result.as_mut_ptr().cast());
        strides.push(step.dtype.itemsize() as i64);
        let mut numbers: SmallVec<[ElementBytes; 3]> =
            SmallVec::from_elem([0; 2], step.inputs.len());
        for (number, input) in numbers.iter_mut().zip(&step.inputs) {
            if let Source::Number(value) = input {
                *number = *value;
            }
        }
        for (number, input) in numbers.iter_mut().zip(&step.inputs) {
            let (address, stride) = match *input {
                Source::Number(_) => (std::ptr::from_mut(number).cast(), 0),
                Source::Step(i) => {
                    let single = recipe.steps[i].single;
                    let size = recipe.steps[i].dtype.itemsize() as i64;
                    let start = results[i].as_ptr().cast_mut().cast();
                    (start, if single { 0 } else { size })
                }
                Source::Argument(i) => match tensor_at(arguments, i) {
                    Some(tensor) => (tensor.data_ptr(), byte_stride(tensor)),
                    None => (std::ptr::null_mut(), 0),
                },
                Source::Prepared(_) => (std::ptr::null_mut(), 0),
            };
            at.push(address);
            strides.push(stride);
        }
        let outer = SmallVec::<[i64; 4]>::from_elem(0, at.len());
        strides.extend(outer);
        // SAFETY: the result has room for as many elements of any dtype, and is apart from the operands, which
        // are of the recorded dtypes and held or local.
        unsafe { step.step.run(&at, &strides, length, 1)? };
        results.push(result);
    }
    Ok(results)
}

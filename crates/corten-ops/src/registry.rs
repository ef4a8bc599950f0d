//! The operators as data: declarations, lookup by name, schemas.

use crate::batched::Batch;
use crate::boxed::{IValue, Stack};
use crate::dispatch::{BoxedKernel, KeyBuilder, Registration, Target};
use crate::schema::Schema;
use corten_core::{KeySet, Result};
use std::any::Any;
use std::collections::BTreeMap;
use std::sync::{OnceLock, PoisonError, RwLock};

/// What a call does to its arguments.
///
/// ```
/// use corten::ops::registry;
/// use corten::ops::OpKind;
///
/// let kind = |name| registry::find(name).map(|op| op.def().kind);
/// assert_eq!(kind("aten::exp_"), Some(OpKind::Inplace));
/// assert_eq!(kind("aten::view"), Some(OpKind::View));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OpKind {
    /// Returns new tensors.
    Functional,
    /// Writes `self` and returns it.
    Inplace,
    /// Writes `out` and returns it.
    Out,
    /// Returns tensors that share memory with an argument.
    View,
}

/// How an operator gets its gradient.
///
/// ```
/// use corten::ops::registry;
/// use corten::ops::Gradient;
///
/// let gradient = |name| registry::find(name).map(|op| op.def().gradient);
/// assert_eq!(gradient("aten::exp"), Some(Gradient::Formula));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Gradient {
    /// From a formula.
    Formula,
    /// It is declared not to have one.
    None,
    /// From the operators it calls.
    Composite,
    /// Unknown: an operator from outside the registry.
    Unknown,
}

/// The declaration of one overload.
///
/// ```
/// use corten::ops::registry;
/// use corten::ops::OpDef;
///
/// let def: Option<&OpDef> = registry::find("aten::exp").map(|op| op.def());
/// assert_eq!(def.map(|def| def.schema), Some("exp(Tensor self) -> Tensor"));
/// ```
#[derive(Debug)]
pub struct OpDef {
    /// The name without namespace and overload, such as `add_`.
    pub name: &'static str,
    /// The overload, such as `Tensor`; often empty.
    pub overload: &'static str,
    /// The namespace, `aten` for the registry's own.
    pub namespace: &'static str,
    /// The schema without namespace.
    pub schema: &'static str,
    /// What a call does to its arguments.
    pub kind: OpKind,
    /// Whether it is a function of the Python module.
    pub function: bool,
    /// Whether it is a method of `Tensor`.
    pub method: bool,
    /// Further Python homes, such as `nn.functional`.
    pub python: &'static [&'static str],
    /// What it does, in one or two sentences.
    pub doc: &'static str,
    /// File and line of the declaration.
    pub source: &'static str,
    /// The kind of implementation, such as `pointwise`.
    pub implementation: &'static str,
    /// Where the gradient comes from.
    pub gradient: Gradient,
    /// How a call on batches becomes one on their values; without it, item by item.
    pub batch: Option<BatchRule>,
    /// How the names of the results follow from those of the arguments; without it, named tensors are
    /// refused.
    pub names: Option<&'static crate::names::Rule>,
    /// How the work of a call grows with its arguments.
    pub cost: Cost,
    /// What automatic casts do to its floating-point arguments.
    pub autocast: Option<Autocast>,
    /// The same on GPUs.
    pub autocast_cuda: Option<Autocast>,
    /// Sets that it belongs to.
    pub tags: &'static [&'static str],
    /// Whether it is the in-place form of a view: it changes sizes and strides, and no element.
    pub is_view_inplace: bool,
    /// Whether a Python number may stand for a tensor argument.
    pub numbers: bool,
    /// How `uint64` is computed with the bits of `int64`; without it only where no element needs the highest bit.
    pub uint64: Option<Uint64>,
    /// Parameter lists that Python accepts with a warning.
    pub deprecated: &'static [&'static str],
    /// The formulas of the gradient: the arguments of each, and its text.
    pub formulas: &'static [(&'static str, &'static str)],
}

/// How the work of an operator grows with the elements of its arguments.
///
/// ```
/// use corten::ops::registry;
/// use corten::ops::Cost;
///
/// let cost = registry::find("aten::mm").map(|op| op.def().cost);
/// assert_eq!(cost, Some(Cost::Product));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cost {
    /// With their number.
    #[default]
    Stream,
    /// Faster: each element of one argument meets many of another, as in products of matrices.
    Product,
}

/// The dtype that automatic casts give an operator's floating-point arguments.
///
/// ```
/// use corten::ops::registry;
/// use corten::ops::Autocast;
///
/// let autocast = registry::find("aten::mm").and_then(|op| op.def().autocast);
/// assert_eq!(autocast, Some(Autocast::Lower));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Autocast {
    /// The thread's lower precision, in which it computes as well, and faster.
    Lower,
    /// `float32`, as a shorter dtype costs digits or range.
    Float32,
    /// The widest among the arguments' dtypes and the lower precision.
    Widest,
}

/// How an operator on `uint64` is computed with the bits of `int64`.
///
/// ```
/// use corten::ops::registry;
/// use corten::ops::Uint64;
///
/// let rule = registry::find("aten::mm").and_then(|op| op.def().uint64);
/// assert_eq!(rule, Some(Uint64::Modular));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Uint64 {
    /// Results are the same modulo 2^64.
    Modular,
    /// Results depend on the order of elements and nothing else.
    Ordered,
    /// Results are rounded quotients of the first argument and the second; true quotients where a rounding mode may be
    /// given and is not.
    Quotient,
    /// Results are what such quotients leave.
    Remainder,
    /// Results are the first argument shifted to the right by the second.
    Shift,
}

/// Runs an operator on the values of batched tensors; see [`crate::batched`].
pub type BatchRule = fn(&Batch, &mut Stack) -> Result<()>;

impl OpDef {
    /// `aten::add.Tensor`.
    pub fn qualified_name(&self) -> String {
        match self.overload {
            "" => format!("{}::{}", self.namespace, self.name),
            overload => format!("{}::{}.{overload}", self.namespace, self.name),
        }
    }

    /// Whether results depend on random numbers.
    pub fn is_random(&self) -> bool {
        crate::batched::is_random(self) || self.tags.contains(&"impure")
    }

    /// Whether a selective build left it out: calls say so.
    pub(crate) fn is_left_out(&self) -> bool {
        self.implementation == "left out"
    }

    pub(crate) fn parse_schema(&self) -> Schema {
        // The generator parsed this text, or `Library::define` did: it is well formed.
        Schema::parse(self.schema).unwrap_or_default()
    }

    /// The keys of a boxed factory call: where no tensor decides, device and layout do.
    pub(crate) fn factory_keys(&self, schema: &Schema, keys: KeySet, stack: &Stack) -> KeySet {
        let mut device = None;
        let mut layout = None;
        for (argument, value) in schema.arguments.iter().zip(stack.iter()) {
            match value {
                IValue::Device(given) if argument.name == "device" => device = Some(*given),
                IValue::Layout(given) if argument.name == "layout" => layout = Some(*given),
                _ => {}
            }
        }
        // Tensors decide by themselves, and have keys that no option has: of autograd, of batches.
        let of_options = keys.is_empty();
        let is_factory =
            of_options && schema.arguments.iter().any(|argument| argument.name == "device");
        if is_factory { KeyBuilder::with(keys).options(layout, device).keys() } else { keys }
    }
}

/// An operator whatever its signature.
///
/// ```
/// use corten::ops::registry;
/// use corten::ops::AnyOp;
///
/// let exp: Option<&dyn AnyOp> = registry::find("aten::exp");
/// assert_eq!(exp.map(|op| op.schema().arguments.len()), Some(1));
/// assert!(registry::overloads("aten::add").len() > 1);
/// ```
pub trait AnyOp: Any + Sync {
    /// The declaration.
    fn def(&self) -> &'static OpDef;
    /// The parsed schema.
    fn schema(&self) -> &Schema;
    /// Calls the operator with the arguments on the stack, in schema order and all present, and
    /// leaves the results there.
    ///
    /// # Errors
    /// The kernel's, or `NotImplemented` when no kernel serves the arguments.
    fn call_boxed(&'static self, stack: &mut Stack) -> Result<()>;
    /// Calls the operator as if its arguments had the given keys.
    ///
    /// # Errors
    /// As [`AnyOp::call_boxed`].
    fn call_boxed_at(&'static self, keys: KeySet, stack: &mut Stack) -> Result<()>;
    /// Registers a kernel over the stack.
    fn implement_boxed(&'static self, target: Target, kernel: BoxedKernel) -> Registration;
    /// Lets calls pass a key.
    fn pass_through(&'static self, target: Target) -> Registration;
    /// Takes a registration back, if there is one of this number, and lets the next calls look for their kernels
    /// again.
    fn deregister(&self, id: u64);
    /// What is registered, oldest first.
    fn kernels(&self) -> Vec<(Target, &'static str)>;
    /// Whether a call has looked for a kernel.
    fn was_called(&self) -> bool;
    /// Whether a kernel other than a fallback serves the highest of the keys.
    fn has_kernel_for(&'static self, keys: KeySet) -> bool;
}

type Table = BTreeMap<String, &'static dyn AnyOp>;

static OUTSIDE: RwLock<Vec<&'static dyn AnyOp>> = RwLock::new(Vec::new());

fn declared() -> &'static Table {
    static TABLE: OnceLock<Table> = OnceLock::new();
    TABLE.get_or_init(|| {
        // One by one: collecting would sort a large block first, which stays resident.
        let mut table = Table::new();
        for op in crate::op::OPS {
            table.insert(op.def().qualified_name(), *op);
        }
        table
    })
}

/// The operators that were called since the program began, sorted: what a selective build of it
/// needs (docs/SELECTIVE.md).
pub fn called() -> Vec<String> {
    let called = all().into_iter().filter(|op| op.was_called());
    let mut names: Vec<String> = called.map(|op| op.def().qualified_name()).collect();
    names.sort();
    names
}

/// Looks up `namespace::name.overload`.
pub fn find(name: &str) -> Option<&'static dyn AnyOp> {
    if let Some(op) = declared().get(name) {
        return Some(*op);
    }
    let outside = OUTSIDE.read().unwrap_or_else(PoisonError::into_inner);
    outside.iter().copied().find(|op| op.def().qualified_name() == name)
}

/// Every overload of `namespace::name`, in the order of declaration.
pub fn overloads(name: &str) -> Vec<&'static dyn AnyOp> {
    let (namespace, base) = name.split_once("::").unwrap_or(("aten", name));
    all()
        .into_iter()
        .filter(|op| op.def().name == base && op.def().namespace == namespace)
        .collect()
}

/// Every operator: the registry's in the order of declaration, then those from outside.
pub fn all() -> Vec<&'static dyn AnyOp> {
    let outside = OUTSIDE.read().unwrap_or_else(PoisonError::into_inner);
    crate::op::OPS.iter().copied().chain(outside.iter().copied()).collect()
}

pub(crate) fn add_from_outside(op: &'static dyn AnyOp) {
    OUTSIDE.write().unwrap_or_else(PoisonError::into_inner).push(op);
}

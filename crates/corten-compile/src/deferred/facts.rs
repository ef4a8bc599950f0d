//! What the registry says about an operator, as far as it decides how its calls are recorded.

use corten_core::DType;
use corten_ops::schema::Schema;
use corten_ops::{AnyOp, IValue, OpDef, OpKind, Stack, Uint64, registry};
use std::cell::RefCell;
use std::collections::HashMap;

/// How calls of an operator are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// It changes how elements are reached, or is made of others: what it calls is looked at.
    Transparent,
    /// It touches no contents.
    Metadata,
    /// It hands data to the program: numbers, or sizes that depend on data.
    Looks,
    /// It runs at once, for this reason.
    Immediate(&'static str),
    /// It may be recorded.
    Deferrable,
}

/// The arguments that are running statistics, and the operator of the same arguments that says that it writes them.
#[derive(Clone, Copy)]
struct Statistics {
    arguments: [u8; 2],
    declared: &'static dyn AnyOp,
}

/// What is known of an operator.
#[derive(Clone, Copy)]
pub(super) struct Facts {
    pub(super) class: Class,
    /// The arguments that a call writes, as bits.
    written: u64,
    /// The argument that says where a result is made.
    pub(super) device: Option<u8>,
    /// An argument that makes the call immediate when it is true or not zero: it draws random numbers, or writes to
    /// arguments that the schema calls read.
    switch: Option<u8>,
    /// Of an operator that writes running statistics which its schema calls read.
    statistics: Option<Statistics>,
    /// It divides: of integers, a divisor of zero is an error.
    divides: bool,
}

thread_local! {
    static KNOWN: RefCell<HashMap<usize, Facts>> = RefCell::new(HashMap::new());
}

impl Facts {
    pub(super) fn of(op: &'static dyn AnyOp) -> Self {
        let key = std::ptr::from_ref(op.def()).addr();
        KNOWN.with_borrow_mut(|known| *known.entry(key).or_insert_with(|| Self::new(op)))
    }

    fn new(op: &'static dyn AnyOp) -> Self {
        let (def, schema) = (op.def(), op.schema());
        let position = |name: &str| {
            let found = schema.arguments.iter().position(|argument| argument.name == name);
            found.map(|index| index as u8)
        };
        let mut written = 0;
        for (index, argument) in schema.arguments.iter().enumerate().take(64) {
            written |= u64::from(argument.is_written()) << index;
        }
        let keeps_statistics = position("running_mean").is_some() && written == 0;
        let switch = if keeps_statistics {
            position("training").or(position("use_input_stats"))
        } else {
            position("dropout_p").or(position("dropout"))
        };
        let divides = matches!(def.uint64, Some(Uint64::Quotient | Uint64::Remainder));
        let statistics = if keeps_statistics && def.name == "native_batch_norm" {
            let arguments = position("running_mean").zip(position("running_var"));
            let declared = registry::find("aten::_native_batch_norm_legit");
            arguments
                .zip(declared)
                .map(|((mean, var), declared)| Statistics { arguments: [mean, var], declared })
        } else {
            None
        };
        let (class, device) = (class(def, schema), position("device"));
        Self { class, written, device, switch, statistics, divides }
    }

    /// The operator that says what a switched call writes; the call's own where it writes nothing.
    pub(super) fn declared(
        &self,
        op: &'static dyn AnyOp,
        stack: &Stack,
    ) -> Option<&'static dyn AnyOp> {
        let statistics = self.statistics?;
        let is_given = |argument: u8| {
            let value = stack.get(usize::from(argument));
            matches!(value, Some(IValue::Tensor(tensor)) if tensor.defined())
        };
        match statistics.arguments.map(is_given) {
            [true, true] => Some(statistics.declared),
            [false, false] => Some(op),
            _ => None,
        }
    }

    /// Whether a call writes argument `index`.
    pub(super) fn writes(&self, index: usize) -> bool {
        index < 64 && self.written >> index & 1 == 1
    }

    /// Whether a result of this dtype may not come about because a divisor is zero.
    pub(super) fn may_divide_by_zero(&self, stack: &Stack, dtype: DType) -> bool {
        if !self.divides || !dtype.is_integral(true) {
            return false;
        }
        let divisor = stack.get(1).filter(|value| !matches!(value, IValue::Int(0)));
        !matches!(divisor, Some(IValue::Int(_)))
    }

    /// Whether the arguments make the call random, or have it write where the schema does not say so.
    pub(super) fn is_switched(&self, stack: &Stack) -> bool {
        match self.switch.and_then(|index| stack.get(usize::from(index))) {
            Some(IValue::Bool(truth)) => *truth,
            Some(IValue::Double(number)) => *number != 0.0,
            Some(IValue::Int(number)) => *number != 0,
            _ => false,
        }
    }
}

fn class(def: &OpDef, schema: &Schema) -> Class {
    if def.kind == OpKind::View
        || def.is_view_inplace
        || def.implementation.starts_with("composite")
    {
        return Class::Transparent;
    }
    if def.name.starts_with("empty") || def.name.starts_with("new_empty") {
        return Class::Metadata;
    }
    if def.is_random() {
        return Class::Immediate("it draws random numbers");
    }
    if def.tags.contains(&"resizes") || schema.arguments.len() > 64 {
        return Class::Immediate("it changes sizes in place");
    }
    let computes = ["pointwise", "iterator", "kernel", "any", "copy of"];
    if !computes.iter().any(|kind| def.implementation.starts_with(kind)) {
        return Class::Immediate("its results are not known without its data");
    }
    let returns =
        !schema.returns.is_empty() && schema.returns.iter().all(|result| result.ty.is_tensor());
    if returns {
        return Class::Deferrable;
    }
    let holds_tensors = schema.returns.iter().all(|result| result.ty.holds_tensors());
    if holds_tensors { Class::Immediate("it returns lists of tensors") } else { Class::Looks }
}

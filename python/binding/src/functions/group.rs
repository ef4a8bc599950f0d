//! What one Python name means: the overloads of an operator, in the order they are tried.

use super::fast::FastCalls;
use super::overload::Overload;
use crate::args::{ParamKind, Parser, Signature};
use corten_ops::{AnyOp, OpKind};
use std::sync::OnceLock;

/// Whether a group is called as a function or on a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Function,
    Method,
}

/// The overloads behind one Python name.
pub(crate) struct Group {
    /// The operator's name, which messages print.
    pub(crate) name: &'static str,
    pub(crate) mode: Mode,
    ops: Vec<&'static dyn AnyOp>,
    outs: Vec<&'static dyn AnyOp>,
    table: OnceLock<Table>,
    /// Whether it is an operator that was asked for by its schema's name, with the schema's defaults.
    operator: bool,
}

impl Group {
    /// The namespace of the operators.
    pub(crate) fn namespace(&self) -> Option<&'static str> {
        self.ops.first().or(self.outs.first()).map(|op| op.def().namespace)
    }
}

/// The parsed form of a group.
pub(crate) struct Table {
    pub(crate) parser: Parser,
    /// One per signature of the parser.
    pub(crate) overloads: Vec<Overload>,
    /// The calls that need no parser.
    pub(crate) fast: FastCalls,
}

impl Group {
    /// A group of overloads, and the `out=` overloads that may be merged into them.
    pub(crate) fn new(
        name: &'static str,
        mode: Mode,
        ops: Vec<&'static dyn AnyOp>,
        outs: Vec<&'static dyn AnyOp>,
    ) -> Self {
        Self { name, mode, ops, outs, table: OnceLock::new(), operator: false }
    }

    /// The group of one overload, called as a function.
    pub(crate) fn single(op: &'static dyn AnyOp) -> Self {
        let (outs, ops) = if op.def().kind == OpKind::Out {
            (vec![op], Vec::new())
        } else {
            (Vec::new(), vec![op])
        };
        Self { operator: true, ..Self::new(op.def().name, Mode::Function, ops, outs) }
    }

    /// The signatures, parsed on first use.
    pub(crate) fn table(&self) -> &Table {
        self.table.get_or_init(|| {
            let schema_defaults = self.mode != Mode::Function || self.operator;
            build(self.name, self.mode, schema_defaults, &self.ops, &self.outs)
        })
    }

    /// The overloads as declared.
    pub(crate) fn ops(&self) -> &[&'static dyn AnyOp] {
        &self.ops
    }

    /// The first sentence of the docs.
    pub(crate) fn doc(&self) -> &'static str {
        self.ops
            .iter()
            .chain(&self.outs)
            .map(|op| op.def().doc)
            .find(|doc| !doc.is_empty())
            .unwrap_or("")
    }
}

fn build(
    name: &str,
    mode: Mode,
    schema_defaults: bool,
    ops: &[&'static dyn AnyOp],
    outs: &[&'static dyn AnyOp],
) -> Table {
    let numbers = ops.iter().chain(outs).any(|op| op.def().numbers);
    let mut made: Vec<(Signature, Overload)> = Vec::new();
    let mut free: Vec<&'static dyn AnyOp> = outs.to_vec();
    for &op in ops {
        let is_scalar_twin = numbers
            && op.def().overload.contains("Scalar")
            && ops.iter().any(|other| {
                other.def().overload.replace("Scalar", "Tensor") == other.def().overload
                    && other.def().overload == op.def().overload.replace("Scalar", "Tensor")
            });
        if is_scalar_twin {
            continue;
        }
        let key = Overload::key(op);
        let out = free.iter().position(|candidate| Overload::key(*candidate) == key);
        let out = out.map(|at| free.remove(at));
        made.push(Overload::new(name, mode, op, out, numbers));
    }
    if mode == Mode::Function {
        // Asked for by itself, it is all there is.
        let alone = ops.is_empty() && outs.len() == 1;
        for op in free {
            let base = op.def().overload;
            let is_scalar_twin = numbers && !alone && base.contains("Scalar");
            if !is_scalar_twin {
                made.push(Overload::new(name, mode, op, None, numbers));
            }
        }
    }
    let order = canonical_order(&made);
    let old = deprecated_orders(mode, ops, outs, &made);
    let mut places: Vec<Option<(Signature, Overload)>> = made.into_iter().map(Some).collect();
    let (signatures, overloads): (Vec<_>, Vec<_>) =
        order.into_iter().filter_map(|index| places[index].take()).chain(old).unzip();
    let mut parser = Parser { signatures };
    if !schema_defaults {
        parser.reduce_nothing();
    }
    let fast = FastCalls::of(&parser.signatures, &overloads, mode);
    Table { parser, overloads, fast }
}

/// The deprecated signatures of a function; they are tried last.
fn deprecated_orders(
    mode: Mode,
    ops: &[&'static dyn AnyOp],
    outs: &[&'static dyn AnyOp],
    made: &[(Signature, Overload)],
) -> Vec<(Signature, Overload)> {
    let Some(&op) = ops.iter().find(|op| !op.def().deprecated.is_empty()) else {
        return Vec::new();
    };
    let Some((present, _)) = made.first() else { return Vec::new() };
    let orders = op.def().deprecated.iter();
    orders
        .map(|params| Overload::deprecated(mode, op, outs.first().copied(), params, present))
        .collect()
}

/// The order in which overloads are tried: alphabetical by their text, then sorted so that an
/// overload comes after those that accept more specific objects (`Tensor` before `Number`, `int`
/// before a list of them, lists of tensors last).
fn canonical_order(made: &[(Signature, Overload)]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..made.len()).collect();
    order.sort_by_key(|&index| made[index].1.sort_text.clone());
    let mut blocked: Vec<Vec<usize>> = order
        .iter()
        .map(|&later| {
            order
                .iter()
                .enumerate()
                .filter(|&(_, &earlier)| goes_after(&made[later].0, &made[earlier].0))
                .map(|(place, _)| place)
                .collect()
        })
        .collect();
    let mut sorted: Vec<usize> = (0..order.len()).filter(|&at| blocked[at].is_empty()).collect();
    let mut next = 0;
    while next < sorted.len() {
        let done = sorted[next];
        for (at, blocked) in blocked.iter_mut().enumerate() {
            if blocked.is_empty() {
                continue;
            }
            blocked.retain(|&other| other != done);
            if blocked.is_empty() {
                sorted.push(at);
            }
        }
        next += 1;
    }
    // A cycle cannot arise from a partial order; if one did, the rest keeps its place at the end.
    for at in 0..order.len() {
        if !sorted.contains(&at) {
            sorted.push(at);
        }
    }
    sorted.into_iter().map(|at| order[at]).collect()
}

/// Whether `a` accepts less specific objects than `b`, place by place.
fn goes_after(a: &Signature, b: &Signature) -> bool {
    let shape = |signature: &Signature| -> Vec<(ParamKind, u8, bool)> {
        signature
            .params
            .iter()
            .filter(|param| !matches!(param.name.as_str(), "out" | "requires_grad"))
            .map(|param| (param.kind, param.count, param.nullable))
            .collect()
    };
    let (a, b) = (shape(a), shape(b));
    a.len() == b.len()
        && a != b
        && a.iter().zip(&b).all(|(a, b)| a == b || is_less_specific(*a, b.0))
}

/// Whether `a`, with its fixed length and whether it may be `None`, accepts less specific objects
/// than `b`. A list that a number may stand for, or `None`, is not compared with numbers.
fn is_less_specific(a: (ParamKind, u8, bool), b: ParamKind) -> bool {
    matches!((a, b), ((ParamKind::IntList, 0, false), ParamKind::Int))
        || matches!(
            (a.0, b),
            (ParamKind::Scalar | ParamKind::Int, ParamKind::Tensor)
                | (
                    ParamKind::TensorList,
                    ParamKind::IntList
                        | ParamKind::FloatList
                        | ParamKind::BoolList
                        | ParamKind::ScalarList
                )
        )
}

//! Rules that span fields and operators.

use super::{Body, Form, Grad, MetaRule, Mistake, Op, Registry};
use crate::rust::{Signature, function_name};
use std::collections::BTreeMap;

/// Every mistake.
pub(super) fn all(registry: &Registry) -> Vec<Mistake> {
    let mut mistakes: Vec<Mistake> = registry
        .ops
        .iter()
        .flat_map(|op| operator(registry, op).into_iter().map(|message| op.mistake(message)))
        .collect();
    mistakes.extend(duplicates(registry));
    mistakes
}

fn operator(registry: &Registry, op: &Op) -> Vec<String> {
    let mut messages = Vec::new();
    let mut rule = |holds: bool, message: &str| {
        if !holds {
            messages.push(message.to_owned());
        }
    };
    rule(op.doc.ends_with('.'), "doc: must end with a full stop");
    rule(!op.doc.contains('\n'), "doc: must be one line");
    let view = op.schema.viewed().is_some();
    let by_hand =
        matches!(&op.body, Body::Any(_) | Body::Composite(_) | Body::Kernel { .. } | Body::Sparse);
    rule(!view || by_hand, "a view needs `any` or `composite`");
    rule(!view || op.out.is_none(), "variants: a view has no out form");
    if let Body::WrapScalar = op.body {
        let found = registry.tensor_overload(op).is_some();
        rule(found, "wrap_scalar: no overload has tensors in place of the numbers");
    }
    if let Body::Pointwise { meta, .. } | Body::Iterator { meta, .. } = &op.body {
        let count = op.schema.returns.len();
        rule((1..=4).contains(&count), "an iterator operator has one to four results");
        let pointwise = matches!(meta, MetaRule::Pointwise { .. });
        rule(!pointwise || count == 1, "a pointwise rule gives one result: give `meta`");
    }
    if let Grad::Formulas { formulas, .. } = &op.grad {
        rule(!formulas.is_empty(), "grad: no formula; say \"none\" where there is no gradient");
    }
    for (form, schema) in op.forms() {
        if let Err(message) = Signature::of(schema) {
            messages.push(message);
        }
        if form == Form::Inplace && !schema.is_inplace_name() {
            messages.push(format!("inplace: {schema} is not an in-place schema"));
        }
        if form == Form::Out && schema.outs().next().is_none() {
            messages.push(format!("out: {schema} has no out argument"));
        }
    }
    messages
}

/// Overloads and their Rust names are unique.
fn duplicates(registry: &Registry) -> Vec<Mistake> {
    let mut mistakes = Vec::new();
    let mut seen: BTreeMap<String, &Op> = BTreeMap::new();
    for op in &registry.ops {
        for (_, schema) in op.forms() {
            for name in [schema.full_name(), format!("fn {}", function_name(schema))] {
                if let Some(first) = seen.insert(name.clone(), op) {
                    mistakes.push(op.mistake(format!("{name} is also at {}", first.location)));
                }
            }
        }
    }
    mistakes
}

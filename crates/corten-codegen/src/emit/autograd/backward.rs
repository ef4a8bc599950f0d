//! Backward functions and the nodes that run them.

use super::slots::Slot;
use crate::Sources;
use crate::formula::gradient::{Lowered, Scope, Use};
use crate::registry::{Grad, Op};
use crate::rust::{Parameter, Shape, Signature, function_name, identifier, static_name};
use std::collections::BTreeSet;

/// The slots that a node can number.
const MOST_SLOTS: usize = 32;

/// How an operator is recorded and differentiated, shared by its forms.
pub(super) struct Recipe {
    /// The name of the node's static.
    pub(super) node: String,
    /// The name that users see.
    shown: String,
    /// The name of the backward function.
    function: String,
    /// The differentiable arguments.
    pub(super) inputs: Vec<String>,
    pub(super) outputs: u32,
    slots: Vec<Slot>,
    pub(super) signature: Signature,
    gradients: Vec<Gradient>,
}

struct Gradient {
    lowered: Lowered,
    /// `None` for all arguments at once.
    argument: Option<usize>,
    list: bool,
}

/// Lowers the formulas of an operator.
pub(super) fn recipe(sources: &Sources, op: &Op, inplace: bool) -> Result<Recipe, String> {
    let signature = Signature::of(&op.schema)?;
    let scope = Scope {
        op,
        signature: &signature,
        registry: &sources.registry,
        functions: &sources.functions,
    };
    let mut gradients = Vec::new();
    let own = op.grad_inplace.as_ref().filter(|_| inplace);
    let (inputs, outputs) = match own.unwrap_or(&op.grad) {
        Grad::Formulas { formulas, outputs } => {
            for (i, (name, formula)) in formulas.iter().enumerate() {
                let parameter = parameter(&signature, name)?;
                let list = matches!(parameter.ty.shape, Shape::List | Shape::ListOfOptional);
                let lowered = scope.gradient(&formula.expr, parameter);
                let lowered = lowered.map_err(|message| format!("grad.{name}: {message}"))?;
                gradients.push(Gradient { lowered, argument: Some(i), list });
            }
            (formulas.iter().map(|(name, _)| identifier(name)).collect(), *outputs)
        }
        Grad::Multi { formula, args, outputs } => {
            for name in args {
                parameter(&signature, name)?;
            }
            let lowered = scope.gradients(&formula.expr, args.len());
            let lowered = lowered.map_err(|message| format!("grad.multi: {message}"))?;
            gradients.push(Gradient { lowered, argument: None, list: false });
            (args.iter().map(|name| identifier(name)).collect::<Vec<_>>(), *outputs)
        }
        _ => (Vec::new(), 0),
    };
    let slots = slots(&gradients, inputs.len(), &signature);
    if slots.len() > MOST_SLOTS {
        return Err(format!(
            "grad: the formulas need {} saved slots, {MOST_SLOTS} at most",
            slots.len()
        ));
    }
    let suffix = if inplace { "_inplace" } else { "" };
    let node = format!("{}{}_NODE", static_name(&op.schema), suffix.to_uppercase());
    let function = format!("backward_of_{}{suffix}", function_name(&op.schema));
    let named = op.node_inplace.clone().filter(|_| inplace);
    let shown = named.unwrap_or_else(|| op.shown_node());
    Ok(Recipe { node, shown, function, inputs, outputs, slots, signature, gradients })
}

fn parameter<'a>(signature: &'a Signature, name: &str) -> Result<&'a Parameter, String> {
    let identifier = identifier(name);
    let found = signature.parameters.iter().find(|p| p.name == identifier);
    match found {
        Some(parameter) if parameter.ty.holds_tensors() => Ok(parameter),
        Some(_) => Err(format!("grad.{name}: the argument is no tensor")),
        None => Err(format!("grad.{name}: there is no such argument")),
    }
}

/// The slots in the order in which they are saved: inputs before the call, results after it.
fn slots(gradients: &[Gradient], inputs: usize, signature: &Signature) -> Vec<Slot> {
    let mut slots: Vec<Slot> = Vec::new();
    for gradient in gradients {
        let readers: Vec<usize> = match gradient.argument {
            Some(argument) => vec![argument],
            None => (0..inputs).collect(),
        };
        let kept = |used: &&Use| !matches!(used, Use::Grad | Use::Grads | Use::Needs);
        for used in gradient.lowered.uses.iter().filter(kept) {
            match slots.iter_mut().find(|slot| slot.used == *used) {
                Some(slot) => slot.needed_by.extend(&readers),
                None => slots.push(Slot { used: used.clone(), needed_by: readers.clone() }),
            }
        }
    }
    let place = |name: &str| signature.parameters.iter().position(|p| p.name == name);
    slots.sort_by_key(|slot| match &slot.used {
        Use::Argument(name) | Use::Metadata { argument: name, .. } => (place(name), 0),
        Use::Result(i) => (Some(usize::MAX), *i),
        Use::Grad | Use::Grads | Use::Needs => (None, 0),
    });
    slots
}

impl Recipe {
    /// The condition under which a slot is filled.
    pub(super) fn wanted(&self, slot: &Slot) -> String {
        let readers: BTreeSet<usize> = slot.needed_by.iter().copied().collect();
        if readers.len() == self.inputs.len() {
            return "true".to_owned();
        }
        let needs: Vec<String> = readers.iter().map(|i| format!("rec.needs({i})")).collect();
        needs.join(" || ")
    }

    /// Whether anything is saved before the call.
    pub(super) fn saves_inputs(&self) -> bool {
        self.slots.iter().any(|slot| !matches!(slot.used, Use::Result(_)))
    }

    /// The statements that save inputs. A tensor that is about to be overwritten is copied.
    pub(super) fn save_inputs(&self, written: &[String]) -> String {
        let mut text = String::new();
        for slot in &self.slots {
            let wanted = self.wanted(slot);
            let parameters = &self.signature.parameters;
            // The declared form may call `input` what the in-place form calls `self`.
            let name = match &slot.used {
                Use::Argument(name) => name.as_str(),
                _ => "",
            };
            let overwritten = written.iter().any(|other| other == name);
            let tensor = parameters.iter().any(|p| p.name == name && p.ty.holds_tensors());
            if overwritten && tensor {
                text.push_str(&match wanted.as_str() {
                    "true" => format!("rec.tensor(true, &op::clone({name}, None)?)?;"),
                    _ => format!(
                        "if {wanted} {{ rec.tensor(true, &op::clone({name}, None)?)?; }} \
                         else {{ rec.tensor(false, {name})?; }}"
                    ),
                });
            } else if let Some(statement) = slot.save_input(parameters, &wanted) {
                text.push_str(&statement);
            }
        }
        text
    }

    /// The statements that save results.
    pub(super) fn save_results(&self, parts: &[String], fresh: bool) -> String {
        let statement = |slot: &Slot| slot.save_result(self, parts, fresh);
        self.slots.iter().filter_map(statement).collect()
    }

    /// The static and the function.
    pub(super) fn node_and_backward(&self, op: &Op) -> String {
        let returns: Vec<Option<String>> =
            op.schema.returns.iter().map(|r| r.name.clone()).collect();
        let shown = |slot: &Slot| format!("{:?}", slot.shown(&self.signature, &returns));
        let saved: Vec<String> = self.slots.iter().map(shown).collect();
        let uses = |used: Use| self.gradients.iter().any(|g| g.lowered.uses.contains(&used));
        let grad = if uses(Use::Grad) { "let grad = &grads[0];" } else { "" };
        // All slots are read, also those of gradients that are not asked for: what was modified
        // since is an error either way.
        let loads: String =
            self.slots.iter().enumerate().map(|(i, slot)| slot.load(i, &self.signature)).collect();
        // In alphabetical order of the arguments, as in PyTorch, so that recorded backward passes are equal.
        let mut ordered: Vec<&Gradient> = self.gradients.iter().collect();
        ordered.sort_by_key(|gradient| {
            gradient.argument.map(|i| self.inputs[i].trim_end_matches('_'))
        });
        let parts: String = ordered.into_iter().map(|gradient| self.gradient(gradient)).collect();
        format!(
            "static {node}: NodeDef = NodeDef {{
                name: {name:?}, saved: &[{saved}], outputs: {outputs:#b}, backward: {function},
            }};

            fn {function}<'a>(ctx: &Backward<'a>, grads: &[Tensor]) -> Result<Gradients<'a>> {{
                let mut out = Gradients::new(ctx);
                {grad}
                {loads}
                {parts}
                Ok(out)
            }}",
            node = self.node,
            name = self.shown,
            function = self.function,
            saved = saved.join(", "),
            outputs = self.outputs,
        )
    }

    fn gradient(&self, gradient: &Gradient) -> String {
        let text = &gradient.lowered.text;
        match gradient.argument {
            Some(i) => {
                let set = if gradient.list { "set_list" } else { "set" };
                format!("if ctx.needs({i}) {{ out.{set}({i}, {text}); }}")
            }
            None => {
                let needs = match gradient.lowered.uses.contains(&Use::Needs) {
                    true => "let needs = ctx.needs_all();",
                    false => "",
                };
                format!("{needs} out.set_all({text});")
            }
        }
    }
}

//! What a node saves, slot by slot.

use super::backward::Recipe;
use crate::formula::gradient::{Use, metadata_type, read_metadata};
use crate::rust::{Base, Parameter, Shape, Signature, Ty};

const SCALAR: Ty = Ty::one(Base::Scalar);

/// Whether a method of tensors tells that something holds.
fn is_flag(method: &str) -> bool {
    metadata_type(method) == Some(Ty::one(Base::Bool))
}

/// One saved slot.
#[derive(Debug)]
pub(super) struct Slot {
    /// What is saved.
    pub(super) used: Use,
    /// Which differentiable arguments' formulas read it.
    pub(super) needed_by: Vec<usize>,
}

/// The name under which formulas see what is used.
pub(super) fn variable(used: &Use) -> String {
    match used {
        Use::Argument(name) => name.clone(),
        Use::Metadata { argument, method, with } => {
            crate::formula::gradient::metadata_name(argument, method, with)
        }
        Use::Result(i) => format!("result{i}"),
        Use::Grad => "grad".to_owned(),
        Use::Grads => "grads".to_owned(),
        Use::Needs => "needs".to_owned(),
    }
}

impl Slot {
    /// The name that users see.
    pub(super) fn shown(&self, signature: &Signature, returns: &[Option<String>]) -> String {
        match &self.used {
            Use::Result(i) => match (returns.get(*i), signature.output.0.len()) {
                (Some(Some(name)), _) => name.clone(),
                (_, 1) => "result".to_owned(),
                _ => format!("result{i}"),
            },
            other => variable(other).trim_end_matches('_').to_owned(),
        }
    }

    /// The statement that saves an input, or nothing for a result.
    pub(super) fn save_input(&self, parameters: &[Parameter], wanted: &str) -> Option<String> {
        let find = |name: &str| parameters.iter().find(|p| p.name == *name);
        Some(match &self.used {
            Use::Argument(name) => match find(name)?.ty {
                Ty { base: Base::Tensor, shape } => {
                    let method = match shape {
                        Shape::One => "tensor",
                        Shape::Optional => "opt_tensor",
                        Shape::ListOfOptional => "opt_tensors",
                        _ => "tensors",
                    };
                    format!("rec.{method}({wanted}, {name})?;")
                }
                SCALAR => format!("rec.number({name});"),
                _ => format!("rec.value({name});"),
            },
            Use::Metadata { argument, method, with } => {
                let list = find(argument)?.ty.shape == Shape::List;
                match (list, *method) {
                    (true, "sizes") => format!("rec.shapes({argument});"),
                    (true, "dtypes") => format!("rec.dtypes({argument});"),
                    (true, _) => format!("rec.value({argument}.len() as i64);"),
                    (_, "options" | "sizes" | "strides") => format!("rec.{method}({argument});"),
                    (_, method) => {
                        let save = if is_flag(method) { "flag" } else { "value" };
                        format!("rec.{save}({});", read_metadata(argument, method, with))
                    }
                }
            }
            _ => return None,
        })
    }

    /// The statement that saves a result, or nothing for an input.
    pub(super) fn save_result(
        &self,
        recipe: &Recipe,
        parts: &[String],
        fresh: bool,
    ) -> Option<String> {
        let Use::Result(i) = self.used else { return None };
        let (part, wanted) = (parts.get(i)?, recipe.wanted(self));
        let list = recipe.signature.output.0.get(i)?.shape == Shape::List;
        // A result without a gradient has no history that leads back to the node.
        if !list && !fresh && recipe.outputs >> i & 1 == 0 {
            return Some(format!("rec.tensor({wanted}, &{part})?;"));
        }
        Some(match list {
            true => format!("rec.outputs({wanted}, &{part})?;"),
            false if fresh => format!("rec.fresh_output({wanted}, &mut {part})?;"),
            false => format!("rec.output({wanted}, &{part}, {i})?;"),
        })
    }

    /// The statement with which a backward function reads the slot.
    pub(super) fn load(&self, slot: usize, signature: &Signature) -> String {
        let name = variable(&self.used);
        let tensor = |shape: Shape| match shape {
            Shape::One => "tensor",
            Shape::Optional => "opt_tensor",
            Shape::ListOfOptional => "opt_tensors",
            _ => "tensors",
        };
        match &self.used {
            Use::Argument(argument) => {
                let ty = signature.parameters.iter().find(|p| p.name == *argument).map(|p| p.ty);
                match ty {
                    Some(ty) if ty.holds_tensors() => {
                        format!("let {name} = ctx.{}({slot})?;", tensor(ty.shape))
                    }
                    Some(ty) => format!("let {name}: {} = ctx.value({slot})?;", ty.parameter()),
                    None => String::new(),
                }
            }
            Use::Result(i) => {
                let shape = signature.output.0.get(*i).map_or(Shape::One, |ty| ty.shape);
                format!("let {name} = ctx.{}({slot})?;", tensor(shape))
            }
            Use::Metadata { argument, method, .. } => {
                let list = signature
                    .parameters
                    .iter()
                    .any(|p| p.name == *argument && p.ty.shape == Shape::List);
                match (list, *method) {
                    (true, "sizes") => format!("let {name} = ctx.shapes({slot})?;"),
                    (true, "dtypes") => format!("let {name} = ctx.dtypes({slot})?;"),
                    (true, _) => format!("let {name}: i64 = ctx.value({slot})?;"),
                    (_, "options") => format!("let {name} = ctx.options({slot})?;"),
                    (_, method) if is_flag(method) => format!("let {name} = ctx.flag({slot});"),
                    (_, method) => {
                        let ty = metadata_type(method).unwrap_or(Ty::one(Base::Int));
                        format!("let {name}: {} = ctx.value({slot})?;", ty.parameter())
                    }
                }
            }
            Use::Grad | Use::Grads | Use::Needs => String::new(),
        }
    }
}

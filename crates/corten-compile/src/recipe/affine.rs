//! Batch normalisation in evaluation mode: a multiplication and an addition, with numbers per channel.

use super::{Recipe, RecipeStep, Source, Written};
use crate::ir::{Argument, Node, Operand, Program};
use corten_core::{DType, Result};
use corten_cpu::kernels::norm::{AffineStep, affine_of_running};
use corten_ops::{IValue, Tensor};
use std::sync::{Arc, OnceLock};

/// The recipe, if the node is such a normalisation of `f32`.
pub(crate) fn of(node: &Node) -> Option<Arc<Recipe>> {
    static RECIPE: OnceLock<Arc<Recipe>> = OnceLock::new();
    let evaluates = match (node.op.def().name, node.arguments.get(5)) {
        ("native_batch_norm", Some(Argument::Value(IValue::Bool(training)))) => !training,
        ("_native_batch_norm_legit_no_training", _) => true,
        _ => false,
    };
    if !evaluates || node.op.def().namespace != "aten" {
        return None;
    }
    let Some(Argument::Tensor(input)) = node.arguments.first() else { return None };
    let channels = channels_of(input)?;
    let is_parameter = |argument: &Argument| match argument {
        Argument::Value(IValue::None) => true,
        Argument::Tensor(operand) => {
            operand.dtype == DType::Float32 && operand.sizes[..] == [channels]
        }
        _ => false,
    };
    let fits = node.arguments.get(1..5)?.iter().all(is_parameter)
        && input.dtype == DType::Float32
        && eps_of(node).is_some()
        && node.results.iter().skip(1).flatten().all(|saved| saved.numel() == 0);
    let recipe = || {
        Arc::new(Recipe {
            steps: vec![RecipeStep {
                step: Arc::new(AffineStep),
                inputs: [Source::Argument(0), Source::Prepared(0), Source::Prepared(1)]
                    .into_iter()
                    .collect(),
                dtype: DType::Float32,
                single: false,
            }],
            outputs: [(Written::Result(0), 0)].into_iter().collect(),
            reduced: 0,
            prepared: true,
        })
    };
    fits.then(|| RECIPE.get_or_init(recipe).clone())
}

/// The channels of an input: its second dimension.
fn channels_of(input: &Operand) -> Option<i64> {
    input.sizes.get(1).copied().filter(|&channels| channels > 0)
}

fn eps_of(node: &Node) -> Option<f64> {
    match node.arguments.last() {
        Some(Argument::Value(IValue::Double(eps))) => Some(*eps),
        _ => None,
    }
}

/// The tensor that numbers per channel are, beside an input: as many elements as it has channels.
pub(crate) fn operand_beside(input: &Operand) -> Option<Operand> {
    let mut operand = input.clone();
    operand.offset = 0;
    operand.sizes = std::iter::once(channels_of(input)?)
        .chain(std::iter::repeat_n(1, input.sizes.len().saturating_sub(2)))
        .collect();
    operand.strides = std::iter::repeat_n(1, operand.sizes.len()).collect();
    Some(operand)
}

/// The numbers per channel of a node.
///
/// # Errors
/// `Runtime` where statistics are missing.
pub(crate) fn prepare(program: &Program, node: &Node) -> Result<[Vec<f32>; 2]> {
    let mut tensors: [Option<Tensor>; 4] = [const { None }; 4];
    for (tensor, argument) in tensors.iter_mut().zip(node.arguments.iter().skip(1)) {
        if let Argument::Tensor(operand) = argument {
            *tensor = Some(operand.tensor(&program.buffer(operand.buffer).storage)?);
        }
    }
    let [weight, bias, mean, var] = tensors.each_ref().map(Option::as_ref);
    affine_of_running(weight, bias, mean, var, eps_of(node).unwrap_or_default())
}

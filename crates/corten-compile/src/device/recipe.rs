//! What a node launches on a device: its operator is called on a few elements while the back end records.

use super::DeviceStep;
use crate::ir::{Argument, Node, Operand};
use crate::recipe::reduction::{is_dense, reduced_dims, rows_of};
use crate::recipe::{Reader, Recipe, RecipeStep, Source, Written, key, known, may_have_one};
use crate::space::is_injective;
use crate::surrogate::{Extent, LENGTH};
use corten_core::{Device, Result, TensorBase, TensorOptions};
use corten_cpu::pointwise::steps::{RecordedOperand, RecordedStep};
use corten_ops::device_groups::{RecordedLaunch, device_groups};
use corten_ops::{IValue, Stack, Tensor, derived};
use std::sync::Arc;

/// Rows of surrogates, and their length.
const ROWS: [i64; 2] = [3, 67];

/// The recipe of a node on a device, as [`crate::recipe::of`] gives one for the host.
pub(super) fn of(node: &Node, device: Device) -> Option<Arc<Recipe>> {
    if !may_have_one(node) {
        return None;
    }
    match trailing_dims(node) {
        Some(reduced) => of_rows(node, reduced, device),
        None => known(device_key(node, 0), || record(node, device).ok().flatten()),
    }
}

/// Recipes of a device are apart from those of the host.
fn device_key(node: &Node, reduced: usize) -> Vec<u64> {
    let mut words = key(node);
    words.push(3 << 60 | reduced as u64);
    words
}

/// How many trailing dimensions a node reduces whose elements lie side by side, where a group gives the same bits.
fn trailing_dims(node: &Node) -> Option<usize> {
    let dims = reduced_dims(node)?;
    let (Some(Argument::Tensor(input)), [Some(result)]) =
        (node.arguments.first(), &node.results[..])
    else {
        return None;
    };
    let (rank, count) = (input.sizes.len(), dims.len());
    let kept = rank.checked_sub(count)?;
    let trailing = (kept..rank).all(|dim| dims.contains(&dim));
    let sizes = &input.sizes[..kept];
    let shaped =
        result.sizes.starts_with(sizes) && result.sizes[kept..].iter().all(|&size| size == 1);
    let (rows, length) = (sizes.iter().product(), input.sizes[kept..].iter().product());
    let fits = count > 0
        && trailing
        && shaped
        && is_dense(input, count)
        && is_injective(input)
        && device_groups()?.takes_rows(rows, length);
    fits.then_some(count)
}

/// A tensor of an operand's dtype and extent, without contents. Many elements have gaps between them, so that no way
/// around the expressions takes them.
fn surrogate(operand: &Operand, device: Device) -> Result<Tensor> {
    let options = TensorOptions::default().dtype(operand.dtype).device(device);
    let tensor = match Extent::of(operand) {
        Extent::Scalar => TensorBase::empty(&[], options)?,
        Extent::One => TensorBase::empty(&[1], options)?,
        Extent::Many => TensorBase::empty_strided(&[LENGTH as i64], &[2], options)?,
    };
    if operand.wrapped_number {
        tensor.set_wrapped_number(true);
    }
    Ok(tensor.into())
}

fn stack_of(node: &Node, device: Device) -> Result<Option<Stack>> {
    let mut stack = Stack::new();
    for argument in &node.arguments {
        stack.push(match argument {
            Argument::Value(value) => value.clone(),
            Argument::Number(number) => IValue::Tensor(derived::wrapped(*number)?),
            Argument::Tensor(operand) => IValue::Tensor(surrogate(operand, device)?),
            Argument::Tensors(_) | Argument::OptionalTensors(_) => return Ok(None),
        });
    }
    Ok(Some(stack))
}

/// The launches of a call, as the reader of recorded steps takes them.
fn launches_of(node: &Node, stack: &mut Stack) -> Option<Vec<RecordedStep>> {
    let launches = device_groups()?.record(&mut || node.op.call_boxed(stack))?;
    Some(launches.into_iter().map(recorded_step).collect())
}

fn recorded_step(recorded: RecordedLaunch) -> RecordedStep {
    let RecordedLaunch { launch, operands, length, reduces } = recorded;
    let operands = operands.iter().map(|operand| RecordedOperand {
        dtype: operand.dtype,
        address: operand.address,
        stride: operand.stride,
        element: operand.element,
        converted_from: None,
    });
    let operands = operands.collect();
    RecordedStep { step: Arc::new(DeviceStep { launch, reduces }), operands, length, reduces }
}

fn record(node: &Node, device: Device) -> Result<Option<Recipe>> {
    let Some(arguments) = stack_of(node, device)? else { return Ok(None) };
    let mut stack = arguments.clone();
    let Some(recorded) = launches_of(node, &mut stack) else { return Ok(None) };
    Ok(Reader::recipe(node, &arguments, recorded, &stack))
}

/// The recipe of a node that reduces so many trailing dimensions.
fn of_rows(node: &Node, reduced: usize, device: Device) -> Option<Arc<Recipe>> {
    let tensors = node.arguments.iter().filter(|given| matches!(given, Argument::Tensor(_)));
    if tensors.count() != 1 {
        return None;
    }
    let simple = rows_of(node)?;
    known(device_key(&simple, reduced), || record_rows(&simple, reduced, device).ok().flatten())
}

fn record_rows(node: &Node, reduced: usize, device: Device) -> Result<Option<Recipe>> {
    let Some(Argument::Tensor(input)) = node.arguments.first() else { return Ok(None) };
    let options = TensorOptions::default().dtype(input.dtype).device(device);
    let rows: Tensor = TensorBase::empty(&ROWS, options)?.into();
    let mut stack = Stack::new();
    stack.push(&rows);
    for argument in &node.arguments[1..] {
        stack.push(match argument {
            Argument::Value(value) => value.clone(),
            Argument::Number(number) => IValue::Tensor(derived::wrapped(*number)?),
            _ => return Ok(None),
        });
    }
    let Some(mut recorded) = launches_of(node, &mut stack) else { return Ok(None) };
    let (Some(step), true) = (recorded.pop(), recorded.is_empty()) else { return Ok(None) };
    let [IValue::Tensor(result)] = &stack[..] else { return Ok(None) };
    let is_it = |operand: &RecordedOperand, tensor: &Tensor| {
        operand.address == tensor.data_ptr().addr() && operand.dtype == tensor.dtype()
    };
    let own = step.reduces
        && step.operands.len() == 2
        && is_it(&step.operands[0], result)
        && is_it(&step.operands[1], &rows)
        && result.numel() == ROWS[0]
        && node.results[0].as_ref().is_some_and(|operand| operand.dtype == result.dtype());
    let step = RecipeStep {
        step: step.step,
        inputs: [Source::Argument(0)].into_iter().collect(),
        dtype: result.dtype(),
        single: false,
    };
    let outputs = [(Written::Result(0), 0)].into_iter().collect();
    Ok(own.then(|| Recipe { steps: vec![step], outputs, reduced, prepared: false }))
}

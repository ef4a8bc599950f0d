//! Every operator on batches against the same item by item.

use crate::call::Call;
use crate::for_all;
use corten_autograd::no_grad;
use corten_core::{DType, Result, Scalar, ensure};
use corten_ops::{Tensor, batched, op};

/// Operators whose results would differ in shape from item to item.
const REFUSED: &[&str] = &["masked_select"];

/// Operators that `vmap` takes for random ones even where they draw nothing, and refuses unless it is told otherwise.
const RANDOM: &[&str] = &["rrelu_with_noise_functional"];

/// Operators in place on sizes and strides, which items do not have.
const REFUSED_IN_PLACE: &[&str] = &["detach_", "t_", "unsqueeze_", "squeeze_", "transpose_"];

/// Operators on memory: where the items lie matters.
const ON_MEMORY: &[&str] = &[
    "as_strided",
    "as_strided_copy",
    "as_strided_scatter",
    "view_as_complex",
    "view_as_complex_copy",
];

/// On batches every operator gives what it gives item by item, whichever of its inputs are batched
/// and wherever the items lie.
#[test]
fn batches() {
    for_all(DType::Float64, |call| {
        let name = base_name(call);
        if REFUSED.contains(&name.as_str()) || RANDOM.contains(&name.as_str()) {
            return Ok(());
        }
        let inputs: Vec<Tensor> = call.inputs().iter().map(op::detach).collect::<Result<_>>()?;
        let all: Vec<bool> = vec![true; inputs.len()];
        let one = |place: usize| (0..inputs.len()).map(|other| other == place).collect();
        let mut choices: Vec<Vec<bool>> = vec![all];
        if inputs.len() > 1 {
            choices.extend((0..inputs.len()).map(one));
        }
        for chosen in choices {
            check_batch(call, &inputs, &chosen, 0)?;
            if ON_MEMORY.contains(&base_name(call).as_str()) {
                continue;
            }
            check_batch(call, &inputs, &chosen, -1)?;
            let Some(inplace) = call.inplace().filter(|_| chosen[0]) else { continue };
            if REFUSED_IN_PLACE.contains(&base_name(&inplace).as_str()) {
                continue;
            }
            if no_grad(|| on_copies(&inplace, &inputs)).is_ok() {
                check_batch(&inplace, &inputs, &chosen, -1)?;
            }
        }
        Ok(())
    });
}

/// The name without the overload.
fn base_name(call: &Call) -> String {
    call.name().split('.').next().unwrap_or_default().to_owned()
}

/// Runs a call on inputs that it may write to.
fn on_copies(call: &Call, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
    let copies: Vec<Tensor> =
        inputs.iter().map(|input| op::clone(input, None)).collect::<Result<_>>()?;
    call.run(&copies)
}

fn check_batch(call: &Call, inputs: &[Tensor], chosen: &[bool], dim: i64) -> Result<()> {
    const ITEMS: i64 = 2;
    let item = |place: usize, number: i64| -> Result<Tensor> {
        let factor = if chosen[place] { 1.0 - 0.05 * number as f64 } else { 1.0 };
        op::mul_scalar(&inputs[place], Scalar::Float(factor))
    };
    let along = |number: i64| -> Result<Vec<Tensor>> {
        (0..inputs.len()).map(|place| item(place, number)).collect()
    };
    let expected: Vec<Vec<Tensor>> = (0..ITEMS)
        .map(|number| no_grad(|| on_copies(call, &along(number)?)))
        .collect::<Result<_>>()?;
    let level = batched::enter(ITEMS, batched::Randomness::Error);
    let run = || -> Result<Vec<Tensor>> {
        let arguments = (0..inputs.len()).map(|place| -> Result<Tensor> {
            if !chosen[place] {
                return op::clone(&inputs[place], None);
            }
            let items: Vec<Tensor> =
                (0..ITEMS).map(|number| item(place, number)).collect::<Result<_>>()?;
            let value = op::stack(&items, dim)?;
            let hidden = if dim < 0 { value.dim() - 1 } else { 0 };
            batched::wrap(value, hidden, level)
        });
        call.run(&arguments.collect::<Result<Vec<_>>>()?)
    };
    let results = no_grad(run);
    batched::exit(level)?;
    let results = results?;
    ensure!(results.len() == expected[0].len(), Runtime, "another number of results");
    for (place, result) in results.iter().enumerate() {
        for (number, items) in expected.iter().enumerate() {
            let found = match batched::of(result) {
                Some(found) => op::select_int(&found.value, found.dim as i64, number as i64)?,
                None => result.clone(),
            };
            let expected = &items[place];
            let close = found.sizes() == expected.sizes()
                && found.dtype() == expected.dtype()
                && op::allclose(&found, expected, 1e-9, 1e-12, true)?;
            ensure!(
                close,
                Runtime,
                "batched along {chosen:?}, dim {dim}: item {number} of result {place} is \
                 {found:?}, expected {expected:?}"
            );
        }
    }
    Ok(())
}

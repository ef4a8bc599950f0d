//! `outside::cube(Tensor self) -> Tensor`, with its derivative.

use crate::once;
use corten::Tensor;
use corten::autograd::function::{Context, Function, apply};
use corten::core::{BelowADInplaceOrViewGuard, Result, bug};
use corten::ops::{IValue, Library, Stack, Target, call, returns};
use std::sync::Mutex;

/// Defines the operator. Idempotent.
///
/// # Errors
/// `Runtime` when the operator is already defined by somebody else.
pub fn register_operator() -> Result<()> {
    static DONE: Mutex<bool> = Mutex::new(false);
    once(&DONE, register)
}

fn register() -> Result<()> {
    let library = Library::new("outside");
    library.define("cube(Tensor self) -> Tensor")?;
    library
        .implement("cube", Target::CompositeExplicitAutograd, |_call, stack| {
            let input: &Tensor = stack[0].get()?;
            let result = (input * input * input)?;
            stack.replace(result);
            Ok(())
        })?
        .keep();
    library
        .implement("cube", Target::Autograd, |_call, stack| {
            let input = stack[0].get::<&Tensor>()?.clone();
            let Some(result) = apply(Cube, &[input])?.pop() else {
                bug!("a function of one output returned none");
            };
            stack.replace(result);
            Ok(())
        })?
        .keep();
    Ok(())
}

/// The third power of each element.
///
/// # Errors
/// Those of the multiplication; `Internal` before [`register_operator`].
pub fn cube(input: &Tensor) -> Result<Tensor> {
    let mut stack: Stack = std::iter::once(IValue::from(input)).collect();
    call("outside::cube", &mut stack)?;
    returns(stack)
}

struct Cube;

impl Function for Cube {
    fn forward(&self, ctx: &mut Context, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        ctx.save_for_backward(inputs);
        let _below = BelowADInplaceOrViewGuard::new();
        Ok(vec![cube(&inputs[0])?])
    }

    fn backward(&self, ctx: &Context, grads: &[Tensor]) -> Result<Vec<Tensor>> {
        let saved = ctx.saved_tensors()?;
        Ok(vec![(&grads[0] * &saved[0] * &saved[0] * &Tensor::from_element(3.0f32)?)?])
    }
}

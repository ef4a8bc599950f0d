//! Operators from outside the tree, without a change in it: `tutorial::linear_recurrence`, a loop of its own, and
//! `tutorial::squared_relu`, an expression.
//!
//! ```
//! use corten::prelude::*;
//!
//! # fn main() -> Result<()> {
//! custom_operator::register()?;
//! let decay = tensor![[0.5, 0.5, 0.5]]?;
//! let input = tensor![[1.0, 0.0, 2.0]]?;
//! let states = custom_operator::linear_recurrence(&decay, &input)?;
//! assert_eq!(states.to_vec::<f32>()?, [1.0, 0.5, 2.25]);
//! # Ok(())
//! # }
//! ```

mod arguments;
mod derivative;
mod elementwise;
mod kernel;

use corten::ops::{IValue, Library, Stack, Target, call, returns};
use corten::{Result, Tensor};
use std::sync::{Mutex, PoisonError};

/// The name that errors have.
const NAME: &str = "linear_recurrence";

/// Defines the operators and their kernels. Idempotent.
///
/// # Errors
/// `Runtime` when an operator is already defined by somebody else.
pub fn register() -> Result<()> {
    static DONE: Mutex<bool> = Mutex::new(false);
    let mut done = DONE.lock().unwrap_or_else(PoisonError::into_inner);
    if *done {
        return Ok(());
    }
    let library = Library::new("tutorial");
    library.define("linear_recurrence(Tensor decay, Tensor input) -> Tensor")?;
    implement2(&library, Target::CPU, kernel::linear_recurrence)?;
    implement2(&library, Target::Meta, arguments::empty_result)?;
    implement2(&library, Target::Autograd, derivative::linear_recurrence)?;
    library.define("squared_relu(Tensor self) -> Tensor")?;
    implement1(&library, Target::CPU, elementwise::squared_relu)?;
    implement1(&library, Target::Meta, elementwise::empty_result)?;
    implement1(&library, Target::Autograd, elementwise::recorded)?;
    *done = true;
    Ok(())
}

/// Adds a function of one tensor as a kernel of `squared_relu`.
fn implement1(
    library: &Library,
    target: Target,
    kernel: fn(&Tensor) -> Result<Tensor>,
) -> Result<()> {
    let registration = library.implement("squared_relu", target, move |_call, stack| {
        let result = kernel(stack[0].get()?)?;
        stack.replace(result);
        Ok(())
    })?;
    registration.keep();
    Ok(())
}

/// Adds a function of two tensors as a kernel of `linear_recurrence`.
fn implement2(
    library: &Library,
    target: Target,
    kernel: fn(&Tensor, &Tensor) -> Result<Tensor>,
) -> Result<()> {
    let registration = library.implement(NAME, target, move |_call, stack| {
        let (decay, input): (&Tensor, &Tensor) = (stack[0].get()?, stack[1].get()?);
        let result = kernel(decay, input)?;
        stack.replace(result);
        Ok(())
    })?;
    // A kernel goes when its registration is dropped; this one stays.
    registration.keep();
    Ok(())
}

/// `h[t] = decay[t] * h[t - 1] + input[t]` along the last of two dimensions, from a state of zero.
///
/// # Errors
/// `Runtime` for arguments of other shapes, dtypes or devices; `Internal` before [`register`].
pub fn linear_recurrence(decay: &Tensor, input: &Tensor) -> Result<Tensor> {
    let mut stack: Stack = [decay, input].into_iter().map(IValue::from).collect();
    call("tutorial::linear_recurrence", &mut stack)?;
    returns(stack)
}

/// The square of the positive elements, zero for the others.
///
/// # Errors
/// `NotImplemented` for dtypes other than floats; `Internal` before [`register`].
pub fn squared_relu(input: &Tensor) -> Result<Tensor> {
    let mut stack: Stack = std::iter::once(IValue::from(input)).collect();
    call("tutorial::squared_relu", &mut stack)?;
    returns(stack)
}

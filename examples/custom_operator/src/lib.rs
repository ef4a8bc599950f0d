//! An operator from outside the tree, without a change in it: `tutorial::linear_recurrence`.
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
mod kernel;

use corten::ops::{IValue, Library, Stack, Target, call, returns};
use corten::{Result, Tensor};
use std::sync::{Mutex, PoisonError};

/// The name that errors have.
const NAME: &str = "linear_recurrence";

/// Defines the operator and its kernels. Idempotent.
///
/// # Errors
/// `Runtime` when the operator is already defined by somebody else.
pub fn register() -> Result<()> {
    static DONE: Mutex<bool> = Mutex::new(false);
    let mut done = DONE.lock().unwrap_or_else(PoisonError::into_inner);
    if *done {
        return Ok(());
    }
    let library = Library::new("tutorial");
    library.define("linear_recurrence(Tensor decay, Tensor input) -> Tensor")?;
    implement(&library, Target::CPU, kernel::linear_recurrence)?;
    implement(&library, Target::Meta, arguments::empty_result)?;
    implement(&library, Target::Autograd, derivative::linear_recurrence)?;
    *done = true;
    Ok(())
}

/// Adds a function of the two arguments as a kernel.
fn implement(
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

//! The gradient: with `g[t]` that of `h[t]`, `g[t] = grad[t] + decay[t + 1] * g[t + 1]`, which is the recurrence
//! from the end; that of `input[t]` is `g[t]`, that of `decay[t]` is `g[t] * h[t - 1]`.

use crate::linear_recurrence as call;
use corten::autograd::function::{Context, Function, apply};
use corten::core::{BelowADInplaceOrViewGuard, bug};
use corten::{Result, Tensor, op};

/// What runs where gradients are recorded.
pub(crate) fn linear_recurrence(decay: &Tensor, input: &Tensor) -> Result<Tensor> {
    match apply(LinearRecurrence, &[decay.clone(), input.clone()])?.pop() {
        Some(result) => Ok(result),
        None => bug!("a function of one output returned none"),
    }
}

struct LinearRecurrence;

impl Function for LinearRecurrence {
    fn forward(&self, ctx: &mut Context, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        // The kernel of the device, below the keys of autograd.
        let _below = BelowADInplaceOrViewGuard::new();
        let states = call(&inputs[0], &inputs[1])?;
        ctx.save_for_backward(&[inputs[0].clone(), states.clone()]);
        Ok(vec![states])
    }

    fn backward(&self, ctx: &Context, grads: &[Tensor]) -> Result<Vec<Tensor>> {
        let saved = ctx.saved_tensors()?;
        let (decay, states) = (&saved[0], &saved[1]);
        if states.numel() == 0 {
            return Ok(vec![op::mul_tensor(decay, &grads[0])?, grads[0].clone()]);
        }
        let from_the_end = |tensor: &Tensor| op::flip(tensor, &[1]);
        let next_decay = op::roll(decay, &[-1], &[1])?;
        let input_grad = call(&from_the_end(&next_decay)?, &from_the_end(&grads[0])?)?;
        let input_grad = from_the_end(&input_grad)?;
        let previous = op::constant_pad_nd(states, &[1, -1], 0.into())?;
        Ok(vec![op::mul_tensor(&input_grad, &previous)?, input_grad])
    }
}

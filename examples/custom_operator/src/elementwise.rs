//! `tutorial::squared_relu(Tensor self) -> Tensor`: an expression over numbers, compiled for the vectors of every
//! instruction set, for any strides and every dtype of floats.

use corten::autograd::function::{Context, Function, apply};
use corten::core::{BelowADInplaceOrViewGuard, bug};
use corten::cpu::pointwise::{Pointwise1, pointwise1};
use corten::cpu::vec::expr::Expr;
use corten::ops::iter::TensorIteratorConfig;
use corten::ops::meta::Domain;
use corten::{Result, Tensor, op};

struct SquaredRelu;

impl Pointwise1 for SquaredRelu {
    const NAME: &'static str = "squared_relu";
    const DOMAIN: Domain = Domain::Float;

    /// `E` is a vector register, or one number where there is no vector.
    #[inline(always)]
    fn eval<E: Expr>(x: E, _: &[E]) -> E {
        // Of NaN the comparison is false, and its square is NaN.
        E::select(x.le(E::lit(0.0)), E::lit(0.0), x * x)
    }
}

/// The iterator gives strides, allocates the result in the order of the input, and splits it among threads.
pub(crate) fn squared_relu(input: &Tensor) -> Result<Tensor> {
    let mut iterator = TensorIteratorConfig::unary().add_output(None).add_input(input).build()?;
    pointwise1::<SquaredRelu>(&mut iterator, &[])?;
    iterator.finish()?;
    Ok(iterator.into_output(0))
}

/// The result without values.
pub(crate) fn empty_result(input: &Tensor) -> Result<Tensor> {
    let iterator = TensorIteratorConfig::unary().add_output(None).add_input(input).build()?;
    Ok(iterator.into_output(0))
}

/// What runs where gradients are recorded.
pub(crate) fn recorded(input: &Tensor) -> Result<Tensor> {
    match apply(SquaredRelu, std::slice::from_ref(input))?.pop() {
        Some(result) => Ok(result),
        None => bug!("a function of one output returned none"),
    }
}

impl Function for SquaredRelu {
    fn forward(&self, ctx: &mut Context, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        ctx.save_for_backward(inputs);
        let _below = BelowADInplaceOrViewGuard::new();
        Ok(vec![crate::squared_relu(&inputs[0])?])
    }

    fn backward(&self, ctx: &Context, grads: &[Tensor]) -> Result<Vec<Tensor>> {
        let saved = ctx.saved_tensors()?;
        Ok(vec![(&grads[0] * 2.0 * &op::relu(&saved[0])?)?])
    }
}

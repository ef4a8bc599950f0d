//! Functions that look at the bits of numbers.

use crate::flat_launch::Flat;
use crate::kernel::{Argument, Template};
use crate::operands::{contiguous, empty, like_planned, on_meta};
use crate::pointwise::{Expression, run_as};
use crate::text;
use corten_core::{Access, DType, Result, Scalar};
use corten_ops::meta::Domain;
use corten_ops::{Tensor, TensorIterator, op};

static FREXP: Template = Template { name: "fraction_and_power", text: &[text::FLOAT_BITS] };

const fn next(operator: &'static str) -> Expression {
    Expression {
        name: "nextafter_cuda",
        operator,
        text: text::FLOAT_BITS,
        inputs: 2,
        domain: Domain::Float,
    }
}

static NEXT: Expression = next("NextAfter");
static NEXT_HALF: Expression = next("NextAfterHalf");
static NEXT_BFLOAT16: Expression = next("NextAfterBFloat16");

/// `nextafter`.
///
/// # Errors
/// Those of the driver.
pub fn nextafter(iter: &mut TensorIterator, scalars: &[Scalar]) -> Result<()> {
    let dtype = iter.compute_dtype();
    let expression = match dtype {
        DType::BFloat16 => &NEXT_BFLOAT16,
        DType::Float16 => &NEXT_HALF,
        _ => &NEXT,
    };
    run_as(expression, iter, scalars, dtype)
}

/// `frexp`: fractions and powers of two.
///
/// # Errors
/// `Runtime` for dtypes other than floating point.
pub fn frexp(self_: &Tensor) -> Result<(Tensor, Tensor)> {
    let planned = op::frexp_tensor(&on_meta(self_)?)?;
    let outputs = (like_planned(&planned.0, self_)?, like_planned(&planned.1, self_)?);
    let input = contiguous(self_)?;
    let in_order = |out: &Tensor| match out.is_contiguous() {
        true => Ok(out.clone()),
        false => empty(&out.sizes(), out.dtype(), out),
    };
    let (fractions, powers) = (in_order(&outputs.0)?, in_order(&outputs.1)?);
    let tensors = [(&fractions, Access::Write), (&powers, Access::Write), (&input, Access::Read)];
    let of = [Argument::Storage(self_.dtype())];
    let call = Flat { template: &FREXP, of: &of, tensors: &tensors };
    // SAFETY: the tensors are contiguous and of one size.
    unsafe { call.over(self_.numel(), &mut [])? };
    for (own, out) in [(&fractions, &outputs.0), (&powers, &outputs.1)] {
        if !own.is_same(out) {
            op::copy_(out, own, false)?;
        }
    }
    Ok(outputs)
}

//! Uses the operators of `examples/c/operators.c`: `use_operators ./liboperators.so`.

#![allow(clippy::print_stdout, reason = "a program that talks to its user")]

use corten::core::{bail, ensure};
use corten::ops::{IValue, Stack, call, returns};
use corten::prelude::*;

fn softclip(x: &Tensor, limit: f64) -> Result<Tensor> {
    let mut stack: Stack = [IValue::from(x), IValue::from(limit)].into_iter().collect();
    call("example_c::softclip", &mut stack)?;
    returns(stack)
}

fn main() -> Result<()> {
    let Some(path) = std::env::args().nth(1) else {
        bail!(Value, "the path of a library expected")
    };
    ensure!(corten_c::load_library(&path)?, Runtime, "{path} registers no operators");

    let x = Tensor::from_vec(vec![-3.0, -0.5, 0.25, 2.0], &[4])?.requires_grad_(true)?;
    let y = softclip(&x, 2.0)?;
    let expected = (2.0 * &x / (op::abs(&x)? + 2.0)?)?;
    ensure!(op::allclose(&y, &expected, 1e-12, 1e-12, false)?, Runtime, "{y} is not {expected}");
    op::sum(&y, None)?.backward()?;
    let wanted = corten::grad(
        &[op::sum(&expected, None)?],
        std::slice::from_ref(&x),
        None,
        Default::default(),
        None,
        false,
    )?;
    match (x.grad(), &wanted[..]) {
        (Some(grad), [Some(wanted)]) if op::allclose(&grad, wanted, 1e-12, 1e-12, false)? => {}
        (grad, _) => bail!(Runtime, "the gradient {grad:?} is not {wanted:?}"),
    }
    let refused = softclip(&x, -1.0).err().map(|error| error.to_string());
    ensure!(
        refused.as_deref() == Some("softclip: limit must be positive"),
        Runtime,
        "a negative limit gave {refused:?}"
    );
    println!("softclip from C: {:?}", y.to_vec::<f64>()?);
    Ok(())
}

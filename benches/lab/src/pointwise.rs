//! Elementwise arithmetic and mathematics.

use crate::{Case, Size, Work, operand};
use corten::core::{Result, Scalar};
use corten::op;

const SIZES: [(Size, i64); 3] =
    [(Size::Small, 1001), (Size::Large, 100_000), (Size::Large, 10_000_000)];

pub(crate) fn cases(size: Size) -> Result<Vec<Case>> {
    let mut cases = Vec::new();
    for (_, elements) in SIZES.into_iter().filter(|(of, _)| *of == size) {
        cases.push(add(elements)?);
        cases.push(exp(elements)?);
    }
    Ok(cases)
}

fn add(elements: i64) -> Result<Case> {
    let ((a, a0), (b, b0)) = (operand(&[elements])?, operand(&[elements])?);
    Ok(Case {
        name: format!("add {elements}"),
        work: Work::Bytes(12 * a0.len()),
        scale: 1.0,
        v0: Box::new(move || add_v0(&a0, &b0)),
        library: Box::new(move || op::add_tensor(&a, &b, Scalar::Int(1))),
    })
}

fn add_v0(a: &[f32], b: &[f32]) -> Vec<f32> {
    a.iter().zip(b).map(|(a, b)| a + b).collect()
}

fn exp(elements: i64) -> Result<Case> {
    let (x, x0) = operand(&[elements])?;
    Ok(Case {
        name: format!("exp {elements}"),
        work: Work::Bytes(8 * x0.len()),
        scale: 1.0,
        v0: Box::new(move || exp_v0(&x0)),
        library: Box::new(move || op::exp(&x)),
    })
}

fn exp_v0(x: &[f32]) -> Vec<f32> {
    x.iter().map(|x| x.exp()).collect()
}

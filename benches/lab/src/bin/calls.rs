//! Calls one small operator again and again, for a profiler to count instructions:
//! `calls CASE COUNT`. Without arguments it names the cases.

#![allow(clippy::print_stdout)]

use std::hint::black_box;

use corten::core::{bail, err};
use corten::prelude::*;

/// What is called, on tensors of one element.
type Call = Box<dyn Fn() -> Result<Tensor>>;

fn cases() -> Result<Vec<(&'static str, Call)>> {
    let x = Tensor::from_vec(vec![1.5f32], &[1])?;
    let y = Tensor::from_vec(vec![0.5f32], &[1])?;
    let leaf = Tensor::from_vec(vec![1.5f32], &[1])?.requires_grad_(true)?;
    let mut cases: Vec<(&'static str, Call)> = Vec::new();
    let (a, b) = (x.clone(), y.clone());
    cases.push(("add", Box::new(move || a.add(&b))));
    let (a, b) = (leaf.clone(), y.clone());
    cases.push(("add_recorded", Box::new(move || a.add(&b))));
    let (a, b) = (leaf.clone(), y.clone());
    cases.push(("mul_recorded", Box::new(move || a.mul(&b))));
    let (a, b) = (leaf.mul(&y)?, y.clone());
    cases.push(("add_inner", Box::new(move || a.add(&b))));
    let (a, b) = (leaf.mul(&y)?, y.clone());
    cases.push(("mul_inner", Box::new(move || a.mul(&b))));
    let a = leaf.mul(&y)?;
    cases.push(("view_inner", Box::new(move || a.view(&[1, 1]))));
    let a = x.clone();
    cases.push(("exp", Box::new(move || a.exp())));
    let a = x.clone();
    cases.push(("view", Box::new(move || a.view(&[1, 1]))));
    let a = leaf.clone();
    cases.push(("view_recorded", Box::new(move || a.view(&[1, 1]))));
    cases.extend(products()?);
    let a = x.clone();
    cases.push(("sum", Box::new(move || a.sum())));
    let (a, b) = (x, y);
    cases.push(("add_", Box::new(move || a.add_(&b))));
    cases.push(("empty", Box::new(|| op::empty_memory_format(&[1], None, None, None, None, None))));
    Ok(cases)
}

/// Products of a row with a matrix, as a small linear layer has them.
fn products() -> Result<Vec<(&'static str, Call)>> {
    let row = Tensor::from_vec(vec![1.5f32; 16], &[1, 16])?;
    let matrix = Tensor::from_vec(vec![0.5f32; 256], &[16, 16])?;
    let bias = Tensor::from_vec(vec![0.5f32; 16], &[16])?;
    let leaf = op::clone(&matrix, None)?.requires_grad_(true)?;
    let mut cases: Vec<(&'static str, Call)> = Vec::new();
    let (a, b) = (row.clone(), matrix.clone());
    cases.push(("mm", Box::new(move || a.mm(&b))));
    let (a, b, c) = (row.clone(), matrix.clone(), bias.clone());
    cases.push(("linear", Box::new(move || op::linear(&a, &b, Some(&c)))));
    let (a, b, c) = (row, leaf, bias);
    cases.push(("linear_recorded", Box::new(move || op::linear(&a, &b, Some(&c)))));
    Ok(cases)
}

fn main() -> Result<()> {
    let cases = cases()?;
    let arguments: Vec<String> = std::env::args().collect();
    let [_, name, count] = arguments.as_slice() else {
        for (name, _) in cases {
            println!("{name}");
        }
        return Ok(());
    };
    let count: usize = count.parse().map_err(|_| err!(Value, "{count} is no count"))?;
    let Some((_, call)) = cases.into_iter().find(|(known, _)| known == name) else {
        bail!(Value, "there is no case {name}");
    };
    for _ in 0..count {
        drop(black_box(call()?));
    }
    Ok(())
}

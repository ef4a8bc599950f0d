//! The operator in use.
#![allow(clippy::unwrap_used)] // tests may

use corten::autograd::gradcheck::{GradcheckOptions, gradcheck, gradgradcheck};
use corten::prelude::*;
use custom_operator::{linear_recurrence, register, squared_relu};

fn numbers(sizes: [i64; 2], seed: u64) -> Result<Tensor> {
    corten::manual_seed(seed);
    op::randn(&sizes, Some(DType::Float64), None, None, None)
}

/// The recurrence as a loop over numbers.
fn expected(decay: &Tensor, input: &Tensor) -> Result<Vec<f64>> {
    let steps = input.size(1)?.max(1) as usize;
    let (decay, input) = (decay.to_vec::<f64>()?, input.to_vec::<f64>()?);
    let mut states = vec![0.0; input.len()];
    for at in 0..states.len() {
        let before = if at % steps == 0 { 0.0 } else { states[at - 1] };
        states[at] = decay[at] * before + input[at];
    }
    Ok(states)
}

fn message(result: Result<Tensor>) -> String {
    result.unwrap_err().message().to_owned()
}

#[test]
fn values_strides_and_threads() -> Result<()> {
    register()?;
    for sizes in [[3, 5], [1, 1], [0, 4], [4, 0], [300, 400]] {
        let (decay, input) = (numbers(sizes, 1)?, numbers([sizes[1], sizes[0]], 2)?);
        let decay = op::tanh(&decay)?;
        // Neither is contiguous.
        let input = op::t(&input)?;
        let decay = op::flip(&op::t(&op::contiguous(&op::t(&decay)?, Default::default())?)?, &[0])?;
        let states = linear_recurrence(&decay, &input)?;
        assert_eq!(states.sizes(), input.sizes());
        assert_eq!(states.to_vec::<f64>()?, expected(&decay, &input)?);
    }
    let row = tensor![[1.0, 2.0]; DType::BFloat16]?;
    assert_eq!(linear_recurrence(&row, &row)?.to_vec::<f32>()?, [1.0, 4.0]);
    Ok(())
}

#[test]
fn shapes_without_data() -> Result<()> {
    register()?;
    let input = op::empty_memory_format(&[2, 1 << 40], None, None, Some(Device::META), None, None)?;
    let states = linear_recurrence(&input, &input)?;
    assert_eq!((states.sizes(), states.device()), (input.sizes(), Device::META));
    Ok(())
}

#[test]
fn errors_name_the_argument() -> Result<()> {
    register()?;
    let table = Tensor::zeros([2, 3])?;
    let row = Tensor::zeros([3])?;
    assert_eq!(
        message(linear_recurrence(&table, &row)),
        "Expected 2-dimensional tensor, but got 1-dimensional tensor for argument #2 'input' \
         (while checking arguments for linear_recurrence)"
    );
    assert_eq!(
        message(linear_recurrence(&op::t(&table)?, &table)),
        "Expected tensor for argument #1 'decay' to have same size as tensor for argument #2 \
         'input'; but [3, 2] does not equal [2, 3] (while checking arguments for linear_recurrence)"
    );
    assert!(message(linear_recurrence(&table, &table.to(DType::Float64)?)).contains("same dtype"));
    let long = table.to(DType::Int64)?;
    assert_eq!(
        message(linear_recurrence(&long, &long)),
        "\"linear_recurrence\" not implemented for 'Long'"
    );
    Ok(())
}

#[test]
fn derivatives() -> Result<()> {
    register()?;
    let inputs = [numbers([2, 4], 3)?, numbers([2, 4], 4)?];
    for input in &inputs {
        input.requires_grad_(true)?;
    }
    let run = |inputs: &[Tensor]| Ok(vec![linear_recurrence(&inputs[0], &inputs[1])?]);
    gradcheck(run, &inputs, GradcheckOptions::default())?;
    gradgradcheck(run, &inputs, GradcheckOptions::default())?;
    let empty = Tensor::zeros([2, 0])?;
    empty.requires_grad_(true)?;
    linear_recurrence(&empty, &empty)?.sum()?.backward()?;
    assert_eq!(empty.grad().unwrap().sizes().as_slice(), [2, 0]);
    Ok(())
}

#[test]
fn it_is_an_operator_as_others_are() -> Result<()> {
    register()?;
    let found = corten::ops::registry::find("tutorial::linear_recurrence").unwrap();
    assert_eq!(found.def().schema, "linear_recurrence(Tensor decay, Tensor input) -> Tensor");
    // It trains: a decay is learnt that leads from one input to the states of another decay.
    let input = Tensor::ones([1, 8])?;
    let wanted = linear_recurrence(&Tensor::full([1, 8], 0.7)?, &input)?;
    let decay = Tensor::zeros([1])?.requires_grad_(true)?.clone();
    let mut optimizer = Sgd::new([decay.clone()], SgdOptions { lr: 0.02, ..Default::default() })?;
    for _ in 0..200 {
        optimizer.zero_grad()?;
        let states = linear_recurrence(&op::expand(&decay, &[1, 8], false)?, &input)?;
        loss::mse_loss(&states, &wanted, Reduction::Mean)?.backward()?;
        optimizer.step()?;
    }
    assert!((decay.to_element::<f64>()? - 0.7).abs() < 1e-3);
    Ok(())
}

#[test]
fn an_expression_runs_in_vectors() -> Result<()> {
    register()?;
    let x = numbers([37, 53], 5)?;
    let expected: Vec<f64> =
        x.to_vec::<f64>()?.into_iter().map(|x| if x > 0.0 { x * x } else { 0.0 }).collect();
    assert_eq!(squared_relu(&x)?.to_vec::<f64>()?, expected);
    let turned = squared_relu(&op::t(&x)?)?;
    assert_eq!(turned.strides(), op::t(&x)?.strides());
    assert_eq!(op::t(&turned)?.to_vec::<f64>()?, expected);
    let halves = squared_relu(&tensor![3.0, -1.0, f32::NAN; DType::Float16]?)?.to_vec::<f32>()?;
    assert!(halves[..2] == [9.0, 0.0] && halves[2].is_nan());
    assert_eq!(squared_relu(&x.to(Device::META)?)?.sizes().as_slice(), [37, 53]);
    assert!(squared_relu(&x.to(DType::Int32)?).is_err());
    let small = numbers([2, 3], 6)?.requires_grad_(true)?.clone();
    let run = |inputs: &[Tensor]| Ok(vec![squared_relu(&inputs[0])?]);
    gradcheck(run, std::slice::from_ref(&small), GradcheckOptions::default())?;
    gradgradcheck(run, &[small], GradcheckOptions::default())
}

//! What is built on the engine: checkpoints, products with Jacobians, anomaly detection.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use crate::common::*;
use corten_autograd::functional::{hessian, hvp, jacobian, jvp, vjp};
use corten_autograd::node::Node;
use corten_autograd::{Autograd, GradDType, anomaly, checkpoint, inference_mode};
use corten_core::{DType, Result, bail};
use corten_ops::{Tensor, op};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

fn cube_sum(x: &Tensor) -> Result<Tensor> {
    op::sum(&((x * x)? * x)?, None)
}

#[test]
fn checkpoints_run_twice_and_give_the_same() {
    let runs = Arc::new(AtomicUsize::new(0));
    let counter = runs.clone();
    let x = vector(&[1.0, 2.0]).requires_grad_(true).unwrap();
    let w = vector(&[3.0, 4.0]).requires_grad_(true).unwrap();
    let captured = w.clone();
    let run = move |inputs: &[Tensor]| {
        counter.fetch_add(1, Ordering::Relaxed);
        let y = op::exp(&(&inputs[0] * &captured)?)?;
        Ok(vec![(&y * &y)?])
    };
    let y = checkpoint(run, std::slice::from_ref(&x)).unwrap().remove(0);
    assert_eq!(runs.load(Ordering::Relaxed), 1);
    sum(&y).backward().unwrap();
    assert_eq!(runs.load(Ordering::Relaxed), 2);
    let expected = |x: f32, w: f32, other: f32| 2.0 * other * (2.0 * x * w).exp();
    assert_eq!(grad(&x), [expected(1.0, 3.0, 3.0), expected(2.0, 4.0, 4.0)]);
    assert_eq!(grad(&w), [expected(1.0, 3.0, 1.0), expected(2.0, 4.0, 2.0)]);
}

#[test]
fn checkpoints_repeat_random_numbers() {
    let x = vector(&[1.0; 64]).requires_grad_(true).unwrap();
    let run = |inputs: &[Tensor]| {
        let mask = op::bernoulli_p(&inputs[0].detach()?, 0.5, None)?;
        Ok(vec![((&inputs[0] * &inputs[0])? * mask)?])
    };
    let y = checkpoint(run, std::slice::from_ref(&x)).unwrap().remove(0);
    sum(&y).backward().unwrap();
    let doubled: Vec<f32> = list(&y).iter().map(|value| 2.0 * value).collect();
    assert_eq!(grad(&x), doubled);
}

#[test]
fn checkpoints_notice_another_second_run() {
    let runs = AtomicUsize::new(0);
    let run = move |inputs: &[Tensor]| {
        let x = &inputs[0];
        match runs.fetch_add(1, Ordering::Relaxed) {
            0 => Ok(vec![(x * x)?]),
            _ => Ok(vec![op::exp(&(x * x)?)?]),
        }
    };
    let y = checkpoint(run, &[ones(2)]).unwrap().remove(0);
    let message = message(sum(&y).backward());
    assert!(message.starts_with("checkpoint: A different number of tensors was saved"));
}

#[test]
fn products_with_jacobians() {
    let x = vector(&[1.0, 2.0, 3.0]);
    let v = vector(&[1.0, 0.0, -1.0]);
    let square = |x: &Tensor| x * x;
    let (value, product) = vjp(square, &x, &v).unwrap();
    assert_eq!((list(&value), list(&product)), (vec![1.0, 4.0, 9.0], vec![2.0, 0.0, -6.0]));
    assert_eq!(list(&jvp(square, &x, &v).unwrap().1), [2.0, 0.0, -6.0]);
    let j = jacobian(square, &x).unwrap();
    assert_eq!(
        (list(&j), j.sizes().to_vec()),
        (vec![2., 0., 0., 0., 4., 0., 0., 0., 6.], vec![3, 3])
    );
    let h = hessian(cube_sum, &x).unwrap();
    assert_eq!(list(&h), [6., 0., 0., 0., 12., 0., 0., 0., 18.]);
    assert_eq!(list(&hvp(cube_sum, &x, &v).unwrap()), [6.0, 0.0, -18.0]);
    assert_eq!(list(&jvp(|_| Ok(scalar(1.0)), &x, &v).unwrap().1), [0.0]);
}

#[test]
fn products_in_inference_mode() {
    inference_mode(|| {
        let (x, v) = (vector(&[1.0, 2.0, 3.0]), vector(&[1.0, 0.0, -1.0]));
        assert!(x.is_inference());
        let scaled = |y: &Tensor| (y * y)? * &x;
        let products = [vjp(scaled, &x, &v).unwrap().1, jvp(scaled, &x, &v).unwrap().1];
        products.iter().for_each(|product| assert_eq!(list(product), [2.0, 0.0, -18.0]));
        let h = hessian(cube_sum, &x).unwrap();
        assert_eq!(list(&h), [6., 0., 0., 0., 12., 0., 0., 0., 18.]);
        assert!((&x.requires_grad_(true).unwrap() * &v).unwrap().is_inference());
    });
}

/// One test for all of it: the mode is global.
#[test]
fn anomalies() {
    let x = vector(&[0.0]).requires_grad_(true).unwrap();
    let run = || {
        let y = op::mul_scalar(&op::sqrt(&x)?, 0_i64.into())?;
        sum(&y).backward()
    };
    run().unwrap();
    anomaly::set_detect_anomaly(true, true);
    assert_eq!(message(run()), "Function 'SqrtBackward0' returned nan values in its 0th output.");
    let y = op::exp(&ones(1)).unwrap();
    shift_(&y, 1.0).unwrap();
    assert!(message(sum(&y).backward()).ends_with(
        " Hint: the backtrace further above shows the operation that failed to compute its \
         gradient. The variable in question was changed in there or anywhere later. Good luck!"
    ));
    anomaly::set_detect_anomaly(false, true);
}

#[test]
fn gradients_of_another_dtype() {
    let x = ones(2);
    x.set_grad_dtype(GradDType::Fixed(DType::Float64)).unwrap();
    sum(&(&x * 2.0).unwrap()).backward().unwrap();
    assert_eq!(x.grad().unwrap().dtype(), DType::Float64);
    assert_eq!(
        message(x.set_grad_dtype(GradDType::Same)),
        "Cannot set grad_dtype to 'Float' because there is already a gradient with dtype 'Double'."
    );
}

#[test]
fn nodes_are_called_directly() {
    let x = vector(&[3.0]).requires_grad_(true).unwrap();
    let node = (&x * &x).unwrap().grad_fn().unwrap().unwrap();
    let grads = Node::call(&node, [vector(&[1.0])].into_iter().collect()).unwrap();
    assert_eq!(grads.iter().map(|grad| list(grad)[0]).collect::<Vec<_>>(), [3.0, 3.0]);
    assert_eq!((node.name().into_owned(), node.num_inputs()), ("MulBackward0".to_owned(), 1));
}

#[test]
fn data_is_replaced() {
    let x = ones(2);
    let data = x.data().unwrap();
    assert!(!data.requires_grad() && data.is_alias_of(&x));
    shift_(&data, 1.0).unwrap();
    assert_eq!((x.version().unwrap(), list(&x)), (0, vec![2.0, 2.0]));
    sum(&x).backward().unwrap();
    x.set_grad(None).unwrap();
    x.set_data(&vector(&[1.0; 3])).unwrap();
    sum(&x).backward().unwrap();
    assert_eq!(grad(&x), [1.0; 3]);
    let integers = op::to_dtype(&vector(&[1.0]), DType::Int64, false, false, None).unwrap();
    assert_eq!(
        message(x.set_data(&integers)),
        "data set to a tensor that requires gradients must be floating point or complex dtype"
    );
}

#[test]
fn errors_of_hooks_pass() {
    let x = ones(1);
    x.register_hook(|_| bail!(Value, "no")).unwrap();
    assert_eq!(message(sum(&x).backward()), "no");
}

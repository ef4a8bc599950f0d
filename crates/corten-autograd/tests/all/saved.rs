//! Saved tensors: versions, freed graphs, hooks.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use crate::common::*;
use corten_autograd::node::Node;
use corten_autograd::saved_hooks::{SavedTensorHooks, saved_tensors_hooks};
use corten_autograd::{Autograd, BackwardOptions, inference_mode};
use corten_ops::{Tensor, op};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

const HINT: &str = " Hint: enable anomaly detection to find the operation that failed to compute \
    its gradient, with torch.autograd.set_detect_anomaly(True, check_nan=False).";
const TWICE: &str = "Trying to backward through the graph a second time (or directly access saved \
    tensors after they have already been freed). Saved intermediate values of the graph are freed \
    when you call .backward() or autograd.grad(). Specify retain_graph=True if you need to \
    backward through the graph a second time or if you need to access saved tensors after calling \
    backward.";

fn modified(what: &str) -> String {
    format!(
        "one of the variables needed for gradient computation has been modified by an inplace \
         operation: {what} is at version 1; expected version 0 instead.{HINT}"
    )
}

#[test]
fn a_saved_output_was_modified() {
    let y = op::exp(&ones(2)).unwrap();
    shift_(&y, 1.0).unwrap();
    assert_eq!(
        message(sum(&y).backward()),
        modified("[torch.FloatTensor [2]], which is output 0 of Exp,")
    );
}

#[test]
fn a_saved_input_was_modified() {
    let z = op::add_scalar(&ones(2), 0_i64.into(), 1_i64.into()).unwrap();
    let y = (&z * &z).unwrap();
    shift_(&z, 1.0).unwrap();
    assert_eq!(
        message(sum(&y).backward()),
        modified("[torch.FloatTensor [2]], which is output 0 of Add,")
    );
    let constant = vector(&[1.0; 2]);
    let y = (&ones(2) * &constant).unwrap();
    shift_(&constant, 1.0).unwrap();
    assert_eq!(message(sum(&y).backward()), modified("[torch.FloatTensor [2]]"));
}

#[test]
fn a_saved_input_was_detached() {
    let z = (&ones(2) * 2.0).unwrap();
    let y = (&z * &z).unwrap();
    op::detach_(&z).unwrap();
    assert_eq!(
        message(sum(&y).backward()),
        "Trying to use a saved tensor that has been detached in-place, i.e. with .detach_().This \
         is not supported, please use out-of-place `.detach()` instead"
    );
}

#[test]
fn inference_tensors_are_not_saved() {
    let v = inference_mode(|| vector(&[1.0, 1.0]));
    let message = message(&v * &ones(2));
    assert!(message.starts_with("Inference tensors cannot be saved for backward. Please do not"));
}

#[test]
fn graphs_are_walked_once() {
    let x = ones(2);
    let y = sum(&(&x * &x).unwrap());
    y.backward().unwrap();
    assert_eq!(message(y.backward()), TWICE);
    let node = (&x * &x).unwrap().grad_fn().unwrap().unwrap();
    assert!(Node::saved_by_name(&node, "self").unwrap().is_some());
    node.release_variables();
    assert_eq!(message(Node::saved_by_name(&node, "self")), TWICE);
}

#[test]
fn graphs_that_saved_nothing_are_walked_again() {
    let x = ones(2);
    let y = sum(&(&x + &x).unwrap());
    y.backward().unwrap();
    y.backward().unwrap();
    assert_eq!(grad(&x), [4.0, 4.0]);
}

#[test]
fn kept_graphs_are_walked_again() {
    let x = ones(2);
    let y = sum(&(&x * &x).unwrap());
    y.backward_with(None, BackwardOptions { retain_graph: Some(true), create_graph: false })
        .unwrap();
    y.backward().unwrap();
    assert_eq!(grad(&x), [4.0, 4.0]);
}

#[test]
fn in_place_writes_save_the_original() {
    let x = vector(&[3.0]).requires_grad_(true).unwrap();
    let w = vector(&[5.0]).requires_grad_(true).unwrap();
    let y = copy(&x);
    op::mul__tensor(&y, &w).unwrap();
    op::log_(&y).unwrap();
    op::exp_(&y).unwrap();
    sum(&y).backward().unwrap();
    // exp(log(x * w)) is x * w but for rounding.
    let close = |found: Vec<f32>, expected: f32| (found[0] - expected).abs() < 1e-5;
    assert!(close(grad(&x), 5.0) && close(grad(&w), 3.0));
}

#[test]
fn in_place_results_are_saved_through_views() {
    let x = vector(&[0.0, 1.0]).requires_grad_(true).unwrap();
    let y = copy(&x);
    let v = slice(&y, 0, 1);
    op::exp_(&v).unwrap();
    sum(&y).backward().unwrap();
    assert_eq!(grad(&x), [1.0, 1.0]);
}

#[test]
fn hooks_pack_and_unpack() {
    let counts = Arc::new((AtomicUsize::new(0), AtomicUsize::new(0)));
    let (packs, unpacks) = (counts.clone(), counts.clone());
    let hooks = SavedTensorHooks::new(
        move |tensor| {
            packs.0.fetch_add(1, Ordering::Relaxed);
            Ok(Arc::new((tensor * 10.0)?))
        },
        move |packed| {
            unpacks.1.fetch_add(1, Ordering::Relaxed);
            Ok(packed.downcast_ref::<Tensor>().expect("a tensor").clone())
        },
    );
    let x = vector(&[2.0]).requires_grad_(true).unwrap();
    let y = saved_tensors_hooks(hooks, || &x * &x).unwrap();
    sum(&y).backward().unwrap();
    assert_eq!(grad(&x), [40.0]);
    assert_eq!((counts.0.load(Ordering::Relaxed), counts.1.load(Ordering::Relaxed)), (2, 2));
}

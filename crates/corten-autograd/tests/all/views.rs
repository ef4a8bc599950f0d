//! Views and in-place writes.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use crate::common::*;
use corten_autograd::{Autograd, inference_mode, no_grad};
use corten_core::Result;
use corten_ops::{Tensor, op};

const NO_GRAD: &str = " Given that this use case is ambiguous and error-prone, it is forbidden. \
    You can clarify your code by moving both the view and the inplace either both inside the \
    no_grad block (if you don't want the inplace to be tracked) or both outside (if you want the \
    inplace to be tracked).";
const MULTI: &str = " This view is the output of a function that returns multiple views. Such \
    functions do not allow the output views to be modified inplace. You should replace the \
    inplace operation by an out-of-place one.";

fn check(result: Result<Tensor>, expected: &str) {
    assert_eq!(message(result), expected);
}

#[test]
fn leaves_are_not_written_to() {
    let x = ones(2);
    check(
        shift_(&x, 1.0),
        "a leaf Variable that requires grad is being used in an in-place operation.",
    );
    check(
        shift_(&slice(&x, 0, 1), 1.0),
        "a view of a leaf Variable that requires grad is being used in an in-place operation.",
    );
    no_grad(|| shift_(&x, 1.0)).unwrap();
    assert_eq!(list(&x), [2.0, 2.0]);
}

#[test]
fn views_made_without_recording() {
    let x = copy(&ones(2));
    let v = no_grad(|| slice(&x, 0, 1));
    assert!(v.requires_grad() && v.is_leaf() && v.is_view());
    let made = "A view was created in no_grad mode and";
    check(
        scale_(&v, 2.0),
        &format!("{made} is being modified inplace with grad mode enabled.{NO_GRAD}"),
    );
    let u = op::view(&v, &[1]).unwrap();
    let of = "Output 0 of View is a view of a view which was created in no_grad mode and";
    check(
        scale_(&u, 2.0),
        &format!("{of} is being modified inplace with grad mode enabled.{NO_GRAD}"),
    );
    scale_(&x, 2.0).unwrap();
    let indirect =
        "its base or another view of its base has been modified inplace with grad mode enabled.";
    assert_eq!(message(v.grad_fn()), format!("{made} {indirect}{NO_GRAD}"));
    assert_eq!(message(u.grad_fn()), format!("{of} {indirect}{NO_GRAD}"));
}

#[test]
fn several_views_at_once() {
    let x = copy(&ones(4));
    let parts = op::split_tensor(&x, 2, 0).unwrap();
    check(
        scale_(&parts[0], 2.0),
        &format!("Output 0 of Split is a view and is being modified inplace.{MULTI}"),
    );
    let parts = op::unbind_int(&x, 0).unwrap();
    check(
        scale_(&parts[1], 2.0),
        &format!("Output 1 of Unbind is a view and is being modified inplace.{MULTI}"),
    );
    scale_(&x, 2.0).unwrap();
    assert_eq!(
        message(parts[1].grad_fn()),
        format!(
            "Output 1 of Unbind is a view and its base or another view of its base has been \
             modified inplace.{MULTI}"
        )
    );
}

#[test]
fn views_of_inference() {
    let x = vector(&[1.0; 4]);
    let v = inference_mode(|| op::view(&x, &[2, 2])).unwrap();
    let message = message(op::mul__tensor(&v, &ones(1)));
    assert!(message.starts_with(
        "A view was created in inference mode and is being modified inplace in normal mode. Given"
    ));
}

#[test]
fn bases_are_roots() {
    let x = copy(&ones(3));
    let v = slice(&x, 0, 2);
    let w = slice(&v, 1, 2);
    assert!(w.view_base().unwrap().is_same(&x));
    let detached = op::detach(&w).unwrap();
    assert!(detached.view_base().is_none() && !detached.requires_grad());
    scale_(&detached, 2.0).unwrap();
    assert_eq!(x.version().unwrap(), 1);
    let message = message(op::detach_(&v));
    assert!(message.starts_with("Can't detach views in-place. Use detach() instead. If you are"));
}

#[test]
fn writing_through_a_view_regenerates_history() {
    let x = ones(2);
    let y = copy(&x);
    let v = slice(&y, 0, 1);
    scale_(&v, 3.0).unwrap();
    assert_eq!(name(&y), "CopySlices");
    assert_eq!(name(&v), "AsStridedBackward0");
    let node = y.grad_fn().unwrap().unwrap();
    assert_eq!(format!("{:?}", node.next_edges()[0]), "(CloneBackward0, 0)");
    let z = (&y * &vector(&[5.0, 7.0])).unwrap();
    sum(&z).backward().unwrap();
    assert_eq!(grad(&x), [15.0, 7.0]);
}

#[test]
fn writing_to_the_base_regenerates_views() {
    let x = ones(2);
    let y = copy(&x);
    let v = slice(&y, 1, 2);
    scale_(&y, 4.0).unwrap();
    assert_eq!(name(&v), "AsStridedBackward0");
    sum(&v).backward().unwrap();
    assert_eq!(grad(&x), [0.0, 4.0]);
}

#[test]
fn a_base_without_gradient_gains_one_through_its_view() {
    let base = vector(&[1.0, 2.0, 3.0]);
    let (v, w) = (slice(&base, 0, 2), slice(&base, 1, 3));
    let x = ones(2);
    op::mul__tensor(&v, &x).unwrap();
    assert!(base.requires_grad() && w.requires_grad());
    sum(&w).backward().unwrap();
    assert_eq!(grad(&x), [0.0, 2.0]);
}

#[test]
fn views_of_views_written_to() {
    let x = tensor(&[1.0, 2.0, 3.0, 4.0], &[2, 2]).requires_grad_(true).unwrap();
    let y = copy(&x);
    let t = op::t(&y).unwrap();
    let row = op::select_int(&t, 0, 1).unwrap();
    op::mul__tensor(&row, &copy(&op::select_int(&y, 0, 0).unwrap().detach().unwrap())).unwrap();
    // y = [[1, 2*1], [3, 4*2]]
    assert_eq!(list(&y), [1.0, 2.0, 3.0, 8.0]);
    sum(&t).backward().unwrap();
    assert_eq!(grad(&x), [1.0, 1.0, 1.0, 2.0]);
}

#[test]
fn copying_into_a_view() {
    let x = ones(2);
    let buffer = vector(&[0.0; 4]);
    op::copy_(&slice(&buffer, 1, 3), &x, false).unwrap();
    assert_eq!(name(&buffer), "CopySlices");
    sum(&(&buffer * &buffer).unwrap()).backward().unwrap();
    assert_eq!(grad(&x), [2.0, 2.0]);
    assert_eq!(
        name(&op::copy_(&vector(&[1.0]), &slice(&x, 0, 1), false).unwrap()),
        "CopyBackwards"
    );
}

#[test]
fn double_backward_through_copy_slices() {
    let x = vector(&[2.0, 3.0]).requires_grad_(true).unwrap();
    let y = copy(&x);
    op::mul__tensor(&slice(&y, 0, 1), &slice(&x, 1, 2)).unwrap();
    // y = [x0*x1, x1]; f = sum(y^2) = x0^2 x1^2 + x1^2
    let f = sum(&(&y * &y).unwrap());
    let options = corten_autograd::BackwardOptions { create_graph: true, retain_graph: None };
    let g =
        corten_autograd::grad(&[f], std::slice::from_ref(&x), None, options, None, false).unwrap();
    let g = g[0].clone().unwrap();
    assert_eq!(list(&g), [36.0, 30.0]);
    sum(&g).backward().unwrap();
    // d/dx0 (2 x0 x1^2 + 2 x0^2 x1 + 2 x1), d/dx1 likewise
    assert_eq!(grad(&x), [18.0 + 24.0, 24.0 + 8.0 + 2.0]);
}

#[test]
fn the_view_of_a_chain_follows_many_writes() {
    let x = ones(1);
    let y = copy(&x);
    let v = op::view(&y, &[1]).unwrap();
    for _ in 0..4 {
        scale_(&v, 2.0).unwrap();
        scale_(&y, 2.0).unwrap();
    }
    sum(&v).backward().unwrap();
    assert_eq!(grad(&x), [256.0]);
}

#[test]
fn outputs_given_cannot_be_recorded() {
    let x = ones(2);
    let out = vector(&[0.0; 2]);
    assert_eq!(
        message(op::add_out(&x, &x, 1_i64.into(), &out)),
        "add(): functions with out=... arguments don't support automatic differentiation, but one \
         of the arguments requires grad."
    );
    no_grad(|| op::add_out(&x, &x, 1_i64.into(), &out)).unwrap();
    assert_eq!((list(&out), out.version().unwrap()), (vec![2.0, 2.0], 1));
}

#[test]
fn versions_count_writes() {
    let x = vector(&[1.0; 4]);
    let version = || x.version().unwrap();
    shift_(&x, 1.0).unwrap();
    assert_eq!(version(), 1);
    scale_(&slice(&x, 0, 2), 2.0).unwrap();
    assert_eq!(version(), 2);
    shift_(&op::detach(&x).unwrap(), 1.0).unwrap();
    assert_eq!(version(), 3);
    op::copy_(&x, &vector(&[0.0; 4]), false).unwrap();
    assert_eq!(version(), 4);
    op::resize_(&x, &[4], None).unwrap();
    assert_eq!(version(), 4);
    op::zero_(&x).unwrap();
    assert_eq!(version(), 5);
    x.requires_grad_(true).unwrap();
    assert_eq!(version(), 5);
}

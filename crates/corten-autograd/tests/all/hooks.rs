//! Hooks and leaf attributes.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use crate::common::*;
use corten_autograd::Autograd;
use corten_core::DType;
use corten_ops::{Tensor, op};
use std::sync::{Arc, Mutex};

type Log = Arc<Mutex<Vec<String>>>;

fn log_hook(
    log: &Log,
    text: &'static str,
) -> impl Fn(&Tensor) -> corten_core::Result<Option<Tensor>> + Send + Sync + 'static {
    let log = log.clone();
    move |_| {
        log.lock().unwrap().push(text.to_owned());
        Ok(None)
    }
}

#[test]
fn order_of_hooks() {
    let log = Log::default();
    let a = ones(1);
    let b = (&a * 3.0).unwrap();
    let entry = |text: &'static str| {
        let log = log.clone();
        move || log.lock().unwrap().push(text.to_owned())
    };
    b.register_hook(log_hook(&log, "b.hook1")).unwrap();
    b.retain_grad().unwrap();
    b.register_hook(|grad| Ok(Some((grad * 10.0)?))).unwrap();
    b.register_hook(log_hook(&log, "b.hook2")).unwrap();
    let node = b.grad_fn().unwrap().unwrap();
    let run = entry("b.pre");
    node.register_prehook(Arc::new(move |_| {
        run();
        Ok(None)
    }));
    let run = entry("b.post");
    node.register_hook(Arc::new(move |_, _| {
        run();
        Ok(None)
    }));
    a.register_hook(log_hook(&log, "a.hook1")).unwrap();
    a.register_hook(log_hook(&log, "a.hook2")).unwrap();
    let accumulator = node.next_edges()[0].node.clone().unwrap();
    let run = entry("acc.pre");
    accumulator.register_prehook(Arc::new(move |_| {
        run();
        Ok(None)
    }));
    let run = entry("a.postacc");
    a.register_post_accumulate_grad_hook(move |_| {
        run();
        Ok(())
    })
    .unwrap();
    let run = entry("acc.post");
    accumulator.register_hook(Arc::new(move |_, _| {
        run();
        Ok(None)
    }));
    sum(&b).backward().unwrap();
    assert_eq!(
        *log.lock().unwrap(),
        [
            "b.hook1",
            "b.hook2",
            "b.pre",
            "b.post",
            "a.hook1",
            "a.hook2",
            "acc.pre",
            "a.postacc",
            "acc.post"
        ]
    );
    assert_eq!((grad(&b), grad(&a)), (vec![10.0], vec![30.0]));
}

#[test]
fn hooks_stay_with_the_value() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let hook = |text: &'static str| {
        let seen = seen.clone();
        move |grad: &Tensor| {
            seen.lock().unwrap().push((text, list(grad)));
            Ok(None)
        }
    };
    let y = copy(&ones(2));
    y.register_hook(hook("before")).unwrap();
    y.retain_grad().unwrap();
    scale_(&y, 3.0).unwrap();
    y.register_hook(hook("after")).unwrap();
    sum(&y).backward().unwrap();
    assert_eq!(*seen.lock().unwrap(), [("after", vec![1.0, 1.0]), ("before", vec![3.0, 3.0])]);
    assert_eq!(grad(&y), [1.0, 1.0]);
}

#[test]
fn hooks_of_bases_and_views() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let x = ones(2);
    let y = copy(&x);
    let v = slice(&y, 0, 1);
    let log = seen.clone();
    y.register_hook(move |grad| {
        log.lock().unwrap().push(list(grad));
        Ok(None)
    })
    .unwrap();
    y.retain_grad().unwrap();
    v.retain_grad().unwrap();
    scale_(&v, 5.0).unwrap();
    sum(&(&y * 2.0).unwrap()).backward().unwrap();
    assert_eq!(*seen.lock().unwrap(), [vec![10.0, 2.0]]);
    assert_eq!((grad(&y), grad(&x)), (vec![2.0, 2.0], vec![10.0, 2.0]));
    assert!(v.grad().is_none());
}

#[test]
fn hooks_are_removed() {
    let x = ones(1);
    let handle = x.register_hook(|grad| Ok(Some((grad * 10.0)?))).unwrap();
    sum(&x).backward().unwrap();
    handle.remove();
    handle.remove();
    sum(&x).backward().unwrap();
    assert_eq!(grad(&x), [11.0]);
}

#[test]
fn errors_of_registration() {
    let plain = vector(&[1.0]);
    let hook = "cannot register a hook on a tensor that doesn't require gradient";
    assert_eq!(message(plain.register_hook(|_| Ok(None))), hook);
    assert_eq!(message(plain.register_post_accumulate_grad_hook(|_| Ok(()))), hook);
    assert_eq!(
        message(plain.retain_grad()),
        "can't retain_grad on Tensor that has requires_grad=False"
    );
    assert_eq!(
        message((&ones(1) * 2.0).unwrap().register_post_accumulate_grad_hook(|_| Ok(()))),
        "post accumulate grad hooks cannot be registered on non-leaf tensors"
    );
    let x = ones(2);
    x.register_hook(|grad| Ok(Some(op::slice_tensor(grad, 0, Some(0), Some(1), 1)?))).unwrap();
    assert_eq!(message(sum(&x).backward()), "hook has changed the size of value");
}

#[test]
fn flags_of_leaves() {
    let integers = op::to_dtype(&vector(&[1.0]), DType::Int64, false, false, None).unwrap();
    assert_eq!(
        message(integers.requires_grad_(true)),
        "only Tensors of floating point and complex dtype can require gradients"
    );
    assert_eq!(
        message((&ones(1) * 2.0).unwrap().requires_grad_(false)),
        "you can only change requires_grad flags of leaf variables. If you want to use a computed \
         variable in a subgraph that doesn't require differentiation use var_no_grad = \
         var.detach()."
    );
    let converted = op::to_dtype(&ones(1), DType::Int64, false, false, None).unwrap();
    assert!(!converted.requires_grad());
    assert_eq!(
        message(op::resize_(&ones(2), &[3], None)),
        "cannot resize variables that require grad"
    );
}

#[test]
fn assigned_gradients_are_checked() {
    let x = ones(2);
    let set = |grad: &Tensor| message(x.set_grad(Some(grad)));
    assert_eq!(
        set(&vector(&[1.0; 3])),
        "attempting to assign a gradient of size '[3]' to a tensor of size '[2]'. Please ensure \
         that the gradient and the tensor are the same size"
    );
    let double = op::to_dtype(&vector(&[1.0; 2]), DType::Float64, false, false, None).unwrap();
    assert!(set(&double).starts_with(
        "attempting to assign a gradient with dtype 'double' to a tensor with grad_dtype 'Float'. \
         The gradient must match the tensor's grad_dtype (defaults to the tensor's dtype)."
    ));
    assert_eq!(set(&x), "can't assign Variable as its own grad");
    x.set_grad(Some(&vector(&[1.0, 2.0]))).unwrap();
    assert_eq!(grad(&x), [1.0, 2.0]);
    x.set_grad(None).unwrap();
    assert!(x.grad().is_none());
}

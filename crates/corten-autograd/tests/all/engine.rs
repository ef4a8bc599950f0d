//! The engine: order, requested inputs, accumulation, errors, threads.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use crate::common::*;
use corten_autograd::function::{Context, Function, apply};
use corten_autograd::{Autograd, BackwardOptions, backward, engine, grad as gradients, no_grad};
use corten_core::{Result, bail};
use corten_ops::{Tensor, op};
use std::slice::from_ref;
use std::sync::{Arc, Mutex};

const CREATE: BackwardOptions = BackwardOptions { retain_graph: None, create_graph: true };
const KEEP: BackwardOptions = BackwardOptions { retain_graph: Some(true), create_graph: false };

fn default_grad(y: &Tensor, x: &Tensor) -> Result<Vec<Option<Tensor>>> {
    gradients(from_ref(y), from_ref(x), None, BackwardOptions::default(), None, false)
}

#[test]
fn roots_are_checked() {
    let x = ones(2);
    let y = (&x * &x).unwrap();
    assert_eq!(message(y.backward()), "grad can be implicitly created only for scalar outputs");
    assert_eq!(
        message(vector(&[1.0]).backward()),
        "element 0 of tensors does not require grad and does not have a grad_fn"
    );
    assert_eq!(
        message(y.backward_with(Some(&vector(&[1.0; 3])), KEEP)),
        "Mismatch in shape: grad_output[0] has a shape of torch.Size([3]) and output[0] has a \
         shape of torch.Size([2])."
    );
    let complex =
        op::to_dtype(&vector(&[1.0; 2]), corten_core::DType::Complex64, false, false, None);
    assert_eq!(
        message(y.backward_with(Some(&complex.unwrap()), KEEP)),
        "For complex Tensors, both grad_output and output are required to have the same dtype. \
         Mismatch in dtype: grad_output[0] has a dtype of torch.complex64 and output[0] has a \
         dtype of torch.float32."
    );
    let double = op::to_dtype(&vector(&[1.0; 2]), corten_core::DType::Float64, false, false, None);
    y.backward_with(Some(&double.unwrap()), KEEP).unwrap();
    assert_eq!(grad(&x), [2.0, 2.0]);
    assert_eq!(
        message(backward(&[sum(&y)], None, KEEP, Some(&[]))),
        "`inputs` argument to `backward()` cannot be empty."
    );
    assert_eq!(
        message(backward(&[sum(&y)], None, KEEP, Some(&[vector(&[1.0])]))),
        "can't retain_grad on Tensor that has requires_grad=False"
    );
}

#[test]
fn unused_inputs() {
    let (x, z) = (ones(2), ones(2));
    let y = sum(&(&x * &x).unwrap());
    let both = [x.clone(), z];
    assert_eq!(
        message(gradients(from_ref(&y), &both, None, KEEP, None, false)),
        "The differentiated Tensor at index 1 appears to not have been used in the graph. Set \
         allow_unused=True if this is the desired behavior."
    );
    let found = gradients(from_ref(&y), &both, None, KEEP, Some(true), false).unwrap();
    assert!(found[0].is_some() && found[1].is_none());
    let found = gradients(from_ref(&y), &both, None, KEEP, None, true).unwrap();
    assert_eq!(list(found[1].as_ref().unwrap()), [0.0, 0.0]);
    assert_eq!(
        message(gradients(from_ref(&y), &both, None, KEEP, Some(false), true)),
        "Expected allow_unused to be True or not passed when materialize_grads=True, but got: \
         allow_unused=False."
    );
    assert_eq!(
        message(default_grad(&y, &vector(&[1.0]))),
        "One of the differentiated Tensors does not require grad"
    );
    assert!(x.grad().is_none());
}

#[test]
fn only_requested_inputs_accumulate() {
    let (x, w) = (ones(1), ones(1));
    let y = (&x * &w).unwrap();
    let z = sum(&(&y * 3.0).unwrap());
    backward(from_ref(&z), None, KEEP, Some(from_ref(&w))).unwrap();
    assert!(x.grad().is_none());
    assert_eq!(grad(&w), [3.0]);
    backward(from_ref(&z), None, KEEP, Some(from_ref(&y))).unwrap();
    assert_eq!(grad(&y), [3.0]);
    assert!(x.grad().is_none());
    assert_eq!(grad(&w), [3.0]);
}

#[test]
fn captured_gradients_and_hooks() {
    let a = scalar(1.0).requires_grad_(true).unwrap();
    let t = (&a * 3.0).unwrap();
    t.register_hook(|grad| Ok(Some((grad * 10.0)?))).unwrap();
    let y = (&t * &t).unwrap();
    let found = gradients(from_ref(&y), &[t.clone(), a.clone()], None, KEEP, None, false).unwrap();
    let values: Vec<f32> = found.iter().map(|grad| list(grad.as_ref().unwrap())[0]).collect();
    assert_eq!(values, [6.0, 180.0]);
    let found = default_grad(&y, &t).unwrap();
    assert_eq!(list(found[0].as_ref().unwrap()), [60.0]);
}

#[test]
fn several_roots() {
    let x = ones(2);
    let (y, z) = ((&x * 2.0).unwrap(), sum(&(&x * &x).unwrap()));
    let grads = [Some(vector(&[1.0, 10.0])), None];
    backward(&[y.clone(), z.clone()], Some(&grads), KEEP, None).unwrap();
    assert_eq!(grad(&x), [4.0, 22.0]);
    assert_eq!(
        message(backward(&[y, z], Some(&grads[..1]), KEEP, None)),
        "got 2 tensors and 1 gradients"
    );
}

#[test]
fn later_nodes_run_first() {
    let order = Arc::new(Mutex::new(Vec::new()));
    let x = ones(1);
    let mut parts = Vec::new();
    for name in ["first", "second", "third"] {
        let part = op::exp(&x).unwrap();
        let order = order.clone();
        part.register_hook(move |_| {
            order.lock().unwrap().push(name);
            Ok(None)
        })
        .unwrap();
        parts.push(part);
    }
    let y = ((&parts[1] + &parts[0]).unwrap() + &parts[2]).unwrap();
    y.backward().unwrap();
    assert_eq!(*order.lock().unwrap(), ["third", "second", "first"]);
}

#[test]
fn second_derivatives() {
    let x = vector(&[2.0]).requires_grad_(true).unwrap();
    let y = op::mul_tensor(&(&x * &x).unwrap(), &x).unwrap();
    let mut g = sum(&y);
    for expected in [12.0, 12.0, 6.0] {
        let found = gradients(from_ref(&g), from_ref(&x), None, CREATE, None, false).unwrap();
        g = sum(found[0].as_ref().unwrap());
        assert_eq!(list(&g), [expected]);
    }
}

#[test]
fn recorded_gradients_are_not_written_to() {
    let x = vector(&[2.0]).requires_grad_(true).unwrap();
    let y = sum(&(&x * &x).unwrap());
    y.backward_with(None, CREATE).unwrap();
    let first = x.grad().unwrap();
    y.backward_with(None, CREATE).unwrap();
    assert_eq!((list(&first), grad(&x)), (vec![4.0], vec![8.0]));
    assert!(x.grad().unwrap().requires_grad());
}

#[test]
fn gradients_are_stolen_or_copied() {
    let x = tensor(&[1.0; 6], &[2, 3]).requires_grad_(true).unwrap();
    // The gradient of `sum` is expanded: it is copied into the variable's layout.
    sum(&x).backward().unwrap();
    assert_eq!(x.grad().unwrap().strides(), x.strides());
    let seed = tensor(&[1.0; 6], &[2, 3]);
    let z = tensor(&[1.0; 6], &[2, 3]).requires_grad_(true).unwrap();
    (&z * 1.0).unwrap().backward_with(Some(&seed), KEEP).unwrap();
    assert!(!z.grad().unwrap().is_alias_of(&seed));
    let before = z.grad().unwrap();
    (&z * 1.0).unwrap().backward_with(Some(&seed), KEEP).unwrap();
    assert!(z.grad().unwrap().is_same(&before));
    assert_eq!(list(&before), [2.0; 6]);
}

#[test]
fn broadcasting_is_summed() {
    let x = ones(3);
    let b = scalar(2.0).requires_grad_(true).unwrap();
    let c = tensor(&[1.0, 2.0], &[2, 1]).requires_grad_(true).unwrap();
    let y = ((&x * &b).unwrap() * &c).unwrap();
    sum(&y).backward().unwrap();
    assert_eq!((grad(&x), grad(&b), grad(&c)), (vec![6.0; 3], vec![9.0], vec![6.0, 6.0]));
    assert_eq!(b.grad().unwrap().dim(), 0);
}

struct Scale(i64, &'static str);

impl Function for Scale {
    fn name(&self) -> &str {
        self.1
    }

    fn forward(&self, ctx: &mut Context, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        ctx.save_for_backward(inputs);
        Ok(vec![(&inputs[0] * 2.0)?])
    }

    fn backward(&self, ctx: &Context, grads: &[Tensor]) -> Result<Vec<Tensor>> {
        assert_eq!(ctx.saved_tensors()?.len(), 1);
        let grad = (&grads[0] * 2.0)?;
        match self.0 {
            0 => Ok(vec![grad]),
            1 => Ok(vec![grad.clone(), grad]),
            2 => Ok(vec![grad, Tensor::undefined()]),
            3 => Ok(vec![op::slice_tensor(&grad, 0, Some(0), Some(1), 1)?]),
            4 => Ok(vec![tensor(&[1.0; 3], &[3])]),
            _ => bail!(Value, "as asked"),
        }
    }
}

#[test]
fn user_functions() {
    let run = |kind| {
        let x = ones(2);
        let y = apply(Scale(kind, "F"), from_ref(&x))?.remove(0);
        assert_eq!(name(&y), "FBackward");
        sum(&y).backward()?;
        Ok(grad(&x))
    };
    assert_eq!(run(0).unwrap(), [2.0, 2.0]);
    assert_eq!(
        message(run(1)),
        "function FBackward returned an incorrect number of gradients (expected 1, got 2)"
    );
    assert_eq!(run(2).unwrap(), [2.0, 2.0]);
    let wrong = "Function FBackward returned an invalid gradient at index 0 - got";
    for (kind, got) in [(3, "[1]"), (4, "[3]")] {
        assert_eq!(
            message(run(kind)),
            format!("{wrong} {got} but expected shape compatible with [2]")
        );
    }
    assert_eq!(message(run(5)), "as asked");
    // An error leaves the engine usable.
    assert_eq!(run(0).unwrap(), [2.0, 2.0]);
}

struct Identity;

impl Function for Identity {
    fn forward(&self, _ctx: &mut Context, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        Ok(inputs.to_vec())
    }

    fn backward(&self, _ctx: &Context, grads: &[Tensor]) -> Result<Vec<Tensor>> {
        Ok(grads.to_vec())
    }
}

struct Double;

impl Function for Double {
    fn forward(&self, ctx: &mut Context, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        scale_(&inputs[0], 2.0)?;
        ctx.mark_dirty(inputs);
        Ok(inputs.to_vec())
    }

    fn backward(&self, _ctx: &Context, grads: &[Tensor]) -> Result<Vec<Tensor>> {
        Ok(vec![(&grads[0] * 2.0)?])
    }
}

#[test]
fn user_functions_return_and_modify_inputs() {
    let x = ones(2);
    let y = apply(Identity, from_ref(&x)).unwrap().remove(0);
    assert!(y.is_view() && !y.is_same(&x) && y.is_alias_of(&x));
    assert_eq!(name(&y), "IdentityBackward");
    let message_ = message(scale_(&y, 2.0));
    assert!(message_.starts_with("Output 0 of Identity is a view and is being modified inplace."));
    let z = copy(&x);
    let w = apply(Double, from_ref(&z)).unwrap().remove(0);
    assert!(w.is_same(&z));
    assert_eq!(name(&z), "DoubleBackward");
    sum(&z).backward().unwrap();
    assert_eq!(grad(&x), [2.0, 2.0]);
    assert_eq!(
        message(apply(Double, from_ref(&x)).map(|_| ())),
        "a leaf Variable that requires grad has been used in an in-place operation."
    );
}

struct Reenter(usize);

impl Function for Reenter {
    fn forward(&self, _ctx: &mut Context, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        Ok(vec![(&inputs[0] * 1.0)?])
    }

    fn backward(&self, _ctx: &Context, grads: &[Tensor]) -> Result<Vec<Tensor>> {
        let inner = corten_autograd::enable_grad(|| -> Result<Tensor> {
            let x = ones(1);
            let y = if self.0 == 0 {
                (&x * 2.0)?
            } else {
                apply(Reenter(self.0 - 1), from_ref(&x))?.remove(0)
            };
            let found = default_grad(&sum(&y), &x)?;
            Ok(found[0].clone().expect("used"))
        })?;
        Ok(vec![(&grads[0] * &inner)?])
    }
}

#[test]
fn backward_within_backward() {
    let x = ones(1);
    let y = apply(Reenter(200), from_ref(&x)).unwrap().remove(0);
    sum(&y).backward().unwrap();
    assert_eq!(grad(&x), [2.0]);
}

#[test]
fn long_chains_are_freed_without_recursion() {
    let x = ones(1);
    let mut y = copy(&x);
    for _ in 0..200_000 {
        y = op::neg(&y).unwrap();
    }
    drop(y);
    let mut y = copy(&x);
    for _ in 0..50_000 {
        // Saves its input: the chain also hangs together through saved tensors.
        y = op::mul_tensor(&y, &y).unwrap();
    }
    y.backward().unwrap();
    assert!(x.grad().is_some());
}

/// Forward and backward passes of eight threads over two shared leaves and a shared part of the
/// graph, for a second; for a minute where everything is checked.
#[test]
fn threads_accumulate() {
    let full = std::env::var_os("CORTEN_TEST_FULL").is_some();
    let duration = std::time::Duration::from_secs(if full { 60 } else { 1 });
    let (x, w) = (ones(3), ones(3));
    let shared = op::exp(&(&x * 0.0).unwrap()).unwrap();
    let start = std::time::Instant::now();
    let passes: f32 = std::thread::scope(|scope| {
        let work = |number: usize| {
            let mut passes = 0.0;
            while start.elapsed() < duration {
                // d/dx = w, d/dw = x · exp(0 · x), in one graph with other threads' passes.
                let product = (&(&x * &w).unwrap() * &shared).unwrap();
                let loss = sum(&product);
                if number.is_multiple_of(2) {
                    loss.backward_with(None, KEEP).unwrap();
                    passes += 1.0;
                } else {
                    let found = corten_autograd::grad(
                        &[loss],
                        std::slice::from_ref(&x),
                        None,
                        KEEP,
                        None,
                        false,
                    );
                    assert_eq!(
                        found.unwrap()[0].as_ref().unwrap().to_vec::<f32>().unwrap(),
                        [1.0; 3]
                    );
                }
            }
            passes
        };
        let threads: Vec<_> = (0..8).map(|number| scope.spawn(move || work(number))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert!(passes > 0.0);
    assert_eq!(grad(&w), [passes; 3]);
    assert_eq!(grad(&x), [passes; 3]);
}

#[test]
fn threads_share_graphs() {
    let x = ones(1);
    let y = op::exp(&(&x * 0.0).unwrap()).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..50 {
                    let z = sum(&(&y * &x).unwrap());
                    z.backward_with(None, KEEP).unwrap();
                }
            });
        }
    });
    assert_eq!(grad(&x), [200.0]);
}

#[test]
fn callbacks_run_at_the_end() {
    let order = Arc::new(Mutex::new(Vec::new()));
    let x = ones(1);
    let seen = order.clone();
    let y = (&x * 2.0).unwrap();
    y.register_hook(move |_| {
        let seen = seen.clone();
        engine::queue_callback(move || {
            seen.lock().unwrap().push("callback");
            Ok(())
        })?;
        Ok(None)
    })
    .unwrap();
    let seen = order.clone();
    x.register_post_accumulate_grad_hook(move |_| {
        seen.lock().unwrap().push("accumulated");
        Ok(())
    })
    .unwrap();
    y.backward().unwrap();
    assert_eq!(*order.lock().unwrap(), ["accumulated", "callback"]);
    assert_eq!(
        message(engine::queue_callback(|| Ok(()))),
        "Final callbacks can only be installed during backward pass."
    );
}

#[test]
fn nothing_is_recorded_without_grad_mode() {
    let x = ones(2);
    let y = no_grad(|| &x * &x).unwrap();
    assert!(!y.requires_grad() && y.is_leaf());
    let z = no_grad(|| corten_autograd::enable_grad(|| &x * &x)).unwrap();
    assert!(z.requires_grad());
}

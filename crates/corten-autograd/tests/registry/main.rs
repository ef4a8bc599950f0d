//! Every operator with a gradient, against difference quotients.
//!
//! Most operators are called with arguments made from their schema; `SAMPLES` holds the calls of
//! those that need particular ones.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

mod batches;
mod call;
#[path = "../common/mod.rs"]
mod common;
mod samples;
mod shapes;

use call::{Arrangement, Call, Sampler};
use corten_autograd::gradcheck::{GradcheckOptions, gradcheck, gradgradcheck};
use corten_autograd::{Autograd, forward, no_grad};
use corten_core::{DType, ErrorKind, Result, Scalar, ensure};
use corten_ops::{AnyOp, Gradient, OpKind, Tensor, op};
use samples::{NO_SECOND, REAL_ONLY, SAMPLES, UNCHECKED};

fn differentiable() -> Vec<&'static dyn AnyOp> {
    common::init();
    let all = corten_ops::registry::all();
    let wanted = |op: &&'static dyn AnyOp| {
        let def = op.def();
        def.gradient == Gradient::Formula
            && matches!(def.kind, OpKind::Functional | OpKind::View)
            && !UNCHECKED.iter().any(|(name, _)| *name == sampled_as(*op))
    };
    all.into_iter().filter(wanted).collect()
}

/// Whether everything is checked (`make test-full`) or a part.
fn is_full() -> bool {
    std::env::var_os("CORTEN_TEST_FULL").is_some()
}

/// The name under which an operator has samples: a copy of a view takes those of the view.
fn sampled_as(op: &'static dyn AnyOp) -> String {
    let name = op.schema().full_name();
    let schema = op.schema();
    match op.def().implementation.starts_with("copy of ") {
        true => name.replacen("_copy", "", 1),
        false if op.def().kind == OpKind::Inplace => {
            let overload = name.strip_prefix(&schema.name).unwrap_or_default();
            format!("{}{overload}", schema.name.trim_end_matches('_'))
        }
        false => name,
    }
}

/// The calls of one operator, its own samples or one made from the schema, in each arrangement of
/// memory that it accepts; in one beside the dense one where not everything is checked.
fn calls(op: &'static dyn AnyOp, dtype: DType) -> Vec<Result<Call>> {
    let name = sampled_as(op);
    let own: Vec<_> = SAMPLES.iter().filter(|(of, _)| *of == name).collect();
    let mut calls = Vec::new();
    for (place, arrangement) in Arrangement::ALL.into_iter().enumerate() {
        if place > 0 && !is_full() && name.len() % 2 + 1 != place {
            continue;
        }
        // What these give depends on the memory, which difference quotients do not keep.
        if place > 0 && (name.starts_with("as_strided") || name == "_reshape_alias") {
            continue;
        }
        let sampler = || Sampler::new(dtype, arrangement);
        let made: Vec<Result<Call>> = match own.is_empty() {
            true => vec![sampler().by_schema(op)],
            false => own.iter().map(|(_, text)| sampler().by_text(op, text)).collect(),
        };
        // Some views are of dense tensors only.
        let accepted = |call: &Result<Call>| {
            arrangement == Arrangement::Dense
                || call.as_ref().is_ok_and(|call| no_grad(|| call.run(call.inputs())).is_ok())
        };
        calls.extend(made.into_iter().filter(accepted));
    }
    calls
}

/// Whether an operator is one of sparse tensors, which difference quotients by element do not fit: those have tests
/// of their own against PyTorch.
fn is_of_sparse_layouts(op: &dyn AnyOp) -> bool {
    let file = op.def().source.rsplit('/').next().unwrap_or_default();
    file.starts_with("sparse") || file.starts_with("semi_structured")
}

/// Calls that every walk over the registry checks at least.
const LEAST_CALLS: usize = 750;

/// Runs `check` on every call of every operator and reports all failures at once.
fn for_all(dtype: DType, check: impl Fn(&Call) -> Result<()>) {
    let filter = option_env!("ONLY").unwrap_or("");
    let mut failures = Vec::new();
    let mut checked = 0;
    for op in differentiable() {
        let name = op.schema().full_name();
        if !name.starts_with(filter) || is_of_sparse_layouts(op) {
            continue;
        }
        for call in calls(op, dtype) {
            let result = call.and_then(|call| {
                checked += usize::from(call.inputs().iter().any(Autograd::requires_grad));
                check(&call)
            });
            if let Err(error) = result {
                failures.push(format!("{name}: {error:?}"));
            }
        }
    }
    println!("{checked} calls checked");
    assert!(!filter.is_empty() || checked >= LEAST_CALLS, "no more than {checked} calls checked");
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
}

fn options() -> GradcheckOptions {
    GradcheckOptions::default()
}

#[test]
fn first_derivatives() {
    for_all(DType::Float64, |call| gradcheck(|inputs| call.run(inputs), call.inputs(), options()));
}

#[test]
fn second_derivatives() {
    for_all(DType::Float64, |call| {
        if NO_SECOND.contains(&call.name().as_str()) {
            return Ok(());
        }
        gradgradcheck(|inputs| call.run(inputs), call.inputs(), options())
    });
}

#[test]
fn complex_derivatives() {
    for_all(DType::Complex128, |call| {
        if REAL_ONLY.contains(&call.name().as_str()) {
            return Ok(());
        }
        // Not every operator takes complex numbers.
        match no_grad(|| call.run(call.inputs())) {
            Ok(_) => gradcheck(|inputs| call.run(inputs), call.inputs(), options()),
            Err(error) if refuses_complex(&error) => Ok(()),
            Err(error) => Err(error),
        }
    });
}

/// Whether an operator says that it does not take complex numbers.
fn refuses_complex(error: &corten_core::Error) -> bool {
    let text = error.to_string().to_lowercase();
    let words = ["complex", "floating", "real", "must be float", "not implemented for"];
    error.kind() != ErrorKind::Internal && words.iter().any(|word| text.contains(word))
}

/// Tangents against differences: `f(x + εt) - f(x - εt)`.
#[test]
fn forward_derivatives() {
    for_all(DType::Float64, |call| {
        let inputs: Vec<Tensor> = call.inputs().iter().map(op::detach).collect::<Result<_>>()?;
        let directions: Vec<Tensor> = inputs.iter().map(direction).collect::<Result<_>>()?;
        let moved = no_grad(|| forward_mode(call, &inputs, &directions))?;
        let step = 1e-6;
        let at = |sign: f64| -> Result<Vec<Tensor>> {
            let shifted = inputs.iter().zip(&directions);
            let shifted: Vec<Tensor> = shifted
                .map(|(x, t)| op::add_tensor(x, t, Scalar::Float(sign * step)))
                .collect::<Result<_>>()?;
            no_grad(|| call.run(&shifted))
        };
        for ((high, low), tangent) in at(1.0)?.iter().zip(&at(-1.0)?).zip(moved) {
            let Some(tangent) = tangent else { continue };
            let difference = op::sub_tensor(high, low, Scalar::Int(1))?;
            let expected = op::mul_scalar(&difference, Scalar::Float(0.5 / step))?;
            let close = op::allclose(&tangent, &expected, 1e-4, 1e-6, true)?;
            ensure!(close, Runtime, "tangent {tangent:?}, expected {expected:?}");
        }
        Ok(())
    });
}

/// The tangents of a call's results.
fn forward_mode(
    call: &Call,
    inputs: &[Tensor],
    directions: &[Tensor],
) -> Result<Vec<Option<Tensor>>> {
    let level = forward::enter_level()?;
    let run = || {
        let pairs = inputs.iter().zip(directions);
        let duals: Vec<Tensor> =
            pairs.map(|(x, t)| forward::make_dual(x, t)).collect::<Result<_>>()?;
        let results = call.run(&duals)?;
        results.iter().map(|result| Ok(forward::unpack_dual(result)?.1)).collect()
    };
    let result = run();
    forward::exit_level(level)?;
    result
}

/// A tangent of an input, different for every element.
fn direction(input: &Tensor) -> Result<Tensor> {
    let numbers = (0..input.numel()).map(|i| (0.7 * i as f64 + 0.3).sin()).collect();
    Tensor::from_vec::<f64>(numbers, &input.sizes())
}

/// The in-place form records the same function as the functional one.
#[test]
fn in_place_derivatives() {
    for_all(DType::Float64, |call| {
        let Some(inplace) = call.inplace() else { return Ok(()) };
        let run = |inputs: &[Tensor]| {
            let mut inputs = inputs.to_vec();
            inputs[0] = op::clone(&inputs[0], None)?;
            inplace.run(&inputs)
        };
        // A result of another shape or dtype than `self` cannot be written there.
        match no_grad(|| run(call.inputs())) {
            Err(_) if !result_fits(call) => Ok(()),
            Err(error) => Err(error),
            Ok(_) => gradcheck(run, call.inputs(), options()),
        }
    });
}

/// The in-place form through a view, so that the history of the base is rewritten.
#[test]
fn in_place_through_views() {
    for_all(DType::Float64, |call| {
        let Some(inplace) = call.inplace() else { return Ok(()) };
        let run = |inputs: &[Tensor]| {
            let mut inputs = inputs.to_vec();
            let base = op::stack(&[inputs[0].clone(), inputs[0].clone()], 0)?;
            // Near 1, so that the samples stay in the domains.
            let base = op::mul_scalar(&base, 1.02.into())?;
            inputs[0] = op::select_int(&base, 0, 1)?;
            inplace.run(&inputs)?;
            Ok(vec![base])
        };
        // `detach_` refuses views.
        if inputs_grow(call) || !result_fits(call) || call.name() == "detach" {
            return Ok(());
        }
        no_grad(|| run(call.inputs()))?;
        gradcheck(run, call.inputs(), options())
    });
}

/// Whether the functional form gives what `self` has room for.
fn result_fits(call: &Call) -> bool {
    let input = &call.inputs()[0];
    no_grad(|| call.run(call.inputs())).is_ok_and(|results| {
        results[0].sizes() == input.sizes() && results[0].dtype() == input.dtype()
    })
}

/// In-place operators that change the geometry of `self` cannot be followed through a view.
fn inputs_grow(call: &Call) -> bool {
    let before = call.inputs()[0].sizes();
    no_grad(|| call.run(call.inputs())).is_ok_and(|results| results[0].sizes() != before)
}

//! Inputs that every program can make, and the goldens of modules.

#![allow(dead_code)]

use corten::nn::*;
use corten::prelude::*;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Sines.
pub(crate) fn shifted(shape: &[i64], shift: f64) -> Tensor {
    let count: i64 = shape.iter().product();
    let values = (0..count).map(|i| (0.7 * i as f64 + shift).sin() as f32).collect();
    Tensor::from_vec(values, shape).unwrap()
}

pub(crate) fn x(shape: &[i64]) -> Tensor {
    shifted(shape, 0.0)
}

pub(crate) fn positive(shape: &[i64]) -> Tensor {
    (op::abs(&x(shape)).unwrap() + 0.1).unwrap()
}

pub(crate) fn index(bound: i64, shape: &[i64]) -> Tensor {
    let count: i64 = shape.iter().product();
    integers(&(0..count).map(|i| i * 7 % bound).collect::<Vec<_>>(), shape)
}

pub(crate) fn integers(values: &[i64], shape: &[i64]) -> Tensor {
    Tensor::from_slice(values, shape).unwrap()
}

pub(crate) fn binary(shape: &[i64]) -> Tensor {
    let is_positive = op::gt_scalar(&shifted(shape, 0.3), 0.into()).unwrap();
    op::to_dtype(&is_positive, DType::Float32, false, false, None).unwrap()
}

pub(crate) fn signs(shape: &[i64]) -> Tensor {
    ((binary(shape) * 2.0).unwrap() - 1.0).unwrap()
}

/// What PyTorch says of one module.
struct Golden {
    text: String,
    state: Vec<(String, String)>,
    outputs: Vec<String>,
}

/// Compares modules with those of PyTorch and collects what differs.
pub(crate) struct Goldens {
    expected: BTreeMap<String, Golden>,
    differences: Vec<String>,
}

fn parts(text: &str) -> Vec<String> {
    text.split(';').filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

/// Held by a test while it draws random numbers: the generator is one for all threads.
pub(crate) fn drawing() -> MutexGuard<'static, ()> {
    static GENERATOR: Mutex<()> = Mutex::new(());
    GENERATOR.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Goldens {
    pub(crate) fn read() -> Self {
        let text = include_str!("../../../../tests/goldens/modules.txt");
        let lines = text.lines().map(|line| {
            let fields: Vec<&str> = line.split('\t').collect();
            let state = parts(fields[2])
                .iter()
                .map(|one| {
                    let (name, tensor) = one.split_once('=').unwrap();
                    (name.to_owned(), tensor.to_owned())
                })
                .collect();
            let text = fields[1].replace("\\n", "\n");
            (fields[0].to_owned(), Golden { text, state, outputs: parts(fields[3]) })
        });
        Self { expected: lines.collect(), differences: Vec::new() }
    }

    /// Makes a module from seed 0, runs it and compares all.
    pub(crate) fn case<M: Module>(
        &mut self,
        name: &str,
        make: impl FnOnce() -> Result<M>,
        run: impl FnOnce(&M) -> Result<Vec<Tensor>>,
    ) {
        let Some(golden) = self.expected.remove(name) else {
            panic!("{name} has no golden, or was there already")
        };
        let drawing = drawing();
        corten::manual_seed(0);
        let result = make().and_then(|module| {
            let is_lazy = name.starts_with("Lazy");
            let mut text = if is_lazy { describe(&module) + "\n" } else { String::new() };
            let mut state = module.state_dict()?;
            let before = values(&state);
            let outputs = run(&module)?;
            text += &describe(&module);
            if is_lazy {
                state = module.state_dict()?;
            }
            let state = if is_lazy { values(&state) } else { before };
            Ok((text, state, outputs))
        });
        drop(drawing);
        match result {
            Ok((text, state, outputs)) => self.compare(name, &golden, &text, &state, &outputs),
            Err(error) => self.differences.push(format!("{name}: {error}")),
        }
    }

    fn compare(
        &mut self,
        name: &str,
        golden: &Golden,
        text: &str,
        state: &[(String, String)],
        outputs: &[Tensor],
    ) {
        let mut differs = |what: &str, got: String, expected: String| {
            self.differences
                .push(format!("{name}: {what}\n  got      {got}\n  expected {expected}"));
        };
        if text != golden.text {
            differs("text", text.to_owned(), golden.text.clone());
        }
        let keys = |state: &[(String, String)]| {
            state.iter().map(|(key, _)| key.clone()).collect::<Vec<_>>().join(" ")
        };
        if keys(state) != keys(&golden.state) {
            differs("keys", keys(state), keys(&golden.state));
        } else {
            for ((key, got), (_, expected)) in state.iter().zip(&golden.state) {
                if !is_close(got, expected) {
                    differs(key, got.clone(), expected.clone());
                }
            }
        }
        let outputs: Vec<String> = outputs.iter().map(described).collect();
        let are_close = outputs.iter().zip(&golden.outputs).all(|(a, b)| is_close(a, b));
        if outputs.len() != golden.outputs.len() || !are_close {
            differs("outputs", outputs.join(";"), golden.outputs.join(";"));
        }
    }

    /// Fails with all that differed; `rest` are the modules of other tests.
    pub(crate) fn finish(self, is_ours: impl Fn(&str) -> bool) {
        let missing: Vec<&String> = self.expected.keys().filter(|name| is_ours(name)).collect();
        assert!(missing.is_empty(), "not compared: {missing:?}");
        assert!(self.differences.is_empty(), "{}", self.differences.join("\n"));
    }
}

fn values(state: &StateDict) -> Vec<(String, String)> {
    state.iter().map(|(name, tensor)| (name.clone(), described(tensor))).collect()
}

/// Shape, sum of magnitudes and some elements.
fn described(tensor: &Tensor) -> String {
    let sizes: Vec<String> = tensor.sizes().iter().map(i64::to_string).collect();
    let flat = no_grad(|| {
        op::to_dtype(&op::flatten_using_ints(tensor, 0, -1)?, DType::Float64, false, false, None)
    });
    let flat = op::detach(&flat.unwrap()).unwrap().to_vec::<f64>().unwrap();
    let sum: f64 = flat.iter().map(|value| value.abs()).sum();
    let step = (flat.len() / 6).max(1);
    let shown = std::iter::once(sum).chain(flat.iter().step_by(step).take(7).copied());
    let shown: Vec<String> = shown.map(|value| format!("{value}")).collect();
    format!("{}:{}", sizes.join("x"), shown.join(" "))
}

fn is_close(a: &str, b: &str) -> bool {
    let (Some((shape_a, a)), Some((shape_b, b))) = (a.split_once(':'), b.split_once(':')) else {
        return false;
    };
    let numbers = |text: &str| -> Vec<f64> {
        text.split(' ').filter(|n| !n.is_empty()).map(|number| number.parse().unwrap()).collect()
    };
    let (a, b) = (numbers(a), numbers(b));
    let close = |(a, b): (&f64, &f64)| (a - b).abs() <= 2e-5 * (1.0 + b.abs());
    shape_a == shape_b && a.len() == b.len() && a.iter().zip(&b).all(close)
}

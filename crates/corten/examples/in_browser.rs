//! What a page calls: arithmetic, a network that is trained, and files in memory, in WebAssembly.
//!
//! `make wasm` builds it and runs `examples/wasm/run.mjs`, which calls it from Node.js.
#![allow(unsafe_code, reason = "functions are exported by their names")]

use corten::io::safetensors;
use corten::prelude::*;

/// What a function gives for an error.
const FAILED: f64 = -1.0;

/// Registers kernels and derivatives: nothing does before the first call. Returns 0, or 1 for an error.
// SAFETY: nothing else has this name.
#[unsafe(no_mangle)]
pub extern "C" fn start() -> i32 {
    i32::from(corten::init().is_err())
}

/// The sum of `(x + 1) @ (x + 1)` for the numbers from 0 to n² as a square matrix.
// SAFETY: nothing else has this name.
#[unsafe(no_mangle)]
pub extern "C" fn arithmetic(n: i32) -> f64 {
    let sum = || -> Result<f64> {
        let n = i64::from(n);
        let x = Tensor::from_vec((0..n * n).map(|i| i as f64).collect(), &[n, n])?;
        let x = (&x + 1.0)?;
        op::sum(&x.matmul(&x)?, None)?.to_element()
    };
    sum().unwrap_or(FAILED)
}

/// Trains a network on the exclusive or for some steps; the last loss.
// SAFETY: nothing else has this name.
#[unsafe(no_mangle)]
pub extern "C" fn train(steps: i32) -> f64 {
    trained(steps).map_or(FAILED, |(_, loss)| loss)
}

/// Writes the weights of a trained network as a safetensors file in memory and reads them again: the
/// number of bytes.
// SAFETY: nothing else has this name.
#[unsafe(no_mangle)]
pub extern "C" fn round_trip() -> f64 {
    let bytes = || -> Result<f64> {
        let (model, _) = trained(1)?;
        let weights = model.state_dict()?;
        let named = weights.iter().map(|(name, tensor)| (name.clone(), tensor));
        let bytes = safetensors::to_bytes(named, None)?;
        for (name, tensor) in safetensors::read(&bytes)? {
            let saved = weights.iter().find(|(other, _)| *other == name);
            let saved = saved.map(|(_, saved)| saved.to_vec::<f32>()).transpose()?;
            corten::core::ensure!(saved == Some(tensor.to_vec()?), Runtime, "{name} differs");
        }
        Ok(bytes.len() as f64)
    };
    bytes().unwrap_or(FAILED)
}

fn trained(steps: i32) -> Result<(Sequential, f64)> {
    corten::manual_seed(0);
    let model = Sequential::new().with(Linear::new(2, 8)?).with(Relu).with(Linear::new(8, 2)?);
    let mut optimizer =
        Adam::new(model.parameters(), AdamOptions { lr: 0.02, ..Default::default() })?;
    let x = Tensor::from_vec(vec![0.0f32, 0.0, 0.0, 1.0, 1.0, 0.0, 1.0, 1.0], &[4, 2])?;
    let y = Tensor::from_vec(vec![0i64, 1, 1, 0], &[4])?;
    let mut last = 0.0f32;
    for _ in 0..steps {
        let loss = loss::cross_entropy(&model.forward(&x)?, &y)?;
        optimizer.zero_grad()?;
        loss.backward()?;
        optimizer.step()?;
        last = loss.to_element()?;
    }
    Ok((model, f64::from(last)))
}

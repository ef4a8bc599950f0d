//! Modules that take their sizes from their first input. One test alone: it watches the generator of the process.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use crate::common::*;
use corten::nn::*;
use corten::prelude::*;

#[test]
fn lazy_modules_take_what_is_given_before_their_first_input() -> Result<()> {
    let net = Sequential::new().with(LazyConv2d::new(4, 3)).with(LazyBatchNorm2d::new());
    assert!(net.parameters().is_empty());
    net.double()?;
    net.eval();
    let x = op::to_dtype(&x(&[1, 2, 5, 5]), DType::Float64, false, false, None)?;
    assert_eq!(net.forward(&x)?.dtype(), DType::Float64);
    assert_eq!(net.state_dict()?.len(), 7);
    assert_eq!(net.named_parameters()[0].0, "0.weight");
    let norm = net.module("1")?.downcast_ref::<BatchNorm2d>().expect("made");
    let count = norm.num_batches_tracked.as_ref().unwrap();
    assert_eq!(count.to_element::<i64>()?, 0);

    let lazy = Sequential::new().with(LazyConv2d::new(4, 3)).with(LazyBatchNorm2d::new());
    let generator = corten::core::default_cpu_generator();
    let before = generator.get_state();
    lazy.load_state_dict(net.state_dict()?, true)?;
    assert_eq!(before, generator.get_state());
    assert!(op::equal(
        &lazy.state_dict()?[0].1,
        &op::to_dtype(&net.state_dict()?[0].1, DType::Float32, false, false, None)?
    )?);
    let copy = lazy.deep_clone()?;
    assert_eq!(copy.to_string(), net.to_string());
    let grouped = LazyConv1d::with(4, 1, ConvOptions { groups: 2, ..Default::default() });
    let made = Conv1d::with(6, 4, 1, ConvOptions { groups: 2, ..Default::default() })?;
    grouped.load_state_dict(made.state_dict()?, true)?;
    assert_eq!(grouped.to_string(), made.to_string());
    Ok(())
}

//! The strides of allocated outputs are those of PyTorch, on thousands of random calls.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use corten_core::{Device, TensorBase, TensorOptions};
use corten_ops::Tensor;
use corten_ops::iter::TensorIteratorConfig;

/// Unsigned LEB128 numbers.
struct Numbers<'a>(&'a [u8]);

impl Numbers<'_> {
    fn next(&mut self) -> Option<i64> {
        let (mut value, mut shift) = (0, 0);
        loop {
            let (&byte, rest) = self.0.split_first()?;
            self.0 = rest;
            value |= i64::from(byte & 127) << shift;
            shift += 7;
            if byte < 128 {
                return Some(value);
            }
        }
    }

    fn list(&mut self, count: i64) -> Vec<i64> {
        (0..count).map(|_| self.next().unwrap()).collect()
    }

    fn geometry(&mut self) -> (Vec<i64>, Vec<i64>) {
        let rank = self.next().unwrap();
        (self.list(rank), self.list(rank))
    }
}

fn meta(sizes: &[i64], strides: &[i64]) -> Tensor {
    let options = TensorOptions::new().device(Device::META);
    TensorBase::empty_strided(sizes, strides, options).unwrap().into()
}

#[test]
fn output_strides_match_the_oracle() {
    let data = include_bytes!("../../../tests/goldens/iter_strides.bin");
    let mut numbers = Numbers(data);
    let mut cases = 0;
    while let Some(count) = numbers.next() {
        let inputs: Vec<_> = (0..count).map(|_| numbers.geometry()).collect();
        let (sizes, strides) = numbers.geometry();
        let mut config = match count {
            1 => TensorIteratorConfig::unary(),
            2 => TensorIteratorConfig::binary(),
            _ => TensorIteratorConfig::ternary(),
        }
        .add_output(None);
        for (sizes, strides) in &inputs {
            config = config.add_input(&meta(sizes, strides));
        }
        let output = config.build().unwrap().into_output(0);
        assert_eq!(output.sizes().as_slice(), sizes, "case {cases}: {inputs:?}");
        assert_eq!(output.strides().as_slice(), strides, "case {cases}: {inputs:?}");
        cases += 1;
    }
    assert!(cases > 5000);
}

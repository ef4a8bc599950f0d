//! A small convolutional network that reads handwritten digits.
//!
//! `cargo run --release --example digits_cnn -- [--epochs 12] [--lr 0.004] [--out out] [--data DIR]`
#![allow(clippy::print_stdout)]

mod common;

use common::{accuracy, digits, option, save, train_classifier};
use corten::prelude::*;

/// Two convolutions with batch normalisation and two linear layers: 42 thousand weights.
fn model() -> Result<Sequential> {
    let same = Conv2dOptions { padding: 1.into(), ..Default::default() };
    Ok(Sequential::new()
        .with(Conv2d::with(1, 16, 3, same)?)
        .with(BatchNorm2d::new(16)?)
        .with(Relu)
        .with(Conv2d::with(16, 32, 3, same)?)
        .with(BatchNorm2d::new(32)?)
        .with(Relu)
        .with(MaxPool2d::new(2))
        .with(Flatten::default())
        .with(Linear::new(32 * 4 * 4, 64)?)
        .with(Relu)
        .with(Dropout::new(0.2)?)
        .with(Linear::new(64, 10)?))
}

fn main() -> Result<()> {
    corten::manual_seed(0);
    let mut parts = digits()?.into_iter();
    let (Some(train), Some(test)) = (parts.next(), parts.next()) else { return Ok(()) };
    let model = model()?;
    let losses = train_classifier(&model, train, option("epochs", 12), option("lr", 4e-3))?;
    println!("test accuracy {:.2}%", 100.0 * accuracy(&model, test)?);
    save(&model, &losses, "digits_cnn")
}

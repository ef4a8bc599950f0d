//! A small transformer that reads handwritten digits as 16 patches of 2 x 2 pixels.
//!
//! `cargo run --release --example digits_transformer -- [--epochs 24] [--lr 0.005] [--out out]`
#![allow(clippy::print_stdout)]

mod common;

use common::{accuracy, digits, option, save, train_classifier};
use corten::nn::{
    FeedForwardActivation, TransformerEncoder, TransformerEncoderLayer, TransformerLayerOptions,
};
use corten::prelude::*;

/// Patches to vectors, positions added, two encoder layers, the mean, ten classes.
#[derive(Module)]
struct Reader {
    patches: Conv2d,
    positions: Parameter,
    encoder: TransformerEncoder,
    classes: Linear,
}

impl Reader {
    fn new(width: i64, heads: i64, layers: usize) -> Result<Self> {
        let stride = Conv2dOptions { stride: 2.into(), ..Default::default() };
        let patches = Conv2d::with(1, width, 2, stride)?;
        let positions = (op::randn(&[16, width], None, None, None, None)? * 0.02)?;
        let options = TransformerLayerOptions {
            dim_feedforward: 2 * width,
            dropout: 0.0,
            activation: FeedForwardActivation::Gelu,
            batch_first: true,
            norm_first: true,
            ..Default::default()
        };
        let layer = TransformerEncoderLayer::with(width, heads, options)?;
        let norm = Some(LayerNorm::new(&[width])?);
        Ok(Self {
            patches,
            positions: Parameter::new(positions)?,
            encoder: TransformerEncoder::new(&layer, layers, norm)?,
            classes: Linear::new(width, 10)?,
        })
    }
}

impl Forward for Reader {
    fn forward(&self, images: &Tensor) -> Result<Tensor> {
        let patches = self.patches.forward(images)?.flatten_with(2, -1)?.transpose(1, 2)?;
        let read = self.encoder.forward(&(patches + &*self.positions)?)?;
        self.classes.forward(&read.mean_dim(Some(&[1]))?)
    }
}

fn main() -> Result<()> {
    corten::manual_seed(0);
    let mut parts = digits()?.into_iter();
    let (Some(train), Some(test)) = (parts.next(), parts.next()) else { return Ok(()) };
    let model = Reader::new(48, 4, 2)?;
    let losses = train_classifier(&model, train, option("epochs", 24), option("lr", 5e-3))?;
    println!("test accuracy {:.2}%", 100.0 * accuracy(&model, test)?);
    save(&model, &losses, "digits_transformer")
}

//! A variational autoencoder of handwritten digits.
//!
//! `cargo run --release --example vae -- [--epochs 10] [--lr 0.003] [--out out] [--data DIR]`
#![allow(clippy::print_stdout)]

mod common;

use common::{Progress, digits, option, save};
use corten::nn::{BceLoss, BceLossOptions, Sigmoid};
use corten::prelude::*;

/// Pictures of 64 pixels to a normal distribution of `latent` numbers, and back.
#[derive(Module)]
struct Vae {
    encoder: Linear,
    mean: Linear,
    log_variance: Linear,
    decoder: Sequential,
}

impl Vae {
    fn new(width: i64, latent: i64) -> Result<Self> {
        Ok(Self {
            encoder: Linear::new(64, width)?,
            mean: Linear::new(width, latent)?,
            log_variance: Linear::new(width, latent)?,
            decoder: Sequential::new()
                .with(Linear::new(latent, width)?)
                .with(Relu)
                .with(Linear::new(width, 64)?)
                .with(Sigmoid),
        })
    }

    /// The negative evidence lower bound of one picture.
    fn loss(&self, x: &Tensor) -> Result<Tensor> {
        let hidden = self.encoder.forward(x)?.relu()?;
        let (mean, log_variance) =
            (self.mean.forward(&hidden)?, self.log_variance.forward(&hidden)?);
        let noise = build::randn_like(&mean).call()?;
        let latent = (&mean + noise * (0.5 * &log_variance)?.exp()?)?;
        let sum = BceLossOptions { reduction: Reduction::Sum, ..Default::default() };
        let error = BceLoss::with(sum).forward(&self.decoder.forward(&latent)?, x)?;
        let square = (&mean * &mean)?;
        let inner = (1.0 + &log_variance - square - log_variance.exp()?)?;
        let divergence = (-0.5 * &inner.sum()?)?;
        (error + divergence)? / x.size(0)? as f64
    }
}

/// The rows of a batch or of a data set as vectors.
fn flat(images: &Tensor) -> Result<Tensor> {
    images.flatten_with(1, -1)
}

fn main() -> Result<()> {
    let (epochs, lr) = (option("epochs", 10usize), option("lr", 3e-3));
    corten::manual_seed(0);
    let net = Vae::new(48, 6)?;
    let mut parts = digits()?.into_iter();
    let (Some(train), Some(test)) = (parts.next(), parts.next()) else { return Ok(()) };
    let loader = DataLoader::new(train, 64).shuffle(true);
    let mut optimizer = Adam::new(net.parameters(), AdamOptions { lr, ..Default::default() })?;
    let steps = epochs * loader.len().unwrap_or(0);
    let (mut progress, mut losses) = (Progress::new(steps), Vec::with_capacity(steps));
    for epoch in 1..=epochs {
        for batch in loader.iter()? {
            let loss = net.loss(&flat(&batch?[0])?)?;
            optimizer.zero_grad()?;
            loss.backward()?;
            optimizer.step()?;
            losses.push(loss.to_element::<f32>()?);
            progress.step(&format!("epoch {epoch}  loss {:.4}", losses[losses.len() - 1]));
        }
    }
    let images: Vec<Tensor> =
        (0..test.len()).map(|i| Ok(test.get(i)?.swap_remove(0))).collect::<Result<_>>()?;
    let images = flat(&op::stack(&images, 0)?)?;
    let bound = no_grad(|| net.loss(&images))?.to_element::<f32>()?;
    println!("bound of unseen digits {bound:.3}");
    save(&net, &losses, "vae")
}

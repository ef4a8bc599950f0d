//! Two layers of LSTM that learn to continue sine waves.
//!
//! `cargo run --release --example sequence_lstm -- [--steps 200] [--lr 0.01] [--out out]`
#![allow(clippy::print_stdout)]

mod common;

use common::{Progress, option, save};
use corten::nn::optim::lr_scheduler::CosineAnnealingLR;
use corten::nn::{Lstm, RnnOptions};
use corten::prelude::*;

/// At each place of a wave, its next value.
#[derive(Module)]
struct Continuation {
    lstm: Lstm,
    next: Linear,
}

impl Continuation {
    fn new(width: i64) -> Result<Self> {
        let options = RnnOptions { num_layers: 2, batch_first: true, ..Default::default() };
        Ok(Self { lstm: Lstm::with(1, width, options)?, next: Linear::new(width, 1)? })
    }
}

impl Forward for Continuation {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let (seen, _) = self.lstm.forward(x, None)?;
        self.next.forward(&seen)
    }
}

/// Sine waves of random phase and frequency: (count, length, 1).
fn waves(count: i64, length: i64) -> Result<Tensor> {
    let phase = (Tensor::rand([count, 1])? * 6.0)?;
    let frequency = ((Tensor::rand([count, 1])? * 0.2)? + 0.1)?;
    (phase + frequency * Tensor::arange(0, length)?)?.sin()?.unsqueeze(-1)
}

/// How far the net is from the next values of the waves.
fn loss_of(net: &Continuation, x: &Tensor) -> Result<Tensor> {
    let (before, after) = (x.i(s![.., ..-1])?, x.i(s![.., 1..])?);
    loss::mse_loss(&net.forward(&before)?, &after, Reduction::Mean)
}

fn main() -> Result<()> {
    let (steps, lr) = (option("steps", 200usize), option("lr", 1e-2));
    let (length, batch) = (option("length", 32i64), option("batch", 16i64));
    corten::manual_seed(0);
    let net = Continuation::new(24)?;
    let mut optimizer = Adam::new(net.parameters(), AdamOptions { lr, ..Default::default() })?;
    let mut schedule = CosineAnnealingLR::new(&mut optimizer, steps as i64, 0.0)?;
    let (mut progress, mut losses) = (Progress::new(steps), Vec::with_capacity(steps));
    for step in 0..steps {
        let loss = loss_of(&net, &waves(batch, length + 1)?)?;
        optimizer.zero_grad()?;
        loss.backward()?;
        optimizer.step()?;
        schedule.step(&mut optimizer)?;
        losses.push(loss.to_element::<f32>()?);
        progress.step(&format!("loss {:.4}", losses[step]));
    }
    let unseen = waves(64, length + 1)?;
    let error = no_grad(|| loss_of(&net, &unseen))?.to_element::<f32>()?;
    println!("mean square error of unseen waves {error:.4}");
    save(&net, &losses, "sequence_lstm")
}

//! The digits network on a GPU where there is one, else on the CPU.
//!
//! `cargo run --release --example cuda_digits -- [--epochs 4] [--batches 23] [--lr 0.004] [--data DIR]`
#![allow(clippy::print_stdout)]

mod common;

use common::{digits, option};
use corten::cuda::{self, Event, Stream};
use corten::ops::Conversion;
use corten::prelude::*;

fn model() -> Result<Sequential> {
    let same = Conv2dOptions { padding: [1, 1].into(), ..Conv2dOptions::default() };
    Ok(Sequential::new()
        .with(Conv2d::with(1, 16, [3, 3], same)?)
        .with(Relu)
        .with(MaxPool2d::new([2, 2]))
        .with(Conv2d::with(16, 32, [3, 3], same)?)
        .with(Relu)
        .with(Flatten::default())
        .with(Linear::new(32 * 4 * 4, 10)?))
}

/// Moves the weights of a model.
fn move_to(model: &dyn Module, device: Device) -> Result<()> {
    model.parameters().iter().try_for_each(|weight| weight.set_data(&weight.detach()?.to(device)?))
}

fn main() -> Result<()> {
    corten::manual_seed(0);
    let on_gpu = cuda::is_available();
    let device = if on_gpu { Device::cuda(0) } else { Device::CPU };
    let name = if on_gpu { cuda::device_properties(0)?.name } else { "the CPU".to_owned() };
    println!("training on {name}");

    let Some(train) = digits()?.into_iter().next() else { return Ok(()) };
    let model = model()?;
    move_to(&model, device)?;
    let mut optimizer = AdamW::new(model.parameters(), AdamWOptions::default())?;
    optimizer.set_lr(option("lr", 4e-3));
    let loader = DataLoader::new(train, 64).shuffle(true);
    let (mut start, mut end) = (Event::new(true), Event::new(true));
    if on_gpu {
        start.record(Stream::current(0))?;
    }
    for epoch in 1..=option("epochs", 4) {
        let mut total = op::zeros(&[], None, None, Some(device), None)?;
        let mut batches = 0.0;
        for batch in loader.iter()?.take(option("batches", usize::MAX)) {
            let batch = batch?;
            // With pinned batches these copies run beside the steps before.
            let there = |tensor: &Tensor| -> Result<Tensor> {
                let tensor = if on_gpu { cuda::pin_memory(tensor)? } else { tensor.clone() };
                tensor.to(Conversion::from(device).non_blocking())
            };
            let (images, labels) = (there(&batch[0])?, there(&batch[1])?);
            let loss = loss::cross_entropy(&model.forward(&images)?, &labels)?;
            optimizer.zero_grad()?;
            loss.backward()?;
            optimizer.step()?;
            // The sum stays on the device: nobody waits for it here.
            total = (&total + &loss.detach()?)?;
            batches += 1.0;
        }
        println!("epoch {epoch}: loss {:.4}", f64::from(total.to_element::<f32>()?) / batches);
    }
    if on_gpu {
        end.record(Stream::current(0))?;
        end.synchronize()?;
        let most = cuda::max_memory_allocated(0)? as f64 / f64::from(1 << 20);
        println!(
            "{:.0} ms on the GPU, at most {most:.1} MiB of its memory",
            start.elapsed_time(&end)?
        );
    }
    Ok(())
}

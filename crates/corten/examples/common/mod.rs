//! What the demonstrations share: options, data, a progress bar, a curve, the saved model.

#![allow(dead_code, clippy::print_stdout)] // each demonstration uses a part; programs may print

use corten::data::{Subset, random_split};
use corten::nn::Layer;
use corten::nn::optim::lr_scheduler::{LrScheduler, OneCycleLR};
use corten::nn::optim::{AdamW, AdamWOptions, Optimizer};
use corten::prelude::*;
use corten::{Generator, Result};
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

pub(crate) const DATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/data");

/// The value behind `--name`, or the default.
pub(crate) fn option<T: std::str::FromStr>(name: &str, default: T) -> T {
    let mut args = std::env::args().skip_while(|arg| arg != &format!("--{name}")).skip(1);
    args.next().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// The file with that name: in the folder of `--data`, or where the sources are.
pub(crate) fn data_file(name: &str) -> Result<String> {
    let folder = option("data", DATA.to_owned());
    let path = Path::new(&folder).join(name);
    std::fs::read_to_string(&path)
        .map_err(|error| corten::core::err!(Value, "{}: {error}", path.display()))
}

/// Images (1, 8, 8) in [0, 1] and labels, split in random order into train and test.
pub(crate) fn digits() -> Result<Vec<Subset<TensorDataset>>> {
    let text = data_file("digits.csv")?;
    let (mut pixels, mut labels) = (Vec::new(), Vec::new());
    for line in text.lines() {
        let numbers: Vec<u8> = line.split(',').filter_map(|x| x.parse().ok()).collect();
        pixels.extend(numbers[..64].iter().map(|x| f32::from(*x) / 16.0));
        labels.push(i64::from(numbers[64]));
    }
    let count = labels.len() as i64;
    let images = Tensor::from_vec(pixels, &[count, 1, 8, 8])?;
    let labels = Tensor::from_vec(labels, &[count])?;
    let data = TensorDataset::new(vec![images, labels])?;
    random_split(data, &[1437, 360], Some(&Generator::cpu(0)))
}

/// A bar on stderr with the latest numbers.
pub(crate) struct Progress {
    total: usize,
    done: usize,
    start: Instant,
}

impl Progress {
    pub(crate) fn new(total: usize) -> Self {
        Self { total, done: 0, start: Instant::now() }
    }

    pub(crate) fn step(&mut self, text: &str) {
        self.done += 1;
        let filled = 30 * self.done / self.total;
        let bar = "█".repeat(filled) + &"·".repeat(30 - filled);
        let end = if self.done == self.total { "\n" } else { "" };
        let seconds = self.start.elapsed().as_secs_f64();
        eprint!("\r{bar} {}/{} {seconds:5.1} s  {text}{end}", self.done, self.total);
        let _ = std::io::stderr().flush();
    }
}

/// The fraction of samples whose most probable class is the label.
pub(crate) fn accuracy(model: &dyn Layer, data: Subset<TensorDataset>) -> Result<f64> {
    model.eval();
    let count = data.len();
    let all = DataLoader::new(data, count);
    let mut right = 0.0;
    for batch in all.iter()? {
        let batch = batch?;
        let classes = no_grad(|| op::argmax(&model.forward(&batch[0])?, Some(1), false))?;
        let hits = op::to_dtype(&classes.eq(&batch[1])?, DType::Float64, false, false, None)?;
        right += op::sum(&hits, None)?.to_element::<f64>()?;
    }
    model.train();
    Ok(right / count as f64)
}

/// Trains with AdamW and a one-cycle schedule; returns the losses.
pub(crate) fn train_classifier(
    model: &dyn Layer,
    train: Subset<TensorDataset>,
    epochs: usize,
    lr: f64,
) -> Result<Vec<f32>> {
    let loader = DataLoader::new(train, 64).shuffle(true).workers(option("workers", 0));
    let steps = epochs * loader.len().unwrap_or(0);
    let mut optimizer = AdamW::new(model.parameters(), AdamWOptions::default())?;
    let mut scheduler = OneCycleLR::new(&mut optimizer, lr, steps as i64, Default::default())?;
    let (mut progress, mut losses) = (Progress::new(steps), Vec::with_capacity(steps));
    for epoch in 1..=epochs {
        for batch in loader.iter()? {
            let batch = batch?;
            let loss = loss::cross_entropy(&model.forward(&batch[0])?, &batch[1])?;
            optimizer.zero_grad()?;
            loss.backward()?;
            optimizer.step()?;
            scheduler.step(&mut optimizer)?;
            losses.push(loss.to_element::<f32>()?);
            progress.step(&format!("epoch {epoch}  loss {:.4}", losses[losses.len() - 1]));
        }
    }
    Ok(losses)
}

/// Writes the weights and the curve of the losses.
pub(crate) fn save(model: &dyn Module, losses: &[f32], name: &str) -> Result<()> {
    let out = PathBuf::from(option("out", "out".to_owned()));
    let failed = |error: std::io::Error| corten::core::err!(Value, "{}: {error}", out.display());
    std::fs::create_dir_all(&out).map_err(failed)?;
    let weights = out.join(format!("{name}.safetensors"));
    let state = model.state_dict()?;
    let tensors = state.iter().map(|(name, tensor)| (name.as_str(), tensor));
    corten::io::safetensors::save(&weights, tensors, None)?;
    std::fs::write(out.join(format!("{name}.svg")), curve(losses, name)).map_err(failed)?;
    println!("saved {} and .svg", weights.display());
    let operators = option("operators", String::new());
    if !operators.is_empty() {
        std::fs::write(&operators, corten::ops::registry::called().join("\n")).map_err(failed)?;
    }
    Ok(())
}

/// The losses as an SVG picture, with a running mean.
fn curve(losses: &[f32], title: &str) -> String {
    let (width, height, margin) = (640.0, 320.0, 44.0);
    let top = losses.iter().copied().fold(f32::MIN_POSITIVE, f32::max);
    let (inner_w, inner_h) = (width - 2.0 * margin, height - 2.0 * margin);
    let points = |values: &[f32]| {
        let scale = inner_w / (values.len().max(2) - 1) as f32;
        values.iter().enumerate().fold(String::new(), |mut text, (i, value)| {
            let (x, y) = (margin + i as f32 * scale, margin + inner_h * (1.0 - value / top));
            let _ = write!(text, "{x:.1},{y:.1} ");
            text
        })
    };
    let mut mean = losses.first().copied().unwrap_or(0.0);
    let means: Vec<f32> = losses
        .iter()
        .map(|loss| {
            mean += 0.1 * (loss - mean);
            mean
        })
        .collect();
    let ticks = (0..5).fold(String::new(), |mut text, k| {
        let share = k as f32 / 4.0;
        let (x, y) = (margin - 6.0, margin + inner_h * (1.0 - share) + 4.0);
        let _ =
            write!(text, r#"<text x="{x}" y="{y:.0}" text-anchor="end">{:.2}</text>"#, top * share);
        text
    });
    let (right, bottom) = (width - margin, height - margin);
    format!(
        r##"<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif" font-size="11">
<rect width="100%" height="100%" fill="white"/>
<text x="320" y="24" text-anchor="middle" font-size="14">{title}: loss by step</text>
{ticks}<text x="{right}" y="{}" text-anchor="end">{}</text>
<path d="M{margin} {margin}V{bottom}H{right}" fill="none" stroke="black"/>
<polyline points="{}" fill="none" stroke="#bbb"/>
<polyline points="{}" fill="none" stroke="#b7410e" stroke-width="2"/>
</svg>
"##,
        bottom + 18.0,
        losses.len(),
        points(losses),
        points(&means)
    )
}

//! A small GPT that learns to write like Milton, letter by letter.
//!
//! `cargo run --release --example char_gpt -- [--steps 600] [--context 64] [--batch 32] [--out out]`
#![allow(clippy::print_stdout)]

mod common;

use common::{Progress, data_file, option, save};
use corten::nn::optim::lr_scheduler::{OneCycleLR, OneCycleOptions};
use corten::nn::{clip_grad_norm_, init};
use corten::prelude::*;

/// Causal self-attention and a feed-forward network, each behind a normalisation.
#[derive(Module)]
struct TransformerBlock {
    heads: i64,
    norm1: LayerNorm,
    norm2: LayerNorm,
    qkv: Linear,
    out: Linear,
    wide: Linear,
    narrow: Linear,
}

impl TransformerBlock {
    fn new(width: i64, heads: i64) -> Result<Self> {
        Ok(Self {
            heads,
            norm1: LayerNorm::new(&[width])?,
            norm2: LayerNorm::new(&[width])?,
            qkv: Linear::new(width, 3 * width)?,
            out: Linear::new(width, width)?,
            wide: Linear::new(width, 4 * width)?,
            narrow: Linear::new(4 * width, width)?,
        })
    }

    fn attend(&self, x: &Tensor) -> Result<Tensor> {
        let joined = self.qkv.forward(&self.norm1.forward(x)?)?;
        let mut parts = Vec::with_capacity(3);
        for part in joined.chunk_with(3, -1)? {
            let width = part.size(-1)?;
            parts.push(part.unflatten(-1, &[self.heads, width / self.heads])?.transpose(1, 2)?);
        }
        let (q, k, v) = (&parts[0], &parts[1], &parts[2]);
        let seen = op::scaled_dot_product_attention(q, k, v, None, 0.0, true, None, false)?;
        self.out.forward(&seen.transpose(1, 2)?.flatten_with(2, 3)?)
    }
}

impl Forward for TransformerBlock {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let x = (x + self.attend(x)?)?;
        let wide = op::gelu(&self.wide.forward(&self.norm2.forward(&x)?)?, "none")?;
        x + self.narrow.forward(&wide)?
    }
}

/// Letters and positions to vectors, blocks, logits of the next letter.
#[derive(Module)]
struct Gpt {
    letters: Embedding,
    positions: Embedding,
    blocks: ModuleList<TransformerBlock>,
    norm: LayerNorm,
    logits: Linear,
}

impl Gpt {
    fn new(letters: i64, context: i64, width: i64, heads: i64, layers: usize) -> Result<Self> {
        let net = Self {
            letters: Embedding::new(letters, width)?,
            positions: Embedding::new(context, width)?,
            blocks: (0..layers)
                .map(|_| TransformerBlock::new(width, heads))
                .collect::<Result<_>>()?,
            norm: LayerNorm::new(&[width])?,
            logits: Linear::with_bias(width, letters, false)?,
        };
        for parameter in net.parameters() {
            if parameter.dim() > 1 {
                init::normal_(&parameter, 0.0, 0.02)?;
            }
        }
        Ok(net)
    }
}

impl Forward for Gpt {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let places = op::arange(x.size(1)?.into(), Some(DType::Int64), None, None, None)?;
        let x = (self.letters.forward(x)? + self.positions.forward(&places)?)?;
        self.logits.forward(&self.norm.forward(&self.blocks.forward(&x)?)?)
    }
}

/// Pieces of the text at the given places, and the letters that follow each of theirs.
fn pieces(text: &Tensor, starts: &[i64], context: i64) -> Result<(Tensor, Tensor)> {
    let cut = |shift| -> Result<Tensor> {
        let rows = starts.iter().map(|start| text.narrow(0, start + shift, context));
        op::stack(&rows.collect::<Result<Vec<_>>>()?, 0)
    };
    Ok((cut(0)?, cut(1)?))
}

fn loss_of(net: &Gpt, x: &Tensor, y: &Tensor) -> Result<Tensor> {
    loss::cross_entropy(&net.forward(x)?.flatten_with(0, 1)?, &y.flatten()?)
}

/// How many bits the model needs for a letter of unseen text.
fn bits_per_letter(net: &Gpt, text: &Tensor, context: i64) -> Result<f32> {
    let room = text.numel() - context - 1;
    let starts: Vec<i64> = (0..room).step_by((room / 64) as usize).collect();
    let (x, y) = pieces(text, &starts, context)?;
    Ok(no_grad(|| loss_of(net, &x, &y))?.to_element::<f32>()? / std::f32::consts::LN_2)
}

/// Continues `start`, drawing each letter from the model's distribution.
fn write(net: &Gpt, letters: &[char], start: &str, count: usize, context: i64) -> Result<String> {
    let place = |c| letters.iter().position(|letter| *letter == c).unwrap_or(0) as i64;
    let mut text: Vec<i64> = start.chars().map(place).collect();
    for _ in 0..count {
        let seen = text[text.len().saturating_sub(context as usize)..].to_vec();
        let x = Tensor::from_slice(&seen, &[1, seen.len() as i64])?;
        let logits = no_grad(|| net.forward(&x))?.select(1, -1)?;
        text.push(logits.softmax(-1)?.multinomial(1)?.to_element::<i64>()?);
    }
    Ok(text.iter().map(|place| letters[*place as usize]).collect())
}

fn main() -> Result<()> {
    let (steps, context) = (option("steps", 600usize), option("context", 64i64));
    let (batch, lr) = (option("batch", 32i64), option("lr", 3e-3));
    corten::manual_seed(0);
    let poem = data_file("paradise_lost.txt")?;
    let mut letters: Vec<char> = poem.chars().collect();
    letters.sort_unstable();
    letters.dedup();
    let places = poem.chars().map(|c| letters.binary_search(&c).unwrap_or(0) as i64);
    let text: Vec<i64> = places.collect();
    let (count, cut) = (text.len() as i64, text.len() as i64 * 9 / 10);
    let text = Tensor::from_vec(text, &[count])?;
    let train = text.narrow(0, 0, cut)?;

    let net = Gpt::new(letters.len() as i64, context, 96, 4, 3)?;
    let options = AdamWOptions { weight_decay: 0.1, ..Default::default() };
    let mut optimizer = AdamW::new(net.parameters(), options)?;
    let cycle = OneCycleOptions { momentum: None, pct_start: 0.1, ..Default::default() };
    let mut scheduler = OneCycleLR::new(&mut optimizer, lr, steps as i64, cycle)?;
    let (mut progress, mut losses) = (Progress::new(steps), Vec::with_capacity(steps));
    for step in 0..steps {
        let starts = op::randint(cut - context, &[batch], None, None, None, None)?;
        let (x, y) = pieces(&train, &starts.to_vec::<i64>()?, context)?;
        let loss = loss_of(&net, &x, &y)?;
        optimizer.zero_grad()?;
        loss.backward()?;
        clip_grad_norm_(&optimizer.parameters(), 1.0)?;
        optimizer.step()?;
        scheduler.step(&mut optimizer)?;
        losses.push(loss.to_element::<f32>()?);
        progress.step(&format!("loss {:.4}", losses[step]));
    }
    let unseen = text.narrow(0, cut, count - cut)?;
    println!("{:.3} bits per letter of unseen text", bits_per_letter(&net, &unseen, context)?);
    println!("{}", write(&net, &letters, "Of Man's first ", 200, context)?);
    save(&net, &losses, "char_gpt")
}

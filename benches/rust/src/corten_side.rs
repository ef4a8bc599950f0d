//! The programs in Corten.

use crate::workload::{
    ADAMW, CLASSES, MLP, MLP_BATCH, MLP_RATE, Numbers, Row, Step, cnn, gpt, lstm, minilm,
};
use corten::nn::{LayerNormOptions, Lstm};
use corten::prelude::*;

fn tensor<const N: usize>(values: Vec<f32>, sizes: [usize; N]) -> Result<Tensor> {
    Tensor::from_vec(values, &sizes.map(|size| size as i64))
}

fn integers<const N: usize>(
    numbers: &mut Numbers,
    sizes: [usize; N],
    end: usize,
) -> Result<Tensor> {
    let values = numbers.below(sizes.iter().product(), end);
    Tensor::from_vec(values, &sizes.map(|size| size as i64))
}

/// Overwrites a parameter.
fn set<const N: usize>(parameter: &Tensor, values: Vec<f32>, sizes: [usize; N]) -> Result<()> {
    no_grad(|| parameter.copy_(&tensor(values, sizes)?)).map(drop)
}

fn linear(numbers: &mut Numbers, inputs: usize, outputs: usize) -> Result<Linear> {
    let layer = Linear::new(inputs as i64, outputs as i64)?;
    let (weight, bias) = numbers.layer(inputs * outputs, outputs, inputs);
    set(&layer.weight, weight, [outputs, inputs])?;
    if let Some(held) = &layer.bias {
        set(held, bias, [outputs])?;
    }
    Ok(layer)
}

fn conv(numbers: &mut Numbers, inputs: usize, outputs: usize) -> Result<Conv2d> {
    let layer = Conv2d::new(inputs as i64, outputs as i64, cnn::WINDOW as i64)?;
    let fan_in = inputs * cnn::WINDOW * cnn::WINDOW;
    let (weight, bias) = numbers.layer(outputs * fan_in, outputs, fan_in);
    set(&layer.weight, weight, [outputs, inputs, cnn::WINDOW, cnn::WINDOW])?;
    if let Some(held) = &layer.bias {
        set(held, bias, [outputs])?;
    }
    Ok(layer)
}

fn embedding(numbers: &mut Numbers, count: usize, width: usize) -> Result<Embedding> {
    let layer = Embedding::new(count as i64, width as i64)?;
    set(&layer.weight, numbers.floats(count * width, 0.05), [count, width])?;
    Ok(layer)
}

fn adamw(parameters: Vec<Tensor>) -> Result<AdamW> {
    let (lr, weight_decay, eps) = ADAMW;
    AdamW::new(parameters, AdamWOptions { lr, weight_decay, eps, ..Default::default() })
}

/// A step of training, and its loss.
fn training<O: Optimizer + 'static>(
    mut optimizer: O,
    loss: impl Fn() -> Result<Tensor> + 'static,
) -> Step {
    let mut step = move || -> Result<f32> {
        let loss = loss()?;
        optimizer.zero_grad()?;
        loss.backward()?;
        optimizer.step()?;
        loss.to_element()
    };
    Box::new(move || Ok(step()?))
}

pub fn step(row: Row) -> Result<Step> {
    let mut numbers = Numbers(0);
    match row {
        Row::Mlp => mlp(&mut numbers),
        Row::Cnn => digits(&mut numbers),
        Row::Lstm => sequence(&mut numbers),
        Row::Gpt => text(&mut numbers),
        Row::MiniLm { batch } => embed(&mut numbers, batch),
    }
}

fn mlp(numbers: &mut Numbers) -> Result<Step> {
    let [input, first, second, classes] = MLP;
    let net = Sequential::new()
        .with(linear(numbers, input, first)?)
        .with(Relu)
        .with(linear(numbers, first, second)?)
        .with(Relu)
        .with(linear(numbers, second, classes)?);
    let x = tensor(numbers.floats(MLP_BATCH * input, 1.0), [MLP_BATCH, input])?;
    let y = integers(numbers, [MLP_BATCH], classes)?;
    let optimizer = Sgd::new(net.parameters(), SgdOptions { lr: MLP_RATE, ..Default::default() })?;
    Ok(training(optimizer, move || loss::cross_entropy(&net.forward(&x)?, &y)))
}

fn digits(numbers: &mut Numbers) -> Result<Step> {
    let [image, first, second] = cnn::CHANNELS;
    let net = Sequential::new()
        .with(conv(numbers, image, first)?)
        .with(Relu)
        .with(MaxPool2d::new(2))
        .with(conv(numbers, first, second)?)
        .with(Relu)
        .with(MaxPool2d::new(2))
        .with(Flatten::default())
        .with(linear(numbers, cnn::FLAT, cnn::HIDDEN)?)
        .with(Relu)
        .with(linear(numbers, cnn::HIDDEN, CLASSES)?);
    let sizes = [cnn::BATCH, image, cnn::SIDE, cnn::SIDE];
    let x = tensor(numbers.floats(sizes.iter().product(), 1.0), sizes)?;
    let y = integers(numbers, [cnn::BATCH], CLASSES)?;
    let optimizer = adamw(net.parameters())?;
    Ok(training(optimizer, move || loss::cross_entropy(&net.forward(&x)?, &y)))
}

fn sequence(numbers: &mut Numbers) -> Result<Step> {
    let (input, hidden) = (lstm::INPUT, lstm::HIDDEN);
    let options = corten::nn::RnnOptions { batch_first: true, ..Default::default() };
    let layer = Lstm::with(input as i64, hidden as i64, options)?;
    let (w_ih, w_hh) = numbers.layer(4 * hidden * input, 4 * hidden * hidden, hidden);
    let (b_ih, b_hh) = numbers.layer(4 * hidden, 4 * hidden, hidden);
    let parameters = layer.parameters();
    set(&parameters[0], w_ih, [4 * hidden, input])?;
    set(&parameters[1], w_hh, [4 * hidden, hidden])?;
    set(&parameters[2], b_ih, [4 * hidden])?;
    set(&parameters[3], b_hh, [4 * hidden])?;
    let head = linear(numbers, hidden, CLASSES)?;
    let sizes = [lstm::BATCH, lstm::STEPS, input];
    let x = tensor(numbers.floats(sizes.iter().product(), 1.0), sizes)?;
    let y = integers(numbers, [lstm::BATCH], CLASSES)?;
    let optimizer = adamw(parameters.into_iter().chain(head.parameters()).collect())?;
    Ok(training(optimizer, move || {
        let (seen, _) = layer.forward(&x, None)?;
        loss::cross_entropy(&head.forward(&seen.i((.., -1))?)?, &y)
    }))
}

#[derive(Module)]
struct GptBlock {
    norm1: LayerNorm,
    qkv: Linear,
    out: Linear,
    norm2: LayerNorm,
    wide: Linear,
    narrow: Linear,
}

impl GptBlock {
    fn new(numbers: &mut Numbers, width: usize) -> Result<Self> {
        let norm = || LayerNorm::new(&[width as i64]);
        Ok(Self {
            norm1: norm()?,
            qkv: linear(numbers, width, 3 * width)?,
            out: linear(numbers, width, width)?,
            norm2: norm()?,
            wide: linear(numbers, width, 4 * width)?,
            narrow: linear(numbers, 4 * width, width)?,
        })
    }
}

impl Forward for GptBlock {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let heads = |x: &Tensor| x.unflatten(-1, &[gpt::HEADS as i64, -1])?.transpose(1, 2);
        let parts = self.qkv.forward(&self.norm1.forward(x)?)?.chunk_with(3, -1)?;
        let (q, k, v) = (heads(&parts[0])?, heads(&parts[1])?, heads(&parts[2])?);
        let seen = build::scaled_dot_product_attention(&q, &k, &v).is_causal(true).call()?;
        let x = (x + self.out.forward(&seen.transpose(1, 2)?.flatten_with(2, 3)?)?)?;
        let wide = op::gelu(&self.wide.forward(&self.norm2.forward(&x)?)?, "none")?;
        &x + self.narrow.forward(&wide)?
    }
}

#[derive(Module)]
struct Gpt {
    letters: Embedding,
    positions: Embedding,
    blocks: ModuleList<GptBlock>,
    norm: LayerNorm,
    logits: Linear,
}

impl Forward for Gpt {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let places = Tensor::arange(0, x.size(1)?)?;
        let x = (self.letters.forward(x)? + self.positions.forward(&places)?)?;
        self.logits.forward(&self.norm.forward(&self.blocks.forward(&x)?)?)
    }
}

fn text(numbers: &mut Numbers) -> Result<Step> {
    let net = Gpt {
        letters: embedding(numbers, gpt::LETTERS, gpt::WIDTH)?,
        positions: embedding(numbers, gpt::CONTEXT, gpt::WIDTH)?,
        blocks: (0..gpt::LAYERS)
            .map(|_| GptBlock::new(numbers, gpt::WIDTH))
            .collect::<Result<_>>()?,
        norm: LayerNorm::new(&[gpt::WIDTH as i64])?,
        logits: linear(numbers, gpt::WIDTH, gpt::LETTERS)?,
    };
    let x = integers(numbers, [gpt::BATCH, gpt::CONTEXT], gpt::LETTERS)?;
    let y = integers(numbers, [gpt::BATCH * gpt::CONTEXT], gpt::LETTERS)?;
    let optimizer = adamw(net.parameters())?;
    Ok(training(optimizer, move || loss::cross_entropy(&net.forward(&x)?.flatten_with(0, 1)?, &y)))
}

#[derive(Module)]
struct BertLayer {
    query: Linear,
    key: Linear,
    value: Linear,
    out: Linear,
    norm1: LayerNorm,
    wide: Linear,
    narrow: Linear,
    norm2: LayerNorm,
}

fn bert_norm() -> Result<LayerNorm> {
    LayerNorm::with(
        &[minilm::WIDTH as i64],
        LayerNormOptions { eps: minilm::EPS, ..Default::default() },
    )
}

impl BertLayer {
    fn new(numbers: &mut Numbers, width: usize) -> Result<Self> {
        Ok(Self {
            query: linear(numbers, width, width)?,
            key: linear(numbers, width, width)?,
            value: linear(numbers, width, width)?,
            out: linear(numbers, width, width)?,
            norm1: bert_norm()?,
            wide: linear(numbers, width, 4 * width)?,
            narrow: linear(numbers, 4 * width, width)?,
            norm2: bert_norm()?,
        })
    }
}

impl Forward for BertLayer {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let heads = |layer: &Linear| -> Result<Tensor> {
            layer.forward(x)?.unflatten(-1, &[minilm::HEADS as i64, -1])?.transpose(1, 2)
        };
        let (q, k, v) = (heads(&self.query)?, heads(&self.key)?, heads(&self.value)?);
        let seen = op::scaled_dot_product_attention(&q, &k, &v, None, 0.0, false, None, false)?;
        let seen = seen.transpose(1, 2)?.flatten_with(2, 3)?;
        let x = self.norm1.forward(&(self.out.forward(&seen)? + x)?)?;
        let wide = op::gelu(&self.wide.forward(&x)?, "none")?;
        self.norm2.forward(&(self.narrow.forward(&wide)? + &x)?)
    }
}

#[derive(Module)]
struct Bert {
    words: Embedding,
    places: Embedding,
    kinds: Embedding,
    norm: LayerNorm,
    layers: ModuleList<BertLayer>,
}

impl Forward for Bert {
    /// Unit vectors: the means over the tokens.
    fn forward(&self, tokens: &Tensor) -> Result<Tensor> {
        let places = Tensor::arange(0, tokens.size(1)?)?;
        let x = (self.words.forward(tokens)?
            + self.kinds.forward(&build::zeros_like(tokens).call()?)?
            + self.places.forward(&places)?)?;
        let x = self.layers.forward(&self.norm.forward(&x)?)?;
        let mean = op::mean_dim(&x, Some(&[1]), false, None)?;
        let length = op::linalg_vector_norm(&mean, 2.into(), Some(&[1]), true, None)?;
        &mean / length
    }
}

fn embed(numbers: &mut Numbers, batch: usize) -> Result<Step> {
    let width = minilm::WIDTH;
    let net = Bert {
        words: embedding(numbers, minilm::WORDS, width)?,
        places: embedding(numbers, minilm::PLACES, width)?,
        kinds: embedding(numbers, 2, width)?,
        norm: bert_norm()?,
        layers: (0..minilm::LAYERS)
            .map(|_| BertLayer::new(numbers, width))
            .collect::<Result<_>>()?,
    };
    net.eval();
    let tokens = integers(numbers, [batch, minilm::TOKENS], minilm::WORDS)?;
    let infer = move || -> Result<f32> {
        let embeddings = corten::inference_mode(|| net.forward(&tokens))?;
        embeddings.i((0, 0))?.to_element()
    };
    Ok(Box::new(move || Ok(infer()?)))
}

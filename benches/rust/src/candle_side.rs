//! The programs in candle.

use crate::workload::{
    ADAMW, CLASSES, MLP, MLP_BATCH, MLP_RATE, Numbers, Row, Step, cnn, gpt, lstm, minilm,
};
use candle_core::{D, DType, Device, IndexOp, Module, Result, Shape, Tensor, Var};
use candle_nn::rnn::{LSTMConfig, RNN};
use candle_nn::{
    AdamW, Conv2d, Conv2dConfig, Embedding, LSTM, LayerNorm, Linear, Optimizer, ParamsAdamW, SGD,
    VarBuilder, loss, ops,
};
use std::collections::HashMap;

const CPU: Device = Device::Cpu;

/// The variables of a model: what is trained.
#[derive(Default)]
struct Made {
    variables: Vec<Var>,
}

impl Made {
    fn variable(&mut self, values: Vec<f32>, sizes: impl Into<Shape>) -> Result<Tensor> {
        let variable = Var::from_tensor(&Tensor::from_vec(values, sizes, &CPU)?)?;
        self.variables.push(variable.clone());
        Ok(variable.as_tensor().clone())
    }

    fn linear(&mut self, numbers: &mut Numbers, inputs: usize, outputs: usize) -> Result<Linear> {
        let (weight, bias) = numbers.layer(inputs * outputs, outputs, inputs);
        let weight = self.variable(weight, (outputs, inputs))?;
        Ok(Linear::new(weight, Some(self.variable(bias, outputs)?)))
    }

    fn conv(&mut self, numbers: &mut Numbers, inputs: usize, outputs: usize) -> Result<Conv2d> {
        let fan_in = inputs * cnn::WINDOW * cnn::WINDOW;
        let (weight, bias) = numbers.layer(outputs * fan_in, outputs, fan_in);
        let weight = self.variable(weight, (outputs, inputs, cnn::WINDOW, cnn::WINDOW))?;
        Ok(Conv2d::new(weight, Some(self.variable(bias, outputs)?), Conv2dConfig::default()))
    }

    fn embedding(
        &mut self,
        numbers: &mut Numbers,
        count: usize,
        width: usize,
    ) -> Result<Embedding> {
        let weight = self.variable(numbers.floats(count * width, 0.05), (count, width))?;
        Ok(Embedding::new(weight, width))
    }

    fn norm(&mut self, width: usize, eps: f64) -> Result<LayerNorm> {
        let weight = self.variable(vec![1.0; width], width)?;
        Ok(LayerNorm::new(weight, self.variable(vec![0.0; width], width)?, eps))
    }

    fn adamw(self) -> Result<AdamW> {
        let (lr, weight_decay, eps) = ADAMW;
        AdamW::new(self.variables, ParamsAdamW { lr, weight_decay, eps, ..Default::default() })
    }
}

fn tensor(values: Vec<f32>, sizes: impl Into<Shape>) -> Result<Tensor> {
    Tensor::from_vec(values, sizes, &CPU)
}

fn integers(numbers: &mut Numbers, sizes: impl Into<Shape>, end: usize) -> Result<Tensor> {
    let sizes = sizes.into();
    // Its examples have numbers of this dtype.
    let values = numbers.below(sizes.elem_count(), end).into_iter().map(|i| i as u32);
    Tensor::from_vec(values.collect::<Vec<_>>(), sizes, &CPU)
}

/// A step of training, and its loss.
fn training<O: Optimizer + 'static>(
    mut optimizer: O,
    loss: impl Fn() -> Result<Tensor> + 'static,
) -> Step {
    let mut step = move || -> Result<f32> {
        let loss = loss()?;
        optimizer.backward_step(&loss)?;
        loss.to_scalar()
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
    let mut made = Made::default();
    let layers = [
        made.linear(numbers, input, first)?,
        made.linear(numbers, first, second)?,
        made.linear(numbers, second, classes)?,
    ];
    let x = tensor(numbers.floats(MLP_BATCH * input, 1.0), (MLP_BATCH, input))?;
    let y = integers(numbers, MLP_BATCH, classes)?;
    Ok(training(SGD::new(made.variables, MLP_RATE)?, move || {
        let hidden = layers[0].forward(&x)?.relu()?;
        loss::cross_entropy(&layers[2].forward(&layers[1].forward(&hidden)?.relu()?)?, &y)
    }))
}

fn digits(numbers: &mut Numbers) -> Result<Step> {
    let [image, first, second] = cnn::CHANNELS;
    let mut made = Made::default();
    let convs = [made.conv(numbers, image, first)?, made.conv(numbers, first, second)?];
    let layers = [
        made.linear(numbers, cnn::FLAT, cnn::HIDDEN)?,
        made.linear(numbers, cnn::HIDDEN, CLASSES)?,
    ];
    let sizes = (cnn::BATCH, image, cnn::SIDE, cnn::SIDE);
    let x = tensor(numbers.floats(cnn::BATCH * image * cnn::SIDE * cnn::SIDE, 1.0), sizes)?;
    let y = integers(numbers, cnn::BATCH, CLASSES)?;
    Ok(training(made.adamw()?, move || {
        let x = convs[0].forward(&x)?.relu()?.max_pool2d(2)?;
        let x = convs[1].forward(&x)?.relu()?.max_pool2d(2)?.flatten_from(1)?;
        loss::cross_entropy(&layers[1].forward(&layers[0].forward(&x)?.relu()?)?, &y)
    }))
}

fn sequence(numbers: &mut Numbers) -> Result<Step> {
    let (input, hidden) = (lstm::INPUT, lstm::HIDDEN);
    let mut made = Made::default();
    let (w_ih, w_hh) = numbers.layer(4 * hidden * input, 4 * hidden * hidden, hidden);
    let (b_ih, b_hh) = numbers.layer(4 * hidden, 4 * hidden, hidden);
    let named = HashMap::from([
        ("weight_ih_l0".to_owned(), made.variable(w_ih, (4 * hidden, input))?),
        ("weight_hh_l0".to_owned(), made.variable(w_hh, (4 * hidden, hidden))?),
        ("bias_ih_l0".to_owned(), made.variable(b_ih, 4 * hidden)?),
        ("bias_hh_l0".to_owned(), made.variable(b_hh, 4 * hidden)?),
    ]);
    let builder = VarBuilder::from_tensors(named, DType::F32, &CPU);
    let layer = LSTM::new(input, hidden, LSTMConfig::default(), builder)?;
    let head = made.linear(numbers, hidden, CLASSES)?;
    let count = lstm::BATCH * lstm::STEPS * input;
    let x = tensor(numbers.floats(count, 1.0), (lstm::BATCH, lstm::STEPS, input))?;
    let y = integers(numbers, lstm::BATCH, CLASSES)?;
    Ok(training(made.adamw()?, move || {
        let states = layer.seq(&x)?;
        loss::cross_entropy(&head.forward(states[lstm::STEPS - 1].h())?, &y)
    }))
}

/// The normalisation with a derivative: that of `LayerNorm` has none on the CPU.
fn normed(norm: &LayerNorm, x: &Tensor) -> Result<Tensor> {
    let bias = norm.bias().ok_or_else(|| candle_core::Error::msg("a norm has a bias"))?;
    ops::layer_norm_slow(x, norm.weight(), bias, norm.eps() as f32)
}

struct GptBlock {
    norm1: LayerNorm,
    qkv: Linear,
    out: Linear,
    norm2: LayerNorm,
    wide: Linear,
    narrow: Linear,
}

impl GptBlock {
    fn new(made: &mut Made, numbers: &mut Numbers, width: usize) -> Result<Self> {
        Ok(Self {
            qkv: made.linear(numbers, width, 3 * width)?,
            out: made.linear(numbers, width, width)?,
            wide: made.linear(numbers, width, 4 * width)?,
            narrow: made.linear(numbers, 4 * width, width)?,
            norm1: made.norm(width, 1e-5)?,
            norm2: made.norm(width, 1e-5)?,
        })
    }

    fn forward(&self, x: &Tensor, mask: &Tensor) -> Result<Tensor> {
        let (batch, length, width) = x.dims3()?;
        let size = width / gpt::HEADS;
        let joined = self.qkv.forward(&normed(&self.norm1, x)?)?;
        let joined = joined.reshape((batch, length, 3, gpt::HEADS, size))?;
        let heads = |i: usize| joined.i((.., .., i))?.transpose(1, 2)?.contiguous();
        let (q, k, v) = (heads(0)?, heads(1)?, heads(2)?);
        let scores = (q.matmul(&k.t()?)? * (1.0 / (size as f64).sqrt()))?.broadcast_add(mask)?;
        let seen = ops::softmax(&scores, D::Minus1)?.matmul(&v)?;
        let seen = seen.transpose(1, 2)?.reshape((batch, length, width))?;
        let x = (x + self.out.forward(&seen)?)?;
        let wide = self.wide.forward(&normed(&self.norm2, &x)?)?.gelu_erf()?;
        &x + self.narrow.forward(&wide)?
    }
}

fn text(numbers: &mut Numbers) -> Result<Step> {
    let (mut made, length) = (Made::default(), gpt::CONTEXT);
    let letters = made.embedding(numbers, gpt::LETTERS, gpt::WIDTH)?;
    let positions = made.embedding(numbers, length, gpt::WIDTH)?;
    let blocks = (0..gpt::LAYERS).map(|_| GptBlock::new(&mut made, numbers, gpt::WIDTH));
    let blocks = blocks.collect::<Result<Vec<_>>>()?;
    let logits = made.linear(numbers, gpt::WIDTH, gpt::LETTERS)?;
    let norm = made.norm(gpt::WIDTH, 1e-5)?;
    let x = integers(numbers, (gpt::BATCH, length), gpt::LETTERS)?;
    let y = integers(numbers, gpt::BATCH * length, gpt::LETTERS)?;
    let hidden = |i: usize| if i % length > i / length { f32::NEG_INFINITY } else { 0.0 };
    let mask = tensor((0..length * length).map(hidden).collect(), (length, length))?;
    let places = Tensor::arange(0, length as u32, &CPU)?;
    Ok(training(made.adamw()?, move || {
        let mut x = letters.forward(&x)?.broadcast_add(&positions.forward(&places)?)?;
        for block in &blocks {
            x = block.forward(&x, &mask)?;
        }
        loss::cross_entropy(&logits.forward(&normed(&norm, &x)?)?.flatten(0, 1)?, &y)
    }))
}

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

impl BertLayer {
    fn new(made: &mut Made, numbers: &mut Numbers, width: usize) -> Result<Self> {
        Ok(Self {
            query: made.linear(numbers, width, width)?,
            key: made.linear(numbers, width, width)?,
            value: made.linear(numbers, width, width)?,
            out: made.linear(numbers, width, width)?,
            wide: made.linear(numbers, width, 4 * width)?,
            narrow: made.linear(numbers, 4 * width, width)?,
            norm1: made.norm(width, minilm::EPS)?,
            norm2: made.norm(width, minilm::EPS)?,
        })
    }

    /// As `candle_transformers::models::bert`.
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let (batch, length, width) = x.dims3()?;
        let size = width / minilm::HEADS;
        let heads = |layer: &Linear| {
            let joined = layer.forward(x)?.reshape((batch, length, minilm::HEADS, size))?;
            joined.transpose(1, 2)?.contiguous()
        };
        let (q, k, v) = (heads(&self.query)?, heads(&self.key)?, heads(&self.value)?);
        let scores = (q.matmul(&k.t()?)? / (size as f64).sqrt())?;
        let seen = ops::softmax_last_dim(&scores)?.matmul(&v)?;
        let seen = seen.transpose(1, 2)?.contiguous()?.flatten_from(2)?;
        let x = self.norm1.forward(&(self.out.forward(&seen)? + x)?)?;
        let wide = self.wide.forward(&x)?.gelu_erf()?;
        self.norm2.forward(&(self.narrow.forward(&wide)? + &x)?)
    }
}

fn embed(numbers: &mut Numbers, batch: usize) -> Result<Step> {
    let (mut made, width) = (Made::default(), minilm::WIDTH);
    let words = made.embedding(numbers, minilm::WORDS, width)?;
    let places = made.embedding(numbers, minilm::PLACES, width)?;
    let kinds = made.embedding(numbers, 2, width)?;
    let layers = (0..minilm::LAYERS).map(|_| BertLayer::new(&mut made, numbers, width));
    let layers = layers.collect::<Result<Vec<_>>>()?;
    let norm = made.norm(width, minilm::EPS)?;
    let tokens = integers(numbers, (batch, minilm::TOKENS), minilm::WORDS)?;
    let infer = move || -> Result<f32> {
        let positions = Tensor::arange(0, minilm::TOKENS as u32, &CPU)?;
        let x = (words.forward(&tokens)? + kinds.forward(&tokens.zeros_like()?)?)?;
        let mut x = norm.forward(&x.broadcast_add(&places.forward(&positions)?)?)?;
        for layer in &layers {
            x = layer.forward(&x)?;
        }
        let mean = (x.sum(1)? / minilm::TOKENS as f64)?;
        let embeddings = mean.broadcast_div(&mean.sqr()?.sum_keepdim(1)?.sqrt()?)?;
        embeddings.i((0, 0))?.to_scalar()
    };
    Ok(Box::new(move || Ok(infer()?)))
}

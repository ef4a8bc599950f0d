//! The programs in burn, on its back end `flex`.

use crate::workload::{
    ADAMW, CLASSES, MLP, MLP_BATCH, MLP_RATE, Numbers, Row, Step, cnn, gpt, lstm, minilm,
};
use burn::module::{Module, Param};
use burn::nn::conv::{Conv2d, Conv2dConfig};
use burn::nn::loss::CrossEntropyLossConfig;
use burn::nn::pool::{MaxPool2d, MaxPool2dConfig};
use burn::nn::{Embedding, GateController, LayerNorm, LayerNormConfig, Linear, Lstm, LstmConfig};
use burn::optim::{AdamWConfig, GradientsParams, ModuleOptimizer, SgdConfig};
use burn::tensor::activation::{gelu, relu};
use burn::tensor::module::attention;
use burn::tensor::ops::AttentionModuleOptions;
use burn::tensor::{Device, Int, Tensor, TensorData, s};

fn param<const D: usize>(values: Vec<f32>, sizes: [usize; D], device: &Device) -> Param<Tensor<D>> {
    Param::from_data(TensorData::new(values, sizes), device)
}

fn tensor<const D: usize>(values: Vec<f32>, sizes: [usize; D], device: &Device) -> Tensor<D> {
    Tensor::from_data(TensorData::new(values, sizes), device)
}

fn integers<const D: usize>(
    numbers: &mut Numbers,
    sizes: [usize; D],
    end: usize,
    device: &Device,
) -> Tensor<D, Int> {
    let values = numbers.below(sizes.iter().product(), end);
    Tensor::from_data(TensorData::new(values, sizes), device)
}

/// Rows of `outputs` weights of `inputs`, as this library has them: (in, out).
fn transposed(weight: &[f32], inputs: usize, outputs: usize) -> Vec<f32> {
    (0..inputs).flat_map(|i| (0..outputs).map(move |o| weight[o * inputs + i])).collect()
}

fn made(weight: &[f32], bias: Vec<f32>, inputs: usize, device: &Device) -> Linear {
    let outputs = bias.len();
    Linear {
        weight: param(transposed(weight, inputs, outputs), [inputs, outputs], device),
        bias: Some(param(bias, [outputs], device)),
    }
}

fn linear(numbers: &mut Numbers, inputs: usize, outputs: usize, device: &Device) -> Linear {
    let (weight, bias) = numbers.layer(inputs * outputs, outputs, inputs);
    made(&weight, bias, inputs, device)
}

fn conv(numbers: &mut Numbers, inputs: usize, outputs: usize, device: &Device) -> Conv2d {
    let fan_in = inputs * cnn::WINDOW * cnn::WINDOW;
    let (weight, bias) = numbers.layer(outputs * fan_in, outputs, fan_in);
    let window = [cnn::WINDOW, cnn::WINDOW];
    let mut layer = Conv2dConfig::new([inputs, outputs], window).init(device);
    layer.weight = param(weight, [outputs, inputs, cnn::WINDOW, cnn::WINDOW], device);
    layer.bias = Some(param(bias, [outputs], device));
    layer
}

fn embedding(numbers: &mut Numbers, count: usize, width: usize, device: &Device) -> Embedding {
    Embedding { weight: param(numbers.floats(count * width, 0.05), [count, width], device) }
}

fn adamw() -> ModuleOptimizer {
    let (_, decay, eps) = ADAMW;
    AdamWConfig::new().with_weight_decay(decay as f32).with_epsilon(eps as f32).init()
}

/// A step of training, and its loss.
fn training<M: Module + 'static>(
    model: M,
    mut optimizer: ModuleOptimizer,
    rate: f64,
    loss: impl Fn(&M) -> Tensor<1> + 'static,
) -> Step {
    let mut held = Some(model);
    Box::new(move || {
        let model = held.take().ok_or("a step failed before")?;
        let loss = loss(&model);
        let grads = GradientsParams::from_grads(loss.backward(), &model);
        held = Some(optimizer.step(rate, model, grads));
        Ok(loss.into_scalar::<f32>())
    })
}

pub fn step(row: Row) -> Step {
    let mut numbers = Numbers(0);
    let (plain, recording) = (Device::flex(), Device::flex().autodiff());
    match row {
        Row::Mlp => mlp(&mut numbers, recording),
        Row::Cnn => digits(&mut numbers, recording),
        Row::Lstm => sequence(&mut numbers, recording),
        Row::Gpt => text(&mut numbers, recording),
        Row::MiniLm { batch } => embed(&mut numbers, batch, plain),
    }
}

#[derive(Module, Debug)]
struct Mlp {
    layers: Vec<Linear>,
}

fn mlp(numbers: &mut Numbers, device: Device) -> Step {
    let [input, first, second, classes] = MLP;
    let net = Mlp {
        layers: vec![
            linear(numbers, input, first, &device),
            linear(numbers, first, second, &device),
            linear(numbers, second, classes, &device),
        ],
    };
    let x = tensor(numbers.floats(MLP_BATCH * input, 1.0), [MLP_BATCH, input], &device);
    let y = integers(numbers, [MLP_BATCH], classes, &device);
    let cross_entropy = CrossEntropyLossConfig::new().init(&device);
    training(net, SgdConfig::new().init(), MLP_RATE, move |net: &Mlp| {
        let hidden = relu(net.layers[0].forward(x.clone()));
        let hidden = relu(net.layers[1].forward(hidden));
        cross_entropy.forward(net.layers[2].forward(hidden), y.clone())
    })
}

#[derive(Module, Debug)]
struct Digits {
    convs: Vec<Conv2d>,
    pool: MaxPool2d,
    layers: Vec<Linear>,
}

fn digits(numbers: &mut Numbers, device: Device) -> Step {
    let [image, first, second] = cnn::CHANNELS;
    let net = Digits {
        convs: vec![conv(numbers, image, first, &device), conv(numbers, first, second, &device)],
        pool: MaxPool2dConfig::new([2, 2]).init(),
        layers: vec![
            linear(numbers, cnn::FLAT, cnn::HIDDEN, &device),
            linear(numbers, cnn::HIDDEN, CLASSES, &device),
        ],
    };
    let sizes = [cnn::BATCH, image, cnn::SIDE, cnn::SIDE];
    let x = tensor(numbers.floats(sizes.iter().product(), 1.0), sizes, &device);
    let y = integers(numbers, [cnn::BATCH], CLASSES, &device);
    let cross_entropy = CrossEntropyLossConfig::new().init(&device);
    training(net, adamw(), ADAMW.0, move |net: &Digits| {
        let x = net.pool.forward(relu(net.convs[0].forward(x.clone())));
        let x = net.pool.forward(relu(net.convs[1].forward(x)));
        let hidden = relu(net.layers[0].forward(x.flatten::<2>(1, 3)));
        cross_entropy.forward(net.layers[1].forward(hidden), y.clone())
    })
}

#[derive(Module, Debug)]
struct Sequence {
    lstm: Lstm,
    head: Linear,
}

fn sequence(numbers: &mut Numbers, device: Device) -> Step {
    let (input, hidden) = (lstm::INPUT, lstm::HIDDEN);
    let (w_ih, w_hh) = numbers.layer(4 * hidden * input, 4 * hidden * hidden, hidden);
    let (b_ih, b_hh) = numbers.layer(4 * hidden, 4 * hidden, hidden);
    // The rows of the weights are input, forget, cell, output.
    let gate = |i: usize| {
        let rows =
            |weight: &[f32], width: usize| weight[i * hidden * width..][..hidden * width].to_vec();
        GateController {
            input_transform: made(&rows(&w_ih, input), rows(&b_ih, 1), input, &device),
            hidden_transform: made(&rows(&w_hh, hidden), rows(&b_hh, 1), hidden, &device),
        }
    };
    let mut layer = LstmConfig::new(input, hidden, true).init(&device);
    layer.input_gate = gate(0);
    layer.forget_gate = Some(gate(1));
    layer.cell_gate = gate(2);
    layer.output_gate = gate(3);
    let net = Sequence { lstm: layer, head: linear(numbers, hidden, CLASSES, &device) };
    let sizes = [lstm::BATCH, lstm::STEPS, input];
    let x = tensor(numbers.floats(sizes.iter().product(), 1.0), sizes, &device);
    let y = integers(numbers, [lstm::BATCH], CLASSES, &device);
    let cross_entropy = CrossEntropyLossConfig::new().init(&device);
    training(net, adamw(), ADAMW.0, move |net: &Sequence| {
        let (_, state) = net.lstm.forward(x.clone(), None);
        cross_entropy.forward(net.head.forward(state.hidden), y.clone())
    })
}

#[derive(Module, Debug)]
struct GptBlock {
    norm1: LayerNorm,
    qkv: Linear,
    out: Linear,
    norm2: LayerNorm,
    wide: Linear,
    narrow: Linear,
}

impl GptBlock {
    fn new(numbers: &mut Numbers, width: usize, device: &Device) -> Self {
        let norm = || LayerNormConfig::new(width).init(device);
        Self {
            norm1: norm(),
            qkv: linear(numbers, width, 3 * width, device),
            out: linear(numbers, width, width, device),
            norm2: norm(),
            wide: linear(numbers, width, 4 * width, device),
            narrow: linear(numbers, 4 * width, width, device),
        }
    }

    fn forward(&self, x: Tensor<3>) -> Tensor<3> {
        let [batch, length, width] = x.dims();
        let joined = self.qkv.forward(self.norm1.forward(x.clone()));
        let heads = |i: usize| {
            let part = joined.clone().slice(s![.., .., i * width..(i + 1) * width]);
            part.reshape([batch, length, gpt::HEADS, width / gpt::HEADS]).swap_dims(1, 2)
        };
        let options = AttentionModuleOptions { is_causal: true, ..Default::default() };
        let seen = attention(heads(0), heads(1), heads(2), None, None, options);
        let seen = seen.swap_dims(1, 2).reshape([batch, length, width]);
        let x = x + self.out.forward(seen);
        let wide = gelu(self.wide.forward(self.norm2.forward(x.clone())));
        x + self.narrow.forward(wide)
    }
}

#[derive(Module, Debug)]
struct Gpt {
    letters: Embedding,
    positions: Embedding,
    blocks: Vec<GptBlock>,
    norm: LayerNorm,
    logits: Linear,
}

fn text(numbers: &mut Numbers, device: Device) -> Step {
    let net = Gpt {
        letters: embedding(numbers, gpt::LETTERS, gpt::WIDTH, &device),
        positions: embedding(numbers, gpt::CONTEXT, gpt::WIDTH, &device),
        blocks: (0..gpt::LAYERS).map(|_| GptBlock::new(numbers, gpt::WIDTH, &device)).collect(),
        norm: LayerNormConfig::new(gpt::WIDTH).init(&device),
        logits: linear(numbers, gpt::WIDTH, gpt::LETTERS, &device),
    };
    let x = integers(numbers, [gpt::BATCH, gpt::CONTEXT], gpt::LETTERS, &device);
    let y = integers(numbers, [gpt::BATCH * gpt::CONTEXT], gpt::LETTERS, &device);
    let places = Tensor::<1, Int>::arange(0..gpt::CONTEXT as i64, &device).unsqueeze::<2>();
    let cross_entropy = CrossEntropyLossConfig::new().init(&device);
    training(net, adamw(), ADAMW.0, move |net: &Gpt| {
        let x = net.letters.forward(x.clone()) + net.positions.forward(places.clone());
        let x = net.blocks.iter().fold(x, |x, block| block.forward(x));
        let logits = net.logits.forward(net.norm.forward(x)).flatten::<2>(0, 1);
        cross_entropy.forward(logits, y.clone())
    })
}

#[derive(Module, Debug)]
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
    fn new(numbers: &mut Numbers, width: usize, device: &Device) -> Self {
        let norm = || LayerNormConfig::new(width).with_epsilon(minilm::EPS).init(device);
        Self {
            query: linear(numbers, width, width, device),
            key: linear(numbers, width, width, device),
            value: linear(numbers, width, width, device),
            out: linear(numbers, width, width, device),
            norm1: norm(),
            wide: linear(numbers, width, 4 * width, device),
            narrow: linear(numbers, 4 * width, width, device),
            norm2: norm(),
        }
    }

    fn forward(&self, x: Tensor<3>) -> Tensor<3> {
        let [batch, length, width] = x.dims();
        let heads = |layer: &Linear| {
            let joined = layer.forward(x.clone());
            joined.reshape([batch, length, minilm::HEADS, width / minilm::HEADS]).swap_dims(1, 2)
        };
        let (q, k, v) = (heads(&self.query), heads(&self.key), heads(&self.value));
        let seen = attention(q, k, v, None, None, AttentionModuleOptions::default());
        let seen = seen.swap_dims(1, 2).reshape([batch, length, width]);
        let x = self.norm1.forward(self.out.forward(seen) + x);
        let wide = gelu(self.wide.forward(x.clone()));
        self.norm2.forward(self.narrow.forward(wide) + x)
    }
}

fn embed(numbers: &mut Numbers, batch: usize, device: Device) -> Step {
    let width = minilm::WIDTH;
    let words = embedding(numbers, minilm::WORDS, width, &device);
    let places = embedding(numbers, minilm::PLACES, width, &device);
    let kinds = embedding(numbers, 2, width, &device);
    let layers: Vec<_> =
        (0..minilm::LAYERS).map(|_| BertLayer::new(numbers, width, &device)).collect();
    let norm = LayerNormConfig::new(width).with_epsilon(minilm::EPS).init(&device);
    let tokens = integers(numbers, [batch, minilm::TOKENS], minilm::WORDS, &device);
    Box::new(move || {
        let positions = Tensor::<1, Int>::arange(0..minilm::TOKENS as i64, &device);
        let x = words.forward(tokens.clone())
            + kinds.forward(tokens.zeros_like())
            + places.forward(positions.unsqueeze::<2>());
        let x = layers.iter().fold(norm.forward(x), |x, layer| layer.forward(x));
        let mean = x.mean_dim(1).squeeze_dim::<2>(1);
        let length = mean.clone().powi_scalar(2).sum_dim(1).sqrt();
        Ok((mean / length).slice(s![0, 0]).into_scalar::<f32>())
    })
}

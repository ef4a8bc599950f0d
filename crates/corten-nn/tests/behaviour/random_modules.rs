//! Modules with random settings beside PyTorch's: outputs, gradients and buffers, for dtypes, strides, empty and
//! unbatched inputs.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]
#![allow(clippy::too_many_lines, reason = "a table of modules")]

use corten::io::safetensors::Opened;
use corten::nn::*;
use corten::prelude::*;
use std::collections::HashMap;
use std::str::FromStr;

const GOLDEN: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/goldens/random_modules.safetensors");

/// The settings of a case, by name.
struct Settings(HashMap<String, String>);

impl Settings {
    fn read(words: &str) -> Self {
        let pairs = words.split(' ').filter_map(|word| word.split_once('='));
        Self(pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect())
    }

    fn text(&self, name: &str) -> &str {
        self.0.get(name).map_or("", String::as_str)
    }

    fn get<T: FromStr>(&self, name: &str) -> T
    where
        T::Err: std::fmt::Debug,
    {
        self.text(name).parse().unwrap()
    }

    fn int(&self, name: &str) -> i64 {
        self.get(name)
    }

    fn is(&self, name: &str) -> bool {
        self.text(name) == "1"
    }

    fn option<T: FromStr>(&self, name: &str) -> Option<T> {
        self.text(name).parse().ok()
    }

    fn list<T: FromStr>(&self, name: &str) -> Vec<T>
    where
        T::Err: std::fmt::Debug,
    {
        self.text(name).split(',').map(|one| one.parse().unwrap()).collect()
    }

    fn array<const N: usize>(&self, name: &str) -> [i64; N] {
        self.list(name).try_into().unwrap()
    }

    fn reduction(&self) -> Reduction {
        match self.text("reduction") {
            "none" => Reduction::None,
            "sum" => Reduction::Sum,
            _ => Reduction::Mean,
        }
    }
}

type Call<M> = dyn Fn(&M, &[Tensor]) -> Result<Vec<Tensor>>;

/// A module behind what the test does with it.
struct Case<M> {
    module: M,
    call: Box<Call<M>>,
}

trait Run {
    fn module(&self) -> &dyn Module;
    fn call(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>>;
}

impl<M: Module> Run for Case<M> {
    fn module(&self) -> &dyn Module {
        &self.module
    }

    fn call(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        (self.call)(&self.module, inputs)
    }
}

type Made = Result<Box<dyn Run>>;

fn case<M: Module>(
    module: M,
    call: impl Fn(&M, &[Tensor]) -> Result<Vec<Tensor>> + 'static,
) -> Made {
    Ok(Box::new(Case { module, call: Box::new(call) }))
}

fn layer<M: Forward>(module: M) -> Made {
    case(module, |module, inputs| Ok(vec![module.forward(&inputs[0])?]))
}

macro_rules! by_rank {
    ($s:expr, $make:ident: $one:ident $two:ident $three:ident) => {
        match $s.int("n") {
            1 => $make!($one, 1),
            2 => $make!($two, 2),
            _ => $make!($three, 3),
        }
    };
}

fn convolution(s: &Settings) -> Made {
    macro_rules! make {
        ($kind:ident, $n:literal) => {{
            let padding = match s.text("padding") {
                "same" => ConvPadding::Same,
                "valid" => ConvPadding::Valid,
                width => width.parse::<i64>().unwrap().into(),
            };
            let padding_mode = match s.text("mode") {
                "reflect" => PaddingMode::Reflect,
                "replicate" => PaddingMode::Replicate,
                "circular" => PaddingMode::Circular,
                _ => PaddingMode::Zeros,
            };
            let options = ConvOptions::<$n> {
                stride: s.int("stride").into(),
                padding,
                dilation: s.int("dilation").into(),
                groups: s.get("groups"),
                bias: s.is("bias"),
                padding_mode,
            };
            layer($kind::with(s.get("i"), s.get("o"), s.int("kernel"), options)?)
        }};
    }
    by_rank!(s, make: Conv1d Conv2d Conv3d)
}

fn transposed(s: &Settings) -> Made {
    macro_rules! make {
        ($kind:ident, $n:literal) => {{
            let options = ConvTransposeOptions::<$n> {
                stride: s.int("stride").into(),
                padding: s.int("padding").into(),
                output_padding: s.int("extra").into(),
                groups: s.get("groups"),
                bias: s.is("bias"),
                dilation: s.int("dilation").into(),
            };
            layer($kind::with(s.get("i"), s.get("o"), s.int("kernel"), options)?)
        }};
    }
    by_rank!(s, make: ConvTranspose1d ConvTranspose2d ConvTranspose3d)
}

fn pool(kind: &str, s: &Settings) -> Made {
    let (stride, padding) = (s.int("stride"), s.int("padding"));
    let (kernel, ceil_mode) = (s.int("kernel"), s.is("ceil"));
    macro_rules! max {
        ($kind:ident, $n:literal) => {{
            let options = MaxPoolOptions::<$n> {
                stride: Some(stride.into()),
                padding: padding.into(),
                dilation: s.int("dilation").into(),
                ceil_mode,
            };
            case($kind::with(kernel, options), |pool, inputs| {
                let (values, indices) = pool.forward_with_indices(&inputs[0])?;
                Ok(vec![values, indices])
            })
        }};
    }
    macro_rules! avg {
        ($kind:ident, $n:literal) => {{
            let divisor_override = s.option("divisor").filter(|divisor| *divisor != 0);
            let options = AvgPoolOptions::<$n> {
                stride: Some(stride.into()),
                padding: padding.into(),
                ceil_mode,
                count_include_pad: s.is("counted"),
                divisor_override,
            };
            layer($kind::with(kernel, options))
        }};
    }
    macro_rules! lp {
        ($kind:ident, $n:literal) => {{
            let options = LpPoolOptions::<$n> { stride: Some(stride.into()), ceil_mode };
            layer($kind::with(s.get("p"), kernel, options))
        }};
    }
    macro_rules! adaptive {
        ($kind:ident, $n:literal) => {
            layer($kind::new(s.int("size")))
        };
    }
    match kind {
        "max" => by_rank!(s, max: MaxPool1d MaxPool2d MaxPool3d),
        "avg" => by_rank!(s, avg: AvgPool1d AvgPool2d AvgPool3d),
        "lp" => by_rank!(s, lp: LpPool1d LpPool2d LpPool3d),
        "adaptive_avg" => {
            by_rank!(s, adaptive: AdaptiveAvgPool1d AdaptiveAvgPool2d AdaptiveAvgPool3d)
        }
        _ => by_rank!(s, adaptive: AdaptiveMaxPool1d AdaptiveMaxPool2d AdaptiveMaxPool3d),
    }
}

fn norm(kind: &str, s: &Settings, input: &Tensor) -> Made {
    let (affine, track_running_stats, bias) = (s.is("affine"), s.is("tracked"), s.is("bias"));
    let (channels, eps) = (s.int("channels"), 1e-4);
    macro_rules! batch {
        ($kind:ident, $n:literal) => {{
            let momentum = s.option("momentum");
            let options = BatchNormOptions { eps, momentum, affine, track_running_stats, bias };
            layer($kind::with(channels, options)?)
        }};
    }
    macro_rules! instance {
        ($kind:ident, $n:literal) => {{
            let momentum = 0.2;
            let options = InstanceNormOptions { eps, momentum, affine, track_running_stats, bias };
            layer($kind::with(channels, options)?)
        }};
    }
    let shape = || {
        let sizes = input.sizes();
        sizes[sizes.len() - s.get::<usize>("dims")..].to_vec()
    };
    match kind {
        "batch" if s.int("n") == 0 => batch!(BatchNorm1d, 1),
        "batch" => by_rank!(s, batch: BatchNorm1d BatchNorm2d BatchNorm3d),
        "instance" => by_rank!(s, instance: InstanceNorm1d InstanceNorm2d InstanceNorm3d),
        "group" => {
            let options = GroupNormOptions { eps, affine, bias };
            layer(GroupNorm::with(s.get("groups"), channels, options)?)
        }
        "layer" => {
            let options = LayerNormOptions { eps, elementwise_affine: affine, bias };
            layer(LayerNorm::with(&shape(), options)?)
        }
        "rms" => {
            let options = RmsNormOptions { eps: s.option("eps"), elementwise_affine: affine };
            layer(RmsNorm::with(&shape(), options)?)
        }
        _ => {
            let options = LocalResponseNormOptions { alpha: 0.3, beta: 0.6, k: 1.5 };
            layer(LocalResponseNorm::with(s.get("size"), options))
        }
    }
}

fn recurrent(kind: &str, s: &Settings) -> Made {
    let options = RnnOptions {
        num_layers: s.get("layers"),
        bias: s.is("bias"),
        batch_first: s.is("first"),
        dropout: 0.0,
        bidirectional: s.is("both"),
        proj_size: s.get("proj"),
    };
    let (inputs, hidden, first) = (s.int("i"), s.int("h"), s.is("first"));
    let lengths: Option<Vec<i64>> = s.0.contains_key("lengths").then(|| s.list("lengths"));
    let pack = move |x: &Tensor| -> Result<Option<PackedSequence>> {
        let packed = lengths.as_ref().map(|lengths| pack_padded_sequence(x, lengths, first, false));
        packed.transpose()
    };
    let unpack =
        move |y: &PackedSequence| pad_packed_sequence(y, first, 0.0, None).map(|padded| padded.0);
    macro_rules! one_state {
        ($module:expr) => {
            case($module, move |rnn, xs| {
                let state = xs.get(1);
                Ok(match pack(&xs[0])? {
                    Some(packed) => {
                        let (y, h) = rnn.forward_packed(&packed, state)?;
                        vec![unpack(&y)?, h]
                    }
                    None => {
                        let (y, h) = rnn.forward(&xs[0], state)?;
                        vec![y, h]
                    }
                })
            })
        };
    }
    match kind {
        "LSTM" => case(Lstm::with(inputs, hidden, options)?, move |rnn, xs| {
            let state = xs.get(1).map(|h| (h, &xs[2]));
            Ok(match pack(&xs[0])? {
                Some(packed) => {
                    let (y, (h, c)) = rnn.forward_packed(&packed, state)?;
                    vec![unpack(&y)?, h, c]
                }
                None => {
                    let (y, (h, c)) = rnn.forward(&xs[0], state)?;
                    vec![y, h, c]
                }
            })
        }),
        "GRU" => one_state!(Gru::with(inputs, hidden, options)?),
        _ => {
            let kind = if s.is("relu") { Nonlinearity::Relu } else { Nonlinearity::Tanh };
            one_state!(Rnn::with(inputs, hidden, kind, options)?)
        }
    }
}

fn cell(kind: &str, s: &Settings) -> Made {
    let options = RnnCellOptions { bias: s.is("bias"), ..Default::default() };
    let (inputs, hidden) = (s.int("i"), s.int("h"));
    match kind {
        "LSTM" => case(LstmCell::with(inputs, hidden, options)?, |cell, xs| {
            let (h, c) = cell.forward(&xs[0], xs.get(1).map(|h| (h, &xs[2])))?;
            Ok(vec![h, c])
        }),
        "GRU" => case(GruCell::with(inputs, hidden, options)?, |cell, xs| {
            Ok(vec![cell.forward(&xs[0], xs.get(1))?])
        }),
        _ => case(RnnCell::with(inputs, hidden, options)?, |cell, xs| {
            Ok(vec![cell.forward(&xs[0], xs.get(1))?])
        }),
    }
}

fn attention(s: &Settings) -> Made {
    let options = MultiheadAttentionOptions {
        dropout: 0.0,
        bias: s.is("bias"),
        add_bias_kv: s.is("bias_kv"),
        add_zero_attn: s.is("zero"),
        kdim: Some(s.get("kdim")),
        vdim: Some(s.get("vdim")),
        batch_first: s.is("first"),
    };
    let (itself, has_mask, has_padding) =
        (s.is("itself"), s.text("mask") != "none", s.is("padding"));
    let weights = match s.text("weights") {
        "none" => AttentionWeights::None,
        "average" => AttentionWeights::Average,
        _ => AttentionWeights::PerHead,
    };
    case(MultiheadAttention::with(s.get("width"), s.get("heads"), options)?, move |module, xs| {
        let (q, k, v, rest) = match itself {
            true => (&xs[0], &xs[0], &xs[0], &xs[1..]),
            false => (&xs[0], &xs[1], &xs[2], &xs[3..]),
        };
        let mut rest = rest.iter();
        let mask = if has_mask { rest.next() } else { None };
        let key_padding = if has_padding { rest.next() } else { None };
        let masks = AttentionMasks { mask, key_padding, is_causal: false };
        let (output, seen) = module.forward(q, k, v, masks, weights)?;
        Ok(std::iter::once(output).chain(seen).collect())
    })
}

fn transformer(kind: &str, s: &Settings) -> Made {
    let activation =
        if s.is("gelu") { FeedForwardActivation::Gelu } else { FeedForwardActivation::Relu };
    let options = TransformerLayerOptions {
        dim_feedforward: s.get("inner"),
        dropout: 0.0,
        activation,
        batch_first: s.is("first"),
        norm_first: s.is("before"),
        bias: s.is("bias"),
        ..Default::default()
    };
    let (width, heads) = (s.int("width"), s.int("heads"));
    match kind {
        "encoder_layer" => layer(TransformerEncoderLayer::with(width, heads, options)?),
        _ => case(TransformerDecoderLayer::with(width, heads, options)?, |layer, xs| {
            let none = AttentionMasks::default();
            Ok(vec![layer.forward(&xs[0], &xs[1], none, none)?])
        }),
    }
}

fn table(kind: &str, s: &Settings) -> Made {
    let (rows, width, padding_idx) = (s.int("rows"), s.int("width"), s.option("padding"));
    if kind == "embedding" {
        let options = EmbeddingOptions {
            padding_idx,
            max_norm: s.option("norm"),
            norm_type: 1.5,
            scale_grad_by_freq: s.is("by_count"),
            sparse: false,
        };
        return layer(Embedding::with(rows, width, options)?);
    }
    let mode = match s.text("mode") {
        "sum" => BagMode::Sum,
        "mean" => BagMode::Mean,
        _ => BagMode::Max,
    };
    let include_last_offset = s.is("last");
    let options =
        EmbeddingBagOptions { mode, include_last_offset, padding_idx, ..Default::default() };
    let (flat, weighted) = (s.is("flat"), s.is("weighted"));
    case(EmbeddingBag::with(rows, width, options)?, move |bag, xs| {
        let mut rest = xs[1..].iter();
        let offsets = if flat { rest.next() } else { None };
        let weights = if weighted { rest.next() } else { None };
        Ok(vec![bag.forward_bags(&xs[0], offsets, weights)?])
    })
}

macro_rules! two {
    ($module:expr) => {
        case($module, |module, xs| Ok(vec![module.forward(&xs[0], &xs[1])?]))
    };
}

fn loss(kind: &str, s: &Settings, inputs: &[Tensor]) -> Made {
    let reduction = s.reduction();
    match kind {
        "cross_entropy" => {
            let weight = s.is("weighted").then(|| inputs[2].clone());
            let (ignore_index, label_smoothing) = (s.get("ignored"), s.get("smoothing"));
            two!(CrossEntropyLoss::with(CrossEntropyLossOptions {
                reduction,
                ignore_index,
                label_smoothing,
                weight
            }))
        }
        "mse" => two!(MseLoss::with(MseLossOptions { reduction })),
        "l1" => two!(L1Loss::with(L1LossOptions { reduction })),
        "smooth_l1" => {
            two!(SmoothL1Loss::with(SmoothL1LossOptions { reduction, beta: s.get("beta") }))
        }
        "huber" => two!(HuberLoss::with(HuberLossOptions { reduction, delta: s.get("delta") })),
        "kl" => {
            let (log_target, batchmean) = (s.is("log_target"), false);
            two!(KlDivLoss::with(KlDivLossOptions { reduction, log_target, batchmean }))
        }
        "poisson" => {
            let (log_input, full, eps) = (s.is("log_input"), s.is("full"), 1e-8);
            two!(PoissonNllLoss::with(PoissonNllLossOptions { reduction, log_input, full, eps }))
        }
        "soft_margin" => two!(SoftMarginLoss::with(SoftMarginLossOptions { reduction })),
        "multilabel_soft_margin" => {
            let weight = None;
            two!(MultiLabelSoftMarginLoss::with(MultiLabelSoftMarginLossOptions {
                reduction,
                weight
            }))
        }
        "bce_logits" => two!(BceWithLogitsLoss::with(BceWithLogitsLossOptions {
            reduction,
            ..Default::default()
        })),
        _ => {
            let margin = s.get("margin");
            two!(HingeEmbeddingLoss::with(HingeEmbeddingLossOptions { reduction, margin }))
        }
    }
}

fn upsample(s: &Settings) -> Made {
    let mode = match s.text("mode") {
        "nearest" => Interpolation::Nearest,
        "nearest-exact" => Interpolation::NearestExact,
        "linear" => Interpolation::Linear,
        "bilinear" => Interpolation::Bilinear,
        "bicubic" => Interpolation::Bicubic,
        "trilinear" => Interpolation::Trilinear,
        _ => Interpolation::Area,
    };
    let resize = match s.0.contains_key("factors") {
        true => Resize::scales(&s.list("factors")),
        false => Resize::sizes(&s.list("size")),
    };
    let (align_corners, recompute_scale_factor) = (s.is("align"), s.is("again"));
    layer(Upsample::with(resize, UpsampleOptions { mode, align_corners, recompute_scale_factor }))
}

fn padding(s: &Settings) -> Made {
    macro_rules! make {
        ($one:ident $two:ident $three:ident) => {
            match s.int("n") {
                1 => layer($one::new(s.array::<2>("widths"))),
                2 => layer($two::new(s.array::<4>("widths"))),
                _ => layer($three::new(s.array::<6>("widths"))),
            }
        };
    }
    match s.text("mode") {
        "Zero" => make!(ZeroPad1d ZeroPad2d ZeroPad3d),
        "Reflection" => make!(ReflectionPad1d ReflectionPad2d ReflectionPad3d),
        "Replication" => make!(ReplicationPad1d ReplicationPad2d ReplicationPad3d),
        _ => make!(CircularPad1d CircularPad2d CircularPad3d),
    }
}

fn make(name: &str, s: &Settings, inputs: &[Tensor]) -> Made {
    let (family, kind) = name.split_once('_').unwrap_or((name, ""));
    match (family, kind) {
        ("conv", "") => convolution(s),
        ("conv", _) => transposed(s),
        ("pool", kind) => pool(kind, s),
        ("norm", kind) => norm(kind, s, &inputs[0]),
        ("rnn", kind) => recurrent(kind, s),
        ("cell", kind) => cell(kind, s),
        ("attention", _) => attention(s),
        ("encoder" | "decoder", _) => transformer(name, s),
        ("embedding", _) => table(name, s),
        ("cross", _) => loss(name, s, inputs),
        ("loss", kind) => loss(kind, s, inputs),
        ("upsample", _) => upsample(s),
        ("pad", _) => padding(s),
        ("linear", _) => {
            layer(Linear::with(s.get("i"), s.get("o"), LinearOptions { bias: s.is("bias") })?)
        }
        ("bilinear", _) => {
            let options = LinearOptions { bias: s.is("bias") };
            two!(Bilinear::with(s.get("i"), s.get("j"), s.get("o"), options)?)
        }
        ("unfold", _) => {
            let options = FoldOptions {
                dilation: s.int("dilation").into(),
                padding: s.int("padding").into(),
                stride: s.int("stride").into(),
            };
            layer(Unfold::with(s.int("kernel"), options))
        }
        _ => panic!("{name}"),
    }
}

/// The greatest distance of two tensors beside the tolerance of their dtype; nothing where they are close.
fn apart(found: &Tensor, expected: &Tensor) -> Result<Option<String>> {
    let (own, given) = (found.sizes().to_vec(), expected.sizes().to_vec());
    if own != given || found.dtype() != expected.dtype() {
        let (dtype, wanted) = (found.dtype(), expected.dtype());
        return Ok(Some(format!("{own:?} of {dtype:?} where PyTorch has {given:?} of {wanted:?}")));
    }
    let tolerance = if found.dtype() == DType::Float64 { 1e-10 } else { 3e-5 };
    let pairs = found.to_vec::<f64>()?.into_iter().zip(expected.to_vec::<f64>()?);
    let worst = pairs.map(|(a, b)| match a == b || (a.is_nan() && b.is_nan()) {
        true => 0.0,
        false => (a - b).abs() / (1.0 + b.abs()),
    });
    // A distance that is no number is one too.
    let worst = worst.fold(0.0, |most: f64, one| if one <= most { most } else { one });
    Ok((worst.is_nan() || worst > tolerance).then(|| format!("{worst:e} apart")))
}

struct Golden {
    file: Opened,
    number: usize,
}

impl Golden {
    fn get(&self, name: &str) -> Option<Tensor> {
        self.file.tensor(&format!("{}.{name}", self.number)).ok()
    }

    fn numbered(&self, kind: &str) -> Vec<Tensor> {
        (0..).map_while(|place| self.get(&format!("{kind}.{place}"))).collect()
    }
}

/// The sum of the outputs times sines, which PyTorch's gradients are of.
fn total(outputs: &[Tensor]) -> Result<Option<Tensor>> {
    let mut sum: Option<Tensor> = None;
    for output in outputs.iter().filter(|y| y.dtype().is_floating_point() && y.requires_grad()) {
        let places = build::arange(output.numel()).dtype(DType::Float64).call()?;
        let sines = (places + 1.0)?.sin()?.to(output.dtype())?.reshape(&output.sizes())?;
        let own = (output * sines)?.sum()?;
        sum = Some(match sum {
            Some(sum) => (sum + own)?,
            None => own,
        });
    }
    Ok(sum)
}

/// What differs; `count` grows by the comparisons.
fn compare(golden: &Golden, line: &str, count: &mut usize) -> Result<Vec<String>> {
    let (name, words) = line.split_once(' ').unwrap();
    let settings = Settings::read(words);
    let (leaves, swapped) = (settings.get::<usize>("leaves"), settings.is("swapped"));
    let mut inputs = golden.numbered("in");
    for (place, input) in inputs.iter_mut().enumerate() {
        let leaf = input.is_floating_point_dtype() && place < leaves;
        if swapped && place == 0 {
            *input = input.transpose(-1, -2)?;
        }
        *input = input.detach()?.requires_grad_(leaf)?;
    }
    let made = make(name, &settings, &inputs)?;
    let module = made.module();
    if settings.text("dtype") == "float64" {
        module.double()?;
    }
    let names: Vec<String> = module.state_dict()?.into_iter().map(|(name, _)| name).collect();
    let state = names.iter().map(|name| {
        let tensor = golden.get(&format!("state.{name}"));
        (name.clone(), tensor.unwrap_or_else(|| panic!("{line}: PyTorch has no {name}")))
    });
    module.load_state_dict(state.collect::<Vec<_>>(), true)?;
    module.set_training(settings.is("training"));
    let outputs = made.call(&inputs)?;
    let mut differences = Vec::new();
    let mut check = |what: String, found: Option<Tensor>, expected: Option<Tensor>| -> Result<()> {
        *count += 1;
        let difference = match (found, expected) {
            (Some(found), Some(expected)) => apart(&found.detach()?, &expected)?,
            (None, None) => None,
            (found, _) => Some(format!("is there: {}", found.is_some())),
        };
        differences.extend(difference.map(|difference| format!("{line}: {what}: {difference}")));
        Ok(())
    };
    let expected = golden.numbered("out");
    for place in 0..outputs.len().max(expected.len()) {
        let found = outputs.get(place).cloned();
        check(format!("output {place}"), found, expected.get(place).cloned())?;
    }
    if let Some(total) = total(&outputs)? {
        total.backward()?;
    }
    for (place, input) in inputs.iter().enumerate() {
        check(format!("input {place}"), input.grad(), golden.get(&format!("grad.in.{place}")))?;
    }
    for (name, parameter) in module.named_parameters() {
        check(name.clone(), parameter.grad(), golden.get(&format!("grad.{name}")))?;
    }
    for (name, buffer) in module.named_buffers() {
        let before = golden.get(&format!("state.{name}"));
        check(name.clone(), Some(buffer), golden.get(&format!("after.{name}")).or(before))?;
    }
    Ok(differences)
}

trait IsFloating {
    fn is_floating_point_dtype(&self) -> bool;
}

impl IsFloating for Tensor {
    fn is_floating_point_dtype(&self) -> bool {
        self.dtype().is_floating_point()
    }
}

#[test]
fn modules_with_random_settings_equal_pytorch() {
    let file = Opened::new(GOLDEN).unwrap();
    let mut lines: Vec<(String, String)> =
        file.metadata().cloned().unwrap_or_default().into_iter().collect();
    lines.sort();
    assert!(lines.len() > 300);
    let mut golden = Golden { file, number: 0 };
    let (mut differences, mut count) = (Vec::new(), 0);
    for (number, (_, line)) in lines.iter().enumerate() {
        golden.number = number;
        match compare(&golden, line, &mut count) {
            Ok(found) => differences.extend(found),
            Err(error) => differences.push(format!("{line}: {}", error.message())),
        }
    }
    assert!(count > 1500, "{count}");
    assert!(differences.is_empty(), "{}\n{}", differences.len(), differences.join("\n"));
}

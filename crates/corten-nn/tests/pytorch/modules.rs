//! Modules beside PyTorch's of the same seed: what they print, state dicts, first numbers, outputs.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]
#![allow(clippy::too_many_lines, clippy::needless_update, reason = "tables of modules")]

use crate::common::*;
use corten::nn::*;
use corten::prelude::*;

fn one<M: Forward>(input: Tensor) -> impl FnOnce(&M) -> Result<Vec<Tensor>> {
    move |module| Ok(vec![module.forward(&input)?])
}

/// One output in training and one in evaluation.
fn both<M: Forward>(input: Tensor) -> impl FnOnce(&M) -> Result<Vec<Tensor>> {
    move |module| {
        let first = module.forward(&input)?;
        module.eval();
        Ok(vec![first, module.forward(&input)?])
    }
}

fn is_recurrent(name: &str) -> bool {
    ["RNN", "GRU", "LSTM"].iter().any(|kind| name.starts_with(kind))
}

fn is_loss(name: &str) -> bool {
    name.contains("Loss") || ["CosineSimilarity", "PairwiseDistance"].contains(&name)
}

fn is_parametrized(name: &str) -> bool {
    name.starts_with("WeightNorm") || name.starts_with("SpectralNorm")
}

fn is_large(name: &str) -> bool {
    [
        "init",
        "Embedding",
        "Multihead",
        "Transformer",
        "Sequential",
        "ModuleList",
        "ModuleDict",
        "Parameter",
    ]
    .iter()
    .any(|kind| name.starts_with(kind))
}

#[test]
fn modules_of_one_tensor_equal_pytorch() {
    let mut goldens = Goldens::read();
    macro_rules! simple {
        ($($name:literal $make:expr;)+) => {$(
            goldens.case($name, || Ok($make), one(x(&[2, 3, 4])));
        )+};
    }
    simple! {
        "Identity" Identity; "ReLU" Relu; "ReLU6" Relu6; "SELU" Selu; "SiLU" Silu; "Mish" Mish;
        "Hardswish" Hardswish; "Hardsigmoid" Hardsigmoid; "Sigmoid" Sigmoid;
        "LogSigmoid" LogSigmoid; "Tanh" Tanh; "Tanhshrink" Tanhshrink; "Softsign" Softsign;
        "GELU" Gelu::new(); "LeakyReLU" LeakyRelu::default(); "ELU" Elu::default();
        "CELU" Celu::default(); "Hardtanh" Hardtanh::default(); "Hardshrink" Hardshrink::default();
        "Softshrink" Softshrink::default(); "Softplus" Softplus::default(); "GLU" Glu::default();
        "RReLU" RRelu::default(); "PReLU" PRelu::new()?; "Dropout" Dropout::default();
        "AlphaDropout" AlphaDropout::default(); "FeatureAlphaDropout" FeatureAlphaDropout::default();
        "Flatten" Flatten::new();
    }
    goldens.case("GELU tanh", || Ok(Gelu::tanh()), one(x(&[2, 3])));
    goldens.case("Threshold", || Ok(Threshold::new(0.1, 20.0)), one(x(&[2, 3])));
    goldens.case("Softmax", || Ok(Softmax(1)), one(x(&[2, 3])));
    goldens.case("Softmin", || Ok(Softmin(1)), one(x(&[2, 3])));
    goldens.case("LogSoftmax", || Ok(LogSoftmax(1)), one(x(&[2, 3])));
    goldens.case("Softmax2d", || Ok(Softmax2d), one(x(&[2, 3, 2, 2])));
    let channels = PReluOptions { num_parameters: 3, init: 0.1 };
    goldens.case("PReLU channels", || PRelu::with(channels), one(x(&[2, 3, 4])));
    goldens.case("Dropout1d", || Dropout1d::new(0.5), one(x(&[2, 4, 5])));
    goldens.case("Dropout2d", || Dropout2d::new(0.5), one(x(&[2, 4, 5, 6])));
    goldens.case("Dropout3d", || Dropout3d::new(0.5), one(x(&[2, 4, 5, 6, 7])));
    goldens.case("Linear", || Linear::new(4, 3), one(x(&[2, 4])));
    goldens.case("Linear bare", || Linear::with_bias(4, 3, false), one(x(&[2, 4])));
    goldens.case("LazyLinear", || Ok(LazyLinear::new(3)), one(x(&[2, 4])));
    goldens.case(
        "Bilinear",
        || Bilinear::new(4, 3, 5),
        |m| Ok(vec![m.forward(&x(&[2, 4]), &shifted(&[2, 3], 1.0))?]),
    );
    goldens.case("Unflatten", || Ok(Unflatten::new(1, &[2, 3])), one(x(&[2, 6])));
    let windows = FoldOptions { padding: 1.into(), stride: 2.into(), ..Default::default() };
    goldens.case("Unfold", || Ok(Unfold::with([2, 3], windows)), one(x(&[1, 2, 4, 5])));
    goldens.case("Fold", || Ok(Fold::new([4, 5], [2, 2])), one(x(&[1, 8, 12])));
    goldens.case("PixelShuffle", || Ok(PixelShuffle::new(2)), one(x(&[1, 8, 2, 3])));
    goldens.case("PixelUnshuffle", || Ok(PixelUnshuffle::new(2)), one(x(&[1, 2, 4, 6])));
    goldens.case("ChannelShuffle", || Ok(ChannelShuffle::new(2)), one(x(&[1, 4, 2, 3])));
    upsampling(&mut goldens);
    norms(&mut goldens);
    goldens.finish(|name| {
        let is_other =
            is_recurrent(name) || is_loss(name) || is_large(name) || is_parametrized(name);
        !is_other && !name.contains(['1', '2', '3'])
    });
}

fn upsampling(goldens: &mut Goldens) {
    let up = |resize, mode, align_corners| {
        let options = UpsampleOptions { mode, align_corners, ..Default::default() };
        move || Ok(Upsample::with(resize, options))
    };
    use Interpolation as I;
    let image = || x(&[1, 2, 3, 4]);
    goldens.case("Upsample", up(Resize::scale(2.0), I::Nearest, false), one(image()));
    goldens.case("Upsample sizes", up(Resize::sizes(&[5, 7]), I::Bilinear, true), one(image()));
    goldens.case("Upsample linear", up(Resize::scale(1.5), I::Linear, false), one(x(&[1, 2, 4])));
    let volume = x(&[1, 2, 3, 2, 3]);
    goldens.case("Upsample trilinear", up(Resize::size(4), I::Trilinear, false), one(volume));
    let cubic = up(Resize::scales(&[2.0, 1.5]), I::Bicubic, false);
    goldens.case("Upsample bicubic", cubic, one(image()));
    goldens.case("Upsample exact", up(Resize::size(5), I::NearestExact, false), one(image()));
    goldens.case("Upsample area", up(Resize::size(2), I::Area, false), one(x(&[1, 2, 4, 6])));
    let nearest = || Ok(UpsamplingNearest2d::new(Resize::scale(2.0)));
    goldens.case("UpsamplingNearest2d", nearest, one(image()));
    let bilinear = || Ok(UpsamplingBilinear2d::new(Resize::sizes(&[5, 5])));
    goldens.case("UpsamplingBilinear2d", bilinear, one(image()));
}

fn norms(goldens: &mut Goldens) {
    goldens.case("LayerNorm", || LayerNorm::new(&[3, 4]), one(x(&[2, 3, 4])));
    let options = LayerNormOptions { eps: 1e-6, bias: false, ..Default::default() };
    goldens.case("LayerNorm options", || LayerNorm::with(&[4], options), one(x(&[2, 3, 4])));
    goldens.case("RMSNorm", || RmsNorm::new(&[4]), one(x(&[2, 3, 4])));
    let options = RmsNormOptions { eps: Some(1e-6), elementwise_affine: false };
    goldens.case("RMSNorm options", || RmsNorm::with(&[3, 4], options), one(x(&[2, 3, 4])));
    goldens.case("GroupNorm", || GroupNorm::new(2, 4), one(x(&[2, 4, 3])));
    let options = GroupNormOptions { affine: false, ..Default::default() };
    goldens.case("GroupNorm options", || GroupNorm::with(2, 4, options), one(x(&[2, 4, 3])));
    let options = LocalResponseNormOptions { alpha: 0.1, ..Default::default() };
    let response = || Ok(LocalResponseNorm::with(3, options));
    goldens.case("LocalResponseNorm", response, one(x(&[2, 4, 3, 3])));
    goldens.case("CrossMapLRN2d", || Ok(CrossMapLrn2d::new(2)), one(x(&[2, 4, 3, 3])));
}

/// All modules that exist in one to three dimensions.
macro_rules! dimensional {
    ($goldens:ident, $n:literal, $shape:expr, $widths:expr, $ones:expr;
     $conv:ident $transposed:ident $lazy_conv:ident $lazy_transposed:ident
     $max:ident $avg:ident $ada_max:ident $ada_avg:ident $lp:ident $unpool:ident
     $zero:ident $reflection:ident $replication:ident $circular:ident $constant:ident
     $batch:ident $instance:ident $lazy_batch:ident $lazy_instance:ident) => {{
        let shape: &[i64] = &$shape;
        let name = |text: &str| text.replace('#', &format!("{}d", $n));
        let goldens = &mut $goldens;
        goldens.case(&name("Conv#"), || $conv::new(4, 6, 3), one(x(shape)));
        let options = ConvOptions {
            stride: 2.into(),
            padding: 1.into(),
            dilation: 2.into(),
            groups: 2,
            bias: false,
            ..Default::default()
        };
        goldens.case(&name("Conv# options"), || $conv::with(4, 6, 3, options), one(x(shape)));
        let padding = ConvPadding::Same;
        let options = ConvOptions { padding, dilation: 3.into(), ..Default::default() };
        goldens.case(&name("Conv# same"), || $conv::with(4, 6, 2, options), one(x(shape)));
        let padding_mode = PaddingMode::Circular;
        let options = ConvOptions { padding: 1.into(), padding_mode, ..Default::default() };
        goldens.case(&name("Conv# circular"), || $conv::with(4, 6, 3, options), one(x(shape)));
        let padding_mode = PaddingMode::Reflect;
        let options = ConvOptions { padding, padding_mode, ..Default::default() };
        goldens.case(&name("Conv# reflect"), || $conv::with(4, 6, 3, options), one(x(shape)));
        goldens.case(&name("ConvTranspose#"), || $transposed::new(4, 6, 3), one(x(shape)));
        let options = ConvTransposeOptions {
            stride: 2.into(),
            padding: 1.into(),
            output_padding: 1.into(),
            groups: 2,
            dilation: 2.into(),
            ..Default::default()
        };
        let make = || $transposed::with(4, 6, 3, options);
        goldens.case(&name("ConvTranspose# options"), make, one(x(shape)));
        let options =
            ConvTransposeOptions { stride: 2.into(), padding: 1.into(), ..Default::default() };
        let make = || $transposed::with(4, 6, 3, options);
        goldens.case(&name("ConvTranspose# size"), make, |m| {
            let size: Vec<i64> = shape[2..].iter().map(|n| 2 * n).collect();
            Ok(vec![m.forward_to_size(&x(shape), &size)?])
        });
        goldens.case(&name("LazyConv#"), || Ok($lazy_conv::new(6, 3)), one(x(shape)));
        goldens.case(
            &name("LazyConvTranspose#"),
            || Ok($lazy_transposed::new(6, 3)),
            one(x(shape)),
        );
        goldens.case(&name("MaxPool#"), || Ok($max::new(2)), one(x(shape)));
        let (stride, padding, ceil_mode) = (Some(2.into()), 1.into(), true);
        let options = MaxPoolOptions { stride, padding, ceil_mode, ..Default::default() };
        goldens.case(&name("MaxPool# options"), || Ok($max::with(3, options)), one(x(shape)));
        goldens.case(&name("AvgPool#"), || Ok($avg::new(2)), one(x(shape)));
        let options = AvgPoolOptions { stride, padding, ceil_mode, ..Default::default() };
        goldens.case(&name("AvgPool# options"), || Ok($avg::with(3, options)), one(x(shape)));
        goldens.case(&name("AdaptiveMaxPool#"), || Ok($ada_max::new(3)), one(x(shape)));
        goldens.case(&name("AdaptiveAvgPool#"), || Ok($ada_avg::new(3)), one(x(shape)));
        goldens.case(&name("LPPool#"), || Ok($lp::new(2.0, 2)), one(positive(shape)));
        goldens.case(
            &name("MaxUnpool#"),
            || Ok($unpool::new(2)),
            |m| {
                let (pooled, indices) = $max::new(2).forward_with_indices(&x(shape))?;
                Ok(vec![m.forward(&pooled, &indices, Some(&shape[2..]))?])
            },
        );
        goldens.case(&name("ZeroPad#"), || Ok($zero::new(1)), one(x(shape)));
        goldens.case(&name("ReflectionPad#"), || Ok($reflection::new(1)), one(x(shape)));
        goldens.case(&name("ReplicationPad#"), || Ok($replication::new(1)), one(x(shape)));
        goldens.case(&name("CircularPad#"), || Ok($circular::new(1)), one(x(shape)));
        goldens.case(&name("ConstantPad#"), || Ok($constant::new($widths, 3.5)), one(x(shape)));
        goldens.case(&name("BatchNorm#"), || $batch::new(4), both(x(shape)));
        let options =
            BatchNormOptions { eps: 1e-3, momentum: None, affine: false, ..Default::default() };
        goldens.case(&name("BatchNorm# options"), || $batch::with(4, options), both(x(shape)));
        let options =
            BatchNormOptions { track_running_stats: false, bias: false, ..Default::default() };
        goldens.case(&name("BatchNorm# untracked"), || $batch::with(4, options), one(x(shape)));
        goldens.case(&name("InstanceNorm#"), || $instance::new(4), one(x(shape)));
        let options =
            InstanceNormOptions { affine: true, track_running_stats: true, ..Default::default() };
        let make = || $instance::with(4, options);
        goldens.case(&name("InstanceNorm# options"), make, both(x(shape)));
        goldens.case(&name("LazyBatchNorm#"), || Ok($lazy_batch::new()), one(x(shape)));
        goldens.case(&name("LazyInstanceNorm#"), || Ok($lazy_instance::new()), one(x(shape)));
    }};
}

#[test]
fn modules_of_dimensions_equal_pytorch() {
    let mut goldens = Goldens::read();
    dimensional!(goldens, 1, [2, 4, 5], [0, 1], [1];
        Conv1d ConvTranspose1d LazyConv1d LazyConvTranspose1d MaxPool1d AvgPool1d AdaptiveMaxPool1d
        AdaptiveAvgPool1d LpPool1d MaxUnpool1d ZeroPad1d ReflectionPad1d ReplicationPad1d
        CircularPad1d ConstantPad1d BatchNorm1d InstanceNorm1d LazyBatchNorm1d LazyInstanceNorm1d);
    dimensional!(goldens, 2, [2, 4, 5, 6], [0, 1, 2, 3], [1, 1];
        Conv2d ConvTranspose2d LazyConv2d LazyConvTranspose2d MaxPool2d AvgPool2d AdaptiveMaxPool2d
        AdaptiveAvgPool2d LpPool2d MaxUnpool2d ZeroPad2d ReflectionPad2d ReplicationPad2d
        CircularPad2d ConstantPad2d BatchNorm2d InstanceNorm2d LazyBatchNorm2d LazyInstanceNorm2d);
    dimensional!(goldens, 3, [2, 4, 5, 6, 7], [0, 1, 2, 3, 4, 5], [1, 1, 1];
        Conv3d ConvTranspose3d LazyConv3d LazyConvTranspose3d MaxPool3d AvgPool3d AdaptiveMaxPool3d
        AdaptiveAvgPool3d LpPool3d MaxUnpool3d ZeroPad3d ReflectionPad3d ReplicationPad3d
        CircularPad3d ConstantPad3d BatchNorm3d InstanceNorm3d LazyBatchNorm3d LazyInstanceNorm3d);
    let mixed = OutputSize::from([None, Some(3)]);
    goldens.case(
        "AdaptiveAvgPool2d mixed",
        || Ok(AdaptiveAvgPool2d::new(mixed)),
        one(x(&[1, 2, 4, 6])),
    );
    let options = AvgPoolOptions {
        count_include_pad: false,
        divisor_override: Some(3),
        ..Default::default()
    };
    goldens.case(
        "AvgPool2d divisor",
        || Ok(AvgPool2d::with([2, 3], options)),
        one(x(&[1, 2, 4, 6])),
    );
    let options = MaxPoolOptions { dilation: [1, 2].into(), ..Default::default() };
    goldens.case("MaxPool2d pair", || Ok(MaxPool2d::with([2, 3], options)), one(x(&[1, 2, 6, 6])));
    let ratio = || FractionalMaxPool2d::new(2, FractionalSize::Ratio([0.5; 2]));
    goldens.case("FractionalMaxPool2d", ratio, one(x(&[1, 2, 6, 6])));
    let size = || FractionalMaxPool3d::new(2, FractionalSize::Size([3; 3]));
    goldens.case("FractionalMaxPool3d", size, one(x(&[1, 2, 6, 6, 6])));
    let elsewhere = ["Dropout", "Softmax", "Upsampling", "CrossMap", "L1Loss", "SmoothL1"];
    goldens.finish(|name| {
        let is_other = is_parametrized(name) || elsewhere.iter().any(|kind| name.starts_with(kind));
        !is_other && ["1d", "2d", "3d"].iter().any(|n| name.contains(n))
    });
}

#[test]
fn tables_equal_pytorch() {
    let mut goldens = Goldens::read();
    goldens.case("Embedding", || Embedding::new(7, 3), one(index(7, &[2, 3])));
    let options = EmbeddingOptions {
        padding_idx: Some(-1),
        max_norm: Some(1.0),
        norm_type: 1.0,
        scale_grad_by_freq: true,
        sparse: false,
    };
    goldens.case("Embedding options", || Embedding::with(7, 3, options), one(index(7, &[2, 3])));
    goldens.case("EmbeddingBag", || EmbeddingBag::new(7, 3), one(index(7, &[2, 3])));
    let options =
        EmbeddingBagOptions { mode: BagMode::Sum, padding_idx: Some(2), ..Default::default() };
    goldens.case(
        "EmbeddingBag sum",
        || EmbeddingBag::with(7, 3, options),
        |m| {
            let offsets = integers(&[0, 2, 4], &[3]);
            Ok(vec![m.forward_bags(&index(7, &[6]), Some(&offsets), Some(&x(&[6])))?])
        },
    );
    let options =
        EmbeddingBagOptions { mode: BagMode::Max, include_last_offset: true, ..Default::default() };
    goldens.case(
        "EmbeddingBag max",
        || EmbeddingBag::with(7, 3, options),
        |m| {
            let offsets = integers(&[0, 2, 6], &[3]);
            Ok(vec![m.forward_bags(&index(7, &[6]), Some(&offsets), None)?])
        },
    );
    let linear = |inputs, outputs| Linear::new(inputs, outputs);
    goldens.case(
        "Sequential",
        || Ok(Sequential::new().with(linear(4, 3)?).with(Relu).with(linear(3, 2)?)),
        one(x(&[2, 4])),
    );
    let nested = || {
        let inner = Sequential::new().with(linear(4, 3)?).with(BatchNorm1d::new(3)?);
        Ok(Sequential::new().with(inner).with(Tanh))
    };
    goldens.case("Sequential nested", nested, one(x(&[2, 4])));
    let list = || {
        let layers = [linear(2, 2), linear(2, 2), Linear::with_bias(2, 2, false)];
        layers.into_iter().collect::<Result<ModuleList<_>>>()
    };
    goldens.case("ModuleList", list, |_| Ok(vec![]));
    let dict = || {
        Ok(ModuleDict::from_iter([
            ("b".to_owned(), linear(2, 2)?),
            ("a".to_owned(), linear(2, 3)?),
        ]))
    };
    goldens.case("ModuleDict", dict, |_| Ok(vec![]));
    let ones = || Parameter::new(op::ones(&[2, 3], None, None, None, None)?);
    let zeros = || Parameter::new(op::zeros(&[4], None, None, None, None)?);
    goldens.case(
        "ParameterList",
        || Ok(ParameterList::from_iter([ones()?, zeros()?])),
        |_| Ok(vec![]),
    );
    let dict =
        || Ok(ParameterDict::from_iter([("a".to_owned(), zeros()?), ("b".to_owned(), ones()?)]));
    goldens.case("ParameterDict", dict, |_| Ok(vec![]));
    goldens.finish(|name| {
        let is_attention = ["Transformer", "Multihead"].iter().any(|kind| name.starts_with(kind));
        is_large(name) && !is_attention && !name.starts_with("init")
    });
}

#[test]
fn parametrized_layers_equal_pytorch() -> Result<()> {
    let mut goldens = Goldens::read();
    let transposed = || ConvTranspose2d::new(2, 3, 2);
    let image = || x(&[1, 2, 3, 3]);
    goldens.case("WeightNorm Linear", || WeightNorm::new(Linear::new(4, 3)?), both(x(&[2, 4])));
    goldens.case("WeightNorm ConvTranspose2d", || WeightNorm::new(transposed()?), one(image()));
    let bare = || Conv1d::with(2, 3, 2, ConvOptions { bias: false, ..Default::default() });
    goldens.case("WeightNorm whole", || WeightNorm::with(bare()?, None), one(x(&[1, 2, 4])));
    goldens.case("SpectralNorm Linear", || SpectralNorm::new(Linear::new(4, 3)?), both(x(&[2, 4])));
    goldens.case("SpectralNorm ConvTranspose2d", || SpectralNorm::new(transposed()?), one(image()));
    goldens.finish(is_parametrized);
    let layer = WeightNorm::new(Linear::new(4, 3)?)?;
    init::ones_(&layer.module("parametrizations.weight")?.named_parameters()[0].1)?;
    let expected = layer.forward(&x(&[2, 4]))?;
    let copy = layer.deep_clone()?;
    assert_eq!(copy.named_parameters().len(), 3);
    let plain = copy.into_inner()?;
    assert!(op::allclose(&plain.forward(&x(&[2, 4]))?, &expected, 1e-5, 1e-6, false)?);
    Ok(())
}

#[test]
fn first_values_equal_pytorch() {
    let mut goldens = Goldens::read();
    let mut case = |name: &str, shape: &[i64], fill: &dyn Fn(&Tensor) -> Result<()>| {
        let make = || {
            let tensor = op::empty_memory_format(shape, None, None, None, None, None)?;
            fill(&tensor)?;
            Ok(ParameterList::from_iter([Parameter::new(tensor)?]))
        };
        goldens.case(&format!("init {name}"), make, |_| Ok(vec![]));
    };
    use init::{Fan, Gain};
    case("uniform", &[3, 4], &|t| init::uniform_(t, -1.0, 2.0));
    case("normal", &[3, 4], &|t| init::normal_(t, 1.0, 2.0));
    case("trunc_normal", &[6, 8], &|t| init::trunc_normal_(t, 0.0, 2.0, -2.0, 2.0));
    case("trunc_normal far", &[6, 8], &|t| init::trunc_normal_(t, 0.0, 1.0, 2.0, 3.0));
    case("constant", &[3], &|t| init::constant_(t, 0.3));
    case("eye", &[3, 4], &init::eye_);
    case("dirac", &[4, 3, 3, 3], &|t| init::dirac_(t, 2));
    case("xavier_uniform", &[3, 4, 5], &|t| init::xavier_uniform_(t, 1.0));
    case("xavier_normal", &[3, 4, 5], &|t| init::xavier_normal_(t, 2.0));
    case("kaiming_uniform", &[3, 4, 5], &|t| init::kaiming_uniform_(t, Gain::Relu, Fan::In));
    let leaky = Gain::LeakyRelu(0.2);
    case("kaiming_normal", &[3, 4, 5], &|t| init::kaiming_normal_(t, leaky, Fan::Out));
    case("orthogonal", &[3, 5], &|t| init::orthogonal_(t, 2.0));
    case("orthogonal tall", &[5, 2, 2], &|t| init::orthogonal_(t, 1.0));
    case("sparse", &[6, 3], &|t| init::sparse_(t, 0.4, 0.01));
    goldens.finish(|name| name.starts_with("init"));
}

//! Gradients of modules beside difference quotients, in float64.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use crate::common::*;
use corten::autograd::gradcheck;
use corten::autograd::gradcheck::GradcheckOptions;
use corten::nn::*;
use corten::prelude::*;

fn double(tensor: &Tensor) -> Tensor {
    op::to_dtype(tensor, DType::Float64, false, false, None).unwrap()
}

/// Checks a function of the input and, through them, of the module's parameters.
fn check<M: Module>(
    name: &str,
    module: M,
    input: Tensor,
    forward: impl Fn(&M, &Tensor) -> Result<Tensor>,
) {
    module.double().unwrap();
    let mut inputs = vec![double(&input).requires_grad_(true).unwrap()];
    let parameters = module.parameters();
    inputs.extend(parameters.clone());
    // The check hands over changed copies: the module computes with their elements.
    let exchange = |given: &[Tensor]| -> Result<Vec<Tensor>> {
        let own: Vec<Tensor> = parameters.iter().map(|p| p.data()).collect::<Result<_>>()?;
        parameters.iter().zip(given).try_for_each(|(p, new)| p.set_data(&new.data()?))?;
        Ok(own)
    };
    let function = |inputs: &[Tensor]| {
        let is_given = inputs[1..].iter().zip(&parameters).all(|(a, b)| a.is_same(b));
        if is_given {
            return Ok(vec![forward(&module, &inputs[0])?]);
        }
        let own = exchange(&inputs[1..])?;
        let output = forward(&module, &inputs[0]);
        exchange(&own)?;
        Ok(vec![output?])
    };
    if let Err(error) = gradcheck(function, &inputs, GradcheckOptions::default()) {
        panic!("{name}: {error}");
    }
}

macro_rules! layers {
    ($($name:ident: $make:expr, $shape:expr;)+) => {$(
        #[test]
        fn $name() -> Result<()> {
            let input = shifted(&$shape, 0.4);
            check(stringify!($name), $make, input, |module, x| module.forward(x));
            Ok(())
        }
    )+};
}

fn frozen<M: Module>(module: M) -> M {
    module.eval();
    module
}

layers! {
    linear: Linear::new(3, 2)?, [2, 3];
    conv1d: Conv1d::new(2, 3, 2)?, [1, 2, 4];
    conv2d: Conv2d::with(2, 2, 2, ConvOptions { padding: 1.into(), ..Default::default() })?, [1, 2, 3, 3];
    conv3d: Conv3d::new(1, 2, 2)?, [1, 1, 2, 3, 2];
    conv_transpose1d: ConvTranspose1d::new(2, 2, 2)?, [1, 2, 3];
    conv_transpose2d: ConvTranspose2d::new(2, 1, 2)?, [1, 2, 2, 2];
    conv_transpose3d: ConvTranspose3d::new(1, 1, 2)?, [1, 1, 2, 2, 2];
    max_pool2d: MaxPool2d::new(2), [1, 1, 4, 4];
    avg_pool3d: AvgPool3d::new(2), [1, 1, 2, 2, 4];
    lp_pool1d: LpPool1d::new(3.0, 2), [1, 1, 3];
    adaptive_avg_pool2d: AdaptiveAvgPool2d::new(2), [1, 1, 3, 4];
    adaptive_max_pool1d: AdaptiveMaxPool1d::new(2), [1, 2, 5];
    batch_norm: frozen(BatchNorm1d::new(2)?), [3, 2];
    batch_norm_in_training: BatchNorm2d::with(2, BatchNormOptions {
        track_running_stats: false, ..Default::default()
    })?, [2, 2, 2, 2];
    instance_norm: InstanceNorm1d::with(2, InstanceNormOptions { affine: true, ..Default::default() })?, [1, 2, 4];
    layer_norm: LayerNorm::new(&[4])?, [2, 4];
    rms_norm: RmsNorm::new(&[4])?, [2, 4];
    group_norm: GroupNorm::new(2, 4)?, [2, 4, 2];
    local_response_norm: LocalResponseNorm::new(2), [1, 3, 2];
    prelu: PRelu::new()?, [2, 3];
    gelu: Gelu::tanh(), [2, 3];
    softplus: Softplus::default(), [2, 3];
    glu: Glu::default(), [2, 4];
    unfold: Unfold::new(2), [1, 1, 3, 3];
    fold: Fold::new(3, 2), [1, 4, 4];
    pixel_shuffle: PixelShuffle::new(2), [1, 4, 1, 2];
    upsample: Upsample::with(Resize::scale(2.0), UpsampleOptions {
        mode: Interpolation::Bilinear, ..Default::default()
    }), [1, 1, 2, 3];
    reflection_pad: ReflectionPad2d::new(1), [1, 1, 2, 3];
    circular_pad: CircularPad1d::new(1), [1, 1, 3];
    sequential: Sequential::new().with(Linear::new(2, 3)?).with(Tanh).with(Linear::new(3, 1)?), [2, 2];
    weight_norm: WeightNorm::new(Conv1d::new(2, 2, 2)?)?, [1, 2, 3];
    spectral_norm: frozen(SpectralNorm::new(Linear::new(3, 2)?)?), [2, 3];
    encoder_layer: TransformerEncoderLayer::with(4, 2, TransformerLayerOptions {
        dim_feedforward: 3, dropout: 0.0, ..Default::default()
    })?, [2, 1, 4];
}

#[test]
fn recurrent_networks() -> Result<()> {
    let options = RnnOptions { bidirectional: true, ..Default::default() };
    let x = || shifted(&[3, 2, 2], 0.4);
    check("lstm", Lstm::with(2, 2, options)?, x(), |m, x| Ok(m.forward(x, None)?.0));
    check("gru", Gru::with(2, 2, options)?, x(), |m, x| Ok(m.forward(x, None)?.0));
    check("rnn", Rnn::new(2, 2)?, x(), |m, x| Ok(m.forward(x, None)?.1));
    let projected = RnnOptions { proj_size: 1, ..Default::default() };
    check("lstm_projected", Lstm::with(2, 2, projected)?, x(), |m, x| Ok(m.forward(x, None)?.0));
    check("lstm_packed", Lstm::new(2, 2)?, x(), |m, x| {
        let packed = pack_padded_sequence(x, &[2, 3], false, false)?;
        Ok(pad_packed_sequence(&m.forward_packed(&packed, None)?.0, false, 0.0, None)?.0)
    });
    check("lstm_cell", LstmCell::new(2, 2)?, shifted(&[2, 2], 0.4), |m, x| {
        Ok(m.forward(x, None)?.1)
    });
    check("gru_cell", GruCell::new(2, 2)?, shifted(&[2, 2], 0.4), |m, x| m.forward(x, None));
    Ok(())
}

#[test]
fn attention_and_decoder() -> Result<()> {
    check("attention", MultiheadAttention::new(4, 2)?, shifted(&[3, 1, 4], 0.4), |m, x| {
        let masks = AttentionMasks { is_causal: true, ..Default::default() };
        Ok(m.forward(x, x, x, masks, AttentionWeights::Average)?.0)
    });
    let options =
        TransformerLayerOptions { dim_feedforward: 3, dropout: 0.0, ..Default::default() };
    let layer = TransformerDecoderLayer::with(4, 2, options)?;
    check("decoder", layer, shifted(&[2, 1, 4], 0.4), |m, x| {
        m.forward(x, x, AttentionMasks::default(), AttentionMasks::default())
    });
    Ok(())
}

#[test]
fn tables_and_losses() -> Result<()> {
    let ignored = || shifted(&[1], 0.0);
    check("embedding", Embedding::new(4, 2)?, ignored(), |m, _| m.forward(&index(4, &[2, 3])));
    check("bag", EmbeddingBag::new(4, 2)?, ignored(), |m, _| m.forward(&index(4, &[2, 3])));
    check("bilinear", Bilinear::new(3, 2, 2)?, shifted(&[2, 3], 0.4), |m, x| {
        m.forward(x, &double(&shifted(&[2, 2], 1.0)))
    });
    let x = || shifted(&[3, 4], 0.4);
    let y = double(&shifted(&[3, 4], 1.0));
    let variance = double(&positive(&[3, 4]));
    check("gaussian", GaussianNllLoss::new(), x(), |m, x| m.forward(x, &y, &variance));
    let labels = double(&binary(&[3, 4]));
    check("multi_label", MultiLabelSoftMarginLoss::new(), x(), |m, x| m.forward(x, &labels));
    check("triplet", TripletMarginWithDistanceLoss::new(), x(), |m, x| {
        m.forward(x, &y, &(&y * -1.0)?)
    });
    let classes = integers(&[1, 3, 2], &[3]);
    check("linear_cross_entropy", LinearCrossEntropyLoss::new(4, 4)?, x(), |m, x| {
        m.forward(x, &classes)
    });
    check("adaptive", AdaptiveLogSoftmaxWithLoss::new(4, 6, &[2, 4])?, x(), |m, x| {
        Ok(m.forward(x, &integers(&[0, 3, 5], &[3]))?.0)
    });
    Ok(())
}

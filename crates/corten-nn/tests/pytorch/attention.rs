//! Attention and transformers beside PyTorch's of the same seed.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use crate::common::*;
use corten::nn::*;
use corten::prelude::*;

fn none() -> AttentionMasks<'static> {
    AttentionMasks::default()
}

fn causal() -> AttentionMasks<'static> {
    AttentionMasks { is_causal: true, ..Default::default() }
}

fn both((output, weights): (Tensor, Option<Tensor>)) -> Vec<Tensor> {
    std::iter::once(output).chain(weights).collect()
}

fn swapped(tensor: &Tensor) -> Tensor {
    op::transpose_int(tensor, 0, 1).unwrap()
}

fn padding() -> Tensor {
    let places = vec![false, false, false, false, false, false, true, true];
    Tensor::from_vec(places, &[2, 4]).unwrap()
}

#[test]
fn attention_equals_pytorch() {
    let mut goldens = Goldens::read();
    let (q, kv) = (x(&[5, 2, 8]), shifted(&[4, 2, 8], 1.0));
    goldens.case(
        "MultiheadAttention",
        || MultiheadAttention::new(8, 2),
        |m| {
            let average = AttentionWeights::Average;
            let mut outputs = both(m.forward(&q, &q, &q, none(), average)?);
            outputs.extend(both(m.forward(&q, &kv, &kv, none(), average)?));
            Ok(outputs)
        },
    );
    let options = MultiheadAttentionOptions {
        batch_first: true,
        add_bias_kv: true,
        add_zero_attn: true,
        ..Default::default()
    };
    goldens.case(
        "MultiheadAttention masks",
        || MultiheadAttention::with(8, 2, options),
        |m| {
            let mask = op::gt_scalar(&x(&[5, 4]), 0.9.into())?;
            let (q, kv, padding) = (swapped(&q), swapped(&kv), padding());
            let masks =
                AttentionMasks { mask: Some(&mask), key_padding: Some(&padding), is_causal: false };
            let seen = both(m.forward(&q, &kv, &kv, masks, AttentionWeights::PerHead)?);
            let quick = m.attend(&q, &kv, &kv, masks)?;
            assert!(op::allclose(&quick, &seen[0], 1e-5, 1e-6, false)?);
            Ok(seen)
        },
    );
    let options = MultiheadAttentionOptions {
        kdim: Some(3),
        vdim: Some(5),
        bias: false,
        ..Default::default()
    };
    goldens.case(
        "MultiheadAttention widths",
        || MultiheadAttention::with(8, 2, options),
        |m| Ok(vec![m.attend(&q, &x(&[4, 2, 3]), &x(&[4, 2, 5]), none())?]),
    );
    goldens.case(
        "MultiheadAttention sample",
        || MultiheadAttention::new(8, 2),
        |m| {
            let (q, kv) = (op::select_int(&q, 1, 0)?, op::select_int(&kv, 1, 0)?);
            Ok(both(m.forward(&q, &kv, &kv, none(), AttentionWeights::Average)?))
        },
    );
    goldens.finish(|name| name.starts_with("Multihead"));
}

#[test]
fn transformers_equal_pytorch() {
    let mut goldens = Goldens::read();
    let (q, kv) = (x(&[5, 2, 8]), shifted(&[4, 2, 8], 1.0));
    let plain = TransformerLayerOptions { dim_feedforward: 16, dropout: 0.0, ..Default::default() };
    let encoder = || TransformerEncoderLayer::with(8, 2, plain);
    let decoder = || TransformerDecoderLayer::with(8, 2, plain);
    goldens.case("TransformerEncoderLayer", encoder, |m| {
        Ok(vec![m.forward(&q)?, m.forward_masked(&q, causal())?])
    });
    let options = TransformerLayerOptions {
        activation: FeedForwardActivation::Gelu,
        batch_first: true,
        norm_first: true,
        bias: false,
        ..plain
    };
    let make = || TransformerEncoderLayer::with(8, 2, options);
    goldens.case("TransformerEncoderLayer options", make, |m| Ok(vec![m.forward(&q)?]));
    goldens.case("TransformerDecoderLayer", decoder, |m| {
        let padding = padding();
        let memory = AttentionMasks { key_padding: Some(&padding), ..Default::default() };
        Ok(vec![m.forward(&q, &kv, causal(), memory)?])
    });
    let options = TransformerLayerOptions { norm_first: true, ..plain };
    let make = || TransformerDecoderLayer::with(8, 2, options);
    goldens.case("TransformerDecoderLayer options", make, |m| {
        Ok(vec![m.forward(&q, &kv, none(), none())?])
    });
    let make = || TransformerEncoder::new(&encoder()?, 2, Some(LayerNorm::new(&[8])?));
    goldens.case("TransformerEncoder", make, |m| Ok(vec![m.forward(&q)?]));
    let make = || TransformerDecoder::new(&decoder()?, 2, None);
    goldens.case("TransformerDecoder", make, |m| Ok(vec![m.forward(&q, &kv, none(), none())?]));
    let layer = TransformerLayerOptions { batch_first: true, ..plain };
    let options = TransformerOptions { num_encoder_layers: 1, num_decoder_layers: 1, layer };
    goldens.case(
        "Transformer",
        || Transformer::with(8, 2, options),
        |m| Ok(vec![m.forward(&swapped(&kv), &swapped(&q), TransformerMasks::default())?]),
    );
    goldens.finish(|name| name.starts_with("Transformer"));
}

#[test]
fn causal_attention_equals_its_mask() -> Result<()> {
    let _drawing = drawing();
    let attention = MultiheadAttention::new(8, 2)?;
    let q = x(&[5, 2, 8]);
    let mask = Transformer::generate_square_subsequent_mask(5, None)?;
    let masked = AttentionMasks { mask: Some(&mask), ..Default::default() };
    let expected = attention.attend(&q, &q, &q, masked)?;
    let padding = op::zeros(&[2, 5], Some(DType::Bool), None, None, None)?;
    let padded = AttentionMasks { key_padding: Some(&padding), ..causal() };
    for masks in [causal(), padded] {
        let got = attention.attend(&q, &q, &q, masks)?;
        assert!(op::allclose(&got, &expected, 1e-5, 1e-6, false)?);
        let (seen, _) = attention.forward(&q, &q, &q, masks, AttentionWeights::Average)?;
        assert!(op::allclose(&seen, &expected, 1e-5, 1e-6, false)?);
    }
    Ok(())
}

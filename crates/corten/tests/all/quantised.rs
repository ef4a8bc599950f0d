//! Quantised tensors: quantizers through views and copies, refusals, and files of PyTorch.

use corten::core::{Device, ErrorKind, QScheme, Quantizer, TensorBase};
use corten::io::Value;
use corten::io::torch::{LoadOptions, load, load_bytes, save, save_legacy};
use corten::ops::quantized::{integers, same_quantizer};
use corten::prelude::*;
use std::path::PathBuf;

fn sample() -> Result<Tensor> {
    tensor![[1.0f32, -2.0, 0.55], [3.0, 10.0, -0.3]]
}

fn of_tensor() -> Result<Tensor> {
    op::quantize_per_tensor(&sample()?, 0.1, 10, DType::QUInt8)
}

fn of_channels() -> Result<Tensor> {
    let (scales, points) = (tensor![0.1f32, 0.2]?, tensor![10i64, 0]?);
    op::quantize_per_channel(&sample()?, &scales, &points, 0, DType::QInt8)
}

#[test]
fn views_keep_the_quantizer() -> Result<()> {
    let q = of_tensor()?;
    assert!(q.is_quantized() && q.dtype() == DType::QUInt8);
    for view in [op::t(&q)?, op::select_int(&q, 0, 1)?, op::slice_tensor(&q, 1, Some(1), None, 1)?]
    {
        assert!(view.is_alias_of(&q) && view.shares_version_with(&q));
        assert!(same_quantizer(&view, &q)?);
    }
    let row = op::select_int(&q, 0, 1)?;
    op::fill__scalar(&row, 0.5.into())?;
    assert_eq!(op::int_repr(&q)?.to_vec::<u8>()?, [20, 0, 16, 15, 15, 15]);
    assert_eq!(integers(&row)?.to_vec::<u8>()?, [15, 15, 15]);
    Ok(())
}

#[test]
fn views_follow_the_channels() -> Result<()> {
    let q = of_channels()?;
    let scheme = |tensor: &Tensor| Some(tensor.quantizer()?.scheme());
    assert_eq!(scheme(&q), Some(QScheme::PerChannelAffine));
    let row = op::select_int(&q, 0, 1)?;
    let found = row.quantizer().and_then(|quantizer| quantizer.of_tensor());
    assert_eq!(found, Some((f64::from(0.2f32), 0)));
    let column = op::select_int(&op::unsqueeze(&q, 0)?, 2, 1)?;
    assert_eq!(op::q_per_channel_axis(&column)?, 1);
    assert_eq!(op::dequantize_self(&column)?.to_vec::<f32>()?.len(), 2);
    let turned = op::t(&q);
    let message = turned.err().map(|error| error.to_string()).unwrap_or_default();
    assert!(message.contains("Setting strides is possible only on uniformly quantized tensor"));
    Ok(())
}

#[test]
fn elements_that_share_bytes() -> Result<()> {
    let x = tensor![0.0f32, 1.0, 2.0, 3.0, 4.0]?;
    let q = op::quantize_per_tensor(&x, 1.0, 0, DType::QUInt4x2)?;
    assert_eq!(op::int_repr(&q)?.to_vec::<u8>()?, [0x10, 0x32, 0x04]);
    assert_eq!(op::dequantize_self(&op::clone(&q, None)?)?.to_vec::<f32>()?, x.to_vec::<f32>()?);
    assert!(op::slice_tensor(&q, 0, Some(1), None, 1).is_err());
    assert_eq!(op::dequantize_self(&op::slice_tensor(&q, 0, None, Some(3), 1)?)?.numel(), 3);
    Ok(())
}

#[test]
fn operators_without_a_kernel_are_refused() -> Result<()> {
    let q = of_tensor()?;
    for result in
        [op::exp(&q), op::add_tensor(&q, &q, 1.into()), op::cumsum(&q, 0, None), op::mm(&q, &q)]
    {
        let error = result.err();
        assert_eq!(error.as_ref().map(|error| error.kind()), Some(ErrorKind::NotImplemented));
        let message = error.map(|error| error.to_string()).unwrap_or_default();
        assert!(message.contains("from the 'QuantizedCPU' backend"), "{message}");
    }
    assert!(q.to_vec::<u8>().is_err());
    let unknown = TensorBase::new_quantized(&[2], None, DType::QInt8, Device::CPU, None)?;
    assert!(op::dequantize_self(&unknown.into()).is_err());
    assert!(TensorBase::new_quantized(&[-1], None, DType::QInt8, Device::CPU, None).is_err());
    assert!(TensorBase::new_quantized(&[1], None, DType::Int8, Device::CPU, None).is_err());
    Ok(())
}

#[test]
fn text() -> Result<()> {
    let shown = of_tensor()?.to_string();
    assert!(shown.ends_with(
        "size=(2, 3), dtype=torch.quint8,\n       quantization_scheme=torch.per_tensor_affine, scale=0.1, zero_point=10)"
    ));
    assert!(of_channels()?.to_string().contains("zero_point=tensor([10,  0]), axis=0"));
    Ok(())
}

fn golden(name: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/goldens")).join(name)
}

fn described(value: &Value) -> Result<Vec<String>> {
    let tensors = value.tensors();
    let text = |(_, tensor): (String, Tensor)| {
        Ok(format!("{tensor} {:?}", op::int_repr(&tensor)?.sizes().as_slice()))
    };
    tensors.into_iter().map(text).collect()
}

#[test]
fn files() -> Result<()> {
    let files = ["quantised_kinds_saved_by_torch.pt", "quantised_kinds_saved_by_torch_legacy.pt"];
    for name in files {
        let value = load(golden(name))?;
        assert_eq!(value.tensors().len(), 10);
        let wanted = described(&value)?;
        let path = std::env::temp_dir().join(format!("corten-quantised-{}", std::process::id()));
        for legacy in [false, true] {
            if legacy {
                save_legacy(&path, &value)?
            } else {
                save(&path, &value)?
            }
            let bytes = std::fs::read(&path).unwrap_or_default();
            assert_eq!(described(&load_bytes(&bytes, LoadOptions::default())?)?, wanted);
        }
        let _removed = std::fs::remove_file(&path);
    }
    Ok(())
}

#[test]
fn quantizers() {
    let quantizer = Quantizer::per_tensor(0.5, 3);
    assert_eq!(quantizer.of_tensor(), Some((0.5, 3)));
    assert!(quantizer.of_channels().is_none());
    assert_eq!(QScheme::from_name("per_channel_affine"), Some(QScheme::PerChannelAffine));
    assert_eq!(QScheme::from_number(4), Some(QScheme::PerChannelAffineFloatQParams));
    assert_eq!(QScheme::from_number(5), None);
}

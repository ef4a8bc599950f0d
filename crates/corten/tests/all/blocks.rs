//! The block formats of GGML: weights and blocks equal to those of its reference, and errors of what is quantised.
#![allow(clippy::unwrap_used, clippy::panic)] // tests may

use corten::blocks::{Format, Unpacked};
use corten::io::{Value, gguf, npy};
use corten::ops::blocks;
use corten::prelude::*;
use std::collections::HashMap;

const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/goldens/ggml_blocks.npz");

fn goldens() -> Result<HashMap<String, Tensor>> {
    Ok(npy::load_npz(GOLDEN)?.into_iter().collect())
}

fn bits(weights: &[f32]) -> Vec<u32> {
    weights.iter().map(|weight| weight.to_bits()).collect()
}

#[test]
fn weights_equal_those_of_the_reference() -> Result<()> {
    let goldens = goldens()?;
    for format in Format::ALL {
        let name = format.name();
        let bytes = goldens[&format!("{name}_bytes")].to_vec::<u8>()?;
        let expected = goldens[&format!("{name}_weights")].to_vec::<f32>()?;
        let mut found = vec![0.0; expected.len()];
        format.dequantize(&bytes, &mut found).unwrap();
        assert_eq!(bits(&found), bits(&expected), "{name}");
    }
    Ok(())
}

#[test]
fn blocks_equal_those_of_the_reference() -> Result<()> {
    let goldens = goldens()?;
    let mut compared = 0;
    for format in Format::ALL {
        let name = format.name();
        let Some(source) = goldens.get(&format!("{name}_source")) else { continue };
        let expected = goldens[&format!("{name}_bytes")].to_vec::<u8>()?;
        let mut found = vec![0; expected.len()];
        format.quantize(&source.to_vec::<f32>()?, &mut found).unwrap();
        assert_eq!(found, expected, "{name}");
        compared += 1;
    }
    assert_eq!(compared, 6);
    Ok(())
}

/// Normal numbers, as weights of models are, of a fixed sequence.
fn normal(count: usize) -> Result<Vec<f32>> {
    let generator = corten::Generator::cpu(3);
    let x = Tensor::zeros([count as i64])?;
    op::normal_(&x, 0.0, 1.0, Some(&generator))?.to_vec::<f32>()
}

#[test]
fn errors_are_small() -> Result<()> {
    let weights = normal(256 * 64)?;
    for format in Format::ALL {
        let mut bytes = vec![0; format.row_bytes(weights.len()).unwrap()];
        format.quantize(&weights, &mut bytes).unwrap();
        let mut back = vec![0.0; weights.len()];
        format.dequantize(&bytes, &mut back).unwrap();
        let squares: f64 =
            weights.iter().zip(&back).map(|(a, b)| f64::from(a - b).powi(2)).sum::<f64>();
        let error = (squares / weights.len() as f64).sqrt();
        let bound = match format {
            Format::Q2K => 0.29,
            Format::Q3K => 0.17,
            Format::MXFP4 => 0.14,
            Format::Q4_0 | Format::Q4_1 | Format::IQ4NL | Format::IQ4XS => 0.10,
            Format::Q4K => 0.075,
            Format::Q5_0 | Format::Q5_1 => 0.05,
            Format::Q5K => 0.037,
            Format::Q6K => 0.021,
            Format::Q8_0 => 0.007,
        };
        assert!(error < bound, "{}: root mean square error {error}", format.name());
    }
    Ok(())
}

#[test]
fn unusual_weights() {
    for format in Format::ALL {
        let elements = format.block_elements();
        let mut bytes = vec![0; format.block_bytes()];
        for weights in [
            vec![0.0; elements],
            vec![-0.0; elements],
            vec![1e-30; elements],
            vec![-2.5; elements],
            vec![1e30; elements],
            vec![f32::INFINITY; elements],
            vec![f32::NAN; elements],
            (0..elements).map(|i| if i == 7 { 4.0 } else { 0.0 }).collect(),
        ] {
            format.quantize(&weights, &mut bytes).unwrap();
            let mut back = vec![1.0; elements];
            format.dequantize(&bytes, &mut back).unwrap();
            if weights.iter().all(|weight| weight.abs() <= 4.0) {
                // Between 4 and 6 there is no number of e2m1, and zero is no level of IQ4_NL.
                let most = weights.iter().fold(0.0f32, |most, weight| most.max(weight.abs()));
                let bound = |weight: f32| weight.abs() * 0.25 + most * 0.01 + 1e-6;
                let close = weights.iter().zip(&back).all(|(&a, b)| (a - b).abs() <= bound(a));
                assert!(close, "{}: {weights:?} became {back:?}", format.name());
            }
        }
        let mut unpacked = Unpacked::new();
        assert!(format.unpack(&bytes, &mut unpacked).is_ok());
        assert!(format.unpack(&bytes[1..], &mut unpacked).is_err());
        assert!(format.dequantize(&bytes, &mut vec![0.0; elements + 1]).is_err());
        assert_eq!(Format::of_number(*format as u32), Some(*format));
        assert_eq!(Format::of_name(format.name()), Some(*format));
    }
}

#[test]
fn quantised_tensors_of_files() -> Result<()> {
    let path = std::env::temp_dir().join(format!("corten-blocks-{}.gguf", std::process::id()));
    let weights = normal(64)?;
    let mut bytes = vec![0u8; 68];
    Format::Q8_0.quantize(&weights, &mut bytes).unwrap();
    let named = [("w".to_owned(), Tensor::from_vec(weights.clone(), &[2, 32])?)];
    gguf::save(&path, &[("general.name".to_owned(), Value::Text("test".to_owned()))], &named)?;
    let opened = gguf::Opened::new(&path)?;
    assert_eq!(opened.dequantized("w")?.to_vec::<f32>()?, weights);
    assert_eq!(opened.weights("w")?.to_vec::<f32>()?, weights);
    assert!(opened.dequantized("v").is_err() && opened.weights("v").is_err());
    std::fs::remove_file(&path).ok();
    Ok(())
}

/// A weight of a format and its dequantised twin.
fn pair(format: Format, rows: i64, columns: i64) -> Result<(Tensor, Tensor)> {
    let weights = Tensor::from_vec(normal((rows * columns) as usize)?, &[rows, columns])?;
    let quantised = blocks::quantize(&weights, format)?;
    let dense = quantised.to_dense()?;
    Ok((quantised, dense))
}

fn assert_close(found: &Tensor, expected: &Tensor, bound: f32) -> Result<()> {
    assert_eq!(found.sizes(), expected.sizes());
    let pairs = found.to_vec::<f32>()?.into_iter().zip(expected.to_vec::<f32>()?);
    for (place, (a, b)) in pairs.enumerate() {
        assert!((a - b).abs() <= bound, "{a} for {b} at {place}");
    }
    Ok(())
}

#[test]
fn linear_maps() -> Result<()> {
    for format in [Format::Q8_0, Format::Q4K, Format::Q6K, Format::MXFP4] {
        let (weight, dense) = pair(format, 150, 256)?;
        let bias = Tensor::from_vec(normal(150)?, &[150])?;
        for shape in [&[256][..], &[1, 256], &[7, 256], &[2, 3, 256], &[0, 256]] {
            let count = shape.iter().product::<i64>() as usize;
            let x = Tensor::from_vec(normal(count)?, shape)?;
            for bias in [None, Some(&bias)] {
                let found = op::linear(&x, &weight, bias)?;
                let expected = op::linear(&x, &dense, bias)?;
                // Activations are rounded to 8 bits: an error of about half a step in each of 256 products.
                assert_close(&found, &expected, 0.6)?;
            }
        }
        assert!(op::linear(&Tensor::ones([3, 255])?, &weight, None).is_err());
    }
    Ok(())
}

#[test]
fn gradients_pass_through() -> Result<()> {
    let (weight, dense) = pair(Format::Q8_0, 32, 64)?;
    let mut grads = Vec::new();
    for weight in [&weight, &dense] {
        let x = Tensor::from_vec(normal(128)?, &[2, 64])?.requires_grad_(true)?;
        op::sum(&op::linear(&x, weight, None)?, None)?.backward()?;
        grads.push(x.grad().unwrap());
    }
    assert_close(&grads[0], &grads[1], 1e-4)
}

#[test]
fn rows_of_tables() -> Result<()> {
    let (table, dense) = pair(Format::Q4_0, 10, 64)?;
    let index = tensor![[9, 0, 3], [3, 3, 1]]?;
    let found = op::embedding(&table, &index, -1, false, false)?;
    assert_close(&found, &op::embedding(&dense, &index, -1, false, false)?, 0.0)?;
    let index = tensor![4, 4, 0]?;
    let found = op::index_select(&table, 0, &index)?;
    assert_close(&found, &op::index_select(&dense, 0, &index)?, 0.0)?;
    let found = op::index_select(&table, 1, &index)?;
    assert_close(&found, &op::index_select(&dense, 1, &index)?, 0.0)?;
    for (found, expected) in [
        (table.i(2..5)?, dense.i(2..5)?),
        (table.i(-1)?, dense.i(-1)?),
        (table.i((.., 1..3))?, dense.i((.., 1..3))?),
    ] {
        assert_close(&found.to_dense()?, &expected, 0.0)?;
    }
    let some = table.i(2..5)?;
    assert!(blocks::of(&some).is_some());
    assert!(table.i(10).is_err());
    assert!(op::embedding(&table, &tensor![10]?, -1, false, false).is_err());
    Ok(())
}

#[test]
fn other_operators_see_the_weights() -> Result<()> {
    let (weight, dense) = pair(Format::Q5_1, 4, 32)?;
    assert_eq!((weight.dtype(), weight.sizes().to_vec()), (DType::Float32, vec![4, 32]));
    assert_close(&op::mul_scalar(&weight, 2.into())?, &op::mul_scalar(&dense, 2.into())?, 0.0)?;
    // By its transpose it is a linear map, with activations of 8 bits.
    assert_close(
        &op::matmul(&dense, &op::t(&weight)?)?,
        &op::matmul(&dense, &op::t(&dense)?)?,
        0.1,
    )?;
    let (left, right) = (op::t(&weight)?, op::t(&dense)?);
    assert_close(&op::matmul(&left, &dense)?, &op::matmul(&right, &dense)?, 1e-4)?;
    assert!(op::mul__scalar(&weight, 2.into()).is_err());
    assert_close(&weight.data()?.to_dense()?, &dense, 0.0)?;
    assert!(format!("{weight}").contains("tensor("));
    Ok(())
}

#[test]
fn bytes_that_do_not_fit() -> Result<()> {
    let bytes = Tensor::zeros([34])?.to(DType::UInt8)?;
    assert!(blocks::from_bytes(Format::Q8_0, &bytes, &[1, 32]).is_ok());
    for sizes in [&[2, 32][..], &[32, 1], &[], &[-1, 32], &[1, 0], &[i64::MAX, 32], &[i64::MAX, 64]]
    {
        assert!(blocks::from_bytes(Format::Q8_0, &bytes, sizes).is_err(), "{sizes:?}");
    }
    assert!(blocks::from_bytes(Format::Q8_0, &Tensor::zeros([34])?, &[1, 32]).is_err());
    assert!(blocks::quantize(&Tensor::zeros([2, 31])?, Format::Q8_0).is_err());
    assert!(blocks::quantize(&tensor![1, 2]?, Format::Q8_0).is_err());
    Ok(())
}

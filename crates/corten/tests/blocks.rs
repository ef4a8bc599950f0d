//! The block formats of GGML: weights and blocks equal to those of its reference, and errors of what is quantised.
#![allow(clippy::unwrap_used, clippy::panic)] // tests may

use corten::blocks::{Format, Unpacked};
use corten::io::{Value, gguf, npy};
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
    assert!(opened.dequantized("v").is_err());
    std::fs::remove_file(&path).ok();
    Ok(())
}

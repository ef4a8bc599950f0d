//! What programs without threads and without mapped memory need: training and files. `make test-small` runs these
//! tests in a build without either; with them the values are the same.
#![allow(clippy::unwrap_used, clippy::panic)] // tests may

use corten::data::TokenFile;
use corten::io::torch::LoadOptions;
use corten::io::{Value, gguf, npy, safetensors, tensorboard, torch};
use corten::prelude::*;
use std::path::PathBuf;

fn scratch(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("corten-small-{}-{name}", std::process::id()))
}

/// Bars that lie or stand, at random places.
fn bars() -> Result<TensorDataset> {
    let (mut images, mut labels) = (Vec::new(), Vec::new());
    for number in 0..64_usize {
        let (label, place) = (number % 2, number / 2 % 8);
        images.extend((0..64).map(|at| {
            let on = if label == 0 { at / 8 == place } else { at % 8 == place };
            f32::from(u8::from(on))
        }));
        labels.push(label as i64);
    }
    let images = Tensor::from_vec(images, &[64, 1, 8, 8])?;
    TensorDataset::new(vec![images, Tensor::from_vec(labels, &[64])?])
}

fn network() -> Result<Sequential> {
    let same = Conv2dOptions { padding: 1.into(), ..Default::default() };
    Ok(Sequential::new()
        .with(Conv2d::with(1, 8, 3, same)?)
        .with(BatchNorm2d::new(8)?)
        .with(Relu)
        .with(MaxPool2d::new(2))
        .with(Flatten::default())
        .with(Linear::new(8 * 4 * 4, 2)?))
}

#[test]
fn a_network_learns() -> Result<()> {
    corten::manual_seed(0);
    let model = network()?;
    let mut optimizer =
        Adam::new(model.parameters(), AdamOptions { lr: 1e-2, ..Default::default() })?;
    let loader = DataLoader::new(bars()?, 16).shuffle(true);
    let mut losses = Vec::new();
    for _ in 0..6 {
        for batch in &loader {
            let batch = batch?;
            let loss = loss::cross_entropy(&model.forward(&batch[0])?, &batch[1])?;
            optimizer.zero_grad()?;
            loss.backward()?;
            optimizer.step()?;
            losses.push(loss.to_element::<f32>()?);
        }
    }
    assert_eq!(losses.len(), 24);
    let last = losses[20..].iter().sum::<f32>() / 4.0;
    assert!(losses[0] > 0.5 && last < 0.2, "{losses:?}");
    Ok(())
}

#[test]
fn ranges_are_whole_without_threads() -> Result<()> {
    // Long enough for several threads, where there are some.
    let x = Tensor::arange(0, 300_000)?.to(DType::Float64)?;
    let total = op::sum(&(&x * 2.0)?, None)?;
    assert_eq!(total.to_element::<f64>()?, 300_000.0 * 299_999.0);
    let product = op::matmul(&op::reshape(&x, &[300, 1000])?, &op::reshape(&x, &[1000, 300])?)?;
    let first: f64 = (0..1000).map(|k| f64::from(k) * 300.0 * f64::from(k)).sum();
    assert_eq!(product.to_vec::<f64>()?[0], first);
    let threads = corten::ops::parallel::num_threads();
    assert_eq!(threads == 1, !cfg!(feature = "threads") || threads == 1);
    Ok(())
}

#[test]
fn workers_need_threads() -> Result<()> {
    let loader = DataLoader::new(bars()?, 16).workers(2);
    match loader.iter() {
        Ok(batches) => assert_eq!(batches.count(), 4),
        Err(error) => {
            assert_ne!(
                cfg!(feature = "threads"),
                error.message().contains("are threads"),
                "{error}"
            );
        }
    }
    Ok(())
}

#[test]
fn backward_within_backward_ends_with_a_value_or_an_error() -> Result<()> {
    fn nested(depth: usize) -> Result<f32> {
        let x = tensor![1.0]?.requires_grad_(true)?;
        let y = (&x * 2.0)?;
        y.register_hook(move |_| {
            if depth > 0 {
                corten::enable_grad(|| nested(depth - 1))?;
            }
            Ok(None)
        })?;
        op::sum(&y, None)?.backward()?;
        x.grad().map_or(Ok(0.0), |grad| grad.to_element())
    }
    assert_eq!(nested(20)?, 2.0);
    match nested(100) {
        Ok(grad) => assert_eq!(grad, 2.0),
        Err(error) => {
            let is_told = error.message().contains("nested 60 deep");
            assert_ne!(cfg!(feature = "threads"), is_told, "{error}");
        }
    }
    Ok(())
}

/// Named tensors, one of them not contiguous and one empty.
fn tensors() -> Result<Vec<(String, Tensor)>> {
    let table = op::reshape(&Tensor::arange(0, 6)?, &[2, 3])?;
    Ok(vec![
        ("a".to_owned(), op::transpose_int(&table, 0, 1)?),
        ("b".to_owned(), tensor![0.5, -1.5; DType::BFloat16]?),
        ("c".to_owned(), Tensor::zeros([0, 3])?),
    ])
}

fn assert_same(found: &[(String, Tensor)], expected: &[(String, Tensor)]) -> Result<()> {
    assert_eq!(found.len(), expected.len());
    for ((name, tensor), (other, wanted)) in found.iter().zip(expected) {
        assert_eq!((name, tensor.sizes(), tensor.dtype()), (other, wanted.sizes(), wanted.dtype()));
        assert_eq!(tensor.to_vec::<f64>()?, wanted.to_vec::<f64>()?);
        // What is read is the program's own.
        op::fill__scalar(tensor, 7.into())?;
    }
    Ok(())
}

#[test]
fn safetensors_and_gguf_come_back() -> Result<()> {
    let (tensors, path) = (tensors()?, scratch("tensors"));
    let named = || tensors.iter().map(|(name, tensor)| (name.clone(), tensor));
    safetensors::save(&path, named(), None)?;
    for _ in 0..2 {
        assert_same(&safetensors::load(&path)?, &tensors)?;
    }
    let bytes = safetensors::to_bytes(named(), None)?;
    assert_eq!(bytes, std::fs::read(&path).unwrap());
    assert_same(&safetensors::read(&bytes)?, &tensors)?;
    assert!(safetensors::read(&[]).is_err());
    gguf::save(&path, &[("kind".to_owned(), Value::Int(3))], &tensors)?;
    for file in
        [gguf::Opened::new(&path)?, gguf::Opened::from_bytes(&std::fs::read(&path).unwrap())?]
    {
        assert!(matches!(file.get("kind"), Some(Value::Int(3))));
        let names = file.tensors().iter().map(|info| info.name.clone());
        let all = names.map(|name| Ok((name.clone(), file.tensor(&name)?)));
        assert_same(&all.collect::<Result<Vec<_>>>()?, &tensors)?;
    }
    std::fs::remove_file(path).unwrap();
    Ok(())
}

#[test]
fn archives_of_pytorch_and_numpy_come_back() -> Result<()> {
    let (tensors, path) = (tensors()?, scratch("archive"));
    let value = Value::from_pairs(
        tensors.iter().map(|(name, tensor)| (name.as_str(), Value::Tensor(tensor.clone()))),
    );
    let check = |options: LoadOptions| -> Result<()> {
        let read = torch::load_with(&path, options)?;
        for (name, tensor) in &tensors {
            let Some(Value::Tensor(found)) = read.get(name) else { panic!("{name} is missing") };
            assert_eq!(found.to_vec::<f64>()?, tensor.to_vec::<f64>()?);
        }
        Ok(())
    };
    torch::save(&path, &value)?;
    check(LoadOptions::default())?;
    check(LoadOptions { mmap: true, ..Default::default() })?;
    torch::save_legacy(&path, &value)?;
    check(LoadOptions::default())?;
    let arrays = [("a".to_owned(), tensors[0].1.clone()), ("c".to_owned(), tensors[2].1.clone())];
    for is_compressed in [false, true] {
        npy::save_npz(&path, arrays.iter().map(|(name, tensor)| (name, tensor)), is_compressed)?;
        assert_same(&npy::load_npz(&path)?, &arrays)?;
    }
    std::fs::remove_file(path).unwrap();
    Ok(())
}

#[test]
fn events_and_tokens_come_back() -> Result<()> {
    let folder = scratch("runs");
    let mut writer = tensorboard::SummaryWriter::new(&folder)?;
    writer.add_scalar("loss", 0.25, 4)?;
    writer.flush()?;
    let events = tensorboard::parse_events(&std::fs::read(writer.path()).unwrap())?;
    let value = tensorboard::EventValue::Scalar(0.25);
    assert_eq!((events[1].step, &events[1].values[0]), (4, &("loss".to_owned(), value)));
    std::fs::remove_dir_all(folder).unwrap();
    let path = scratch("tokens");
    std::fs::write(&path, (0..20_u16).flat_map(u16::to_le_bytes).collect::<Vec<u8>>()).unwrap();
    let tokens = TokenFile::open(&path, DType::UInt16)?;
    let (x, y) = tokens.blocks(4)?.get(1)?;
    assert_eq!((x.to_vec::<i64>()?, y.to_vec::<i64>()?), (vec![4, 5, 6, 7], vec![5, 6, 7, 8]));
    std::fs::remove_file(path).unwrap();
    Ok(())
}

//! Files of PyTorch: those in `tests/goldens`, and what is written and read back.
#![allow(clippy::unwrap_used, clippy::panic)] // tests may

use corten::Layout;
use corten::io::Value;
use corten::io::torch::{
    LoadOptions, UnknownClasses, load, load_bytes, load_with, save, save_legacy,
};
use corten::prelude::*;
use std::path::PathBuf;

const GOLDENS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/goldens");

fn tensor_of<'v>(value: &'v Value, name: &str) -> &'v Tensor {
    value.get(name).and_then(Value::tensor).unwrap_or_else(|| panic!("no tensor {name}"))
}

fn scratch(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("corten-files-{}-{name}", std::process::id()))
}

#[test]
fn archives_and_streams_of_pytorch() -> Result<()> {
    for name in ["saved_by_torch.pt", "saved_by_torch_legacy.pt"] {
        let value = load(format!("{GOLDENS}/{name}"))?;
        let (base, view) = (tensor_of(&value, "base"), tensor_of(&value, "view"));
        assert_eq!(base.sizes().as_slice(), [3, 4], "{name}");
        assert!(base.is_alias_of(view), "{name}: views share their storage");
        assert_eq!(tensor_of(&value, "half").dtype(), DType::Float16);
        assert_eq!(tensor_of(&value, "waves").dtype(), DType::Complex64);
        assert_eq!(tensor_of(&value, "empty").sizes().as_slice(), [0, 3]);
        assert!(matches!(value.get("dtype"), Some(Value::DType(DType::Float16))));
        assert!(matches!(value.get("size"), Some(Value::Size(sizes)) if sizes[..] == [2, 3]));
        assert!(matches!(value.get("device"), Some(Value::Device(Device::CPU))));
        let list = value.get("nested").unwrap().get("list").unwrap().elements().unwrap();
        assert_eq!((list[0].number(), list[2].text()), (Some(1.0), Some("x")), "{name}");
        let big = value.get("nested").unwrap().get("big");
        assert!(matches!(big, Some(Value::BigInt(bytes)) if bytes.len() == 9), "{big:?}");
    }
    Ok(())
}

#[test]
fn every_kind_of_value() -> Result<()> {
    for name in ["kinds_saved_by_torch.pt", "kinds_saved_by_torch_legacy.pt"] {
        let path = format!("{GOLDENS}/{name}");
        let value = load(&path)?;
        for dtype in ["float64", "bfloat16", "int16", "int64", "complex128", "bool"] {
            let tensor = tensor_of(&value, dtype);
            assert_eq!(tensor.dtype().name(), dtype, "{name}");
            assert_eq!(tensor.sizes().as_slice(), [3, 2], "{name}");
        }
        assert!(tensor_of(&value, "conjugate").is_conj(), "{name}");
        assert!(tensor_of(&value, "negative").is_neg(), "{name}");
        assert_eq!(tensor_of(&value, "meta").device(), Device::META);
        assert_eq!(tensor_of(&value, "sparse").layout(), Layout::Sparse, "{name}");
        let state = value.get("state").unwrap();
        assert_eq!(tensor_of(state, "0.weight").to_vec::<f32>()?, [1.0; 4]);
        let plain = value.get("plain").unwrap();
        assert!(matches!(plain.get("set"), Some(Value::Set(members)) if members.len() == 2));
        assert!(matches!(plain.get("bytes"), Some(Value::Bytes(bytes)) if bytes == b"bytes"));
        assert!(value.tensors().iter().any(|(path, _)| path == "optimizer.state.0.exp_avg"));
    }
    Ok(())
}

/// The optimizers' state that PyTorch has written goes into an optimizer.
#[test]
fn optimizers_take_the_states_of_pytorch() -> Result<()> {
    use corten::nn::optim::{Adam, AdamOptions, Optimizer, OptimizerState};
    let options = LoadOptions { unknown: UnknownClasses::Keep, ..Default::default() };
    let value = load_with(format!("{GOLDENS}/kinds_saved_by_torch.pt"), options)?;
    let state = OptimizerState::from_value(value.get("optimizer").unwrap())?;
    let leaf = Tensor::zeros([3])?.requires_grad_(true)?;
    let mut adam = Adam::new([leaf], AdamOptions::default())?;
    adam.load_state_dict(&state)?;
    let held = adam.state(0, 0).unwrap().tensor("exp_avg")?;
    assert_eq!(held.to_vec::<f32>()?, [0.1, 0.1, 0.1]);
    Ok(())
}

fn sample() -> Result<Value> {
    let base = op::reshape(&Tensor::arange(0, 12)?, &[3, 4])?;
    let bytes: Vec<u8> = (0..=255).collect();
    Ok(Value::from_pairs([
        ("base", Value::Tensor(base.clone())),
        ("view", Value::Tensor(op::transpose_int(&base.i((1.., ..))?, 0, 1)?)),
        ("half", Value::Tensor(tensor![1.5, -2.0; DType::Float16]?)),
        ("words", Value::Tensor(tensor![7u16, 9]?)),
        ("small", Value::Tensor(tensor![0.5, 2.0; DType::Float8E5m2]?)),
        ("flags", Value::Tensor(tensor![true, false]?)),
        ("number", Value::Tensor(op::sum(&base, None)?)),
        ("empty", Value::Tensor(Tensor::zeros([0, 3])?)),
        ("list", Value::List(vec![Value::Int(-1), Value::Int(1 << 40), Value::None])),
        ("tuple", Value::Tuple(vec![Value::Float(0.1), Value::Text("ü".to_owned())])),
        ("bytes", Value::Bytes(bytes)),
        ("set", Value::Set(vec![Value::Int(3)])),
        ("dtype", Value::DType(DType::BFloat16)),
        ("size", Value::Size(vec![2, 3])),
        ("device", Value::Device(Device::CPU)),
        ("complex", Value::Complex(1.0, -2.0)),
        ("numbers", Value::Dict(vec![(Value::Int(4), Value::Bool(true))])),
    ]))
}

#[test]
fn what_is_written_is_read() -> Result<()> {
    let value = sample()?;
    for (name, is_stream) in [("archive.pt", false), ("stream.pt", true)] {
        let path = scratch(name);
        if is_stream {
            save_legacy(&path, &value)?
        } else {
            save(&path, &value)?
        }
        for mmap in [false, true] {
            let found = load_with(&path, LoadOptions { mmap, ..Default::default() })?;
            let (Value::Dict(saved), Value::Dict(entries)) = (&value, &found) else {
                panic!("no dictionaries")
            };
            assert_eq!(saved.len(), entries.len());
            for ((key, before), (other, after)) in saved.iter().zip(entries) {
                assert_eq!(key.text(), other.text());
                match (before, after) {
                    (Value::Tensor(before), Value::Tensor(after)) => {
                        assert_eq!(before.dtype(), after.dtype());
                        assert_eq!(before.strides(), after.strides());
                        assert_eq!(before.to_vec::<f64>()?, after.to_vec::<f64>()?, "{key:?}");
                    }
                    _ => assert_eq!(format!("{before:?}"), format!("{after:?}")),
                }
            }
            assert!(tensor_of(&found, "base").is_alias_of(tensor_of(&found, "view")));
            // Writing to what was mapped does not change the file.
            op::fill__scalar(tensor_of(&found, "base"), 5.into())?;
        }
        std::fs::remove_file(path).unwrap();
    }
    Ok(())
}

/// `tests/goldens/saved_by_rust.pt` is read by the Python tests, too.
#[test]
fn files_do_not_change() -> Result<()> {
    let path = scratch("same.pt");
    save(&path, &sample()?)?;
    let golden = PathBuf::from(GOLDENS).join("saved_by_rust.pt");
    let written = std::fs::read(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    if std::env::var_os("CORTEN_BLESS").is_some() {
        std::fs::write(&golden, &written).unwrap();
    }
    // The folder in the archive is named after the file.
    let same = |bytes: &[u8]| load_bytes(bytes, LoadOptions::default()).map(|v| format!("{v:?}"));
    assert_eq!(same(&written)?, same(&std::fs::read(golden).unwrap())?);
    Ok(())
}

#[test]
fn hostile_files_are_refused() -> Result<()> {
    let path = scratch("hostile.pt");
    save(&path, &sample()?)?;
    let bytes = std::fs::read(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    // Cut off, and with any byte changed: an error or a value, never a panic.
    for end in (0..bytes.len()).step_by(7) {
        let _ = load_bytes(&bytes[..end], LoadOptions::default());
    }
    for at in 0..bytes.len().min(4096) {
        let mut changed = bytes.clone();
        changed[at] ^= 0x55;
        let _ = load_bytes(&changed, LoadOptions::default());
    }
    let message = |pickle: &[u8]| {
        let mut stream = Vec::new();
        stream.extend(b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.");
        stream.extend(b"\x80\x02M\xe9\x03.");
        stream.extend(b"\x80\x02}X\x0d\x00\x00\x00little_endian\x88s.");
        stream.extend(pickle);
        load_bytes(&stream, LoadOptions::default()).unwrap_err().message().to_owned()
    };
    assert!(message(b"cos\nsystem\n(X\x02\x00\x00\x00lstR.").contains("is blocked"));
    assert!(
        message(b"cmy.module\nThing\n)R.").contains("Unsupported global: GLOBAL my.module.Thing")
    );
    // A list in itself.
    assert!(message(b"]q\x00h\x00a.").contains("within itself"));
    // Lists of lists: two to the thirtieth.
    let mut laughs = b"]q\x00".to_vec();
    for _ in 0..30 {
        laughs.extend(b"](h\x00h\x00eq\x00");
    }
    laughs.push(b'.');
    assert!(message(&laughs).contains("more values than its size allows"));
    assert!(message(b"(((((").contains("Ran out of input"));
    assert!(message(b"0.").contains("no mark"));
    Ok(())
}

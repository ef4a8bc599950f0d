//! Files of NumPy and GGUF, written and read back; hostile ones.
#![allow(clippy::unwrap_used, clippy::panic)] // tests may

use corten::io::{Value, gguf, npy, safetensors};
use corten::prelude::*;
use std::path::PathBuf;

const GOLDENS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/goldens");

fn scratch(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("corten-formats-{}-{name}", std::process::id()))
}

#[test]
fn arrays_of_numpy() -> Result<()> {
    let matrix = op::reshape(&Tensor::arange(0, 6)?, &[2, 3])?;
    for tensor in [
        matrix.clone(),
        op::transpose_int(&matrix, 0, 1)?,
        tensor![1.5, -2.0; DType::Float16]?,
        tensor![true, false]?,
        tensor![7u16]?,
        Tensor::zeros([0, 3])?,
        op::sum(&matrix, None)?,
    ] {
        let bytes = npy::write(&tensor)?;
        assert!(bytes.len() >= 64 && bytes[..6] == *b"\x93NUMPY");
        let found = npy::read(&bytes)?;
        assert_eq!((found.dtype(), found.sizes()), (tensor.dtype(), tensor.sizes()));
        assert_eq!(found.to_vec::<f64>()?, tensor.to_vec::<f64>()?);
        for end in 0..bytes.len() {
            assert!(tensor.numel() == 0 || npy::read(&bytes[..end]).is_err(), "cut at {end}");
        }
    }
    let path = scratch("arrays.npz");
    for is_compressed in [false, true] {
        npy::save_npz(&path, [("a", &matrix), ("b", &tensor![0.5]?)], is_compressed)?;
        let found = npy::load_npz(&path)?;
        let names: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["a", "b"]);
        assert_eq!(found[0].1.to_vec::<i64>()?, [0, 1, 2, 3, 4, 5]);
    }
    std::fs::remove_file(path).unwrap();
    // What NumPy has written.
    assert!(!npy::load_npz(format!("{GOLDENS}/real_functions.npz"))?.is_empty());
    Ok(())
}

#[test]
fn headers_of_numpy() {
    let file = |header: &str, data: &[u8]| {
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend((header.len() as u16).to_le_bytes());
        bytes.extend(header.bytes());
        bytes.extend(data);
        npy::read(&bytes)
    };
    let fortran = "{'descr': '>i2', 'fortran_order': True, 'shape': (2, 2), }";
    let found = file(fortran, &[0, 1, 0, 2, 0, 3, 0, 4]).unwrap();
    assert_eq!(found.to_vec::<i64>().unwrap(), [1, 3, 2, 4]);
    let message = |header: &str| file(header, &[0; 8]).unwrap_err().message().to_owned();
    assert!(
        message("{'descr': '|O', 'fortran_order': False, 'shape': (1,)}").contains("Object arrays")
    );
    assert!(
        message("{'descr': '<U3', 'fortran_order': False, 'shape': (1,)}")
            .contains("cannot be tensors")
    );
    assert!(
        message("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}").contains("not valid")
    );
    assert!(message("{'descr': '<f4', 'fortran_order': False, 'shape': (9,)}").contains("shorter"));
    let many =
        "{'descr': '<f4', 'fortran_order': False, 'shape': (4294967295, 4294967295, 4294967295)}";
    assert!(message(many).contains("impossible"));
    // Nothing in a header is an expression.
    let keys = |descr: &str, order: &str, shape: &str, more: &str| {
        format!("{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}{more}}}")
    };
    let good = file(&keys("\"<f4\"", "False", "( 2 , )", "  , "), &[0; 8]).unwrap();
    assert_eq!(good.sizes().to_vec(), [2]);
    for header in [
        keys("'<f4' * 9", "False", "(2,)", ""),
        keys("'<f4'", "False or True", "(2,)", ""),
        keys("'<f4'", "False", "(2)", ""),
        keys("'<f4'", "False", "(2,) * 9", ""),
        keys("'<f4'", "False", "(2,)", ", 'shape': (1,)"),
        keys("'<f4'", "False", "(2,)", ", 'more': 1"),
        keys("'<f4'", "False", "(2,)", "") + "; 5",
        "{'descr': '<f4', 'shape': (2,)}".to_owned(),
    ] {
        assert!(file(&header, &[0; 8]).is_err(), "{header}");
    }
}

#[test]
fn headers_of_safetensors() -> Result<()> {
    let file = |header: &str, data: usize| {
        let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
        bytes.extend(header.bytes());
        bytes.resize(bytes.len() + data, 1);
        safetensors::read(&bytes)
    };
    let entry = r#"{"dtype":"F32","shape":[2],"data_offsets":[0,8]}"#;
    let good = format!(r#"{{"__metadata__":{{"k":"v"}},"ü\n":{entry}}}"#);
    assert_eq!(file(&good, 8)?[0].0, "ü\n");
    for (header, data, message) in [
        (format!(r#"{{"a":{entry},"a":{entry}}}"#), 8, "a name occurs twice"),
        (good.clone(), 9, "incomplete metadata, file not fully covered"),
        (good.replace("[0,8]", "[1,9]"), 9, "invalid offset for tensor `ü\n`"),
        (good.replace("[2]", "[3]"), 8, "invalid offset"),
        (good.replace("[2]", "[4294967296,4294967296,0]"), 8, "overflows"),
        (good.replace("F32", "F31"), 8, "unknown dtype of tensor `ü\n`"),
        (good.replace("[2]", "[2.0]"), 8, "invalid JSON in header"),
        (good.replace("\"v\"", "1"), 8, "invalid JSON in header"),
    ] {
        let error = file(&header, data).unwrap_err();
        assert!(error.message().contains(message), "{header}: {error}");
    }
    assert!(safetensors::read(b"short").is_err());
    // Names are written as JSON, and come back.
    let path = scratch("names.safetensors");
    let (one, two) = (tensor![1.5; DType::Float64]?, tensor![true, false]?);
    let metadata = [("quoted \"key\"".to_owned(), "line\nbreak".to_owned())].into();
    safetensors::save(&path, [("\"flags\"", &two), ("ü", &one)], Some(metadata))?;
    let opened = safetensors::Opened::new(&path)?;
    assert_eq!(opened.names()?, ["\"flags\"", "ü"]);
    assert_eq!(opened.metadata().unwrap()["quoted \"key\""], "line\nbreak");
    assert_eq!(opened.info("ü")?.start() % 8, 0);
    assert_eq!(opened.tensor("\"flags\"")?.to_vec::<bool>()?, [true, false]);
    assert!(safetensors::save(&path, [("a", &one), ("a", &two)], None).is_err());
    std::fs::remove_file(path).unwrap();
    Ok(())
}

fn metadata() -> Vec<(String, Value)> {
    let text = |text: &str| Value::Text(text.to_owned());
    [
        ("general.architecture", text("llama")),
        ("llama.block_count", Value::Int(2)),
        ("large", Value::Int(1 << 40)),
        ("scale", Value::Float(0.5)),
        ("flag", Value::Bool(true)),
        ("tokens", Value::List(vec![text("a"), text("ü")])),
        ("sizes", Value::List(vec![Value::Int(-1), Value::Int(3)])),
        ("nested", Value::List(vec![Value::List(vec![Value::Bool(false)])])),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .to_vec()
}

#[test]
fn models_of_ggml() -> Result<()> {
    let path = scratch("model.gguf");
    let tensors = [
        ("first".to_owned(), tensor![[1., 2., 3.], [4., 5., 6.]]?),
        ("half".to_owned(), tensor![0.5, 1.5; DType::BFloat16]?),
    ];
    gguf::save(&path, &metadata(), &tensors)?;
    let file = gguf::Opened::new(&path)?;
    assert_eq!(format!("{:?}", file.metadata()), format!("{:?}", metadata()));
    for (name, tensor) in &tensors {
        let found = file.tensor(name)?;
        assert_eq!((found.dtype(), found.sizes()), (tensor.dtype(), tensor.sizes()));
        assert_eq!(found.to_vec::<f64>()?, tensor.to_vec::<f64>()?);
    }
    assert!(file.tensor("other").is_err());
    let bytes = std::fs::read(&path).unwrap();
    let other = scratch("hostile.gguf");
    let mut refused = 0;
    for at in (0..bytes.len()).step_by(3) {
        std::fs::write(&other, &bytes[..at]).unwrap();
        refused += u32::from(gguf::Opened::new(&other).is_err());
        let mut changed = bytes.clone();
        changed[at] ^= 0xff;
        std::fs::write(&other, &changed).unwrap();
        if let Ok(file) = gguf::Opened::new(&other) {
            for info in file.tensors() {
                file.tensor(&info.name)?;
            }
        }
    }
    assert!(refused > 100);
    std::fs::remove_file(other).unwrap();
    std::fs::remove_file(path).unwrap();
    Ok(())
}

/// Quantised tensors are their bytes until they have a layout of their own.
#[test]
fn quantised_blocks_are_bytes() -> Result<()> {
    let path = scratch("quantised.gguf");
    let mut bytes = b"GGUF\x03\0\0\0".to_vec();
    bytes.extend(1_u64.to_le_bytes());
    bytes.extend(0_u64.to_le_bytes());
    bytes.extend(1_u64.to_le_bytes());
    bytes.push(b'w');
    bytes.extend(2_u32.to_le_bytes());
    [64_u64, 3].iter().for_each(|size| bytes.extend(size.to_le_bytes()));
    bytes.extend(8_u32.to_le_bytes());
    bytes.extend(0_u64.to_le_bytes());
    bytes.resize(bytes.len().next_multiple_of(32) + 3 * 2 * 34, 7);
    std::fs::write(&path, &bytes).unwrap();
    let file = gguf::Opened::new(&path)?;
    let info = file.info("w")?;
    assert_eq!((info.shape.as_slice(), info.element_type.name), (&[3, 64][..], "Q8_0"));
    let found = file.tensor("w")?;
    assert_eq!((found.dtype(), found.sizes().to_vec()), (DType::UInt8, vec![3, 68]));
    std::fs::remove_file(path).unwrap();
    Ok(())
}

//! Files of NumPy and GGUF, written and read back; hostile ones.
#![allow(clippy::unwrap_used, clippy::panic)] // tests may

use corten::io::{Value, gguf, npy};
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

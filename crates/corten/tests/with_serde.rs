//! Tensors and state dicts in formats of `serde`.
#![allow(clippy::unwrap_used)] // tests may

use corten::prelude::*;
use std::collections::BTreeMap;

fn again(tensor: &Tensor) -> Tensor {
    serde_json::from_str(&serde_json::to_string(tensor).unwrap()).unwrap()
}

#[test]
fn tensors_of_every_dtype() -> Result<()> {
    let numbers = op::reshape(&Tensor::arange(0, 6)?, &[2, 3])?;
    for &dtype in DType::NUMERIC {
        let Ok(tensor) = op::t(&numbers)?.to(dtype) else { continue };
        let found = again(&tensor);
        assert_eq!((found.dtype(), found.sizes()), (dtype, tensor.sizes()));
        let bytes = |tensor: &Tensor| -> Result<Vec<u8>> {
            op::view_dtype(&op::flatten_using_ints(tensor, 0, -1)?, DType::UInt8)?.to_vec()
        };
        assert_eq!(bytes(&found)?, bytes(&tensor)?, "{dtype}");
    }
    assert_eq!(again(&Tensor::zeros([0, 3])?).sizes().as_slice(), [0, 3]);
    assert_eq!(again(&op::sum(&numbers, None)?).to_element::<i64>()?, 15);
    Ok(())
}

#[test]
fn what_is_written() -> Result<()> {
    let text = serde_json::to_string(&tensor![[1i16, -2]]?).unwrap();
    assert_eq!(text, r#"{"dtype":"int16","shape":[1,2],"data":[1,0,254,255]}"#);
    Ok(())
}

#[test]
fn state_dicts() -> Result<()> {
    let mut state: BTreeMap<String, Tensor> = BTreeMap::new();
    state.insert("weight".to_owned(), tensor![[1.5, 2.5]]?.requires_grad_(true)?.clone());
    state.insert("bias".to_owned(), tensor![0.5]?);
    let text = serde_json::to_vec(&state).unwrap();
    let found: BTreeMap<String, Tensor> = serde_json::from_slice(&text).unwrap();
    assert_eq!(found.keys().collect::<Vec<_>>(), ["bias", "weight"]);
    assert_eq!(found["weight"].to_vec::<f32>()?, [1.5, 2.5]);
    assert!(!found["weight"].requires_grad());
    Ok(())
}

#[test]
fn what_does_not_fit_is_refused() {
    for (text, said) in [
        (r#"{"dtype":"float32","shape":[2],"data":[0,0,0,0]}"#, "are not a tensor"),
        (r#"{"dtype":"float32","shape":[-1],"data":[]}"#, "are not a tensor"),
        (r#"{"dtype":"int8","shape":[4294967296,4294967296],"data":[]}"#, "are not a tensor"),
        (r#"{"dtype":"text","shape":[0],"data":[]}"#, "no dtype"),
        (r#"{"dtype":"int8","shape":[1],"data":[256]}"#, "invalid value"),
        (r#"{"dtype":"int8","shape":[1]}"#, "missing field"),
    ] {
        let error = serde_json::from_str::<Tensor>(text).unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
    }
    let truths = r#"{"dtype":"bool","shape":[2],"data":[7,0]}"#;
    let truths: Tensor = serde_json::from_str(truths).unwrap();
    assert_eq!(truths.to_vec::<bool>().unwrap(), [true, false]);
}

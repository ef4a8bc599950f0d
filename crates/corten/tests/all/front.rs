//! What programs in Rust write: builders, literals, slices, conversions.
#![allow(clippy::unwrap_used)] // tests may

use corten::prelude::*;

#[test]
fn builders_have_the_defaults_of_the_schemas() -> Result<()> {
    corten::manual_seed(0);
    let [q, k, v] = [(); 3].map(|()| Tensor::randn([2, 3, 4, 8]).unwrap());
    let expected = op::scaled_dot_product_attention(&q, &k, &v, None, 0.0, true, None, false)?;
    let found = build::scaled_dot_product_attention(&q, &k, &v).is_causal(true).call()?;
    assert!(op::equal(&found, &expected)?);
    let (x, w) = (Tensor::randn([1, 2, 7, 7])?, Tensor::randn([4, 1, 3, 3])?);
    let expected = op::conv2d(&x, &w, None, &[2, 2], &[1, 1], &[1, 1], 2)?;
    let found = build::conv2d(&x, &w).stride(&[2, 2]).padding(&[1, 1]).groups(2).call()?;
    assert!(op::equal(&found, &expected)?);
    let filled = build::full(&[2], 3).dtype(DType::Float64).call()?;
    assert_eq!(filled.to_vec::<f64>()?, [3.0, 3.0]);
    Ok(())
}

#[test]
fn literals_have_pythons_dtypes() -> Result<()> {
    for (found, dtype) in [
        (tensor![1.5, 2.0]?, DType::Float32),
        (tensor![1, 2]?, DType::Int64),
        (tensor![true, false]?, DType::Bool),
        (tensor![1f32, 2.0]?, DType::Float32),
        (tensor![1u8]?, DType::UInt8),
        (tensor![1, 2; DType::Float64]?, DType::Float64),
        (tensor![[[1, 2]], [[3, 4]]; DType::Int8]?, DType::Int8),
    ] {
        assert_eq!(found.dtype(), dtype);
    }
    assert_eq!(tensor![[[1, 2]], [[3, 4]]]?.sizes().as_slice(), [2, 1, 2]);
    let empty: [f32; 0] = [];
    assert_eq!(tensor![empty, empty]?.sizes().as_slice(), [2, 0]);
    Ok(())
}

#[test]
fn slices_and_conversions() -> Result<()> {
    let x = op::reshape(&Tensor::arange(0, 24)?, &[2, 3, 4])?;
    assert_eq!(x.i(s![1, .., 0..4; 3])?.to_vec::<i64>()?, [12, 15, 16, 19, 20, 23]);
    assert_eq!(x.i(s![corten::ops::index::Ellipsis, -1])?.to_vec::<i64>()?, [3, 7, 11, 15, 19, 23]);
    let y = Tensor::try_from(vec![1.0f64, 2.0])?;
    assert_eq!(Vec::<f64>::try_from(&y)?, [1.0, 2.0]);
    assert!(Vec::<f32>::try_from(&y).is_err());
    assert_eq!(f64::try_from(&y.sum()?)?, 3.0);
    let reversed: Vec<i64> =
        x.i((0, .., 0))?.rows()?.rev().map(|row| row?.to_element()).collect::<Result<_>>()?;
    assert_eq!(reversed, [8, 4, 0]);
    assert!(tensor![1]?.i(0)?.rows().is_err());
    Ok(())
}

//! Arrays of `ndarray` as tensors and back.

use corten::prelude::*;
use ndarray::{Array, Array1, Array2, Array3, ArrayD, Axis, arr0, arr2, s as span};

#[test]
fn arrays_become_tensors() -> Result<()> {
    let table = arr2(&[[1.0f32, 2.0, 3.0], [4.0, 5.0, 6.0]]);
    let start = table.as_ptr().addr();
    let copied = Tensor::try_from(&table)?;
    assert_eq!((copied.sizes().as_slice(), copied.dtype()), (&[2, 3][..], DType::Float32));
    assert_eq!(copied.to_vec::<f32>()?, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let turned = Tensor::try_from(table.view().reversed_axes())?;
    assert_eq!(turned.to_vec::<f32>()?, [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
    // An array is taken with its order.
    let taken = Tensor::try_from(table.reversed_axes())?;
    assert_eq!((taken.sizes().as_slice(), taken.strides().as_slice()), (&[3, 2][..], &[1, 3][..]));
    let rows = op::t(&taken)?;
    assert_eq!(corten::core::Reader::<f32>::new(&rows)?.as_ptr().addr(), start);
    let mut backwards = Array1::from_vec(vec![1i64, 2, 3]);
    backwards.invert_axis(Axis(0));
    assert_eq!(Tensor::try_from(backwards)?.to_vec::<i64>()?, [3, 2, 1]);
    let tail = Array1::from_vec(vec![1u8, 2, 3, 4]).slice_move(span![1..;2]);
    assert_eq!(Tensor::try_from(tail)?.to_vec::<u8>()?, [2, 4]);
    assert!(Tensor::try_from(arr0(true))?.to_element::<bool>()?);
    assert_eq!(Tensor::try_from(Array3::<f64>::zeros((2, 0, 3)))?.sizes().as_slice(), [2, 0, 3]);
    Ok(())
}

#[test]
fn tensors_become_arrays() -> Result<()> {
    let table = op::t(&tensor![[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]?)?;
    let array = Array2::<f32>::try_from(&table)?;
    assert_eq!(array, arr2(&[[1.0, 4.0], [2.0, 5.0], [3.0, 6.0]]));
    assert_eq!(ArrayD::<f32>::try_from(&table)?.shape(), [3, 2]);
    assert!(Array1::<f32>::try_from(&table).is_err(), "another rank");
    assert!(Array2::<f64>::try_from(&table).is_err(), "another dtype");
    let empty = Array::<f32, ndarray::Ix2>::try_from(&Tensor::zeros([0, 4])?)?;
    assert_eq!(empty.dim(), (0, 4));
    Ok(())
}

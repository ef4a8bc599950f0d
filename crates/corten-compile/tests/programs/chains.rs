//! Chains that are put together.

use crate::sketch::Sketch;
use corten::core::Scalar;
use corten::ops::IValue;
use corten::prelude::*;

fn input(sizes: &[i64]) -> Result<Tensor> {
    let numel: i64 = sizes.iter().product();
    let values: Vec<f32> = (0..numel).map(|i| ((i * 37 % 101) as f32 - 50.0) / 23.0).collect();
    Tensor::from_vec(values, sizes)
}

#[test]
fn arithmetic_is_one_group() -> Result<()> {
    let (x, g, b) = (input(&[70, 100])?, input(&[100])?, input(&[100])?);
    let mut sketch = Sketch::default();
    let a = sketch.one("aten::mul.Tensor", &[(&x).into(), (&g).into()])?;
    let c = sketch.one("aten::add.Tensor", &[(&a).into(), (&b).into(), 1_i64.into()])?;
    let d = sketch.one("aten::mul.Scalar", &[(&c).into(), 0.5.into()])?;
    let e = sketch.one("aten::add.Tensor", &[(&d).into(), (&x).into(), 1_i64.into()])?;
    let report = sketch.check(&[&e])?;
    assert_eq!(report.groups, [vec![0, 1, 2, 3]]);
    assert_eq!(report.removed_buffers, 3);
    assert!(report.peak_bytes < report.peak_bytes_apart);
    Ok(())
}

#[test]
fn results_that_are_wanted_are_stored() -> Result<()> {
    let x = input(&[40_000])?;
    let mut sketch = Sketch::default();
    let a = sketch.one("aten::exp", &[(&x).into()])?;
    let b = sketch.one("aten::tanh", &[(&a).into()])?;
    let c = sketch.one("aten::mul.Tensor", &[(&a).into(), (&b).into()])?;
    let report = sketch.check(&[&a, &c])?;
    assert_eq!(report.groups.len(), 1);
    assert_eq!(report.removed_buffers, 1);
    Ok(())
}

#[test]
fn calls_in_place_write_their_buffers() -> Result<()> {
    let (x, y) = (input(&[9, 300])?, input(&[9, 300])?);
    let mut sketch = Sketch::default();
    let a = sketch.one("aten::sigmoid", &[(&x).into()])?;
    sketch.one("aten::mul_.Tensor", &[(&a).into(), (&y).into()])?;
    sketch.one("aten::add_.Tensor", &[(&x).into(), (&a).into(), 2_i64.into()])?;
    sketch.one("aten::neg_", &[(&a).into()])?;
    let report = sketch.check(&[&a])?;
    assert_eq!(report.groups, [vec![0, 1, 2, 3]]);
    Ok(())
}

#[test]
fn masks_numbers_and_casts() -> Result<()> {
    let x = input(&[33, 65])?;
    let mut sketch = Sketch::default();
    let mask = sketch.one("aten::gt.Scalar", &[(&x).into(), 0.25.into()])?;
    let half = sketch.one(
        "aten::_to_copy",
        &[
            (&x).into(),
            IValue::DType(DType::BFloat16).into(),
            IValue::None.into(),
            IValue::None.into(),
            IValue::None.into(),
            IValue::Bool(false).into(),
            IValue::None.into(),
        ],
    )?;
    let number = super::sketch::Given::Number(Scalar::Float(1.7));
    let scaled = sketch.one("aten::mul.Tensor", &[(&half).into(), number])?;
    let squared = sketch.one("aten::pow.Tensor_Scalar", &[(&scaled).into(), 2_i64.into()])?;
    let chosen =
        sketch.one("aten::where.self", &[(&mask).into(), (&squared).into(), (&half).into()])?;
    let report = sketch.check(&[&chosen])?;
    assert_eq!(report.groups.iter().map(Vec::len).sum::<usize>(), 5, "{}", sketch.text());
    Ok(())
}

#[test]
fn kernels_stand_between_groups() -> Result<()> {
    let (x, w) = (input(&[16, 32])?, input(&[32, 32])?);
    let mut sketch = Sketch::default();
    let a = sketch.one("aten::mul.Scalar", &[(&x).into(), 0.5.into()])?;
    let b = sketch.one("aten::relu", &[(&a).into()])?;
    let c = sketch.one("aten::mm", &[(&b).into(), (&w).into()])?;
    let d = sketch.one("aten::tanh", &[(&c).into()])?;
    let e = sketch.one("aten::add.Tensor", &[(&d).into(), (&x).into(), 1_i64.into()])?;
    let report = sketch.check(&[&e])?;
    assert_eq!(report.groups, [vec![0, 1], vec![3, 4]]);
    Ok(())
}

#[test]
fn what_nothing_depends_on_runs_later() -> Result<()> {
    let (x, w) = (input(&[16, 32])?, input(&[32, 32])?);
    let mut sketch = Sketch::default();
    let gate = sketch.one("aten::silu", &[(&x).into()])?;
    let up = sketch.one("aten::mm", &[(&x).into(), (&w).into()])?;
    let both = sketch.one("aten::mul.Tensor", &[(&gate).into(), (&up).into()])?;
    let report = sketch.check(&[&both])?;
    assert_eq!(report.groups, [vec![0, 2]]);
    Ok(())
}

#[test]
fn views_that_overlap_keep_their_order() -> Result<()> {
    let x = input(&[64])?;
    let mut sketch = Sketch::default();
    let (low, high) = (x.narrow(0, 0, 32)?, x.narrow(0, 16, 32)?);
    let a = sketch.one("aten::exp", &[(&low).into()])?;
    sketch.one("aten::add_.Tensor", &[(&low).into(), (&a).into(), 1_i64.into()])?;
    let b = sketch.one("aten::mul.Tensor", &[(&high).into(), (&a).into()])?;
    sketch.one("aten::copy_", &[(&high).into(), (&b).into(), IValue::Bool(false).into()])?;
    sketch.check(&[&a, &b])?;
    Ok(())
}

#[test]
fn division_by_zero_is_an_error() -> Result<()> {
    let (x, y) =
        (Tensor::from_vec(vec![1_i64, 2, 3], &[3])?, Tensor::from_vec(vec![1_i64, 2, 3], &[3])?);
    let mut sketch = Sketch::default();
    let a = sketch.one("aten::mul.Tensor", &[(&x).into(), (&y).into()])?;
    let b = sketch.one("aten::floor_divide", &[(&a).into(), (&y).into()])?;
    sketch.check(&[&b])?;
    let zeros = Tensor::from_vec(vec![0_i64; 3], &[3])?;
    let storage = &sketch.program.buffers()[1].storage;
    storage.write_bytes(0, &zeros.storage()?.read_bytes()?)?;
    let failed = corten_compile::Plan::compile(&sketch.program).run(&sketch.program);
    assert!(failed.is_err_and(|failed| failed.error.message().contains("ZeroDivisionError")));
    Ok(())
}

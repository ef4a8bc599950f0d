//! Regions: what is recorded, what runs at once, and that nobody can tell by results.
#![allow(clippy::unwrap_used, clippy::panic)] // tests may

use corten::prelude::*;
use corten_compile::{Region, flush_thread, is_recording, start_statistics, take_statistics};

fn numbers(values: &[f32]) -> Tensor {
    Tensor::from_vec(values.to_vec(), &[values.len() as i64]).unwrap()
}

/// Runs `body` at once and twice in regions: operators run at once the first time that they get a dtype.
fn check(body: impl Fn(&Tensor) -> Result<Tensor>) -> Vec<f32> {
    let input = || numbers(&[1.0, 2.0, 3.0]);
    let expected = body(&input()).unwrap().to_vec::<f32>().unwrap();
    for _ in 0..2 {
        let region = Region::enter();
        let found = body(&input()).unwrap();
        region.finish().unwrap();
        assert_eq!(found.to_vec::<f32>().unwrap(), expected);
    }
    expected
}

#[test]
fn chains_views_and_writes() {
    check(|x| {
        let y = (&(x * 2.0)? + x)?;
        let row = y.i(1)?;
        op::add__scalar(&row, 10.into(), 1.into())?;
        op::exp(&op::neg(&y)?)
    });
    check(|x| {
        let y = op::mul_scalar(x, 2.into())?;
        op::copy_(x, &op::add_tensor(&y, x, 1.into())?, false)?;
        op::add_tensor(x, &y, 1.into())
    });
}

#[test]
fn storages_wait_and_are_filled() {
    let x = numbers(&[1.0, 4.0]);
    op::sqrt(&x).unwrap();
    for _ in 0..2 {
        let region = Region::enter();
        assert!(is_recording());
        let root = op::sqrt(&x).unwrap();
        let storage = root.storage().unwrap();
        let waits = storage.is_pending();
        flush_thread().unwrap();
        assert!(!storage.is_pending() && !storage.data_ptr().is_null());
        region.finish().unwrap();
        assert_eq!(root.to_vec::<f32>().unwrap(), [1.0, 2.0]);
        assert!(!is_recording());
        if waits {
            return;
        }
    }
    panic!("the second call of an operator is recorded");
}

#[test]
fn other_threads_see_results() {
    let x = numbers(&[1.0, 2.0]);
    for _ in 0..50 {
        let region = Region::enter();
        let y = op::exp(&op::neg(&x).unwrap()).unwrap();
        let (seen, z) = std::thread::scope(|scope| {
            let reader = scope.spawn(|| y.to_vec::<f32>().unwrap());
            let z = op::add_tensor(&y, &x, 1.into()).unwrap();
            (reader.join().unwrap(), z)
        });
        assert_eq!(seen, [(-1f32).exp(), (-2f32).exp()]);
        region.finish().unwrap();
        assert_eq!(z.to_vec::<f32>().unwrap(), [1.0 + (-1f32).exp(), 2.0 + (-2f32).exp()]);
    }
}

#[test]
fn threads_that_share_a_tensor_record_apart() {
    let shared = numbers(&[1.0; 16]);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..100 {
                    let region = Region::enter();
                    let y = op::add_scalar(&shared, 1.into(), 1.into()).unwrap();
                    let z = op::mul_tensor(&y, &y).unwrap();
                    region.finish().unwrap();
                    assert_eq!(z.to_vec::<f32>().unwrap(), [4.0; 16]);
                }
            });
        }
    });
}

#[test]
fn gradients_of_regions() {
    for _ in 0..3 {
        let x = numbers(&[1.0, 2.0]).requires_grad_(true).unwrap();
        let region = Region::enter();
        let y = op::sum(&(&x * &x).unwrap().exp().unwrap(), None).unwrap();
        region.finish().unwrap();
        y.backward().unwrap();
        let expected: Vec<f32> = vec![2.0 * 1f32.exp(), 4.0 * 4f32.exp()];
        let grad = x.grad().unwrap().to_vec::<f32>().unwrap();
        assert!(grad.iter().zip(&expected).all(|(a, b)| (a - b).abs() <= 1e-6 * b), "{grad:?}");
    }
}

#[test]
fn failures_are_told_to_who_looks() {
    let (x, at) = (numbers(&[1.0, 2.0]), Tensor::from_vec(vec![5i64], &[1]).unwrap());
    let inside = Tensor::from_vec(vec![1i64], &[1]).unwrap();
    for _ in 0..2 {
        let region = Region::enter();
        // First calls of their kinds, which run at once.
        op::neg(&op::index_select(&x, 0, &inside).unwrap()).unwrap();
        let before = op::exp(&x).unwrap();
        let beyond = op::index_select(&x, 0, &at).unwrap();
        let after = op::neg(&beyond).unwrap();
        assert!(region.finish().is_err());
        assert_eq!(before.to_vec::<f32>().unwrap(), [1f32.exp(), 2f32.exp()]);
        assert!(beyond.to_vec::<f32>().is_err() && after.to_vec::<f32>().is_err());
    }
}

#[test]
fn statistics_name_operators() {
    let x = numbers(&[1.0, 2.0]);
    for _ in 0..2 {
        start_statistics();
        let region = Region::enter();
        let y = op::tanh(&x).unwrap();
        y.to_vec::<f32>().unwrap();
        region.finish().unwrap();
    }
    let found = take_statistics().unwrap();
    assert_eq!(found.programs.len(), 1);
    assert_eq!(found.programs[0][0].0, "aten::tanh");
    assert_eq!(found.breaks.len(), 1);
}

/// An activation that only a backward pass would read, with its argument: after a region that returned `kept`.
fn activation(kept: bool) -> (Tensor, Tensor) {
    let x = numbers(&[0.5; 8192]);
    for _ in 0..2 {
        let region = Region::enter();
        let argument = op::mul_scalar(&x, 3.into()).unwrap();
        let result = op::tanh(&argument).unwrap();
        let returned = [&argument, &result];
        region.finish_returning(&returned[..1 + usize::from(kept)]).unwrap();
        let left = result.storage().unwrap().is_pending();
        if left || kept {
            assert_eq!(left, !kept);
            assert!(!argument.storage().unwrap().data_ptr().is_null());
            return (argument, result);
        }
    }
    panic!("the second calls are recorded");
}

/// What [`activation`] gives.
fn activated() -> f32 {
    op::tanh(&numbers(&[1.5; 64])).unwrap().to_vec::<f32>().unwrap()[0]
}

fn all_are(tensor: &Tensor, expected: f32) -> bool {
    tensor.to_vec::<f32>().unwrap().iter().all(|&value| value == expected)
}

#[test]
fn results_are_computed_again() {
    let (argument, result) = activation(false);
    let storage = result.storage().unwrap();
    assert!(storage.is_pending() && storage.data_ptr().is_null());
    assert!(all_are(&result, activated()));
    assert!(!storage.is_pending() && !argument.storage().unwrap().is_pending());
    let (_, result) = activation(true);
    assert!(!result.storage().unwrap().is_pending());
}

#[test]
fn writes_wait_for_what_is_computed_again() {
    let (argument, result) = activation(false);
    op::fill__scalar(&argument, 0.into()).unwrap();
    assert!(all_are(&result, activated()) && all_are(&argument, 0.0));
    let (argument, result) = activation(false);
    op::fill__scalar(&result, 7.into()).unwrap();
    assert!(all_are(&result, 7.0) && all_are(&argument, 1.5));
}

#[test]
fn what_nobody_computes_again_goes() {
    let (argument, result) = activation(false);
    let storage = argument.storage().unwrap();
    assert!(storage.is_pending());
    drop(result);
    assert!(!storage.is_pending());
    drop(argument);
    assert_eq!(storage.use_count(), 1);
}

#[test]
fn programs_take_over_what_is_computed_again() {
    for _ in 0..2 {
        let (argument, result) = activation(false);
        let region = Region::enter();
        let sum = op::add_tensor(&result, &argument, 1.into()).unwrap();
        op::mul__scalar(&argument, 2.into()).unwrap();
        region.finish().unwrap();
        assert!(all_are(&sum, 1.5 + activated()) && all_are(&argument, 3.0));
        assert!(all_are(&result, activated()));
    }
    let (_, result) = activation(false);
    let other = std::thread::spawn(move || all_are(&result, activated()));
    assert!(other.join().unwrap());
}

#[test]
fn memory_of_operands_that_end_is_taken_over() {
    let run = || {
        let x = numbers(&[1.0; 65536]);
        let region = Region::enter();
        let product = op::matmul(&x.view(&[256, 256]).unwrap(), &x.view(&[256, 256]).unwrap());
        let result = op::exp(&op::neg(&product.unwrap()).unwrap()).unwrap();
        region.finish().unwrap();
        assert!(all_are(&result, (-256f32).exp()));
    };
    (0..2).for_each(|_| run());
    start_statistics();
    run();
    let found = take_statistics().unwrap();
    assert_eq!(found.reports.iter().map(|report| report.in_place).sum::<usize>(), 1);
}

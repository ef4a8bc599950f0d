//! Slices with negative steps, lazy clones, host memory and expressions.
#![allow(clippy::unwrap_used, clippy::panic)]

use corten::memory::{self, MemoryReport};
use corten::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

fn counting(n: i64, sizes: &[i64]) -> Tensor {
    Tensor::arange(0, n).unwrap().view(sizes).unwrap()
}

fn numbers(tensor: &Tensor) -> Vec<i64> {
    tensor.to_vec::<i64>().unwrap()
}

#[test]
fn slices_with_negative_steps_are_views() -> Result<()> {
    let x = counting(12, &[3, 4]);
    let view = x.i(s![..; -1, ..; -2])?;
    assert_eq!((view.sizes().as_slice(), view.strides().as_slice()), (&[3, 2][..], &[-4, -2][..]));
    assert_eq!(numbers(&view), [11, 9, 7, 5, 3, 1]);
    assert_eq!(numbers(&(&view + &view)?), [22, 18, 14, 10, 6, 2]);
    assert_eq!(view.i((0, 1))?.to_element::<i64>()?, 9);
    x.set_i(s![..; -1, 0], &tensor![-1, -2, -3]?)?;
    assert_eq!(numbers(&x.i((.., 0))?), [-3, -2, -1]);
    assert_eq!(numbers(&x.slice_step(-1, -2, None, -1)?.i(0)?), [2, 1, -3]);
    assert_eq!(numbers(&counting(5, &[5]).slice_step(0, 1, 4, 2)?), [1, 3]);
    assert!(x.slice_step(0, None, None, 0).is_err() && x.slice_step(2, None, None, -1).is_err());
    assert_eq!(counting(3, &[3]).slice_step(0, 0, 2, -1)?.numel(), 0);
    assert_eq!(format!("{view}"), format!("{}", view.contiguous()?));
    Ok(())
}

#[test]
fn they_have_gradients_and_go_to_files() -> Result<()> {
    let x = tensor![1.0, 2.0, 3.0]?.requires_grad_(true)?;
    let y = (x.i(s![..; -1])? * tensor![1.0, 10.0, 100.0]?)?;
    y.sum()?.backward()?;
    assert_eq!(x.grad().unwrap().to_vec::<f32>()?, [100.0, 10.0, 1.0]);
    let path = std::env::temp_dir().join(format!("reversed_{}.pt", std::process::id()));
    let value = corten::io::Value::Tensor(x.detach()?.i(s![..; -1])?);
    corten::io::torch::save(&path, &value)?;
    let read = corten::io::torch::load(&path)?;
    std::fs::remove_file(&path).unwrap();
    let corten::io::Value::Tensor(read) = read else { panic!("a tensor was saved") };
    assert_eq!((read.to_vec::<f32>()?, read.strides()[0]), (vec![3.0, 2.0, 1.0], 1));
    Ok(())
}

#[test]
fn lazy_clones_share_until_a_write() -> Result<()> {
    let x = counting(6, &[2, 3]);
    let clone = op::_lazy_clone(&x)?;
    let shared = || -> Result<(bool, bool)> {
        Ok((x.storage()?.is_copy_on_write(), clone.storage()?.is_copy_on_write()))
    };
    assert_eq!((numbers(&(&x + &clone)?), shared()?), (vec![0, 2, 4, 6, 8, 10], (true, true)));
    x.add_scalar_(1)?;
    assert_eq!((numbers(&x), numbers(&clone)), (vec![1, 2, 3, 4, 5, 6], vec![0, 1, 2, 3, 4, 5]));
    assert_eq!(shared()?, (false, true));
    clone.zero_()?;
    assert_eq!((numbers(&x)[5], shared()?), (6, (false, false)));
    Ok(())
}

#[test]
fn a_reporter_sees_every_block() -> Result<()> {
    let in_use = Arc::new(AtomicI64::new(0));
    let counter = Arc::clone(&in_use);
    let thread = std::thread::current().id();
    let watching = memory::install_reporter(Arc::new(move |event: &MemoryReport| {
        if std::thread::current().id() == thread {
            counter.fetch_add(event.nbytes, Ordering::Relaxed);
        }
    }));
    let x = Tensor::zeros([1000])?;
    assert!(in_use.load(Ordering::Relaxed) >= 4000);
    drop(x);
    assert_eq!(in_use.load(Ordering::Relaxed), 0);
    drop(watching);
    let before = memory::stats();
    let _x = Tensor::zeros([1 << 20])?;
    assert!(
        memory::stats().allocated_bytes.allocated >= before.allocated_bytes.allocated + (4 << 20)
    );
    assert_eq!(in_use.load(Ordering::Relaxed), 0);
    Ok(())
}

#[test]
fn expressions_have_one_question_mark() -> Result<()> {
    let (a, b) = (tensor![1.0, 2.0]?, tensor![3.0, 4.0]?);
    let values = |tensor: Result<Tensor>| tensor.unwrap().to_vec::<f32>().unwrap();
    assert_eq!(values(expr!(a * b - b * b)), [-6.0, -8.0]);
    assert_eq!(values(expr!((a + b) - 1.0)), [3.0, 5.0]);
    assert_eq!(values(expr!(-(a * b))), [-3.0, -8.0]);
    assert_eq!(values(expr!(2.0 * (a + b) / 4)), [2.0, 3.0]);
    assert_eq!(values(expr!(1 - a / 2)), [0.5, 0.0]);
    assert_eq!(values(expr!(2 * 3 * a)), [6.0, 12.0]);
    assert_eq!(values(expr!(1 / 2 * a)), [0.5, 1.0]);
    assert_eq!(values(expr!(a.exp() * 0 + a)), [1.0, 2.0]);
    let (borrowed, weight) = (&a, 0.5_f32);
    assert_eq!(values(expr!(borrowed * weight + -1.0)), [-0.5, 0.0]);
    assert!(expr!(a + tensor![1.0, 2.0, 3.0]? * b).is_err());
    assert!(expr!(2.0 * 3.0).is_err());
    let x = tensor![2.0]?.requires_grad_(true)?;
    expr!(x * x * x - 2.0 * x)?.sum()?.backward()?;
    assert_eq!(x.grad().unwrap().to_vec::<f32>()?, [10.0]);
    Ok(())
}

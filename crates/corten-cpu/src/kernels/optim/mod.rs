//! Whole steps of optimizers, in which each number is read and written once. Roundings are those of
//! the operators that the steps are made of.

mod adadelta;
mod adam;
mod sgd;

pub use adadelta::adadelta_step_;
pub use adam::{fused_adam_, fused_adamw_};
pub use sgd::fused_sgd_;

use super::support::{flat, is_shape_only};
use crate::parallel::chunks::{for_each_chunk, grain_of};
use crate::rows::Wide;
use crate::rows::loops::{RowKernel, for_each_vector, load, store};
use crate::vec::{Lanes, prefetch_ahead};
use corten_core::{Access, AccessSet, DType, MemoryFormat, Result, ensure, match_dtype};
use corten_ops::{Tensor, op};

/// Elements that one thread updates at a time.
const CHUNK: usize = 1 << 14;

/// The place of the gradient among the tensors of a parameter; the parameter is the first.
const GRAD: usize = 1;

/// What a step does to a number of a parameter, its gradient and its state, which are `N` in all.
trait Rule<const N: usize>: Copy + Send + Sync {
    /// The numbers after the step. The gradient is not kept.
    fn moved<V: Lanes>(&self, numbers: [V; N]) -> [V; N];
}

/// A step for every parameter of the first of the lists, which are followed by gradients and states:
/// each by a rule of its own. Gradients are divided by a scale; where an infinity was found, there is no
/// step.
fn step_all<R: Rule<N>, const N: usize>(
    name: &'static str,
    lists: [&[Tensor]; N],
    [grad_scale, found_inf]: [Option<&Tensor>; 2],
    rules: impl FnOnce() -> Result<Vec<R>>,
) -> Result<()> {
    let number = |tensor: Option<&Tensor>| -> Result<Option<f64>> {
        Ok(tensor.map(op::item).transpose()?.map(|number| number.to_f64()))
    };
    let scale = number(grad_scale)?;
    if number(found_inf)? == Some(1.0) {
        return Ok(());
    }
    let rules = rules()?;
    check(lists[0], &lists[1..])?;
    for (i, rule) in rules.into_iter().enumerate() {
        update(name, lists.map(|list| &list[i]), rule, scale)?;
    }
    Ok(())
}

/// Checks that there are as many gradients and states as parameters, and that those of each have its
/// shape and dtype.
fn check(params: &[Tensor], lists: &[&[Tensor]]) -> Result<()> {
    ensure!(
        lists.iter().all(|list| list.len() == params.len()),
        Runtime,
        "a fused step needs as many gradients and states as parameters"
    );
    for list in lists {
        for (param, tensor) in params.iter().zip(*list) {
            ensure!(
                tensor.sizes() == param.sizes() && tensor.dtype() == param.dtype(),
                Runtime,
                "a parameter, its gradient and its state need the same shape and dtype"
            );
        }
    }
    Ok(())
}

/// Updates one parameter, given its tensors: where they are, or in copies that are written back.
fn update<const N: usize>(
    name: &'static str,
    tensors: [&Tensor; N],
    rule: impl Rule<N>,
    scale: Option<f64>,
) -> Result<()> {
    if is_shape_only(tensors[0]) {
        return Ok(());
    }
    let dtype = tensors[0].dtype();
    if !dtype.is_reduced_float() && lie_alike(&tensors) {
        return match_dtype!(dtype, name, SingleDouble, T => run::<T, N>(tensors, rule, scale));
    }
    let wide = if dtype.is_reduced_float() { DType::Float32 } else { dtype };
    let copy = |tensor: &Tensor| {
        let wide = op::to_dtype(tensor, wide, false, false, None)?;
        op::clone(&wide, Some(MemoryFormat::Contiguous))
    };
    let copies = tensors.iter().map(|tensor| copy(tensor)).collect::<Result<Vec<_>>>()?;
    let own = std::array::from_fn(|i| &copies[i]);
    match_dtype!(wide, name, SingleDouble, T => run::<T, N>(own, rule, scale))?;
    for (i, (tensor, copy)) in tensors.iter().zip(&copies).enumerate() {
        if i != GRAD || scale.is_some() {
            op::copy_(tensor, copy, false)?;
        }
    }
    Ok(())
}

/// Whether tensors of a shape are dense, their elements in the same order, in storages of their own.
fn lie_alike(tensors: &[&Tensor]) -> bool {
    let first = tensors[0];
    let apart = |i: usize| tensors[..i].iter().all(|t| t.storage_key() != tensors[i].storage_key());
    first.is_non_overlapping_and_dense()
        && (0..tensors.len()).all(|i| apart(i) && tensors[i].strides() == first.strides())
}

/// A part of each tensor.
struct Chunk<'a, T, const N: usize>([&'a mut [T]; N]);

/// Updates tensors that [lie alike](lie_alike).
fn run<T: Wide, const N: usize>(
    tensors: [&Tensor; N],
    rule: impl Rule<N>,
    scale: Option<f64>,
) -> Result<()> {
    let flat = tensors.iter().map(|tensor| flat(tensor)).collect::<Result<Vec<_>>>()?;
    let wanted: Vec<_> = flat.iter().map(|tensor| (tensor.base(), Access::Write)).collect();
    let set = AccessSet::acquire(&wanted)?;
    let mut slices: [&mut [T]; N] = std::array::from_fn(|_| &mut [] as &mut [T]);
    for (i, slice) in slices.iter_mut().enumerate() {
        *slice = set.write::<T>(i)?;
    }
    let mut parts = Vec::new();
    while !slices[0].is_empty() {
        let length = slices[0].len().min(CHUNK);
        parts.push(Chunk(slices.each_mut().map(|slice| {
            let (now, later) = std::mem::take(slice).split_at_mut(length);
            *slice = later;
            now
        })));
    }
    for_each_chunk(&mut parts, 1, grain_of(CHUNK), |_, parts| {
        for Chunk(rows) in parts {
            T::run(Update { rule, scale, rows: rows.each_mut().map(|row| &mut **row) });
        }
        Ok(())
    })
}

/// The rows of a step.
struct Update<'a, T, R, const N: usize> {
    rule: R,
    /// What the gradients are divided by.
    scale: Option<f64>,
    rows: [&'a mut [T]; N],
}

impl<T: Wide, R: Rule<N>, const N: usize> RowKernel<T> for Update<'_, T, R, N> {
    type Out = ();

    #[inline(always)]
    fn run<V: Lanes<Elem = T>>(self) {
        let count = self.rows[0].len();
        // Rows that are known to be as long need no checks vector by vector.
        let mut rows = self.rows.map(|row| &mut row[..count]);
        for_each_vector!(V, count, |i, n| {
            move_at::<T, V, R, N>(self.rule, self.scale, &mut rows, i, n)
        });
    }
}

/// Moves the numbers from one place of the rows on, as many as a vector has at the most.
#[inline(always)]
fn move_at<T: Wide, V: Lanes<Elem = T>, R: Rule<N>, const N: usize>(
    rule: R,
    scale: Option<f64>,
    rows: &mut [&mut [T]; N],
    i: usize,
    n: usize,
) {
    let mut numbers = [V::lit(0.0); N];
    for (number, row) in numbers.iter_mut().zip(&*rows) {
        prefetch_ahead(row.as_ptr().wrapping_add(i));
        *number = load(row, i, n);
    }
    if let Some(scale) = scale {
        numbers[GRAD] = numbers[GRAD] / V::lit(scale);
        store(numbers[GRAD], rows[GRAD], i, n);
    }
    let numbers = rule.moved(numbers);
    for (at, &number) in numbers.iter().enumerate() {
        if at != GRAD {
            store(number, rows[at], i, n);
        }
    }
}

/// The gradient that leads to larger values, and with the decay of the parameter.
#[inline(always)]
fn decayed<V: Lanes>(param: V, grad: V, weight_decay: f64, maximize: bool) -> V {
    let grad = if maximize { -grad } else { grad };
    match weight_decay == 0.0 {
        true => grad,
        false => param.mul_add(V::lit(weight_decay), grad),
    }
}

/// A running mean of squares.
#[inline(always)]
fn mean_square<V: Lanes>(mean: V, value: V, rho: f64) -> V {
    (V::lit(1.0 - rho) * value).mul_add(value, mean * V::lit(rho))
}

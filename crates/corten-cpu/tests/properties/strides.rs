//! Which strides an operator gives its result.
//!
//! 1. Operands of one shape that are all contiguous, all channels-last, or all dense with the same
//!    strides pass their layout on.
//! 2. Otherwise dimensions are sorted from the fastest to the slowest by asking the operands in
//!    turn. An operand that repeats along a dimension has no opinion; a pair on which nobody has
//!    one stays as it is.

use crate::sample::{Layout, packed};
use std::cmp::Ordering;

/// The strides of a result of this shape, computed from these operands.
pub(crate) fn of_result(shape: &[i64], operands: &[Layout]) -> Vec<i64> {
    if operands.iter().all(|operand| operand.sizes == shape) {
        if operands.iter().all(is_contiguous) {
            return Layout::contiguous(shape).strides;
        }
        if operands.iter().all(is_channels_last) {
            return packed(shape, &[1, 3, 2, 0]);
        }
        let first = &operands[0].strides;
        if operands.iter().all(|operand| is_dense(operand) && operand.strides == *first) {
            return first.clone();
        }
    }
    let seen: Vec<Layout> = operands.iter().map(|operand| operand.broadcast(shape)).collect();
    let order = sorted(shape.len(), |a, b| seen.iter().find_map(|operand| faster(operand, a, b)));
    // Unlike those of `Layout::contiguous`, strides here are plain products, 0 after a size 0.
    let reversed = order.iter().rev().copied().eq(0..shape.len());
    if reversed { Layout::contiguous(shape).strides } else { products(shape, &order) }
}

/// The strides of a copy that keeps the layout: the same if there are no gaps, else packed in the
/// same order.
pub(crate) fn of_copy(layout: &Layout) -> Vec<i64> {
    if is_dense(layout) {
        return layout.strides.clone();
    }
    packed(&layout.sizes, &sorted(layout.sizes.len(), |a, b| faster(layout, a, b)))
}

/// The strides of a layout seen with dimensions of size 1 put in or left out.
///
/// From the last dimension on, neighbours that are walked as one form a group; each group passes
/// its strides to as many dimensions of the new shape as have its number of elements, and to those
/// of size 1 before them.
pub(crate) fn of_view(layout: &Layout, shape: &[i64]) -> Vec<i64> {
    if layout.numel() == 0 {
        return Layout::contiguous(shape).strides;
    }
    let (mut strides, mut open) = (vec![1; shape.len()], shape.len());
    let (mut base, mut group) = (layout.strides.last().copied().unwrap_or(1), 1);
    for dim in (0..layout.sizes.len()).rev() {
        group *= layout.sizes[dim];
        let joins = |left: usize| layout.sizes[left] == 1 || layout.strides[left] == group * base;
        if dim > 0 && joins(dim - 1) {
            continue;
        }
        let mut taken = 1;
        while open > 0 && (taken < group || shape[open - 1] == 1) {
            open -= 1;
            strides[open] = taken * base;
            taken *= shape[open];
        }
        (base, group) = (if dim > 0 { layout.strides[dim - 1] } else { 1 }, 1);
    }
    strides
}

fn products(shape: &[i64], order: &[usize]) -> Vec<i64> {
    let mut strides = vec![0; shape.len()];
    for (k, &dim) in order.iter().enumerate() {
        strides[dim] = order[..k].iter().map(|&faster| shape[faster]).product();
    }
    strides
}

/// `Less` if an operand says that dimension `a` is faster than `b`.
fn faster(operand: &Layout, a: usize, b: usize) -> Option<Ordering> {
    let (x, y) = (operand.strides[a], operand.strides[b]);
    match x.cmp(&y) {
        _ if x == 0 || y == 0 => None,
        Ordering::Equal if operand.sizes[a] > operand.sizes[b] => Some(Ordering::Greater),
        Ordering::Equal => None,
        decided => Some(decided),
    }
}

/// An insertion sort from the last dimension to the first that skips undecided pairs.
fn sorted(rank: usize, compare: impl Fn(usize, usize) -> Option<Ordering>) -> Vec<usize> {
    let mut order: Vec<usize> = (0..rank).rev().collect();
    for start in 1..rank {
        let mut at = start;
        for before in (0..start).rev() {
            match compare(order[before], order[at]) {
                Some(Ordering::Greater) => {
                    order.swap(before, at);
                    at = before;
                }
                Some(_) => break,
                None => {}
            }
        }
    }
    order
}

/// Whether elements follow each other in row-major order; an empty tensor's do.
pub(crate) fn is_contiguous(layout: &Layout) -> bool {
    let first = layout.offset as usize;
    layout.positions().into_iter().eq(first..first + layout.numel())
}

/// The same with channels, of images, as the fastest dimension.
fn is_channels_last(layout: &Layout) -> bool {
    layout.sizes.len() == 4
        && is_contiguous(&{
            let moved = |of: &[i64]| [0, 2, 3, 1].map(|dim| of[dim]).to_vec();
            Layout { sizes: moved(&layout.sizes), strides: moved(&layout.strides), offset: 0 }
        })
}

/// Whether the elements fill a block, each place once.
pub(crate) fn is_dense(layout: &Layout) -> bool {
    let mut all = layout.positions();
    all.sort_unstable();
    let first = layout.offset as usize;
    all.into_iter().eq(first..first + layout.numel())
}

//! The iteration space of a group: dimensions in the order of memory, merged where all operands allow it.

use crate::ir::Operand;
use corten_core::Dims;
use smallvec::SmallVec;

/// The strides of an operand along each dimension of `sizes`, in bytes; 0 where it broadcasts. `None` where it
/// does not broadcast to them.
pub(crate) fn strides_over(operand: &Operand, sizes: &[i64]) -> Option<Dims> {
    let missing = sizes.len().checked_sub(operand.sizes.len())?;
    let itemsize = operand.dtype.itemsize() as i64;
    let mut strides = Dims::from_elem(0, missing);
    for ((&own, &stride), &size) in
        operand.sizes.iter().zip(&operand.strides).zip(&sizes[missing..])
    {
        strides.push(match own {
            _ if own == size && size != 1 => stride * itemsize,
            1 => 0,
            _ => return None,
        });
    }
    Some(strides)
}

/// Whether different elements of an operand lie in different bytes, as far as its strides tell.
pub(crate) fn is_injective(operand: &Operand) -> bool {
    let dims = operand.sizes.iter().zip(&operand.strides).filter(|(size, _)| **size > 1);
    let mut dims: SmallVec<[(i64, i64); 6]> =
        dims.map(|(&size, &stride)| (stride.abs(), size)).collect();
    dims.sort_unstable();
    let mut extent = 1;
    dims.iter().all(|&(stride, size)| {
        let apart = stride >= extent;
        extent += stride * (size - 1);
        apart
    })
}

/// Dimensions, the fastest first, with the strides of every operand along them.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Space {
    pub(crate) sizes: SmallVec<[i64; 4]>,
    /// By operand, then by dimension.
    pub(crate) strides: Vec<SmallVec<[i64; 4]>>,
}

impl Space {
    /// The space of sizes over operands of these strides; those of operand `leader` decide the order.
    pub(crate) fn new(sizes: &[i64], strides: &[Dims], leader: usize) -> Self {
        let mut order: SmallVec<[usize; 6]> =
            (0..sizes.len()).rev().filter(|&dim| sizes[dim] != 1).collect();
        if let Some(leading) = strides.get(leader) {
            // Stable: equal strides stay in the order of the dimensions.
            order.sort_by_key(|&dim| leading[dim].abs());
        }
        let mut space =
            Self { sizes: SmallVec::new(), strides: vec![SmallVec::new(); strides.len()] };
        for dim in order {
            let last = space.sizes.len().checked_sub(1);
            let merges = last.is_some_and(|last| {
                let along = space.strides.iter().zip(strides);
                along.into_iter().all(|(own, all)| all[dim] == own[last] * space.sizes[last])
            });
            match last {
                Some(last) if merges => space.sizes[last] *= sizes[dim],
                _ => {
                    space.sizes.push(sizes[dim]);
                    for (own, all) in space.strides.iter_mut().zip(strides) {
                        own.push(all[dim]);
                    }
                }
            }
        }
        if space.sizes.is_empty() {
            space.sizes.push(1);
            space.strides.iter_mut().for_each(|own| own.push(0));
        }
        space
    }

    /// As [`new`](Self::new), with the last dimensions as rows: the first dimension of the space, which is merged
    /// with no other. `None` where an operand has no single stride along rows.
    pub(crate) fn of_rows(
        sizes: &[i64],
        strides: &[Dims],
        leader: usize,
        reduced: usize,
    ) -> Option<Self> {
        let kept = sizes.len().checked_sub(reduced)?;
        let cut = |from: usize, to: usize| -> Vec<Dims> {
            strides.iter().map(|all| Dims::from_slice(&all[from..to])).collect()
        };
        let rows = Self::new(&sizes[kept..], &cut(kept, sizes.len()), usize::MAX);
        let across = Self::new(&sizes[..kept], &cut(0, kept), leader);
        let (&[length], own) = (&rows.sizes[..], across.sizes) else { return None };
        let sizes = std::iter::once(length).chain(own).collect();
        let pairs = rows.strides.iter().zip(&across.strides);
        let strides = pairs.map(|(row, across)| row.iter().chain(across).copied().collect());
        Some(Self { sizes, strides: strides.collect() })
    }

    /// The number of steps.
    pub(crate) fn numel(&self) -> i64 {
        self.sizes.iter().product()
    }
}

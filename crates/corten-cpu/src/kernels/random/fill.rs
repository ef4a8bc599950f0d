//! Filling a tensor element by element in memory order.

use crate::kernels::support::is_shape_only;
use corten_core::{
    Dims, Element, Generator, GeneratorGuard, Result, Writer, default_cpu_generator, geometry,
};
use corten_ops::{Tensor, op};

/// The generator of a call: the one given, or the CPU's default.
pub(super) fn with_generator<R>(
    generator: Option<&Generator>,
    run: impl FnOnce(&mut GeneratorGuard<'_>) -> Result<R>,
) -> Result<R> {
    match generator {
        Some(generator) => run(&mut generator.expect_host()?.lock()),
        None => run(&mut default_cpu_generator().lock()),
    }
}

/// Whether a call draws no numbers, so that PyTorch's takes every dtype: no loop is chosen for an
/// empty tensor.
pub(super) fn draws_nothing(target: &Tensor) -> bool {
    target.numel() == 0 && !is_shape_only(target)
}

/// Fills `target` with samples, the fastest-varying dimension in memory first.
pub(super) fn fill<T: Element>(target: &Tensor, mut sample: impl FnMut() -> T) -> Result<()> {
    fill_with(target, |out: &mut [T]| out.iter_mut().for_each(|slot| *slot = sample()))
}

/// [`fill`] with samples that are drawn many at a time.
pub(super) fn fill_with<T: Element>(target: &Tensor, samples: impl FnOnce(&mut [T])) -> Result<()> {
    geometry::assert_no_internal_overlap(target)?;
    if target.numel() == 0 || is_shape_only(target) {
        return Ok(());
    }
    let ordered = in_memory_order(target)?;
    if ordered.is_contiguous() {
        samples(&mut Writer::<T>::new(&ordered)?);
        return Ok(());
    }
    let values = op::empty_like(
        &ordered,
        None,
        None,
        None,
        None,
        Some(corten_core::MemoryFormat::Contiguous),
    )?;
    samples(&mut Writer::<T>::new(&values)?);
    op::copy_(&ordered, &values, false)?;
    Ok(())
}

/// The tensor with its dimensions permuted into [`memory_order`].
pub(super) fn in_memory_order(tensor: &Tensor) -> Result<Tensor> {
    op::permute(tensor, &memory_order(tensor))
}

/// The permutation that makes row-major order the order of an iterator over this one tensor:
/// strides descending, ambiguous dimensions left in place.
pub(super) fn memory_order(tensor: &Tensor) -> Dims {
    let (sizes, strides) = (tensor.sizes(), tensor.strides());
    let mut order: Dims = (0..sizes.len() as i64).rev().collect();
    for i in 1..order.len() {
        let mut moving = i;
        for other in (0..i).rev() {
            let (a, b) = (order[other] as usize, order[moving] as usize);
            if strides[a] == 0 || strides[b] == 0 {
                continue;
            }
            if strides[a] > strides[b] || (strides[a] == strides[b] && sizes[a] > sizes[b]) {
                order.swap(other, moving);
                moving = other;
            } else if strides[a] < strides[b] {
                break;
            }
        }
    }
    order.reverse();
    order
}

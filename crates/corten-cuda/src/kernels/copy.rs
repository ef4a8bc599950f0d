//! Copies: on a device between any layouts and dtypes, between devices, and to and from the host.

use crate::memory::{
    copy_between_devices, copy_on_device, copy_to_device, copy_to_host, use_pinned,
};
use crate::pointwise::{Expression, run_as};
use crate::stream::Stream;
use corten_core::{Device, Result, Scalar, TensorBase, TensorOptions};
use corten_ops::meta::Domain;
use corten_ops::{Tensor, TensorIterator, op};

static COPY: Expression =
    Expression { name: "copy_cuda", operator: "Copy", text: "", inputs: 1, domain: Domain::Every };

/// Copies input 0 to output 0, converting between their dtypes.
///
/// # Errors
/// Those of the driver; `OutOfMemory` for what is gathered before a transfer.
pub fn copy(iter: &mut TensorIterator, scalars: &[Scalar]) -> Result<()> {
    if iter.numel() == 0 {
        return Ok(());
    }
    let (to, from) = (iter.device_of(0), iter.device_of(1));
    if to == from {
        return copy_within(iter);
    }
    let dense = iter.dtype(0) == iter.dtype(1) && is_dense(iter);
    let non_blocking = scalars.first().is_some_and(|flag| flag.to_bool());
    match dense {
        true => transfer(iter, to, from, non_blocking),
        false => transfer_gathered(iter, to, from, non_blocking),
    }
}

fn is_dense(iter: &TensorIterator) -> bool {
    let size = iter.dtype(0).itemsize() as i64;
    iter.numel() == 1
        || iter.ndim() <= 1
            && (0..2).all(|i| iter.strides(i).first().is_none_or(|&stride| stride == size))
}

fn copy_within(iter: &mut TensorIterator) -> Result<()> {
    let plain = iter.dtype(0) == iter.dtype(1) && is_dense(iter);
    if plain && !crate::joint::is_open() && !crate::fused::is_recording() {
        let bytes = iter.numel() as usize * iter.dtype(0).itemsize();
        let stream = Stream::current(iter.device().index);
        let at = iter.pointers()?;
        // SAFETY: the iterator holds both, and they have that many bytes side by side.
        return unsafe { copy_on_device(stream, at[0] as u64, at[1] as u64, bytes) };
    }
    let dtype = iter.dtype(1);
    run_as(&COPY, iter, &[], dtype)
}

/// A transfer of bytes that lie side by side on both ends. Transfers from and to pageable memory end
/// before the call does; those of pinned memory may go on behind it if the caller does not wait.
fn transfer(iter: &mut TensorIterator, to: Device, from: Device, non_blocking: bool) -> Result<()> {
    let bytes = iter.numel() as usize * iter.dtype(0).itemsize();
    let at = iter.pointers()?;
    let (target, source) = (at[0], at[1]);
    // SAFETY: the iterator holds both until the end of the call, by which transfers with the host are
    // done; what stays on devices is used again only later in the stream.
    unsafe {
        if to.is_cpu() {
            let stream = Stream::current(from.index);
            copy_to_host(stream, target, source as u64, bytes)?;
            let goes_on = use_pinned(target, stream) && non_blocking;
            if goes_on { Ok(()) } else { stream.finish() }
        } else if from.is_cpu() {
            let stream = Stream::current(to.index);
            copy_to_device(stream, target as u64, source, bytes)?;
            let goes_on = use_pinned(source, stream) && non_blocking;
            if goes_on { Ok(()) } else { stream.finish() }
        } else {
            // The source's stream waits for nothing here: its memory is given back in its own order.
            let (writing, reading) = (Stream::current(to.index), Stream::current(from.index));
            writing.follow(reading)?;
            copy_between_devices(writing, target as u64, (source as u64, from.index), bytes)?;
            reading.follow(writing)
        }
    }
}

/// A transfer with another layout or dtype on one of the ends: the source is made dense in the target's
/// dtype where it lies, then sent, then spread where the target lies.
fn transfer_gathered(
    iter: &mut TensorIterator,
    to: Device,
    from: Device,
    non_blocking: bool,
) -> Result<()> {
    let (target, source) = (iter.tensor(0).clone(), iter.tensor(1).clone());
    let sizes = target.sizes();
    let dense = |device: Device| -> Result<Tensor> {
        let options = TensorOptions::default().dtype(target.dtype()).device(device);
        Ok(TensorBase::empty(&sizes, options)?.into())
    };
    let is_dense_source =
        source.dtype() == target.dtype() && source.is_contiguous() && source.sizes() == sizes;
    let gathered = match is_dense_source {
        true => source,
        false => op::copy_(&dense(from)?, &source, false)?,
    };
    if target.is_contiguous() {
        return op::copy_(&target, &gathered, non_blocking).map(drop);
    }
    let arrived = op::copy_(&dense(to)?, &gathered, false)?;
    op::copy_(&target, &arrived, false).map(drop)
}

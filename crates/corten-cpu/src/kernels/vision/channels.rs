//! Bins that have channels of their own: which one each bin is of.

use super::region::RegionShape;
use crate::kernels::support::contiguous;
use corten_core::{DType, Reader, Result, ensure};
use corten_ops::Tensor;

/// The channel of the images that place number `place` of a region is of: the bins of a channel of
/// the result are channels side by side.
pub(super) fn write_channels(channels: &mut [i32]) {
    channels.iter_mut().enumerate().for_each(|(place, channel)| *channel = place as i32);
}

/// That the channels which a backward function was given are those of the forward function.
///
/// # Errors
/// `Runtime` for others.
pub(super) fn check_channels(mapping: &Tensor, grad: &Tensor, sizes: &RegionShape) -> Result<()> {
    ensure!(
        mapping.sizes() == grad.sizes() && mapping.dtype() == DType::Int32,
        Runtime,
        "channel_mapping should be an int32 tensor of the shape of grad"
    );
    let mapping = contiguous(mapping)?;
    let mapping = Reader::<i32>::new(&mapping)?;
    let place = |nr: usize| (nr % sizes.channels.max(1)) as i32;
    ensure!(
        mapping.iter().enumerate().all(|(nr, &channel)| channel == place(nr)),
        Runtime,
        "channel_mapping should be the one that the forward function returned"
    );
    Ok(())
}

//! Elements moved between dimensions.

use crate::{Tensor, op};
use corten_core::{DType, Device, Layout, Result, ensure, geometry};

fn leading(self_: &Tensor, name: &str) -> Result<usize> {
    ensure!(
        self_.dim() >= 3,
        Runtime,
        "{name} expects input to have at least 3 dimensions, but got input with {} dimension(s)",
        self_.dim()
    );
    Ok(self_.dim() - 3)
}

/// Channels spread over blocks of pixels: $(…, C r², H, W)$ to $(…, C, H r, W r)$.
///
/// # Errors
/// `Runtime` for shapes and factors that do not fit.
pub fn pixel_shuffle(self_: &Tensor, upscale_factor: i64) -> Result<Tensor> {
    let (lead, r) = (leading(self_, "pixel_shuffle")?, upscale_factor);
    ensure!(r > 0, Runtime, "pixel_shuffle expects a positive upscale_factor, but got {r}");
    let sizes = self_.sizes();
    let [channels, height, width] = [sizes[lead], sizes[lead + 1], sizes[lead + 2]];
    let square = r.checked_mul(r).filter(|square| channels % square == 0);
    let Some(square) = square else {
        corten_core::bail!(
            Runtime,
            "pixel_shuffle expects its input's 'channel' dimension to be divisible by the square \
             of upscale_factor, but input.size(-3)={channels} is not divisible by {}",
            r.wrapping_mul(r)
        )
    };
    let lead_sizes = &sizes[..lead];
    let split = [lead_sizes, &[channels / square, r, r, height, width]].concat();
    let n = lead as i64;
    let mut order: Vec<i64> = (0..n).collect();
    order.extend([n, n + 3, n + 1, n + 4, n + 2]);
    let moved = op::permute(&op::reshape(self_, &split)?, &order)?;
    let joined = [lead_sizes, &[channels / square, height * r, width * r]].concat();
    own(self_, &op::reshape(&moved, &joined)?)
}

/// The result in memory of its own, also where no element moved.
fn own(self_: &Tensor, result: &Tensor) -> Result<Tensor> {
    let format = corten_core::MemoryFormat::Contiguous;
    match result.is_alias_of(self_) {
        true => op::clone(result, Some(format)),
        false => op::contiguous(result, format),
    }
}

/// The inverse of [`pixel_shuffle`].
///
/// # Errors
/// `Runtime` for shapes and factors that do not fit.
pub fn pixel_unshuffle(self_: &Tensor, downscale_factor: i64) -> Result<Tensor> {
    let (lead, r) = (leading(self_, "pixel_unshuffle")?, downscale_factor);
    ensure!(r > 0, Runtime, "pixel_unshuffle expects a positive downscale_factor, but got {r}");
    let sizes = self_.sizes();
    let [channels, height, width] = [sizes[lead], sizes[lead + 1], sizes[lead + 2]];
    for (name, size, dim) in [("height", height, -2), ("width", width, -1)] {
        ensure!(
            size % r == 0,
            Runtime,
            "pixel_unshuffle expects {name} to be divisible by downscale_factor, but \
             input.size({dim})={size} is not divisible by {r}"
        );
    }
    if self_.numel() == 0 {
        return op::clone(self_, None);
    }
    let lead_sizes = &sizes[..lead];
    let split = [lead_sizes, &[channels, height / r, r, width / r, r]].concat();
    let n = lead as i64;
    let mut order: Vec<i64> = (0..n).collect();
    order.extend([n, n + 2, n + 4, n + 1, n + 3]);
    let moved = op::permute(&op::reshape(self_, &split)?, &order)?;
    // An empty image may have blocks larger than itself.
    let many = channels.saturating_mul(r).saturating_mul(r);
    let joined = [lead_sizes, &[many, height / r, width / r]].concat();
    own(self_, &op::reshape(&moved, &joined)?)
}

/// Channels dealt out to groups and gathered again in turn.
///
/// # Errors
/// `Runtime` for shapes and numbers of groups that do not fit.
pub fn channel_shuffle(self_: &Tensor, groups: i64) -> Result<Tensor> {
    let sizes = self_.sizes();
    ensure!(
        sizes.len() > 2,
        Runtime,
        "channel_shuffle expects input with > 2 dims, but got input with sizes {:?}",
        sizes.as_slice()
    );
    let channels = sizes[1];
    ensure!(
        groups > 0,
        Runtime,
        "Number of groups to divide channels in must be positive. Value of groups:{groups}"
    );
    ensure!(
        channels % groups == 0,
        Runtime,
        "Number of channels must be divisible by groups. Got {channels} channels and {groups} \
         groups."
    );
    if self_.numel() == 0 {
        return op::alias(self_);
    }
    let split = op::view(
        &op::reshape(self_, &[sizes[0], groups, channels / groups, -1])?,
        &[sizes[0], groups, channels / groups, -1],
    )?;
    let dealt = op::permute(&split, &[0, 2, 1, 3])?;
    let dealt = op::contiguous(&dealt, corten_core::MemoryFormat::Contiguous)?;
    op::reshape(&dealt, &sizes)
}

/// Each tensor split along a dimension into as many parts, those of the same place joined.
///
/// # Errors
/// `Runtime` for no tensor, no part and tensors that do not fit.
pub fn chunk_cat(tensors: &[Tensor], dim: i64, num_chunks: i64) -> Result<Tensor> {
    let Some(first) = tensors.first() else {
        corten_core::bail!(Runtime, "_chunk_cat expects a non-empty input tensor list")
    };
    ensure!(num_chunks >= 1, Runtime, "_chunk_cat expects positive num_chunks");
    let axis = geometry::wrap_dim(dim, first.dim())?;
    let mut parts = Vec::new();
    for tensor in tensors {
        ensure!(tensor.numel() > 0, Runtime, "_chunk_cat expects non-empty tensor");
        ensure!(
            tensor.dtype() == first.dtype(),
            Runtime,
            "_chunk_cat expects all input tensors with the same dtype"
        );
        let sizes = tensor.sizes();
        ensure!(
            axis < sizes.len() && sizes[..axis] == first.sizes()[..axis],
            Runtime,
            "_chunk_cat expects same sizes of 0,...,dim-1 dimensions for all tensors"
        );
        let length = sizes[axis].saturating_add(num_chunks - 1) / num_chunks;
        let missing = length.saturating_mul(num_chunks) - sizes[axis];
        let padded = match missing {
            0 => tensor.clone(),
            _ => {
                let mut pad = vec![0; 2 * (sizes.len() - axis)];
                if let Some(last) = pad.last_mut() {
                    *last = missing;
                }
                op::constant_pad_nd(tensor, &pad, corten_core::Scalar::Int(0))?
            }
        };
        parts.push(op::reshape(&padded, &[&sizes[..axis], &[num_chunks, -1]].concat())?);
    }
    op::cat(&parts, axis as i64 + 1)
}

/// Memory for a tensor whose dimensions lie in a given order, outermost first.
///
/// # Errors
/// `Runtime` for an order that is none.
pub fn empty_permuted(
    size: &[i64],
    physical_layout: &[i64],
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    let rank = size.len();
    ensure!(
        rank == physical_layout.len(),
        Runtime,
        "Number of dimensions in size does not match the length of the physical_layout; i.e. \
         len(size) = {rank} is not equal to len(physical_layout) = {}",
        physical_layout.len()
    );
    let mut inverse = vec![-1; rank];
    for (i, &dim) in physical_layout.iter().enumerate() {
        ensure!(
            0 <= dim && dim < rank as i64,
            Runtime,
            "Dimension out of range (expected to be between 0 and {}, but got {dim} at index \
             {i}).  NB: negative dims not currently supported; file an issue if you want it.",
            rank as i64 - 1
        );
        ensure!(inverse[dim as usize] == -1, Runtime, "Duplicate dim not allowed");
        inverse[dim as usize] = i as i64;
    }
    let physical: Vec<i64> = physical_layout.iter().map(|&dim| size[dim as usize]).collect();
    let memory = op::empty_memory_format(&physical, dtype, layout, device, pin_memory, None)?;
    op::permute(&memory, &inverse)
}

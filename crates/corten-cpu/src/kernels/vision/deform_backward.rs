//! Gradients of convolutions whose taps are moved by offsets.

use super::deform::{Geometry, Operands, Sample, as_dtype, fill_columns, image_as, samples, wide};
use super::region::Real;
use crate::kernels::support::{contiguous, empty, is_shape_only};
use crate::parallel::chunks::{for_each_chunk, for_each_chunk2, grain_of};
use corten_core::{Access, AccessSet, Reader, Result, Scalar, ensure, match_dtype, try_vec};
use corten_ops::{Tensor, op};

/// The gradients of input, weight, offset, mask and bias.
type Gradients = (Tensor, Tensor, Tensor, Tensor, Tensor);

/// The gradients of input, weight, offset, mask and bias.
///
/// # Errors
/// As for the convolution itself.
pub fn deform_conv2d_backward(
    grad: &Tensor,
    input: &Tensor,
    weight: &Tensor,
    offset: &Tensor,
    mask: &Tensor,
    bias: &Tensor,
    stride_h: i64,
    stride_w: i64,
    pad_h: i64,
    pad_w: i64,
    dilation_h: i64,
    dilation_w: i64,
    groups: i64,
    offset_groups: i64,
    use_mask: bool,
) -> Result<Gradients> {
    let pairs = [[stride_h, stride_w], [pad_h, pad_w], [dilation_h, dilation_w]];
    let [input, weight, offset, mask, bias] =
        [input, weight, offset, mask, bias].map(Tensor::clone);
    let operands = Operands { input, weight, offset, mask, bias };
    let geometry = Geometry::of(&operands, pairs, groups, offset_groups, use_mask)?;
    let [height, width] = geometry.output.map(|size| size as i64);
    let shape = [geometry.images as i64, geometry.features as i64, height, width];
    ensure!(
        grad.sizes().as_slice() == shape && grad.dtype() == operands.input.dtype(),
        Runtime,
        "_deform_conv2d_backward: grad should have the shape {shape:?} and the type of input, got \
         {:?}",
        grad.sizes().as_slice()
    );
    let dtype = grad.dtype();
    if is_shape_only(grad) {
        let like = |tensor: &Tensor| empty(&tensor.sizes(), tensor);
        return Ok((
            like(&operands.input)?,
            like(&operands.weight)?,
            like(&operands.offset)?,
            like(&operands.mask)?,
            like(&operands.bias)?,
        ));
    }
    let grad = contiguous(&as_dtype(grad, wide(dtype))?)?;
    let (a, b, c, d, e) = match_dtype!(wide(dtype), "deformable_col2im", SingleDouble, T => {
        backward::<T>(&grad, &operands.dense(wide(dtype))?, &geometry)
    })?;
    let mask_dtype = operands.mask.dtype();
    Ok((
        as_dtype(&a, dtype)?,
        as_dtype(&b, dtype)?,
        as_dtype(&c, dtype)?,
        as_dtype(&d, mask_dtype)?,
        as_dtype(&e, dtype)?,
    ))
}

fn backward<T: Real>(grad: &Tensor, operands: &Operands, geometry: &Geometry) -> Result<Gradients> {
    let zeros = |like: &Tensor| op::zeros_like(like, None, None, None, None, None);
    let Operands { input, weight, offset, mask, .. } = operands;
    let (of_input, of_offset, of_mask) = (zeros(input)?, zeros(offset)?, zeros(mask)?);
    let (places, groups) = (geometry.places() as i64, geometry.groups as i64);
    let rows = geometry.channels as i64 / groups * geometry.taps() as i64;
    let features = geometry.features as i64 / groups;
    let weight = op::view(weight, &[groups, features, rows])?;
    let of_weight = zeros(&weight)?;
    let columns = empty(&[groups, rows, places], input)?;
    for nr in 0..geometry.images {
        let grad = image_as(grad, nr, &[groups, features, places])?;
        let spread = contiguous(&op::bmm(&op::transpose_int(&weight, 1, 2)?, &grad)?)?;
        let out = [&of_input, &of_offset, &of_mask];
        Image { operands, geometry, nr }.gradients::<T>(&spread, &columns, out)?;
        let product = op::bmm(&grad, &op::transpose_int(&columns, 1, 2)?)?;
        op::add__tensor(&of_weight, &product, Scalar::Int(1))?;
    }
    let of_weight = op::view(&of_weight, &operands.weight.sizes())?;
    let of_bias = op::sum_dim_intlist(grad, Some(&[0, 2, 3]), false, None)?;
    Ok((of_input, of_weight, of_offset, of_mask, of_bias))
}

/// One image of a call.
struct Image<'a> {
    operands: &'a Operands,
    geometry: &'a Geometry,
    nr: usize,
}

impl Image<'_> {
    /// Fills the image's part of the gradients of input, offset and mask, and its matrix.
    fn gradients<T: Real>(
        &self,
        spread: &Tensor,
        columns: &Tensor,
        [of_input, of_offset, of_mask]: [&Tensor; 3],
    ) -> Result<()> {
        let (geometry, nr) = (self.geometry, self.nr);
        let count = geometry.offset_groups * geometry.taps() * geometry.places();
        let size = geometry.channels * geometry.plane();
        let offset = Reader::<T>::new(&self.operands.offset)?;
        let samples = samples(geometry, &offset[nr * 2 * count..][..2 * count])?;
        let access = AccessSet::acquire(&[
            (columns, Access::Write),
            (of_input, Access::Write),
            (of_offset, Access::Write),
            (of_mask, Access::Write),
            (&self.operands.input, Access::Read),
            (&self.operands.mask, Access::Read),
            (spread, Access::Read),
        ])?;
        let image = &access.read::<T>(4)?[nr * size..][..size];
        let mask = match geometry.use_mask {
            true => &access.read::<T>(5)?[nr * count..][..count],
            false => &[],
        };
        let spread = access.read::<T>(6)?;
        fill_columns(geometry, image, &samples, mask, access.write::<T>(0)?)?;
        let known = Known { geometry, image, mask, samples: &samples, spread };
        known.input(&mut access.write::<T>(1)?[nr * size..][..size])?;
        let offsets = &mut access.write::<T>(2)?[nr * 2 * count..][..2 * count];
        if geometry.use_mask {
            return known.offsets(offsets, &mut access.write::<T>(3)?[nr * count..][..count]);
        }
        known.offsets(offsets, &mut try_vec(T::ZERO, count)?)
    }
}

/// What the gradients of one image are made of.
struct Known<'a, C> {
    geometry: &'a Geometry,
    image: &'a [C],
    mask: &'a [C],
    samples: &'a [Sample<C>],
    /// The gradients of what the taps read, by channel, tap and place.
    spread: &'a [C],
}

impl<C: Real> Known<'_, C> {
    /// The channels of a group of offsets.
    fn per_group(&self) -> usize {
        self.geometry.channels / self.geometry.offset_groups
    }

    /// The gradient of the image.
    fn input(&self, out: &mut [C]) -> Result<()> {
        let (places, taps) = (self.geometry.places(), self.geometry.taps());
        let plane = self.geometry.plane();
        for_each_chunk(out, plane, grain_of(plane + places * taps * 8), |channel, out| {
            for tap in 0..taps {
                let first = (channel / self.per_group() * taps + tap) * places;
                let grads = &self.spread[(channel * taps + tap) * places..][..places];
                for (place, &grad) in grads.iter().enumerate() {
                    let share = self.mask.get(first + place).copied().unwrap_or(C::ONE);
                    let sample = &self.samples[first + place];
                    for (&pixel, weight) in sample.pixels.iter().zip(sample.weights()) {
                        if let Some(sum) = out.get_mut(pixel as usize) {
                            *sum += grad * share * weight;
                        }
                    }
                }
            }
            Ok(())
        })
    }

    /// The gradients of the offsets and of the mask.
    fn offsets(&self, offsets: &mut [C], mask: &mut [C]) -> Result<()> {
        let (places, taps) = (self.geometry.places(), self.geometry.taps());
        let grain = grain_of(places * self.per_group() * 8);
        let plane = self.geometry.plane();
        for_each_chunk2((offsets, 2 * places), (mask, places), grain, |nr, of, mask| {
            let (group, tap) = (nr / taps, nr % taps);
            let (down, right) = of.split_at_mut(places);
            for channel in group * self.per_group()..(group + 1) * self.per_group() {
                let image = &self.image[channel * plane..][..plane];
                let grads = &self.spread[(channel * taps + tap) * places..][..places];
                for (place, &grad) in grads.iter().enumerate() {
                    let at = nr * places + place;
                    let share = self.mask.get(at).copied().unwrap_or(C::ONE);
                    let sample = &self.samples[at];
                    let [a, b, c, d] = sample.values(image);
                    let (left, up) = (C::ONE - sample.right, C::ONE - sample.down);
                    down[place] += grad * share * (left * (c - a) + sample.right * (d - b));
                    right[place] += grad * share * (up * (b - a) + sample.down * (d - c));
                    mask[place] += grad * sample.value(image);
                }
            }
            Ok(())
        })
    }
}

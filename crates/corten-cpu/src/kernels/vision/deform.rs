//! Convolutions whose taps are moved by offsets.

use super::region::Real;
use crate::kernels::support::{contiguous, empty, is_shape_only};
use crate::parallel::chunks::{for_each_chunk, grain_of};
use corten_core::{
    Access, AccessSet, DType, MemoryFormat, Reader, Result, ensure, match_dtype, try_vec,
};
use corten_ops::{Tensor, op};

/// The sizes and settings of a call.
#[derive(Clone, Copy)]
pub(super) struct Geometry {
    pub(super) images: usize,
    pub(super) channels: usize,
    pub(super) features: usize,
    pub(super) input: [usize; 2],
    pub(super) kernel: [usize; 2],
    pub(super) output: [usize; 2],
    stride: [i64; 2],
    padding: [i64; 2],
    dilation: [i64; 2],
    pub(super) groups: usize,
    pub(super) offset_groups: usize,
    pub(super) use_mask: bool,
}

/// The tensors of a call.
#[derive(Clone)]
pub(super) struct Operands {
    pub(super) input: Tensor,
    pub(super) weight: Tensor,
    pub(super) offset: Tensor,
    pub(super) mask: Tensor,
    pub(super) bias: Tensor,
}

impl Operands {
    /// The tensors in a dtype that sums are made in, dense.
    pub(super) fn dense(&self, dtype: DType) -> Result<Self> {
        let dense = |tensor: &Tensor| contiguous(&as_dtype(tensor, dtype)?);
        Ok(Self {
            input: dense(&self.input)?,
            weight: dense(&self.weight)?,
            offset: dense(&self.offset)?,
            mask: dense(&self.mask)?,
            bias: dense(&self.bias)?,
        })
    }
}

/// The tensor in a dtype.
pub(super) fn as_dtype(tensor: &Tensor, dtype: DType) -> Result<Tensor> {
    match tensor.dtype() == dtype {
        true => Ok(tensor.clone()),
        false => op::to_dtype(tensor, dtype, false, false, None::<MemoryFormat>),
    }
}

/// The dtype that sums are made in.
pub(super) fn wide(dtype: DType) -> DType {
    if matches!(dtype, DType::Float16 | DType::BFloat16) { DType::Float32 } else { dtype }
}

/// The numbers of a call, two by two.
pub(super) type Pairs = [[i64; 2]; 3];

impl Geometry {
    /// What a call computes.
    ///
    /// # Errors
    /// `Runtime` for shapes, dtypes and numbers that do not fit.
    pub(super) fn of(
        operands: &Operands,
        [stride, padding, dilation]: Pairs,
        groups: i64,
        offset_groups: i64,
        use_mask: bool,
    ) -> Result<Self> {
        check_dims(operands, use_mask)?;
        check_numbers(operands, [stride, padding, dilation], [groups, offset_groups])?;
        let (input, weight) = (operands.input.sizes(), operands.weight.sizes());
        let (kernel, taps) = ([weight[2], weight[3]], weight[2].saturating_mul(weight[3]));
        let output = [0, 1].map(|i| {
            let reach = dilation[i].saturating_mul(kernel[i] - 1).saturating_add(1);
            let room = padding[i].saturating_mul(2).saturating_add(input[i + 2]);
            room.saturating_sub(reach) / stride[i] + 1
        });
        check_offsets(
            &operands.offset,
            "offset",
            [taps.saturating_mul(2).saturating_mul(offset_groups), input[0]],
            output,
        )?;
        if use_mask {
            check_offsets(
                &operands.mask,
                "mask",
                [taps.saturating_mul(offset_groups), input[0]],
                output,
            )?;
        }
        ensure!(
            output[0] > 0 && output[1] > 0,
            Runtime,
            "Calculated output size too small - out_h: {} out_w: {}",
            output[0],
            output[1]
        );
        let counts = |pair: [i64; 2]| pair.map(|size| size as usize);
        Ok(Self {
            images: input[0] as usize,
            channels: input[1] as usize,
            features: weight[0] as usize,
            input: counts([input[2], input[3]]),
            kernel: counts(kernel),
            output: counts(output),
            stride,
            padding,
            dilation,
            groups: groups as usize,
            offset_groups: offset_groups as usize,
            use_mask,
        })
    }

    /// The places of one channel of the result.
    pub(super) fn places(&self) -> usize {
        self.output[0] * self.output[1]
    }

    /// The taps of the kernel.
    pub(super) fn taps(&self) -> usize {
        self.kernel[0] * self.kernel[1]
    }

    /// The pixels of one channel.
    pub(super) fn plane(&self) -> usize {
        self.input[0] * self.input[1]
    }
}

fn check_dims(operands: &Operands, use_mask: bool) -> Result<()> {
    let Operands { input, weight, offset, mask, bias } = operands;
    let of_four = [("input", input), ("offset", offset), ("mask", mask), ("weight", weight)];
    for (name, tensor) in of_four {
        ensure!(
            tensor.dim() == 4 || (name == "mask" && !use_mask),
            Runtime,
            "deform_conv2d: {name} should have 4 dimensions, got {:?}",
            tensor.sizes().as_slice()
        );
    }
    let others = [("weight", weight), ("offset", offset), ("mask", mask), ("bias", bias)];
    for (name, tensor) in others {
        ensure!(
            tensor.dtype() == input.dtype() || (name == "mask" && !use_mask),
            Runtime,
            "deform_conv2d: {name} should have the type of input, {}, got {}",
            input.dtype(),
            tensor.dtype()
        );
    }
    Ok(())
}

fn check_numbers(operands: &Operands, pairs: Pairs, [groups, offsets]: [i64; 2]) -> Result<()> {
    let (input, weight) = (operands.input.sizes(), operands.weight.sizes());
    let [stride, padding, dilation] = pairs;
    let pair = |holds: bool, name: &str, [first, second]: [i64; 2]| {
        ensure!(
            holds,
            Runtime,
            "deform_conv2d: {name}_h: {first} {name}_w: {second} are not what they should be"
        );
        Ok(())
    };
    let kernel = [weight[2], weight[3]];
    pair(kernel.iter().all(|&size| size > 0), "weight", kernel)?;
    pair(stride.iter().all(|&size| size > 0), "stride", stride)?;
    pair(padding.iter().all(|&size| size >= 0), "pad", padding)?;
    pair(dilation.iter().all(|&size| size > 0), "dilation", dilation)?;
    ensure!(
        groups > 0 && offsets > 0,
        Runtime,
        "deform_conv2d: groups and offset_groups should be positive, got {groups} and {offsets}"
    );
    ensure!(
        weight[1].checked_mul(groups) == Some(input[1]),
        Runtime,
        "deform_conv2d: weight has {} channels in each of {groups} groups, but input has {}",
        weight[1],
        input[1]
    );
    ensure!(
        weight[0] % groups == 0 && input[1] % offsets == 0,
        Runtime,
        "deform_conv2d: {} features cannot be divided into {groups} groups, or {} channels into \
         {offsets}",
        weight[0],
        input[1]
    );
    let bias = operands.bias.sizes();
    ensure!(
        bias.as_slice() == [weight[0]],
        Runtime,
        "deform_conv2d: bias should have the shape [{}], got {:?}",
        weight[0],
        bias.as_slice()
    );
    ensure!(
        input[2].saturating_mul(input[3]) < i64::from(u32::MAX),
        Runtime,
        "deform_conv2d: images of {} x {} pixels are too large",
        input[2],
        input[3]
    );
    Ok(())
}

fn check_offsets(
    tensor: &Tensor,
    name: &str,
    [channels, images]: [i64; 2],
    output: [i64; 2],
) -> Result<()> {
    let sizes = tensor.sizes();
    ensure!(
        sizes[1] == channels,
        Runtime,
        "{name}.shape[1] is not valid: got: {} expected: {channels}",
        sizes[1]
    );
    ensure!(sizes[0] == images, Runtime, "invalid batch size of {name}");
    ensure!(
        sizes[2] == output[0] && sizes[3] == output[1],
        Runtime,
        "{name} output dims: ({}, {}) - computed output dims: ({}, {})",
        sizes[2],
        sizes[3],
        output[0],
        output[1]
    );
    Ok(())
}

/// A place between four pixels.
#[derive(Clone, Copy, Default)]
pub(super) struct Sample<C> {
    /// The pixels above and below, left and right of it; [`OUTSIDE`] for those that do not exist.
    pub(super) pixels: [u32; 4],
    /// How far it lies below the upper pixels.
    pub(super) down: C,
    /// How far it lies right of the left pixels.
    pub(super) right: C,
}

/// The place of a pixel that does not exist.
const OUTSIDE: u32 = u32::MAX;

impl<C: Real> Sample<C> {
    #[inline(always)]
    fn at(y: C, x: C, [height, width]: [usize; 2]) -> Self {
        let (top, left) = (y.floor(), x.floor());
        let (row, column) = (top.as_f64() as i64, left.as_f64() as i64);
        let pixel = |row: i64, column: i64| {
            let inside = row >= 0 && column >= 0 && row < height as i64 && column < width as i64;
            if inside { (row as usize * width + column as usize) as u32 } else { OUTSIDE }
        };
        let (below, beside) = (row.saturating_add(1), column.saturating_add(1));
        let pixels =
            [pixel(row, column), pixel(row, beside), pixel(below, column), pixel(below, beside)];
        Self { pixels, down: y - top, right: x - left }
    }

    /// The four pixels' values; zero for those that do not exist.
    #[inline(always)]
    pub(super) fn values(&self, plane: &[C]) -> [C; 4] {
        self.pixels.map(|pixel| plane.get(pixel as usize).copied().unwrap_or(C::ZERO))
    }

    /// The weights of the four pixels.
    #[inline(always)]
    pub(super) fn weights(&self) -> [C; 4] {
        let (up, left) = (C::ONE - self.down, C::ONE - self.right);
        [up * left, up * self.right, self.down * left, self.down * self.right]
    }

    /// The value there.
    #[inline(always)]
    pub(super) fn value(&self, plane: &[C]) -> C {
        let ([a, b, c, d], [v, w, x, y]) = (self.weights(), self.values(plane));
        a * v + b * w + c * x + d * y
    }
}

/// The places that the taps of one image read: by group of offsets, tap and place of the result.
pub(super) fn samples<C: Real>(geometry: &Geometry, offset: &[C]) -> Result<Vec<Sample<C>>> {
    let (places, taps) = (geometry.places(), geometry.taps());
    let missing = Sample { pixels: [OUTSIDE; 4], down: C::ZERO, right: C::ZERO };
    let mut found = try_vec(missing, geometry.offset_groups * taps * places)?;
    for_each_chunk(&mut found, places, grain_of(places * 8), |nr, found| {
        let (group, tap) = (nr / taps, nr % taps);
        let moves = &offset[(group * taps + tap) * 2 * places..][..2 * places];
        let (down, right) = moves.split_at(places);
        let [row, column] = [tap / geometry.kernel[1], tap % geometry.kernel[1]];
        for (place, sample) in found.iter_mut().enumerate() {
            let at = |axis: usize, out: usize, tap: usize| {
                let corner = (out as i64).saturating_mul(geometry.stride[axis]);
                let moved = (tap as i64).saturating_mul(geometry.dilation[axis]);
                let place = corner.saturating_sub(geometry.padding[axis]);
                C::of(place.saturating_add(moved) as f64)
            };
            let y = at(0, place / geometry.output[1], row) + down[place];
            let x = at(1, place % geometry.output[1], column) + right[place];
            *sample = Sample::at(y, x, geometry.input);
        }
        Ok(())
    })?;
    Ok(found)
}

/// What the taps of one image read, as rows of a matrix: by channel and tap.
pub(super) fn fill_columns<C: Real>(
    geometry: &Geometry,
    image: &[C],
    samples: &[Sample<C>],
    mask: &[C],
    columns: &mut [C],
) -> Result<()> {
    let (places, taps, plane) = (geometry.places(), geometry.taps(), geometry.plane());
    let per_group = geometry.channels / geometry.offset_groups;
    for_each_chunk(columns, places, grain_of(places * 8), |nr, row| {
        let (channel, tap) = (nr / taps, nr % taps);
        let first = (channel / per_group * taps + tap) * places;
        let (image, samples) = (&image[channel * plane..][..plane], &samples[first..][..places]);
        for (value, sample) in row.iter_mut().zip(samples) {
            *value = sample.value(image);
        }
        if geometry.use_mask {
            let mask = &mask[first..][..places];
            row.iter_mut().zip(mask).for_each(|(value, &share)| *value = *value * share);
        }
        Ok(())
    })
}

/// One image of a batch, in another shape.
pub(super) fn image_as(batch: &Tensor, nr: usize, shape: &[i64]) -> Result<Tensor> {
    op::view(&op::select_int(batch, 0, nr as i64)?, shape)
}

/// The convolution of images whose taps are moved by offsets.
///
/// # Errors
/// `Runtime` for shapes, dtypes and numbers that do not fit, `NotImplemented` for other than
/// floating point.
pub fn deform_conv2d(
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
) -> Result<Tensor> {
    let pairs = [[stride_h, stride_w], [pad_h, pad_w], [dilation_h, dilation_w]];
    let [input, weight, offset, mask, bias] =
        [input, weight, offset, mask, bias].map(Tensor::clone);
    let dtype = input.dtype();
    let operands = Operands { input, weight, offset, mask, bias };
    let geometry = Geometry::of(&operands, pairs, groups, offset_groups, use_mask)?;
    let [height, width] = geometry.output.map(|size| size as i64);
    let shape = [geometry.images as i64, geometry.features as i64, height, width];
    if is_shape_only(&operands.input) {
        return empty(&shape, &operands.input);
    }
    let out = match_dtype!(wide(dtype), "deformable_im2col", SingleDouble, T => {
        forward::<T>(&operands.dense(wide(dtype))?, &geometry, &shape)
    })?;
    as_dtype(&out, dtype)
}

fn forward<T: Real>(operands: &Operands, geometry: &Geometry, shape: &[i64]) -> Result<Tensor> {
    let out = empty(shape, &operands.input)?;
    let (places, taps) = (geometry.places() as i64, geometry.taps() as i64);
    let groups = geometry.groups as i64;
    let (rows, features) =
        (geometry.channels as i64 / groups * taps, geometry.features as i64 / groups);
    let columns = empty(&[groups, rows, places], &operands.input)?;
    let weight = op::view(&operands.weight, &[groups, features, rows])?;
    for nr in 0..geometry.images {
        columns_of::<T>(operands, geometry, nr, &columns)?;
        let product = op::bmm(&weight, &columns)?;
        op::copy_(&image_as(&out, nr, &[groups, features, places])?, &product, false)?;
    }
    let bias = op::view(&operands.bias, &[1, geometry.features as i64, 1, 1])?;
    op::add__tensor(&out, &bias, corten_core::Scalar::Int(1))
}

/// Fills the matrix of one image.
fn columns_of<T: Real>(
    operands: &Operands,
    geometry: &Geometry,
    nr: usize,
    columns: &Tensor,
) -> Result<()> {
    let (offset, input) = (Reader::<T>::new(&operands.offset)?, Reader::<T>::new(&operands.input)?);
    let count = geometry.offset_groups * geometry.taps() * geometry.places();
    let samples = samples(geometry, &offset[nr * 2 * count..][..2 * count])?;
    let image = geometry.channels * geometry.plane();
    let access = AccessSet::acquire(&[(columns, Access::Write), (&operands.mask, Access::Read)])?;
    let mask = match geometry.use_mask {
        true => &access.read::<T>(1)?[nr * count..][..count],
        false => &[],
    };
    let image = &input[nr * image..][..image];
    fill_columns(geometry, image, &samples, mask, access.write::<T>(0)?)
}

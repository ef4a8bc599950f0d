//! Images as matrices of sliding blocks, and back.

use super::conv::geometry::Geometry;
use super::support::{Summed, contiguous, empty, is_shape_only};
use crate::parallel::chunks::{for_each_chunk, grain_of};
use corten_core::{
    Access, AccessSet, DType, Result, cast, ensure, match_dtype, try_collect, try_vec,
};
use corten_ops::{Tensor, op};
use std::ops::AddAssign;

/// Sliding blocks of images as the columns of a matrix per image.
///
/// # Errors
/// `Runtime` for geometry that does not fit.
pub fn im2col(
    self_: &Tensor,
    kernel_size: &[i64],
    dilation: &[i64],
    padding: &[i64],
    stride: &[i64],
) -> Result<Tensor> {
    if self_.dtype() == DType::Bool {
        let image = op::to_dtype(self_, DType::Float32, false, false, None)?;
        let columns = im2col(&image, kernel_size, dilation, padding, stride)?;
        return op::to_dtype(&columns, DType::Bool, false, false, None);
    }
    let numbers = Numbers::of(kernel_size, dilation, padding, stride)?;
    let sizes = self_.sizes();
    let batched = sizes.len() == 4;
    ensure!(
        (batched && sizes[1..].iter().all(|&size| size != 0))
            || (sizes.len() == 3 && sizes.iter().all(|&size| size != 0)),
        Runtime,
        "Expected 3D or 4D (batch mode) tensor with possibly 0 batch size and other non-zero \
         dimensions for input, but got: {:?}",
        sizes.as_slice()
    );
    let [channels, height, width] = last_three(&sizes);
    let blocks = numbers.blocks([height, width]);
    ensure!(
        blocks.iter().all(|&count| count >= 1),
        Runtime,
        "Given input with spatial size ({height}, {width}), kernel_size=({}, {}), dilation=({}, \
         {}), padding=({}, {}), calculated shape of the array of sliding blocks as ({}, {}), but \
         its components must be at least one.",
        numbers.kernel[0],
        numbers.kernel[1],
        numbers.dilation[0],
        numbers.dilation[1],
        numbers.padding[0],
        numbers.padding[1],
        blocks[0],
        blocks[1]
    );
    let geometry = numbers.geometry(channels, [height, width], blocks);
    let (rows, columns) = (geometry.patch(), geometry.positions());
    let size = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
    let mut out_sizes = vec![size(rows), size(columns)];
    if batched {
        out_sizes.insert(0, sizes[0]);
    }
    let (input, out) = (contiguous(self_)?, empty(&out_sizes, self_)?);
    if is_shape_only(&out) {
        return Ok(out);
    }
    match_dtype!(self_.dtype(), "im2col_out_cpu", FloatBlas, T => {
        let access = AccessSet::acquire(&[(&out, Access::Write), (&input, Access::Read)])?;
        let (image, out) = (access.read::<T>(1)?, access.write::<T>(0)?);
        let image_size = geometry.channels * geometry.pixels();
        for_each_chunk(out, rows * columns, grain_of(rows * columns), |sample, patches| {
            let image = &image[sample * image_size..][..image_size];
            geometry.unfold(image, 0, 0..columns, patches);
            Ok(())
        })
    })?;
    Ok(out)
}

/// The sum of the columns of a matrix per image, each put back where its block lies.
///
/// # Errors
/// `Runtime` for geometry that does not fit.
pub fn col2im(
    self_: &Tensor,
    output_size: &[i64],
    kernel_size: &[i64],
    dilation: &[i64],
    padding: &[i64],
    stride: &[i64],
) -> Result<Tensor> {
    if self_.dtype() == DType::Bool {
        let columns = op::to_dtype(self_, DType::Float32, false, false, None)?;
        let image = col2im(&columns, output_size, kernel_size, dilation, padding, stride)?;
        return op::to_dtype(&image, DType::Bool, false, false, None);
    }
    let numbers = Numbers::of(kernel_size, dilation, padding, stride)?;
    ensure!(
        output_size.len() == 2,
        Runtime,
        "It is expected output_size equals to 2, but got size {}",
        output_size.len()
    );
    let sizes = self_.sizes();
    let batched = sizes.len() == 3;
    ensure!(
        (batched && sizes[1..].iter().all(|&size| size != 0))
            || (sizes.len() == 2 && sizes.iter().all(|&size| size != 0)),
        Runtime,
        "Expected 2D or 3D (batch mode) tensor for input with possibly 0 batch size and non-zero \
         dimensions for input, but got: {:?}",
        sizes.as_slice()
    );
    let (rows, columns) = (sizes[sizes.len() - 2], sizes[sizes.len() - 1]);
    let blocks = numbers.blocks([output_size[0], output_size[1]]);
    numbers.check_columns(rows, columns, output_size, blocks)?;
    let channels = rows / numbers.kernel[0].saturating_mul(numbers.kernel[1]);
    let geometry = numbers.geometry(channels, [output_size[0], output_size[1]], blocks);
    let mut out_sizes = vec![channels, output_size[0], output_size[1]];
    if batched {
        out_sizes.insert(0, sizes[0]);
    }
    let (input, out) = (contiguous(self_)?, empty(&out_sizes, self_)?);
    if is_shape_only(&out) {
        return Ok(out);
    }
    match_dtype!(self_.dtype(), "col2im_out_cpu", FloatBlas, T => {
        let access = AccessSet::acquire(&[(&out, Access::Write), (&input, Access::Read)])?;
        let (patches, out) = (access.read::<T>(1)?, access.write::<T>(0)?);
        fold::<T>(out, patches, &geometry)
    })?;
    Ok(out)
}

fn fold<T: Summed<Sum: AddAssign>>(
    out: &mut [T],
    patches: &[T],
    geometry: &Geometry,
) -> Result<()> {
    let image_size = geometry.channels * geometry.pixels();
    let patch_size = geometry.patch() * geometry.positions();
    for_each_chunk(out, image_size, grain_of(patch_size), |sample, image| {
        let patches = &patches[sample * patch_size..][..patch_size];
        let patches: Vec<T::Sum> = try_collect(patches.iter().map(|&value| cast(value)))?;
        let mut sums = try_vec(T::Sum::default(), image_size)?;
        geometry.fold_add(&patches, 0, 0..geometry.positions(), &mut sums);
        image.iter_mut().zip(sums).for_each(|(value, sum)| *value = T::of(sum));
        Ok(())
    })
}

/// The numbers of a sliding block.
struct Numbers {
    kernel: [i64; 2],
    dilation: [i64; 2],
    padding: [i64; 2],
    stride: [i64; 2],
}

impl Numbers {
    fn of(kernel: &[i64], dilation: &[i64], padding: &[i64], stride: &[i64]) -> Result<Self> {
        let pair = |list: &[i64], name: &str| {
            ensure!(
                list.len() == 2,
                Runtime,
                "It is expected {name} equals to 2, but got size {}",
                list.len()
            );
            Ok([list[0], list[1]])
        };
        let numbers = Self {
            kernel: pair(kernel, "kernel_size")?,
            dilation: pair(dilation, "dilation")?,
            padding: pair(padding, "padding")?,
            stride: pair(stride, "stride")?,
        };
        let positive = |list: [i64; 2], name: &str, axis: &str| {
            ensure!(
                list.iter().all(|&value| value > 0),
                Runtime,
                "{name} should be greater than zero, but got {axis}_height: {} {axis}_width: {}",
                list[0],
                list[1]
            );
            Ok(())
        };
        positive(numbers.kernel, "kernel size", "kernel")?;
        positive(numbers.dilation, "dilation", "dilation")?;
        ensure!(
            numbers.padding.iter().all(|&value| value >= 0),
            Runtime,
            "padding should be non-negative, but got pad_height: {} pad_width: {}",
            numbers.padding[0],
            numbers.padding[1]
        );
        positive(numbers.stride, "stride", "stride")?;
        Ok(numbers)
    }

    /// The number of blocks per axis.
    fn blocks(&self, image: [i64; 2]) -> [i64; 2] {
        [0, 1].map(|axis| {
            let reach = self.dilation[axis].saturating_mul(self.kernel[axis] - 1).saturating_add(1);
            let padded = image[axis].saturating_add(self.padding[axis].saturating_mul(2));
            padded.saturating_sub(reach).div_euclid(self.stride[axis]) + 1
        })
    }

    fn check_columns(
        &self,
        rows: i64,
        columns: i64,
        output_size: &[i64],
        blocks: [i64; 2],
    ) -> Result<()> {
        let size = self.kernel[0].saturating_mul(self.kernel[1]);
        ensure!(
            rows % size == 0,
            Runtime,
            "Expected size of input's dimension 1 to be divisible by the product of kernel_size, \
             but got input.size(1)={rows} and kernel_size=({}, {}).",
            self.kernel[0],
            self.kernel[1]
        );
        let wanted = blocks[0].saturating_mul(blocks[1]);
        ensure!(
            blocks.iter().all(|&count| count >= 1),
            Runtime,
            "Given output_size=({}, {}), kernel_size=({}, {}), dilation=({}, {}), padding=({}, \
             {}), stride=({}, {}), calculated shape of the array of sliding blocks as ({}, {}), \
             which is too small (non-positive)",
            output_size[0],
            output_size[1],
            self.kernel[0],
            self.kernel[1],
            self.dilation[0],
            self.dilation[1],
            self.padding[0],
            self.padding[1],
            self.stride[0],
            self.stride[1],
            blocks[0],
            blocks[1]
        );
        ensure!(
            wanted == columns,
            Runtime,
            "Given output_size=({}, {}), kernel_size=({}, {}), dilation=({}, {}), padding=({}, \
             {}), stride=({}, {}), expected size of input's dimension 2 to match the calculated \
             number of sliding blocks {} * {} = {wanted}, but got input.size(2)={columns}.",
            output_size[0],
            output_size[1],
            self.kernel[0],
            self.kernel[1],
            self.dilation[0],
            self.dilation[1],
            self.padding[0],
            self.padding[1],
            self.stride[0],
            self.stride[1],
            blocks[0],
            blocks[1]
        );
        Ok(())
    }

    fn geometry(&self, channels: i64, image: [i64; 2], blocks: [i64; 2]) -> Geometry {
        let spatial = |pair: [i64; 2], filler: usize| [filler, pair[0] as usize, pair[1] as usize];
        Geometry {
            groups: 1,
            channels: channels as usize,
            features: 1,
            image: spatial(image, 1),
            kernel: spatial(self.kernel, 1),
            output: spatial(blocks, 1),
            stride: spatial(self.stride, 1),
            padding: spatial(self.padding, 0),
            dilation: spatial(self.dilation, 1),
            channels_last: false,
            kernel_rows: false,
        }
    }
}

fn last_three(sizes: &[i64]) -> [i64; 3] {
    let start = sizes.len() - 3;
    [sizes[start], sizes[start + 1], sizes[start + 2]]
}

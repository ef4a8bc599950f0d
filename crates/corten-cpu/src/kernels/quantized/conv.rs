//! Convolutions as implicit products: patches are copied while they are packed.

use super::patches::{Patches, Sizes};
use super::weight::{Layout, PackedWeight, with_packed};
use super::{Finish, Product, Scaling, ToBytes, ToFloats, multiply};
use crate::kernels::support::{contiguous_in, defined, empty_in, flat};
use crate::parallel::chunks::for_each_run;
use crate::parallel::scratch::with_buffer;
use corten_core::{Access, AccessSet, DType, MemoryFormat, Result, TensorBase, ensure};
use corten_gemm::{DepthwiseInt8, Output, Rounding};
use corten_ops::Tensor;

/// The list arguments of a convolution.
struct Lists<'a> {
    stride: &'a [i64],
    padding: &'a [i64],
    dilation: &'a [i64],
    output_padding: &'a [i64],
    groups: i64,
    transposed: bool,
}

/// A convolution of bytes: bytes of another scale, or numbers where none is given. Of a transposed one the
/// weight is that of the convolution of the image whose pixels are `stride` apart.
///
/// # Errors
/// `Runtime` when shapes or dtypes do not fit.
pub fn convolution(
    input: &Tensor,
    weight: &Tensor,
    weight_scales: &Tensor,
    weight_zero_points: &Tensor,
    bias: Option<&Tensor>,
    stride: &[i64],
    padding: &[i64],
    dilation: &[i64],
    output_padding: &[i64],
    groups: i64,
    transposed: bool,
    input_scale: f64,
    input_zero_point: i64,
    scale: Option<f64>,
    zero_point: i64,
    relu: bool,
    onednn: bool,
    addend: Option<&Tensor>,
    addend_scale: f64,
    addend_zero_point: i64,
) -> Result<Tensor> {
    let lists = Lists { stride, padding, dilation, output_padding, groups, transposed };
    let (sizes, shape) = sizes_of(input, weight, &lists)?;
    let format = format_of(input);
    let dtype = if scale.is_some() { DType::UInt8 } else { DType::Float32 };
    let (input, out) = (contiguous_in(input, format)?, empty_in(&shape, input, dtype, format)?);
    if out.numel() == 0 {
        return Ok(out);
    }
    let addend = defined(addend).map(|addend| contiguous_in(addend, format)).transpose()?;
    check_addend(addend.as_ref(), &out)?;
    let outputs = weight.size(0)? as usize;
    let width = sizes.kernel[2];
    let joined = if sizes.dilation[2] == 1 { width } else { 1 };
    let channels = weight.size(1)? as usize;
    let positions = sizes.kernel.iter().product();
    let layout = |mergeable| {
        Layout::of([outputs, channels, positions], groups as usize, [width, joined], mergeable)
    };
    let rounding = if onednn { Rounding::OneDnn } else { Rounding::Fbgemm };
    with_packed(weight, weight_zero_points, layout, |packed| {
        let quantised = (input_scale, input_zero_point);
        let order = scale.map(|_| rounding);
        let scaling = Scaling::of(packed, weight_scales, defined(bias), quantised, order)?;
        let addend = addend.as_ref().map(flat).transpose()?;
        let (written, input) = (flat(&out)?, flat(&input)?);
        let mut operands: Vec<(&TensorBase, Access)> = vec![(&written, Access::Write)];
        operands.push((&input, Access::Read));
        operands.extend(addend.as_ref().map(|addend| (&**addend, Access::Read)));
        let set = AccessSet::acquire(&operands)?;
        let call = Call { sizes: &sizes, packed, scaling: &scaling, zero: input_zero_point as u8 };
        let images = set.read::<u8>(1)?;
        let Some(scale) = scale else {
            return call.run(images, &ToFloats { relu }, set.write(0)?);
        };
        let addend = match addend {
            Some(_) => Some((set.read::<u8>(2)?, addend_scale as f32, addend_zero_point as i32)),
            None => None,
        };
        let (scale, zero_point) = (scale as f32, zero_point as i32);
        let output = Output { scale, zero_point, relu, rounding, addend };
        call.run(images, &ToBytes { output }, set.write(0)?)
    })?;
    Ok(out)
}

struct Call<'a> {
    sizes: &'a Sizes,
    packed: &'a PackedWeight,
    scaling: &'a Scaling,
    /// The byte that stands for zero.
    zero: u8,
}

impl Call<'_> {
    fn run<F: Finish>(&self, images: &[u8], finish: &F, out: &mut [F::Out]) -> Result<()> {
        let (layout, sizes) = (self.packed.layout(), self.sizes);
        let bordered;
        let (images, whole) = if sizes.is_bordered() {
            bordered = sizes.with_border(images, self.zero)?;
            (bordered.as_slice(), sizes.bordered())
        } else {
            (images, sizes.image)
        };
        if let Some(kernels) = self.packed.depthwise() {
            return self.depthwise(kernels, images, whole, finish, out);
        }
        let outputs = layout.product_outputs();
        let packed = self.packed.products();
        let patches: Vec<_> =
            (0..packed.len()).map(|i| Patches::new(images, sizes, whole, layout, i)).collect();
        let products: Vec<_> = patches
            .iter()
            .zip(packed)
            .enumerate()
            .map(|(i, (rows, weight))| Product { rows, weight, first: i * outputs, outputs })
            .collect();
        multiply(&products, (sizes.rows(), layout.outputs), self.scaling, finish, out)
    }
}

impl Call<'_> {
    /// A convolution whose channels have a kernel each.
    fn depthwise<F: Finish>(
        &self,
        kernels: &DepthwiseInt8,
        images: &[u8],
        whole: [usize; 3],
        finish: &F,
        out: &mut [F::Out],
    ) -> Result<()> {
        let (sizes, channels) = (self.sizes, self.sizes.channels);
        let step = sizes.dilation[2] * channels;
        let rows: Vec<_> = sizes.kernel_rows(whole).map(|pixel| pixel * channels).collect();
        let work = channels * sizes.kernel.iter().product::<usize>();
        for_each_run(out, channels, DEPTHWISE_GRAIN.div_ceil(work.max(1)), |range, out| {
            with_buffer::<i32, ()>(channels, |sums| {
                for (row, out) in range.clone().zip(out.chunks_mut(channels)) {
                    let first = sizes.first_pixel(row, whole) * channels;
                    kernels.sums(&images[first..], &rows, step, sums);
                    let scale = self.scaling.part(0..channels);
                    finish.finish(&scale, sums, row * channels, out);
                }
            });
            Ok(())
        })
    }
}

/// Products of a depthwise convolution that are worth a thread.
const DEPTHWISE_GRAIN: usize = 1 << 17;

/// Results lie channels last.
fn format_of(input: &Tensor) -> MemoryFormat {
    if input.dim() == 5 { MemoryFormat::ChannelsLast3d } else { MemoryFormat::ChannelsLast }
}

fn check_addend(addend: Option<&Tensor>, out: &Tensor) -> Result<()> {
    let Some(addend) = addend else { return Ok(()) };
    ensure!(
        addend.dtype() == out.dtype() && addend.sizes() == out.sizes(),
        Runtime,
        "the output and accum tensors of conv2d_add must be of the same dtype and shape, but accum has {:?} \
         and the output {:?}",
        addend.sizes().as_slice(),
        out.sizes().as_slice()
    );
    Ok(())
}

/// The sizes of a convolution and the shape of its result.
fn sizes_of(input: &Tensor, weight: &Tensor, lists: &Lists<'_>) -> Result<(Sizes, Vec<i64>)> {
    let (from, kernel) = (input.sizes(), weight.sizes());
    let axes = kernel.len().saturating_sub(2);
    ensure!(
        matches!(axes, 2 | 3) && from.len() == kernel.len(),
        Runtime,
        "expected input and weight of 4 or 5 dimensions, but got {:?} and {:?}",
        from.as_slice(),
        kernel.as_slice()
    );
    ensure!(
        input.dtype() == DType::UInt8,
        Runtime,
        "expected an input of uint8, but got {}",
        input.dtype().name()
    );
    let groups = lists.groups;
    ensure!(
        groups > 0 && kernel[0] % groups == 0 && from[1] == kernel[1] * groups,
        Runtime,
        "Given groups={groups}, weight of size {:?}, expected input{:?} to have {} channels, but got {} \
         channels instead",
        kernel.as_slice(),
        from.as_slice(),
        kernel[1] * groups,
        from[1]
    );
    let mut sizes = Sizes {
        samples: from[0] as usize,
        channels: from[1] as usize,
        image: [1; 3],
        kernel: [1; 3],
        output: [1; 3],
        stride: [1; 3],
        dilation: [1; 3],
        before: [0; 3],
        spread: [1; 3],
    };
    let mut shape = vec![from[0], kernel[0]];
    for axis in 0..axes {
        let result =
            axis_of(&mut sizes, 3 - axes + axis, axis, [from[axis + 2], kernel[axis + 2]], lists)?;
        shape.push(result);
    }
    Ok((sizes, shape))
}

/// Sets the sizes of an axis, and returns the size of the result.
fn axis_of(
    sizes: &mut Sizes,
    to: usize,
    axis: usize,
    [image, kernel]: [i64; 2],
    lists: &Lists<'_>,
) -> Result<i64> {
    let at = |list: &[i64], filler: i64| *list.get(axis).or(list.first()).unwrap_or(&filler);
    let (stride, dilation) = (at(lists.stride, 1), at(lists.dilation, 1));
    let (padding, extra) = (at(lists.padding, 0), at(lists.output_padding, 0));
    ensure!(
        stride > 0 && dilation > 0 && padding >= 0 && extra >= 0 && kernel > 0,
        Runtime,
        "quantized convolution: stride {stride} and dilation {dilation} must be positive, padding {padding} \
         and output_padding {extra} not negative"
    );
    let reach = dilation.saturating_mul(kernel - 1);
    let (output, before) = match lists.transposed {
        true => {
            let whole = (image - 1).saturating_mul(stride).saturating_add(reach + 1);
            (whole.saturating_sub(padding.saturating_mul(2)).saturating_add(extra), reach - padding)
        }
        false => {
            let whole = image.saturating_add(padding.saturating_mul(2)).saturating_sub(reach + 1);
            (whole.div_euclid(stride) + 1, padding)
        }
    };
    ensure!(
        output > 0 && (image > 0 || sizes.samples == 0),
        Runtime,
        "Given input size per channel: {image}, the kernel of size {} reaches over too much: the output \
         would have {output} pixels",
        reach + 1
    );
    ensure!(
        before >= 0,
        Runtime,
        "quantized transposed convolution: padding {padding} is larger than dilation * (kernel_size - 1) = \
         {reach}"
    );
    sizes.image[to] = image as usize;
    sizes.kernel[to] = kernel as usize;
    sizes.output[to] = output as usize;
    sizes.dilation[to] = dilation as usize;
    sizes.before[to] = before as usize;
    let along = if lists.transposed { &mut sizes.spread } else { &mut sizes.stride };
    along[to] = stride as usize;
    Ok(output)
}

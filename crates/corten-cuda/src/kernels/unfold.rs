//! Images as matrices of sliding blocks, and back.

use crate::kernel::{Argument, Template, parameters};
use crate::launch::Shape;
use crate::operands::{Operands, contiguous, empty, on_meta};
use crate::stream::Stream;
use crate::text;
use corten_core::{Access, DType, Result, not_implemented_for};
use corten_ops::{Tensor, op};

static IM2COL: Template = Template { name: "im2col", text: &[text::UNFOLD] };
static COL2IM: Template = Template { name: "col2im", text: &[text::UNFOLD] };

/// `Blocks` of `unfold.cuh`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Blocks {
    image: [i64; 2],
    kernel: [i64; 2],
    blocks: [i64; 2],
    stride: [i64; 2],
    padding: [i64; 2],
    dilation: [i64; 2],
}

impl Blocks {
    /// The numbers are checked.
    fn of(
        image: &[i64],
        kernel: &[i64],
        dilation: &[i64],
        padding: &[i64],
        stride: &[i64],
    ) -> Self {
        let two = |list: &[i64]| [list[0], *list.last().unwrap_or(&list[0])];
        let (kernel, dilation) = (two(kernel), two(dilation));
        let (padding, stride, image) = (two(padding), two(stride), two(image));
        let blocks = [0, 1].map(|axis| {
            let reach = dilation[axis] * (kernel[axis] - 1) + 1;
            (image[axis] + 2 * padding[axis] - reach) / stride[axis] + 1
        });
        Self { image, kernel, blocks, stride, padding, dilation }
    }
}

fn check(dtype: DType, name: &'static str) -> Result<()> {
    let float = dtype.is_floating_point() && dtype.itemsize() > 1;
    match float || dtype.is_complex() || dtype == DType::Bool {
        true => Ok(()),
        false => Err(not_implemented_for(name, dtype)),
    }
}

fn launch(
    template: &'static Template,
    out: &Tensor,
    input: &Tensor,
    blocks: Blocks,
    arguments: &[Argument],
) -> Result<()> {
    let mut n = out.numel() as u64;
    if n == 0 {
        return Ok(());
    }
    let held = Operands::hold(&[(out, Access::Write), (input, Access::Read)])?;
    let (mut to, mut from, mut blocks) = (held.at(0), held.at(1), blocks);
    let stream = Stream::current(out.device().index);
    // SAFETY: both tensors are contiguous, have the sizes that the blocks tell, and are held.
    unsafe {
        let parameters = parameters!(blocks, n, to, from);
        template.launch(arguments, Shape::over(out.numel()), stream, parameters)?;
    }
    drop(held);
    Ok(())
}

/// Sliding blocks of images as the columns of a matrix per image.
///
/// # Errors
/// `Runtime` for geometry that does not fit, `NotImplemented` for integers.
pub fn im2col(
    self_: &Tensor,
    kernel_size: &[i64],
    dilation: &[i64],
    padding: &[i64],
    stride: &[i64],
) -> Result<Tensor> {
    let planned = op::im2col(&on_meta(self_)?, kernel_size, dilation, padding, stride)?;
    let dtype = self_.dtype();
    check(dtype, "im2col_out_cuda")?;
    let out = empty(&planned.sizes(), dtype, self_)?;
    let sizes = self_.sizes();
    let blocks = Blocks::of(&sizes[sizes.len() - 2..], kernel_size, dilation, padding, stride);
    launch(&IM2COL, &out, &contiguous(self_)?, blocks, &[Argument::Storage(dtype)])?;
    Ok(out)
}

/// The sum of the columns of a matrix per image, each put back where its block lies.
///
/// # Errors
/// As for [`im2col`].
pub fn col2im(
    self_: &Tensor,
    output_size: &[i64],
    kernel_size: &[i64],
    dilation: &[i64],
    padding: &[i64],
    stride: &[i64],
) -> Result<Tensor> {
    let input = on_meta(self_)?;
    let planned = op::col2im(&input, output_size, kernel_size, dilation, padding, stride)?;
    let dtype = self_.dtype();
    check(dtype, "col2im_out_cuda")?;
    let out = empty(&planned.sizes(), dtype, self_)?;
    let blocks = Blocks::of(output_size, kernel_size, dilation, padding, stride);
    let arguments = [Argument::Storage(dtype), Argument::Value(dtype)];
    launch(&COL2IM, &out, &contiguous(self_)?, blocks, &arguments)?;
    Ok(out)
}

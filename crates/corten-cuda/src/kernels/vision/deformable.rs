//! What convolutions with moved taps and their gradients are made of: columns of what taps read, and products.

use super::regions::wide;
use crate::flat_launch::Flat;
use crate::kernel::{Argument, Template, parameters};
use crate::operands::{contiguous, empty, zeros};
use crate::text;
use corten_core::{Access, DType, Result, Scalar};
use corten_ops::{Tensor, op};

static COLUMNS: Template = Template { name: "deform_columns", text: &[text::INDEX, text::DEFORM] };
static TO_INPUT: Template =
    Template { name: "deform_to_input", text: &[text::INDEX, text::DEFORM] };
static TO_OFFSETS: Template =
    Template { name: "deform_to_offsets", text: &[text::INDEX, text::DEFORM] };

/// Elements of the columns that are made at a time.
const MOST: i64 = 1 << 27;

/// `Deform` of `deform.cuh`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Deform {
    channels: i64,
    height: i64,
    width: i64,
    offset_groups: i64,
    kernel: [i64; 2],
    output: [i64; 2],
    stride: [i64; 2],
    padding: [i64; 2],
    dilation: [i64; 2],
}

/// The numbers of a call.
pub(super) struct Numbers {
    pub(super) stride: [i64; 2],
    pub(super) padding: [i64; 2],
    pub(super) dilation: [i64; 2],
    pub(super) groups: i64,
    pub(super) offset_groups: i64,
}

/// A call whose tensors are contiguous and of the dtype that sums are made in.
pub(super) struct Call {
    input: Tensor,
    /// By group, feature and row of the columns.
    weight: Tensor,
    weight_sizes: Vec<i64>,
    offset: Tensor,
    mask: Option<Tensor>,
    dtype: DType,
    shape: Deform,
    groups: i64,
    out: Vec<i64>,
}

/// Gradients in the dtype that sums are made in.
pub(super) struct Gradients {
    pub(super) input: Tensor,
    pub(super) weight: Tensor,
    pub(super) offset: Tensor,
    pub(super) mask: Option<Tensor>,
}

impl Call {
    pub(super) fn of(
        input: &Tensor,
        weight: &Tensor,
        offset: &Tensor,
        mask: Option<&Tensor>,
        out: &[i64],
        numbers: Numbers,
    ) -> Result<Self> {
        let dtype = wide(input.dtype(), "deformable_im2col")?;
        let dense = |tensor: &Tensor| contiguous(&op::to_dtype(tensor, dtype, false, false, None)?);
        let (sizes, kernel) = (input.sizes(), weight.sizes());
        let shape = Deform {
            channels: sizes[1],
            height: sizes[2],
            width: sizes[3],
            offset_groups: numbers.offset_groups,
            kernel: [kernel[2], kernel[3]],
            output: [out[2], out[3]],
            stride: numbers.stride,
            padding: numbers.padding,
            dilation: numbers.dilation,
        };
        let rows = kernel[1] * kernel[2] * kernel[3];
        let groups = numbers.groups;
        Ok(Self {
            input: dense(input)?,
            weight: op::view(&dense(weight)?, &[groups, kernel[0] / groups, rows])?,
            weight_sizes: kernel.to_vec(),
            offset: dense(offset)?,
            mask: mask.map(dense).transpose()?,
            dtype,
            shape,
            groups,
            out: out.to_vec(),
        })
    }

    /// The rows of the columns, of all groups.
    fn rows(&self) -> i64 {
        self.shape.channels * self.shape.kernel[0] * self.shape.kernel[1]
    }

    fn places(&self) -> i64 {
        self.shape.output[0] * self.shape.output[1]
    }

    /// Images whose columns are made together: the first one and their number.
    fn parts(&self) -> impl Iterator<Item = (i64, i64)> + use<> {
        let images = self.out[0];
        let step = (MOST / (self.rows() * self.places()).max(1)).clamp(1, images.max(1));
        (0..images).step_by(step as usize).map(move |first| (first, step.min(images - first)))
    }

    fn part(&self, tensor: &Tensor, (first, count): (i64, i64)) -> Result<Tensor> {
        op::narrow(tensor, 0, first, count)
    }

    fn launch(
        &self,
        template: &'static Template,
        n: i64,
        tensors: &[(&Tensor, Access)],
    ) -> Result<()> {
        let mut shape = self.shape;
        let call = Flat { template, of: &[Argument::Storage(self.dtype)], tensors };
        // SAFETY: the tensors are contiguous parts of some images, and have the sizes that the operator's checks
        // have found; places outside of an image are not followed.
        unsafe { call.over(n, parameters!(shape)) }
    }

    /// What the taps of some images read, by image, group, row and place.
    fn columns(&self, part: (i64, i64)) -> Result<Tensor> {
        let sizes = [part.1, self.groups, self.rows() / self.groups, self.places()];
        let columns = empty(&sizes, self.dtype, &self.input)?;
        let (images, offset) = (self.part(&self.input, part)?, self.part(&self.offset, part)?);
        let mask = self.mask.as_ref().map(|mask| self.part(mask, part)).transpose()?;
        let mask = mask.unwrap_or_default();
        let tensors = [
            (&columns, Access::Write),
            (&images, Access::Read),
            (&offset, Access::Read),
            (&mask, Access::Read),
        ];
        self.launch(&COLUMNS, columns.numel(), &tensors)?;
        Ok(columns)
    }

    /// A tensor of the result's shape, or a part of its images, by group and feature.
    fn by_group(&self, tensor: &Tensor) -> Result<Tensor> {
        let sizes = [tensor.size(0)?, self.groups, self.out[1] / self.groups, self.places()];
        op::view(tensor, &sizes)
    }

    pub(super) fn forward(&self, bias: &Tensor) -> Result<Tensor> {
        let out = empty(&self.out, self.dtype, &self.input)?;
        for part in self.parts() {
            let product = op::matmul(&self.weight, &self.columns(part)?)?;
            op::copy_(&self.by_group(&self.part(&out, part)?)?, &product, false)?;
        }
        let bias = op::to_dtype(bias, self.dtype, false, false, None)?;
        op::add__tensor(&out, &op::reshape(&bias, &[1, self.out[1], 1, 1])?, Scalar::Int(1))
    }

    pub(super) fn gradients(&self, grad: &Tensor) -> Result<Gradients> {
        let grad = contiguous(&op::to_dtype(grad, self.dtype, false, false, None)?)?;
        let like = |tensor: &Tensor| zeros(&tensor.sizes(), self.dtype, tensor);
        let found = Gradients {
            input: like(&self.input)?,
            weight: like(&self.weight)?,
            offset: like(&self.offset)?,
            mask: self.mask.as_ref().map(like).transpose()?,
        };
        for part in self.parts() {
            let own = self.by_group(&self.part(&grad, part)?)?;
            let spread = contiguous(&op::matmul(&op::transpose_int(&self.weight, 1, 2)?, &own)?)?;
            self.spread(&spread, part, &found)?;
            let columns = op::transpose_int(&self.columns(part)?, 2, 3)?;
            let product =
                op::sum_dim_intlist(&op::matmul(&own, &columns)?, Some(&[0]), false, None)?;
            op::add__tensor(&found.weight, &product, Scalar::Int(1))?;
        }
        let weight = op::view(&found.weight, &self.weight_sizes)?;
        Ok(Gradients { weight, ..found })
    }

    /// Spreads the gradients of what taps read.
    fn spread(&self, spread: &Tensor, part: (i64, i64), found: &Gradients) -> Result<()> {
        let (images, offset) = (self.part(&self.input, part)?, self.part(&self.offset, part)?);
        let of = |tensor: &Option<Tensor>| -> Result<Tensor> {
            let own = tensor.as_ref().map(|tensor| self.part(tensor, part)).transpose()?;
            Ok(own.unwrap_or_default())
        };
        let (mask, of_mask) = (of(&self.mask)?, of(&found.mask)?);
        let (of_images, of_offset) =
            (self.part(&found.input, part)?, self.part(&found.offset, part)?);
        let tensors = [
            (&of_images, Access::Write),
            (spread, Access::Read),
            (&offset, Access::Read),
            (&mask, Access::Read),
        ];
        self.launch(&TO_INPUT, spread.numel(), &tensors)?;
        let tensors = [
            (&of_offset, Access::Write),
            (&of_mask, Access::Write),
            (spread, Access::Read),
            (&images, Access::Read),
            (&offset, Access::Read),
            (&mask, Access::Read),
        ];
        self.launch(&TO_OFFSETS, offset.numel() / 2, &tensors)
    }
}

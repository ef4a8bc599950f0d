//! Reductions of neighbouring slices, segment by segment.

use crate::failure;
use crate::flat_launch::Flat;
use crate::kernel::{Argument, Template, parameters};
use crate::operands::{contiguous, empty, on_meta, on_meta_opt, zeros};
use crate::text;
use corten_core::geometry::wrap_dim;
use corten_core::{Access, DType, Result, Scalar, bail, ensure, not_implemented_for};
use corten_ops::{Tensor, op};

static REDUCE: Template = Template { name: "segment_reduce", text: &[text::SEGMENT] };
static GRADIENT: Template = Template { name: "segment_gradient", text: &[text::SEGMENT] };

/// `Segments` of `segment.cuh`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Segments {
    count: u64,
    size: u64,
    inner: u64,
    initial: f64,
    has_initial: u32,
}

/// The number of a reduction in `segment.cuh`, and what a segment starts with.
fn kind_of(reduce: &str) -> Result<(u32, f64)> {
    Ok(match reduce {
        "max" => (0, f64::NEG_INFINITY),
        "mean" => (1, 0.0),
        "min" => (2, f64::INFINITY),
        "sum" => (3, 0.0),
        "prod" => (4, 1.0),
        _ => bail!(
            Runtime,
            "reduce argument must be either sum, prod, mean, amax or amin, got {reduce}"
        ),
    })
}

fn checked_dtype(data: &Tensor) -> Result<DType> {
    let dtype = data.dtype();
    match dtype.is_floating_point() && dtype.itemsize() > 1 {
        true => Ok(dtype),
        false => Err(not_implemented_for("segment_reduce_cuda", dtype)),
    }
}

/// Where segments begin and end along the axis: as given, or from their lengths.
fn bounds(lengths: Option<&Tensor>, offsets: Option<&Tensor>) -> Result<Tensor> {
    let words = |tensor: &Tensor| op::to_dtype(tensor, DType::Int64, false, false, None);
    if let Some(offsets) = offsets.filter(|own| own.defined()) {
        return contiguous(&words(offsets)?);
    }
    let Some(lengths) = lengths.filter(|own| own.defined()) else {
        bail!(Runtime, "segment_reduce(): Either lengths or offsets must be defined.")
    };
    let mut sizes = lengths.sizes().to_vec();
    if let Some(last) = sizes.last_mut() {
        *last = 1;
    }
    let start = zeros(&sizes, DType::Int64, lengths)?;
    contiguous(&op::cat(&[start, op::cumsum(&words(lengths)?, -1, None)?], -1)?)
}

/// Refuses lengths that are no division of the axis; waits for the device.
fn check_lengths(lengths: &Tensor, bounds: &Tensor, size: i64) -> Result<()> {
    let all = |mask: &Tensor| -> Result<bool> { Ok(op::item(&op::all(mask)?)?.to_bool()) };
    ensure!(all(&op::ge_scalar(lengths, 0.into())?)?, Runtime, "lengths contains negative value!");
    ensure!(
        all(&op::eq_scalar(&op::select_int(bounds, -1, -1)?, size.into())?)?,
        Runtime,
        "segment_reduce(): Expected all rows of lengths along axis to sum to \
         data.size(lengths.dim()-1) when !unsafe."
    );
    Ok(())
}

fn shape_of(
    data: &Tensor,
    bounds: &Tensor,
    axis: usize,
    initial: Option<Scalar>,
    start: f64,
) -> Segments {
    let sizes = data.sizes();
    Segments {
        count: (bounds.sizes()[axis] - 1).max(0) as u64,
        size: sizes[axis] as u64,
        inner: sizes[axis + 1..].iter().product::<i64>() as u64,
        initial: initial.map_or(start, |initial| initial.to_f64()),
        has_initial: initial.is_some().into(),
    }
}

/// `segment_reduce`.
///
/// # Errors
/// Those of the CPU's checks; offsets out of bounds are reported later.
pub fn segment_reduce(
    data: &Tensor,
    reduce: &str,
    lengths: Option<&Tensor>,
    indices: Option<&Tensor>,
    offsets: Option<&Tensor>,
    axis: i64,
    unsafe_: bool,
    initial: Option<Scalar>,
) -> Result<Tensor> {
    let given = [on_meta_opt(lengths)?, on_meta_opt(indices)?, on_meta_opt(offsets)?];
    let [on_lengths, on_indices, on_offsets] = [0, 1, 2].map(|i| given[i].as_ref());
    let planned = op::segment_reduce(
        &on_meta(data)?,
        reduce,
        on_lengths,
        on_indices,
        on_offsets,
        axis,
        unsafe_,
        initial,
    )?;
    let (dtype, axis) = (checked_dtype(data)?, wrap_dim(axis, data.dim())?);
    let (kind, start) = kind_of(reduce)?;
    let out = empty(&planned.sizes(), dtype, data)?;
    let bounds = bounds(lengths, offsets)?;
    if let (None, Some(lengths), false) = (on_offsets, lengths, unsafe_) {
        check_lengths(lengths, &bounds, data.sizes()[axis])?;
    }
    let data = contiguous(data)?;
    let mut shape = shape_of(&data, &bounds, axis, initial, start);
    let mut report = failure::address(out.device().index)?;
    let tensors = [(&out, Access::Write), (&data, Access::Read), (&bounds, Access::Read)];
    let of = [Argument::Storage(dtype), Argument::Value(dtype), Argument::Number(kind)];
    let call = Flat { template: &REDUCE, of: &of, tensors: &tensors };
    // SAFETY: the tensors are contiguous and of the sizes that the shape tells; bounds are looked at before they
    // are followed.
    unsafe { call.over(out.numel(), parameters!(shape, report))? };
    Ok(out)
}

/// `_segment_reduce_backward`.
///
/// # Errors
/// As for [`segment_reduce`].
pub fn segment_reduce_backward(
    grad: &Tensor,
    output: &Tensor,
    data: &Tensor,
    reduce: &str,
    lengths: Option<&Tensor>,
    offsets: Option<&Tensor>,
    axis: i64,
    initial: Option<Scalar>,
) -> Result<Tensor> {
    let given = [on_meta_opt(lengths)?, on_meta_opt(offsets)?];
    op::_segment_reduce_backward(
        &on_meta(grad)?,
        &on_meta(output)?,
        &on_meta(data)?,
        reduce,
        given[0].as_ref(),
        given[1].as_ref(),
        axis,
        initial,
    )?;
    let (dtype, axis) = (checked_dtype(data)?, wrap_dim(axis, data.dim())?);
    let out = zeros(&data.sizes(), dtype, data)?;
    let bounds = bounds(lengths, offsets)?;
    let (kind, _) = kind_of(reduce)?;
    let (grad, output, data) = (contiguous(grad)?, contiguous(output)?, contiguous(data)?);
    let mut shape = shape_of(&data, &bounds, axis, initial, 1.0);
    let mut report = failure::address(out.device().index)?;
    let tensors = [
        (&out, Access::Write),
        (&grad, Access::Read),
        (&output, Access::Read),
        (&data, Access::Read),
        (&bounds, Access::Read),
    ];
    let of = [Argument::Storage(dtype), Argument::Value(dtype), Argument::Number(kind)];
    let call = Flat { template: &GRADIENT, of: &of, tensors: &tensors };
    // SAFETY: as above.
    unsafe { call.over(grad.numel(), parameters!(shape, report))? };
    Ok(out)
}

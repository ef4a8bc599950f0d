//! Rules of choosing between elements by a mask.
//!
//! The loop has one output and three inputs: a boolean condition, and two operands of the
//! output's dtype, of which the first is taken where the condition is true. Numbers arrive as an
//! operand with stride 0.

use crate::Tensor;
use crate::iter::{TensorIterator, TensorIteratorConfig, copy_dense, read_scalar, resize_output};
use corten_core::geometry::Overlap;
use corten_core::{DType, Device, Result, ResultTypeState, Scalar, bail, ensure, geometry, warn};

/// `where.self`: both choices are promoted together.
///
/// # Errors
/// `Runtime` for a condition that is not boolean, and those of [`TensorIteratorConfig::build`].
pub fn where_self(
    condition: &Tensor,
    self_: &Tensor,
    other: &Tensor,
    out: Option<&Tensor>,
) -> Result<TensorIterator> {
    if condition.dtype() == DType::UInt8 {
        warn(
            "where received a uint8 condition tensor. This behavior is deprecated and will be \
             removed in a future version of PyTorch. Use a boolean condition instead.",
        );
    } else {
        ensure!(
            condition.dtype() == DType::Bool,
            Runtime,
            "where expected condition to be a boolean tensor, but got a tensor with dtype {}",
            condition.dtype().type_name()
        );
    }
    let dtype = common_dtype(self_, other)?;
    if let Some(out) = out.filter(|out| out.dtype() != dtype) {
        bail!(
            Runtime,
            "Expected out type to be {} but got {}",
            dtype.type_name(),
            out.dtype().type_name()
        );
    }
    TensorIteratorConfig::new()
        .check_all_same_dtype(false)
        .allow_cpu_scalars(true)
        .declare_static_dtype(dtype)
        .add_output(out)
        .add_input(condition)
        .add_input_as(self_, dtype)?
        .add_input_as(other, dtype)?
        .build()
}

fn common_dtype(a: &Tensor, b: &Tensor) -> Result<DType> {
    if a.dtype() == b.dtype() && !a.is_wrapped_number() && !b.is_wrapped_number() {
        return Ok(a.dtype());
    }
    let mut state = ResultTypeState::default();
    for tensor in [a, b] {
        state.push_tensor(tensor.dtype(), tensor.dim(), tensor.is_wrapped_number())?;
    }
    state.finish()
}

/// `masked_fill.Scalar`: a number where the mask is true.
///
/// # Errors
/// `Runtime` for a mask that is not boolean or a number that does not fit the dtype, and those of
/// [`TensorIteratorConfig::build`].
pub fn masked_fill(
    self_: &Tensor,
    mask: &Tensor,
    value: Scalar,
    out: Option<&Tensor>,
) -> Result<TensorIterator> {
    let target = fill_target(self_, mask, out)?;
    masked_config(&target, mask)?.add_input_scalar(value, self_.dtype())?.add_input(&target).build()
}

/// `masked_fill.Tensor`: a rank-0 tensor's value where the mask is true.
///
/// # Errors
/// Those of [`masked_fill`]; `Runtime` for a value of another rank.
pub fn masked_fill_tensor(
    self_: &Tensor,
    mask: &Tensor,
    value: &Tensor,
    out: Option<&Tensor>,
) -> Result<TensorIterator> {
    super::check_fill_value("masked_fill_", value)?;
    let target = fill_target(self_, mask, out)?;
    let config = masked_config(&target, mask)?;
    let config = if value.device().is_cpu() {
        config.add_input_scalar(read_scalar(value)?, self_.dtype())?
    } else {
        config.add_input_as(value, self_.dtype())?
    };
    config.add_input(&target).build()
}

/// The tensor to write: the one given, or a contiguous copy in the broadcast shape.
fn fill_target(self_: &Tensor, mask: &Tensor, out: Option<&Tensor>) -> Result<Tensor> {
    ensure!(
        mask.dtype() == DType::Bool,
        Runtime,
        "masked_fill_ only supports boolean masks, but got mask with dtype {}",
        super::cpp_name(mask.dtype())
    );
    if let Some(out) = out.filter(|out| out.is_same(self_)) {
        return Ok(out.clone());
    }
    let shape = geometry::infer_broadcast(&mask.sizes(), &self_.sizes())?;
    let target = match out {
        Some(out) => {
            resize_output(out, &shape)?;
            out.clone()
        }
        None => crate::iter::allocate(&shape, None, self_.dtype(), self_.device())?,
    };
    copy_dense(&target, self_)?;
    Ok(target)
}

fn masked_config(target: &Tensor, mask: &Tensor) -> Result<TensorIteratorConfig> {
    if geometry::has_internal_overlap(target) == Overlap::Yes {
        warn(
            "Use of masked_fill_ on expanded tensors is deprecated. Please clone() the tensor \
             before performing this operation. This also applies to advanced indexing e.g. \
             tensor[mask] = scalar",
        );
    }
    geometry::assert_no_partial_overlap(target, mask)?;
    Ok(TensorIteratorConfig::new()
        .check_mem_overlap(false)
        .check_all_same_dtype(false)
        .check_all_same_device(mask.device() != Device::CPU || target.device().is_cpu())
        .resize_outputs(false)
        .add_output(Some(target))
        .add_input(mask))
}

/// The output of an operator that picks elements.
///
/// # Errors
/// `Runtime` for one of another dtype; for the functions below likewise.
pub fn check_picked_out(operator: &str, self_: &Tensor, out: &Tensor) -> Result<()> {
    ensure!(
        self_.dtype() == out.dtype(),
        Runtime,
        "{operator}(): self and result must have the same scalar type"
    );
    Ok(())
}

/// The output of `take`.
pub fn check_take_out(self_: &Tensor, out: &Tensor) -> Result<()> {
    ensure!(
        self_.dtype() == out.dtype(),
        Runtime,
        "take(): self and out expected to have the same dtype, but got self.dtype = {} and \
         out.dtype = {}",
        self_.dtype().type_name(),
        out.dtype().type_name()
    );
    Ok(())
}

/// The output of `nonzero`.
pub fn check_nonzero_out(out: &Tensor) -> Result<()> {
    ensure!(
        out.dtype() == DType::Int64,
        Runtime,
        "nonzero: Expected out tensor to have scalar type Long but got scalar type{}",
        out.dtype().type_name()
    );
    Ok(())
}

/// The output of `index`.
pub fn check_index_out(self_: &Tensor, out: &Tensor) -> Result<()> {
    ensure!(
        self_.dtype() == out.dtype(),
        Runtime,
        "index_out: self ({}) and result ({}) must have the same scalar type",
        self_.dtype().type_name(),
        out.dtype().type_name()
    );
    Ok(())
}

//! Every operator on the meta device: the shapes, strides and dtypes of the CPU, without data.

use crate::for_all;
use corten_autograd::no_grad;
use corten_core::{DType, Device, ErrorKind, Result, ensure};
use corten_ops::{Tensor, op};

/// Operators whose results have a shape that follows from the data.
const BY_DATA: &[&str] = &["masked_select"];

/// Operators that the meta device does not have yet: they are refused. The list may only shrink.
const WITHOUT: &[&str] = &[
    "_adaptive_avg_pool2d",
    "_adaptive_avg_pool2d_backward",
    "_adaptive_avg_pool3d",
    "_adaptive_avg_pool3d_backward",
    "_log_softmax",
    "_log_softmax_backward_data",
    "_safe_softmax",
    "_scaled_dot_product_flash_attention_for_cpu",
    "_softmax",
    "_softmax_backward_data",
    "adaptive_max_pool2d",
    "adaptive_max_pool2d_backward",
    "adaptive_max_pool3d",
    "adaptive_max_pool3d_backward",
    "addbmm",
    "addmm",
    "addmv",
    "avg_pool2d",
    "avg_pool2d_backward",
    "avg_pool3d",
    "avg_pool3d_backward",
    "baddbmm",
    "binary_cross_entropy",
    "bmm",
    "cat",
    "col2im",
    "convolution",
    "convolution_backward",
    "dot",
    "embedding",
    "embedding_dense_backward",
    "fractional_max_pool2d",
    "fractional_max_pool2d_backward",
    "fractional_max_pool3d",
    "fractional_max_pool3d_backward",
    "gather",
    "im2col",
    "index.Tensor",
    "index_add",
    "index_copy",
    "index_fill.int_Scalar",
    "index_fill.int_Tensor",
    "index_put",
    "index_reduce",
    "index_select",
    "linalg_cross",
    "linalg_lstsq",
    "masked_scatter",
    "max_pool2d_with_indices",
    "max_pool2d_with_indices_backward",
    "max_pool3d_with_indices",
    "max_pool3d_with_indices_backward",
    "max_unpool2d",
    "max_unpool3d",
    "median",
    "mm",
    "mv",
    "nanmedian",
    "native_batch_norm",
    "native_group_norm",
    "native_layer_norm",
    "nll_loss2d_backward",
    "nll_loss2d_forward",
    "nll_loss_backward",
    "nll_loss_forward",
    "put",
    "reflection_pad1d",
    "reflection_pad1d_backward",
    "reflection_pad2d",
    "reflection_pad2d_backward",
    "reflection_pad3d",
    "reflection_pad3d_backward",
    "replication_pad1d",
    "replication_pad1d_backward",
    "replication_pad2d",
    "replication_pad2d_backward",
    "replication_pad3d",
    "replication_pad3d_backward",
    "roll",
    "scatter.src",
    "scatter.value",
    "scatter_add",
    "scatter_reduce.two",
    "stack",
    "take",
    "unfold_backward",
    "vdot",
];

#[test]
fn shapes_without_data() {
    for_all(DType::Float64, |call| {
        let name = call.name();
        let base = name.split('.').next().unwrap_or_default();
        if BY_DATA.contains(&base) {
            return Ok(());
        }
        let real = no_grad(|| call.run(call.inputs()))?;
        let shapes = no_grad(|| call.on(&meta)?.run_as_given());
        if WITHOUT.contains(&name.as_str()) {
            let refused = shapes.is_err_and(|error| error.kind() == ErrorKind::NotImplemented);
            ensure!(refused, Runtime, "the meta device has the operator: take it off the list");
            return Ok(());
        }
        let shapes = shapes?;
        ensure!(real.len() == shapes.len(), Runtime, "another number of results");
        for (place, (real, shape)) in real.iter().zip(&shapes).enumerate() {
            ensure!(shape.device().is_meta(), Runtime, "result {place} is not on the meta device");
            let same = real.sizes() == shape.sizes()
                && real.strides() == shape.strides()
                && real.dtype() == shape.dtype();
            ensure!(
                same,
                Runtime,
                "result {place} has sizes {:?}, strides {:?} and dtype {:?} on the CPU, and \
                 {:?}, {:?} and {:?} on the meta device",
                real.sizes().as_slice(),
                real.strides().as_slice(),
                real.dtype(),
                shape.sizes().as_slice(),
                shape.strides().as_slice(),
                shape.dtype()
            );
        }
        Ok(())
    });
}

/// A tensor like another without its data.
fn meta(tensor: &Tensor) -> Result<Tensor> {
    op::empty_strided(
        &tensor.sizes(),
        &tensor.strides(),
        Some(tensor.dtype()),
        None,
        Some(Device::META),
        None,
    )
}

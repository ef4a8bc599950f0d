"""Where Corten differs from PyTorch in the calls of ``forward_cases``, and what no call covers.

``EXCUSED`` holds patterns of an operator with its call (sample, dtype, layout, function), patterns of the
difference, how many calls differ so at most, and the reason. A call that differs in another way fails.
"""

EXCUSED = [
    # What is accepted besides: docs/SEMANTICS.md.
    (r"", r"ACCEPTS where PyTorch raises (NotImplementedError|TypeError)", 1010,
     "a superset: more dtypes, out=, indices with gaps"),
    (r"glu_backward|kl_div|soft_margin_loss|norm\.\w+_dtype|mvlgamma|multigammaln|fractional_max_pool3d|_attention"
     r"|instance_norm|unfold_backward|diff\.out|binary_cross_entropy\.out|fft_i?fftshift|linalg_tensorinv"
     r"|normal\.Tensor_float_out|split_copy\.Tensor_out|set_\.source_Tensor|isin\.Scalar_Tensor|pdist_|embedding_bag_\w*backward"
     r"|nll_loss2d_backward", r"ACCEPTS", 140, "a superset: more dtypes and sizes, strided tensors"),
    # Refusals.
    (r" empty", r"REFUSES", 84,
     "dtypes and shapes are checked before PyTorch returns early because there is nothing to compute"),
    (r" (empty|0-dim)", r"CLASS", 428,
     "both refuse a dtype that has no kernel and a shape that is too small; which check is first differs"),
    (r"alpha_dropout|cum(sum|prod)_ |softmax_backward_data|binary_cross_entropy|pdist_"
     r"|embedding_bag_.*backward|flash_attention|fractional_max_pool3d|nll_loss2d_backward|histogram|view_as_complex",
     r"CLASS", 93,
     "refused by a check of dtypes, RuntimeError, where PyTorch finds no kernel, or the other way round"),
    (r"set_\.source_Storage", r"CLASS", 20, "a storage is not made by the samples: None is given"),
    (r"(embedding|embedding_dense)_backward|embedding_renorm_|affine_grid_generator|histogram"
     r"|(mse|smooth_l1)_loss_backward|l1_loss|inner|clamp_?\.Tensor|cum(sum|prod)_|cum(max|min)|softmax_backward_data|unfold_backward|_foreach_pow_",
     r"REFUSES", 85, "dtypes without a kernel, or results that their tensor cannot hold"),
    # Values.
    (r"_linalg_eigh|linalg_eigh|linalg_svd|svd", r"VALUE", 69, "vectors have no definite sign or phase"),
    (r"_linalg_(det|slogdet)", r"VALUE", 10, "pivots are chosen in the matrix, not in its transpose"),
    (r"silu_backward.* complex", r"VALUE", 9, "the derivative is conjugated"),
    (r"log_sigmoid_(backward|forward)", r"VALUE|META", 34, "there is no buffer"),
    (r"grid_sampler.* bfloat16", r"VALUE", 5, "PyTorch rounds coefficients of cubic interpolation"),
    (r"matrix_exp.* float16", r"VALUE", 11, "PyTorch's powers overflow"),
    (r"binary_cross_entropy_backward", r"VALUE", 6, "the least variance is PyTorch's 1e-12 in single precision"),
    (r"_standard_gamma_grad|_dirichlet_grad", r"VALUE", 14, "PyTorch's are approximations to 1e-4"),
    (r"(_embedding_bag|fractional_max_pool\dd_backward|adaptive_max_pool3d_backward|ctc_loss|native_layer_norm_backward"
     r"|multinomial|flash_attention\w*|no_stats_out|_fused_\w+).* strided", r"VALUE", 42,
     "PyTorch reads these tensors as if contiguous"),
    # Strides and dtypes.
    (r"(log_sigmoid|rrelu|rrelu_with_noise|_foreach_copy|_foreach_pow\.ScalarAndTensor|angle|pow\.Scalar"
     r"|float_power\.Scalar|to_mkldnn) .* strided", r"META", 33,
     "the result has the order of dimensions of the input"),
    (r"flash_attention", r"META|VALUE", 7, "the result is contiguous"),
    (r"contiguous (torch|_nn)\.\w*(loss\w*|binary_cross_entropy)$", r"META", 20,
     "functions that PyTorch has under another name do not reduce by default either"),
    (r"normal\.Tensor_float_out.* 0-dim", r"META", 3, "the output is resized to no dimensions"),
    (r"binary_cross_entropy\.out", r"VALUE", 6, "PyTorch reduces an output that it has not written"),
    (r"native_dropout.* empty|multi_margin_loss.* empty", r"META", 6,
     "an empty result has the dtype and shape of others"),
    (r"torch\._fused_(adam|adamw|sgd|adagrad)_$", r"list instead of value", 6, "the tensors are returned"),
]
# Operators without a result of PyTorch, by reason.
UNCOVERED = {
    "PyTorch has no such operator; the operators of torchvision: test_vision_operators.py, test_image_files.py": """
        aten::adadelta_step_ aten::flip_view aten::lstm_sequence aten::lstm_sequence_backward aten::gru_sequence
        aten::gru_sequence_backward torchvision::nms torchvision::box_iou_rotated torchvision::roi_align
        torchvision::_roi_align_backward torchvision::roi_pool torchvision::_roi_pool_backward
        torchvision::ps_roi_align torchvision::_ps_roi_align_backward torchvision::ps_roi_pool
        torchvision::_ps_roi_pool_backward torchvision::deform_conv2d torchvision::_deform_conv2d_backward
        torchvision::qnms torchvision::qroi_align torchvision::_cuda_version image::decode_jpeg
        image::encode_jpeg image::decode_png image::encode_png image::decode_webp image::decode_gif
        image::decode_image image::read_file image::write_file image::_jpeg_version
        image::_is_compiled_against_turbo""",
    "what it shares is not in a result: test_copy_on_write.py": """
        aten::_lazy_clone""",
    "takes a storage or sizes that samples do not make": """
        aten::set_.source_Storage aten::set_.source_Storage_storage_offset
        aten::_sparse_compressed_tensor_with_dims""",
    "has kernels for GPUs alone, as in PyTorch: tests/cuda/test_attention.py": """
        aten::_scaled_dot_product_efficient_attention aten::_scaled_dot_product_efficient_attention_backward""",
    "takes tensors of another layout": """
        aten::_to_dense aten::_mkldnn_reshape aten::_mkldnn_transpose aten::mkldnn_linear""",
    "the operator without out changes an argument, and has another schema": """
        aten::rrelu_with_noise.out aten::_native_batch_norm_legit.out""",
    "PyTorch refuses empty outputs": """
        aten::split_copy.Tensor_out aten::_int_mm.out""",
}
# Public names without a call, by reason.
NAMES = {
    "has kernels for GPUs alone, as in PyTorch": """
        torch._scaled_dot_product_efficient_attention torch._scaled_dot_product_efficient_attention_backward""",
    "what it shares is not in a result: test_copy_on_write.py": "Tensor._lazy_clone torch._lazy_clone",
    "takes tensors of another layout": "_nn.mkldnn_linear torch._mkldnn_reshape torch._mkldnn_transpose",
}

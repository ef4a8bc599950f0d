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
    "tensors are quantised; their integers and numbers: test_quantized_ops.py": """
        corten::int8_linear corten::int8_linear_dynamic corten::int8_convolution corten::byte_sum quantized::add
        quantized::add.out quantized::add_out quantized::add.Scalar quantized::add.Scalar2
        quantized::add.Scalar_out quantized::add_scalar quantized::add_scalar.Tensor quantized::add_scalar_out
        quantized::add_scalar_out.Tensor quantized::add_relu quantized::add_relu.out quantized::add_relu_out
        quantized::add_relu.Scalar quantized::add_relu.Scalar2 quantized::add_relu.Scalar_out
        quantized::add_scalar_relu quantized::add_scalar_relu.Tensor quantized::add_scalar_relu_out
        quantized::add_scalar_relu_out.Tensor quantized::mul quantized::mul.out quantized::mul_out
        quantized::mul.Scalar quantized::mul.Scalar2 quantized::mul.Scalar_out quantized::mul_scalar
        quantized::mul_scalar.Tensor quantized::mul_scalar_out quantized::mul_scalar_out.Tensor
        quantized::mul_relu quantized::mul_relu.out quantized::mul_relu_out quantized::mul_relu.Scalar
        quantized::mul_relu.Scalar2 quantized::mul_relu.Scalar_out quantized::mul_scalar_relu
        quantized::mul_scalar_relu.Tensor quantized::mul_scalar_relu_out quantized::mul_scalar_relu_out.Tensor
        quantized::matmul quantized::cat quantized::cat_relu quantized::cat_out quantized::cat_relu_out
        quantized::relu6 quantized::clamp quantized::threshold quantized::sigmoid quantized::elu quantized::celu
        quantized::leaky_relu quantized::prelu quantized::hardswish quantized::softmax quantized::dropout
        quantized::batch_norm quantized::batch_norm_relu quantized::batch_norm1d quantized::batch_norm1d_relu
        quantized::batch_norm2d quantized::batch_norm2d_relu quantized::batch_norm3d
        quantized::batch_norm3d_relu quantized::layer_norm quantized::group_norm quantized::instance_norm
        quantized::max_pool1d quantized::max_pool2d aten::quantized_max_pool1d aten::quantized_max_pool2d
        aten::quantized_max_pool3d aten::quantized_batch_norm corten::quantized_linear
        corten::quantized_convolution""",
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
    "takes or makes quantised tensors: test_quantised.py": """
        aten::quantize_per_tensor aten::quantize_per_tensor.tensor_qparams aten::quantize_per_tensor.tensors
        aten::quantize_per_tensor_dynamic aten::quantize_per_channel aten::dequantize.self
        aten::dequantize.tensors aten::int_repr aten::q_scale aten::q_zero_point
        aten::q_per_channel_scales aten::q_per_channel_zero_points aten::q_per_channel_axis
        aten::_make_per_tensor_quantized_tensor aten::_make_per_channel_quantized_tensor
        aten::_empty_affine_quantized aten::_empty_per_channel_affine_quantized aten::empty_quantized
        aten::_choose_qparams_per_tensor""",
    "gives nothing, and raises where metadata differ: test_export.py": """
        aten::_assert_tensor_metadata""",
    "takes tensors of another layout": """
        aten::_to_dense aten::_mkldnn_reshape aten::_mkldnn_transpose aten::mkldnn_linear""",
    "takes or makes tensors in coordinate format: crates/corten/tests/all/sparse.rs": """
        aten::_sparse_coo_tensor_with_dims aten::_sparse_coo_tensor_with_dims_and_tensors
        aten::_nnz aten::sparse_dim aten::dense_dim aten::is_coalesced aten::_coalesced_
        aten::_indices aten::_values aten::indices aten::values aten::coalesce aten::_coalesce
        aten::_coalesce.out aten::sparse_coo_tensor.size aten::sparse_coo_tensor.indices
        aten::sparse_coo_tensor.indices_size aten::_sparse_coo_tensor_unsafe
        aten::_validate_sparse_coo_tensor_args aten::_dimI aten::_dimV aten::to_sparse.sparse_dim
        aten::_to_sparse.sparse_dim aten::to_sparse aten::_to_sparse aten::sparse_mask
        aten::sparse_mask.out aten::_sparse_mask_projection aten::_sparse_mask_projection.out
        aten::_sparse_broadcast_to aten::sparse_resize_ aten::sparse_resize_and_clear_
        aten::resize_as_sparse_ aten::copy_sparse_to_sparse_ aten::_sparse_mm aten::_sparse_addmm
        aten::_sparse_addmm.out aten::_sparse_sparse_matmul aten::_sparse_sparse_matmul.out
        aten::hspmm aten::hspmm.out aten::sspaddmm aten::sspaddmm.out aten::smm aten::_sparse_sum
        aten::_sparse_sum.dtype aten::_sparse_sum.dim aten::_sparse_sum.dim_out
        aten::_sparse_sum.dim_dtype aten::_sparse_sum_backward aten::_sparse_sum_backward.out
        aten::_sparse_softmax aten::_sparse_softmax.out aten::_sparse_softmax.int
        aten::_sparse_softmax_backward_data aten::_sparse_softmax_backward_data.out
        aten::_sparse_log_softmax aten::_sparse_log_softmax.out aten::_sparse_log_softmax.int
        aten::_sparse_log_softmax_backward_data aten::_sparse_log_softmax_backward_data.out
        aten::_gather_sparse_backward""",
    "takes or makes tensors in compressed layouts: crates/corten/tests/all/sparse_compressed.rs": """
        aten::_sparse_compressed_tensor_unsafe
        aten::sparse_compressed_tensor.comp_plain_value_size
        aten::sparse_compressed_tensor.comp_plain_value aten::_sparse_csr_tensor_unsafe
        aten::sparse_csr_tensor.crow_col_value_size aten::sparse_csr_tensor.crow_col_value
        aten::_sparse_csc_tensor_unsafe aten::sparse_csc_tensor.ccol_row_value_size
        aten::sparse_csc_tensor.ccol_row_value aten::_sparse_bsr_tensor_unsafe
        aten::sparse_bsr_tensor.crow_col_value_size aten::sparse_bsr_tensor.crow_col_value
        aten::_sparse_bsc_tensor_unsafe aten::sparse_bsc_tensor.ccol_row_value_size
        aten::sparse_bsc_tensor.ccol_row_value aten::_validate_sparse_compressed_tensor_args
        aten::_validate_sparse_csr_tensor_args aten::_validate_sparse_csc_tensor_args
        aten::_validate_sparse_bsr_tensor_args aten::_validate_sparse_bsc_tensor_args
        aten::_validate_compressed_sparse_indices aten::crow_indices aten::crow_indices_copy
        aten::crow_indices_copy.out aten::col_indices aten::col_indices_copy
        aten::col_indices_copy.out aten::ccol_indices aten::ccol_indices_copy
        aten::ccol_indices_copy.out aten::row_indices aten::row_indices_copy
        aten::row_indices_copy.out aten::to_sparse_csr aten::_to_sparse_csr
        aten::_to_sparse_csr.out aten::to_sparse_csc aten::_to_sparse_csc
        aten::_to_sparse_csc.out aten::to_sparse_bsr aten::_to_sparse_bsr
        aten::_to_sparse_bsr.out aten::to_sparse_bsc aten::_to_sparse_bsc
        aten::_to_sparse_bsc.out aten::_convert_indices_from_coo_to_csr
        aten::_convert_indices_from_coo_to_csr.out aten::_convert_indices_from_csr_to_coo
        aten::_convert_indices_from_csr_to_coo.out aten::sparse_sampled_addmm
        aten::sparse_sampled_addmm.out aten::_sparse_mm_reduce_impl
        aten::_sparse_mm_reduce_impl_backward aten::_sparse_mm.reduce
        aten::_sparse_csr_sum.dim_dtype aten::_sparse_csr_prod.dim_dtype""",
    "PyTorch has kernels for GPUs alone: test_semi_structured.py": """
        aten::_to_sparse_semi_structured aten::_sparse_semi_structured_mm
        aten::_sparse_semi_structured_addmm aten::_sparse_semi_structured_linear
        aten::_cslt_compress aten::_cslt_sparse_mm aten::_cslt_sparse_mm_search
        corten::semi_structured_to_dense""",
    "PyTorch has no such operators; those of language models: test_language_operators.py": """
        corten::fused_rms_norm corten::rotary_embedding corten::swiglu corten::geglu corten::quantize_rows
        corten::kv_cache_write_ corten::kv_cache_attention""",
    "takes quantised weights, numbers of quantisation or eight-bit floats: test_low_precision.py": """
        aten::fake_quantize_per_tensor_affine aten::fake_quantize_per_tensor_affine.tensor_qparams
        aten::fake_quantize_per_tensor_affine_cachemask aten::fake_quantize_per_tensor_affine_cachemask.out
        aten::fake_quantize_per_tensor_affine_cachemask_backward
        aten::_fake_quantize_per_tensor_affine_cachemask_tensor_qparams
        aten::_fake_quantize_per_tensor_affine_cachemask_tensor_qparams.out aten::fake_quantize_per_channel_affine
        aten::fake_quantize_per_channel_affine_cachemask aten::fake_quantize_per_channel_affine_cachemask.out
        aten::fake_quantize_per_channel_affine_cachemask_backward aten::_fake_quantize_learnable_per_tensor_affine
        aten::_fake_quantize_learnable_per_tensor_affine.out
        aten::_fake_quantize_learnable_per_tensor_affine_backward aten::_fake_quantize_learnable_per_channel_affine
        aten::_fake_quantize_learnable_per_channel_affine.out
        aten::_fake_quantize_learnable_per_channel_affine_backward aten::fused_moving_avg_obs_fake_quant
        aten::_fused_moving_avg_obs_fq_helper aten::_fused_moving_avg_obs_fq_helper_functional
        aten::_weight_int8pack_mm aten::_convert_weight_to_int4pack aten::_convert_weight_to_int4pack_for_cpu
        aten::_weight_int4pack_mm aten::_weight_int4pack_mm_for_cpu aten::_weight_int4pack_mm_with_scales_and_zeros
        aten::_dyn_quant_pack_4bit_weight aten::_dyn_quant_matmul_4bit aten::_mixed_dtypes_linear aten::_scaled_mm
        aten::_scaled_mm.out aten::_scaled_mm_v2 aten::_scaled_mm_v2.out aten::_grouped_mm
        aten::_choose_qparams_per_tensor aten::choose_qparams_optimized aten::_saturate_weight_to_fp16
        quantized_decomposed::quantize_per_tensor quantized_decomposed::quantize_per_tensor.tensor
        quantized_decomposed::quantize_per_tensor.tensor2 quantized_decomposed::dequantize_per_tensor
        quantized_decomposed::dequantize_per_tensor.tensor quantized_decomposed::dequantize_per_tensor.tensor2
        quantized_decomposed::choose_qparams.tensor quantized_decomposed::choose_qparams_symmetric.tensor
        quantized_decomposed::quantize_per_channel quantized_decomposed::dequantize_per_channel
        quantized_decomposed::choose_qparams_per_token
        quantized_decomposed::_choose_qparams_per_token_asymmetric_impl
        quantized_decomposed::choose_qparams_per_token_asymmetric quantized_decomposed::quantize_per_token
        quantized_decomposed::dequantize_per_token quantized_decomposed::quantize_per_channel_group
        quantized_decomposed::dequantize_per_channel_group quantized_decomposed::fake_quant_per_channel
        quantized_decomposed::convert_element_type.no_fuse""",
    "the operator without out changes an argument, and has another schema": """
        aten::rrelu_with_noise.out aten::_native_batch_norm_legit.out""",
    "what functionalisation puts in the place of writes: test_functionalize.py": """
        aten::zero aten::copy aten::resize aten::uniform aten::normal_functional aten::random aten::random.from
        aten::random.to aten::bernoulli.Tensor aten::exponential aten::geometric aten::cauchy aten::log_normal
        aten::embedding_renorm aten::_native_batch_norm_legit_functional aten::rrelu_with_noise_functional aten::lift
        aten::lift_fresh aten::lift_fresh_copy""",
    "its results know that they are zero: test_dispatch_keys.py": "aten::_efficientzerotensor",
    "PyTorch refuses empty outputs": """
        aten::split_copy.Tensor_out aten::_int_mm.out""",
}
# Public names without a call, by reason.
NAMES = {
    "gives nothing, and raises where metadata differ: test_export.py": "torch._assert_tensor_metadata",
    "its results know that they are zero: test_dispatch_keys.py": "torch._efficientzerotensor",
    "has kernels for GPUs alone, as in PyTorch": """
        torch._scaled_dot_product_efficient_attention torch._scaled_dot_product_efficient_attention_backward""",
    "what it shares is not in a result: test_copy_on_write.py": "Tensor._lazy_clone torch._lazy_clone",
    "takes or makes quantised tensors: test_quantised.py": """
        Tensor.dequantize Tensor.int_repr Tensor.q_per_channel_axis Tensor.q_per_channel_scales
        Tensor.q_per_channel_zero_points Tensor.q_scale Tensor.q_zero_point torch._choose_qparams_per_tensor
        torch._empty_affine_quantized torch._empty_per_channel_affine_quantized
        torch._make_per_channel_quantized_tensor torch._make_per_tensor_quantized_tensor torch.dequantize
        torch.empty_quantized torch.int_repr torch.q_per_channel_axis torch.q_per_channel_scales
        torch.q_per_channel_zero_points torch.q_scale torch.q_zero_point torch.quantize_per_channel
        torch.quantize_per_tensor torch.quantize_per_tensor_dynamic torch.quantized_batch_norm
        torch.quantized_max_pool1d torch.quantized_max_pool2d torch.quantized_max_pool3d""",
    "takes tensors of another layout": "_nn.mkldnn_linear torch._mkldnn_reshape torch._mkldnn_transpose",
    "of sparse tensors: test_sparse_*.py and the tests of the crates": """
        Tensor._coalesced_ Tensor._dimI Tensor._dimV Tensor._indices Tensor._nnz
        Tensor._sparse_mask_projection Tensor._values Tensor.ccol_indices Tensor.coalesce
        Tensor.col_indices Tensor.crow_indices Tensor.dense_dim Tensor.indices Tensor.is_coalesced
        Tensor.row_indices Tensor.smm Tensor.sparse_dim Tensor.sparse_mask Tensor.sparse_resize_
        Tensor.sparse_resize_and_clear_ Tensor.sspaddmm Tensor.to_sparse Tensor.to_sparse_bsc
        Tensor.to_sparse_bsr Tensor.to_sparse_csc Tensor.to_sparse_csr Tensor.values
        torch.ccol_indices_copy torch.col_indices_copy torch.crow_indices_copy torch.row_indices_copy""",
    "PyTorch has kernels for GPUs alone": """
        torch._to_sparse_semi_structured torch._sparse_semi_structured_mm torch._sparse_semi_structured_addmm
        torch._sparse_semi_structured_linear torch._cslt_compress torch._cslt_sparse_mm
        torch._cslt_sparse_mm_search""",
    "takes quantised weights, numbers of quantisation or eight-bit floats": """
        torch.fake_quantize_per_tensor_affine torch._fake_quantize_per_tensor_affine_cachemask_tensor_qparams
        torch.fake_quantize_per_channel_affine torch._fake_quantize_learnable_per_tensor_affine
        torch._fake_quantize_learnable_per_channel_affine torch.fused_moving_avg_obs_fake_quant
        torch._fused_moving_avg_obs_fq_helper torch._weight_int8pack_mm torch._convert_weight_to_int4pack
        torch._convert_weight_to_int4pack_for_cpu torch._weight_int4pack_mm torch._weight_int4pack_mm_for_cpu
        torch._weight_int4pack_mm_with_scales_and_zeros torch._dyn_quant_pack_4bit_weight
        torch._dyn_quant_matmul_4bit torch._mixed_dtypes_linear torch._scaled_mm torch._scaled_mm_v2
        torch._grouped_mm torch._choose_qparams_per_tensor torch.choose_qparams_optimized
        torch._saturate_weight_to_fp16""",
}

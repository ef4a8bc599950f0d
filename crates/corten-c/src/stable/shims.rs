//! Operators as functions of C: `aoti_torch_cpu_*` and a few others.
//!
//! Their parameters follow from the schemas. So there is no function for each: the entries are a few instructions that
//! note which operator is meant and what lies in the registers, and one function reads the arguments as the schema has
//! them, as a function of variable arguments would. Only x86-64 has them, under System V's calling convention.
//!
//! | type | parameters |
//! |---|---|
//! | `Tensor`, `Generator` | a handle, which is lent |
//! | `int` | `int64_t` |
//! | `bool`, `ScalarType`, `Layout`, `MemoryFormat` | `int32_t` |
//! | `float`, `Scalar` | `double` |
//! | `str` | `const char *` |
//! | `Device` | `int32_t` for the type and `int32_t` for the index |
//! | `T?` | a pointer to the parameter, which may be null; the index of a device has none |
//! | `T[]` | a pointer to the elements and `int64_t` for their number |
//! | results | a pointer for each, except for operators that write to their arguments, which come first if named `out` |

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod entries;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
pub(super) use entries::functions;

/// The functions by name.
#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
pub(super) fn functions() -> impl Iterator<Item = (String, u64)> {
    std::iter::empty()
}

/// Operators of `aten` under the names of their overloads: `add.Scalar` is `aoti_torch_cpu_add_Scalar`.
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
const FOR_CPU: &[&str] = &[
    "_adaptive_avg_pool2d",
    "_adaptive_avg_pool2d_backward",
    "_adaptive_avg_pool3d",
    "_adaptive_avg_pool3d_backward",
    "_addmm_activation",
    "_cdist_backward",
    "_cdist_forward",
    "_embedding_bag",
    "_embedding_bag_dense_backward",
    "_embedding_bag_forward_only",
    "_embedding_bag_per_sample_weights_backward",
    "_fft_c2c",
    "_fft_r2c",
    "_histogramdd_from_bin_cts",
    "_int_mm.out",
    "_pdist_backward",
    "_pdist_forward",
    "_scaled_dot_product_flash_attention_for_cpu",
    "_scaled_dot_product_flash_attention_for_cpu_backward",
    "_segment_reduce_backward",
    "abs",
    "adaptive_max_pool2d",
    "adaptive_max_pool2d_backward",
    "adaptive_max_pool3d",
    "adaptive_max_pool3d_backward",
    "add.Scalar",
    "add.Tensor",
    "addbmm",
    "addmm.out",
    "addmv",
    "angle",
    "avg_pool2d",
    "avg_pool2d_backward",
    "avg_pool3d",
    "avg_pool3d_backward",
    "baddbmm.out",
    "bernoulli_.Tensor",
    "bernoulli_.float",
    "bmm.out",
    "bucketize.Tensor",
    "cat",
    "cholesky_inverse",
    "cholesky_solve",
    "convolution",
    "convolution_backward",
    "cummax",
    "cummin",
    "cumprod",
    "cumsum",
    "fill_.Scalar",
    "fractional_max_pool2d",
    "fractional_max_pool2d_backward",
    "fractional_max_pool3d",
    "fractional_max_pool3d_backward",
    "gcd",
    "geqrf",
    "grid_sampler_2d_backward",
    "grid_sampler_3d",
    "grid_sampler_3d_backward",
    "hann_window",
    "histc",
    "histogram.bin_ct",
    "index.Tensor",
    "index_put",
    "index_reduce",
    "kthvalue",
    "logcumsumexp",
    "lu_unpack",
    "masked_scatter",
    "masked_select",
    "max_pool2d_with_indices",
    "max_pool2d_with_indices_backward",
    "max_pool3d_with_indices",
    "max_pool3d_with_indices_backward",
    "max_unpool2d",
    "max_unpool3d",
    "median",
    "mm.out",
    "mode",
    "mul.Scalar",
    "mul.Tensor",
    "nanmedian",
    "narrow",
    "native_dropout",
    "nonzero",
    "nonzero_static",
    "ormqr",
    "pad",
    "permute",
    "polar",
    "pow.Scalar",
    "pow.Tensor_Scalar",
    "pow.Tensor_Tensor",
    "rand",
    "rand.generator",
    "rand_like",
    "randint",
    "randint.generator",
    "randint.low",
    "randint.low_out",
    "randint_like",
    "randint_like.low_dtype",
    "randn",
    "randn.generator",
    "randn_like",
    "randperm",
    "repeat_interleave.Tensor",
    "replication_pad1d_backward",
    "replication_pad2d_backward",
    "reshape",
    "resize_",
    "resize_as_",
    "scatter.src_out",
    "scatter.value_out",
    "scatter_reduce.two_out",
    "searchsorted.Scalar",
    "searchsorted.Tensor",
    "segment_reduce",
    "set_.source_Tensor",
    "slice.Tensor",
    "soft_margin_loss_backward",
    "sort",
    "sort.stable",
    "squeeze.dim",
    "topk",
    "triangular_solve",
    "upsample_bicubic2d_backward",
    "upsample_linear1d_backward",
    "upsample_trilinear3d_backward",
    "view.dtype",
    "view_as_complex",
    "view_as_real",
];

/// Those that extensions call for every device: `amax` is `aoti_torch_aten_amax`.
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
const FOR_ALL: &[&str] = &[
    "amax",
    "fill_.Scalar",
    "full",
    "narrow",
    "new_empty",
    "new_zeros",
    "pad",
    "subtract.Tensor",
];

/// Functions with names of their own.
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
const OTHERS: &[(&str, &str)] = &[
    ("aoti_torch__fft_c2c", "_fft_c2c"),
    ("aoti_torch_bmm_out", "bmm.out"),
    ("aoti_torch_copy_", "copy_"),
    ("aoti_torch_mm_out", "mm.out"),
    ("aoti_torch_nonzero", "nonzero"),
    ("aoti_torch_repeat_interleave_Tensor", "repeat_interleave.Tensor"),
    ("aoti_torch_scatter_out", "scatter.src_out"),
    ("aoti_torch_scatter_reduce_out", "scatter_reduce.two_out"),
    ("aoti_torch_view_as_real", "view_as_real"),
    ("aoti_torch_view_dtype", "view.dtype"),
    ("aoti_torch_zero_", "zero_"),
];

//! Numbers that PyTorch hides behind functions. Those of dtypes, devices, layouts and memory formats are Corten's too.

use super::outcome::guard_value;
use crate::tensor::dtype_from;
use corten::core::DeviceType;
use corten::{DType, Layout, MemoryFormat};

macro_rules! constants {
    ($($name:ident = $value:expr;)+) => {
        $(extern "C" fn $name() -> i32 {
            $value as i32
        })+

        super::functions! {
            $($name)+
            aoti_torch_dtype_element_size
            aoti_torch_abi_version
        }
    };
}

constants! {
    aoti_torch_device_type_cpu = DeviceType::Cpu;
    aoti_torch_device_type_cuda = DeviceType::Cuda;
    aoti_torch_device_type_meta = DeviceType::Meta;
    aoti_torch_device_type_mps = DeviceType::Mps;
    aoti_torch_device_type_privateuse1 = DeviceType::PrivateUse1;
    aoti_torch_device_type_xpu = DeviceType::Xpu;
    aoti_torch_dtype_bfloat16 = DType::BFloat16;
    aoti_torch_dtype_bool = DType::Bool;
    aoti_torch_dtype_complex128 = DType::Complex128;
    aoti_torch_dtype_complex32 = DType::Complex32;
    aoti_torch_dtype_complex64 = DType::Complex64;
    aoti_torch_dtype_float16 = DType::Float16;
    aoti_torch_dtype_float32 = DType::Float32;
    aoti_torch_dtype_float64 = DType::Float64;
    aoti_torch_dtype_float4_e2m1fn_x2 = DType::Float4E2m1fnX2;
    aoti_torch_dtype_float8_e4m3fn = DType::Float8E4m3fn;
    aoti_torch_dtype_float8_e4m3fnuz = DType::Float8E4m3fnuz;
    aoti_torch_dtype_float8_e5m2 = DType::Float8E5m2;
    aoti_torch_dtype_float8_e5m2fnuz = DType::Float8E5m2fnuz;
    aoti_torch_dtype_float8_e8m0fnu = DType::Float8E8m0fnu;
    aoti_torch_dtype_int16 = DType::Int16;
    aoti_torch_dtype_int32 = DType::Int32;
    aoti_torch_dtype_int64 = DType::Int64;
    aoti_torch_dtype_int8 = DType::Int8;
    aoti_torch_dtype_uint16 = DType::UInt16;
    aoti_torch_dtype_uint32 = DType::UInt32;
    aoti_torch_dtype_uint64 = DType::UInt64;
    aoti_torch_dtype_uint8 = DType::UInt8;
    aoti_torch_layout__mkldnn = Layout::Mkldnn;
    aoti_torch_layout_jagged = Layout::Jagged;
    aoti_torch_layout_sparse_bsc = Layout::SparseBsc;
    aoti_torch_layout_sparse_bsr = Layout::SparseBsr;
    aoti_torch_layout_sparse_coo = Layout::Sparse;
    aoti_torch_layout_sparse_csc = Layout::SparseCsc;
    aoti_torch_layout_sparse_csr = Layout::SparseCsr;
    aoti_torch_layout_strided = Layout::Strided;
    aoti_torch_memory_format_channels_last = MemoryFormat::ChannelsLast;
    aoti_torch_memory_format_channels_last_3d = MemoryFormat::ChannelsLast3d;
    aoti_torch_memory_format_contiguous_format = MemoryFormat::Contiguous;
    aoti_torch_memory_format_preserve_format = MemoryFormat::Preserve;
    torch_dtype_float4_e2m1fn_x2 = DType::Float4E2m1fnX2;
    torch_dtype_float8_e8m0fnu = DType::Float8E8m0fnu;
    torch_tag_core = 0;
    torch_tag_cudagraph_unsafe = 1;
    torch_tag_data_dependent_output = 2;
    torch_tag_dynamic_output_shape = 3;
    torch_tag_flexible_layout = 4;
    torch_tag_generated = 5;
    torch_tag_inplace_view = 7;
    torch_tag_maybe_aliasing_or_mutating = 8;
    torch_tag_needs_contiguous_strides = 9;
    torch_tag_needs_exact_strides = 10;
    torch_tag_needs_fixed_stride_order = 11;
    torch_tag_nondeterministic_bitwise = 12;
    torch_tag_nondeterministic_seeded = 13;
    torch_tag_out_variant = 15;
    torch_tag_pointwise = 16;
    torch_tag_pt2_compliant_tag = 17;
    torch_tag_reduction = 18;
    torch_tag_view_copy = 19;
}

/// The highest number that stands for a tag.
pub(super) const LAST_TAG: i32 = 19;

/// Bytes of an element; 0 for a number that is no dtype.
extern "C" fn aoti_torch_dtype_element_size(dtype: i32) -> usize {
    guard_value(0, || Ok(dtype_from(dtype)?.itemsize()))
}

extern "C" fn aoti_torch_abi_version() -> u64 {
    super::VERSION
}

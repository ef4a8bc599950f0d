//! Checks shared by the rules.

use super::Domain;
use crate::Tensor;
use corten_core::{DType, Device, Result, ensure};

/// Fails with torch's words unless a dtype is in an operator's domain.
///
/// # Errors
/// `NotImplemented`.
pub fn check_dtype(name: &str, domain: Domain, dtype: DType, device: Device) -> Result<()> {
    if let Some(error) = super::elementwise::refusal(name, dtype) {
        return Err(error);
    }
    // What a domain leaves out has no loop, and tensors without data need none.
    ensure!(
        device.is_meta() || domain.contains(dtype),
        NotImplemented,
        "\"{name}_{}\" not implemented for '{}'",
        device.device_type.name(),
        dtype.type_name()
    );
    Ok(())
}

/// Fails unless a given output has the dtype of the result.
///
/// # Errors
/// `Runtime`.
pub fn check_out_dtype(out: Option<&Tensor>, dtype: DType) -> Result<()> {
    if let Some(out) = out.filter(|out| out.defined()) {
        ensure!(
            out.dtype() == dtype,
            Runtime,
            "Expected out tensor to have dtype {}, but got {} instead",
            cpp_name(dtype),
            cpp_name(out.dtype())
        );
    }
    Ok(())
}

/// The name that some of torch's messages use for a dtype.
pub fn cpp_name(dtype: DType) -> &'static str {
    match dtype {
        DType::UInt8 => "unsigned char",
        DType::Int8 => "signed char",
        DType::Int16 => "short int",
        DType::Int32 => "int",
        DType::Int64 => "long int",
        DType::UInt16 => "short unsigned int",
        DType::UInt32 => "unsigned int",
        DType::UInt64 => "long unsigned int",
        DType::Float16 => "c10::Half",
        DType::BFloat16 => "c10::BFloat16",
        DType::Float32 => "float",
        DType::Float64 => "double",
        DType::Complex32 => "c10::complex<c10::Half>",
        DType::Complex64 => "c10::complex<float>",
        DType::Complex128 => "c10::complex<double>",
        DType::Bool => "bool",
        DType::Float8E5m2 => "c10::Float8_e5m2",
        DType::Float8E4m3fn => "c10::Float8_e4m3fn",
        other => other.type_name(),
    }
}

/// The value of a fill is a tensor without dimensions.
///
/// # Errors
/// `Runtime` for another rank.
pub fn check_fill_value(operator: &str, value: &Tensor) -> Result<()> {
    ensure!(
        value.dim() == 0,
        Runtime,
        "{operator} only supports a 0-dimensional value tensor, but got tensor with {} dimension(s).",
        value.dim()
    );
    Ok(())
}

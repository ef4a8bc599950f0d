//! The functions and constants of cuBLASLt. `tests/cuda/cublaslt_headers.py` compares them with NVIDIA's headers.

use super::{Handle, Opened, function_table, loader};
use corten_core::{Result, bail, config, err};
use std::ffi::{c_int, c_void};
use std::sync::OnceLock;

/// cudaDataType_t.
pub(crate) mod data_type {
    pub(crate) const R_32F: i32 = 0;
    pub(crate) const R_64F: i32 = 1;
    pub(crate) const R_16F: i32 = 2;
    pub(crate) const R_8I: i32 = 3;
    pub(crate) const C_32F: i32 = 4;
    pub(crate) const C_64F: i32 = 5;
    pub(crate) const R_32I: i32 = 10;
    pub(crate) const R_16BF: i32 = 14;
}

/// cublasComputeType_t.
pub(crate) mod compute {
    pub(crate) const IN_16F: i32 = 64;
    pub(crate) const IN_32F: i32 = 68;
    pub(crate) const IN_64F: i32 = 70;
    pub(crate) const IN_32I: i32 = 72;
    pub(crate) const IN_32F_FAST_TF32: i32 = 77;
}

/// cublasLtMatmulDescAttributes_t.
pub(crate) mod desc {
    pub(crate) const TRANSA: i32 = 3;
    pub(crate) const TRANSB: i32 = 4;
    pub(crate) const EPILOGUE: i32 = 7;
    pub(crate) const BIAS_POINTER: i32 = 8;
}

/// cublasLtMatrixLayoutAttribute_t.
pub(crate) mod layout {
    pub(crate) const BATCH_COUNT: i32 = 5;
    pub(crate) const STRIDED_BATCH_OFFSET: i32 = 6;
}

/// cublasLtMatmulPreferenceAttributes_t.
pub(crate) mod preference {
    pub(crate) const MAX_WORKSPACE_BYTES: i32 = 1;
    pub(crate) const REDUCTION_SCHEME_MASK: i32 = 3;
    pub(crate) const MIN_ALIGNMENT_A_BYTES: i32 = 5;
    pub(crate) const MIN_ALIGNMENT_B_BYTES: i32 = 6;
    pub(crate) const MIN_ALIGNMENT_C_BYTES: i32 = 7;
    pub(crate) const MIN_ALIGNMENT_D_BYTES: i32 = 8;
}

/// cublasLtReductionScheme_t.
pub(crate) mod reduction {
    pub(crate) const NONE: u32 = 0;
    pub(crate) const COMPUTE_TYPE: u32 = 2;
    pub(crate) const MASK: u32 = 7;
}

/// cublasLtEpilogue_t.
pub(crate) mod epilogue {
    pub(crate) const DEFAULT: u32 = 1;
    pub(crate) const RELU: u32 = 2;
    pub(crate) const BIAS: u32 = 4;
    pub(crate) const RELU_BIAS: u32 = 6;
    pub(crate) const GELU: u32 = 32;
    pub(crate) const GELU_BIAS: u32 = 36;
}

/// cublasOperation_t.
pub(crate) mod operation {
    pub(crate) const T: i32 = 1;
}

/// cublasStatus_t: what a library answers that has no algorithm.
pub(crate) const NOT_SUPPORTED: i32 = 15;

/// cublasLtMatmulAlgo_t.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Algorithm {
    data: [u64; 8],
}

/// cublasLtMatmulHeuristicResult_t.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct HeuristicResult {
    pub(crate) algorithm: Algorithm,
    pub(crate) workspace: usize,
    pub(crate) state: c_int,
    waves: f32,
    reserved: [c_int; 4],
}

function_table! {
    /// The functions of `libcublasLt` that are called here.
    CublasLt {
        cublasLtCreate(*mut Handle);
        cublasLtMatmulDescCreate(*mut Handle, c_int, c_int);
        cublasLtMatmulDescDestroy(Handle);
        cublasLtMatmulDescSetAttribute(Handle, c_int, *const c_void, usize);
        cublasLtMatrixLayoutCreate(*mut Handle, c_int, u64, u64, i64);
        cublasLtMatrixLayoutDestroy(Handle);
        cublasLtMatrixLayoutSetAttribute(Handle, c_int, *const c_void, usize);
        cublasLtMatmulPreferenceCreate(*mut Handle);
        cublasLtMatmulPreferenceDestroy(Handle);
        cublasLtMatmulPreferenceSetAttribute(Handle, c_int, *const c_void, usize);
        cublasLtMatmulAlgoGetHeuristic(
            Handle, Handle, Handle, Handle, Handle, Handle, Handle, c_int, *mut HeuristicResult, *mut c_int,
        );
        cublasLtMatmul(
            Handle, Handle, *const c_void, *const c_void, Handle, *const c_void, Handle, *const c_void,
            *const c_void, Handle, *mut c_void, Handle, *const Algorithm, *mut c_void, usize, Handle,
        );
    }
}

/// The version of an opened library, as 10000 * major + 100 * minor + patch.
fn version(library: &Opened) -> Result<usize> {
    let symbol = library.symbol("cublasLtGetVersion\0")?;
    // SAFETY: the library exports the function with this signature.
    let function =
        unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C" fn() -> usize>(symbol) };
    // SAFETY: it takes nothing and reads a constant.
    Ok(unsafe { function() })
}

fn start() -> Result<CublasLt> {
    if config::var("CORTEN_CUBLASLT").is_some_and(|value| value.trim() == "0") {
        bail!(Runtime, "cuBLASLt is turned off by CORTEN_CUBLASLT=0");
    }
    let library = loader::open(&loader::CUBLASLT)?;
    let version = version(&library)?;
    if !matches!(version / 10000, 12 | 13) {
        bail!(Runtime, "cuBLASLt {version} is of another major version than 12 and 13");
    }
    CublasLt::of(&library)
}

/// cuBLASLt, opened at the first call.
///
/// # Errors
/// `Runtime` where it is not installed or turned off; the reason is kept and given again.
pub(crate) fn cublaslt() -> Result<&'static CublasLt> {
    static CUBLASLT: OnceLock<Result<CublasLt, String>> = OnceLock::new();
    let started = CUBLASLT.get_or_init(|| start().map_err(|error| error.message().to_owned()));
    started.as_ref().map_err(|message| err!(Runtime, "{message}"))
}

/// A status as NVIDIA's headers name it.
pub(crate) fn status_name(status: i32) -> &'static str {
    match status {
        1 => "CUBLAS_STATUS_NOT_INITIALIZED",
        3 => "CUBLAS_STATUS_ALLOC_FAILED",
        7 => "CUBLAS_STATUS_INVALID_VALUE",
        8 => "CUBLAS_STATUS_ARCH_MISMATCH",
        11 => "CUBLAS_STATUS_MAPPING_ERROR",
        13 => "CUBLAS_STATUS_EXECUTION_FAILED",
        14 => "CUBLAS_STATUS_INTERNAL_ERROR",
        15 => "CUBLAS_STATUS_NOT_SUPPORTED",
        16 => "CUBLAS_STATUS_LICENSE_ERROR",
        _ => "an unknown status",
    }
}

/// `Ok` for success.
///
/// # Errors
/// `Runtime` in PyTorch's words otherwise.
pub(crate) fn check(status: i32, function: &str) -> Result<()> {
    match status {
        0 => Ok(()),
        _ => bail!(Runtime, "CUDA error: {} when calling `{function}`", status_name(status)),
    }
}

//! The functions and constants of cuDNN that are called here, those of its versions 9.
//! `tests/cuda/test_cudnn_table.py` compares them with NVIDIA's headers.

use super::{Handle, Opened, function_table, loader};
use corten_core::{Result, bail, config, err};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::OnceLock;

/// cudnnDataType_t.
pub(crate) mod data_type {
    pub(crate) const FLOAT: i32 = 0;
    pub(crate) const DOUBLE: i32 = 1;
    pub(crate) const HALF: i32 = 2;
    pub(crate) const BFLOAT16: i32 = 9;
}

/// cudnnMathType_t.
pub(crate) mod math {
    pub(crate) const DEFAULT_MATH: i32 = 0;
    pub(crate) const TENSOR_OP_MATH: i32 = 1;
    pub(crate) const FMA_MATH: i32 = 3;
}

/// cudnnTensorFormat_t.
pub(crate) mod format {
    pub(crate) const TENSOR_NCHW: i32 = 0;
    pub(crate) const TENSOR_NHWC: i32 = 1;
}

/// cudnnConvolutionMode_t.
pub(crate) mod mode {
    pub(crate) const CROSS_CORRELATION: i32 = 1;
}

/// cudnnDeterminism_t.
pub(crate) mod determinism {
    pub(crate) const DETERMINISTIC: i32 = 1;
}

/// cudnnStatus_t: the statuses from this one to the next thousand say that something is not supported.
pub(crate) const NOT_SUPPORTED: i32 = 3000;

/// cudnnConvolutionFwdAlgoPerf_t and its kin.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Performance {
    pub(crate) algorithm: c_int,
    pub(crate) status: c_int,
    time: f32,
    pub(crate) memory: usize,
    pub(crate) determinism: c_int,
    pub(crate) math: c_int,
    reserved: [c_int; 3],
}

type Data = *const c_void;

function_table! {
    /// The functions of `libcudnn` that are called here.
    Cudnn {
        cudnnCreate(*mut Handle);
        cudnnSetStream(Handle, Handle);
        cudnnCreateTensorDescriptor(*mut Handle);
        cudnnSetTensorNdDescriptor(Handle, c_int, c_int, *const c_int, *const c_int);
        cudnnDestroyTensorDescriptor(Handle);
        cudnnCreateFilterDescriptor(*mut Handle);
        cudnnSetFilterNdDescriptor(Handle, c_int, c_int, c_int, *const c_int);
        cudnnDestroyFilterDescriptor(Handle);
        cudnnCreateConvolutionDescriptor(*mut Handle);
        cudnnSetConvolutionNdDescriptor(
            Handle, c_int, *const c_int, *const c_int, *const c_int, c_int, c_int,
        );
        cudnnSetConvolutionGroupCount(Handle, c_int);
        cudnnSetConvolutionMathType(Handle, c_int);
        cudnnDestroyConvolutionDescriptor(Handle);
        cudnnGetConvolutionForwardAlgorithm_v7(
            Handle, Handle, Handle, Handle, Handle, c_int, *mut c_int, *mut Performance,
        );
        cudnnGetConvolutionBackwardDataAlgorithm_v7(
            Handle, Handle, Handle, Handle, Handle, c_int, *mut c_int, *mut Performance,
        );
        cudnnGetConvolutionBackwardFilterAlgorithm_v7(
            Handle, Handle, Handle, Handle, Handle, c_int, *mut c_int, *mut Performance,
        );
        cudnnFindConvolutionForwardAlgorithmEx(
            Handle, Handle, Data, Handle, Data, Handle, Handle, *mut c_void, c_int, *mut c_int,
            *mut Performance, *mut c_void, usize,
        );
        cudnnFindConvolutionBackwardDataAlgorithmEx(
            Handle, Handle, Data, Handle, Data, Handle, Handle, *mut c_void, c_int, *mut c_int,
            *mut Performance, *mut c_void, usize,
        );
        cudnnFindConvolutionBackwardFilterAlgorithmEx(
            Handle, Handle, Data, Handle, Data, Handle, Handle, *mut c_void, c_int, *mut c_int,
            *mut Performance, *mut c_void, usize,
        );
        cudnnGetConvolutionForwardWorkspaceSize(
            Handle, Handle, Handle, Handle, Handle, c_int, *mut usize,
        );
        cudnnGetConvolutionBackwardDataWorkspaceSize(
            Handle, Handle, Handle, Handle, Handle, c_int, *mut usize,
        );
        cudnnGetConvolutionBackwardFilterWorkspaceSize(
            Handle, Handle, Handle, Handle, Handle, c_int, *mut usize,
        );
        cudnnConvolutionForward(
            Handle, Data, Handle, Data, Handle, Data, Handle, c_int, *mut c_void, usize, Data, Handle,
            *mut c_void,
        );
        cudnnConvolutionBackwardData(
            Handle, Data, Handle, Data, Handle, Data, Handle, c_int, *mut c_void, usize, Data, Handle,
            *mut c_void,
        );
        cudnnConvolutionBackwardFilter(
            Handle, Data, Handle, Data, Handle, Data, Handle, c_int, *mut c_void, usize, Data, Handle,
            *mut c_void,
        );
    }
}

/// An opened cuDNN.
pub(crate) struct Library {
    pub(crate) table: Cudnn,
    /// As 10000 * major + 100 * minor + patch.
    pub(crate) version: usize,
    describe: unsafe extern "C" fn(c_int) -> *const c_char,
}

impl Library {
    /// `Ok` for success.
    ///
    /// # Errors
    /// `Runtime` in PyTorch's words otherwise.
    pub(crate) fn check(&self, status: i32) -> Result<()> {
        if status == 0 {
            return Ok(());
        }
        // SAFETY: the library gives the address of a static text for every status.
        let text = unsafe { (self.describe)(status) };
        if text.is_null() {
            bail!(Runtime, "cuDNN error: status {status}");
        }
        // SAFETY: as above; it ends with a zero.
        let text = unsafe { CStr::from_ptr(text) };
        bail!(Runtime, "cuDNN error: {}", text.to_string_lossy())
    }
}

/// A function that is not in the table, as it does not return a status.
fn version_of(library: &Opened) -> Result<usize> {
    let symbol = library.symbol("cudnnGetVersion\0")?;
    // SAFETY: the library exports the function with this signature.
    let function =
        unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C" fn() -> usize>(symbol) };
    // SAFETY: it takes nothing and reads a constant.
    Ok(unsafe { function() })
}

fn start() -> Result<Library> {
    if config::var("CORTEN_CUDNN").is_some_and(|value| value.trim() == "0") {
        bail!(Runtime, "cuDNN is turned off by CORTEN_CUDNN=0");
    }
    let library = loader::open(&loader::CUDNN)?;
    let version = version_of(&library)?;
    if version / 10000 != 9 {
        bail!(Runtime, "cuDNN {version} is of another major version than 9");
    }
    let describe = library.symbol("cudnnGetErrorString\0")?;
    // SAFETY: the library exports the function with this signature.
    let describe = unsafe {
        std::mem::transmute::<*mut c_void, unsafe extern "C" fn(c_int) -> *const c_char>(describe)
    };
    Ok(Library { table: Cudnn::of(&library)?, version, describe })
}

/// cuDNN, opened at the first call.
///
/// # Errors
/// `Runtime` where it is not installed or turned off; the reason is kept and given again.
pub(crate) fn cudnn() -> Result<&'static Library> {
    static CUDNN: OnceLock<Result<Library, String>> = OnceLock::new();
    let started = CUDNN.get_or_init(|| start().map_err(|error| error.message().to_owned()));
    started.as_ref().map_err(|message| err!(Runtime, "{message}"))
}

//! The driver and NVRTC as tables of functions that are looked up at run time.
//!
//! `libcuda` and `libnvrtc` are opened at the first use of a device; a library or a symbol that is
//! missing is an error that says what was looked for, never a panic. The tables have the functions that
//! this crate calls and no others, under the versions that CUDA 12 and 13 both export.

pub(crate) mod cublas_table;
pub(crate) mod cublaslt_table;
pub(crate) mod cudnn_table;
pub(crate) mod error;
mod loader;
mod nvrtc_table;
mod table;

pub(crate) use loader::Opened;
pub use loader::{set_library_directories, set_library_search};
pub(crate) use nvrtc_table::{Nvrtc, nvrtc, nvrtc_identity};
pub use table::is_driver_started;
pub(crate) use table::{
    AccessDescription, AllocationProperties, Driver, attribute, driver, version,
};

use std::ffi::c_void;

/// Declares a table of C functions and how it is filled from an opened library.
macro_rules! function_table {
    ($(#[$doc:meta])* $table:ident { $($name:ident($($argument:ty),* $(,)?);)+ }) => {
        $(#[$doc])*
        #[allow(non_snake_case, reason = "the names of NVIDIA's functions")]
        pub(crate) struct $table {
            $(pub(crate) $name: unsafe extern "C" fn($($argument),*) -> i32,)+
        }

        impl $table {
            /// Looks all functions up.
            ///
            /// # Errors
            /// The first symbol that the library does not export.
            pub(crate) fn of(library: &$crate::driver::Opened) -> corten_core::Result<Self> {
                Ok(Self {
                    $($name: {
                        let symbol = library.symbol(concat!(stringify!($name), "\0"))?;
                        // SAFETY: the library exports the function under this name with the signature
                        // that NVIDIA documents for it, which the table declares.
                        unsafe {
                            std::mem::transmute::<
                                *mut std::ffi::c_void,
                                unsafe extern "C" fn($($argument),*) -> i32,
                            >(symbol)
                        }
                    },)+
                })
            }
        }
    };
}
pub(crate) use function_table;

/// A handle of the driver: a context, stream, event, module, function or graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub(crate) struct Handle(pub(crate) *mut c_void);

// SAFETY: handles are names of the driver's objects; the driver may be called from any thread.
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

impl Handle {
    pub(crate) const NULL: Self = Self(std::ptr::null_mut());
}

/// An address in the memory of a device.
pub(crate) type DeviceAddress = u64;

/// Lets this thread make calls that a capture cannot contain, such as allocations, until it is dropped: what
/// they make is not part of the record.
pub(crate) struct RelaxedCapture {
    driver: &'static Driver,
    previous: i32,
}

impl RelaxedCapture {
    pub(crate) fn new(driver: &'static Driver) -> Self {
        // CU_STREAM_CAPTURE_MODE_RELAXED.
        let mut mode = 2;
        // SAFETY: the driver exchanges one number.
        unsafe { (driver.cuThreadExchangeStreamCaptureMode)(&mut mode) };
        Self { driver, previous: mode }
    }
}

impl Drop for RelaxedCapture {
    fn drop(&mut self) {
        // SAFETY: as above.
        unsafe { (self.driver.cuThreadExchangeStreamCaptureMode)(&mut self.previous) };
    }
}

//! The CUDA back end: nothing of CUDA is linked, and nothing of it is loaded before the first use.
//!
//! Programs see it as `corten::cuda`. A number of a device is the current one's where it is negative. Work on a
//! device is queued in the [`Stream`] that is current on the calling thread, and errors of it may be reported by
//! a later call; [`synchronize`] waits for all of it.
//!
//! ```
//! # fn main() -> corten_core::Result<()> {
//! if !corten_cuda::is_available() {
//!     // Every function that needs a device says why there is none.
//!     let message = corten_cuda::check_driver().map_or_else(|error| error.to_string(), |()| String::new());
//!     println!("no GPU: {message}");
//!     return Ok(());
//! }
//! for index in 0..corten_cuda::device_count() as i8 {
//!     let properties = corten_cuda::device_properties(index)?;
//!     println!("{}: {} bytes", properties.name, properties.total_memory);
//! }
//! # Ok(())
//! # }
//! ```

mod blas;
mod caches;
pub mod caching;
mod channels;
mod compile;
mod cudnn;
mod device;
mod disk_cache;
mod driver;
mod driver_memory;
mod event;
mod failure;
mod fallback;
mod flat_launch;
mod fused;
mod generator;
#[allow(
    missing_docs,
    clippy::all,
    clippy::undocumented_unsafe_blocks,
    clippy::too_many_lines,
    unused,
    reason = "generated"
)]
mod generated {
    include!(concat!(env!("OUT_DIR"), "/generated.rs"));
}
mod graph;
mod host_memory;
mod image;
mod indexing;
mod joint;
mod joint_reduction;
mod kernel;
mod kernel_pack;
pub mod kernels;
mod launch;
mod marks;
mod memory;
mod memory_api;
mod operands;
mod pointwise;
mod reduction;
mod sampling;
mod selection;
mod sleep;
mod sorting;
mod stream;
mod stream_order;
mod strided_loop;
mod text;
mod unique_rows;

use corten_core::{DeviceType, Result, set_allocator};

pub use blas::{
    Reduction, allow_half_sums, allow_tf32, check_cublaslt, current_blas_handle, half_sums_allowed,
    only_warn_of_determinism, reduction as split_reduction, set_reduction as set_split_reduction,
    tf32_allowed, use_cublaslt,
};
pub use caches::{DeviceCache, PinnedCache};
pub use cudnn::{CudnnSettings, cudnn_settings, cudnn_version, set_cudnn};
pub use device::{
    DeviceGuard, Properties, bind, can_device_access_peer, check_driver, current_device,
    device_count, device_properties, driver_version, has_primary_context, initialize,
    is_in_bad_fork, is_initialized, mem_get_info, set_device, synchronize,
};
pub use driver::{is_driver_started, set_library_directories, set_library_search};
pub use event::Event;
pub use failure::{FailureReport, report_failure};
pub use generator::{default_generator, manual_seed, manual_seed_all, new_generator};
pub use graph::{CaptureMode, Graph, Graph as CudaGraph, new_pool};
pub use host_memory::{
    close_ipc_memory, device_of_address, ipc_memory_handle, mapped, open_ipc_memory, profiler,
    register_host, unregister_host,
};
pub use memory::{
    device_memory, is_caching, is_pinned, pinned_memory, pinned_storage, record_stream, set_caching,
};
pub use memory_api::{
    empty_cache, is_available, is_tensor_pinned, max_memory_allocated, memory_allocated,
    memory_reserved, memory_stats, pin_memory, reset_peak_memory_stats,
};
pub use sleep::sleep;
pub use stream::{Stream, StreamGuard, set_sync_debug_mode, sync_debug_mode};

/// Registers the allocator of CUDA devices and their kernels. Nothing of CUDA is loaded.
///
/// # Errors
/// When the device takes no iterator kernels.
pub fn init() -> Result<()> {
    static ALLOCATOR: memory::CudaAllocator = memory::CudaAllocator;
    set_allocator(DeviceType::Cuda, &ALLOCATOR, 0);
    corten_core::set_device_generators(default_generator);
    corten_ops::profiler::set_device_marker(marks::mark);
    corten_core::set_device_streams(&stream_order::CudaStreams);
    corten_core::set_pinned_allocator(pinned_storage);
    corten_ops::set_joint_launches(&joint::Lists);
    corten_ops::device_groups::set_device_groups(&fused::Groups);
    fallback::register();
    generated::register()
}

//! The CUDA back end: nothing of CUDA is linked, and nothing of it is loaded before the first use.

mod blas;
mod caches;
pub mod caching;
mod channels;
mod compile;
mod device;
mod disk_cache;
mod driver;
mod driver_memory;
mod event;
mod failure;
mod fallback;
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
mod indexing;
mod kernel;
pub mod kernels;
mod launch;
mod memory;
mod operands;
mod pointwise;
mod reduction;
mod selection;
mod sorting;
mod stream;
mod strided_loop;
mod text;

use corten_core::{DeviceType, Result, set_allocator};

pub use blas::{
    Reduction, allow_half_sums, allow_tf32, check_cublaslt, current_blas_handle, half_sums_allowed,
    only_warn_of_determinism, reduction as split_reduction, set_reduction as set_split_reduction,
    tf32_allowed, use_cublaslt,
};
pub use caches::{DeviceCache, PinnedCache};
pub use device::{
    DeviceGuard, Properties, can_device_access_peer, check_driver, current_device, device_count,
    device_properties, driver_version, has_primary_context, initialize, is_in_bad_fork,
    is_initialized, mem_get_info, set_device, synchronize,
};
pub use driver::{set_library_directories, set_library_search};
pub use event::Event;
pub use generator::{default_generator, manual_seed_all, new_generator};
pub use graph::{CaptureMode, Graph, new_pool};
pub use memory::{device_memory, is_pinned, pinned_memory, pinned_storage, record_stream};
pub use stream::{Stream, StreamGuard};

/// Registers the allocator of CUDA devices and their kernels. Nothing of CUDA is loaded.
///
/// # Errors
/// When the device takes no iterator kernels.
pub fn init() -> Result<()> {
    static ALLOCATOR: memory::CudaAllocator = memory::CudaAllocator;
    set_allocator(DeviceType::Cuda, &ALLOCATOR, 0);
    corten_core::set_device_generators(default_generator);
    corten_core::set_pinned_allocator(pinned_storage);
    fallback::register();
    generated::register()
}

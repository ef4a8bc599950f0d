//! The representation: dtypes, storage, geometry, dispatch keys, generators. Knows no operator.

pub mod access;
pub mod allocator;
pub mod clock;
pub mod config;
mod data_ptr;
mod determinism;
mod device;
mod device_streams;
mod dtype;
mod error;
mod fast_paths;
mod fork;
pub mod generator;
pub mod geometry;
pub mod keys;
mod layout;
#[cfg(all(unix, feature = "mmap"))]
pub mod mapped;
mod options;
mod quantizer;
mod refcount;
mod scalar;
mod storage;
mod sync;
mod tensor;
pub mod tls;

pub use access::{
    Access, AccessSet, Blocks, BriefCell, ElementIndex, LeadingRows, PackedTensorAccessor,
    PackedTensorAccessorMut, Reader, TensorAccessor, TensorAccessorMut, WantedBlock, Writer,
};
pub use allocator::{
    Allocator, MemoryStats, check_memory, empty_cache, get_allocator, memory_stats, pinned_storage,
    reset_peak_memory_stats, set_allocator, set_pinned_allocator, try_collect, try_extend,
    try_push, try_reserve, try_resize, try_to_vec, try_vec, try_with_capacity, unwinding,
};
pub use data_ptr::{DataPtr, Deleter, FreeContext};
pub use determinism::{
    are_deterministic_algorithms_enabled, fill_uninitialized_memory, set_fill_uninitialized_memory,
    use_deterministic_algorithms,
};
pub use device::{Device, DeviceType};
pub use device_streams::{DeviceStream, DeviceStreams, device_streams, set_device_streams};
pub use dtype::{
    Complex, DType, Element, F8E4M3FN, F8E4M3FNUZ, F8E5M2, F8E5M2FNUZ, F8E8M0FNU, FloatLimits,
    ResultTypeState, bf16, can_cast, cast, casts_by_category, default_complex_dtype, default_dtype,
    f16, not_implemented_for, promote_types, set_default_dtype,
};
pub use error::{
    Error, ErrorKind, Result, WarningHandler, is_first_warning, set_warn_always,
    set_warning_handler, warn, warn_once,
};
pub use fast_paths::{fast_paths, set_fast_paths};
pub use generator::{
    DEFAULT_SEED, Generator, GeneratorGuard, PhiloxState, default_cpu_generator, default_generator,
    manual_seed, philox, set_device_generators,
};
pub use geometry::Dims;
pub use keys::{
    ADINPLACEORVIEW, AUTOCAST_KEYS, AUTOGRAD_KEYS, Backend, DEFERRED, DispatchKey, KeySet, NAMED,
    NUM_RUNTIME_KEYS,
};
pub use layout::{Layout, MemoryFormat};
pub use options::TensorOptions;
pub use quantizer::{QScheme, Quantizer};
pub use refcount::{
    IntrusivePtr, Make, PyHooks, PyObject, Ready, RefCount, RefCounted, Shared, Unshared, WeakPtr,
    WeakShared, make_boxed, set_py_hooks,
};
pub use scalar::Scalar;
pub use storage::{
    Deferred, DeferredFlush, LentMemory, Materialise, Programs, Storage, StorageImpl, WeakStorage,
    flush_deferred, run_programs, set_deferred_flush,
};
pub use tensor::{
    AutogradMeta, AutogradMetaFactory, BackendMeta, CompressedParts, CooParts, DimName, ExtraMeta,
    FullView, Geometry, Lazy, ShapePolicy, ShownNames, SparseParts, SymbolicShape, TensorBase,
    TensorImpl, VersionCounter, ViewMetaFactory, WeakTensor, check_name, check_unique_names,
    names_in_use, set_autograd_meta_factories, set_keep_on_shrink,
};
pub use tls::{
    BelowADInplaceOrViewGuard, BelowAutogradGuard, ExcludeGuard, GradModeGuard, IncludeGuard,
    InferenceModeGuard, below_adinplaceorview, below_adinplaceorview_from, grad_mode_enabled,
    inference_mode_enabled, set_grad_mode,
};

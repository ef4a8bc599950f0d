//! `corten._C`: the Python module.
//!
//! The binding converts and calls; it holds no logic of its own. Operators are published from the
//! registry ([`functions`]), arguments are matched by tables ([`args`]), and everything else is one
//! file per concern. See Note [Why not PyO3's object types] in `py/mod.rs`.
#![allow(missing_docs, reason = "the only public item is the module's entry point")]
#![allow(non_snake_case, reason = "Python looks for this name")]

#[cfg(not(corten_sanitize))]
mod allocator;
mod args;
mod autocast;
mod autograd;
mod blocks;
mod call_form;
mod compile;
mod creation;
#[cfg(feature = "cuda")]
mod cuda;
mod dist;
mod dlpack;
mod files;
mod functions;
mod global_settings;
mod host_memory;
mod keys;
mod lent;
mod library;
mod modes;
mod module;
mod numpy;
mod ops_list;
mod overrides;
mod printing;
mod py;
mod shared;
mod stable;
mod storage;
mod symbolic;
mod tensor;
mod types;
mod warnings;

use py::{Obj, Py, ffi, method};

// A sanitizer must see every block, and mimalloc has an allocator of its own.
#[cfg(not(corten_sanitize))]
#[global_allocator]
static ALLOCATOR: allocator::Allocator = allocator::Allocator;

/// The entry point that Python looks up by name.
///
/// # Safety
/// Called by the interpreter when the module is imported.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PyInit__C() -> *mut ffi::PyObject {
    py::call::guard(|| {
        py::call::install_panic_hook();
        py::gil::init();
        warnings::init();
        stable::init();
        corten::init()?;
        let module = create()?;
        fill(&module)?;
        Ok(module)
    })
}

/// An empty module.
fn create() -> Py<Obj> {
    let definition = ffi::PyModuleDef {
        m_base: ffi::PyModuleDef_HEAD_INIT,
        m_name: c"corten._C".as_ptr(),
        m_doc: c"The native half of corten.".as_ptr(),
        m_size: -1,
        m_methods: module_functions().leak().as_mut_ptr(),
        m_slots: std::ptr::null_mut(),
        m_traverse: None,
        m_clear: None,
        m_free: None,
    };
    let definition = Box::leak(Box::new(definition));
    // SAFETY: the definition and its table are leaked, as the C API wants them to outlive modules.
    unsafe { Obj::owned(ffi::PyModule_Create2(definition, ffi::PYTHON_API_VERSION)) }
}

/// The functions written by hand.
fn module_functions() -> Vec<ffi::PyMethodDef> {
    let mut rows = Vec::new();
    rows.extend(autocast::functions());
    rows.extend(autograd::functions());
    rows.extend(blocks::functions());
    rows.extend(compile::functions());
    rows.extend(creation::functions());
    #[cfg(feature = "cuda")]
    rows.extend(cuda::functions());
    rows.extend(dist::functions());
    rows.extend(dlpack::functions());
    rows.extend(files::functions());
    rows.extend(lent::functions());
    rows.extend(keys::functions());
    rows.extend(library::functions());
    rows.extend(global_settings::functions());
    rows.extend(host_memory::functions());
    rows.extend(modes::functions());
    rows.extend(module::functions());
    rows.extend(numpy::functions());
    rows.extend(ops_list::functions());
    rows.extend(overrides::functions());
    rows.extend(printing::functions());
    rows.extend(shared::functions());
    rows.extend(stable::functions());
    rows.extend(storage::functions());
    rows.extend(symbolic::functions());
    rows.extend(tensor::functions());
    rows.extend(types::generator::functions());
    rows.push(method!("_operator", functions::lookup));
    // SAFETY: an all-zero row ends the table.
    rows.push(unsafe { std::mem::zeroed() });
    rows
}

fn fill(module: &Obj) -> Py<()> {
    types::dtype::add_to(module)?;
    types::device::add_to(module)?;
    types::layout::add_to(module)?;
    types::size::add_to(module)?;
    types::finfo::add_to(module)?;
    types::generator::add_to(module)?;
    storage::add_to(module)?;
    dist::add_to(module)?;
    lent::add_to(module)?;
    files::add_to(module)?;
    #[cfg(feature = "cuda")]
    cuda::add_to(module)?;
    module::add_to(module)?;
    autograd::add_to(module)?;
    tensor::add_to(module)?;
    functions::add_to(module)?;
    add_exceptions(module)?;
    module.set_attr_str(c"_is_debug", &Obj::bool(cfg!(debug_assertions)))?;
    module.set_attr_str(c"__version__", &Obj::str_from(env!("CARGO_PKG_VERSION"))?)
}

fn add_exceptions(module: &Obj) -> Py<()> {
    let memory = py::errors::new_exception(
        &py::errors::OUT_OF_MEMORY,
        c"corten.OutOfMemoryError",
        c"Memory could not be allocated.",
        None,
    )?;
    module.set_attr_str(c"OutOfMemoryError", &memory)?;
    let accelerator = py::errors::new_exception(
        &py::errors::ACCELERATOR,
        c"corten.AcceleratorError",
        c"A device reported an error, whose number is `error_code`.",
        None,
    )?;
    module.set_attr_str(c"AcceleratorError", &accelerator)?;
    let linalg = py::errors::new_exception(
        &py::errors::LINALG,
        c"corten._C._LinAlgError",
        c"A matrix for which a function of linear algebra has no result.",
        None,
    )?;
    module.set_attr_str(c"_LinAlgError", &linalg)?;
    let device = py::errors::new_exception(
        &py::errors::NO_DEVICE,
        c"corten._C._DeviceError",
        c"A device that this build or this machine does not have.",
        Some(&py::errors::device_error_bases()?),
    )?;
    module.set_attr_str(c"_DeviceError", &device)
}

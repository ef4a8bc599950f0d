//! Devices: their number, the current one, properties, memory, generators.

use super::device_index;
use crate::args::parser;
use crate::py::gil::detach;
use crate::py::{Args, Obj, Py, ffi, method};
use crate::types;
use corten::cuda;

/// The functions of the module.
pub(super) fn functions() -> Vec<ffi::PyMethodDef> {
    vec![
        method!("_cuda_getDeviceCount", |_m: &Obj, _a: Args<'_>| Obj::int(
            cuda::device_count() as i64
        )),
        method!("_cuda_isInBadFork", |_m: &Obj, _a: Args<'_>| Ok(
            Obj::bool(cuda::is_in_bad_fork())
        )),
        method!("_cuda_hasContext", |_m: &Obj, _a: Args<'_>| Ok(Obj::bool(
            cuda::is_initialized() && !cuda::is_in_bad_fork()
        ))),
        method!("_cuda_isStarted", |_m: &Obj, _a: Args<'_>| Ok(Obj::bool(
            cuda::is_driver_started()
        ))),
        method!("_cuda_init", |_m: &Obj, _a: Args<'_>| {
            cuda::check_driver()?;
            cuda::initialize(-1)?;
            Ok(Obj::none())
        }),
        method!("_cuda_checkDriver", |_m: &Obj, _a: Args<'_>| {
            cuda::check_driver()?;
            Ok(Obj::none())
        }),
        method!("_cuda_getDriverVersion", |_m: &Obj, _a: Args<'_>| Obj::int(
            cuda::driver_version()?.into()
        )),
        method!("_cuda_getDevice", |_m: &Obj, _a: Args<'_>| Obj::int(
            cuda::current_device().into()
        )),
        method!("_cuda_setDevice", set_device),
        method!("_cuda_exchangeDevice", exchange_device),
        method!("_cuda_maybeExchangeDevice", maybe_exchange_device),
        method!("_cuda_hasPrimaryContext", has_primary_context),
        method!("_cuda_getDeviceProperties", properties),
        method!("_cuda_canDeviceAccessPeer", can_access_peer),
        method!("_cuda_memGetInfo", memory_info),
        method!("_cuda_synchronize", synchronize),
        method!("_cuda_getDefaultGenerator", default_generator),
        method!("_cuda_manualSeedAll", |_m: &Obj, args: Args<'_>| {
            let bound = parser!("_cuda_manualSeedAll(any seed)").parse(None, args)?;
            cuda::manual_seed_all(types::generator::seed_from(bound.object(0)?)?);
            Ok(Obj::none())
        }),
    ]
}

fn set_device(_module: &Obj, args: Args<'_>) -> Py<Obj> {
    let bound = parser!("_cuda_setDevice(int device)").parse(None, args)?;
    cuda::set_device(device_index(bound.int(0)?)?)?;
    cuda::initialize(-1)?;
    Ok(Obj::none())
}

/// Makes a device current and gives the one that was; a negative index changes nothing and gives -1.
fn exchange_device(_module: &Obj, args: Args<'_>) -> Py<Obj> {
    let bound = parser!("_cuda_exchangeDevice(int device)").parse(None, args)?;
    let index = device_index(bound.int(0)?)?;
    if index < 0 {
        return Obj::int(-1);
    }
    let before = cuda::set_device(index)?;
    cuda::initialize(index)?;
    Obj::int(before.into())
}

/// As [`exchange_device`], without making a context.
fn maybe_exchange_device(_module: &Obj, args: Args<'_>) -> Py<Obj> {
    let bound = parser!("_cuda_maybeExchangeDevice(int device)").parse(None, args)?;
    let index = device_index(bound.int(0)?)?;
    if index < 0 {
        return Obj::int(-1);
    }
    Obj::int(cuda::set_device(index)?.into())
}

fn has_primary_context(_module: &Obj, args: Args<'_>) -> Py<Obj> {
    let bound = parser!("_cuda_hasPrimaryContext(int device)").parse(None, args)?;
    Ok(Obj::bool(cuda::has_primary_context(device_index(bound.int(0)?)?)?))
}

/// What a device is, as a dictionary. Makes no context.
fn properties(_module: &Obj, args: Args<'_>) -> Py<Obj> {
    let bound = parser!("_cuda_getDeviceProperties(int device)").parse(None, args)?;
    let found = cuda::device_properties(device_index(bound.int(0)?)?)?;
    let made = Obj::dict()?;
    let set = |name: &str, value: Py<Obj>| made.dict_set(&Obj::str_from(name)?, &value?);
    set("name", Obj::str_from(&found.name))?;
    set("total_memory", Obj::uint(found.total_memory as u64))?;
    set("is_integrated", Ok(Obj::bool(found.is_integrated)))?;
    set("is_multi_gpu_board", Ok(Obj::bool(found.is_multi_gpu_board)))?;
    set("uuid", Obj::bytes(&found.uuid))?;
    let numbers = [
        ("major", found.major),
        ("minor", found.minor),
        ("multi_processor_count", found.multi_processor_count),
        ("max_threads_per_block", found.max_threads_per_block),
        ("max_threads_per_multi_processor", found.max_threads_per_multi_processor),
        ("warp_size", found.warp_size),
        ("regs_per_multiprocessor", found.regs_per_multiprocessor),
        ("shared_memory_per_block", found.shared_memory_per_block),
        ("shared_memory_per_block_optin", found.shared_memory_per_block_optin),
        ("shared_memory_per_multiprocessor", found.shared_memory_per_multiprocessor),
        ("L2_cache_size", found.l2_cache_size),
        ("clock_rate", found.clock_rate),
        ("memory_clock_rate", found.memory_clock_rate),
        ("memory_bus_width", found.memory_bus_width),
        ("pci_domain_id", found.pci_domain_id),
        ("pci_bus_id", found.pci_bus_id),
        ("pci_device_id", found.pci_device_id),
    ];
    for (name, number) in numbers {
        set(name, Obj::int(number.into()))?;
    }
    Ok(made)
}

fn can_access_peer(_module: &Obj, args: Args<'_>) -> Py<Obj> {
    let bound = parser!("_cuda_canDeviceAccessPeer(int device, int peer)").parse(None, args)?;
    let (device, peer) = (device_index(bound.int(0)?)?, device_index(bound.int(1)?)?);
    Ok(Obj::bool(cuda::can_device_access_peer(device, peer)?))
}

/// Free and total bytes.
fn memory_info(_module: &Obj, args: Args<'_>) -> Py<Obj> {
    let bound = parser!("_cuda_memGetInfo(int device)").parse(None, args)?;
    let (free, total) = cuda::mem_get_info(device_index(bound.int(0)?)?)?;
    Obj::tuple([Obj::uint(free as u64), Obj::uint(total as u64)])
}

fn synchronize(_module: &Obj, args: Args<'_>) -> Py<Obj> {
    let bound = parser!("_cuda_synchronize(int device=-1)").parse(None, args)?;
    let index = device_index(bound.int(0)?)?;
    detach(|| cuda::synchronize(index))?;
    Ok(Obj::none())
}

fn default_generator(_module: &Obj, args: Args<'_>) -> Py<Obj> {
    let bound = parser!("_cuda_getDefaultGenerator(int device)").parse(None, args)?;
    types::generator::object(cuda::default_generator(device_index(bound.int(0)?)?)?)
}
